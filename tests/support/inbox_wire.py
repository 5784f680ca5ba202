"""A raw connection with one inbox: what is asked, and the next message that comes."""

from __future__ import annotations

import asyncio


class Wire:
    """A raw connection that subscribed to ``in.>``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, options: bytes = b"") -> Wire:
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        await wire._reader.readline()
        flags = b'{"verbose":false,"headers":true,"no_responders":true%b}' % options
        wire.writer.write(b"CONNECT " + flags + b"\r\nSUB in.> 1\r\n")
        return wire

    async def ask(self, subject: bytes, reply: bytes, body: bytes = b"") -> bytes:
        """Publish; the next message that comes, headers and body."""
        self.tell(subject, reply, body)
        return await self.hear()

    def tell(self, subject: bytes, reply: bytes, body: bytes = b"") -> None:
        self.writer.write(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body))

    async def hear(self) -> bytes:
        while True:
            line = await asyncio.wait_for(self._reader.readline(), 10)
            assert line, "the connection was lost"
            words = line.split()
            if words[0] in {b"MSG", b"HMSG"}:
                return (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
