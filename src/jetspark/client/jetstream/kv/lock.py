"""Locks and elections on a key: the creator holds it as long as it is renewed (ADR-8 2.0).

The key has a time to live, so that a holder that dies loses it. The revision of the creation is
the fencing token: it is larger for every later holder, and the protected resource can refuse a
token smaller than the last one.

A holder counts the time to live from before its request, the server from when it stored the key:
the holder knows that it lost the lock before any other client can create the key, whatever the
network does.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from jetspark.client.jetstream.kv.backend import Backend
from jetspark.client.jetstream.kv.watch import Watches
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import (
    ConnectionClosed,
    Error,
    InvalidState,
    KeyExists,
    KeyNotFound,
    NoResponders,
    RequestTimeout,
    WrongLastSequence,
)
from jetspark.ids import Nuid

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

RENEWALS: Final = 3  # per time to live
RETRIES: Final = 10  # per time to live, after a renewal that failed
RENEWAL_MIN: Final = 0.001  # seconds that must be left for a renewal attempt
AWAY_PAUSE: Final = 0.25  # seconds before a request without an answer is repeated


class Lock:
    """A lock on a key, from ``KeyValue.lock``; ``async with`` acquires and releases it.

    While held, it is renewed in the background. ``is_held`` becomes false, and ``lost`` is set, at
    the latest when the time to live expires without a renewal.
    """

    def __init__(
        self, bucket: "KeyValue", backend: Backend, key: str, owner: str, ttl: float
    ) -> None:
        if ttl < 1:
            raise ValueError(f"ttl={ttl}: expected at least 1 second")
        self._bucket = bucket
        self._backend = backend
        self._key = key
        self._owner = owner or Nuid().next()
        self._ttl = ttl
        # How long the key lives: the ttl of the bucket may be shorter.
        self._lease = 0.0
        self._token = 0
        self._revision = 0
        self._valid_until = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._releasing = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back: asyncio.Task[None] | None = None
        self.lost: Final = asyncio.Event()

    @property
    def owner(self) -> str:
        """The name that this holder writes to the key."""
        return self._owner

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as this process can know."""
        # By the clock, not only by the task: after the process was paused, it may not have run
        # yet.
        held = self._renewing is not None and not self.lost.is_set()
        return held and self._loop is not None and self._loop.time() < self._valid_until

    @property
    def token(self) -> int:
        """The fencing token of the current lock; InvalidState if it is not held."""
        if not self.is_held:
            raise InvalidState(f"the lock {self._key!r} is not held: there is no token")
        return self._token

    async def acquire(self, *, timeout: Timeout | None = None) -> int:
        """Wait for the lock; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits indefinitely, even while no
        server is available).
        """
        if self.is_held:
            raise InvalidState(
                f"the lock {self._key!r} is already held by this object: release() it first, or "
                "create another with kv.lock()"
            )
        seconds = None if timeout is None else call_seconds(timeout, 0.0)
        try:
            async with asyncio.timeout(seconds):
                while not await self._acquire_or_wait():
                    pass
        except TimeoutError:
            raise RequestTimeout(
                f"the lock {self._key!r} was not released within {seconds} s"
            ) from None
        return self._token

    async def try_acquire(self, *, timeout: Timeout | None = None) -> bool:
        """Acquire the lock if it is free."""
        loop = asyncio.get_running_loop()
        if not self._lease:
            status = await self._bucket.status(timeout=timeout)
            self._lease = min(self._ttl, status.ttl or self._ttl)
        asked = loop.time()
        creating = loop.create_task(
            self._bucket.create(self._key, self._owner.encode(), ttl=self._ttl, timeout=timeout)
        )
        try:
            # Not cancelled with us: otherwise it would be unknown whether the key was created.
            revision = await asyncio.shield(creating)
        except KeyExists:
            return False
        except asyncio.CancelledError:
            creating.add_done_callback(self._give_back)
            raise
        if loop.time() >= asked + self._lease:
            self._give_back(creating)  # the answer came too late
            return False
        if self._renewing is not None:
            self._renewing.cancel()  # left from a lock that was lost and not released
        self._token = self._revision = revision
        self._loop, self._valid_until = loop, asked + self._lease
        self._releasing.clear()
        self.lost.clear()
        self._renewing = loop.create_task(self._renew(loop), name=f"jetspark lock {self._key}")
        return True

    async def wait_lost(self, *, timeout: Timeout | None = None) -> bool:
        """Wait until the lock is lost; False if ``timeout`` seconds passed."""
        seconds = None if timeout is None else call_seconds(timeout, 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.lost.wait()
        return False

    async def release(self, *, timeout: Timeout | None = None) -> None:
        """Release the lock; does nothing if it is not held."""
        renewing, held = self._renewing, self.is_held
        if renewing is None:
            return
        self._releasing.set()
        try:
            # Wait for a renewal in flight: only then is the latest revision known.
            await asyncio.wait([renewing], timeout=self._backend.seconds(timeout))
        finally:
            renewing.cancel()
            self._renewing = None
        if held and not self.lost.is_set():
            await self._remove(self._revision, timeout)

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

    async def _acquire_or_wait(self) -> bool:
        """Whether it was acquired; if not, try again."""
        try:
            if await self.try_acquire():
                return True
            await self._wait_for_release()
        except RequestTimeout:
            await asyncio.sleep(AWAY_PAUSE)
        except NoResponders:
            await asyncio.sleep(AWAY_PAUSE)
            with suppress(RequestTimeout, NoResponders):
                await self._bucket.status()  # BucketNotFound ends the waiting
        return False

    async def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = self._lease / RENEWALS
        while not await self._released_within(min(pause, self._valid_until - loop.time())):
            asked = loop.time()
            if asked + RENEWAL_MIN >= self._valid_until:
                break
            try:
                self._revision = await self._bucket.update(
                    self._key,
                    self._owner.encode(),
                    self._revision,
                    ttl=self._ttl,
                    timeout=self._valid_until - asked,
                )
            except (WrongLastSequence, ConnectionClosed):
                break  # taken by another client, or the client is closed
            except Exception:  # noqa: BLE001 - a backend may raise anything: the time decides
                pause = self._lease / RETRIES
            else:
                self._valid_until = asked + self._lease
                pause = self._lease / RENEWALS
        if not self._releasing.is_set():
            self.lost.set()

    async def _released_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._releasing.wait()
        return False

    def _give_back(self, creating: asyncio.Task[int]) -> None:
        """The key was created too late, or for a caller that was cancelled: delete it."""
        if not creating.cancelled() and creating.exception() is None:
            self._giving_back = creating.get_loop().create_task(
                self._remove_quietly(creating.result())
            )

    async def _remove_quietly(self, revision: int) -> None:
        with suppress(Error):  # it expires anyway
            await self._remove(revision, None)

    async def _remove(self, revision: int, timeout: Timeout | None) -> None:
        with suppress(WrongLastSequence):
            # The marker expires too: waiters have received it by then.
            await self._bucket.purge(self._key, last=revision, ttl=self._ttl, timeout=timeout)

    async def _wait_for_release(self) -> None:
        """Wait until the key is deleted; an expiry without a marker is detected by time."""
        async with self._bucket.watch(self._key) as watcher:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ttl):
                    await watcher.ready(timeout=self._ttl)
                    found = [entry async for entry in watcher.initial()]
                    if not found or not found[-1].is_put:
                        return
                    while (await watcher.next(timeout=self._ttl)).is_put:
                        pass

    def __repr__(self) -> str:
        return f"Lock({self._key!r}, {'held' if self.is_held else 'not held'})"


class Election:
    """Elects one leader among the candidates, from ``KeyValue.elect``.

    ``async with`` waits until this candidate leads and resigns at the end.
    """

    def __init__(
        self,
        bucket: "KeyValue",
        backend: Backend,
        watches: Watches,
        key: str,
        candidate: str,
        ttl: float,
    ) -> None:
        if not candidate:
            raise ValueError("candidate is empty: expected a unique name")
        self._bucket = bucket
        self._watches = watches
        self._key = key
        self._ttl = ttl
        self._lock = Lock(bucket, backend, key, candidate, ttl)

    @property
    def candidate(self) -> str:
        """The name of this candidate."""
        return self._lock.owner

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads, as far as this process can know."""
        return self._lock.is_held

    @property
    def token(self) -> int:
        """The fencing token of the current leadership; InvalidState if it does not lead."""
        return self._lock.token

    async def leader(self, *, timeout: Timeout | None = None) -> str | None:
        """The current leader, or None."""
        try:
            entry = await self._bucket.get(self._key, timeout=timeout)
        except KeyNotFound:
            return None
        return entry.value.decode("utf-8", "replace")

    async def campaign(self, *, timeout: Timeout | None = None) -> int:
        """Wait until this candidate leads; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits indefinitely).
        """
        return await self._lock.acquire(timeout=timeout)

    async def resign(self, *, timeout: Timeout | None = None) -> None:
        """Give up the leadership."""
        await self._lock.release(timeout=timeout)

    async def wait_deposed(self, *, timeout: Timeout | None = None) -> bool:
        """Wait until the leadership is lost; False if ``timeout`` seconds passed."""
        return await self._lock.wait_lost(timeout=timeout)

    async def observe(self) -> AsyncGenerator[str | None, None]:
        """Yield the current leader, and again whenever it changes; None while there is none."""
        known: str | None = None
        leader: str | None = None
        yielded = False
        feed = await self._watches.entries((self._key,))
        try:
            while True:
                chunk = await feed.next_within(self._ttl if known is not None else None)
                if chunk is None:
                    # Not renewed: it may have expired, which only a limit marker would report.
                    leader = None if await is_gone(self._bucket, self._key) else known
                    chunk = [None]
                elif not chunk:
                    return
                for entry in chunk:
                    if entry is not None:
                        leader = entry.value.decode("utf-8", "replace") if entry.is_put else None
                    if not yielded or leader != known:
                        yielded, known = True, leader
                        yield leader
        finally:
            await self._watches.stop(feed)

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

    def __repr__(self) -> str:
        return (
            f"Election({self._key!r}, candidate={self.candidate!r}, "
            f"{'leads' if self.is_leader else 'does not lead'})"
        )


async def is_gone(bucket: "KeyValue", key: str) -> bool:
    """Whether a key has no value any more; False if that cannot be determined."""
    try:
        await bucket.get(key)
    except KeyNotFound:
        return True
    except Error:
        return False
    return False
