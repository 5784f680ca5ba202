"""Locks, elections and presence in virtual time: what the holder believes, and what is stored.

ADR-8 2.0. The backend stores at once or late, answers at once or late, and forgets keys when their
time to live is over, without a marker, as a server does.
"""

import asyncio
import random
from contextlib import suppress

import msgspec
import pytest
from tests.support.virtual_loop import run_virtually
from tests.unit.client.jetstream.kv.memory_backend import MemoryBackend

from jetspark import BucketStatus, KeyValue, Operation, Stored, Timeout
from jetspark.client.jetstream.kv.backend import SecondsToLive
from jetspark.errors import (
    BucketNotFound,
    ConnectionClosed,
    InvalidState,
    NoResponders,
    RequestTimeout,
)
from jetspark.units import seconds

TTL = 5.0


class ExpiringBackend(MemoryBackend):
    """Keys end with their time to live. ``delays`` are seconds before and after a write."""

    def __init__(self) -> None:
        super().__init__()
        self.delays = (0.0, 0.0)
        self.away: list[Exception] = []
        self.gone = False
        self.ttl = 0
        self._ends: dict[int, float] = {}

    async def put(
        self,
        key: str,
        data: bytes,
        operation: Operation,
        expected: int | None,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> int:
        if self.away:
            raise self.away.pop()
        before, behind = self.delays
        try:
            async with asyncio.timeout(self.seconds(timeout)):
                # What was sent is stored, whether or not someone still waits for the answer.
                storing = asyncio.ensure_future(
                    self._store(before, key, data, operation, expected, ttl)
                )
                revision = await asyncio.shield(storing)
                await asyncio.sleep(behind)
        except TimeoutError:
            storing.add_done_callback(lambda done: done.exception())
            raise RequestTimeout("no answer") from None
        return revision

    async def get(
        self, key: str, *, revision: int, min_last_revision: int, timeout: Timeout | None
    ) -> Stored | None:
        self.expire()
        return await super().get(
            key, revision=revision, min_last_revision=min_last_revision, timeout=timeout
        )

    async def status(self, *, timeout: Timeout | None) -> BucketStatus:
        if self.gone:
            raise BucketNotFound(self.bucket)
        status = await super().status(timeout=timeout)
        config = status.config.replace(ttl=self.ttl / 1e9)
        return msgspec.structs.replace(status, config=config)

    def owner(self, key: str) -> bytes | None:
        """Whose key it is now."""
        self.expire()
        last = next((each for each in reversed(self.entries) if each.key == key), None)
        return last.data if last is not None and last.operation is Operation.PUT else None

    def expire(self) -> None:
        """Forget what is over."""
        now = asyncio.get_running_loop().time()
        self.entries = [
            msgspec.structs.replace(each, key="")
            if self._ends.get(each.revision, now + 1) <= now
            else each
            for each in self.entries
        ]

    async def _store(
        self,
        wait: float,
        key: str,
        data: bytes,
        operation: Operation,
        expected: int | None,
        ttl: SecondsToLive,
    ) -> int:
        await asyncio.sleep(wait)
        self.expire()
        revision = await super().put(key, data, operation, expected, ttl, None)
        if isinstance(ttl, int | float):
            lives = min(ttl, self.ttl / 1e9 or ttl)
            self._ends[revision] = asyncio.get_running_loop().time() + lives
        # One value per key.
        self.entries = [
            msgspec.structs.replace(each, key="")
            if each.key == key and each.revision < revision
            else each
            for each in self.entries
        ]
        return revision


def test_a_holder_counts_from_before_it_asked() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        backend.delays = (0.0, 3.0)
        lock = KeyValue(backend).lock("l", owner="me", ttl=TTL)
        await lock.acquire()
        backend.delays = (0.0, 100.0)
        while lock.is_held:
            assert backend.owner("l") == b"me"
            await asyncio.sleep(0.01)

        assert await lock.wait_lost(timeout=0.01)
        with pytest.raises(InvalidState, match="not held"):
            _ = lock.token

    run_virtually(main())


def test_a_holder_that_cannot_renew_knows_it_before_the_key_ends() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        lock = KeyValue(backend).lock("l", owner="me", ttl=TTL)
        await lock.acquire()
        backend.delays = (100.0, 0.0)
        begun = asyncio.get_running_loop().time()
        await lock.lost.wait()

        assert asyncio.get_running_loop().time() - begun == pytest.approx(TTL, abs=0.01)
        assert not lock.is_held

    run_virtually(main())


def test_values_of_the_bucket_may_end_sooner_than_the_lock() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        backend.ttl = seconds(2)
        lock = KeyValue(backend).lock("l", owner="me", ttl=TTL)
        await lock.acquire()
        await asyncio.sleep(TTL)
        assert backend.owner("l") == b"me"
        backend.delays = (100.0, 0.0)
        while lock.is_held:
            assert backend.owner("l") == b"me"
            await asyncio.sleep(0.01)

    run_virtually(main())


def test_a_holder_that_was_asleep_does_not_believe_in_its_lock() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        lock = KeyValue(backend).lock("l", ttl=TTL)
        await lock.acquire()
        loop = asyncio.get_running_loop()
        loop._clock.now += TTL  # type: ignore[attr-defined]

        assert not lock.is_held

    run_virtually(main())


def test_a_renewal_that_fails_is_tried_again_in_time() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        lock = KeyValue(backend).lock("l", owner="me", ttl=TTL)
        await lock.acquire()
        backend.away = [NoResponders("l"), OSError("of another backend"), RequestTimeout("l")]
        await asyncio.sleep(2 * TTL)

        assert lock.is_held
        assert backend.owner("l") == b"me"
        await lock.release()
        assert backend.owner("l") is None

    run_virtually(main())


def test_release_waits_for_the_renewal_in_progress() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        lock = KeyValue(backend).lock("l", ttl=TTL)
        await lock.acquire()
        backend.delays = (0.0, 1.0)
        await asyncio.sleep(TTL / 3 + 0.5)
        await lock.release()

        assert backend.owner("l") is None
        assert not lock.lost.is_set()

    run_virtually(main())


def test_release_can_be_cancelled() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        lock = KeyValue(backend).lock("l", ttl=TTL)
        await lock.acquire()
        backend.delays = (0.0, 1.0)
        await asyncio.sleep(TTL / 3 + 0.5)
        releasing = asyncio.ensure_future(lock.release())
        await asyncio.sleep(0)
        releasing.cancel()

        with pytest.raises(asyncio.CancelledError):
            await releasing
        assert not lock.is_held
        assert len(asyncio.all_tasks()) <= 2

    run_virtually(main())


@pytest.mark.parametrize("delays", [(1.0, 0.0), (0.0, 1.0)])
def test_a_cancelled_acquire_leaves_no_key(delays: tuple[float, float]) -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        backend.delays = delays
        lock = KeyValue(backend).lock("l", ttl=TTL)
        with pytest.raises(RequestTimeout, match=r"within 0\.5 s"):
            await lock.acquire(timeout=0.5)
        await asyncio.sleep(3)

        assert backend.entries
        assert backend.owner("l") is None
        assert not lock.is_held

    run_virtually(main())


def test_a_lost_lock_is_acquired_again_by_the_same_object() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        bucket = KeyValue(backend)
        election = bucket.elect("l", "me", ttl=TTL)
        first = await election.campaign()
        await bucket.delete("l")
        assert await election.wait_deposed(timeout=TTL)

        assert await election.campaign() > first
        assert election.is_leader
        with pytest.raises(InvalidState, match="already"):
            await election.campaign()
        await election.resign()
        assert await election.leader() is None

    run_virtually(main())


def test_acquire_waits_for_a_server_that_is_away() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        backend.away = [RequestTimeout("no answer"), NoResponders("l")]
        lock = KeyValue(backend).lock("l", ttl=TTL)

        assert await lock.acquire() > 0

    run_virtually(main())


def test_acquire_does_not_wait_for_a_deleted_bucket() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        backend.away = [NoResponders("l")]
        backend.gone = True

        with pytest.raises(BucketNotFound):
            await KeyValue(backend).lock("l", ttl=TTL).acquire()

    run_virtually(main())


@pytest.mark.parametrize("seed", range(10))
def test_there_are_never_two_holders(seed: int) -> None:
    """Slow and lost answers, late writes, pauses: at any time at most one believes in it."""

    async def main() -> None:
        chance = random.Random(seed)
        backends = ExpiringBackend()
        bucket = KeyValue(backends)
        locks = [bucket.lock("l", ttl=1 + chance.random() * 4) for _ in range(3)]
        tokens: list[int] = []

        async def work(index: int) -> None:
            lock = locks[index]
            for _ in range(15):
                tokens.append(await lock.acquire())
                await asyncio.sleep(chance.random() * 6)
                with suppress(RequestTimeout):
                    await lock.release(timeout=1)

        async def in_turn() -> None:
            await asyncio.gather(*map(work, range(3)))

        async def spoil() -> None:
            while True:
                await asyncio.sleep(chance.random())
                assert sum(each.is_held for each in locks) <= 1
                backends.delays = chance.choice([(0.0, 0.0), (0.1, 0.5), (2.0, 0.0), (0.0, 4.0)])

        spoiling = asyncio.ensure_future(spoil())
        working = asyncio.ensure_future(in_turn())
        done, _ = await asyncio.wait([spoiling, working], return_when="FIRST_COMPLETED")
        assert working in done, spoiling.exception()
        await working
        spoiling.cancel()

        assert tokens == sorted(set(tokens))
        assert len(tokens) == 45

    run_virtually(main())


def test_an_expired_leader_is_noticed_without_a_marker() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        bucket = KeyValue(backend)
        leaders: list[str | None] = []

        async def observe() -> None:
            # The observer's own time to live is shorter than the leader's.
            async for leader in bucket.elect("l", "observer", ttl=1).observe():
                leaders[:] = [*leaders, leader]

        observing = asyncio.ensure_future(observe())
        await bucket.put("l", b"one", ttl=TTL)
        await asyncio.sleep(TTL - 1)
        before = list(leaders)
        await asyncio.sleep(3)
        observing.cancel()

        assert before == [None, "one"]
        assert leaders == [None, "one", None]

    run_virtually(main())


def test_a_member_with_a_longer_time_to_live_does_not_flicker() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        bucket = KeyValue(backend)
        changes: list[tuple[str, bool]] = []

        async def watch() -> None:
            async for change in bucket.members("g", ttl=1).watch():
                changes[:] = [*changes, (change.member, change.present)]

        watching = asyncio.ensure_future(watch())
        member = await bucket.members("g", ttl=60).join("a")
        await asyncio.sleep(90)
        before = list(changes)
        assert member._task is not None
        member._task.cancel()
        await asyncio.sleep(90)
        watching.cancel()

        assert before == [("a", True)]
        assert changes == [("a", True), ("a", False)]

    run_virtually(main())


def test_a_member_that_left_leaves_no_marker() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        bucket = KeyValue(backend)
        async with await bucket.members("g", ttl=2).join("a"):
            pass
        await asyncio.sleep(3)
        backend.expire()

        assert not [each for each in backend.entries if each.key]

    run_virtually(main())


def test_leaving_can_be_cancelled() -> None:
    async def main() -> None:
        backend = ExpiringBackend()
        member = await KeyValue(backend).members("g", ttl=2).join("a")
        backend.delays = (1.0, 0.0)
        await asyncio.sleep(1)
        leaving = asyncio.ensure_future(member.close())
        await asyncio.sleep(0)
        leaving.cancel()

        with pytest.raises(asyncio.CancelledError):
            await leaving

    run_virtually(main())


def test_a_member_is_announced_again_whatever_went_wrong_before() -> None:
    async def scenario() -> None:
        backend = ExpiringBackend()
        async with KeyValue(backend).members("g", ttl=TTL).join("m", b"here"):
            backend.away = [OSError("of another backend"), RequestTimeout("no answer")]
            await asyncio.sleep(TTL * 4)
            assert backend.owner("g.m") == b"here"

    run_virtually(scenario())


def test_a_member_of_a_closed_client_leaves_no_task() -> None:
    async def scenario() -> None:
        backend = ExpiringBackend()
        await KeyValue(backend).members("g", ttl=TTL).join("m", b"here")
        backend.away = [ConnectionClosed("the client was closed")]
        await asyncio.sleep(TTL * 2)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtually(scenario())
