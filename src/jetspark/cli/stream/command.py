"""`jetspark stream`: the command line; the client is loaded when a command runs."""

from pathlib import Path

import click

from jetspark.cli.cluster.command import stream_cluster
from jetspark.cli.commands import Group
from jetspark.cli.completion.names import stream_names
from jetspark.cli.connection import ConnectionSettings, connection_options
from jetspark.cli.quantities import COUNT, DURATION, MOMENT, REPLICAS, SEQUENCE, SIZE, Whole
from jetspark.cli.stream.config_options import config_options

_json = click.option("-j", "--json", "wants_json", is_flag=True, help="Print a summary as JSON.")
_name = click.argument("name", metavar="STREAM", shell_complete=stream_names)
_force = click.option("-f", "--force", is_flag=True, help="Do not ask.")
_file = click.Path(path_type=Path, exists=True, dir_okay=False)
_all = click.option(
    "-a", "--all", "every", is_flag=True, help="Also streams of buckets and object stores."
)
_raw = click.option("--raw", is_flag=True, help="Only the payloads.")
_translate = click.option(
    "--translate", default="", metavar="COMMAND",
    help="Show what this command makes of a payload, which it gets as standard input.",
)  # fmt: skip
_start = click.option("--id", "seq", type=SEQUENCE, metavar="SEQUENCE", help="First message.")
_since = click.option(
    "--since", type=MOMENT, help="Time (2026-11-15T12:00:00Z) or age (2h30m) of the first message."
)
_filter = click.option("--subject", default="", help="Only messages of this subject.")


@click.group(cls=Group, aliases=("str", "st", "s"))
def stream() -> None:
    """Manage streams: create, look into, change, back up, export.

    All commands work with any server, jetspark or nats-server.

    \b
    Examples:
      jetspark stream add ORDERS --subjects 'orders.>'
      jetspark stream ls
      jetspark stream view ORDERS
      jetspark stream edit ORDERS --max-age 7d --dry-run
      jetspark stream export ORDERS orders.parquet
    """


stream.add_command(stream_cluster, "cluster")


@stream.remote("ls", "jetspark.cli.stream.inspecting:list_streams", aliases=("list", "l"))
@click.option("--subject", default="", help="Only streams that store this subject.")
@click.option("-n", "--names", is_flag=True, help="Only the names.")
@_all
def _ls() -> None:
    """List streams.

    \b
    Examples:
      jetspark stream ls
      jetspark stream ls --subject orders.new --names
      jetspark stream ls --json | jq '.[].config.name'
    """


@stream.remote("add", "jetspark.cli.stream.configuring:add_stream", aliases=("create", "new"))
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--config", type=_file, help="Configuration in a JSON or YAML file.")
@click.option("--validate", is_flag=True, help="Only check the configuration.")
@click.option(
    "--output", "save", type=click.Path(path_type=Path), metavar="FILE",
    help="Save the configuration in a file instead of creating the stream.",
)  # fmt: skip
@click.option("--defaults", is_flag=True, help="Ask nothing; the subject is the name.")
@config_options(edit=False)
def _add() -> None:
    """Create a stream.

    Settings that are not given have the defaults of the server: file storage, no limits. A file
    has the fields of `stream info --json`; options override it.

    \b
    Examples:
      jetspark stream add ORDERS --subjects 'orders.>'
      jetspark stream add LOGS --subjects 'logs.*' --max-age 7d --max-bytes 10GB
      jetspark stream add JOBS --subjects jobs --retention work --discard new
      jetspark stream add COPY --mirror ORDERS
      jetspark stream add --config orders.yaml
    """


@stream.remote("info", "jetspark.cli.stream.inspecting:stream_info", aliases=("nfo", "i"))
@_name
@click.option("--state", is_flag=True, help="Only the state, not the configuration.")
def _info() -> None:
    """Show the configuration and state of a stream.

    \b
    Examples:
      jetspark stream info ORDERS
      jetspark stream info ORDERS --json | jq .state.messages
    """


@stream.remote("state", "jetspark.cli.stream.inspecting:stream_state")
@_name
def _state() -> None:
    """Show the state of a stream: messages, bytes, sequences.

    \b
    Example:
      jetspark stream state ORDERS
    """


@stream.remote("subjects", "jetspark.cli.stream.inspecting:stream_subjects", aliases=("subj",))
@_name
@click.argument("subject", metavar="[FILTER]", default=">")
@click.option(
    "--sort", type=click.Choice(("name", "subjects", "messages", "count")), default="messages",
    show_default=True, help="The order.",
)  # fmt: skip
@click.option("-R", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("--names", is_flag=True, help="Only the subjects, without counts.")
def _subjects() -> None:
    """List the subjects that a stream holds, with the messages of each.

    \b
    Examples:
      jetspark stream subjects ORDERS
      jetspark stream subjects ORDERS 'orders.eu.*' --names
    """


@stream.remote("report", "jetspark.cli.stream.inspecting:stream_report")
@click.option("--subject", default="", help="Only streams that store this subject.")
@click.option("--cluster", default="", help="Only streams of this cluster.")
@click.option(
    "-o", "--consumers", "order", flag_value="consumers", help="Sort by number of consumers."
)
@click.option("-m", "--messages", "order", flag_value="messages", help="Sort by messages.")
@click.option("-n", "--name", "order", flag_value="name", help="Sort by name.")
@click.option("-t", "--storage", "order", flag_value="storage", help="Sort by storage.")
@click.option(
    "--bytes", "order", flag_value="bytes", default=True, help="Sort by size: the default."
)
@click.option("-r", "--raw", is_flag=True, help="Numbers without separators and units.")
@click.option("-l", "--leaders", is_flag=True, help="Also the number of streams by leader.")
@click.option(
    "--dot", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a GraphViz graph of mirrors and sources.",
)  # fmt: skip
@_all
def _report() -> None:
    """Compare all streams: messages, sizes, replicas, mirrors and sources.

    \b
    Examples:
      jetspark stream report
      jetspark stream report --messages --all
    """


@stream.remote("find", "jetspark.cli.finding:find_streams", aliases=("query",))
@click.option("--server-name", default="", metavar="REGEX", help="Streams on such a server.")
@click.option("--cluster", default="", metavar="REGEX", help="Streams in such a cluster.")
@click.option("--empty", is_flag=True, help="Streams without messages.")
@click.option(
    "--idle",
    type=DURATION,
    help="Streams without a new message or a delivery for longer than this: 1h, 7d.",
)
@click.option("--created", type=DURATION, help="Streams that were created longer ago than this.")
@click.option("--consumers", type=COUNT, help="Streams with fewer consumers than this.")
@click.option("--subject", default="", help="Streams that store this subject or wildcard.")
@click.option("--replicas", type=REPLICAS, help="Streams with this many replicas or fewer.")
@click.option("--sourced", is_flag=True, help="Streams that have sources.")
@click.option("--mirrored", is_flag=True, help="Streams that are mirrors.")
@click.option("--leader", default="", metavar="SERVER", help="Streams that this server leads.")
@click.option("--api-level", type=COUNT, help="Streams that need at least this API level.")
@click.option("--invert", is_flag=True, help="Streams for which each condition is false.")
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _find() -> None:
    """Find streams that meet conditions: all of those given.

    Streams of buckets and object stores are found too.

    \b
    Examples:
      jetspark stream find --empty --created 7d
      jetspark stream find --idle 30d --names
      jetspark stream find --consumers 1 --invert
    """


@stream.remote("gaps", "jetspark.cli.stream.gaps:find_gaps")
@_name
@_force
@click.option("--progress/--no-progress", default=True, help="Show a progress bar.")
def _gaps() -> None:
    """List the sequences between the first and the last message that hold none.

    Reads the whole stream, without payloads.

    \b
    Examples:
      jetspark stream gaps ORDERS
      jetspark stream gaps ORDERS --force --json
    """


@stream.remote("graph", "jetspark.cli.graphs:graph_stream", endless=True)
@_name
@click.option("--count", type=COUNT, default=0, help="End after this many seconds.")
def _graph() -> None:
    """Draw the messages per second and the messages of a stream, until interrupted.

    Needs a terminal; --ndjson prints the numbers instead, a line per second.

    \b
    Examples:
      jetspark stream graph ORDERS
      jetspark stream graph ORDERS --count 60 --ndjson
    """


@stream.remote("edit", "jetspark.cli.stream.configuring:edit_stream", aliases=("update",))
@_name
@click.option("--config", type=_file, help="The whole configuration, in a JSON or YAML file.")
@_force
@click.option("--dry-run", is_flag=True, help="Only show what would change; exits with 1 if so.")
@config_options(edit=True)
def _edit() -> None:
    """Change the configuration of a stream.

    Shows the differences and asks before it changes anything. Only the given settings change.

    \b
    Examples:
      jetspark stream edit ORDERS --max-age 7d --dry-run
      jetspark stream edit ORDERS --subjects 'orders.>,returns.>' --force
      jetspark stream edit ORDERS --config orders.yaml
    """


@stream.remote("copy", "jetspark.cli.stream.configuring:copy_stream", aliases=("cp",))
@click.argument("source", shell_complete=stream_names)
@click.argument("destination")
@config_options(edit=False)
def _copy() -> None:
    """Create a stream with the configuration of another.

    Messages are not copied. Two streams cannot store the same subjects: give --subjects.

    \b
    Example:
      jetspark stream copy ORDERS TEST --subjects 'test.>'
    """


@stream.remote("rm", "jetspark.cli.stream.removing:remove_stream", aliases=("delete", "del"))
@_name
@_force
def _rm() -> None:
    """Delete a stream, its messages and its consumers.

    \b
    Examples:
      jetspark stream rm ORDERS
      jetspark stream rm ORDERS --force
    """


@stream.remote("purge", "jetspark.cli.stream.removing:purge_stream")
@_name
@click.option("--subject", default="", help="Only messages of this subject; may have wildcards.")
@click.option("--seq", type=SEQUENCE, metavar="SEQUENCE", help="Only messages before this one.")
@click.option("--keep", type=COUNT, metavar="MESSAGES", help="Keep this many of the newest.")
@_force
def _purge() -> None:
    """Remove messages of a stream.

    \b
    Examples:
      jetspark stream purge ORDERS
      jetspark stream purge ORDERS --subject orders.test --keep 10 --force
    """


@stream.remote("rmm", "jetspark.cli.stream.removing:remove_message")
@_name
@click.argument("seq", metavar="SEQUENCE", type=SEQUENCE)
@_force
def _rmm() -> None:
    """Delete one message of a stream.

    \b
    Example:
      jetspark stream rmm ORDERS 42
    """


@stream.remote("get", "jetspark.cli.stream.reading:get_message")
@_name
@click.argument("seq", metavar="[SEQUENCE]", type=SEQUENCE, required=False)
@click.option("-S", "--last-for", default="", metavar="SUBJECT", help="The last of a subject.")
@_raw
@_translate
def _get() -> None:
    """Show one message of a stream.

    \b
    Examples:
      jetspark stream get ORDERS 42
      jetspark stream get ORDERS --last-for orders.new --raw
    """


@stream.remote("view", "jetspark.cli.stream.reading:view_messages")
@_name
@click.argument("size", metavar="[PAGE SIZE]", type=Whole(1, 1000), default=10)
@_start
@_since
@_filter
@_raw
@_translate
def _view() -> None:
    """Look through the messages of a stream, page by page.

    Nothing is consumed or acknowledged. Without a terminal the first page is printed.

    \b
    Examples:
      jetspark stream view ORDERS
      jetspark stream view ORDERS 25 --since 1h --subject 'orders.eu.*'
    """


@stream.remote("cat", "jetspark.cli.stream.reading:cat_messages")
@_name
@_start
@_since
@_filter
@click.option("--count", "limit", type=COUNT, default=0, help="At most this many messages.")
@_raw
@_translate
def _cat() -> None:
    """Print the messages of a stream and end at its end.

    Nothing is consumed or acknowledged. With --ndjson the lines are those of `stream export`.

    \b
    Examples:
      jetspark stream cat ORDERS --raw
      jetspark stream cat ORDERS --subject orders.new --ndjson | jq -r .subject
    """


@stream.remote("seal", "jetspark.cli.stream.configuring:seal_stream")
@_name
@_force
def _seal() -> None:
    """Make a stream unchangeable, for ever.

    \b
    Example:
      jetspark stream seal ARCHIVE_2026
    """


@stream.remote("backup", "jetspark.cli.stream.backups:backup_stream", aliases=("snapshot",))
@_name
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--check", is_flag=True, help="The server verifies all messages first.")
@click.option(
    "--consumers/--no-consumers", default=True, show_default=True, help="Include consumers."
)
@click.option("--progress/--no-progress", default=True, help="Show a progress bar.")
@click.option("--chunk-size", type=SIZE, help="Size of the parts that the server sends: 128KB.")
def _backup() -> None:
    """Write a whole stream with its consumers to a folder.

    `stream restore` reads it, on the same kind of server; between jetspark and nats-server use
    `stream export`. A backup that is interrupted leaves no archive.

    \b
    Example:
      jetspark stream backup ORDERS backups/orders
    """


@stream.remote("restore", "jetspark.cli.stream.backups:restore_stream")
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--name", default="", metavar="STREAM", help="Another name for the stream.")
@click.option("--config", type=_file, help="Another configuration, in a JSON or YAML file.")
@click.option("--replicas", type=REPLICAS, help="Copies in a cluster.")
@click.option("--cluster", default="", help="Place it in this cluster.")
@click.option("--tag", "tags", multiple=True, help="Place it on servers with this tag.")
@click.option("--progress/--no-progress", default=True, help="Show a progress bar.")
def _restore() -> None:
    """Create a stream from a backup, with the same sequences and times.

    \b
    Example:
      jetspark stream restore backups/orders
    """


@stream.command(name="export")
@_name
@click.argument("target", metavar="FILE|DIR|-", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(("parquet", "ndjson")),
    help="Default: by the extension of FILE; DIR is parquet, - is ndjson.",
)
@click.option("--subject", "subjects", multiple=True, help="Subject filter; may be repeated.")
@click.option("--first", type=SEQUENCE, help="First sequence.")
@click.option("--last", type=SEQUENCE, help="Last sequence. Default: the current one.")
@click.option("--since", help="Time (2026-11-15T12:00:00Z) or age (2h30m) of the first message.")
@click.option(
    "--batch",
    default=5000,
    show_default=True,
    type=Whole(1, 1_000_000),
    help="Messages per request.",
)
@click.option(
    "--rows-per-file",
    default=1_000_000,
    show_default=True,
    type=Whole(1),
    help="DIR: messages per part, rounded up to a batch.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option("--resume", is_flag=True, help="Continue the export in DIR.")
@_json
@connection_options
def export_command(
    *, name: str, target: Path, kind: str | None, subjects: tuple[str, ...], first: int | None,
    last: int | None, since: str | None, batch: int, rows_per_file: int, force: bool, resume: bool,
    wants_json: bool, connection: ConnectionSettings,
) -> None:  # fmt: skip
    """Write the messages of a stream to a file, a folder of parts, or standard output.

    The command creates and acknowledges nothing on the server. FILE appears when complete: an
    interrupted export leaves none. DIR gets one file per part; --resume continues after the last
    part, and can be used later to add messages stored since. Columns: stream, seq, time, subject,
    headers, data (in ndjson as base64).

    \b
    Examples:
      jetspark stream export ORDERS orders.parquet
      jetspark stream export ORDERS backup/ --resume
      jetspark stream export ORDERS - --subject 'orders.eu.*' --since 2h | jq .subject
    """
    from jetspark.cli.stream.transfer import export_stream

    export_stream(
        connection, name, target, kind, subjects=subjects, first=first, last=last, since=since,
        batch=batch, rows_per_file=rows_per_file, force=force, resume=resume,
        wants_json=wants_json,
    )  # fmt: skip


@stream.command(name="import")
@_name
@click.argument(
    "sources", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--create", is_flag=True, help="Create the stream with the exported configuration.")
@click.option("--incomplete", is_flag=True, help="Accept a folder whose export was interrupted.")
@_json
@connection_options
def import_command(
    *, name: str, sources: tuple[Path, ...], create: bool, incomplete: bool, wants_json: bool,
    connection: ConnectionSettings,
) -> None:  # fmt: skip
    """Store the messages of export files in a stream.

    Accepts files of `jetspark stream export` and `jetspark doctor export`, and Parquet files with
    the columns subject and data. Sequences and times are new; subjects, headers and payloads are
    unchanged. Each message has an id, so that repeating an import stores nothing twice: if one
    was interrupted, just run it again.

    \b
    Examples:
      jetspark stream import ORDERS orders.parquet
      jetspark stream import COPY backup/ --create --server nats://elsewhere:4222
    """
    from jetspark.cli.stream.transfer import import_files

    import_files(
        connection, name, sources, create=create, incomplete=incomplete, wants_json=wants_json
    )
