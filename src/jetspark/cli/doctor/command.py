"""`jetspark doctor`: what its commands are called with; the store is loaded when one runs."""

from pathlib import Path

import click


class DoctorGroup(click.Group):
    """A group whose first word may be a folder: then it is checked."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``check`` in front of what is no command."""
        words = [word for word in args if not word.startswith("-")]
        asks_help = {"-h", "--help"} & set(args[:1])
        if args and not asks_help and (not words or words[0] not in self.commands):
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DoctorGroup, context_settings={"help_option_names": ["-h", "--help"]})
def doctor() -> None:
    """Check, repair and export a store that no server uses.

    DIR is the folder that `jetspark serve -js -sd DIR` has. Stop the server first: a store that
    is in use is refused. `check` reads every record of every stream and changes nothing; `repair`
    copies damaged bytes aside and makes anew what can be made anew; `export` writes the messages
    of one stream as lines of JSON, with what could not be read; `drop-consumer` takes a consumer
    that cannot be served out of its stream; `clock` says which streams have times ahead of the
    clock of this machine, and sets them back.

    \b
    Examples:
      jetspark doctor ./jetspark-data
      jetspark doctor check ./jetspark-data --json
      jetspark doctor repair ./jetspark-data
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson

    \b
    Exit codes:
      0  nothing new: healthy, or only damage that was copied aside before, which is shown with
         what it cost
      1  something to look at: damage, a second folder of a stream, files that are none of a
         store, or times that are far ahead of the clock
      2  something cannot be read at all: the folder, the lock, a stream
    """


# Whether it can be read is found out by reading it, and reported with what to do.
_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
_account = click.option(
    "--account", default="", help="Its account, when several have such a stream."
)
_json = click.option("--json", "wants_json", is_flag=True, help="Write JSON, for programs.")


@doctor.command()
@_folder
@_json
def check(folder: Path, *, wants_json: bool) -> None:
    """Read every record and say what is damaged; nothing is changed.

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
    """Copy damaged bytes aside and make anew what can be made anew.

    Manifests and index files are written again. Damaged bytes are kept in the folder
    `quarantine` of their stream, with a line of JSON that says where they were. No record that
    checks is ever left out. A second `check` finds nothing new, and shows what was lost.

    \b
    Example:
      jetspark doctor repair ./jetspark-data
    """
    from jetspark.cli.doctor.examination import repair_store

    repair_store(folder, wants_json=wants_json)


@doctor.command()
@_folder
@click.option("--mend", is_flag=True, help="Set back the times that are ahead.")
@_json
def clock(folder: Path, *, mend: bool, wants_json: bool) -> None:
    """Say which streams have times ahead of the clock of this machine, and set them back.

    The times of a stream never decrease: one that was written while the clock was wrong, or that
    came in such a backup, stays ahead. Ages and TTLs count the time that passes all the same; what
    is off are the dates that clients see. Set the clock of the machine first. With --mend the
    newest message gets the time of now, and those that were ahead too keep their distance to it.

    \b
    Examples:
      jetspark doctor clock ./jetspark-data
      jetspark doctor clock ./jetspark-data --mend
    """
    from jetspark.cli.doctor.examination import check_clock

    check_clock(folder, mend=mend, wants_json=wants_json)


@doctor.command(short_help="Write the messages of one stream as lines of JSON.")
@_folder
@click.option("--stream", "name", required=True, help="The stream to export.")
@_account
@click.option(
    "--folder",
    "stream_folder",
    default="",
    metavar="NAME",
    help="Its folder, when several have this stream, such as stream-0123456789abcdef.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The file to write; - is the standard output. One that exists is refused.",
)  # fmt: skip
def export(folder: Path, *, name: str, account: str, stream_folder: str, out: Path) -> None:
    """Write the messages of one stream as lines of JSON; nothing in the store is changed.

    A line has seq, time, subject, headers and data (base64). What could not be read is listed
    behind the messages, in lines with the key "unreadable".

    \b
    Examples:
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson
      jetspark doctor export ./jetspark-data --stream KV_cfg --out - | jq .subject
    """
    from jetspark.cli.doctor.examination import export_stream

    export_stream(folder, name, account, stream_folder, out)


@doctor.command("drop-consumer", short_help="Take a consumer that cannot be served out.")
@_folder
@click.option("--stream", "name", required=True, help="The stream of the consumer.")
@_account
@click.option("--consumer", default="", help="The consumer to drop, by its name.")
@click.option("--number", type=int, help="The consumer to drop, where its name cannot be read.")
def drop_consumer(
    folder: Path, *, name: str, account: str, consumer: str, number: int | None
) -> None:
    """Delete a consumer that a server cannot serve; its records are kept aside.

    `check` and the log of the server say which consumers these are. The stream forgets the
    consumer as if a client had deleted it, and /healthz is ok again. What the store had of it is
    written to the folder `quarantine` of the stream first, as JSON. A stream that keeps messages
    as long as consumers need them may remove what this one had not received: create the consumer
    that takes its place before, under another name.

    \b
    Examples:
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --consumer billing
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --number 3
    """
    if bool(consumer) == (number is not None):
        raise click.UsageError("say --consumer NAME or --number N, one of them")
    from jetspark.cli.doctor.examination import drop_from_stream

    drop_from_stream(folder, name, account, consumer, number)
