"""`jetspark server`: declarations. The functions are in the modules next to this one."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from jetspark.cli.bucket_options import declare
from jetspark.cli.cluster.command import server_cluster
from jetspark.cli.commands import Group
from jetspark.cli.connection import declare_connection
from jetspark.cli.quantities import COUNT, Whole
from jetspark.cli.server.check.command import check
from jetspark.cli.server.monitor_option import monitor_option

_Declared = TypeVar("_Declared", bound=Callable[..., Any])
_reverse = click.option("-R", "--reverse", is_flag=True, help="Reverse the order.")
_TOP: Final = click.option(
    "--top", type=Whole(1), default=1000, show_default=True, help="At most this many rows."
)
_account = click.option("--account", default="", help="Only this account.")
_expect = click.argument("expect", metavar="[EXPECT]", type=COUNT, default=0)


def _asking(described: _Declared) -> _Declared:
    """Add the options of commands that ask servers about themselves."""
    return declare_connection(declare((monitor_option,))(described))


def _sort(*names: str) -> Callable[[_Declared], _Declared]:
    return click.option(
        "--sort", type=click.Choice(names), default=names[0], show_default=True, help="The order."
    )


@click.group(cls=Group, aliases=("srv",))
def server() -> None:
    """Check servers, and report what they do.

    `check` needs an ordinary user. The others ask all servers through the system account, or with
    --monitor the monitoring port of one; without either they try port 8222 of the server they are
    connected to. jetspark servers have the monitoring port only.

    \b
    Examples:
      jetspark server check connection
      jetspark server list --context system
      jetspark server info --monitor http://127.0.0.1:8222
      jetspark server report connections --sort in-msgs
    """


server.add_command(check)
server.add_command(server_cluster, "cluster")


@server.local("list", "jetspark.cli.server.facts:list_servers", aliases=("ls",))
@_expect
@_sort("name", "cluster", "conns", "subs", "routes", "gws", "mem", "cpu", "slow", "uptime", "rtt")
@_reverse
@_asking
def _list() -> None:
    """List servers with their load. With EXPECT, fewer answers are a failure.

    \b
    Examples:
      jetspark server list
      jetspark server list 3 --sort mem --context system
    """


@server.local("ping", "jetspark.cli.server.facts:ping_servers")
@_expect
@_asking
def _ping() -> None:
    """Show which servers answer, and how fast. With EXPECT, fewer answers are a failure.

    \b
    Example:
      jetspark server ping 3 --context system
    """


@server.local("info", "jetspark.cli.server.facts:server_info", aliases=("i",))
@click.argument("name", metavar="[SERVER]", default="")
@_asking
def _info() -> None:
    """Show one server: its process, connections, limits and statistics.

    SERVER is a name or an id. Default: the server that answers first.

    \b
    Examples:
      jetspark server info
      jetspark server info n1-east --context system
    """


@click.group(cls=Group, aliases=("rep",))
def report() -> None:
    """Report on connections, streams, consumers and accounts of servers.

    \b
    Examples:
      jetspark server report connections
      jetspark server report streams --monitor http://127.0.0.1:8222
    """


server.add_command(report)


@report.local(
    "connections", "jetspark.cli.server.reports:connections", aliases=("conn", "connz", "conns")
)
@_account
@click.option("--username", default="", help="Only connections of this user.")
@click.option(
    "--state",
    type=click.Choice(("open", "closed", "all")),
    default="open",
    show_default=True,
    help="Only connections in this state.",
)
@_sort("subs", "in-bytes", "out-bytes", "in-msgs", "out-msgs", "uptime", "cid")
@_TOP
@_reverse
@_asking
def _connections() -> None:
    """Report on connections: who, from where, how much.

    \b
    Examples:
      jetspark server report connections --sort in-msgs --top 10
      jetspark server report connections --state closed
    """  # fmt: skip


@report.local("jetstream", "jetspark.cli.server.reports:jetstream", aliases=("js", "jsz"))
@_account
@_sort("name", "cluster", "streams", "consumers", "msgs", "bytes", "mem", "file", "api", "err")
@_reverse
@_asking
def _jetstream() -> None:
    """Report on the use of JetStream by each server.

    \b
    Example:
      jetspark server report jetstream
    """


@report.local("streams", "jetspark.cli.server.reports:streams")
@_account
@_sort("bytes", "name", "msgs", "consumers")
@_TOP
@_reverse
@_asking
def _streams() -> None:
    """Report on the streams of all accounts.

    \b
    Example:
      jetspark server report streams --sort msgs --top 20
    """


@report.local("consumers", "jetspark.cli.server.reports:consumers")
@_account
@click.option("--stream", default="", help="Only consumers of this stream.")
@_sort("pending", "name", "ack-pending", "redelivered")
@_TOP
@_reverse
@_asking
def _consumers() -> None:
    """Report on the consumers of all accounts.

    \b
    Example:
      jetspark server report consumers --stream ORDERS
    """


@report.local("accounts", "jetspark.cli.server.reports:accounts", aliases=("acct",))
@click.argument("account", metavar="[ACCOUNT]", default="")
@_sort("subs", "in-bytes", "out-bytes", "in-msgs", "out-msgs", "conns")
@_TOP
@_reverse
@_asking
def _accounts() -> None:
    """Report on the activity of accounts.

    \b
    Example:
      jetspark server report accounts --sort conns
    """


@report.local("health", "jetspark.cli.server.reports:health")
@_asking
def _health() -> None:
    """Report on the health of servers; exits with 1 if one is not healthy.

    \b
    Example:
      jetspark server report health
    """
