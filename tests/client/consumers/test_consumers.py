"""Pull consumers over a real server: wire.md, Consumers, ADR-15 acks and pull statuses."""

import asyncio
import contextlib
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.waiting import until

from jetspark import (
    AckPolicy,
    Client,
    Consumer,
    ConsumerConfig,
    DeliverPolicy,
    JetStream,
    JetStreamMessage,
    PriorityPolicy,
    PullGroup,
    Reason,
    Stream,
    StreamConfig,
)
from jetspark.errors import (
    BadName,
    ConnectionClosed,
    ConsumerDeleted,
    ConsumerExists,
    ConsumerNotFound,
    NoResponders,
    PinIdMismatch,
    PullRefused,
    RequestTimeout,
    StreamNotFound,
    SubscribeRefused,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def filled(js: JetStream, name: str, count: int, **changes: Any) -> Stream:
    """A stream with ``count`` messages on ten subjects; message n has payload n."""
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), **changes))
    for n in range(1, count + 1):
        await js.publish_async(f"{name}.{n % 10}", b"%d" % n)
    await js.publish_async_complete()
    return stream


async def made(stream: Stream, **changes: Any) -> Consumer:
    given: dict[str, Any] = {"ack_policy": AckPolicy.EXPLICIT}
    return await stream.create_consumer(ConsumerConfig(**(given | changes)))


def numbers(messages: list[JetStreamMessage]) -> list[int]:
    return [int(message.data) for message in messages]


async def test_a_consumer_is_created_found_listed_and_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        created = await made(stream, durable="d", description="test")
        again = await made(stream, durable="d", description="test")
        found = await stream.consumer("d")
        await made(stream, name="other")

        assert created.name == again.name == found.name == "d"
        assert found.config.description == "test"
        assert [each.name async for each in stream.consumers()] == ["d", "other"]
        assert [each async for each in stream.consumer_names()] == ["d", "other"]

        await stream.delete_consumer("d")
        await (await stream.consumer("other")).delete()
        with pytest.raises(ConsumerNotFound):
            await stream.consumer("d")
        with pytest.raises(ConsumerNotFound):
            await stream.delete_consumer("other")


async def test_create_update_and_create_or_update(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        with pytest.raises(ConsumerNotFound):
            await stream.update_consumer(ConsumerConfig(durable="d"))
        await made(stream, durable="d")
        with pytest.raises(ConsumerExists):
            await made(stream, durable="d", max_deliver=5)
        updated = await stream.update_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, max_deliver=5)
        )
        both = await stream.create_or_update_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, max_deliver=6)
        )

        assert updated.config.max_deliver == 5
        assert both.config.max_deliver == 6


@pytest.mark.parametrize("bad", ["a.b", "a b", "a*", "a>", "a/b"])
async def test_a_bad_consumer_name_is_refused_before_it_is_sent(
    client: Connect, name: str, bad: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)

        with pytest.raises(BadName):
            await stream.consumer(bad)
        with pytest.raises(BadName):
            await made(stream, durable=bad)


async def test_a_single_filter_stands_in_the_subject_of_the_request(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 20)
        one = await made(stream, filter_subject=f"{name}.3")
        two = await made(stream, filter_subjects=(f"{name}.3", f"{name}.4"))

        assert numbers(await one.fetch(10, no_wait=True)) == [3, 13]
        assert numbers(await two.fetch(10, no_wait=True)) == [3, 4, 13, 14]


async def test_fetch_returns_what_was_asked_for(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1000)
        consumer = await made(stream, ack_policy=AckPolicy.NONE)

        assert numbers(await consumer.fetch(1)) == [1]
        assert numbers(await consumer.fetch(500)) == list(range(2, 502))
        assert numbers(await consumer.fetch(1000, no_wait=True)) == list(range(502, 1001))


async def test_fetch_returns_nothing_when_there_is_nothing(client: Connect, name: str) -> None:
    """ADR-15: 404 and 408 are hidden; an empty result is no error."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        consumer = await made(stream)

        assert await consumer.fetch(5, no_wait=True) == []
        assert await consumer.fetch(5, timeout=0.1) == []
        with pytest.raises(RequestTimeout):
            await consumer.next(timeout=0.1)


async def test_fetch_returns_what_came_before_its_time_was_over(
    client: Connect, name: str
) -> None:
    """ADR-15: 408 is not considered in fetch counts."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        consumer = await made(stream)

        assert numbers(await consumer.fetch(10, timeout=0.2)) == [1, 2, 3]


async def test_fetch_waits_for_messages(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream)
        waiting = asyncio.create_task(consumer.fetch(2, heartbeat=0.5))
        await asyncio.sleep(0)
        await js.publish(f"{name}.a", b"1")
        await js.publish(f"{name}.a", b"2")

        assert numbers(await waiting) == [1, 2]


async def test_fetch_is_bounded_by_bytes(client: Connect, name: str) -> None:
    """decisions.md, Consumers and subscriptions: no error while there are messages."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream)
        for _ in range(4):
            await js.publish(f"{name}.a", bytes(1000))

        assert len(await consumer.fetch(10, max_bytes=3000)) == 2
        with pytest.raises(PullRefused, match="Message Size Exceeds MaxBytes"):
            await consumer.fetch(10, max_bytes=500)


async def test_a_pull_of_a_missing_consumer_says_that_it_is_missing(
    client: Connect, name: str
) -> None:
    """ADR-15: 503 is raised; it says what is missing, as all other calls do."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        consumer = await made(stream)
        await consumer.delete()

        with pytest.raises(ConsumerNotFound, match=f"of stream '{name}'") as missing:
            await consumer.fetch(1, timeout=1)
        assert isinstance(missing.value.__cause__, NoResponders)
        await nc.jetstream().delete_stream(name)
        with pytest.raises(StreamNotFound, match=name):
            await consumer.next(timeout=1)


async def test_a_consumer_deleted_under_a_waiting_fetch_raises(client: Connect, name: str) -> None:
    """ADR-15: 409 is raised; messages that had arrived are kept for the next call."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 2)
        consumer = await made(stream)
        waiting = asyncio.create_task(consumer.fetch(5))
        while (await stream.consumer(consumer.name)).cached_info.num_waiting == 0:
            pass
        await consumer.delete()

        with pytest.raises(ConsumerDeleted):
            await waiting
        assert numbers(await consumer.fetch(5)) == [1, 2]


async def test_a_cancelled_fetch_loses_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 3)
        consumer = await made(stream, ack_policy=AckPolicy.NONE)
        waiting = asyncio.create_task(consumer.fetch(10))
        while (await consumer.info()).delivered.stream_seq < 3:
            pass
        await nc.flush()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert numbers(await consumer.fetch(10)) == [1, 2, 3]


async def test_a_fetch_cancelled_when_a_message_arrives_keeps_it(
    client: Connect, name: str
) -> None:
    """The message is here, but the task that waits for it has not run yet."""
    async with client() as nc, asyncio.timeout(10):
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream, ack_policy=AckPolicy.NONE)
        waiting = asyncio.create_task(consumer.fetch(10))
        await nc.flush()
        (subscription,) = nc._core._subscriptions.values()
        await js.publish(f"{name}.a", b"1")
        while not subscription.pending_msgs and not subscription.delivered:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert numbers(await consumer.fetch(10, timeout=0.5)) == [1]


async def test_a_fetch_without_a_connection_is_asked_once(client: Connect, name: str) -> None:
    async with client(reconnect_wait=0.01, reconnect_jitter=0.0) as nc, asyncio.timeout(10):
        stream = await filled(nc.jetstream(), name, 9)
        consumer = await made(stream)
        connection = nc._core.link.connection
        assert connection is not None
        assert connection._transport is not None
        connection._transport.abort()
        while nc.is_connected:
            await asyncio.sleep(0)
        fetched = await consumer.fetch(3)
        await nc.flush()

        assert numbers(fetched) == [1, 2, 3]
        assert (await consumer.info()).num_ack_pending == 3


async def test_limits_of_the_consumer_are_raised(client: Connect, name: str) -> None:
    """ADR-15: 409 is raised."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        consumer = await made(stream, max_batch=2)

        with pytest.raises(PullRefused, match="MaxRequestBatch"):
            await consumer.fetch(3)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"batch": 0}, "batch=0: expected"),
        ({"max_bytes": -1}, "max_bytes=-1: expected"),
        ({"timeout": 0}, "timeout=0: a pull request needs a time above 0"),
        ({"heartbeat": 0.01}, "heartbeat=0.01: expected"),
        ({"heartbeat": 4.0, "timeout": 5.0}, "at most"),
    ],
    ids=str,
)
async def test_a_fetch_that_cannot_work_is_refused(
    client: Connect, name: str, wrong: dict[str, Any], reason: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        consumer = await made(stream)

        with pytest.raises(ValueError, match=reason):
            await consumer.fetch(**wrong)


async def test_a_push_consumer_cannot_be_fetched(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        consumer = await made(stream, deliver_subject="somewhere")

        with pytest.raises(SubscribeRefused, match="push consumer"):
            await consumer.fetch(1)
        with pytest.raises(SubscribeRefused):
            consumer.messages()


async def test_a_pinned_client_keeps_its_place(client: Connect, name: str) -> None:
    """The pinned one gets a Nats-Pin-Id and sends it with every request."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 4)
        config = {
            "priority_groups": ("g",),
            "priority_policy": PriorityPolicy.PINNED_CLIENT,
            "priority_timeout": 60,
        }
        consumer = await made(stream, durable="d", **config)
        other = await stream.consumer("d")
        group = PullGroup(name="g")

        assert numbers(await consumer.fetch(1, group=group)) == [1]
        assert await other.fetch(1, group=group, timeout=0.3) == []
        assert numbers(await consumer.fetch(2, group=group)) == [2, 3]
        async with consumer.messages(group=group) as messages:
            with pytest.raises(TimeoutError):
                # An iterator is a reader of its own, and not the pinned one.
                await asyncio.wait_for(anext(messages), 0.3)


async def test_an_unpinned_client_leaves_its_place_to_another(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        consumer = await made(
            stream,
            durable="d",
            priority_groups=("g",),
            priority_policy=PriorityPolicy.PINNED_CLIENT,
            priority_timeout=60,
        )
        other = await stream.consumer("d")
        group = PullGroup(name="g")
        assert numbers(await consumer.fetch(1, group=group)) == [1]
        await consumer.unpin("g")

        assert numbers(await other.fetch(1, group=group)) == [2]
        with pytest.raises(PinIdMismatch):
            await consumer.fetch(1, group=group, timeout=1)
        assert numbers(await other.fetch(1, group=group)) == [3]


# Acknowledgements.


async def test_acks_are_taken(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)
        consumer = await made(stream)
        first, second, third, fourth, _ = await consumer.fetch(5)
        first.ack()
        await second.ack_sync()
        third.term(reason="broken")
        fourth.in_progress()

        async def are_taken() -> bool:
            """A nats-server takes acks next to the requests that follow them."""
            info = await consumer.info()
            return (info.num_ack_pending, info.ack_floor.stream_seq) == (2, 3)

        await until(are_taken)
        assert first.is_settled
        assert second.is_settled
        assert third.is_settled
        assert not fourth.is_settled


async def test_acks_are_published_to_the_reply_subject_as_it_is(
    client: Connect, name: str
) -> None:
    """ADR-15: the JSAck without modification; the bytes of the ack types."""
    async with client() as nc, client() as watcher:
        stream = await filled(nc.jetstream(), name, 6)
        consumer = await made(stream)
        seen = await watcher.subscribe(f"$JS.ACK.{name}.>")
        await watcher.flush()
        messages = await consumer.fetch(6)
        messages[0].ack()
        messages[1].nak()
        messages[2].nak(delay=1.5)
        messages[3].term()
        messages[4].term(reason="no")
        messages[5].in_progress()
        heard = [await seen.next() for _ in range(6)]

        assert [each.subject for each in heard] == [message.reply for message in messages]
        assert [each.data for each in heard] == [
            b"+ACK",
            b"-NAK",
            b'-NAK {"delay":1500000000}',
            b"+TERM",
            b"+TERM no",
            b"+WPI",
        ]


async def test_an_ack_that_could_not_be_published_is_raised_and_can_be_repeated(
    client: Connect, name: str
) -> None:
    """ADR-15: no error unless the publishing has one; marked *after* the successful publish."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        (message,) = await (await made(stream)).fetch(1)

    for _ in range(2):
        with pytest.raises(ConnectionClosed):
            message.ack()
    assert not message.is_settled


async def test_nak_delivers_again_at_once_or_later(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 2)
        consumer = await made(stream)
        first, second = await consumer.fetch(2)
        first.nak(delay=0.2)
        second.nak()
        again = await consumer.fetch(1)
        later = await consumer.fetch(1)

        assert numbers(again) == [2]
        assert numbers(later) == [1]
        assert again[0].metadata.num_delivered == 2


async def test_a_second_final_ack_is_silently_ignored(client: Connect, name: str) -> None:
    """ADR-15: once a terminal ack was published, all other requests are ignored."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        consumer = await made(stream)
        (message,) = await consumer.fetch(1)
        async with await nc.subscribe("$JS.ACK.>") as seen:
            message.ack()
            message.nak()
            message.term()
            message.ack()
            message.in_progress()
            await message.ack_sync()
            await nc.flush()

            assert [each.data async for each in limited(seen, 1)] == [b"+ACK"]
            assert seen.pending_msgs == 0


async def limited(subscription: Any, count: int) -> Any:
    for _ in range(count):
        yield await subscription.next()


async def test_acks_under_ack_policy_none_are_ignored(client: Connect, name: str) -> None:
    """ADR-15: with ack policy none all requests to send any type of ack are ignored."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        consumer = await made(stream, ack_policy=AckPolicy.NONE)
        (message,) = await consumer.fetch(1)
        async with await nc.subscribe("$JS.ACK.>") as seen:
            message.ack()
            message.nak(delay=1)
            message.term(reason="x")
            message.in_progress()
            await message.ack_sync()
            await nc.flush()

            assert seen.pending_msgs == 0


async def test_metadata_tells_where_a_message_comes_from(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        consumer = await made(stream, durable="d")
        (message,) = await consumer.fetch(1)
        stored = await stream.get_msg(seq=1)
        metadata = message.metadata

        assert (metadata.stream, metadata.consumer, metadata.domain) == (name, "d", None)
        assert (metadata.stream_seq, metadata.consumer_seq) == (1, 1)
        assert (metadata.num_delivered, metadata.num_pending) == (1, 2)
        assert metadata.time_ns == stored.time_ns
        assert message.time == stored.time


# Reading without end.


async def test_messages_come_without_end(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1000)
        consumer = await made(stream)
        seen = []
        async with consumer.messages(prefetch=100) as messages:
            async for message in messages:
                seen.append(int(message.data))
                message.ack()
                if len(seen) == 1000:
                    await js.publish(f"{name}.late", b"1001")
                if len(seen) == 1001:
                    break

        assert seen == list(range(1, 1002))


async def test_no_more_than_the_prefetch_is_in_flight(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 100)
        consumer = await made(stream)
        async with consumer.messages(prefetch=10) as messages:
            await anext(messages)
            await nc.flush()
            info = await consumer.info()

        # The prefetch, and what the reader has taken over.
        assert info.num_ack_pending <= 14


async def test_bytes_bound_what_is_in_flight(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        for n in range(50):
            await js.publish(f"{name}.a", b"%5d" % n + bytes(1000))
        consumer = await made(stream)
        seen = []
        async with consumer.messages(max_bytes=5000) as messages:
            async for message in messages:
                seen.append(int(message.data[:5]))
                if len(seen) == 1:
                    await nc.flush()
                    assert (await consumer.info()).num_ack_pending <= 10
                if len(seen) == 50:
                    break

        assert seen == list(range(50))


async def test_a_message_larger_than_max_bytes_ends_the_iteration(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        await js.publish(f"{name}.a", bytes(10_000))
        consumer = await made(stream)

        async with consumer.messages(max_bytes=5000) as messages:
            with pytest.raises(PullRefused, match="MaxBytes"):
                await anext(messages)


async def test_requests_that_expire_are_renewed(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream)
        async with consumer.messages(expires=0.4, heartbeat=0.2) as messages:
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.wait([waiting], timeout=1.0)
            assert not waiting.done()
            await js.publish(f"{name}.a", b"1")

            assert (await waiting).data == b"1"


async def test_a_deleted_consumer_ends_the_iteration(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 2)
        consumer = await made(stream)
        seen = []
        async with consumer.messages() as messages:
            seen.extend([int((await anext(messages)).data) for _ in range(2)])
            await consumer.delete()
            with pytest.raises(ConsumerDeleted):
                await anext(messages)

        assert seen == [1, 2]


async def test_a_missing_consumer_ends_the_iteration(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 2)
        consumer = await made(stream)
        await consumer.delete()

        async with consumer.messages() as messages:
            with pytest.raises(ConsumerNotFound):
                await anext(messages)


async def test_a_drained_iteration_gives_what_has_arrived(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 20)
        consumer = await made(stream)
        messages = consumer.messages(prefetch=10)
        first = await anext(messages)
        await nc.flush()
        await messages.drain()
        rest = [int(message.data) async for message in messages]

        assert int(first.data) == 1
        assert rest[:9] == list(range(2, 11))
        assert len(rest) < 20


async def test_an_iteration_cancelled_at_a_status_loses_nothing(
    client: Connect, name: str
) -> None:
    """What arrived before a status is handed out before it is acted on."""
    async with client(error_callback=lambda _: None) as nc, asyncio.timeout(10):
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        consumer = await made(stream)
        async with consumer.messages() as messages:
            seen = [int((await anext(messages)).data)]
            (subscription,) = nc._core._subscriptions.values()
            for n in (2, 3):
                await js.publish(f"{name}.a", b"%d" % n)
            while subscription.pending_msgs < 2:
                await asyncio.sleep(0)
            target = subscription.subject.replace("*", "1").encode()
            nc._core.send_message(target, b"", b"NATS/1.0 409 Leadership Change\r\n\r\n", b"")
            await nc.flush()
            for _ in range(3):
                waiting = asyncio.ensure_future(anext(messages))
                await asyncio.sleep(0)
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    seen.append(int((await waiting).data))
            await js.publish(f"{name}.a", b"4")
            while seen[-1] != 4:
                seen.append(int((await anext(messages)).data))

        assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("alarm", [-1, 0.5, float("nan"), float("inf")])
async def test_an_alarm_that_makes_no_sense_is_refused(
    client: Connect, name: str, alarm: float
) -> None:
    """It would go off all the time, or never."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream, durable="d")
        expected = "a number of seconds" if math.isnan(alarm) else "at least one heartbeat"

        with pytest.raises(ValueError, match=expected):
            consumer.messages(heartbeat=1.0, alarm=alarm)
        with pytest.raises(ValueError, match=expected):
            stream.ordered_consumer().messages(heartbeat=1.0, alarm=alarm)
        config = ConsumerConfig(idle_heartbeat=1)
        with pytest.raises(ValueError, match=expected):
            await js.subscribe(f"{name}.a", config=config, alarm=alarm)
        assert [each async for each in stream.consumer_names()] == ["d"]


async def test_consume_calls_back_in_order(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        stream = await filled(nc.jetstream(), name, 300)
        consumer = await made(stream)
        seen: list[int] = []
        done = asyncio.Event()

        async def on_message(message: JetStreamMessage) -> None:
            seen.append(int(message.data))
            message.ack()
            if len(seen) == 300:
                done.set()
            if len(seen) == 7:
                raise LookupError("seven")

        async with consumer.consume(on_message) as consumption:
            await asyncio.wait_for(done.wait(), 10)

        assert consumption.is_closed
        assert seen == list(range(1, 301))
        assert [str(error) for error in errors] == ["seven"]


async def test_consume_reports_what_ends_it(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        stream = await filled(nc.jetstream(), name, 1)
        consumer = await made(stream)
        called = asyncio.Event()
        consumption = consumer.consume(lambda _: called.set())
        await asyncio.wait_for(called.wait(), 5)
        await consumer.delete()

        with pytest.raises(ConsumerDeleted):
            await asyncio.wait_for(consumption.wait(), 5)
        assert [type(error) for error in errors] == [ConsumerDeleted]


async def test_consume_is_drained(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 50)
        consumer = await made(stream)
        seen: list[int] = []
        consumption = consumer.consume(lambda message: seen.append(int(message.data)), prefetch=50)
        while not seen:
            await asyncio.sleep(0)
        await consumption.drain()

        assert seen == list(range(1, 51))


async def test_silence_is_reported_and_the_request_repeated(client: Connect, name: str) -> None:
    """ADR-15: an alarm to the error callback after three heartbeats; then it continues."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        consumer = await made(stream)
        asked = await nc.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{name}.{consumer.name}")
        # No heartbeats are asked for, so the server is silent.
        async with consumer.messages(heartbeat=0.0, alarm=0.2) as messages:
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.wait([waiting], timeout=0.5)
            await js.publish(f"{name}.a", b"1")

            assert (await waiting).data == b"1"
        await nc.flush()
        assert {type(error).__name__ for error in errors} == {"HeartbeatMissed"}
        assert asked.pending_msgs > len(errors)  # the first request, and one for every alarm


# The rest of the handle.


async def test_a_paused_consumer_delivers_after_resume(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 1)
        consumer = await made(stream)
        paused = await consumer.pause(datetime.now(UTC) + timedelta(minutes=5))
        nothing = await consumer.fetch(1, timeout=0.2)
        why = await consumer.explain()
        resumed = await consumer.resume()

        assert paused.paused
        assert nothing == []
        assert why.reason is Reason.PAUSED
        assert not resumed.paused
        assert numbers(await consumer.fetch(1)) == [1]


async def test_a_reset_consumer_starts_again(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)
        consumer = await made(stream)
        for message in await consumer.fetch(5):
            message.ack()
        await nc.flush()

        assert await consumer.reset(3) == 3
        assert numbers(await consumer.fetch(5, timeout=0.5)) == [3, 4, 5]


async def test_explain_says_why(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 9)
        consumer = await made(stream, filter_subject=f"{name}.1", max_ack_pending=1, ack_wait=30)
        await js.publish(f"{name}.1", b"10")
        await stream.delete_msg(3)

        async def reason(seq: int = 0) -> Reason:
            return (await consumer.explain(seq)).reason

        assert await reason() is Reason.NO_PULL_WAITING
        (first,) = await consumer.fetch(1)
        assert await reason(1) is Reason.ACK_PENDING
        assert await reason(2) is Reason.FILTERED
        assert await reason(3) is Reason.NOT_STORED
        assert await reason(10) is Reason.MAX_ACK_PENDING
        assert await reason(11) is Reason.NOT_YET
        await first.ack_sync()
        assert await reason(1) is Reason.ACKNOWLEDGED
        (second,) = await consumer.fetch(1)
        await second.ack_sync()
        assert await reason() is Reason.NOTHING_PENDING
        assert "everything was delivered" in str(await consumer.explain())


async def test_explain_knows_single_messages_on_our_server(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        consumer = await made(stream, max_deliver=1, ack_wait=0.1)
        _, second, _ = await consumer.fetch(3)
        await second.ack_sync()
        ours = nc.server_info.jetspark is not None and nc.server_info.jetspark.min_last_seq
        # One that was delivered as often as it may be is given up when its time is over.
        assert await consumer.fetch(1, timeout=0.3) == []
        pending = (await consumer.info()).num_ack_pending
        given_up = await consumer.explain(1)
        acknowledged = await consumer.explain(2)

        # CONSUMER.INFO alone cannot tell them apart.
        vague = Reason.ACK_PENDING if pending else Reason.DELIVERED
        assert given_up.reason is (Reason.MAX_DELIVER if ours else vague)
        assert acknowledged.reason is (Reason.ACKNOWLEDGED if ours else vague)
        assert "sequence 2" in str(acknowledged)


async def test_explain_names_no_pending_message_where_there_is_none(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 2)
        consumer = await made(stream, max_deliver=1, ack_wait=0.1)
        await consumer.fetch(2)
        async with asyncio.timeout(10):
            while (await consumer.info()).num_ack_pending:
                await consumer.fetch(1, timeout=0.1)
        why = await consumer.explain(1)
        ours = nc.server_info.jetspark is not None and nc.server_info.jetspark.min_last_seq
        assert why.reason is (Reason.MAX_DELIVER if ours else Reason.DELIVERED)
        assert "max_deliver" in str(why)


async def test_a_consumer_of_new_messages_starts_there(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 3)
        consumer = await made(stream, deliver_policy=DeliverPolicy.NEW, ack_wait=0.5)
        await js.publish(f"{name}.a", b"4")

        assert numbers(await consumer.fetch(1)) == [4]


async def test_reading_ends_with_the_connection(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        consumer = await made(stream)
        waiting = asyncio.create_task(consumer.fetch(1))
        messages = consumer.messages()
        iterating = asyncio.ensure_future(anext(messages))
        await nc.flush()
    ended = await asyncio.gather(waiting, iterating, return_exceptions=True)

    assert [type(each) for each in ended] == [ConnectionClosed, ConnectionClosed]
