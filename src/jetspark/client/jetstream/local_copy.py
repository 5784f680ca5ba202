"""A copy of the newest messages in memory, updated by a watch; reads send no requests.

States: filling (the initial data arrives), current (every change is applied as it arrives), failed
(the connection, the stream or the memory limit ended it; reads raise the reason).

Only the loop changes a copy. Reads may come from other threads (``jetspark.sync``): an entry is
replaced atomically, and a read is one lookup in the dictionary.
"""

import asyncio
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Final

from jetspark.client.arguments import whole
from jetspark.client.jetstream.kv.backend import Stored, WatchSource
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.clock import Clock, SystemClock
from jetspark.errors import BufferFull, ConnectionClosed, RequestTimeout
from jetspark.headers.block import find_value
from jetspark.headers.names import TTL
from jetspark.subjects.match import matches
from jetspark.units import mib, parse_duration

MEMORY_MAX: Final = mib(256)
ENTRY_COST: Final = 400  # bytes of Python objects around a value, for the limit
EXPIRY_PAUSE: Final = 1.0  # seconds between removals of expired entries
STALE_MAX: Final = 1024  # deadlines of replaced entries that are kept with the live ones


class LocalCopy:
    """The newest entry of every subject or key, without deleted and expired ones.

    ``server_time_ns`` returns the current server time, 0 if unknown: entries expire by it.
    """

    def __init__(
        self,
        source: WatchSource,
        label: str,
        *,
        filters: tuple[str, ...],
        max_bytes: int,
        ttl_ns: int,
        server_time_ns: int = 0,
        clock: Clock | None = None,
    ) -> None:
        whole(max_bytes, "max_bytes", least=1)
        self._source = source
        self._label = label
        self._filters = [each.encode("utf-8", "surrogateescape") for each in filters]
        self._max_bytes = max_bytes
        self._ttl_ns = ttl_ns
        self._clock = clock or SystemClock()
        self._ahead_ns = server_time_ns - self._clock.now_ns() if server_time_ns > 0 else 0
        self._entries: dict[str, Stored] = {}
        self._expires: dict[str, int] = {}
        # A heap of deadline, revision and key; those of replaced entries are ignored.
        self._deadlines: list[tuple[int, int, str]] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._filled: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self.revision: int = 0

    @property
    def memory(self) -> int:
        """Approximate memory of the copy in bytes."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries) if not self._expires else len(self.all())

    async def start(self, seconds: float) -> None:
        """Start, and wait for all initial data.

        ``seconds`` limits the wait for each part: the total is not known in advance.
        """
        try:
            await self._source.start(timeout=seconds)
            self._task = self._loop.create_task(
                self._follow(), name=f"jetspark copy of {self._label}"
            )
            seen = -1
            while not self._filled.done():
                if seen == self.revision:
                    raise RequestTimeout(
                        f"the copy of {self._label} is incomplete and nothing arrived within "
                        f"{seconds} s ({len(self._entries)} entries so far)"
                    )
                seen = self.revision
                await asyncio.wait([self._filled], timeout=seconds)
            self._filled.result()
        except BaseException:
            await self.close()
            raise

    def find(self, key: str) -> Stored | None:
        """The newest entry of a key; None if there is none or it was deleted or expired."""
        if self._failure is not None:
            raise self._failure
        stored = self._entries.get(key)
        if stored is None:
            return None
        if self._expires and self._is_expired(key):
            return None
        return stored

    def covers(self, key: str) -> bool:
        """Whether the key is among those that are copied."""
        encoded = key.encode("utf-8", "surrogateescape")
        return any(matches(encoded, each) for each in self._filters)

    def all(self) -> list[Stored]:
        """Every entry, at one revision."""
        if self._failure is not None:
            raise self._failure
        entries = list(self._entries.values())
        if not self._expires:
            return entries
        now, expires = self._now(), self._expires
        return [each for each in entries if not 0 < expires.get(each.key, 0) <= now]

    async def wait_for(self, revision: int, seconds: float) -> bool:
        """Wait until this or a later revision has arrived; False on timeout."""
        if self._failure is not None:
            raise self._failure
        if self.revision >= revision:
            return True
        entry = (revision, self._loop.create_future())
        self._waiters.append(entry)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await entry[1]
                    return True
            return False
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    async def close(self) -> None:
        """Stop following; reads raise ConnectionClosed."""
        self._fail(ConnectionClosed(f"the copy of {self._label} is closed"))
        task, self._task = self._task, None
        await self._source.stop()
        if task is not None:
            await asyncio.wait([task])

    async def _follow(self) -> None:
        source = self._source
        try:
            while True:
                if source.initial_done and not self._filled.done():
                    self._filled.set_result(None)
                current = self._filled.done()
                chunk = await source.next_chunk(256)
                if chunk:
                    self._take(chunk)
                elif current or not source.initial_done:
                    self._fail(ConnectionClosed(f"the copy of {self._label} is closed"))
                    return
        except Exception as error:  # noqa: BLE001 - any backend: never be silently stale
            self._fail(error)
            await source.stop()

    def _take(self, chunk: list[Stored]) -> None:
        for stored in chunk:
            self._apply(stored)
            if self._bytes > self._max_bytes:
                self._sweep()
                if self._bytes > self._max_bytes:
                    raise BufferFull(
                        f"the copy of {self._label} needs more than max_bytes="
                        f"{self._max_bytes}: raise it, or copy only a part (filters)"
                    )
        self._seen(chunk[-1].revision)
        if self._deadlines and self._sweeping is None:
            self._sweeping = self._loop.call_later(EXPIRY_PAUSE, self._sweep_again)

    def _apply(self, stored: Stored) -> None:
        key = stored.key
        expires = self._expiry(stored) if stored.operation is Operation.PUT else 0
        if key in self._expires and not expires:
            del self._expires[key]
        if stored.operation is not Operation.PUT:
            old = self._entries.pop(key, None)
        else:
            old = self._entries.get(key)
            if expires:
                self._expires[key] = expires
                heappush(self._deadlines, (expires, stored.revision, key))
            self._entries[key] = stored
            self._bytes += self._cost(stored)
        if old is not None:
            self._bytes -= self._cost(old)

    def _sweep_again(self) -> None:
        self._sweeping = None
        self._sweep()
        if self._deadlines:
            self._sweeping = self._loop.call_later(EXPIRY_PAUSE, self._sweep_again)

    def _sweep(self) -> None:
        """Remove expired entries: the server may not report them, and they use memory."""
        now, deadlines = self._now(), self._deadlines
        while deadlines and deadlines[0][0] <= now:
            _, revision, key = heappop(deadlines)
            stored = self._entries.get(key)
            if stored is not None and stored.revision == revision:
                del self._entries[key]
                del self._expires[key]
                self._bytes -= self._cost(stored)
        if len(deadlines) > 2 * len(self._expires) + STALE_MAX:
            self._deadlines = [
                (expires, self._entries[key].revision, key)
                for key, expires in self._expires.items()
            ]
            heapify(self._deadlines)

    def _expiry(self, stored: Stored) -> int:
        text = find_value(stored.block, TTL) if stored.block else None
        if text is not None:
            if text == b"never":
                return 0
            ttl = text.decode("ascii", "replace")
            # Servers before 2.11 store anything under this name and ignore it.
            with suppress(ValueError):
                return stored.time_ns + parse_duration(f"{ttl}s" if ttl.isdigit() else ttl)
        return stored.time_ns + self._ttl_ns if self._ttl_ns else 0

    def _now(self) -> int:
        return self._clock.now_ns() + self._ahead_ns

    def _is_expired(self, key: str) -> bool:
        return 0 < self._expires.get(key, 0) <= self._now()

    @staticmethod
    def _cost(stored: Stored) -> int:
        return ENTRY_COST + 2 * len(stored.key) + len(stored.data) + len(stored.block)

    def _seen(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        if not self._waiters:
            return
        waiting, self._waiters = self._waiters, []
        for wanted, waiter in waiting:
            if wanted > self.revision:
                self._waiters.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        """End the copy: reads raise the reason, and the memory is freed."""
        if self._failure is None:
            self._failure = error
        if not self._filled.done():
            self._filled.set_exception(self._failure)
            self._filled.exception()
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(self._failure)
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._entries, self._expires, self._deadlines = {}, {}, []
        self._bytes = 0
