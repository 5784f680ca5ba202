"""`jetspark account` and `jetspark rtt`: declarations."""

import click

from jetspark.cli.commands import Group, remote_command
from jetspark.cli.quantities import Whole


@click.group(cls=Group, aliases=("a",))
def account() -> None:
    """Show the account of the connection: its user, server, usage and limits.

    \b
    Examples:
      jetspark account info
      jetspark account info --json | jq .jetstream.storage
    """


@account.remote("info", "jetspark.cli.account.connection:account_info", aliases=("nfo",))
def _info() -> None:
    """Show the connection, its account, and its use of JetStream.

    \b
    Examples:
      jetspark account info
      jetspark account info --context cloud
    """


@remote_command("rtt", "jetspark.cli.account.connection:round_trips")
@click.argument("iterations", metavar="[ITERATIONS]", type=Whole(1, 100_000), default=5)
def rtt() -> None:
    """Measure the round-trip time to each server.

    \b
    Examples:
      jetspark rtt
      jetspark rtt 100 --server nats://one:4222,nats://two:4222
    """
