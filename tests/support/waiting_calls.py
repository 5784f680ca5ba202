"""Every call of the client that waits, by name: how it is brought about, for tests of its end."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.chaos_proxy import ChaosProxy

from jetspark import (
    Client,
    Consumer,
    JetStream,
    JetStreamMessage,
    KeyValue,
    Message,
    ObjectStore,
    OrderedConsumer,
    Stream,
    connect,
)

PATIENCE = 30.0  # seconds of the calls: long enough that none of them ends on its own
FAR = 10_000  # a sequence that no stream here gets to


class Scene(NamedTuple):
    """A client connected through a proxy, another one next to it, and names of one test."""

    client: Client
    js: JetStream
    other: Client
    proxy: ChaosProxy
    name: str
    folder: Path


Waiting = Coroutine[Any, Any, object]
Setup = Callable[[Scene], Awaitable[Waiting]]


class Call(NamedTuple):
    """A call that waits.

    ``iterates``: a drain of the client is its normal end. ``returns``: the end of the client is
    what it waits for. ``closes``: it ends something, which has nothing to do on a closed client.
    """

    setup: Setup
    iterates: bool = False
    returns: bool = False
    closes: bool = False


CALLS: dict[str, Call] = {}


def waits(
    *, iterates: bool = False, returns: bool = False, closes: bool = False
) -> Callable[[Setup], Setup]:
    """Enter a call into the table."""

    def enter(setup: Setup) -> Setup:
        CALLS[setup.__name__] = Call(setup, iterates, returns, closes)
        return setup

    return enter


def unanswered(setup: Setup) -> Setup:
    """Enter a call that waits because nothing comes from the server any more."""

    @functools.wraps(setup)
    async def swallowed(scene: Scene) -> Waiting:
        waiting = await setup(scene)
        scene.proxy.black_hole()
        return waiting

    CALLS[setup.__name__] = Call(swallowed)
    return swallowed


@contextlib.asynccontextmanager
async def scene(url: str, name: str, folder: Path) -> AsyncIterator[Scene]:
    """A client that gives up soon, and what else a call needs."""
    async with (
        ChaosProxy(url.removeprefix("nats://")) as proxy,
        connect(url) as other,
        connect(
            proxy.url,
            max_reconnects=2,
            reconnect_wait=0.01,
            reconnect_jitter=0.0,
            timeout=PATIENCE,
            error_callback=lambda _error: None,
        ) as client,
    ):
        yield Scene(client, client.jetstream(), other, proxy, name, folder)


async def exhaust(items: AsyncIterable[object]) -> str:
    """Iterate to the end, which is only reached when the iteration ends without an error."""
    async for _ in items:
        pass
    return "ended"


async def stream(s: Scene, **settings: Any) -> Stream:
    return await s.js.create_stream(s.name, subjects=[f"{s.name}.>"], **settings)


async def bucket(s: Scene, **settings: Any) -> KeyValue:
    return await s.js.create_key_value(s.name, **settings)


async def their_bucket(s: Scene) -> KeyValue:
    return await s.other.jetstream().key_value(s.name)


# Core NATS.


@waits()
async def subscription_next(s: Scene) -> Waiting:
    return (await s.client.subscribe(s.name)).next(timeout=PATIENCE)


@waits(iterates=True)
async def subscription_iteration(s: Scene) -> Waiting:
    return exhaust(await s.client.subscribe(s.name))


@waits(closes=True)
async def subscription_drain(s: Scene) -> Waiting:
    subscription = await s.client.subscribe(s.name)
    s.client.publish(s.name, b"nobody takes this")
    await s.client.flush()
    return subscription.drain(timeout=PATIENCE)


@waits(closes=True)
async def subscription_drain_with_callback(s: Scene) -> Waiting:
    async def busy(_message: Message) -> None:
        await asyncio.sleep(PATIENCE)

    subscription = await s.client.subscribe(s.name, callback=busy)
    s.client.publish(s.name)
    await s.client.flush()
    return subscription.drain(timeout=PATIENCE)


@unanswered
async def request(s: Scene) -> Waiting:
    return s.client.request(s.name, timeout=PATIENCE)


@unanswered
async def request_many(s: Scene) -> Waiting:
    return exhaust(s.client.request_many(s.name, timeout=PATIENCE))


@unanswered
async def flush(s: Scene) -> Waiting:
    return s.client.flush(timeout=PATIENCE)


@unanswered
async def rtt(s: Scene) -> Waiting:
    return s.client.rtt(timeout=PATIENCE)


# Publishing.


@unanswered
async def publish(s: Scene) -> Waiting:
    return s.js.publish(s.name, timeout=PATIENCE)


@unanswered
async def publish_async_ack(s: Scene) -> Waiting:
    async def ack() -> object:
        return await (await s.js.publish_async(s.name, timeout=PATIENCE))

    return ack()


@unanswered
async def publish_async_room(s: Scene) -> Waiting:
    js = s.client.jetstream(publish_async_max=1)

    async def second() -> None:
        await js.publish_async(s.name, timeout=PATIENCE)
        await js.publish_async(s.name, timeout=PATIENCE)

    return second()


@unanswered
async def publish_async_complete(s: Scene) -> Waiting:
    async def complete() -> None:
        await s.js.publish_async(s.name, timeout=PATIENCE)
        await s.js.publish_async_complete(timeout=PATIENCE)

    return complete()


@unanswered
async def atomic_batch(s: Scene) -> Waiting:
    await stream(s, allow_atomic=True)
    batch = s.js.atomic_batch(timeout=PATIENCE)
    batch.add(f"{s.name}.a")
    batch.add(f"{s.name}.b")
    return batch.commit()


@unanswered
async def fast_publish(s: Scene) -> Waiting:
    await stream(s, allow_batched=True)
    return s.js.fast_publisher(ack_timeout=PATIENCE).publish(f"{s.name}.a")


@unanswered
async def fast_commit(s: Scene) -> Waiting:
    await stream(s, allow_batched=True)
    publisher = s.js.fast_publisher(ack_timeout=PATIENCE)
    await publisher.publish(f"{s.name}.a")
    return publisher.commit()


# Streams.


@unanswered
async def create_stream(s: Scene) -> Waiting:
    return s.js.create_stream(s.name, subjects=[s.name], timeout=PATIENCE)


@unanswered
async def stream_info(s: Scene) -> Waiting:
    return (await stream(s)).info(timeout=PATIENCE)


@unanswered
async def get_msg(s: Scene) -> Waiting:
    return (await stream(s)).get_msg(seq=1, timeout=PATIENCE)


@waits()
async def get_msg_after_a_write(s: Scene) -> Waiting:
    made = await stream(s)
    await s.js.publish(f"{s.name}.a")
    return made.get_msg(seq=1, min_last_seq=FAR, timeout=PATIENCE)


@unanswered
async def get_batch(s: Scene) -> Waiting:
    return exhaust((await stream(s)).get_batch(timeout=PATIENCE))


@unanswered
async def get_last_many(s: Scene) -> Waiting:
    return exhaust((await stream(s)).get_last_many([">"], timeout=PATIENCE))


@unanswered
async def scan(s: Scene) -> Waiting:
    made = await stream(s)
    await s.js.publish(f"{s.name}.a")
    return exhaust(made.scan(last=1, timeout=PATIENCE))


@unanswered
async def backup(s: Scene) -> Waiting:
    return (await stream(s)).backup(s.folder / "backup", timeout=PATIENCE)


@waits()
async def stream_replica_wait(s: Scene) -> Waiting:
    await stream(s)
    return (await s.js.replica(s.name)).wait_for(FAR, timeout=PATIENCE)


@waits()
async def stream_replica_read(s: Scene) -> Waiting:
    await stream(s)
    return (await s.js.replica(s.name)).get_last_at(f"{s.name}.a", FAR, timeout=PATIENCE)


# Consumers.


async def consumer(s: Scene) -> Consumer:
    await stream(s)
    return await s.js.create_consumer(s.name, durable="c")


@waits()
async def fetch(s: Scene) -> Waiting:
    return (await consumer(s)).fetch(5, timeout=PATIENCE)


@waits()
async def consumer_next(s: Scene) -> Waiting:
    return (await consumer(s)).next(timeout=PATIENCE)


@waits()
async def messages_next(s: Scene) -> Waiting:
    return (await consumer(s)).messages().next()


@waits(iterates=True)
async def messages_iteration(s: Scene) -> Waiting:
    return exhaust((await consumer(s)).messages())


@waits(iterates=True)
async def consume(s: Scene) -> Waiting:
    return (await consumer(s)).consume(print).wait()


@waits(closes=True)
async def consume_drain(s: Scene) -> Waiting:
    called = asyncio.Event()

    async def busy(_message: JetStreamMessage) -> None:
        called.set()
        await asyncio.sleep(PATIENCE)

    consumption = (await consumer(s)).consume(busy)
    await s.js.publish(f"{s.name}.a")
    await called.wait()
    return consumption.drain(timeout=PATIENCE)


@unanswered
async def consumer_info(s: Scene) -> Waiting:
    return (await consumer(s)).info(timeout=PATIENCE)


@unanswered
async def ack_sync(s: Scene) -> Waiting:
    made = await consumer(s)
    await s.js.publish(f"{s.name}.a")
    return (await made.next()).ack_sync(timeout=PATIENCE)


async def ordered(s: Scene) -> OrderedConsumer:
    return (await stream(s)).ordered_consumer()


@waits()
async def ordered_fetch(s: Scene) -> Waiting:
    return (await ordered(s)).fetch(5, timeout=PATIENCE)


@waits()
async def ordered_next(s: Scene) -> Waiting:
    return (await ordered(s)).next(timeout=PATIENCE)


@waits(iterates=True)
async def ordered_iteration(s: Scene) -> Waiting:
    return exhaust((await ordered(s)).messages())


@waits(iterates=True)
async def ordered_consume(s: Scene) -> Waiting:
    return (await ordered(s)).consume(print).wait()


@waits()
async def subscribe_next(s: Scene) -> Waiting:
    await stream(s)
    return (await s.js.subscribe(f"{s.name}.>")).next(timeout=PATIENCE)


@waits(iterates=True)
async def subscribe_iteration(s: Scene) -> Waiting:
    await stream(s)
    return exhaust(await s.js.subscribe(f"{s.name}.>"))


@waits(closes=True)
async def subscribe_drain(s: Scene) -> Waiting:
    await stream(s)
    subscription = await s.js.subscribe(f"{s.name}.>")
    await s.js.publish(f"{s.name}.a")
    await s.client.flush()
    return subscription.drain(timeout=PATIENCE)


@waits()
async def pull_subscribe_fetch(s: Scene) -> Waiting:
    await stream(s)
    return (await s.js.pull_subscribe(f"{s.name}.>")).fetch(5, timeout=PATIENCE)


@waits()
async def pull_subscribe_next(s: Scene) -> Waiting:
    await stream(s)
    return (await s.js.pull_subscribe(f"{s.name}.>")).next(timeout=PATIENCE)


@waits(iterates=True)
async def pull_subscribe_iteration(s: Scene) -> Waiting:
    await stream(s)
    return exhaust((await s.js.pull_subscribe(f"{s.name}.>")).messages())


# Buckets.


@unanswered
async def kv_get(s: Scene) -> Waiting:
    return (await bucket(s)).get("k", timeout=PATIENCE)


@waits()
async def kv_get_after_a_write(s: Scene) -> Waiting:
    return (await bucket(s)).get("k", min_last_revision=FAR, timeout=PATIENCE)


@unanswered
async def kv_put(s: Scene) -> Waiting:
    return (await bucket(s)).put("k", b"", timeout=PATIENCE)


@unanswered
async def kv_put_many(s: Scene) -> Waiting:
    return (await bucket(s)).put_many({"k": b"", "l": b""}, timeout=PATIENCE)


@unanswered
async def kv_keys(s: Scene) -> Waiting:
    return exhaust((await bucket(s)).keys(timeout=PATIENCE))


@unanswered
async def kv_history(s: Scene) -> Waiting:
    return (await bucket(s)).history("k", timeout=PATIENCE)


@unanswered
async def kv_snapshot(s: Scene) -> Waiting:
    return exhaust((await bucket(s)).snapshot(timeout=PATIENCE))


@unanswered
async def kv_transaction(s: Scene) -> Waiting:
    transaction = (await bucket(s)).transaction(timeout=PATIENCE)
    transaction.put("k", b"")
    transaction.put("l", b"")
    return transaction.commit()


@unanswered
async def kv_watch_start(s: Scene) -> Waiting:
    made = await bucket(s)

    async def start() -> object:
        return await made.watch(timeout=PATIENCE)

    return start()


@waits()
async def kv_watch_next(s: Scene) -> Waiting:
    return (await (await bucket(s)).watch()).next(timeout=PATIENCE)


@waits(iterates=True)
async def kv_watch_iteration(s: Scene) -> Waiting:
    return exhaust(await (await bucket(s)).watch())


@waits(iterates=True)
async def kv_watch_marked(s: Scene) -> Waiting:
    return exhaust((await (await bucket(s)).watch()).marked())


@waits()
async def typed_watch_next(s: Scene) -> Waiting:
    return (await (await bucket(s)).typed(dict).watch()).next(timeout=PATIENCE)


@waits()
async def lock_acquire(s: Scene) -> Waiting:
    made = await bucket(s)
    await (await their_bucket(s)).create("k", b"somebody else")
    return made.lock("k").acquire(timeout=PATIENCE)


@waits(returns=True)
async def lock_lost(s: Scene) -> Waiting:
    lock = (await bucket(s)).lock("k", ttl=3.0)  # renewed every second, which notices the end
    await lock.acquire()
    return lock.wait_lost(timeout=PATIENCE)


@waits()
async def campaign(s: Scene) -> Waiting:
    made = await bucket(s)
    await (await their_bucket(s)).create("k", b"somebody else")
    return made.elect("k", "me").campaign(timeout=PATIENCE)


@waits(iterates=True)
async def observe(s: Scene) -> Waiting:
    return exhaust((await bucket(s)).elect("k", "me").observe())


@waits(iterates=True)
async def members_watch(s: Scene) -> Waiting:
    return exhaust((await bucket(s)).members("group").watch())


@waits()
async def kv_replica_wait(s: Scene) -> Waiting:
    return (await (await bucket(s)).replica()).wait_for(FAR, timeout=PATIENCE)


@waits()
async def kv_replica_read(s: Scene) -> Waiting:
    return (await (await bucket(s)).replica()).get_at("k", FAR, timeout=PATIENCE)


# Object stores.


async def store(s: Scene) -> ObjectStore:
    return await s.js.create_object_store(s.name)


@unanswered
async def object_put(s: Scene) -> Waiting:
    return (await store(s)).put("o", bytes(1000), timeout=PATIENCE)


@unanswered
async def object_get(s: Scene) -> Waiting:
    made = await store(s)
    await made.put("o", bytes(1000))
    return made.get("o", timeout=PATIENCE)


@unanswered
async def object_read(s: Scene) -> Waiting:
    made = await store(s)
    await made.put("o", bytes(1000))
    return (await made.open("o", timeout=PATIENCE)).read()


@unanswered
async def object_list(s: Scene) -> Waiting:
    return exhaust((await store(s)).list(timeout=PATIENCE))


@waits()
async def object_watch_next(s: Scene) -> Waiting:
    return (await (await store(s)).watch()).next(timeout=PATIENCE)


@waits(iterates=True)
async def object_watch_iteration(s: Scene) -> Waiting:
    return exhaust(await (await store(s)).watch())
