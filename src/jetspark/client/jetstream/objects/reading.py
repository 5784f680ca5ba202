"""Reading an object: its chunks in order, checked against the digest."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.objects.info import Digest, ObjectInfo
from jetspark.errors import DigestMismatch, ObjectIncomplete, ObjectNotFound, RequestTimeout

CHUNKS_AT_ONCE: Final = 16

Progress = Callable[[int, int], None]
# Finds what the store says about the object now.
LookAgain = Callable[[], Awaitable[ObjectInfo | None]]


class ObjectReader:
    """The bytes of an object: ``async for`` gives them in pieces, ``read`` as much as you ask.

    Made by ``ObjectStore.open``. The digest is checked when the whole object was read:
    DigestMismatch when it does not hold, before the last piece is given out.
    """

    def __init__(
        self,
        info: ObjectInfo,
        source: Follow | None,
        *,
        start: int,
        end: int,
        timeout: float,
        progress: Progress | None,
        look_again: LookAgain,
    ) -> None:
        self._info = info
        self._look_again = look_again
        self._source = source
        self._start, self._end = start, end
        self._timeout = timeout
        self._progress = progress
        self._whole = start == 0 and end == info.size
        self._digest = Digest()
        self._position = 0
        self._chunks = 0
        self._given = 0
        self._pieces: deque[bytes] = deque()
        self._started = False

    @property
    def info(self) -> ObjectInfo:
        """What the store says about the object."""
        return self._info

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._next_piece()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def next_chunk(self, count: int) -> list[bytes]:
        """Wait for a piece, then return up to ``count`` that are there; empty at the end."""
        piece = await self._next_piece()
        if not piece:
            return []
        more = [self._pieces.popleft() for _ in range(min(count - 1, len(self._pieces)))]
        return [piece, *more]

    async def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes (all that are left when negative); empty at the end."""
        parts: list[bytes] = []
        left = size if size >= 0 else self._info.size
        while left and (piece := await self._next_piece()):
            if len(piece) > left:
                self._pieces.appendleft(piece[left:])
                piece = piece[:left]
            parts.append(piece)
            left -= len(piece)
        return b"".join(parts)

    async def close(self) -> None:
        """End it early."""
        if self._source is not None and self._started:
            await self._source.stop()
        self._source = None
        self._pieces.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _next_piece(self) -> bytes:
        while not self._pieces:
            if self._source is None or self._position >= self._end:
                await self.close()
                return b""
            await self._fill(self._source)
        return self._pieces.popleft()

    async def _fill(self, source: Follow) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                if not self._started:
                    self._started = True
                    await source.start(timeout=self._timeout)
                # Behind the end of what is stored nothing comes any more.
                ended = source.initial_done
                stored = [] if ended else await source.next_chunk(CHUNKS_AT_ONCE)
        except TimeoutError:
            await self.close()
            raise RequestTimeout(
                f"object {self._info.name!r}: no chunk came within {self._timeout} s"
            ) from None
        if not stored:
            await self.close()
            raise await self._missing()
        pieces = []
        for each in stored:
            self._chunks += 1
            if self._whole:
                self._digest.update(each.data)
            first = max(self._start - self._position, 0)
            last = min(self._end - self._position, len(each.data))
            self._position += len(each.data)
            if first < last:
                pieces.append(each.data[first:last])
        if self._whole and self._position >= self._info.size:
            fits = self._position == self._info.size and self._digest.fits(self._info.digest)
            if not fits:
                await self.close()
                raise DigestMismatch(self._info.bucket, self._info.name)
        self._pieces.extend(pieces)
        self._given += sum(map(len, pieces))
        if self._progress is not None:
            self._progress(self._given, self._end - self._start)

    async def _missing(self) -> ObjectNotFound | ObjectIncomplete:
        """Why there are fewer chunks than the store has said when the object was opened."""
        info = self._info
        now = await self._look_again()
        if now is not None and not now.deleted and now.nuid == info.nuid:
            return ObjectIncomplete(info.bucket, info.name, self._position, info.size)
        error = ObjectNotFound(info.bucket, info.name)
        error.add_note("it was replaced, renamed or deleted while it was read: open it again")
        return error
