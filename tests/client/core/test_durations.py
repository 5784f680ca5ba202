"""How long is seconds or a timedelta, when is a datetime: in every call."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.client.conftest import Connect

from jetspark.errors import RequestTimeout

SOON = timedelta(milliseconds=50)


async def test_timeouts_are_timedeltas_too(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
            await subscription.next(timeout=SOON)
        stream = await nc.jetstream().create_stream(name, subjects=[f"{name}.>"])
        consumer = await stream.create_consumer(durable="c")
        assert await consumer.fetch(1, timeout=SOON) == []
        with pytest.raises(RequestTimeout):
            await consumer.messages().next(timeout=SOON)
        with pytest.raises(TypeError, match="seconds or a timedelta"):
            await subscription.next(timeout="1")  # type: ignore[arg-type]


async def test_a_time_to_live_is_a_timedelta_too(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[f"{name}.>"], allow_msg_ttl=True)
        await js.publish(f"{name}.a", ttl=timedelta(hours=1))
        await js.publish(f"{name}.a", ttl=90.5)
        found = [each.headers.get("Nats-TTL") async for each in stream.get_batch()]
        assert found == ["1h0m0s", "1m30.5s"]
        kv = await js.create_key_value(f"{name}B", limit_marker_ttl=60)
        await kv.put("k", b"v", ttl=timedelta(hours=1))
        assert await kv.lock("l", ttl=timedelta(minutes=1)).try_acquire()


async def test_a_message_is_given_back_for_a_timedelta(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[f"{name}.>"])
        await js.publish(f"{name}.a")
        consumer = await stream.create_consumer(durable="c")
        (await consumer.next()).nak(delay=timedelta(milliseconds=1))
        assert (await consumer.next()).metadata.num_delivered == 2


async def test_a_consumer_is_paused_for_a_time_or_until_one(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[f"{name}.>"])
        consumer = await stream.create_consumer(durable="c")
        until = datetime(2099, 1, 1, tzinfo=UTC)
        assert (await consumer.pause(until)).pause_until == until
        for lasting in (3600, timedelta(hours=1)):
            state = await consumer.pause(lasting)
            assert state.paused
            assert state.pause_remaining is not None
            assert 0 < state.pause_remaining <= 3600
        with pytest.raises(TypeError, match="expected a datetime with a time zone"):
            await stream.get_msg(start_time=1_700_000_000_000_000_000)  # type: ignore[arg-type]


async def test_intervals_of_readers_are_timedeltas_too(client: Connect, name: str) -> None:
    second = timedelta(seconds=1)
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[f"{name}.>"])
        await js.publish(f"{name}.a", b"1")
        consumer = await stream.create_consumer(durable="c", ack_policy="none")
        fetched = await consumer.fetch(1, heartbeat=second, timeout=timedelta(seconds=30))
        assert [each.data for each in fetched] == [b"1"]
        ordered = stream.ordered_consumer()
        pull = await js.pull_subscribe(f"{name}.>", durable="p")
        longer = timedelta(seconds=30)
        for messages, first in (
            # This one has read the first message already.
            (consumer.messages(expires=longer, heartbeat=second, alarm=longer), b"2"),
            (pull.messages(expires=longer, heartbeat=second, alarm=longer), b"1"),
            (ordered.messages(heartbeat=second, alarm=longer), b"1"),
        ):
            async with messages:
                await js.publish(f"{name}.a", b"2")
                assert (await messages.next(timeout=longer)).data == first
        async with js.subscribe(f"{name}.>", alarm=longer) as push:
            assert (await push.next(timeout=longer)).data == b"1"
        replies = nc.request_many("$JS.API.INFO", stall=SOON, timeout=longer)
        assert len([reply async for reply in replies]) == 1


async def test_the_age_of_what_is_cleaned_up_is_a_timedelta_too(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(name)
        await kv.put("k", b"v")
        await kv.delete("k")
        assert await kv.purge_deletes(older_than=timedelta(hours=1)) == 0
        assert await kv.purge_deletes(older_than=timedelta()) == 1
        store = await js.create_object_store(name)
        assert (await store.purge_orphans(older_than=timedelta(hours=1))).objects == 0
        for call in (kv.purge_deletes, store.purge_orphans):
            with pytest.raises(ValueError, match="expected seconds, 0 or more"):
                await call(older_than=timedelta(seconds=-1))
            with pytest.raises(TypeError, match="older_than must be seconds or a timedelta"):
                await call(older_than="1")  # type: ignore[arg-type]
