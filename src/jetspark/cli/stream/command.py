"""`jetspark stream`: the command line; the client is loaded when a command runs."""

from pathlib import Path

import click

from jetspark.cli.connection import ConnectionSettings, connection_options

_json = click.option("--json", "wants_json", is_flag=True, help="Print a summary as JSON.")
_sequence = click.IntRange(min=1, max=2**63 - 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def stream() -> None:
    """Export and import streams of any server, jetspark or nats-server.

    \b
    Examples:
      jetspark stream export ORDERS orders.parquet
      jetspark stream import ORDERS orders.parquet --server nats://elsewhere:4222
    """


@stream.command(name="export")
@click.argument("name", metavar="STREAM")
@click.argument("target", metavar="FILE|DIR|-", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(("parquet", "ndjson")),
    help="Default: by the extension of FILE; DIR is parquet, - is ndjson.",
)
@click.option("--subject", "subjects", multiple=True, help="Subject filter; may be repeated.")
@click.option("--first", type=_sequence, help="First sequence.")
@click.option("--last", type=_sequence, help="Last sequence. Default: the current one.")
@click.option("--since", help="Time (2026-11-15T12:00:00Z) or age (2h30m) of the first message.")
@click.option(
    "--batch",
    default=5000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Messages per request.",
)
@click.option(
    "--rows-per-file",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(min=1),
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
@click.argument("name", metavar="STREAM")
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
