"""ADR-15 over a real server: lookup, creation, races, delivery, deletion."""

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
    JetStream,
    JetStreamMessage,
    Stream,
    StreamConfig,
)
from jetspark.client.jetstream.consumer.create import consumer_info
from jetspark.client.jetstream.subscribe import workflow
from jetspark.errors import (
    AlreadyEnded,
    AmbiguousSubject,
    ConsumerExists,
    ConsumerGap,
    ConsumerNotFound,
    HeartbeatMissed,
    NotJetStreamMessage,
    RequestTimeout,
    StreamNotFound,
    SubscribeRefused,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def filled(js: JetStream, name: str, count: int) -> Stream:
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    await fill(js, name, 1, count)
    return stream


async def fill(js: JetStream, name: str, first: int, last: int) -> None:
    for n in range(first, last + 1):
        await js.publish_async(f"{name}.a", b"%d" % n)
    await js.publish_async_complete()


async def numbers(subscription: Any, count: int) -> list[int]:
    return [int((await subscription.next()).data) for _ in range(count)]


async def names(stream: Stream) -> list[str]:
    return [each async for each in stream.consumer_names()]


# Finding the stream.


async def test_the_stream_is_found_by_subject(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 3)
        async with await js.subscribe(f"{name}.a") as subscription:
            assert subscription.stream == name
            assert await numbers(subscription, 3) == [1, 2, 3]


async def test_no_stream_or_several_for_the_subject_is_an_error(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(StreamNotFound):
            await js.subscribe(f"{name}.none")
        await js.create_stream(StreamConfig(name=f"{name}-1", subjects=(f"{name}.1",)))
        await js.create_stream(StreamConfig(name=f"{name}-2", subjects=(f"{name}.2",)))

        with pytest.raises(AmbiguousSubject, match="several streams match") as several:
            await js.subscribe(f"{name}.*")
        assert sorted(several.value.streams) == [f"{name}-1", f"{name}-2"]
        async with await js.subscribe(f"{name}.*", stream=f"{name}-1") as subscription:
            assert subscription.stream == f"{name}-1"


# Creation and deletion.


async def test_what_the_library_made_is_deleted_on_unsubscribe(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        temporary = await js.subscribe(f"{name}.a")
        durable = await js.subscribe(f"{name}.a", durable="d")
        pull = await js.pull_subscribe(f"{name}.a", durable="p")
        before = await names(stream)
        for each in (temporary, durable, pull):
            assert each.created_consumer
            await each.unsubscribe()

        assert sorted(before) == sorted(["d", "p", temporary.consumer])
        assert await names(stream) == []


@pytest.mark.parametrize("kind", ["subscribe", "pull_subscribe"])
async def test_a_call_that_is_cancelled_leaves_nothing(
    client: Connect, name: str, kind: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        call = asyncio.ensure_future(getattr(js, kind)(f"{name}.a", stream=name))
        await asyncio.sleep(0)  # the request to make the consumer is in progress
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(2):  # on its own it would go after 5 s
            while nc.stats.requests_pending:
                await asyncio.sleep(0.001)  # its answer: it exists now
            while await names(stream):
                pass

        assert nc.stats.subscriptions == 0
        assert nc.stats.requests_pending == 0


async def test_a_subscription_outlives_its_client_quietly(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        await filled(js, name, 0)
        push = await js.subscribe(f"{name}.a")
        pull = await js.pull_subscribe(f"{name}.a")
        await nc.close()
        for subscription in (push, pull):
            await subscription.drain()
            await subscription.unsubscribe()

    assert errors == []


async def test_an_existing_consumer_is_not_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 2)
        await stream.create_consumer(
            ConsumerConfig(
                durable="d", deliver_subject=f"to.{name}", ack_policy=AckPolicy.EXPLICIT
            )
        )
        await stream.create_consumer(ConsumerConfig(durable="p", ack_policy=AckPolicy.EXPLICIT))
        async with await js.subscribe(stream=name, consumer="d") as bound:
            assert await numbers(bound, 2) == [1, 2]
        async with await js.pull_subscribe(stream=name, durable="p") as pull:
            assert [int(each.data) for each in await pull.fetch(2)] == [1, 2]
        assert not bound.created_consumer
        assert not pull.created_consumer

        assert await names(stream) == ["d", "p"]


async def test_a_failed_deletion_is_raised_by_unsubscribe(client: Connect, name: str) -> None:
    """ADR-15: the library should send a "DeleteConsumer" request and return the error if any."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        subscription = await js.subscribe(f"{name}.a", durable="d")
        await stream.delete_consumer("d")

        with pytest.raises(ConsumerNotFound):
            await subscription.unsubscribe()


async def test_drain_takes_what_has_arrived_then_deletes(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 100)
        seen: list[int] = []

        async def on_message(message: JetStreamMessage) -> None:
            await asyncio.sleep(0)
            seen.append(int(message.data))
            await message.ack_sync()

        subscription = await js.subscribe(f"{name}.a", durable="d", callback=on_message)
        while not seen:
            await asyncio.sleep(0.001)
        await subscription.drain()

        assert seen == list(range(1, 101))
        assert errors == []  # the consumer existed to take the last ack
        assert subscription.is_closed
        assert await names(stream) == []


async def test_a_failed_deletion_after_drain_goes_to_the_error_callback(
    client: Connect, name: str
) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        push = await js.subscribe(f"{name}.a", durable="d")
        pull = await js.pull_subscribe(f"{name}.a", durable="p")
        await stream.delete_consumer("d")
        await stream.delete_consumer("p")
        await push.drain()
        await pull.drain()

        assert [type(error) for error in errors] == [ConsumerNotFound, ConsumerNotFound]


async def test_a_drained_subscription_waits_for_its_reader(client: Connect, name: str) -> None:
    """What the reader took over in one go and has not looked at yet counts as well."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc, asyncio.timeout(10):
        js = nc.jetstream()
        stream = await filled(js, name, 20)
        subscription = await js.subscribe(f"{name}.a")
        while subscription.pending_msgs < 20:
            await asyncio.sleep(0)
        seen = await numbers(subscription, 5)
        draining = asyncio.ensure_future(subscription.drain())
        await nc.flush()
        assert len(await names(stream)) == 1

        async for message in subscription:
            seen.append(int(message.data))
        await draining
        assert seen == list(range(1, 21))
        assert await names(stream) == []


async def test_a_drain_without_a_reader_reports_it(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 20)
        subscription = await js.subscribe(f"{name}.a")
        while subscription.pending_msgs < 20:
            await asyncio.sleep(0)
        await numbers(subscription, 5)

        with pytest.raises(RequestTimeout, match=r"15 messages were not read within 0\.1 s"):
            await subscription.drain(timeout=0.1)
        assert await names(stream) == []


async def test_a_drained_client_waits_for_iterations(client: Connect, name: str) -> None:
    async with client() as nc, client() as other, asyncio.timeout(10):
        stream = await filled(nc.jetstream(), name, 200)
        config = ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT)
        await stream.create_consumer(config)
        consumer = await (await other.jetstream().stream(name)).consumer("d")
        seen: list[int] = []
        drained: asyncio.Future[None] | None = None
        async for message in consumer.messages():
            message.ack()
            seen.append(int(message.data))
            drained = drained or asyncio.ensure_future(other.drain())
            await asyncio.sleep(0)
        assert drained is not None
        await drained

        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) > 100

        async def all_taken() -> bool:
            found = await (await stream.consumer("d")).info()
            return found.ack_floor.stream_seq == len(seen)

        await until(all_taken)


async def test_draining_the_connection_deletes_too(client: Connect, name: str) -> None:
    async with client() as nc, client() as other:
        stream = await filled(nc.jetstream(), name, 1)
        subscription = await other.jetstream().subscribe(f"{name}.a", callback=lambda _: None)
        assert await names(stream) == [subscription.consumer]
        await other.drain()

        assert await names(stream) == []


async def test_a_drained_pull_subscription_waits_for_its_iterators(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 5)
        pull = await js.pull_subscribe(f"{name}.a")
        messages = pull.messages()
        first = await anext(messages)
        with pytest.raises(RequestTimeout, match="were not read"):
            await pull.drain(timeout=0.1)

        assert int(first.data) == 1
        assert await names(stream) == []
        with pytest.raises(AlreadyEnded, match="ended by unsubscribe"):
            await pull.fetch(1)


# Queues.


async def test_members_of_a_queue_share_the_consumer_named_after_it(
    client: Connect, name: str
) -> None:
    errors: list[Exception] = []
    report = errors.append
    async with client(error_callback=report) as nc, client(error_callback=report) as other:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        seen: list[int] = []
        members: set[int] = set()

        def member(number: int) -> Callable[[JetStreamMessage], None]:
            def on_message(message: JetStreamMessage) -> None:
                seen.append(int(message.data))
                members.add(number)
                message.ack()

            return on_message

        one = await js.subscribe(f"{name}.a", queue="bar", callback=member(1))
        two = await other.jetstream().subscribe(f"{name}.a", queue="bar", callback=member(2))
        await nc.flush()
        await other.flush()
        await fill(js, name, 1, 100)
        while len(seen) < 100:
            await asyncio.sleep(0.001)

        assert sorted(seen) == list(range(1, 101))
        assert members == {1, 2}
        assert errors == []  # ADR-15: what went to the other member is no gap
        assert await names(stream) == ["bar"]
        assert (one.created_consumer, two.created_consumer) == (True, False)
        await two.unsubscribe()
        await one.unsubscribe()


async def test_the_member_that_made_the_consumer_leaves_it_to_the_others(
    client: Connect, name: str
) -> None:
    """After its own unsubscribe it deletes only when push_bound is false."""
    async with client() as nc, client() as other:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        one = await js.subscribe(f"{name}.a", queue="bar")
        two = await other.jetstream().subscribe(f"{name}.a", queue="bar")
        await other.flush()
        await one.drain()
        assert await names(stream) == ["bar"]
        await fill(js, name, 1, 3)
        assert await numbers(two, 3) == [1, 2, 3]
        await two.unsubscribe()
        three = await js.subscribe(f"{name}.a", queue="bar2")
        await three.unsubscribe()

        assert await names(stream) == []


# Mismatches, with the server's own answers.


async def test_a_second_subscriber_of_a_durable_is_refused(client: Connect, name: str) -> None:
    async with client() as nc, client() as other:
        js = nc.jetstream()
        await filled(js, name, 0)
        async with await js.subscribe(f"{name}.a", durable="d"):
            with pytest.raises(SubscribeRefused, match="duplicate subscription"):
                await other.jetstream().subscribe(f"{name}.a", durable="d")
            with pytest.raises(SubscribeRefused, match="without a deliver group"):
                await other.jetstream().subscribe(f"{name}.a", durable="d", queue="q")
            with pytest.raises(SubscribeRefused, match="is a push consumer"):
                await other.jetstream().pull_subscribe(f"{name}.a", durable="d")
            with pytest.raises(SubscribeRefused, match="subject mismatch"):
                await other.jetstream().pull_subscribe(
                    f"{name}.b", stream=name, durable=(await made_pull(js, name))
                )


async def made_pull(js: JetStream, name: str) -> str:
    stream = await js.stream(name)
    await stream.create_consumer(
        ConsumerConfig(durable="p", ack_policy=AckPolicy.EXPLICIT, filter_subject=f"{name}.a")
    )
    return "p"


async def test_the_deliver_subject_of_an_unbound_consumer_is_changed(
    client: Connect, name: str
) -> None:
    """ADR-15: only a deliver subject can be changed for an existing JS consumer."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 2)
        await stream.create_consumer(
            ConsumerConfig(
                durable="d", deliver_subject=f"old.{name}", ack_policy=AckPolicy.EXPLICIT
            )
        )
        config = ConsumerConfig(deliver_subject=f"new.{name}")
        async with await js.subscribe(stream=name, durable="d", config=config) as subscription:
            assert await numbers(subscription, 2) == [1, 2]
            assert (await subscription.info()).config.deliver_subject == f"new.{name}"


async def test_a_pull_consumer_that_cannot_be_looked_up_is_bound_anyway(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        pull = await js.pull_subscribe(stream=name, consumer="later")
        with pytest.raises(ConsumerNotFound, match="'later'"):
            await pull.fetch(1, timeout=0.5)
        await stream.create_consumer(
            ConsumerConfig(durable="later", ack_policy=AckPolicy.EXPLICIT)
        )

        assert (await pull.next()).data == b"1"
        with pytest.raises(ConsumerNotFound, match=f"'missing' of stream '{name}'"):
            await js.subscribe(stream=name, consumer="missing")


# Races.


def miss_first_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process creates the consumer between our lookup and our create."""
    calls = []

    async def late(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ConsumerNotFound(404, 10014, "consumer not found")
        return await consumer_info(*args, **kwargs)

    monkeypatch.setattr(workflow, "consumer_info", late)


async def test_a_queue_member_that_loses_the_race_joins(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        js = nc.jetstream()
        await filled(js, name, 0)
        one = await js.subscribe(f"{name}.a", queue="q")
        await nc.flush()
        miss_first_lookup(monkeypatch)
        two = await other.jetstream().subscribe(f"{name}.a", queue="q")
        await other.flush()

        assert not two.created_consumer
        assert two.cached_info.config.deliver_subject == one.cached_info.config.deliver_subject
        assert other.stats.subscriptions == 1  # the one made before was deleted
        await one.drain()
        await fill(js, name, 1, 2)
        assert await numbers(two, 2) == [1, 2]


async def test_a_plain_subscriber_that_loses_the_race_gets_the_error(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        js = nc.jetstream()
        await filled(js, name, 0)
        await js.subscribe(f"{name}.a", durable="d")
        await nc.flush()
        miss_first_lookup(monkeypatch)

        with pytest.raises(ConsumerExists):
            await other.jetstream().subscribe(f"{name}.a", durable="d")
        assert other.stats.subscriptions == 0


async def test_a_pull_subscriber_that_loses_the_race_checks_the_existing_consumer(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        await stream.create_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, description="theirs")
        )
        miss_first_lookup(monkeypatch)
        pull = await js.pull_subscribe(stream=name, durable="d")

        assert not pull.created_consumer
        assert (await pull.next()).data == b"1"


# Delivery and statuses.


async def test_the_subscription_exists_before_the_consumer(client: Connect, name: str) -> None:
    async with client() as nc, client() as watcher:
        js = nc.jetstream()
        await filled(js, name, 1)
        async with await watcher.subscribe(f"$JS.API.CONSUMER.CREATE.{name}.>") as created:
            # Two connections: only a flush orders this SUB before the requests of the other.
            await watcher.flush()
            async with await js.subscribe(f"{name}.a") as subscription:
                await created.next()
                message = await subscription.next()

                assert message.metadata.consumer_seq == 1
                assert (await subscription.info()).num_redelivered == 0


async def test_heartbeats_are_not_shown(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        await filled(js, name, 1)
        config = ConsumerConfig(idle_heartbeat=0.1, flow_control=True)
        async with await js.subscribe(f"{name}.a", config=config) as subscription:
            assert (await subscription.next()).data == b"1"
            with pytest.raises(RequestTimeout):
                await subscription.next(timeout=0.5)
            assert errors == []


@pytest.mark.parametrize(("alarm", "text"), [(None, "0.3 s"), (0.5, "0.5 s")])
async def test_missed_heartbeats_are_reported(
    client: Connect, name: str, alarm: float | None, text: str
) -> None:
    """ADR-15: after three intervals, or the time that the user configured, by error callback."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 0)
        config = ConsumerConfig(idle_heartbeat=0.1)
        subscription = await js.subscribe(f"{name}.a", durable="d", config=config, alarm=alarm)
        await stream.delete_consumer("d")
        async with asyncio.timeout(5):
            while not errors:
                await asyncio.sleep(0.01)

        assert isinstance(errors[0], HeartbeatMissed)
        assert text in str(errors[0])
        with pytest.raises(ConsumerNotFound):
            await subscription.unsubscribe()


async def test_a_gap_is_reported_to_the_error_callback(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        await filled(js, name, 3)
        async with await js.subscribe(f"{name}.a") as subscription:
            queue = subscription._subscription.sink.messages
            while len(queue) < 3:
                await asyncio.sleep(0.001)
            del queue[1]

            assert await numbers(subscription, 2) == [1, 3]
        assert [str(error) for error in errors] == [str(ConsumerGap(2, 3))]
        assert f"of stream {name!r}" in errors[0].__notes__[0]


@pytest.mark.parametrize("queue", ["", "q"])
async def test_what_is_no_jetstream_message_is_reported_and_not_shown(
    client: Connect, name: str, queue: str
) -> None:
    """ADR-15, JSAck: a message must have such a reply to be considered a JetStream message."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        js = nc.jetstream()
        await filled(js, name, 0)
        async with await js.subscribe(f"{name}.a", queue=queue) as subscription:
            nc.publish(subscription.cached_info.config.deliver_subject, b"0", reply="a.b")
            await fill(js, name, 1, 1)

            assert await numbers(subscription, 1) == [1]
        assert [type(error) for error in errors] == [NotJetStreamMessage]


async def test_flow_control_is_answered_when_the_reader_gets_there(
    client: Connect, name: str
) -> None:
    """ADR-15: at the time when the message would have been passed to the user, and once."""
    async with client() as nc, client() as watcher:
        js = nc.jetstream()
        await filled(js, name, 0)
        for _ in range(60):
            await js.publish_async(f"{name}.a", bytes(50_000))
        await js.publish_async_complete()
        answers = await watcher.subscribe("$JS.FC.>")
        await watcher.flush()
        config = ConsumerConfig(idle_heartbeat=1, flow_control=True)
        async with await js.subscribe(f"{name}.a", config=config, ack_policy=AckPolicy.NONE) as s:
            arrived = s._subscription.sink.messages
            while not any(m.status == 100 for m in arrived):
                await asyncio.sleep(0.005)
            before = [m.status for m in arrived].index(100)
            for _ in range(before):
                await s.next()
            await nc.flush()
            await watcher.flush()
            assert before > 0
            assert answers.pending_msgs == 0

            for _ in range(60 - before):
                await s.next()
            await nc.flush()
            await watcher.flush()

            subjects = [(await answers.next()).subject for _ in range(answers.pending_msgs)]
            assert subjects
            assert len(subjects) == len(set(subjects))
            assert all(subject.startswith("$JS.FC.") for subject in subjects)


async def test_a_stalled_consumer_continues(client: Connect, name: str) -> None:
    """ADR-15: a missed flow-control request is answered from the stalled header."""
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 0)
        for _ in range(100):
            await js.publish_async(f"{name}.a", bytes(50_000))
        await js.publish_async_complete()
        config = ConsumerConfig(idle_heartbeat=0.2, flow_control=True)
        async with await js.subscribe(f"{name}.a", config=config, ack_policy=AckPolicy.NONE) as s:
            queue = s._subscription.sink.messages
            while not any(m.status == 100 and m.reply for m in queue):
                await asyncio.sleep(0.005)
            lost = next(m for m in queue if m.status == 100 and m.reply)
            queue.remove(lost)

            for _ in range(100):
                await s.next()


async def test_settings_reach_the_consumer(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 0)
        config = ConsumerConfig(max_deliver=3, description="x", ack_wait=9)
        async with await js.subscribe(f"{name}.a", config=config) as subscription:
            info = await subscription.info()

        assert info.config.filter_subject == f"{name}.a"
        assert (info.config.max_deliver, info.config.description) == (3, "x")
        assert info.config.ack_policy is AckPolicy.EXPLICIT
        assert info.config.deliver_subject.startswith("_INBOX.")
