"""Callbacks that work on several messages at a time: at once, in order per key, and their end."""

import asyncio
import threading
from collections import defaultdict
from typing import Any

import pytest
from tests.client.conftest import Connect
from tests.support.waiting import until, wait_until

from jetspark import Consumer, JetStream, JetStreamMessage, Message, Stream, sync
from jetspark.errors import RequestTimeout, SubscribeRefused

LONG = 3600.0  # seconds: nothing is delivered again on its own


async def stream_of(js: JetStream, name: str, count: int, keys: int = 1) -> Stream:
    stream = await js.create_stream(name, subjects=[f"{name}.>"])
    for n in range(count):
        await js.publish(f"{name}.{n % keys}", b"%d" % n)
    return stream


async def consumer_of(js: JetStream, name: str, count: int, keys: int = 1) -> Consumer:
    stream = await stream_of(js, name, count, keys)
    return await stream.create_consumer(durable="w", ack_wait=LONG)


class Workers:
    """A callback that stays until it is released; counts how many run at the same time."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running: list[bytes] = []
        self.most = 0
        self.done: list[bytes] = []

    async def __call__(self, message: JetStreamMessage | Message) -> None:
        self.running.append(message.data)
        self.most = max(self.most, len(self.running))
        try:
            await self.go.wait()
            if isinstance(message, JetStreamMessage):
                message.ack()
            self.done.append(message.data)
        finally:
            self.running.remove(message.data)


async def test_so_many_messages_are_worked_on_at_the_same_time(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 40)
        workers = Workers()
        async with consumer.consume(workers, concurrency=10):
            await until(lambda: len(workers.running) == 10)
            workers.go.set()
            await until(lambda: len(workers.done) == 40)

        assert workers.most == 10
        assert sorted(map(int, workers.done)) == list(range(40))

        async def all_taken() -> bool:
            return (await consumer.info()).num_ack_pending == 0

        await until(all_taken)


async def test_no_more_is_pulled_than_can_be_worked_on(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 30)
        workers = Workers()
        async with consumer.consume(workers, concurrency=3):
            await until(lambda: len(workers.running) == 3)

            async def pending() -> bool:
                return (await consumer.info()).num_ack_pending == 6

            await until(pending)
            others = await consumer.fetch(30, no_wait=True)
            assert len(others) == 24
            for message in others:
                message.ack()
            workers.go.set()
            await until(lambda: len(workers.done) == 6)
        assert workers.most == 3


async def test_messages_of_one_key_keep_their_order_while_others_continue(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 30, keys=3)
        slow = asyncio.Event()
        seen: dict[str, list[int]] = defaultdict(list)
        working: set[str] = set()

        async def work(message: JetStreamMessage) -> None:
            key = message.subject
            assert key not in working
            working.add(key)
            if key.endswith(".0"):
                await slow.wait()
            await asyncio.sleep(0)
            working.remove(key)
            seen[key].append(int(message.data))
            message.ack()

        async with consumer.consume(work, concurrency=4, ordered_by="subject", prefetch=30):
            await until(lambda: len(seen[f"{name}.1"]) == len(seen[f"{name}.2"]) == 10)
            assert not seen[f"{name}.0"]
            slow.set()
            await until(lambda: len(seen[f"{name}.0"]) == 10)

        assert [seen[f"{name}.{key}"] for key in range(3)] == [
            list(range(key, 30, 3)) for key in range(3)
        ]


async def test_the_key_is_what_a_function_says_and_its_errors_are_reported(
    client: Connect, name: str
) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        consumer = await consumer_of(nc.jetstream(), name, 20)
        seen: dict[int, list[int]] = defaultdict(list)

        def key(message: JetStreamMessage) -> int:
            number = int(message.data)
            if number == 7:
                raise RuntimeError("no key for seven")
            return number % 2

        async def work(message: JetStreamMessage) -> None:
            await asyncio.sleep(0)
            seen[int(message.data) % 2].append(int(message.data))
            message.ack()

        async with consumer.consume(work, concurrency=5, ordered_by=key):
            await until(lambda: sum(map(len, seen.values())) == 20)

        seen[1].remove(7)
        assert seen == {0: list(range(0, 20, 2)), 1: [n for n in range(1, 20, 2) if n != 7]}
        assert [str(error) for error in errors] == ["no key for seven"]


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_long_work_is_kept_by_signals(client: Connect, name: str, concurrency: int) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await stream_of(js, name, 2)
        consumer = await stream.create_consumer(durable="w", ack_wait=1)
        signals: dict[str, int] = defaultdict(int)

        def heard(message: Message) -> None:
            if message.data == b"+WPI":
                signals[message.subject.split(".")[-4]] += 1

        await nc.subscribe(f"$JS.ACK.{name}.w.>", callback=heard)
        workers = Workers()
        # One key: the second waits for the first, and is kept anyway.
        async with consumer.consume(
            workers, concurrency=concurrency, ordered_by="subject", in_progress=True
        ):
            await until(lambda: min(signals.get("1", 0), signals.get("2", 0)) >= 2)
            assert workers.running == [b"0"]
            workers.go.set()
            await until(lambda: len(workers.done) >= 2)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_messages_that_were_not_started_are_redelivered_at_once(
    client: Connect, name: str, concurrency: int
) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 12)
        workers = Workers()
        consumption = consumer.consume(workers, concurrency=concurrency, prefetch=12)
        await until(lambda: len(workers.running) == concurrency)
        closing = asyncio.ensure_future(consumption.close(timeout=60))

        others: list[bytes] = []

        async def fetched() -> bool:
            for message in await consumer.fetch(12, timeout=1):
                message.ack()
                others.append(message.data)
            return len(others) == 12 - concurrency

        await until(fetched, "what was buffered did not come back")
        assert not closing.done()
        workers.go.set()
        await closing

        assert sorted([*map(int, workers.done), *map(int, others)]) == list(range(12))


async def test_what_does_not_end_in_time_is_cancelled_and_given_back(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 4)
        workers = Workers()
        consumption = consumer.consume(workers, concurrency=2)
        await until(lambda: len(workers.running) == 2)

        with pytest.raises(
            RequestTimeout, match=r"did not finish within 0\.05 s and was cancelled"
        ):
            await consumption.close(timeout=0.05)

        assert not workers.running
        assert consumption.is_closed
        again: set[bytes] = set()

        async def fetched() -> bool:
            again.update(message.data for message in await consumer.fetch(4, timeout=1))
            return len(again) == 4

        await until(fetched, "what was cancelled did not come back")


async def test_one_that_fails_is_reported_and_the_others_continue(
    client: Connect, name: str
) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        consumer = await consumer_of(nc.jetstream(), name, 10)
        done: list[bytes] = []

        async def work(message: JetStreamMessage) -> None:
            if message.data == b"3":
                raise RuntimeError("three")
            await asyncio.sleep(0)
            message.ack()
            done.append(message.data)

        async with consumer.consume(work, concurrency=3):
            await until(lambda: len(done) == 9 and bool(errors))

        assert [str(error) for error in errors] == ["three"]


async def test_drain_and_the_drain_of_the_client_wait_for_all(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 6)
        workers = Workers()
        consumption = consumer.consume(workers, concurrency=3)
        await until(lambda: len(workers.running) == 3)
        draining = asyncio.ensure_future(consumption.drain(timeout=60))
        await asyncio.sleep(0)
        workers.go.set()
        await draining
        assert consumption.is_closed
        first = len(workers.done)
        assert first >= 3

        workers.go.clear()
        consumer.consume(workers, concurrency=3)
        for n in range(6):
            await nc.jetstream().publish(f"{name}.0", b"more %d" % n)
        await until(lambda: len(workers.running) == 3)
        closing = asyncio.ensure_future(nc.drain(timeout=60))
        await asyncio.sleep(0)
        assert workers.running
        workers.go.set()
        await closing
        assert not workers.running
        assert len(workers.done) > first


async def test_started_work_ends_when_the_client_closes(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 3)
        workers, plain = Workers(), Workers()
        consumer.consume(workers, concurrency=3)
        await nc.subscribe(f"{name}-core", callback=plain, concurrency=3)
        for n in range(3):
            nc.publish(f"{name}-core", b"%d" % n)
        await until(lambda: len(workers.running) == len(plain.running) == 3)
        asyncio.get_running_loop().call_soon(plain.go.set)
        await nc.close()

        assert len(plain.done) == 3
        # The others were cancelled when their two seconds were over.
        await until(lambda: not workers.running)


async def test_a_callback_ends_its_own_pool(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc.jetstream(), name, 10)
        ended = asyncio.Event()

        async def work(message: JetStreamMessage) -> None:
            message.ack()
            await consumption.close()
            ended.set()

        consumption = consumer.consume(work, concurrency=3)
        await ended.wait()
        await consumption.wait()

        async def close_client(_message: Message) -> None:
            await nc.close()

        await nc.subscribe(f"{name}-x", callback=close_client, concurrency=2)
        nc.publish(f"{name}-x")
        await until(lambda: nc.is_closed)


async def test_core_subscriptions_have_it_too(client: Connect, name: str) -> None:
    async with client() as nc:
        workers = Workers()
        subscription = await nc.subscribe(f"{name}.*", callback=workers, concurrency=4)
        for n in range(12):
            nc.publish(f"{name}.{n % 2}", b"%d" % n)
        await until(lambda: len(workers.running) == 4)
        workers.go.set()
        await subscription.drain(timeout=60)
        assert len(workers.done) == 12
        assert workers.most == 4

        order: dict[str, list[int]] = defaultdict(list)

        async def work(message: Message) -> None:
            await asyncio.sleep(0)
            order[message.subject].append(int(message.data))

        async with nc.subscribe(
            f"{name}.*", callback=work, concurrency=4, ordered_by="subject"
        ) as ordered:
            for n in range(40):
                nc.publish(f"{name}.{n % 4}", b"%d" % n)
            await ordered.drain(timeout=60)
        assert [order[f"{name}.{key}"] for key in range(4)] == [
            list(range(key, 40, 4)) for key in range(4)
        ]


async def test_unsubscribing_calls_back_no_more(client: Connect, name: str) -> None:
    async with client() as nc:
        workers = Workers()
        subscription = await nc.subscribe(name, callback=workers, concurrency=2)
        for n in range(10):
            nc.publish(name, b"%d" % n)
        await until(lambda: len(workers.running) == 2)
        await nc.flush()
        await subscription.unsubscribe()
        workers.go.set()
        await until(lambda: not workers.running)
        await nc.flush()
        assert len(workers.done) == 2


async def test_push_and_pull_subscriptions_have_it_too(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await stream_of(js, name, 8)
        workers = Workers()
        async with js.subscribe(
            f"{name}.>", callback=workers, concurrency=4, in_progress=True
        ) as pushed:
            await until(lambda: len(workers.running) == 4)
            workers.go.set()
            await until(lambda: len(workers.done) == 8)
            assert pushed.pending_msgs == 0
        assert workers.most == 4

        pulled = Workers()
        async with js.pull_subscribe(f"{name}.>", durable="p") as subscription:
            subscription.consume(pulled, concurrency=4)
            await until(lambda: len(pulled.running) == 4)
            pulled.go.set()
            await until(lambda: len(pulled.done) == 8)
            await subscription.drain(timeout=60)
        assert pulled.most == 4


async def test_what_cannot_work_is_refused(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await stream_of(js, name, 1)
        consumer = await stream.create_consumer(durable="all", ack_policy="all")
        wrong: Any = 1.5
        with pytest.raises(SubscribeRefused, match="ack policy all"):
            consumer.consume(print, concurrency=2)
        with pytest.raises(ValueError, match="concurrency=0: expected at least 1"):
            consumer.consume(print, concurrency=0)
        with pytest.raises(TypeError, match="concurrency must be an int"):
            await nc.subscribe(name, callback=print, concurrency=wrong)
        with pytest.raises(ValueError, match="require a callback"):
            await nc.subscribe(name, concurrency=2)
        with pytest.raises(TypeError, match="expected a function of the message"):
            await nc.subscribe(name, callback=print, concurrency=2, ordered_by=wrong)
        with pytest.raises(ValueError, match="prefetch=1: expected at least concurrency=2"):
            (await stream.create_consumer(durable="w")).consume(print, concurrency=2, prefetch=1)
        before = nc.stats.subscriptions
        with pytest.raises(SubscribeRefused, match="ack policy all"):
            await js.subscribe(f"{name}.>", callback=print, concurrency=2, ack_policy="all")
        with pytest.raises(ValueError, match="require a callback"):
            await js.subscribe(f"{name}.>", concurrency=2)
        assert nc.stats.subscriptions == before
        assert sorted([each async for each in stream.consumer_names()]) == ["all", "w"]


def test_blocking_callbacks_run_on_so_many_threads(server: Any, name: str) -> None:
    together = threading.Barrier(4, timeout=60)
    threads: set[int] = set()
    done: list[bytes] = []
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name, subjects=[f"{name}.>"])
        for n in range(12):
            js.publish(f"{name}.{n}", b"%d" % n)
        consumer = stream.create_consumer(durable="w")

        def work(message: sync.JetStreamMessage) -> None:
            together.wait()
            threads.add(threading.get_ident())
            message.ack()
            done.append(message.data)

        with consumer.consume(work, concurrency=4):
            wait_until(lambda: len(done) == 12)
        assert len(threads) == 4

        plain: list[bytes] = []

        def take(message: Message) -> None:
            together.wait()
            plain.append(message.data)

        with nc.subscribe(f"{name}-core", callback=take, concurrency=4) as subscription:
            for n in range(8):
                nc.publish(f"{name}-core", b"%d" % n)
            subscription.drain(timeout=60)
        assert len(plain) == 8


def test_a_blocking_pool_ends_with_what_it_has(server: Any, name: str) -> None:
    go = threading.Event()
    begun: list[bytes] = []
    ended: list[bytes] = []
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name, subjects=[name])
        for n in range(8):
            js.publish(name, b"%d" % n)
        consumer = stream.create_consumer(durable="w", ack_wait=LONG)

        def work(message: sync.JetStreamMessage) -> None:
            begun.append(message.data)
            assert go.wait(60)
            message.ack()
            ended.append(message.data)

        consumption = consumer.consume(work, concurrency=2)
        wait_until(lambda: len(begun) == 2)
        with pytest.raises(RequestTimeout, match="left running on its thread"):
            consumption.close(timeout=0.05)
        others: list[bytes] = []

        def fetched() -> bool:
            for message in consumer.fetch(8, timeout=1):
                message.ack()
                others.append(message.data)
            return len(others) == 6

        wait_until(fetched)
        go.set()
        wait_until(lambda: len(ended) == 2)
        assert sorted(begun + others) == [b"%d" % n for n in range(8)]


async def test_work_continues_over_a_reconnect(client: Connect, name: str) -> None:
    async with client(reconnect_wait=0.01) as nc:
        consumer = await consumer_of(nc.jetstream(), name, 20)
        workers = Workers()
        async with consumer.consume(workers, concurrency=3):
            await until(lambda: len(workers.running) == 3)
            await nc.force_reconnect(timeout=60)
            await nc.flush(timeout=60)
            workers.go.set()
            await until(lambda: len(set(workers.done)) == 20)
        assert workers.most == 3


def test_a_blocking_callback_gives_back_what_it_did_not_begin(server: Any, name: str) -> None:
    go = threading.Event()
    begun: list[bytes] = []
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name, subjects=[name])
        for n in range(8):
            js.publish(name, b"%d" % n)
        consumer = stream.create_consumer(durable="w", ack_wait=LONG)

        def work(message: sync.JetStreamMessage) -> None:
            begun.append(message.data)
            assert go.wait(60)
            message.ack()

        consumption = consumer.consume(work)
        wait_until(lambda: len(begun) == 1)
        closing = threading.Thread(target=consumption.close, kwargs={"timeout": 60})
        closing.start()
        others: list[bytes] = []

        def fetched() -> bool:
            for message in consumer.fetch(8, timeout=1):
                message.ack()
                others.append(message.data)
            # The next one could have started at the same time: it comes with the end.
            return len(others) >= 6

        wait_until(fetched)
        go.set()
        closing.join(60)
        wait_until(lambda: fetched() and len(others) == 7)
        assert sorted(begun + others) == [b"%d" % n for n in range(8)]
