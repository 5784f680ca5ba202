"""`jetspark account` and `jetspark rtt`: declarations."""

from pathlib import Path

import click

from jetspark.cli.commands import Group, remote_command
from jetspark.cli.quantities import Whole
from jetspark.cli.server.monitor_option import monitor_option


@click.group(cls=Group, aliases=("a",))
def account() -> None:
    """Show the account of the connection: its user, server, usage and limits; back it up.

    \b
    Examples:
      jetspark account info
      jetspark account report connections
      jetspark account backup nightly --force
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


@account.remote("backup", "jetspark.cli.account.backups:backup_account", aliases=("snapshot",))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--check", is_flag=True, help="Let the server check each stream first.")
@click.option("--consumers/--no-consumers", default=True, help="Also the consumers.")
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@click.option(
    "-w",
    "--critical-warnings",
    is_flag=True,
    help="Exit with 1 also if only streams in memory could not be backed up.",
)
def _backup() -> None:
    """Write all streams of the account to a folder, each to a folder of its own.

    A stream that cannot be backed up does not keep the others from it; the exit code is 1 then.

    \b
    Examples:
      jetspark account backup /var/backups/nats --force
      jetspark account backup /var/backups/nats --no-consumers --json
    """


@account.remote("restore", "jetspark.cli.account.backups:restore_account")
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--cluster", default="", help="Place the streams in this cluster.")
@click.option("--tag", "tags", multiple=True, help="Place them on servers with this tag.")
def _restore() -> None:
    """Create all streams of an account's backup; nothing happens if one of them exists.

    \b
    Example:
      jetspark account restore /var/backups/nats
    """


@click.group(cls=Group, aliases=("rep",))
def report() -> None:
    """Report on the connections and the traffic of the account.

    \b
    Examples:
      jetspark account report connections --sort in-msgs
      jetspark account report statistics
    """


account.add_command(report, "report")


@report.remote(
    "connections",
    "jetspark.cli.account.reports:account_connections",
    aliases=("conn", "connz", "conns"),
)
@click.option(
    "--sort",
    default="subs",
    show_default=True,
    help="The order.",
    type=click.Choice(("in-bytes", "out-bytes", "in-msgs", "out-msgs", "uptime", "cid", "subs")),
)
@click.option(
    "--top", type=Whole(1), default=1000, show_default=True, help="At most this many rows."
)
@click.option("--subject", default="", help="Only connections that subscribe to this subject.")
@click.option("--username", default="", help="Only connections of this user.")
@click.option("-R", "--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "--state",
    type=click.Choice(("open", "closed", "all")),
    default="open",
    show_default=True,
    help="Only connections in this state.",
)
@click.option(
    "--closed-reason", default="", metavar="REGEX", help="Only those closed for such a reason."
)
@monitor_option
def _connections() -> None:
    """Report on the connections of the account, on all servers.

    \b
    Examples:
      jetspark account report connections --top 10
      jetspark account report connections --state closed --closed-reason slow
    """  # fmt: skip


@report.remote(
    "statistics", "jetspark.cli.account.reports:account_statistics", aliases=("stats", "statsz")
)
@monitor_option
def _statistics() -> None:
    """Report on what the account sends and receives, by server.

    \b
    Example:
      jetspark account report statistics
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
