"""`jetspark events`: the declaration."""

import click

from jetspark.cli.commands import remote_command
from jetspark.cli.quantities import COUNT


@remote_command(
    "events", "jetspark.cli.events.following:follow_events", aliases=("event", "e"), endless=True
)
@click.option("-a", "--all", "every", is_flag=True, help="All of them: the default.")
@click.option("--js-advisory", is_flag=True, help="Advisories of JetStream.")
@click.option("--js-metric", is_flag=True, help="Metrics of JetStream.")
@click.option(
    "--srv-advisory",
    is_flag=True,
    help="Connections and refused users of a server; for users of the system account.",
)
@click.option("--subjects", multiple=True, help="Events on this subject; may be repeated.")
@click.option("--filter", "pattern", default="", help="Only events that match this expression.")
@click.option("--short", is_flag=True, help="One line per event.")
@click.option("--count", type=COUNT, default=0, help="End after this many events.")
def events() -> None:
    """Show what happens on a server, as it happens, until it is interrupted.

    Streams and consumers that are created and deleted, messages that were delivered too often,
    backups, and for users of the system account connections.

    \b
    Examples:
      jetspark events
      jetspark events --js-advisory --short
      jetspark events --filter max_deliver --ndjson | jq -r .stream
    """  # fmt: skip
