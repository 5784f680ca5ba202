"""Locks and elections on a key: who creates it holds it, for as long as it is renewed (ADR-8 2.0).

The key has a time to live, so that a holder that dies loses it. The revision of the creation is
the fencing token: it is larger for every later holder, and whatever is protected can refuse a
token smaller than one it has seen.

A holder counts the time to live from before it asked, the server from when it stored the key: the
holder knows of its loss before anybody else can create the key, whatever the network does.
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
RENEWAL_MIN: Final = 0.001  # seconds that must be left for a renewal to be worth it
AWAY_PAUSE: Final = 0.25  # seconds before a server that did not answer is asked again


class Lock:
    """A lock on a key. Made by ``KeyValue.lock``; ``async with`` acquires and releases it.

    While it is held it is renewed in the background. ``is_held`` turns false, and ``lost`` is
    set, at the latest when the time to live is over without a renewal.
    """

    def __init__(
        self, bucket: "KeyValue", backend: Backend, key: str, owner: str, ttl: float
    ) -> None:
        if ttl < 1:
            raise ValueError(f"ttl={ttl}: the shortest time to live is 1 second")
        self._bucket = bucket
        self._backend = backend
        self._key = key
        self._owner = owner or Nuid().next()
        self._ttl = ttl
        # How long the key lives: values of the whole bucket may end sooner.
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
        """The name this holder writes into the key."""
        return self._owner

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as can be known."""
        # By the clock, not only by the task: after a pause of the process it may not have run yet.
        held = self._renewing is not None and not self.lost.is_set()
        return held and self._loop is not None and self._loop.time() < self._valid_until

    @property
    def token(self) -> int:
        """The fencing token of the current holding; InvalidState when it is not held."""
        if not self.is_held:
            raise InvalidState(f"the lock {self._key!r} is not held: there is no token")
        return self._token

    async def acquire(self, *, timeout: Timeout | None = None) -> int:
        """Wait until the lock is ours; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits as long as it takes, also for
        a server that is away).
        """
        if self.is_held:
            raise InvalidState(f"the lock {self._key!r} is held by this object already")
        seconds = None if timeout is None else call_seconds(timeout, 0.0)
        try:
            async with asyncio.timeout(seconds):
                while not await self._acquire_or_wait():
                    pass
        except TimeoutError:
            raise RequestTimeout(
                f"the lock {self._key!r} did not become free within {seconds} s"
            ) from None
        return self._token

    async def try_acquire(self, *, timeout: Timeout | None = None) -> bool:
        """Take the lock if it is free now."""
        loop = asyncio.get_running_loop()
        if not self._lease:
            status = await self._bucket.status(timeout=timeout)
            self._lease = min(self._ttl, status.ttl or self._ttl)
        asked = loop.time()
        creating = loop.create_task(
            self._bucket.create(self._key, self._owner.encode(), ttl=self._ttl, timeout=timeout)
        )
        try:
            # Not cancelled with us: nobody would know whether the key was made.
            revision = await asyncio.shield(creating)
        except KeyExists:
            return False
        except asyncio.CancelledError:
            creating.add_done_callback(self._give_back)
            raise
        if loop.time() >= asked + self._lease:
            self._give_back(creating)  # the answer came when its time was over
            return False
        if self._renewing is not None:
            self._renewing.cancel()  # of a holding that was lost and not released
        self._token = self._revision = revision
        self._loop, self._valid_until = loop, asked + self._lease
        self._releasing.clear()
        self.lost.clear()
        self._renewing = loop.create_task(self._renew(loop), name=f"jetspark lock {self._key}")
        return True

    async def wait_lost(self, *, timeout: Timeout | None = None) -> bool:
        """Wait until the lock is lost; False when ``timeout`` seconds passed without."""
        seconds = None if timeout is None else call_seconds(timeout, 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.lost.wait()
        return False

    async def release(self, *, timeout: Timeout | None = None) -> None:
        """Give it up; does nothing when it is not held."""
        renewing, held = self._renewing, self.is_held
        if renewing is None:
            return
        self._releasing.set()
        try:
            # A renewal under way is waited for: only then is the latest revision known.
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
        """Whether it is ours; if not, another try is worth it."""
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
                break  # somebody else's, or nobody is left to renew it
            except Exception:  # noqa: BLE001 - whatever a backend raises: the time decides
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
        """The key was made for a caller who has gone, or too late."""
        if not creating.cancelled() and creating.exception() is None:
            self._giving_back = creating.get_loop().create_task(
                self._remove_quietly(creating.result())
            )

    async def _remove_quietly(self, revision: int) -> None:
        with suppress(Error):  # it expires anyway
            await self._remove(revision, None)

    async def _remove(self, revision: int, timeout: Timeout | None) -> None:
        with suppress(WrongLastSequence):
            # The marker goes too: who waits has seen it by then.
            await self._bucket.purge(self._key, last=revision, ttl=self._ttl, timeout=timeout)

    async def _wait_for_release(self) -> None:
        """Wait until the key is deleted; an expiry without a marker is noticed by time."""
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
    """Elects one leader among the candidates. Made by ``KeyValue.elect``.

    ``async with`` waits until this candidate leads and resigns in the end.
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
            raise ValueError("a candidate needs a name that the others can tell")
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
        """Whether this candidate leads, as far as can be known."""
        return self._lock.is_held

    @property
    def token(self) -> int:
        """The fencing token of the current leadership; InvalidState when it does not lead."""
        return self._lock.token

    async def leader(self, *, timeout: Timeout | None = None) -> str | None:
        """The candidate that leads now; None when nobody does."""
        try:
            entry = await self._bucket.get(self._key, timeout=timeout)
        except KeyNotFound:
            return None
        return entry.value.decode("utf-8", "replace")

    async def campaign(self, *, timeout: Timeout | None = None) -> int:
        """Wait until this candidate leads; returns the fencing token.

        Raises RequestTimeout after ``timeout`` seconds (None: waits as long as it takes).
        """
        return await self._lock.acquire(timeout=timeout)

    async def resign(self, *, timeout: Timeout | None = None) -> None:
        """Let others lead."""
        await self._lock.release(timeout=timeout)

    async def wait_deposed(self, *, timeout: Timeout | None = None) -> bool:
        """Wait until the leadership is lost; False when ``timeout`` seconds passed without."""
        return await self._lock.wait_lost(timeout=timeout)

    async def observe(self) -> AsyncGenerator[str | None, None]:
        """Yield the leader now and whenever it changes; None while there is none."""
        known: str | None = None
        leader: str | None = None
        told = False
        feed = await self._watches.entries((self._key,))
        try:
            while True:
                chunk = await feed.next_within(self._ttl if known is not None else None)
                if chunk is None:
                    # Not renewed: it may have expired, which nothing but a limit marker tells.
                    leader = None if await is_gone(self._bucket, self._key) else known
                    chunk = [None]
                elif not chunk:
                    return
                for entry in chunk:
                    if entry is not None:
                        leader = entry.value.decode("utf-8", "replace") if entry.is_put else None
                    if not told or leader != known:
                        told, known = True, leader
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
    """Whether a key has no value any more; what cannot be known is not gone."""
    try:
        await bucket.get(key)
    except KeyNotFound:
        return True
    except Error:
        return False
    return False
