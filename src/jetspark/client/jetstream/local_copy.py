"""A copy of the newest messages in memory, kept current by a watch; reads ask nobody.

States: filling (the initial data comes), current (every change is applied as it arrives), failed
(the connection, the stream or the memory limit ended it; reading raises why).
"""

import asyncio
from contextlib import suppress
from typing import Final

from jetspark.client.jetstream.kv.backend import Stored, WatchSource
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.clock import Clock, SystemClock
from jetspark.errors import BufferFull, RequestTimeout
from jetspark.headers.block import find_value
from jetspark.headers.names import TTL
from jetspark.units import mib, parse_duration

MEMORY_MAX: Final = mib(256)
ENTRY_COST: Final = 400  # bytes of Python objects around a value, for the limit


class LocalCopy:
    """The newest entry of every subject or key; deletions are remembered by their revision."""

    def __init__(
        self,
        source: WatchSource,
        label: str,
        *,
        max_bytes: int,
        ttl_ns: int,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._label = label
        self._max_bytes = max_bytes
        self._ttl_ns = ttl_ns
        self._clock = clock or SystemClock()
        self._entries: dict[str, Stored] = {}
        self._expires: dict[str, int] = {}
        self._bytes = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: Exception | None = None
        self._filled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.revision = 0

    @property
    def memory(self) -> int:
        """What the copy takes, about."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    async def start(self, seconds: float) -> None:
        """Begin, and wait until everything that is there now is here."""
        await self._source.start(timeout=seconds)
        self._task = asyncio.get_running_loop().create_task(
            self._follow(), name=f"jetspark copy of {self._label}"
        )
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._filled)
        except TimeoutError:
            await self.close()
            raise RequestTimeout(
                f"the copy of {self._label} was not complete within {seconds} s "
                f"({len(self._entries)} entries so far)"
            ) from None
        except BaseException:
            await self.close()
            raise

    def find(self, key: str) -> Stored | None:
        """The newest entry of a key, None when there is none or it is deleted or expired."""
        if self._failure is not None:
            raise self._failure
        stored = self._entries.get(key)
        if stored is None:
            return None
        if self._expires and self._is_expired(key):
            return None
        return stored

    def all(self) -> list[Stored]:
        """Every entry, as of one revision."""
        if self._failure is not None:
            raise self._failure
        if not self._expires:
            return list(self._entries.values())
        return [stored for key, stored in self._entries.items() if not self._is_expired(key)]

    async def wait_for(self, revision: int, seconds: float) -> bool:
        """Wait until a revision at or beyond this one was seen; False when it did not come."""
        if self._failure is not None:
            raise self._failure
        if self.revision >= revision:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not waiter]
        return True

    async def close(self) -> None:
        """Stop following; nothing can be read any more."""
        task, self._task = self._task, None
        await self._source.stop()
        if task is not None:
            await asyncio.wait([task])
        self._fail(BufferFull(f"the copy of {self._label} is closed"))
        self._entries.clear()

    async def _follow(self) -> None:
        try:
            while True:
                if self._source.initial_done and not self._filled.done():
                    self._filled.set_result(None)
                chunk = await self._source.next_chunk(256)
                if not chunk and not (self._source.initial_done and not self._filled.done()):
                    self._fail(BufferFull(f"the copy of {self._label} is closed"))
                    return
                for stored in chunk:
                    self._apply(stored)
                if chunk:
                    self._seen(chunk[-1].revision)
        except Exception as error:  # noqa: BLE001 - of another backend: never silently out of date
            self._fail(error)
            await self._source.stop()

    def _apply(self, stored: Stored) -> None:
        old = self._entries.pop(stored.key, None)
        if old is not None:
            self._bytes -= self._cost(old)
            self._expires.pop(stored.key, None)
        if stored.operation is not Operation.PUT:
            return
        self._entries[stored.key] = stored
        self._bytes += self._cost(stored)
        expires = self._expiry(stored)
        if expires:
            self._expires[stored.key] = expires
        if self._bytes > self._max_bytes:
            raise BufferFull(
                f"the copy of {self._label} takes more than max_bytes={self._max_bytes}: raise "
                "it, or copy only a part (filters)"
            )

    def _expiry(self, stored: Stored) -> int:
        text = find_value(stored.block, TTL) if stored.block else None
        if text is not None:
            if text == b"never":
                return 0
            ttl = text.decode("ascii", "replace")
            # Servers before 2.11 store anything under this name and do not heed it.
            with suppress(ValueError):
                return stored.time_ns + parse_duration(f"{ttl}s" if ttl.isdigit() else ttl)
        return stored.time_ns + self._ttl_ns if self._ttl_ns else 0

    def _is_expired(self, key: str) -> bool:
        expires = self._expires.get(key)
        return expires is not None and expires <= self._clock.now_ns()

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
        if self._failure is None:
            self._failure = error
        if not self._filled.done():
            self._filled.set_exception(self._failure)
            self._filled.exception()
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(self._failure)
        self._waiters.clear()
