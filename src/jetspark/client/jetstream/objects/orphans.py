"""Finding and removing chunks that belong to no object: leftovers of killed puts.

A put in a running process cleans up after itself. One whose process, machine or network died
leaves chunks that no meta message names. So does an unfinished put of another client, which must
not be affected: only chunks that are older than the longest pause of a put, as given by the
caller, are removed.

The race in detail. *Looking*: chunks are listed first, then meta messages are read and followed; a
put that ends meanwhile is seen. A rename writes the new name before the marker of the old one, so
at every time some message names the data; but both may be overwritten between two looks. Therefore
the view is *settled* before anything is removed: the leader's newest meta message has been read,
and the leader still has none that is newer. Then no stored message names the chunks, so no rename
or edit can refer to them. *Removing*: only their own put still can, if it paused for longer than
``older_than`` and ends between the last look and the purge, a round trip later. Our put checks
again if it took long, and withdraws such an object with an error (``Cleaner.check_data``); an
object never exists without its data.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import STREAM_INFO
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import WatchPlan
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.objects.config import STREAM_PREFIX
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.client.jetstream.objects.watching import read_info
from jetspark.errors import (
    BucketNotFound,
    Error,
    MessageNotFound,
    NotSupported,
    ProtocolViolation,
    RequestTimeout,
    StreamNotFound,
    StreamSealed,
)
from jetspark.errors.codes import ErrCode
from jetspark.units import seconds

OLDER_THAN: Final = 3600.0  # seconds that a put may pause
PURGES_AT_ONCE: Final = 32
LOOK_SECONDS: Final = 0.5  # for a meta message that may be deleted, before asking the leader

Progress = Callable[[int, int], None]


class OrphansPurged(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``ObjectStore.purge_orphans``."""

    objects: int
    """Unfinished puts, or unfinished removals, that were cleaned up."""
    chunks: int
    """Messages removed for them."""
    young: int
    """Others that were kept: their newest chunk is younger than ``older_than``."""


class OrphanPurge:
    """One run of ``ObjectStore.purge_orphans``."""

    def __init__(
        self, reader: StreamReader, meta: MetaMessages, prefix: str, timeout: float
    ) -> None:
        self._reader = reader
        self._meta = meta
        self._prefix = prefix
        self._timeout = timeout
        # By the id of the put: sequence and time of its newest chunk.
        self._chunks: dict[str, tuple[int, int]] = {}
        self._named: set[str] = set()
        self._seen = 0
        self._news = asyncio.Event()

    async def run(self, older_than: float, progress: Progress | None) -> OrphansPurged:
        """Find orphans, then remove them."""
        now, last_seq = await self._state()
        await self._list_chunks(last_seq)
        follow = self._follow("M", last_seq, meta_only=False)
        await follow.start(timeout=self._timeout)
        watching = self._reader.api.core.loop.create_task(self._watch(follow))
        try:
            await self._settle(follow, watching)
            loose = [nuid for nuid in self._chunks if nuid not in self._named]
            bound = now - seconds(older_than)
            old = [nuid for nuid in loose if self._chunks[nuid][1] <= bound]
            objects = chunks = 0
            for at in range(0, len(old), PURGES_AT_ONCE):
                await self._settle(follow, watching)
                group = [nuid for nuid in old[at : at + PURGES_AT_ONCE] if nuid not in self._named]
                chunks += sum(await asyncio.gather(*map(self._purge, group)))
                objects += len(group)
                if progress is not None:
                    progress(min(at + PURGES_AT_ONCE, len(old)), len(old))
        finally:
            await follow.stop()
            await asyncio.wait([watching])
            with suppress(Error):  # already raised, or no longer relevant
                watching.result()
        return OrphansPurged(objects=objects, chunks=chunks, young=len(loose) - len(old))

    async def _state(self) -> tuple[int, int]:
        """The server's time and the last sequence; refuses a store that cannot be cleaned."""
        stream = self._reader.stream
        try:
            info = await self._reader.api.call(
                f"STREAM.INFO.{stream}", None, STREAM_INFO, timeout=self._timeout
            )
        except StreamNotFound:
            raise BucketNotFound(stream.removeprefix(STREAM_PREFIX)) from None
        if info.config.sealed:
            raise StreamSealed(
                400,
                ErrCode.STREAM_SEALED,
                f"stream {stream!r} is sealed: nothing can be removed from this object store",
            )
        if info.config.mirror is not None:
            origin = info.config.mirror.name.removeprefix("OBJ_")
            raise NotSupported(
                f"stream {stream!r} is a mirror: call purge_orphans of its origin, {origin!r}"
            )
        return int(info.ts), info.state.last_seq

    async def _list_chunks(self, last_seq: int) -> None:
        follow = self._follow("C", last_seq, meta_only=True)
        await follow.start(timeout=self._timeout)
        try:
            while not follow.initial_done:
                async with asyncio.timeout(self._timeout):
                    for stored in await follow.next_chunk(256):
                        self._chunks[stored.key] = (stored.revision, stored.time_ns)
        except TimeoutError:
            raise self._late("the list of chunks was not received") from None
        finally:
            await follow.stop()

    async def _watch(self, follow: Follow) -> None:
        """Read meta messages until it is stopped."""
        try:
            while True:
                current = follow.initial_done
                stored = await follow.next_chunk(256)
                if not stored and (current or not follow.initial_done):
                    return
                for info in map(read_info, stored):
                    if not info.deleted:
                        self._named.add(info.nuid)
                    self._seen = max(self._seen, info.seq)
                self._news.set()
        except ProtocolViolation as error:
            error.add_note("nothing was removed, because the chunks of that object are unknown")
            raise
        finally:
            self._news.set()

    async def _settle(self, follow: Follow, watching: asyncio.Task[None]) -> None:
        """Wait until all current meta messages of the leader were read."""
        loop = self._reader.api.core.loop
        deadline = loop.time() + self._timeout
        asked: int | None = None
        while True:
            self._news.clear()
            if watching.done():
                watching.result()
                raise self._late("its meta messages could not be followed")
            newest = await self._newest()
            if follow.initial_done and self._seen >= newest == asked:
                return
            if loop.time() >= deadline:
                raise self._late("its objects kept changing, or could not be read")
            asked = newest
            if not follow.initial_done or self._seen < newest:
                with suppress(TimeoutError):  # it may be deleted
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()

    async def _newest(self) -> int:
        """The sequence of the newest meta message, according to the leader."""
        request = MsgGetRequest(last_by_subj=f"{self._prefix}.M.>")
        try:
            return (await self._reader.get_from_leader(request, self._timeout)).seq
        except MessageNotFound:
            return 0

    async def _purge(self, nuid: str) -> int:
        # A chunk that arrived since belongs to a running put, which will notice.
        below = self._chunks[nuid][0] + 1
        return await self._meta.purge_chunks(nuid, below=below, timeout=self._timeout)

    def _follow(self, kind: str, last_seq: int, *, meta_only: bool) -> Follow:
        plan = WatchPlan(meta_only=meta_only, plain=True)
        prefix = f"{self._prefix}.{kind}."
        return Follow(self._reader, prefix, plan, last_seq, HighWater(enabled=False))

    def _late(self, why: str) -> RequestTimeout:
        return RequestTimeout(
            f"orphans of stream {self._reader.stream!r}: {why} within {self._timeout} s; nothing "
            "more was removed: try again, or raise timeout"
        )
