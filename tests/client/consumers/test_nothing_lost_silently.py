"""What the library deletes it says, keep=True keeps, a fetch that is given up loses nothing."""

import asyncio
import logging

import msgspec
import pytest
from tests.client.conftest import Connect
from tests.support.chaos_proxy import ChaosProxy
from tests.support.servers import ServerProcess
from tests.support.waiting import until

from jetspark import Client, Consumer, JetStreamMessage, Stream, connect
from jetspark.api.consumer import ConsumerInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.create import consumer_info
from jetspark.client.jetstream.subscribe import push_subscription, workflow
from jetspark.errors import AlreadyEnded, ConsumerDeleted, NoResponders, RequestTimeout


async def names(stream: Stream) -> list[str]:
    return [name async for name in stream.consumer_names()]


async def nothing_waits(consumer: Consumer) -> bool:
    info = await consumer.info()
    return info.num_ack_pending == 0


async def made(nc: Client, name: str) -> Stream:
    return await nc.jetstream().create_stream(name, subjects=[name])


@pytest.mark.parametrize("end", ["unsubscribe", "drain"])
async def test_keep_keeps_the_consumer_of_a_subscription(
    client: Connect, name: str, end: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(nc, name)
        for data in (b"1", b"2"):
            await js.publish(name, data)
            subscription = await js.subscribe(name, durable="d", keep=True)
            message = await subscription.next()
            assert message.data == data  # it continues where the one before ended
            await message.ack_sync()
            await getattr(subscription, end)()
            assert await names(stream) == ["d"]


@pytest.mark.parametrize("end", ["unsubscribe", "drain"])
async def test_keep_keeps_the_consumer_of_a_pull_subscription(
    client: Connect, name: str, end: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(nc, name)
        for data in (b"1", b"2"):
            await js.publish(name, data)
            subscription = await js.pull_subscribe(name, durable="d", keep=True)
            message = await subscription.next()
            assert message.data == data
            await message.ack_sync()
            await getattr(subscription, end)()
            assert await names(stream) == ["d"]


async def test_keep_keeps_the_consumer_of_a_queue(client: Connect, name: str) -> None:
    async with client() as nc, client() as other:
        stream = await made(nc, name)
        one = await nc.jetstream().subscribe(name, queue="q", keep=True)
        two = await other.jetstream().subscribe(name, queue="q")
        await one.unsubscribe()
        await two.unsubscribe()
        assert await names(stream) == ["q"]


async def test_the_first_deletion_of_a_durable_is_logged(
    client: Connect, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(nc, name)
        with caplog.at_level(logging.WARNING, "jetspark"):
            await (await js.subscribe(name)).unsubscribe()
            assert not caplog.records
            await (await js.subscribe(name, durable="first")).unsubscribe()
            await (await js.pull_subscribe(name, durable="second")).drain()
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert f"durable consumer 'first' of stream '{name}' was deleted" in said[0]
        assert "keep=True" in said[0]


async def test_the_last_member_of_a_queue_deletes_what_another_made(
    client: Connect, name: str
) -> None:
    async with client() as nc, client() as other:
        stream = await made(nc, name)
        one = await nc.jetstream().subscribe(name, queue="q")
        two = await other.jetstream().subscribe(name, queue="q")
        await other.flush()
        await one.unsubscribe()
        assert await names(stream) == ["q"]
        await two.unsubscribe()
        assert await names(stream) == []


async def test_a_member_that_left_just_before_the_last_one_does_not_keep_the_consumer(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    async def late(api: ApiClient, stream: str, consumer: str, *, timeout: float) -> ConsumerInfo:
        """Answer as nats-server does shortly afterwards: as if the other member still existed."""
        found = await consumer_info(api, stream, consumer, timeout=timeout)
        looks.append(found.push_bound)
        return msgspec.structs.replace(found, push_bound=len(looks) == 1)

    async with client() as nc:
        stream = await made(nc, name)
        last = await nc.jetstream().subscribe(name, queue="q")
        monkeypatch.setattr(workflow, "consumer_info", late)
        await last.unsubscribe()
        assert len(looks) == 3
        assert await names(stream) == []


async def test_an_existing_queue_stays(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await made(nc, name)
        await stream.create_consumer(durable="q", deliver_subject=f"{name}.d", deliver_group="q")
        await (await nc.jetstream().subscribe(name, queue="q")).unsubscribe()
        assert await names(stream) == ["q"]


async def test_a_member_that_has_just_lost_its_connection_keeps_its_consumer(
    server: ServerProcess, client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client(timeout=60) as nc, ChaosProxy(server.address) as proxy:
        stream = await made(nc, name)
        async with connect(proxy.url, reconnect_wait=0.01) as away:
            one = await nc.jetstream().subscribe(name, queue="q")
            two = await away.jetstream().subscribe(name, queue="q")
            await away.subscribe(f"{name}.alive")
            await away.flush()

            async def is_gone() -> bool:
                try:
                    await nc.request(f"{name}.alive", timeout=0.01)
                except NoResponders:
                    return True
                except RequestTimeout:
                    pass
                return False

            async def reconnected(_seconds: float) -> None:
                proxy.calm()
                await until(lambda: away.is_connected)
                await away.flush()

            monkeypatch.setattr(workflow, "pause", reconnected)
            proxy.refusing = True
            proxy.cut()
            await until(is_gone)
            await one.unsubscribe()
            # nats-server updates the state of a consumer a little later: if it still
            # counted the lost one, there was no second look.
            proxy.calm()

            assert await names(stream) == ["q"]
            await nc.jetstream().publish(name, b"for the one that is left")
            assert (await two.next(timeout=60)).data == b"for the one that is left"


async def test_a_member_whose_consumer_was_deleted_meanwhile_is_notified(
    server: ServerProcess, client: Connect, name: str
) -> None:
    async with client() as nc, ChaosProxy(server.address) as proxy:
        stream = await made(nc, name)
        options = {"reconnect_wait": 0.01, "max_reconnects": -1}
        async with connect(proxy.url, **options) as away:  # type: ignore[arg-type]
            two = await away.jetstream().subscribe(name, queue="q")
            proxy.refusing = True
            proxy.cut()
            await until(lambda: not away.is_connected)
            await stream.delete_consumer("q")
            proxy.calm()
            with pytest.raises(ConsumerDeleted):
                await two.next(timeout=60)


async def test_a_member_that_joins_while_the_last_one_leaves_has_a_consumer(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_subscription, "JOIN_LOOKS", (0.05,))
    async with client() as nc, client() as other:
        stream = await made(nc, name)
        last = await nc.jetstream().subscribe(name, queue="q")
        joined = await other.jetstream().subscribe(name, queue="q")
        # The one that left had looked before the other one subscribed.
        await stream.delete_consumer("q")
        await nc.jetstream().publish(name, b"for the one that joined")

        async def both() -> JetStreamMessage:
            readers = [asyncio.ensure_future(each.next(timeout=20)) for each in (last, joined)]
            done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
            for reader in readers:
                reader.cancel()
            return done.pop().result()

        assert (await both()).data == b"for the one that joined"
        await last.unsubscribe()
        await joined.unsubscribe()
        assert await names(stream) == []


async def test_a_member_whose_consumer_cannot_be_created_again_is_notified(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_subscription, "JOIN_LOOKS", (0.05,))
    async with client() as nc, client() as other:
        stream = await made(nc, name)
        await nc.jetstream().subscribe(name, queue="q")
        joined = await other.jetstream().subscribe(name, queue="q")
        await stream.update(max_consumers=1)
        await stream.delete_consumer("q")
        await stream.create_consumer(durable="another")

        with pytest.raises(ConsumerDeleted) as heard:
            await joined.next(timeout=20)
        assert "by the previous member, and cannot be created again" in heard.value.__notes__[0]


async def test_messages_in_flight_to_a_cancelled_fetch_go_to_the_next_one(
    server: ServerProcess, client: Connect, name: str
) -> None:
    """Without another delivery: there may be only one."""
    async with client() as nc, ChaosProxy(server.address) as proxy:
        stream = await made(nc, name)
        await stream.create_consumer(durable="c", ack_wait=300, max_deliver=1)
        watching = await stream.consumer("c")
        async with connect(proxy.url) as far:
            consumer = await far.jetstream().consumer(name, "c")
            fetch = asyncio.ensure_future(consumer.fetch(5, timeout=60))
            await asyncio.wait([fetch], timeout=0.1)
            proxy.latency = 1.0
            for number in range(3):
                await nc.jetstream().publish(name, b"%d" % number)

            async def is_sent() -> bool:
                return (await watching.info()).num_ack_pending == 3

            await until(is_sent)
            fetch.cancel()
            await asyncio.wait([fetch])
            # What is held back comes late anyway; more would pile up, second after second.
            proxy.latency = 0.0
            seen: set[bytes] = set()
            async with asyncio.timeout(60):
                while len(seen) < 3:
                    seen.update(each.data for each in await consumer.fetch(3, timeout=5))
            assert seen == {b"0", b"1", b"2"}


@pytest.mark.parametrize("drained", [False, True])
async def test_a_member_of_a_queue_that_left_is_forgotten(
    client: Connect, name: str, drained: bool
) -> None:
    """It looks for its consumer after each reconnect, as long as it is one."""
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[f"{name}.>"])
        before = len(nc._core.up_listeners)
        member = await js.subscribe(f"{name}.>", queue="q")
        during = len(nc._core.up_listeners)
        await (member.drain() if drained else member.unsubscribe())

        assert during > before
        assert len(nc._core.up_listeners) == before


LONG = 300.0  # seconds of ack_wait: what is delivered to no one does not come again in a test


@pytest.mark.parametrize("reader", ["consume", "messages"])
async def test_a_drain_takes_what_is_in_flight(client: Connect, name: str, reader: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(nc, name)
        consumer = await stream.create_consumer(durable="d", ack_wait=LONG)
        for _ in range(400):
            await js.publish_async(name, bytes(2000))
        await js.publish_async_complete()
        begun = asyncio.Event()

        def work(message: JetStreamMessage) -> None:
            message.ack()
            begun.set()

        if reader == "consume":
            async with consumer.consume(work, prefetch=200) as running:
                await begun.wait()
                await running.drain()
        else:
            async for message in (messages := consumer.messages(prefetch=200)):
                work(message)
                await messages.drain()

        await until(lambda: nothing_waits(consumer), "messages wait for ack_wait")


@pytest.mark.parametrize("ending", ["close", "drain"])
async def test_an_end_that_is_cancelled_leaves_nothing_waiting(
    client: Connect, name: str, ending: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(nc, name)
        consumer = await stream.create_consumer(durable="d", ack_wait=LONG)
        for n in range(300):
            await js.publish_async(name, b"%d" % n)
        await js.publish_async_complete()
        worked_on: set[bytes] = set()

        async def work(message: JetStreamMessage) -> None:
            await asyncio.sleep(0)
            worked_on.add(message.data)
            message.ack()

        for turns in range(12):
            async with consumer.consume(work, prefetch=20) as running:
                await asyncio.sleep(0.01)
                end = asyncio.create_task(getattr(running, ending)())
                for _ in range(turns):
                    await asyncio.sleep(0)
                end.cancel()
                await asyncio.wait([end])
        while messages := await consumer.fetch(100, timeout=1):
            for message in messages:
                await work(message)

        assert len(worked_on) == 300


async def redelivered(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Sequences and delivery counts of what can be fetched now."""
    messages = await consumer.fetch(count, timeout=20)
    found = [(each.metadata.stream_seq, each.metadata.num_delivered) for each in messages]
    for message in messages:
        await message.ack_sync()
    return sorted(found)


async def test_what_an_iteration_has_not_taken_is_given_back_at_once(
    client: Connect, name: str
) -> None:
    """Once: not to the same iteration, which is about to end."""
    async with client() as nc:
        stream = await made(nc, name)
        consumer = await stream.create_consumer(durable="c", ack_wait=3600)
        for number in range(8):
            await nc.jetstream().publish(name, b"%d" % number)
        async with consumer.messages() as messages:
            await (await messages.next(timeout=20)).ack_sync()
        assert messages.is_closed
        assert await redelivered(consumer, 7) == [(seq, 2) for seq in range(2, 9)]
        with pytest.raises(AlreadyEnded):
            await messages.next(timeout=20)


async def test_messages_that_a_callback_has_not_started_are_redelivered_once(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await made(nc, name)
        consumer = await stream.create_consumer(durable="c", ack_wait=3600)
        for number in range(8):
            await nc.jetstream().publish(name, b"%d" % number)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def work(message: JetStreamMessage) -> None:
            begun.set()
            await go_on.wait()
            await message.ack_sync()

        consumption = consumer.consume(work)
        await begun.wait()
        closing = asyncio.ensure_future(consumption.close(timeout=20))
        await asyncio.sleep(0)
        go_on.set()
        await closing
        assert await redelivered(consumer, 7) == [(seq, 2) for seq in range(2, 9)]


async def test_the_end_of_an_iteration_may_be_cancelled(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await made(nc, name)
        consumer = await stream.create_consumer(durable="c", ack_wait=3600)
        for number in range(8):
            await nc.jetstream().publish(name, b"%d" % number)
        messages = consumer.messages()
        await (await messages.next(timeout=20)).ack_sync()
        closing = asyncio.ensure_future(messages.close())
        await asyncio.sleep(0)
        closing.cancel()
        assert await redelivered(consumer, 7) == [(seq, 2) for seq in range(2, 9)]
