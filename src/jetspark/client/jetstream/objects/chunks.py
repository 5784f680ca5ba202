"""Splits the data of a put into chunks of one size. Pure except for reads."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Sized
from contextlib import aclosing
from typing import Final, Protocol

from jetspark.client.frames import to_bytes

CHUNKS_PER_READ: Final = 8


class Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; empty at the end."""


ObjectData = bytes | bytearray | memoryview | Readable | Iterable[bytes] | AsyncIterable[bytes]


async def pieces_of(data: ObjectData, size: int) -> AsyncGenerator[bytes, None]:
    """The data as it comes: bytes, a file, an iterable or async iterable of bytes."""
    given: object = data
    if isinstance(given, bytes | bytearray | memoryview):
        yield bytes(given)
    elif isinstance(given, AsyncIterable):
        async for piece in given:
            yield _bytes_of(piece)
    elif hasattr(given, "read"):
        # Files block: they are read on another thread.
        while piece := await asyncio.to_thread(given.read, size * CHUNKS_PER_READ):
            yield _bytes_of(piece)
    elif isinstance(given, list | tuple):
        for piece in given:
            yield _bytes_of(piece)
    elif isinstance(given, Iterable) and not isinstance(given, str):
        # Generators may block too, or use the blocking client, whose loop may be this one.
        iterator = iter(given)
        while pieces := await asyncio.to_thread(_take, iterator, size * CHUNKS_PER_READ):
            for piece in pieces:
                yield _bytes_of(piece)
    else:
        kind = type(given).__name__
        raise TypeError(f"expected bytes, a binary file, or an iterable of bytes, not {kind}")


async def chunks_of(data: ObjectData, size: int) -> AsyncGenerator[bytes, None]:
    """The same in chunks of ``size`` bytes; the last one is shorter."""
    rest = bytearray()
    async with aclosing(pieces_of(data, size)) as pieces:
        async for piece in pieces:
            rest += piece
            whole = len(rest) - len(rest) % size
            view = bytes(rest[:whole])
            del rest[:whole]
            for at in range(0, whole, size):
                yield view[at : at + size]
    if rest:
        yield bytes(rest)


def _take(iterator: Iterator[object], size: int) -> list[object]:
    """The next pieces, of ``size`` bytes or slightly more in total; empty at the end."""
    pieces: list[object] = []
    for piece in iterator:
        pieces.append(piece)
        size -= max(len(piece) if isinstance(piece, Sized) else 0, 1)
        if size <= 0:
            break
    return pieces


def _bytes_of(piece: object) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, str):
        raise TypeError('expected bytes, not str: open the file with "rb", or encode the text')
    return to_bytes(piece)
