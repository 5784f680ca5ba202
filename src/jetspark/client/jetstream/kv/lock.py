"""Locks and elections on a key: who creates it holds it, for as long as it is renewed (ADR-8 2.0).

The key has a time to live, so that a holder that dies loses it. The revision of the creation is
the fencing token: it is larger for every later holder, and whatever is protected can refuse a
token smaller than one it has seen.
"""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from jetspark.errors import (
    ApiError,
    Error,
    KeyExists,
    KeyNotFound,
    NotSupported,
    RequestTimeout,
    WrongLastSequence,
)
from jetspark.errors.codes import ErrCode
from jetspark.ids import Nuid

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

RENEWALS: Final = 3  # per time to live


class Lock:
    """A lock on a key. Made by ``KeyValue.lock``; ``async with`` acquires and releases it.

    While it is held it is renewed in the background. ``is_held`` turns false, and ``lost`` is
    set, at the latest when the time to live is over without a renewal.
    """

    def __init__(self, bucket: "KeyValue", key: str, owner: str, ttl: float) -> None:
        if ttl < 1:
            raise ValueError(f"ttl={ttl}: the shortest time to live is 1 second")
        self._bucket = bucket
        self._key = key
        self._owner = owner or Nuid().next()
        self._ttl = ttl
        self._token = 0
        self._revision = 0
        self._renewing: asyncio.Task[None] | None = None
        self.lost: Final = asyncio.Event()

    @property
    def owner(self) -> str:
        """The name this holder writes into the key."""
        return self._owner

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as can be known."""
        return self._renewing is not None and not self.lost.is_set()

    @property
    def token(self) -> int:
        """The fencing token of the current holding; ValueError when it is not held."""
        if not self._token:
            raise ValueError(f"the lock {self._key!r} is not held: there is no token")
        return self._token

    async def acquire(self, *, timeout: float | None = None) -> int:
        """Wait until the lock is ours; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits as long as it takes).
        """
        if self._renewing is not None:
            raise ValueError(f"the lock {self._key!r} is held by this object already")
        try:
            async with asyncio.timeout(timeout):
                while not await self.try_acquire():
                    await self._wait_for_release()
        except TimeoutError:
            raise RequestTimeout(
                f"the lock {self._key!r} did not become free within {timeout} s"
            ) from None
        return self._token

    async def try_acquire(self, *, timeout: float | None = None) -> bool:
        """Take the lock if it is free now."""
        try:
            revision = await self._bucket.create(
                self._key, self._owner.encode(), ttl=self._ttl, timeout=timeout
            )
        except KeyExists:
            return False
        except ApiError as error:
            if error.err_code == ErrCode.TTL_DISABLED:
                raise NotSupported(
                    f"bucket {self._bucket.bucket!r} does not allow a time to live per key, which "
                    "a lock needs: create it with allow_key_ttl (nats-server 2.11 or later)"
                ) from error
            raise
        self._token = self._revision = revision
        self.lost.clear()
        self._renewing = asyncio.get_running_loop().create_task(
            self._renew(), name=f"jetspark lock {self._key}"
        )
        return True

    async def wait_lost(self, *, timeout: float | None = None) -> bool:
        """Wait until the lock is lost; False when ``timeout`` seconds passed without."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await self.lost.wait()
        return False

    async def release(self, *, timeout: float | None = None) -> None:
        """Give it up; does nothing when it is not held."""
        renewing, self._renewing = self._renewing, None
        if renewing is None:
            return
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        if not self.lost.is_set():
            with suppress(WrongLastSequence):
                await self._bucket.purge(self._key, last=self._revision, timeout=timeout)
        self._token = 0

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.release()

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        valid_until = loop.time() + self._ttl
        while True:
            await asyncio.sleep(self._ttl / RENEWALS)
            asked = loop.time()
            left = valid_until - asked
            if left <= 0:
                break
            try:
                self._revision = await self._bucket.update(
                    self._key,
                    self._owner.encode(),
                    self._revision,
                    ttl=self._ttl,
                    timeout=left,
                )
                valid_until = asked + self._ttl
            except (WrongLastSequence, KeyNotFound):
                break
            except Error:
                continue
        self.lost.set()

    async def _wait_for_release(self) -> None:
        """Wait until the key is deleted; an expiry without a marker is noticed by time."""
        async with await self._bucket.watch(self._key) as watcher:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ttl):
                    first = await anext(watcher)
                    if first is None or not first.is_put:
                        return
                    async for entry in watcher:
                        if entry is not None and not entry.is_put:
                            return


class Election:
    """Elects one leader among the candidates. Made by ``KeyValue.elect``.

    ``async with`` waits until this candidate leads and resigns in the end.
    """

    def __init__(self, bucket: "KeyValue", key: str, candidate: str, ttl: float) -> None:
        if not candidate:
            raise ValueError("a candidate needs a name that the others can tell")
        self._bucket = bucket
        self._key = key
        self._lock = Lock(bucket, key, candidate, ttl)

    @property
    def candidate(self) -> str:
        """The name of this candidate."""
        return self._lock.owner

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads, as far as can be known."""
        return self._lock.is_held

    @property
    def token(self) -> int:
        """The fencing token of the current leadership; ValueError when it does not lead."""
        return self._lock.token

    async def leader(self, *, timeout: float | None = None) -> str | None:
        """The candidate that leads now; None when nobody does."""
        try:
            entry = await self._bucket.get(self._key, timeout=timeout)
        except KeyNotFound:
            return None
        return entry.value.decode("utf-8", "replace")

    async def campaign(self, *, timeout: float | None = None) -> int:
        """Wait until this candidate leads; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits as long as it takes).
        """
        return await self._lock.acquire(timeout=timeout)

    async def resign(self, *, timeout: float | None = None) -> None:
        """Let others lead."""
        await self._lock.release(timeout=timeout)

    async def wait_deposed(self, *, timeout: float | None = None) -> bool:
        """Wait until the leadership is lost; False when ``timeout`` seconds passed without."""
        return await self._lock.wait_lost(timeout=timeout)

    async def observe(self) -> AsyncGenerator[str | None, None]:
        """Yield the leader now and whenever it changes; None while there is none."""
        known: str | None = None
        told = False
        async with await self._bucket.watch(self._key) as watcher:
            async for entry in watcher:
                leader = known
                if entry is not None:
                    leader = entry.value.decode("utf-8", "replace") if entry.is_put else None
                if not told or leader != known:
                    told, known = True, leader
                    yield leader

    async def __aenter__(self) -> Self:
        await self.campaign()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.resign()
