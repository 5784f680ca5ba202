"""A consumer without leader: pulls find no one, and no one says what became of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.scripted import INFO, scripted
from tests.support.waiting import until

from jetspark import Consumer, JetStreamMessage, connect

CONSUMER = (
    b'{"stream_name":"S","name":"c","created":"2026-01-01T00:00:00Z",'
    b'"config":{"ack_policy":"explicit"}}'
)
NOBODY = b"NATS/1.0 503\r\n\r\n"


class Leaderless:
    """Says once what the consumer is, then nothing; ``asked`` counts the questions after that."""

    def __init__(self) -> None:
        self.asked = -1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        inboxes: dict[bytes, bytes] = {}
        while line := (await reader.readline()).split():
            if line[0] == b"PING":
                writer.write(b"PONG\r\n")
            if line[0] == b"SUB":
                inboxes[line[1].rstrip(b"*")] = line[-1]
            if line[0] != b"PUB":
                continue
            await reader.readexactly(int(line[-1]) + 2)
            reply, sid = line[2], next(v for k, v in inboxes.items() if line[2].startswith(k))
            if b"MSG.NEXT" in line[1]:
                size = len(NOBODY)
                writer.write(b"HMSG %s %s %d %d\r\n%s\r\n" % (reply, sid, size, size, NOBODY))
            elif b"CONSUMER.INFO" in line[1]:
                self.asked += 1
                if not self.asked:
                    writer.write(b"MSG %s %s %d\r\n%s\r\n" % (reply, sid, len(CONSUMER), CONSUMER))


@asynccontextmanager
async def leaderless() -> AsyncIterator[tuple[Consumer, Leaderless]]:
    server = Leaderless()
    async with scripted(server.serve) as url, connect(url, timeout=600) as nc:
        yield await nc.jetstream().consumer("S", "c"), server


async def test_work_on_a_consumer_without_leader_can_be_closed() -> None:
    async with asyncio.timeout(30), leaderless() as (consumer, server):
        consumption = consumer.consume(lambda message: message.ack())
        await until(lambda: server.asked == 1)
        await consumption.close(timeout=20)
        assert consumption.is_closed


async def test_an_iteration_over_a_consumer_without_leader_can_be_closed() -> None:
    async with asyncio.timeout(30), leaderless() as (consumer, server):
        messages = consumer.messages()

        async def read() -> list[JetStreamMessage]:
            return [message async for message in messages]

        reading = asyncio.ensure_future(read())
        await until(lambda: server.asked == 1)
        await messages.close()
        assert await reading == []
