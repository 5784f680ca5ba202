"""Ordered consumers, pull and push: in order, each once, whatever happens (ADR-15)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.waiting import until

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    DeliverPolicy,
    JetStream,
    Stream,
    StreamConfig,
)
from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerConfig as WireConfig
from jetspark.client.jetstream.consumer.ordered import OrderedReader
from jetspark.errors import ConsumerDeleted, RequestTimeout, StreamNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]
MODES = pytest.mark.parametrize("push", [False, True], ids=["pull", "push"])


async def filled(js: JetStream, name: str, count: int) -> Stream:
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    await fill(js, name, 1, count)
    return stream


async def fill(js: JetStream, name: str, first: int, last: int) -> None:
    for n in range(first, last + 1):
        await js.publish_async(f"{name}.{n % 10}", b"%d" % n)
    await js.publish_async_complete()


@MODES
async def test_an_ordered_consumer_reads_the_stream_in_order(
    client: Connect, name: str, push: bool
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1500)
        seen = []
        async with stream.ordered_consumer(push=push).messages() as messages:
            async for message in messages:
                seen.append(int(message.data))
                if len(seen) == 1500:
                    await fill(js, name, 1501, 1510)
                if len(seen) == 1510:
                    break

        assert seen == list(range(1, 1511))


@MODES
async def test_it_starts_at_the_configured_sequence(
    client: Connect, name: str, push: bool
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 30)
        from_seq = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=12,
            filter_subject=f"{name}.3",
        )
        stored = await stream.get_msg(seq=28)
        # Exact: another message may lie within the same microsecond.
        exact: Any = Timestamp(stored.time_ns)
        from_time = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=exact
        )
        per_subject = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)

        async def read(config: ConsumerConfig, count: int) -> list[int]:
            async with stream.ordered_consumer(config, push=push) as consumer:
                return [int(each.data) for each in await consumer.fetch(count)]

        assert await read(from_seq, 2) == [13, 23]
        assert await read(from_time, 3) == [28, 29, 30]
        assert await read(per_subject, 10) == list(range(21, 31))


@MODES
async def test_fetch_and_next_continue_where_the_last_ended(
    client: Connect, name: str, push: bool
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 10)
        async with stream.ordered_consumer(push=push) as consumer:
            first = await consumer.next()
            some = await consumer.fetch(4)
            rest = await consumer.fetch(100, timeout=0.3)
            with pytest.raises(RequestTimeout):
                await consumer.next(timeout=0.1)

        numbers = [int(each.data) for each in [first, *some, *rest]]
        assert numbers == list(range(1, 11))
        assert len(some) == 4


@MODES
async def test_a_deleted_consumer_is_created_again(client: Connect, name: str, push: bool) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 5)
        reader = OrderedReader(js._api, name, WireConfig(), push=push, prefetch=10, heartbeat=0.2)
        seen = [int(each.data) for each in await reader.next_chunk(5)]
        while len(seen) < 5:
            seen += [int(each.data) for each in await reader.next_chunk(5)]
        assert reader.info is not None
        await stream.delete_consumer(reader.info.name)
        await fill(js, name, 6, 10)
        async with asyncio.timeout(10):
            while len(seen) < 10:
                seen += [int(each.data) for each in await reader.next_chunk(5)]
        await reader.stop()

        assert seen == list(range(1, 11))
        assert reader.restarts >= 1


@MODES
async def test_a_lost_message_is_fetched_again(client: Connect, name: str, push: bool) -> None:
    """ADR-15, message gaps: ordered consumers rely on them."""
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 100)
        reader = OrderedReader(js._api, name, WireConfig(), push=push, prefetch=100, heartbeat=0.5)
        await reader.start()
        source = reader._source
        assert source is not None
        if not push:
            source._ask()  # type: ignore[union-attr]
        queue = source._subscription.sink.messages
        while len(queue) < 60:
            await asyncio.sleep(0.001)
        del queue[50]
        seen: list[int] = []
        async with asyncio.timeout(10):
            while len(seen) < 100:
                seen += [int(each.data) for each in await reader.next_chunk(100)]
        await reader.stop()

        assert seen == list(range(1, 101))
        assert reader.restarts == 1


async def test_a_gap_that_a_heartbeat_tells_of_is_closed(client: Connect, name: str) -> None:
    """ADR-15: heartbeats carry the last consumer sequence."""
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 3)
        reader = OrderedReader(js._api, name, WireConfig(), push=True, prefetch=1, heartbeat=0.2)
        await reader.start()
        source = reader._source
        assert source is not None
        queue = source._subscription.sink.messages
        while len(queue) < 3:
            await asyncio.sleep(0.001)
        queue.pop()
        seen: list[int] = []
        async with asyncio.timeout(10):
            while len(seen) < 3:
                seen += [int(each.data) for each in await reader.next_chunk(100)]
        await reader.stop()

        assert seen == [1, 2, 3]
        assert reader.restarts == 1


@MODES
@pytest.mark.parametrize(("policy", "first"), [(DeliverPolicy.NEW, 6), (DeliverPolicy.LAST, 5)])
async def test_messages_between_two_consumers_are_not_missed(
    client: Connect, name: str, push: bool, policy: DeliverPolicy, first: int
) -> None:
    """What is new, and what is last, is another message when the consumer is created again."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 5)
        config = WireConfig(deliver_policy=policy)
        reader = OrderedReader(js._api, name, config, push=push, prefetch=10, heartbeat=0.2)
        info = await reader.start()
        await stream.delete_consumer(info.name)
        await fill(js, name, 6, 8)
        seen: list[int] = []
        async with asyncio.timeout(10):
            while not seen or seen[-1] < 8:
                seen += [int(each.data) for each in await reader.next_chunk(100)]
        await reader.stop()

        assert seen == list(range(first, 9))


@MODES
async def test_a_stream_created_again_is_read_from_its_beginning(
    client: Connect, name: str, push: bool
) -> None:
    """Its sequences are lower than what was read: waiting for the next one would be for ever."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        await filled(js, name, 5)
        reader = OrderedReader(js._api, name, WireConfig(), push=push, prefetch=10, heartbeat=0.2)
        seen: list[int] = []
        async with asyncio.timeout(10):
            while len(seen) < 5:
                seen += [int(each.data) for each in await reader.next_chunk(100)]
            await js.delete_stream(name)
            await filled(js, name, 0)
            await fill(js, name, 6, 7)
            while len(seen) < 7:
                seen += [int(each.data) for each in await reader.next_chunk(100)]
        await reader.stop()

        assert seen == [1, 2, 3, 4, 5, 6, 7]
        assert any("was created again: its last sequence is 2" in str(e) for e in errors)


@MODES
async def test_it_can_be_stopped_while_its_consumer_is_being_made(
    client: Connect, name: str, push: bool
) -> None:
    async with client() as nc, asyncio.timeout(5):
        stream = await filled(nc.jetstream(), name, 0)
        consumption = stream.ordered_consumer(push=push).consume(print)
        messages = stream.ordered_consumer(push=push).messages()
        waiting = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        await consumption.close()
        await messages.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

        # nats-server deletes in the background of other requests.
        async def all_deleted() -> bool:
            return [each async for each in stream.consumer_names()] == []

        await until(all_deleted)
        assert nc.stats.subscriptions == 0


async def test_two_that_fetch_at_once_use_one_consumer(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 20)
        async with stream.ordered_consumer() as consumer:
            parts = await asyncio.gather(consumer.fetch(10), consumer.fetch(10))
            consumers = [each async for each in stream.consumer_names()]

        assert [[int(each.data) for each in part] for part in parts] == [
            list(range(1, 11)),
            list(range(11, 21)),
        ]
        assert len(consumers) == 1


async def test_reading_one_by_one_does_not_ask_one_by_one(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 200)
        asked = await nc.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{name}.*")
        async with stream.ordered_consumer() as consumer:
            seen = [int((await consumer.next()).data) for _ in range(200)]
        await nc.flush()

        assert seen == list(range(1, 201))
        assert asked.pending_msgs < 20


async def test_a_persistent_problem_is_reported(client: Connect, name: str) -> None:
    """One restart is nothing to speak of; another one without a message in between is."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc, asyncio.timeout(10):
        stream = await filled(nc.jetstream(), name, 0)
        async with stream.ordered_consumer().messages() as messages:
            waiting = asyncio.ensure_future(anext(messages))
            while not errors:
                async for each in stream.consumers():
                    if each.num_waiting:
                        await stream.delete_consumer(each.name)
            waiting.cancel()

        assert isinstance(errors[0], ConsumerDeleted)
        assert "restarts" in errors[0].__notes__[0]


@pytest.mark.parametrize("heartbeat", [-1, 0.01, float("nan")])
async def test_a_heartbeat_that_no_server_takes_is_refused(
    client: Connect, name: str, heartbeat: float
) -> None:
    """It would be asked for, refused, and asked for again without end."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)

        with pytest.raises(ValueError, match="heartbeat"):
            stream.ordered_consumer().messages(heartbeat=heartbeat)
        with pytest.raises(ValueError, match="heartbeat=20 s"):
            stream.ordered_consumer().messages(heartbeat=20)
        with pytest.raises(ValueError, match="heartbeat=0"):
            stream.ordered_consumer(push=True).consume(print, heartbeat=0)


@MODES
async def test_its_consumer_is_deleted_in_the_end(client: Connect, name: str, push: bool) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        async with stream.ordered_consumer(push=push) as consumer:
            await consumer.next()
            info = consumer.cached_info
            assert info is not None
            assert info.config.ack_policy is AckPolicy.NONE
            assert info.config.mem_storage

        # The deletion is asked for and not waited for; nats-server does it next to other requests.
        async def is_gone() -> bool:
            return [name async for name in stream.consumer_names()] == []

        await until(is_gone)


@MODES
async def test_a_missing_stream_is_raised(client: Connect, name: str, push: bool) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        await js.delete_stream(name)

        with pytest.raises(StreamNotFound):
            await stream.ordered_consumer(push=push).next()


@MODES
async def test_a_callback_gets_the_messages(client: Connect, name: str, push: bool) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 50)
        seen: list[int] = []
        done = asyncio.Event()

        def on_message(message: object) -> None:
            seen.append(int(message.data))  # type: ignore[attr-defined]
            if len(seen) == 50:
                done.set()

        async with stream.ordered_consumer(push=push).consume(on_message):
            await asyncio.wait_for(done.wait(), 10)

        assert seen == list(range(1, 51))


async def test_what_it_settles_itself_is_refused(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)

        with pytest.raises(ValueError, match="sets durable, ack_policy itself"):
            stream.ordered_consumer(ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT))


async def test_large_data_is_paced_by_flow_control(client: Connect, name: str) -> None:
    """ADR-15: flow control is answered when the reader gets there, so everything arrives."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
        for _ in range(300):
            await js.publish_async(f"{name}.a", bytes(50_000))
        await js.publish_async_complete()
        count = 0
        async with stream.ordered_consumer(push=True).messages() as messages:
            async for _ in messages:
                count += 1
                if count == 300:
                    break

        assert count == 300


async def test_a_stream_made_again_is_noticed_by_a_reader_that_gave_up_meanwhile(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request where the new stream ends may time out: it is asked again."""
    look = OrderedReader._starts_after_the_end
    cut_off = asyncio.Event()

    async def slow_at_first(reader: OrderedReader) -> bool:
        if reader.restarts and not cut_off.is_set():
            cut_off.set()
            await asyncio.Event().wait()
        return await look(reader)

    monkeypatch.setattr(OrderedReader, "_starts_after_the_end", slow_at_first)
    async with client(error_callback=lambda _error: None) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[name])
        for _ in range(5):
            await js.publish(name, b"before")
        async with stream.ordered_consumer() as ordered:
            assert len(await ordered.fetch(5, timeout=30)) == 5
            await js.delete_stream(name)
            await js.create_stream(name, subjects=[name])
            await js.publish(name, b"after")
            found: list[bytes] = []
            async with asyncio.timeout(60):
                while not found:
                    found = [message.data for message in await ordered.fetch(1, timeout=0.5)]
        assert cut_off.is_set()
        assert found == [b"after"]
