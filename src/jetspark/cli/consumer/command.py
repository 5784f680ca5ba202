"""`jetspark consumer`: the command line; the client is loaded when a command runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from jetspark.cli.cluster.command import consumer_cluster
from jetspark.cli.commands import Group
from jetspark.cli.completion.names import consumer_names, stream_names
from jetspark.cli.quantities import (
    COUNT,
    DURATION,
    LIMIT,
    METADATA,
    SEQUENCE,
    SIZE,
    Whole,
)

_Declared = Callable[[], None]
_stream = click.argument("stream", shell_complete=stream_names)
_consumer = click.argument("name", metavar="CONSUMER", shell_complete=consumer_names)
_force = click.option("-f", "--force", is_flag=True, help="Do not ask.")
_file = click.Path(path_type=Path, exists=True, dir_okay=False)

_BOTH: Final = (
    click.option(
        "--filter", "filters", multiple=True,
        help="Only messages of these subjects; separated by commas, or repeated.",
    ),
    click.option("--description", help="What the consumer is for."),
    click.option("--wait", "ack_wait", type=DURATION, help="Redeliver without an ack after: 30s."),
    click.option(
        "--max-deliver", type=LIMIT, help="Deliver a message at most this often; -1: no limit."
    ),
    click.option(
        "--max-pending", "max_ack_pending", type=LIMIT,
        help="Deliver nothing more while this many are unacknowledged; -1: no limit.",
    ),
    click.option(
        "--backoff", type=click.Choice(("none", "linear")),
        help="Longer and longer waits for an ack.",
    ),
    click.option("--backoff-steps", type=Whole(1, 100), default=10, show_default=True,
                 help="Number of waits."),
    click.option("--backoff-min", type=DURATION, default="1m", show_default=True,
                 help="The shortest wait."),
    click.option("--backoff-max", type=DURATION, default="20m", show_default=True,
                 help="The longest wait."),
    click.option("--headers-only/--no-headers-only", default=None, help="Deliver no payloads."),
    click.option("--sample", type=Whole(0, 100), help="Percentage of acks to report."),
    click.option("--max-pull-batch", type=COUNT, help="Messages per pull request."),
    click.option("--max-pull-expire", type=DURATION, help="Longest pull request: 30s."),
    click.option("--max-pull-bytes", type=SIZE, help="Size of a pull request's messages."),
    click.option("--target", help="Subject to deliver to: a push consumer."),
    click.option(
        "--inactive-threshold", type=DURATION, help="Delete it after this time without use."
    ),
    click.option("--replicas", type=Whole(0, 5), help="Copies in a cluster; 0: as the stream."),
    click.option("--metadata", type=METADATA, multiple=True, help="Metadata; may be repeated."),
)  # fmt: skip
_NEW: Final = (
    click.option("--ack", type=click.Choice(("explicit", "all", "none")), help="Which acks."),
    click.option(
        "--deliver", metavar="POLICY",
        help="Where to start: all, new, last, subject (the last of each), an age (1h), or a "
        "sequence.",
    ),
    click.option("--replay", type=click.Choice(("instant", "original")), help="How fast."),
    click.option("--ephemeral", is_flag=True, help="Not durable: deleted when it is not used."),
    click.option("--pull", is_flag=True, help="Clients request messages: the default."),
    click.option("--max-waiting", type=COUNT, help="Pull requests that may wait at once."),
    click.option("--deliver-group", help="Push: the queue group of its subscribers."),
    click.option("--flow-control", is_flag=True, default=None, help="Push: flow control."),
    click.option("--heartbeat", type=DURATION, help="Push: heartbeats while idle."),
    click.option("--bps", type=COUNT, help="Push: at most this many bits per second."),
    click.option("--memory", is_flag=True, default=None, help="Keep its state in memory."),
    click.option("--pause", metavar="TIME", help="Paused until a time, or for 1h."),
    click.option("--pinned-groups", multiple=True, help="Priority groups with a pinned client."),
    click.option("--pinned-ttl", type=DURATION, help="How long a silent client stays pinned."),
    click.option("--overflow-groups", multiple=True, help="Priority groups for overflow."),
    click.option("--prioritized-groups", multiple=True, help="Priority groups with priorities."),
)  # fmt: skip


def _config_options(*, edit: bool) -> Callable[[_Declared], _Declared]:
    def declare(described: _Declared) -> _Declared:
        decorated: Any = described
        for option in reversed(_BOTH if edit else (*_BOTH, *_NEW)):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return declare


@click.group(cls=Group, aliases=("con", "obs", "c"))
def consumer() -> None:
    """Manage consumers: positions in a stream that the server tracks.

    \b
    Examples:
      jetspark consumer add ORDERS worker --filter 'orders.eu.*'
      jetspark consumer next ORDERS worker --count 5
      jetspark consumer report ORDERS
      jetspark consumer explain ORDERS worker
    """


consumer.add_command(consumer_cluster, "cluster")


@consumer.remote("ls", "jetspark.cli.consumer.inspecting:list_consumers", aliases=("list",))
@_stream
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _ls() -> None:
    """List the consumers of a stream.

    \b
    Examples:
      jetspark consumer ls ORDERS
      jetspark consumer ls ORDERS --json | jq '.[].num_pending'
    """


@consumer.remote(
    "add", "jetspark.cli.consumer.configuring:add_consumer", aliases=("create", "new")
)
@_stream
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--config", type=_file, help="Configuration in a JSON or YAML file.")
@click.option("--validate", is_flag=True, help="Only check the configuration.")
@click.option(
    "--output", "save", type=click.Path(path_type=Path), metavar="FILE",
    help="Save the configuration in a file instead of creating the consumer.",
)  # fmt: skip
@click.option("--defaults", is_flag=True, help="Ask nothing.")
@_config_options(edit=False)
def _add() -> None:
    """Create a consumer.

    A durable pull consumer that starts at the first message and needs explicit acks, unless
    options say otherwise. A file has the fields of `consumer info --json`; options override it.

    \b
    Examples:
      jetspark consumer add ORDERS worker
      jetspark consumer add ORDERS recent --deliver 1h --filter 'orders.eu.*'
      jetspark consumer add ORDERS worker --wait 1m --max-deliver 5 --max-pending 100
      jetspark consumer add ORDERS feed --target feed.orders --deliver new --ack none
    """


@consumer.remote("info", "jetspark.cli.consumer.inspecting:consumer_info", aliases=("nfo",))
@_stream
@_consumer
def _info() -> None:
    """Show the configuration and state of a consumer.

    \b
    Example:
      jetspark consumer info ORDERS worker
    """


@consumer.remote("state", "jetspark.cli.consumer.inspecting:consumer_state")
@_stream
@_consumer
def _state() -> None:
    """Show the state of a consumer: delivered, acknowledged, pending.

    \b
    Example:
      jetspark consumer state ORDERS worker
    """


@consumer.remote("edit", "jetspark.cli.consumer.configuring:edit_consumer", aliases=("update",))
@_stream
@_consumer
@click.option("--config", type=_file, help="The whole configuration, in a JSON or YAML file.")
@_force
@click.option("--dry-run", is_flag=True, help="Only show what would change; exits with 1 if so.")
@_config_options(edit=True)
def _edit() -> None:
    """Change the configuration of a consumer.

    Shows the differences and asks before it changes anything. Only the given settings change.

    \b
    Example:
      jetspark consumer edit ORDERS worker --wait 2m --max-deliver 10 --dry-run
    """


@consumer.remote("copy", "jetspark.cli.consumer.configuring:copy_consumer", aliases=("cp",))
@_stream
@click.argument("source", shell_complete=consumer_names)
@click.argument("destination")
@_config_options(edit=False)
def _copy() -> None:
    """Create a consumer with the configuration of another.

    \b
    Example:
      jetspark consumer copy ORDERS worker worker2 --filter 'orders.us.*'
    """


@consumer.remote("rm", "jetspark.cli.consumer.managing:remove_consumer", aliases=("delete", "del"))
@_stream
@_consumer
@_force
def _rm() -> None:
    """Delete a consumer.

    \b
    Example:
      jetspark consumer rm ORDERS worker --force
    """


@consumer.remote("next", "jetspark.cli.consumer.managing:next_messages")
@_stream
@_consumer
@click.option("--count", type=Whole(1), default=1, show_default=True, help="Messages to fetch.")
@click.option("--ack/--no-ack", default=None, help="Acknowledge them: the default.")
@click.option("--nak", is_flag=True, help="Have them delivered again.")
@click.option("--term", is_flag=True, help="Never have them delivered again.")
@click.option("-r", "--raw", is_flag=True, help="Only the payloads.")
@click.option("--wait", type=DURATION, help="How long to wait; default: --timeout.")
@click.option(
    "--translate", default="", metavar="COMMAND",
    help="Show what this command makes of a payload, which it gets as standard input.",
)  # fmt: skip
def _next() -> None:
    """Fetch the next messages of a pull consumer and acknowledge them.

    Exits with 1 if there is none.

    \b
    Examples:
      jetspark consumer next ORDERS worker
      jetspark consumer next ORDERS worker --count 10 --no-ack --wait 1s
    """


@consumer.remote("find", "jetspark.cli.finding:find_consumers", aliases=("query",))
@_stream
@click.option("--pull", is_flag=True, help="Pull consumers.")
@click.option("--push", is_flag=True, help="Push consumers.")
@click.option("--bound", is_flag=True, help="Those with a subscriber or with waiting pulls.")
@click.option("--waiting", type=COUNT, help="Those with fewer waiting pulls than this.")
@click.option("--ack-pending", type=COUNT, help="Those with fewer messages to acknowledge.")
@click.option("--pending", type=COUNT, help="Those with fewer unprocessed messages than this.")
@click.option("--idle", type=DURATION, help="Those without a delivery for longer than this.")
@click.option("--created", type=DURATION, help="Those that were created longer ago than this.")
@click.option("--replicas", type=COUNT, help="Those with this many replicas or fewer.")
@click.option("--leader", default="", metavar="SERVER", help="Those that this server leads.")
@click.option("--pinned", is_flag=True, help="Those whose priority groups have pinned clients.")
@click.option("--api-level", type=COUNT, help="Those that need at least this API level.")
@click.option("--invert", is_flag=True, help="Those for which each condition is false.")
@click.option("-n", "--names", is_flag=True, help="Only the names.")
def _find() -> None:
    """Find consumers of a stream that meet conditions: all of those given.

    \b
    Examples:
      jetspark consumer find ORDERS --idle 1d
      jetspark consumer find ORDERS --pending 1000 --invert --names
    """


@consumer.remote("graph", "jetspark.cli.graphs:graph_consumer", endless=True)
@_stream
@_consumer
@click.option("--count", type=COUNT, default=0, help="End after this many seconds.")
def _graph() -> None:
    """Draw what a consumer has to process, and its deliveries per second, until interrupted.

    Needs a terminal; --ndjson prints the numbers instead, a line per second.

    \b
    Examples:
      jetspark consumer graph ORDERS worker
      jetspark consumer graph ORDERS worker --count 60 --ndjson
    """


@consumer.remote("report", "jetspark.cli.consumer.inspecting:consumer_report")
@_stream
@click.option("-r", "--raw", is_flag=True, help="Numbers without separators and units.")
@click.option("-l", "--leaders", is_flag=True, help="Also the number of consumers by leader.")
def _report() -> None:
    """Compare the consumers of a stream: what each has to process.

    \b
    Example:
      jetspark consumer report ORDERS
    """


@consumer.remote("pause", "jetspark.cli.consumer.managing:pause_consumer")
@_stream
@_consumer
@click.argument("until")
@_force
def _pause() -> None:
    """Pause a consumer until a time, or for a duration.

    \b
    Examples:
      jetspark consumer pause ORDERS worker 1h
      jetspark consumer pause ORDERS worker 2026-11-15T12:00:00Z --force
    """


@consumer.remote("resume", "jetspark.cli.consumer.managing:resume_consumer")
@_stream
@_consumer
@_force
def _resume() -> None:
    """Resume a paused consumer.

    \b
    Example:
      jetspark consumer resume ORDERS worker
    """


@consumer.remote("reset", "jetspark.cli.consumer.managing:reset_consumer")
@_stream
@_consumer
@click.option("--sequence", "seq", type=SEQUENCE, help="From this message; default: ack floor.")
@_force
def _reset() -> None:
    """Deliver messages of a consumer again.

    \b
    Example:
      jetspark consumer reset ORDERS worker --sequence 1000
    """


@consumer.remote("unpin", "jetspark.cli.consumer.managing:unpin_client")
@_stream
@_consumer
@click.argument("group")
@_force
def _unpin() -> None:
    """Unpin the client of a priority group; another is pinned.

    \b
    Example:
      jetspark consumer unpin ORDERS worker jobs
    """


@consumer.remote("explain", "jetspark.cli.consumer.managing:explain_consumer")
@_stream
@_consumer
@click.argument("seq", metavar="[SEQUENCE]", type=SEQUENCE, required=False)
def _explain() -> None:
    """Explain why a message is not delivered: the next one, or that of a sequence.

    \b
    Examples:
      jetspark consumer explain ORDERS worker
      jetspark consumer explain ORDERS worker 1234
    """
