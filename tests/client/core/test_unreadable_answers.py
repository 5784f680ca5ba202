"""Answers that cannot be read are errors of ours: no call ends otherwise."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.scripted import INFO, scripted

from jetspark import Client, connect
from jetspark.errors import ProtocolViolation

DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
STREAM = (
    b'{"config":{"name":"KV_b","allow_direct":true,"max_msgs_per_subject":1},'
    b'"created":"2026-01-01T00:00:00Z","state":{}}'
)
CONSUMER = b'{"stream_name":"S","name":"c","created":"2026-01-01T00:00:00Z","config":{}}'
DIRECT = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: $KV.b.k\r\nNats-Sequence: %s\r\n"


class Answers:
    """What the server answers every request with."""

    def __init__(self) -> None:
        self.headers = b""
        self.data = STREAM

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while line := (await reader.readline()).split():
            if line[0] == b"PING":
                writer.write(b"PONG\r\n")
            if line[0] in {b"PUB", b"HPUB"}:
                await reader.readexactly(int(line[-1]) + 2)
                head, size = len(self.headers), len(self.headers) + len(self.data)
                sizes = b"%d %d" % (head, size) if head else b"%d" % size
                kind = b"HMSG" if head else b"MSG"
                writer.write(kind + b" %s 1 %s\r\n" % (line[2], sizes))
                writer.write(self.headers + self.data + b"\r\n")


@asynccontextmanager
async def talking_to(answers: Answers) -> AsyncIterator[Client]:
    async with scripted(answers.serve) as url, connect(url, timeout=5) as nc:
        yield nc


async def listed(items: AsyncIterable[object]) -> None:
    async for _ in items:
        pass


async def test_an_answer_of_too_many_levels_is_a_protocol_violation() -> None:
    answers = Answers()
    async with talking_to(answers) as nc:
        js = nc.jetstream()
        stream = await js.stream("S")
        answers.data = CONSUMER
        consumer = await js.consumer("S", "c")
        answers.data = DEEP
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: js.stream("S"),
            lambda: js.create_stream("S", subjects=["s"]),
            lambda: js.publish("s", b""),
            js.account_info,
            stream.purge,
            consumer.info,
            lambda: listed(js.stream_names()),
        ]
        for call in calls:
            with pytest.raises(ProtocolViolation):
                await call()
        assert nc.is_connected


@pytest.mark.parametrize(
    "lines",
    [
        DIRECT % b"x" + b"Nats-Time-Stamp: 2026-01-01T00:00:00Z\r\n\r\n",
        DIRECT % b"1" + b"Nats-Time-Stamp: yesterday\r\n\r\n",
        DIRECT % b"1" + b"\r\n",
    ],
    ids=["sequence", "time", "no time"],
)
async def test_a_stored_message_with_unreadable_headers_is_a_protocol_violation(
    lines: bytes,
) -> None:
    answers = Answers()
    async with talking_to(answers) as nc:
        kv = await nc.jetstream().key_value("b")
        answers.headers, answers.data = lines, b"value"
        with pytest.raises(ProtocolViolation, match="direct-get reply"):
            await kv.get("k")
