"""`jetspark doctor`: the command line; the store is loaded when a command runs."""

from pathlib import Path

import click


class DoctorGroup(click.Group):
    """A group whose first argument may be a folder: then it is checked."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``check`` if the first argument is no command."""
        words = [word for word in args if not word.startswith("-")]
        asks_help = {"-h", "--help"} & set(args[:1])
        if args and not asks_help and (not words or words[0] not in self.commands):
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DoctorGroup, context_settings={"help_option_names": ["-h", "--help"]})
def doctor() -> None:
    """Check, repair and export a store that no server uses.

    DIR is the store directory of `jetspark serve -js -sd DIR`. Stop the server first: the command
    refuses a store that is in use. `check`, the default, reads every record of every stream and
    changes nothing; `repair` quarantines damaged bytes and rebuilds what can be rebuilt; `export`
    writes the messages of one stream as lines of JSON, and lists what it could not read;
    `drop-consumer` deletes a consumer that a server cannot serve; `clock` lists streams with times
    ahead of the clock of this machine, and corrects them with --repair.

    \b
    Examples:
      jetspark doctor ./jetspark-data
      jetspark doctor check ./jetspark-data --json
      jetspark doctor repair ./jetspark-data
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson

    \b
    Exit codes:
      0  nothing new: healthy, or only damage that was quarantined before, which
         is shown with the lost messages
      1  needs attention: damage, a second folder of a stream, files that do not
         belong to a store, or times that are far ahead of the clock
      2  something cannot be read at all: the folder, the lock, a stream
    """


# Whether it is readable is determined by reading it, and reported with what to do.
_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
_account = click.option(
    "--account", default="", help="Account of the stream, if several have one of this name."
)
_json = click.option("--json", "wants_json", is_flag=True, help="Print JSON.")


@doctor.command()
@_folder
@_json
def check(folder: Path, *, wants_json: bool) -> None:
    """Read every record and report damage; nothing is changed.

    \b
    Example:
      jetspark doctor check ./jetspark-data
    """
    from jetspark.cli.doctor.examination import check_store

    check_store(folder, wants_json=wants_json)


@doctor.command()
@_folder
@_json
def repair(folder: Path, *, wants_json: bool) -> None:
    """Quarantine damaged bytes and rebuild what can be rebuilt.

    Manifests and index files are written again. Damaged bytes are kept in the folder
    `quarantine` of their stream, with a line of JSON that says where they were. No valid
    record is ever dropped. A second `check` finds nothing new, and shows what was lost.

    \b
    Example:
      jetspark doctor repair ./jetspark-data
    """
    from jetspark.cli.doctor.examination import repair_store

    repair_store(folder, wants_json=wants_json)


@doctor.command()
@_folder
@click.option("--repair", is_flag=True, help="Correct the times that are ahead.")
@_json
def clock(folder: Path, *, repair: bool, wants_json: bool) -> None:
    """List streams with times ahead of the clock of this machine; --repair corrects them.

    The times of a stream never decrease: a stream that was written while the clock was wrong,
    or restored from such a backup, stays ahead. Ages and TTLs still measure elapsed time; only
    the dates that clients see are wrong. Set the clock of the machine first. With --repair the
    newest message gets the current time, and others that were ahead keep their distance to it.

    \b
    Examples:
      jetspark doctor clock ./jetspark-data
      jetspark doctor clock ./jetspark-data --repair
    """
    from jetspark.cli.doctor.examination import check_clock

    check_clock(folder, repair=repair, wants_json=wants_json)


@doctor.command(short_help="Write the messages of one stream as lines of JSON.")
@_folder
@click.option("--stream", "name", required=True, help="Stream to export.")
@_account
@click.option(
    "--folder",
    "stream_folder",
    default="",
    metavar="NAME",
    help="Folder of the stream, if several have it, such as stream-0123456789abcdef.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write, which must not exist; - is standard output.",
)  # fmt: skip
def export(folder: Path, *, name: str, account: str, stream_folder: str, out: Path) -> None:
    """Write the messages of one stream as lines of JSON; nothing in the store is changed.

    A line has seq, time, subject, headers and data (base64). What could not be read is listed
    after the messages, in lines with the key "unreadable".

    \b
    Examples:
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson
      jetspark doctor export ./jetspark-data --stream KV_cfg --out - | jq .subject
    """
    from jetspark.cli.doctor.examination import export_stream

    export_stream(folder, name, account, stream_folder, out)


@doctor.command("drop-consumer", short_help="Delete a consumer that cannot be served.")
@_folder
@click.option("--stream", "name", required=True, help="Stream of the consumer.")
@_account
@click.option("--consumer", default="", help="Name of the consumer to delete.")
@click.option(
    "--number", type=int, help="Its number (the id in `check`), if its name cannot be read."
)
def drop_consumer(
    folder: Path, *, name: str, account: str, consumer: str, number: int | None
) -> None:
    """Delete a consumer that a server cannot serve; its records are quarantined.

    `check` and the log of the server name these consumers. The stream forgets the
    consumer as if a client had deleted it, and /healthz is ok again. Its state is first
    written to the folder `quarantine` of the stream, as JSON. A stream that keeps messages
    as long as consumers need them may remove messages that this one had not received: create
    its replacement before, under another name.

    \b
    Examples:
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --consumer billing
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --number 3
    """
    if bool(consumer) == (number is not None):
        raise click.UsageError("give either --consumer NAME or --number N")
    from jetspark.cli.doctor.examination import drop_from_stream

    drop_from_stream(folder, name, account, consumer, number)
