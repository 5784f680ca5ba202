"""The groups `cluster` below `stream`, `consumer` and `server`: declarations."""

from typing import Final

import click

from jetspark.cli.commands import Group
from jetspark.cli.completion.names import consumer_names, stream_names

_STEP_DOWN: Final = ("stepdown", "sd", "elect", "down", "d")
_stream = click.argument("stream", shell_complete=stream_names)
_consumer = click.argument("name", metavar="CONSUMER", shell_complete=consumer_names)
_preferred = click.option(
    "--preferred", default="", metavar="SERVER", help="The server that should be the leader."
)
_leaderless = click.option("-f", "--force", is_flag=True, help="Even if no leader is known.")
_force = click.option("-f", "--force", is_flag=True, help="Do not ask.")


@click.group(cls=Group, aliases=("c",))
def stream_cluster() -> None:
    """Manage the leader and the replicas of a stream in a cluster.

    Only a cluster of nats-servers has them; a jetspark server is alone.

    \b
    Examples:
      jetspark stream cluster step-down ORDERS
      jetspark stream cluster peer-remove ORDERS n2
    """


@stream_cluster.remote(
    "step-down", "jetspark.cli.cluster.assets:step_down_stream", aliases=_STEP_DOWN
)
@_stream
@_preferred
@_leaderless
def _step_down_stream() -> None:
    """Elect another leader of a stream, and wait for it.

    \b
    Examples:
      jetspark stream cluster step-down ORDERS
      jetspark stream cluster step-down ORDERS --preferred n2
    """


@stream_cluster.remote(
    "peer-remove", "jetspark.cli.cluster.assets:remove_stream_peer", aliases=("pr",)
)
@_stream
@click.argument("peer")
@_force
def _remove_stream_peer() -> None:
    """Remove a server from the replicas of a stream; another server takes its place.

    \b
    Example:
      jetspark stream cluster peer-remove ORDERS n2
    """


@click.group(cls=Group, aliases=("c",))
def consumer_cluster() -> None:
    """Manage the leader of a consumer in a cluster.

    Only a cluster of nats-servers has one; a jetspark server is alone.

    \b
    Example:
      jetspark consumer cluster step-down ORDERS worker
    """


@consumer_cluster.remote(
    "step-down", "jetspark.cli.cluster.assets:step_down_consumer", aliases=_STEP_DOWN
)
@_stream
@_consumer
@_preferred
@_leaderless
def _step_down_consumer() -> None:
    """Elect another leader of a consumer, and wait for it.

    \b
    Example:
      jetspark consumer cluster step-down ORDERS worker --preferred n2
    """


@click.group(cls=Group, aliases=("r", "raft"))
def server_cluster() -> None:
    """Manage the servers that agree on the streams of a cluster.

    Needs a user of the system account of a cluster of nats-servers.

    \b
    Examples:
      jetspark server cluster step-down --context system
      jetspark server cluster peer-remove n2 --context system
    """


@server_cluster.remote(
    "step-down", "jetspark.cli.cluster.servers:step_down_meta", aliases=_STEP_DOWN
)
@click.option("--cluster", default="", help="The cluster of the new leader.")
@click.option("--tags", multiple=True, help="A tag of the new leader; may be repeated.")
@click.option("--host", default="", metavar="SERVER", help="The new leader.")
@_leaderless
def _step_down_meta() -> None:
    """Elect another leader of the cluster, and wait for it.

    \b
    Examples:
      jetspark server cluster step-down
      jetspark server cluster step-down --host n2
    """


@server_cluster.remote(
    "peer-remove", "jetspark.cli.cluster.servers:remove_server", aliases=("rm", "pr")
)
@click.argument("name", metavar="SERVER")
@_force
def _remove_server() -> None:
    """Remove a server that will not come back from the cluster.

    SERVER is its name or its peer id. Its streams with several replicas get another one; the data
    of streams that only this server had is lost.

    \b
    Example:
      jetspark server cluster peer-remove n2
    """
