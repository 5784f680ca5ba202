"""Reading an object: its chunks in order, verified with the digest."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import BucketFollow
from jetspark.client.jetstream.objects.info import Digest, ObjectInfo
from jetspark.errors import (
    AlreadyEnded,
    DigestMismatch,
    Error,
    ObjectIncomplete,
    ObjectNotFound,
    RequestTimeout,
)

CHUNKS_AT_ONCE: Final = 16

Progress = Callable[[int, int], None]
# Looks up the current metadata of the object.
LookAgain = Callable[[], Awaitable[ObjectInfo | None]]
# Creates a reader of its chunks from a sequence (0: all), or of their sizes only.
FollowChunks = Callable[[int, bool], BucketFollow]
# A range that starts after this many bytes is located by the sizes of the chunks before it.
SEEK_MIN: Final = 1024 * 1024


class ObjectReader:
    """The bytes of an object: ``async for`` yields pieces, ``read`` returns as much as you ask.

    Created by ``ObjectStore.open``. The digest is verified once the whole object was read:
    DigestMismatch is raised before the last piece is returned.
    """

    def __init__(
        self,
        info: ObjectInfo,
        follow: FollowChunks,
        *,
        start: int,
        end: int,
        timeout: float,
        progress: Progress | None,
        look_again: LookAgain,
    ) -> None:
        self._info = info
        self._look_again = look_again
        self._follow = follow
        self._source = follow(0, False) if start < end else None
        self._start, self._end = start, end
        self._timeout = timeout
        self._progress = progress
        self._whole = start == 0 and end == info.size
        self._digest = Digest()
        self._position = 0
        self._given = 0
        self._pieces: deque[bytes] = deque()
        self._started = False
        # Why reading ended before the end: it was closed, or has failed.
        self._over: Exception | None = None

    @property
    def info(self) -> ObjectInfo:
        """The metadata of the object."""
        return self._info

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._next_piece()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes (all if negative); empty at the end."""
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
        """End early; further reads raise AlreadyEnded."""
        if self._over is None and (self._source is not None or self._pieces):
            self._over = AlreadyEnded(f"the reader of object {self._info.name!r} is closed")
        self._pieces.clear()
        await self._release()

    async def _release(self) -> None:
        """Stop reading chunks; those that arrived can still be read."""
        source, self._source = self._source, None
        if source is not None and self._started:
            await source.stop()

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
        if self._over is not None:
            raise self._over
        while not self._pieces:
            if self._source is None or self._position >= self._end:
                await self._release()
                return b""
            try:
                await self._fill(self._source)
            except Error as error:
                # Raised again by further reads: an end here would look like the end of the object.
                self._over = error
                await self._release()
                raise
        return self._pieces.popleft()

    async def _fill(self, source: BucketFollow) -> None:
        if not self._started and self._start >= SEEK_MIN:
            source = self._source = await self._seek()
        begin, self._started = not self._started, True
        stored = await self._next(source, begin=begin)
        if not stored:
            raise await self._missing()
        pieces = []
        for each in stored:
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
                raise DigestMismatch(self._info.bucket, self._info.name)
        if self._position >= self._end:
            # The last of it: a caller that reads everything need not close it.
            await self._release()
        self._pieces.extend(pieces)
        self._given += sum(map(len, pieces))
        if self._progress is not None:
            self._progress(self._given, self._end - self._start)

    async def _next(self, source: BucketFollow, *, begin: bool) -> list[Stored]:
        """The next chunks; empty at the end."""
        try:
            async with asyncio.timeout(self._timeout):
                if begin:
                    await source.start(timeout=self._timeout)
                return [] if source.initial_done else await source.next_chunk(CHUNKS_AT_ONCE)
        except TimeoutError:
            raise RequestTimeout(
                f"object {self._info.name!r}: no chunk received within {self._timeout} s"
            ) from None

    async def _seek(self) -> BucketFollow:
        """A reader that starts at the chunk where the range starts."""
        sizes = self._follow(0, True)
        chunks = await self._next(sizes, begin=True)
        try:
            while chunks:
                for each in chunks:
                    if self._position + each.size > self._start:
                        return self._follow(each.revision, False)
                    self._position += each.size
                chunks = await self._next(sizes, begin=False)
        finally:
            await sizes.stop()
        raise await self._missing()

    async def _missing(self) -> ObjectNotFound | ObjectIncomplete:
        """Why there are fewer chunks than the metadata said when the object was opened."""
        info = self._info
        now = await self._look_again()
        if now is not None and not now.deleted and now.nuid == info.nuid:
            return ObjectIncomplete(info.bucket, info.name, self._position, info.size)
        error = ObjectNotFound(info.bucket, info.name)
        error.add_note("it was replaced, renamed or deleted during the read: open it again")
        return error

    async def _next_chunk(self, count: int) -> list[bytes]:
        """Wait for a piece and return all available ones; the blocking twin iterates with it."""
        piece = await self._next_piece()
        if not piece:
            return []
        more = [self._pieces.popleft() for _ in range(min(count - 1, len(self._pieces)))]
        return [piece, *more]

    def _put_back(self, pieces: list[bytes]) -> None:
        """Take back pieces that the blocking twin has read ahead."""
        self._pieces.extendleft(reversed(pieces))

    def __repr__(self) -> str:
        return f"ObjectReader({self.info.name!r}, size={self.info.size})"
