"""`jetspark bench`: the command line; natscli's sub-commands."""

from collections.abc import Callable
from typing import Any, Final

import click

from jetspark.cli.commands import Group
from jetspark.cli.quantities import COUNT, DURATION, REPLICAS, SIZE, Whole

_Declared = Callable[[], None]
_subject = click.argument("subject")
_RUNS: Final = (
    click.option("--clients", type=Whole(1, 1000), default=1, show_default=True,
                 help="Connections that work at the same time."),
    click.option("--msgs", type=Whole(1), default=100_000, show_default=True,
                 help="Messages, of all clients together."),
    click.option("--size", type=SIZE, default="128B", show_default=True, help="Payload."),
    click.option("--progress/--no-progress", default=True, help="Show a progress bar."),
)  # fmt: skip
# What is called so belongs to measurements: they may change and delete it.
STREAM: Final = "benchstream"
CONSUMER: Final = "natscli-bench"
_sleep = click.option("--sleep", type=DURATION, default="0", help="Pause after each message.")
_batch = click.option(
    "--batch", type=Whole(1, 100_000), default=500, show_default=True, help="Messages at a time."
)
_STREAM: Final = (
    click.option("--stream", default=STREAM, show_default=True, help="The stream."),
    click.option("--purge", is_flag=True, help="Remove its messages first."),
    click.option("-f", "--force", is_flag=True, help="Do not ask before --purge."),
)
_CREATE: Final = (
    click.option("--create", is_flag=True, help="Create the stream, unless it exists."),
    click.option("--storage", type=click.Choice(("file", "memory")), default="file",
                 show_default=True, help="With --create: where it stores messages."),
    click.option("--replicas", type=REPLICAS, default=1, show_default=True,
                 help="With --create: copies in a cluster."),
    click.option("--maxbytes", type=SIZE, default="1GB", show_default=True,
                 help="With --create: its maximum size."),
)  # fmt: skip
_CONSUMER: Final = (
    click.option("--consumer", default=CONSUMER, show_default=True, help="Durable name."),
    click.option("--acks", type=click.Choice(("explicit", "none", "all")), default="explicit",
                 show_default=True, help="Which acks."),
)  # fmt: skip
_BUCKET: Final = (
    click.option("--bucket", default="benchbucket", show_default=True, help="The bucket."),
)


def _with(*groups: tuple[Any, ...]) -> Callable[[_Declared], _Declared]:
    def declare(described: _Declared) -> _Declared:
        decorated: Any = described
        for option in reversed([one for group in groups for one in group]):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return declare


_HOME: Final = "jetspark.cli.bench"


@click.group(cls=Group)
def bench() -> None:
    """Measure messages per second of a server, with this client.

    All clients of a command share one process and one core: for more, start several.

    \b
    Examples:
      jetspark bench sub demo --msgs 1000000 & jetspark bench pub demo --msgs 1000000
      jetspark bench js pub async demo --create --msgs 100000 --size 1KB
      jetspark bench js fetch --msgs 100000
      jetspark bench kv put --msgs 10000 --json
    """


@bench.remote("pub", f"{_HOME}.core:publish")
@_subject
@_with(_RUNS)
@_sleep
def _pub() -> None:
    """Publish core messages.

    \b
    Example:
      jetspark bench pub demo --clients 4 --msgs 1000000
    """


@bench.remote("sub", f"{_HOME}.core:subscribe")
@_subject
@_with(_RUNS)
def _sub() -> None:
    """Receive core messages; each client gets all of them.

    \b
    Example:
      jetspark bench sub demo --msgs 1000000
    """


@click.group(cls=Group, aliases=("micro",))
def service() -> None:
    """Measure requests and replies.

    \b
    Examples:
      jetspark bench service serve demo & jetspark bench service request demo --msgs 1000
    """


@service.remote("request", f"{_HOME}.core:request")
@_subject
@_with(_RUNS)
@_sleep
def _request() -> None:
    """Send requests, one after the other, and wait for each reply.

    \b
    Example:
      jetspark bench service request demo --clients 8 --msgs 10000
    """


@service.remote("serve", f"{_HOME}.core:serve", endless=True)
@_subject
@_with(_RUNS)
@_sleep
def _serve() -> None:
    """Answer requests; runs until it is interrupted.

    \b
    Example:
      jetspark bench service serve demo --size 1KB
    """


@click.group(cls=Group)
def js() -> None:
    """Measure streams.

    \b
    Examples:
      jetspark bench js pub async demo --create
      jetspark bench js ordered --msgs 100000
    """


@click.group(cls=Group, name="pub")
def js_pub() -> None:
    """Store messages in a stream.

    \b
    Example:
      jetspark bench js pub sync demo --create --clients 50
    """


@js_pub.remote("sync", f"{_HOME}.stored:publish_sync")
@_subject
@_with(_RUNS, _STREAM, _CREATE)
@_sleep
def _js_sync() -> None:
    """Wait for each acknowledgement.

    \b
    Example:
      jetspark bench js pub sync demo --create --msgs 10000
    """


@js_pub.remote("async", f"{_HOME}.stored:publish_async")
@_subject
@_with(_RUNS, _STREAM, _CREATE)
@_batch
@_sleep
def _js_async() -> None:
    """Wait for acknowledgements of --batch messages at a time.

    \b
    Example:
      jetspark bench js pub async demo --create --msgs 100000
    """


@js_pub.remote("atomic", f"{_HOME}.stored:publish_atomic", aliases=("batch",))
@_subject
@_with(_RUNS, _STREAM, _CREATE)
@_batch
@_sleep
def _js_atomic() -> None:
    """Store atomic batches.

    \b
    Example:
      jetspark bench js pub atomic demo --create --batch 100
    """


@js_pub.remote("fast", f"{_HOME}.stored:publish_fast")
@_subject
@_with(_RUNS, _STREAM, _CREATE)
@_sleep
def _js_fast() -> None:
    """Store fast batches, one per client.

    \b
    Example:
      jetspark bench js pub fast demo --create --msgs 1000000
    """


@js.remote("ordered", f"{_HOME}.stored:consume_ordered")
@_with(_RUNS, _STREAM)
def _js_ordered() -> None:
    """Read a stream in order; each client reads all messages.

    \b
    Example:
      jetspark bench js ordered --msgs 100000
    """


@js.remote("consume", f"{_HOME}.stored:consume")
@_with(_RUNS, _STREAM, _CONSUMER)
@_batch
def _js_consume() -> None:
    """Process the messages of a durable consumer, which the clients share.

    \b
    Example:
      jetspark bench js consume --clients 4 --msgs 100000
    """


@js.remote("fetch", f"{_HOME}.stored:fetch")
@_with(_RUNS, _STREAM, _CONSUMER)
@_batch
def _js_fetch() -> None:
    """Fetch the messages of a durable consumer in batches.

    \b
    Example:
      jetspark bench js fetch --batch 100 --acks none
    """


@js.remote("get", f"{_HOME}.stored:get")
@_with(_RUNS, _STREAM)
@_batch
def _js_get() -> None:
    """Read a stream with batched direct gets.

    \b
    Example:
      jetspark bench js get --msgs 100000
    """


@click.group(cls=Group)
def kv() -> None:
    """Measure buckets.

    \b
    Examples:
      jetspark bench kv put && jetspark bench kv get
    """


@kv.remote("put", f"{_HOME}.buckets:put")
@_with(_RUNS, _BUCKET)
@click.option(
    "--storage",
    type=click.Choice(("file", "memory")),
    default="file",
    show_default=True,
    help="Where a new bucket stores values.",
)
@click.option(
    "--history",
    type=Whole(1, 64),
    default=1,
    show_default=True,
    help="Values per key of a new bucket.",
)
@click.option(
    "--replicas",
    type=REPLICAS,
    default=1,
    show_default=True,
    help="Copies of a new bucket in a cluster.",
)
@click.option(
    "--randomize",
    type=COUNT,
    default=0,
    help="Use random keys below this number; 0: one after the other.",
)
def _kv_put() -> None:
    """Put values; the bucket is created if it does not exist.

    \b
    Example:
      jetspark bench kv put --msgs 10000 --size 64B
    """


@kv.remote("get", f"{_HOME}.buckets:get")
@_with(_RUNS, _BUCKET)
@click.option(
    "--randomize",
    type=COUNT,
    default=0,
    help="Use random keys below this number; 0: one after the other.",
)
def _kv_get() -> None:
    """Get values that `bench kv put` has put.

    \b
    Example:
      jetspark bench kv get --msgs 10000
    """


bench.add_command(service)
bench.add_command(js)
js.add_command(js_pub)
bench.add_command(kv)
