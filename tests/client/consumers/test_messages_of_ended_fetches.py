"""Messages that arrive after the end of their fetch go to the next reader of its handle."""

import asyncio

import pytest
from tests.client.conftest import Connect
from tests.support.chaos_proxy import ChaosProxy
from tests.support.servers import ServerProcess
from tests.support.waiting import until

from jetspark import Client, Consumer, JetStreamMessage, connect

LONG = 300.0  # seconds of ack_wait: a message that is lost is not redelivered during a test
ONCE = {"ack_wait": LONG, "max_deliver": 1}


async def consumer_of(nc: Client, name: str, messages: int, **settings: float) -> Consumer:
    js = nc.jetstream()
    stream = await js.create_stream(name, subjects=[name])
    consumer = await stream.create_consumer(durable="c", **(ONCE | settings))  # type: ignore[arg-type]
    for number in range(messages):
        await js.publish(name, b"%d" % number)
    return consumer


async def cancel_after_arrival(consumer: Consumer, batch: int, arrived: int) -> None:
    """Cancel a fetch that waits for more messages than exist."""
    fetch = asyncio.ensure_future(consumer.fetch(batch, timeout=60))

    async def all_sent() -> bool:
        return (await consumer.info()).num_ack_pending == arrived

    await until(all_sent)
    fetch.cancel()
    await asyncio.wait([fetch])


def data(messages: list[JetStreamMessage]) -> list[bytes]:
    return [each.data for each in messages]


async def test_a_waiting_fetch_gets_what_a_cancelled_one_had(client: Connect, name: str) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc, name, 2)
        first = asyncio.ensure_future(consumer.fetch(3, timeout=60))

        async def all_sent() -> bool:
            return (await consumer.info()).num_ack_pending == 2

        await until(all_sent)
        waiting = asyncio.ensure_future(consumer.fetch(2, timeout=60))
        await nc.flush()
        first.cancel()
        async with asyncio.timeout(20):
            assert data(await waiting) == [b"0", b"1"]


@pytest.mark.parametrize("reader", ["messages", "consume"])
@pytest.mark.parametrize("begins", ["before", "after"])
async def test_a_continuous_reader_gets_what_a_cancelled_fetch_had(
    client: Connect, name: str, reader: str, begins: str
) -> None:
    """Otherwise it would wait for ack_wait: nothing else may be delivered meanwhile."""
    async with client() as nc:
        consumer = await consumer_of(nc, name, 3, max_ack_pending=2)
        seen: list[bytes] = []

        async def read(count: int) -> None:
            if reader == "messages":
                async with consumer.messages() as messages:
                    async for message in messages:
                        seen.append(message.data)
                        message.ack()
                        if len(seen) == count:
                            return
            else:

                def work(message: JetStreamMessage) -> None:
                    seen.append(message.data)
                    message.ack()

                async with consumer.consume(work):
                    await until(lambda: len(seen) == count)

        if begins == "after":
            await cancel_after_arrival(consumer, 3, 2)
            reading = asyncio.ensure_future(read(3))
        else:
            fetch = asyncio.ensure_future(consumer.fetch(3, timeout=60))

            async def all_sent() -> bool:
                return (await consumer.info()).num_ack_pending == 2

            await until(all_sent)
            reading = asyncio.ensure_future(read(3))
            await nc.flush()
            fetch.cancel()
        async with asyncio.timeout(20):
            await reading
        assert seen == [b"0", b"1", b"2"]


async def test_messages_that_arrive_after_the_timeout_are_kept(
    server: ServerProcess, client: Connect, name: str
) -> None:
    async with client() as nc, ChaosProxy(server.address) as proxy:
        consumer = await consumer_of(nc, name, 0)
        async with connect(proxy.url) as far:
            slow = await far.jetstream().consumer(name, "c")
            proxy.latency = 1.2  # longer than a fetch waits for the report of its end
            fetch = asyncio.ensure_future(slow.fetch(3, timeout=1.3))
            await asyncio.wait([fetch], timeout=1.4)
            for number in range(2):
                await nc.jetstream().publish(name, b"%d" % number)
            assert await fetch == []
            proxy.latency = 0.0
            assert (await consumer.info()).num_ack_pending == 2
            async with asyncio.timeout(20):
                seen: list[bytes] = []
                while len(seen) < 2:
                    seen += data(await slow.fetch(2, timeout=1))
            assert seen == [b"0", b"1"]


async def test_max_bytes_limits_messages_of_a_cancelled_fetch_too(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        consumer = await consumer_of(nc, name, 0)
        for _ in range(3):
            await js.publish(name, bytes(1000))
        await cancel_after_arrival(consumer, 4, 3)
        sizes = [len(await consumer.fetch(3, max_bytes=2500, timeout=1)) for _ in range(2)]
        assert sizes == [2, 1]


@pytest.mark.parametrize("end", ["unsubscribe", "drain"])
async def test_an_ended_pull_subscription_redelivers_messages_of_cancelled_fetches(
    client: Connect, name: str, end: str
) -> None:
    async with client() as nc:
        consumer = await consumer_of(nc, name, 2, max_deliver=5)
        subscription = await nc.jetstream().pull_subscribe(name, durable="c")
        fetch = asyncio.ensure_future(subscription.fetch(3, timeout=60))

        async def all_sent() -> bool:
            return (await consumer.info()).num_ack_pending == 2

        await until(all_sent)
        fetch.cancel()
        await asyncio.wait([fetch])
        await getattr(subscription, end)()
        messages = await consumer.fetch(2, timeout=20)
        assert [each.metadata.num_delivered for each in messages] == [2, 2]


async def test_an_ended_pull_subscription_takes_messages_in_flight(
    server: ServerProcess, client: Connect, name: str
) -> None:
    async with client() as nc, ChaosProxy(server.address) as proxy:
        consumer = await consumer_of(nc, name, 0)
        async with connect(proxy.url) as far:
            subscription = await far.jetstream().pull_subscribe(name, durable="c")
            fetch = asyncio.ensure_future(subscription.fetch(3, timeout=60))
            await asyncio.sleep(0)
            await far.flush()
            proxy.latency = 0.3
            await nc.jetstream().publish(name, b"0")

            async def is_sent() -> bool:
                return (await consumer.info()).num_ack_pending == 1

            await until(is_sent)
            await subscription.unsubscribe()
            assert data(await fetch) == [b"0"]


async def test_no_wait_ends_in_time_when_max_ack_pending_stops_the_delivery(
    client: Connect, name: str
) -> None:
    """Servers do not report the end of such a request; heartbeats need one that waits."""
    async with client() as nc:
        consumer = await consumer_of(nc, name, 3, max_ack_pending=2)
        async with asyncio.timeout(0.9):
            messages = await consumer.fetch(3, no_wait=True, heartbeat=0.1, timeout=0.25)
        assert data(messages) == [b"0", b"1"]
