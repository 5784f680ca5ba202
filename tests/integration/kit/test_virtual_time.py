"""``advance``: what is due in between happens in order, each at its time."""

import asyncio
import itertools
import time
from datetime import timedelta

import pytest

import jetspark
import jetspark.sync
from jetspark.testing import Server, SyncServer


async def test_a_day_of_ttls_and_ack_waits_takes_a_second() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s.>"], allow_msg_ttl=True)
        for number in range(500):
            await js.publish_async(f"s.{number}", b"", ttl=60 + number * 160)
        await js.publish_async_complete()
        worker = await stream.create_consumer(durable="w", ack_wait=3600, max_deliver=-1)
        await worker.fetch(500, timeout=5)
        before = time.process_time()
        started = time.monotonic()

        await server.advance(hours=12)
        left = (await stream.info()).state.messages
        await server.advance(hours=12)

        # A tenth of a second here, alone on the machine; it is busy when all tests run.
        assert time.monotonic() - started < 20
        assert time.process_time() - before < 5
        assert left == 500 - 270
        assert (await stream.info()).state.messages == 0


async def test_what_a_live_consumer_does_not_acknowledge_comes_every_ack_wait() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        worker = await stream.create_consumer(durable="w", ack_wait=30, max_deliver=-1)
        deliveries: list[int] = []

        async def read() -> None:
            async with worker.messages() as messages:
                async for message in messages:
                    assert message.metadata is not None
                    deliveries.append(message.metadata.num_delivered)

        reading = asyncio.create_task(read())
        await js.publish("s", b"")
        async with asyncio.timeout(20):
            while not deliveries:
                await asyncio.sleep(0.01)
        await server.advance(minutes=20)
        reading.cancel()

        assert deliveries == list(range(1, 42))


async def test_a_live_consumer_that_acknowledges_sees_each_message_once() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s.>"], allow_msg_schedules=True)
        worker = await stream.create_consumer(durable="w", ack_wait=1, filter_subject="s.out")
        seen: list[int] = []

        async def read() -> None:
            async with worker.messages() as messages:
                async for message in messages:
                    seen.append(message.metadata.num_delivered)
                    message.ack()

        reading = asyncio.create_task(read())
        schedule = {"Nats-Schedule": "@every 1m", "Nats-Schedule-Target": "s.out"}
        await js.publish("s.in", b"", headers=schedule)
        await server.advance(hours=1, seconds=2)
        reading.cancel()

        assert seen == [1] * 60


async def test_an_hourly_schedule_runs_24_times_a_day() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s.>"], allow_msg_schedules=True)
        schedule = {"Nats-Schedule": "@every 1h", "Nats-Schedule-Target": "s.out"}
        await js.publish("s.in", b"", headers=schedule)

        await server.advance(days=1, seconds=2)

        stored = [each async for each in stream.get_batch(next_by_subject="s.out")]
        assert len(stored) == 24
        gaps = {
            round((later.time - earlier.time).total_seconds())
            for earlier, later in itertools.pairwise(stored)
        }
        assert gaps == {3600}


async def test_max_age_duplicate_window_and_inactive_consumers_follow_the_clock() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"], max_age=3600, duplicate_window=120)
        await stream.create_consumer(name="idle", inactive_threshold=300)
        await js.publish("s", b"", msg_id="1")
        assert (await js.publish("s", b"", msg_id="1")).duplicate

        await server.advance(120)
        assert not (await js.publish("s", b"", msg_id="1")).duplicate
        assert (await stream.info()).state.consumer_count == 1

        await server.advance(timedelta(minutes=4))
        assert (await stream.info()).state.consumer_count == 0

        await server.advance(hours=1)
        assert (await stream.info()).state.messages == 0


async def test_expired_keys_are_seen_by_a_watcher_that_waits() -> None:
    async with Server() as server, server.connect() as client:
        bucket = await client.jetstream().create_key_value("b", limit_marker_ttl=60)
        async with bucket.watch("k", updates_only=True) as watcher:
            await bucket.put("k", b"1", ttl=3600)
            assert (await watcher.next(timeout=20)).value == b"1"

            await server.advance(hours=1)

            assert (await watcher.next(timeout=20)).operation is not jetspark.Operation.PUT


async def test_the_clock_keeps_its_lead_through_a_crash_and_a_restart() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"], max_age=3600)
        await server.advance(days=30)
        lead = server.now
        await js.publish("s", b"")
        await server.crash()
        await server.restart()
        await js.publish("s", b"")

        assert (await stream.get_msg(seq=1)).time > lead - timedelta(minutes=1)
        assert (await stream.get_msg(seq=2)).time < lead + timedelta(minutes=5)
        await server.advance(hours=1)
        assert (await stream.info()).state.messages == 0


async def test_the_next_test_has_the_time_of_the_machine() -> None:
    async with Server() as server:
        await server.advance(days=400)
        ahead = server.now
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        await js.publish("s", b"")

        assert server.now < ahead - timedelta(days=399)
        assert (await stream.get_msg(seq=1)).time < ahead - timedelta(days=399)


async def test_wrong_durations_are_refused() -> None:
    async with Server() as server:
        with pytest.raises(ValueError, match="expected a time greater than 0"):
            await server.advance()
        with pytest.raises(ValueError, match="expected a time greater than 0"):
            await server.advance(hours=-1)
        with pytest.raises(TypeError, match="duration must be seconds or a timedelta, not str"):
            await server.advance("1h")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="nan"):
            await server.advance(float("nan"))
        with pytest.raises(ValueError, match="would pass the year"):
            await server.advance(days=365 * 300)
        await server.advance(0.001)


def test_a_handler_in_a_thread_has_time_to_acknowledge() -> None:
    with SyncServer() as server, server.connect() as client:
        js = client.jetstream()
        stream = js.create_stream("S", subjects=["s.>"], allow_msg_schedules=True)
        worker = stream.create_consumer(durable="w", ack_wait=1, filter_subject="s.out")
        seen: list[int] = []

        def handle(message: jetspark.sync.JetStreamMessage) -> None:
            seen.append(message.metadata.num_delivered)
            message.ack()

        with worker.consume(handle):
            schedule = {"Nats-Schedule": "@every 1m", "Nats-Schedule-Target": "s.out"}
            js.publish("s.in", b"", headers=schedule)
            server.advance(minutes=20, seconds=2)

        assert seen == [1] * 20
