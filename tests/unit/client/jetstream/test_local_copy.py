"""The copy in memory of replicas, fed by hand."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.virtual_loop import run_virtually

from jetspark import Timeout
from jetspark.client.jetstream import local_copy
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.jetstream.local_copy import ENTRY_COST, LocalCopy
from jetspark.errors import BufferFull, ConnectionClosed, RequestTimeout, StreamNotFound

SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND


class Feed:
    """A watch whose entries the test hands over."""

    def __init__(self) -> None:
        self.initial_done = True
        self.stopped = False
        self._chunks: asyncio.Queue[list[Stored] | Exception] = asyncio.Queue()

    async def start(self, *, timeout: Timeout | None = None) -> None:
        del timeout

    async def next_chunk(self, count: int) -> list[Stored]:
        del count
        chunk = await self._chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    async def stop(self) -> None:
        self.stopped = True
        self._chunks.put_nowait([])

    async def give(self, *chunk: Stored) -> None:
        self._chunks.put_nowait(list(chunk))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def fail(self, error: Exception) -> None:
        self._chunks.put_nowait(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.wall_lead_ns = 0

    def wall_ns(self) -> int:
        return self.now_ns()

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


async def copied(**changes: Any) -> tuple[LocalCopy, Feed, Hands]:
    feed, clock = Feed(), Hands()
    given: dict[str, Any] = {"filters": (">",), "max_bytes": 100_000, "ttl_ns": 0, "clock": clock}
    copy = LocalCopy(feed, "bucket 'b'", **(given | changes))
    await copy.start(1)
    return copy, feed, clock


def entry(key: str, revision: int, size: int = 1, block: bytes = b"") -> Stored:
    return Stored(key, bytes(size), revision, NOW, block=block)


async def test_what_has_expired_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may say nothing of it: without limit markers keys just vanish."""
    monkeypatch.setattr(local_copy, "EXPIRY_PAUSE", 0.0)
    copy, feed, clock = await copied(ttl_ns=10 * SECOND)
    await feed.give(*(entry(f"k{n}", n + 1) for n in range(100)))
    held = copy.memory
    clock.now += 11 * SECOND
    seen = len(copy)
    for _ in range(3):
        await asyncio.sleep(0)

    assert held > 100 * ENTRY_COST
    assert (seen, copy.memory, copy.find("k1"), copy.all()) == (0, 0, None, [])
    await copy.close()


async def test_what_has_expired_makes_room_for_more() -> None:
    copy, feed, clock = await copied(ttl_ns=10 * SECOND, max_bytes=20 * (ENTRY_COST + 100))
    for n in range(10):
        await feed.give(*(Stored(f"k{n}.{m}", b"1", 10 * n + m + 1, clock.now) for m in range(10)))
        clock.now += 11 * SECOND

    assert copy.revision == 100
    assert copy.memory <= 20 * (ENTRY_COST + 100)
    await copy.close()


async def test_deadlines_of_replaced_entries_are_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_copy, "STALE_MAX", 10)
    copy, feed, clock = await copied(ttl_ns=1000 * SECOND)
    for n in range(50):
        await feed.give(entry("hot", 2 * n + 1), entry("other", 2 * n + 2))
    copy._sweep()
    few = len(copy._deadlines)
    clock.now += 1001 * SECOND
    copy._sweep()

    assert few == 2
    assert (copy.memory, len(copy)) == (0, 0)
    await copy.close()


async def test_entries_expire_by_the_clock_of_the_server() -> None:
    copy, feed, clock = await copied(ttl_ns=10 * SECOND, server_time_ns=NOW - 3600 * SECOND)
    await feed.give(Stored("k", b"1", 1, NOW - 3600 * SECOND))
    early = copy.find("k")
    clock.now += 11 * SECOND

    assert early is not None
    assert copy.find("k") is None
    await copy.close()


@pytest.mark.parametrize(
    ("ttl", "left"), [(b"5", False), (b"5s", False), (b"never", True), (b"nonsense", True)]
)
async def test_an_entry_may_have_its_own_time(ttl: bytes, left: bool) -> None:
    copy, feed, clock = await copied()
    await feed.give(entry("k", 1, block=b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl))
    clock.now += 6 * SECOND

    assert (copy.find("k") is not None) == left
    assert len(copy) == int(left)
    await copy.close()


async def test_a_wait_that_ends_early_leaves_nothing() -> None:
    copy, feed, _ = await copied()
    for _ in range(3):
        assert not await copy.wait_for(5, 0.001)
    waiting = asyncio.create_task(copy.wait_for(5, 10))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    left = len(copy._waiters)
    last = asyncio.create_task(copy.wait_for(1, 10))
    await asyncio.sleep(0)
    await feed.give(entry("k", 1))

    assert left == 0
    assert await last
    await copy.close()


def test_filling_may_take_long_as_long_as_something_comes() -> None:
    async def main() -> None:
        feed, clock = Feed(), Hands()
        feed.initial_done = False
        copy = LocalCopy(feed, "b", filters=(">",), max_bytes=9000, ttl_ns=0, clock=clock)
        starting = asyncio.create_task(copy.start(0.3))
        for n in range(1, 5):
            await asyncio.sleep(0.2)
            await feed.give(entry(f"k{n}", n))
        filling = not starting.done()
        expected = r"nothing arrived within 0.3 s \(4 entries so far\)"
        with pytest.raises(RequestTimeout, match=expected):
            await starting

        assert filling
        assert feed.stopped

    run_virtually(main())


async def test_too_much_ends_it_and_frees_the_memory() -> None:
    copy, feed, _ = await copied(max_bytes=2000)
    waiting = asyncio.create_task(copy.wait_for(9, 10))
    await feed.give(entry("a", 1), entry("b", 2, 3000))

    with pytest.raises(BufferFull, match="max_bytes=2000"):
        copy.find("a")
    with pytest.raises(BufferFull):
        await waiting
    assert copy.memory == 0
    assert feed.stopped
    with pytest.raises(ValueError, match="max_bytes=0"):
        await copied(max_bytes=0)


async def test_what_ends_the_watch_is_what_reads_raise() -> None:
    copy, feed, _ = await copied()
    await feed.give(entry("a", 1))
    await feed.fail(StreamNotFound(404, 10059, "gone"))
    with pytest.raises(StreamNotFound, match="gone"):
        copy.find("a")
    await copy.close()
    with pytest.raises(StreamNotFound):
        copy.all()
    other, _, _ = await copied()
    await other.close()

    with pytest.raises(ConnectionClosed, match="is closed"):
        other.find("a")


async def test_other_threads_never_miss_a_key_that_is_being_replaced() -> None:
    """``jetspark.sync`` reads replicas from any thread."""
    copy, feed, _ = await copied(ttl_ns=1000 * SECOND)
    await feed.give(entry("k", 1), entry("gone", 2))
    missed: list[object] = []
    ended = threading.Event()

    def read(look: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                if not look():
                    missed.append("nothing")
        except RuntimeError as error:
            missed.append(error)

    threads = [
        threading.Thread(target=read, args=(look,))
        for look in (lambda: copy.find("k"), lambda: len(copy.all()))
    ]
    kinds = [Operation.PUT, Operation.DEL]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for n in range(300):
            await feed.give(
                *(entry("k", 1000 * n + m) for m in range(100)),
                Stored(f"x{n % 7}", b"", 1000 * n + 999, NOW, kinds[n % 5 > 2]),
            )
    finally:
        sys.setswitchinterval(pause)
        ended.set()
        for thread in threads:
            thread.join()

    assert missed == []
    await copy.close()
