"""A raw client of a server in the same loop: lines out, lines in."""

from __future__ import annotations

import asyncio


class Raw:
    """A connection that says CONNECT as often as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Raw:
        raw = cls(*await asyncio.open_connection("127.0.0.1", port))
        await raw._reader.readline()
        return raw

    async def say(self, line: bytes) -> bytes:
        """What the server says up to the next PONG, or until it closes."""
        heard = b""
        try:
            self._writer.write(line + b"PING\r\n")
            while not heard.endswith(b"PONG\r\n"):
                more = await asyncio.wait_for(self._reader.readline(), 60)
                if not more:
                    break
                heard += b"" if more.startswith(b"INFO ") else more
        except ConnectionError:
            pass
        return heard

    def send(self, data: bytes) -> None:
        """Send something that has no answer."""
        self._writer.write(data)

    def pause(self) -> None:
        """Read no more."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()


def connect(user: bytes, password: bytes) -> bytes:
    return b'CONNECT {"verbose":false,"user":"%b","pass":"%b"}\r\n' % (user, password)
