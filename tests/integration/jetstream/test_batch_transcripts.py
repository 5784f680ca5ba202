"""Batches byte by byte over a socket: an atomic one, and fast ingest in both dialects (ADR-50)."""

from __future__ import annotations

import asyncio

import jetspark

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":0}\r\n'
# In memory: a disk that others keep busy lowers the flow.
CREATE = (
    b'{"name":"S","subjects":["s.>"],"storage":"memory","allow_atomic":true,"allow_batched":true}'
)


class Wire:
    """A connection that sends bytes and receives frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))
        await self._writer.drain()

    async def hear(self) -> bytes:
        """The next message, whole."""
        while True:
            line = await asyncio.wait_for(self._reader.readline(), 10)
            if line.startswith(b"MSG "):
                size = int(line.split()[-1])
                return line + await self._reader.readexactly(size + 2)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def opened(server: jetspark.Server) -> Wire:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    wire = Wire(reader, writer)
    await wire.say(CONNECT, b"SUB _R 1\r\nSUB _F.> 2\r\n")
    await wire.say(b"PUB $JS.API.STREAM.CREATE.S _R %d\r\n%b\r\n" % (len(CREATE), CREATE))
    assert b'"did_create":true' in await wire.hear()
    return wire


def hpub(subject: bytes, reply: bytes, headers: bytes, body: bytes) -> bytes:
    block = b"NATS/1.0\r\n" + headers + b"\r\n"
    sizes = b"%d %d" % (len(block), len(block) + len(body))
    return b"HPUB %b %b %b\r\n%b%b\r\n" % (subject, reply, sizes, block, body)


def msg(subject: bytes, sid: bytes, body: bytes) -> bytes:
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(body), body)


async def test_an_atomic_batch() -> None:
    async with jetspark.Server() as server:
        wire = await opened(server)
        head = b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n"
        await wire.say(hpub(b"s.1", b"_R", head % 1, b"x"))
        assert await wire.hear() == msg(b"_R", b"1", b"")
        commit = head % 2 + b"Nats-Batch-Commit: 1\r\n"
        await wire.say(hpub(b"s.2", b"_R", commit, b"y"))

        heard = await wire.hear()
        await wire.close()

    assert heard == msg(b"_R", b"1", b'{"stream":"S","seq":2,"batch":"b","count":2}')


async def test_the_header_dialect() -> None:
    async with jetspark.Server() as server:
        wire = await opened(server)
        head = b"Nats-Fast-Batch-Id: f\r\nNats-Batch-Sequence: %d\r\n"
        first = head % 1 + b"Nats-Flow: 2\r\nNats-Batch-Gap: ok\r\n"
        await wire.say(hpub(b"s.1", b"_R", first, b"x"))
        assert await wire.hear() == msg(b"_R", b"1", b'{"seq":1,"messages":2}')
        await wire.say(hpub(b"s.1", b"_R", head % 2, b"x"))
        assert await wire.hear() == msg(b"_R", b"1", b'{"seq":2,"messages":2}')
        await wire.say(hpub(b"s.1", b"_R", head % 5, b"x"))
        gap = b'{"last_seq":2,"seq":5,"messages":2}'
        assert await wire.hear() == msg(b"_R", b"1", gap)
        assert await wire.hear() == msg(b"_R", b"1", b'{"seq":4,"messages":2}')
        commit = head % 6 + b"Nats-Batch-Commit: eob\r\n"
        await wire.say(hpub(b"s.1", b"_R", commit, b""))

        heard = await wire.hear()
        await wire.close()

    assert heard == msg(b"_R", b"1", b'{"stream":"S","seq":3,"batch":"f","count":5}')


async def test_the_reply_subject_dialect() -> None:
    async with jetspark.Server() as server:
        wire = await opened(server)
        await wire.say(b"PUB s.1 _F.x.f.2.fail.1.0.$FI 1\r\na\r\n")
        heard = [await wire.hear()]
        await wire.say(b"PUB s.1 _F.x.f.2.fail.2.1.$FI 1\r\nb\r\n")
        heard.append(await wire.hear())
        await wire.say(b"PUB s.1 _F.x.f.2.fail.2.4.$FI 0\r\n\r\n")
        heard.append(await wire.hear())
        await wire.say(b"PUB s.1 _F.x.f.2.fail.3.2.$FI 1\r\nc\r\n")
        heard.append(await wire.hear())
        await wire.say(b"PUB s.1 _F.x.f.2.fail.4.1.$FI 1\r\nd\r\n")
        heard.append(await wire.hear())
        await wire.close()

    unknown = (
        b'{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},'
        b'"stream":"S","seq":0}'
    )
    assert heard == [
        msg(b"_F.x.f.2.fail.1.0.$FI", b"2", b'{"type":"ack","seq":0,"msgs":2}'),
        msg(b"_F.x.f.2.fail.2.1.$FI", b"2", b'{"type":"ack","seq":2,"msgs":2}'),
        msg(b"_F.x.f.2.fail.2.4.$FI", b"2", b'{"type":"ack","seq":2,"msgs":2}'),
        msg(b"_F.x.f.2.fail.3.2.$FI", b"2", b'{"stream":"S","seq":3,"batch":"f","count":3}'),
        msg(b"_F.x.f.2.fail.4.1.$FI", b"2", unknown),
    ]


async def test_a_client_gets_the_reason_a_batch_ended_before_the_rest_is_refused() -> None:
    async with jetspark.Server() as server:
        wire = await opened(server)
        expected = b"Nats-Expected-Last-Sequence: 99\r\n"
        await wire.say(
            b"PUB s.1 _F.x.f.10.fail.1.0.$FI 1\r\na\r\n",
            b"PUB s.1 _F.x.f.10.fail.2.1.$FI 1\r\nb\r\n",
            hpub(b"s.1", b"_F.x.f.10.fail.3.1.$FI", expected, b"c"),
            b"PUB s.1 _F.x.f.10.fail.4.1.$FI 1\r\nd\r\n",
            b"PUB s.1 _F.x.f.10.fail.5.2.$FI 1\r\ne\r\n",
        )
        heard = [await wire.hear() for _ in range(5)]
        await wire.close()

    assert b'{"type":"ack","seq":0,"msgs":10}' in heard[0]
    assert b'"err_code":10071' in heard[1]
    assert b'{"stream":"S","seq":2,"batch":"f","count":2}' in heard[2]
    assert [b'"err_code":10208' in one for one in heard[3:]] == [True, True]
