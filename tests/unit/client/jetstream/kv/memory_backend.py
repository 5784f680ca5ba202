"""A bucket in a dictionary: another backend for ``KeyValue`` (ADR-8, "Storage Backends")."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from jetspark import BucketStatus, KeyValueConfig, Operation, Stored, Timeout, WatchPlan
from jetspark.client.jetstream.kv.backend import SecondsToLive
from jetspark.client.timeouts import call_seconds
from jetspark.errors import WrongLastSequence
from jetspark.subjects.match import matches


class MemoryBackend:
    """Keeps every entry; ``gets`` notes what reads asked for.

    With ``silent`` a refused write does not say which revision exists, as some servers do.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.entries: list[Stored] = []
        self.gets: list[tuple[str, int]] = []
        self.reported: list[Exception] = []
        self._silent = silent
        self._changed = asyncio.Condition()

    @property
    def bucket(self) -> str:
        return "memory"

    def seconds(self, timeout: Timeout | None) -> float:
        return call_seconds(timeout, 5.0)

    def report(self, error: Exception) -> None:
        self.reported.append(error)

    async def get(
        self, key: str, *, revision: int, min_last_revision: int, timeout: Timeout | None
    ) -> Stored | None:
        del timeout
        self.gets.append((key, min_last_revision))
        for stored in reversed(self.entries):
            if stored.key == key and revision in {0, stored.revision}:
                return stored
        return None

    async def get_many(
        self,
        filters: Sequence[str],
        *,
        at_revision: int,
        at_time_ns: int | None,
        min_last_revision: int,
        timeout: Timeout | None,
    ) -> AsyncGenerator[list[Stored], None]:
        del min_last_revision, timeout
        last = {
            stored.key: stored
            for stored in self.entries
            if fits(stored.key, filters)
            and (not at_revision or stored.revision <= at_revision)
            and (at_time_ns is None or stored.time_ns <= at_time_ns)
        }
        yield list(last.values())

    async def put(
        self,
        key: str,
        data: bytes,
        operation: Operation,
        expected: int | None,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> int:
        (revision,) = await self.put_together(
            [(key, data, operation, expected, ttl)], timeout=timeout
        )
        return revision

    async def put_many(
        self,
        entries: Sequence[tuple[str, bytes]],
        operation: Operation,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> list[int]:
        return await self.put_together(
            [(key, data, operation, None, ttl) for key, data in entries], timeout=timeout
        )

    async def put_together(
        self,
        entries: Sequence[tuple[str, bytes, Operation, int | None, SecondsToLive]],
        *,
        timeout: Timeout | None,
    ) -> list[int]:
        del timeout
        for key, _, _, expected, _ in entries:
            actual = max((each.revision for each in self.entries if each.key == key), default=0)
            if expected is not None and expected != actual:
                # ADR-53: two similar errors, one with the sequence and one without.
                text = "wrong last sequence" + ("" if self._silent else f": {actual}")
                raise WrongLastSequence(400, 10164 if self._silent else 10071, text)
        first = len(self.entries) + 1
        for key, data, operation, _, _ in entries:
            revision = len(self.entries) + 1
            if operation is Operation.PURGE:
                self._blank(key)
            self.entries.append(
                Stored(key, data, revision, revision * 10**9, operation, "", len(data))
            )
        await self.wake()
        return list(range(first, len(self.entries) + 1))

    def watch(self, plan: WatchPlan) -> "MemoryWatch":
        return MemoryWatch(self, plan)

    async def erase(self, key: str, *, below: int, timeout: Timeout | None) -> None:
        del timeout
        self._blank(key, below)

    async def status(self, *, timeout: Timeout | None) -> BucketStatus:
        del timeout
        return BucketStatus(
            bucket="memory",
            values=sum(1 for each in self.entries if each.key),
            bytes=0,
            config=KeyValueConfig(bucket="memory", history=64),
            backing_store="a dictionary",
        )

    async def destroy(self, *, timeout: Timeout | None) -> None:
        del timeout
        self.entries.clear()

    async def wait(self, ready: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(ready)

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _blank(self, key: str, below: int = 0) -> None:
        """Forget the entries of a key; revisions stay what they are."""
        self.entries = [
            msgspec.structs.replace(each, key="")
            if each.key == key and (not below or each.revision < below)
            else each
            for each in self.entries
        ]


class MemoryWatch:
    """Follows the dictionary."""

    def __init__(self, backend: MemoryBackend, plan: WatchPlan) -> None:
        self._backend = backend
        self._plan = plan
        self._at = 0
        self._stopped = False
        self.initial_done = False

    async def start(self, *, timeout: Timeout | None = None) -> None:
        del timeout
        if self._plan.start == "new":
            self._at = len(self._backend.entries)
        self.initial_done = self._at == len(self._backend.entries)

    async def next_chunk(self, count: int) -> list[Stored]:
        del count
        waiting = self.initial_done
        found: list[Stored] = []
        while not found:
            if waiting:
                await self._backend.wait(self._is_news)
                if self._stopped:
                    return []
            entries = self._backend.entries
            found = [each for each in entries[self._at :] if fits(each.key, self._plan.filters)]
            if not waiting:
                break
            self._at = len(entries)
        if not self.initial_done and self._plan.start == "last":
            found = list({each.key: each for each in found}.values())
        self._at, self.initial_done = len(entries), True
        if self._plan.meta_only:
            return [msgspec.structs.replace(each, data=b"") for each in found]
        return found

    async def stop(self) -> None:
        self._stopped = True
        await self._backend.wake()

    def _is_news(self) -> bool:
        return self._stopped or len(self._backend.entries) > self._at


def fits(key: str, filters: Sequence[str]) -> bool:
    return bool(key) and any(matches(key.encode(), each.encode()) for each in filters)
