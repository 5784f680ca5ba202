"""`jetspark top`: the declaration."""

from pathlib import Path

import click

from jetspark.cli.commands import local_command
from jetspark.cli.connection import declare_connection
from jetspark.cli.quantities import SECONDS, Whole


@local_command("top", "jetspark.cli.top.screen:show_top")
@click.argument("name", metavar="[SERVER]", default="")
@click.option(
    "-n",
    "--conns",
    type=Whole(1, 100_000),
    default=1024,
    show_default=True,
    help="Connections to show.",
)
@click.option(
    "-d",
    "--interval",
    type=SECONDS,
    default="1s",
    show_default=True,
    help="Time between refreshes.",
)
@click.option(
    "--sort",
    default="cid",
    show_default=True,
    type=click.Choice(
        ("cid", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from")
    ),
    help="The order of the connections.",
)
@click.option("-r", "--max-refresh", type=Whole(0), default=0, help="End after so many refreshes.")
@click.option("-b", "--raw", is_flag=True, help="Plain numbers of bytes.")
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one snapshot to this file, and end.",
)
@click.option(
    "--monitor",
    envvar="JETSPARK_MONITOR",
    metavar="URL",
    default="",
    show_envvar=True,
    help="Ask the monitoring port, http://HOST:8222, not the system account.",
)
@declare_connection
def top() -> None:
    """Show the load of a server and its connections, refreshed until interrupted.

    Without a terminal it is shown once. Who may ask: see `jetspark server --help`.

    \b
    Examples:
      jetspark top --monitor http://127.0.0.1:8222
      jetspark top n1-east --context system --sort msgs_from -n 20
    """  # fmt: skip
