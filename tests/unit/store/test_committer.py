"""The committer: inline while the disk is quick, in the background otherwise (hot-path.md, Disk).

Threads are real here. What they write to is the simulated disk, and time is a number that the
disk moves; nothing sleeps.
"""

import errno
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.disk.simulated import Operation, SimulatedDisk

from jetspark.errors.storage import StoreClosed
from jetspark.store.committer import (
    INLINE_AVERAGE_MAX_NS,
    INLINE_BYTES_MAX,
    InlineCommitter,
    ThreadCommitter,
    write,
)
from jetspark.store.log.stream_log import Group

WAIT = 20  # seconds that a test waits before it says that something hangs


class SlowDisk(SimulatedDisk):
    """A disk on which every sync takes some of a clock that only it moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.sync_ns = 50_000
        self.threads: list[str] = []
        self.before_step = self._pass_time

    def _pass_time(self, operation: Operation) -> None:
        if operation.kind == "sync":
            self.now += self.sync_ns
            self.threads.append(threading.current_thread().name)

    def clock(self) -> int:
        return self.now


class Gate(SimulatedDisk):
    """A disk that lets writes through one by one, when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: queue.Queue[bytes] = queue.Queue()
        self.tickets = threading.Semaphore(0)
        self.written: list[bytes] = []

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Say that a write came, and wait for a ticket."""
        self.arrived.put(bytes(blobs[0][:8]))
        assert self.tickets.acquire(timeout=WAIT)
        super().write_synced(handle, blobs, offset)
        self.written.append(bytes(blobs[0][:8]))


class Loop:
    """Stands for an event loop: collects what threads hand back and runs it on request."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self.reports: list[tuple[object, OSError | None]] = []
        self.home = threading.current_thread()

    def hand_back(self, call: Callable[[], None]) -> None:
        self.calls.put(call)

    def report(self, owner: object, error: OSError | None) -> None:
        assert threading.current_thread() is self.home
        self.reports.append((owner, error))

    def run(self, count: int = 1) -> None:
        """Run so many calls, waiting for them."""
        for _ in range(count):
            self.calls.get(timeout=WAIT)()

    def owners(self) -> list[object]:
        return [owner for owner, _ in self.reports]


def group(handle: int, blob: bytes, offset: int = 0) -> Group:
    return Group(handle, offset, blob, [], 1)


def big(tag: bytes) -> bytes:
    return tag.ljust(8) + bytes(INLINE_BYTES_MAX)


def opened(disk: SimulatedDisk, name: str = "f") -> int:
    return disk.open(Path("/") / name, create=True)


# Inline or next to -------------------------------------------------------------------------------


def test_a_small_group_on_a_quick_disk_is_written_at_once() -> None:
    disk, loop = SlowDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, disk.clock)
    handle = opened(disk)
    # The first one shows what the disk is like.
    committer.submit("S", group(handle, b"first"))
    loop.run()
    committer.submit("S", group(handle, b"small"))

    assert loop.reports == [("S", None)] * 2
    assert disk.read(handle, 0, 10) == b"small"
    assert disk.threads[1:] == [threading.current_thread().name]
    committer.close()


def test_no_group_is_written_inline_to_a_disk_that_is_slow_from_the_beginning() -> None:
    """The loop never waits for one of its syncs."""
    disk, loop = SlowDisk(), Loop()
    disk.sync_ns = 500_000_000
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, disk.clock)
    handle = opened(disk)
    for _ in range(300):
        committer.submit("S", group(handle, b"small"))
        loop.run()
    committer.close()

    assert threading.current_thread().name not in disk.threads


@pytest.mark.parametrize(
    ("size", "inline"), [(INLINE_BYTES_MAX, True), (INLINE_BYTES_MAX + 1, False)]
)
def test_size_decides(size: int, inline: bool) -> None:
    """Inline if the group is under 16 KiB."""
    disk, loop = SlowDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, disk.clock)
    handle = opened(disk)
    committer.submit("S", group(handle, b"first"))
    loop.run()
    committer.submit("S", group(handle, bytes(size)))
    if not inline:
        loop.run()
    committer.close()

    assert loop.reports == [("S", None)] * 2
    assert (disk.threads[1:] == [threading.current_thread().name]) == inline


def test_a_disk_that_slows_down_moves_commits_off_the_loop_and_back() -> None:
    """The moving average decides, and it decays."""
    disk, loop = SlowDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, disk.clock)
    handle = opened(disk)
    home = threading.current_thread().name

    def commit(count: int) -> int:
        """Submit small groups; how many of them were written inline."""
        begun = len(disk.threads)
        for _ in range(count):
            before = len(loop.reports)
            committer.submit("S", group(handle, b"small"))
            if len(loop.reports) == before:
                loop.run()
        return disk.threads[begun:].count(home)

    assert commit(51) == 50

    disk.sync_ns = 5_000_000
    # A few commits show that it is slow; then none is inline while it stays so.
    assert commit(10) <= 2
    assert commit(500) == 0

    disk.sync_ns = 50_000
    commit(200)
    assert commit(100) == 100
    committer.close()


def test_one_slow_commit_does_not_switch_inline_commits_off_for_long() -> None:
    disk, loop = SlowDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, disk.clock)
    handle = opened(disk)
    disk.sync_ns = 100_000_000
    committer.submit("S", group(handle, b"small"))
    loop.run()
    disk.sync_ns = INLINE_AVERAGE_MAX_NS // 10
    beside = 0
    while True:
        before = len(loop.reports)
        committer.submit("S", group(handle, b"small"))
        if len(loop.reports) > before:
            break
        loop.run()
        beside += 1
    committer.close()

    assert 10 < beside < 300


# Threads ----------------------------------------------------------------------------------------


def test_every_group_is_written_once_and_reported_once() -> None:
    disk, loop = SimulatedDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0, inline_bytes_max=-1)
    handles = [opened(disk, f"f{number}") for number in range(9)]
    for turn in range(40):
        for number, handle in enumerate(handles):
            committer.submit(number, group(handle, b"%02d" % turn, turn * 2))
    while len(loop.reports) < 360:
        loop.run()
    committer.close()

    assert loop.calls.empty()
    assert all(error is None for _, error in loop.reports)
    assert sorted(loop.owners()) == sorted(list(range(9)) * 40)  # type: ignore[type-var]
    expected = b"".join(b"%02d" % turn for turn in range(40))
    assert all(disk.read(handle, 0, 1000) == expected for handle in handles)
    written = [operation for operation in disk.operations if operation.kind == "write"]
    assert len(written) == 360


def test_groups_of_different_owners_are_written_side_by_side() -> None:
    disk, loop = Gate(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0, workers_max=3)
    for number in range(5):
        committer.submit(number, group(opened(disk, f"f{number}"), big(b"%d" % number)))
    begun = {disk.arrived.get(timeout=WAIT) for _ in range(3)}

    assert begun == {b"0       ", b"1       ", b"2       "}
    assert disk.arrived.empty(), "there are three threads and no more"

    disk.tickets.release(5)
    loop.run(5)
    committer.close()

    assert sorted(disk.written) == [b"%d       " % number for number in range(5)]
    assert sorted(loop.owners()) == [0, 1, 2, 3, 4]  # type: ignore[type-var]


def test_groups_of_one_owner_keep_their_order() -> None:
    """Also when a small one, which could go inline, comes after a large one."""
    disk, loop = Gate(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0)
    handle = opened(disk)
    disk.tickets.release(4)
    for number, blob in enumerate((big(b"0"), b"1".ljust(8), big(b"2"), b"3".ljust(8))):
        committer.submit("S", group(handle, blob, number * 100_000))
    loop.run(4)
    committer.close()

    assert disk.written == [b"%d       " % number for number in range(4)]
    assert loop.reports == [("S", None)] * 4


def test_the_next_group_starts_before_the_last_one_is_reported() -> None:
    """Submit the next group before applying the last one."""
    disk, loop = Gate(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0, workers_max=1)
    committer.submit("A", group(opened(disk, "a"), big(b"A")))
    committer.submit("B", group(opened(disk, "b"), big(b"B")))
    assert disk.arrived.get(timeout=WAIT).strip() == b"A"
    disk.tickets.release()
    call = loop.calls.get(timeout=WAIT)

    assert disk.arrived.empty()

    call()

    assert disk.arrived.get(timeout=WAIT).strip() == b"B"
    assert loop.owners() == ["A"]
    disk.tickets.release()
    loop.run()
    committer.close()
    assert loop.owners() == ["A", "B"]


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("blob", [b"small", big(b"large")], ids=["inline", "beside"])
def test_an_error_is_reported_and_not_raised(blob: bytes) -> None:
    disk, loop = SimulatedDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0)
    handle = opened(disk)
    committer.submit("S", group(handle, b"first"))
    loop.run()
    disk.fail(1, errno.ENOSPC)
    committer.submit("S", group(handle, blob))
    if len(blob) > INLINE_BYTES_MAX:
        loop.run()
    committer.submit("S", group(handle, b"next"))
    committer.close()

    _, (_, error), (_, none) = loop.reports
    assert error is not None
    assert error.errno == errno.ENOSPC
    assert none is None


class Broken(SimulatedDisk):
    """A file layer with a mistake in it."""

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Fail as no disk does."""
        raise ValueError(f"cannot write {len(blobs)} blobs at {offset} of {handle}")


def test_a_mistake_in_a_write_is_reported_like_a_failed_one() -> None:
    """It must not end the thread, or its owner would wait for ever."""
    disk, loop = Broken(), Loop()
    committer = ThreadCommitter(
        disk, loop.report, loop.hand_back, lambda: 0, inline_bytes_max=-1, workers_max=1
    )
    for _ in range(3):
        committer.submit("S", group(3, b"blob", 7))
        loop.run()
    committer.close()

    for _, error in loop.reports:
        assert error is not None
        assert error.errno == errno.EIO
        assert "ValueError: cannot write 1 blobs at 7 of 3" in str(error)
        assert isinstance(error.__cause__, ValueError)
    assert len(loop.reports) == 3


def test_a_write_to_a_closed_handle_is_an_error_like_any_other() -> None:
    error = write(SimulatedDisk(), group(99, b"x"))

    assert error is not None
    assert error.errno == errno.EBADF


# The end ----------------------------------------------------------------------------------------


def committer_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "jetspark-committer" and t.is_alive()]


def test_close_joins_the_threads() -> None:
    before = len(committer_threads())
    disk, loop = SimulatedDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0)
    for number in range(4):
        committer.submit(number, group(opened(disk, f"f{number}"), big(b"x")))
    assert len(committer_threads()) > before
    committer.close()
    committer.close()

    assert len(committer_threads()) == before


def test_close_finishes_what_was_submitted() -> None:
    """Written is everything; reported is what no thread had started, the rest through the loop."""
    disk, loop = Gate(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0, workers_max=1)
    handle = opened(disk, "a")
    committer.submit("A", group(handle, big(b"A1")))
    committer.submit("A", group(handle, big(b"A2"), 50_000))
    committer.submit("B", group(opened(disk, "b"), big(b"B1")))
    disk.tickets.release(3)
    committer.close()

    assert [blob.strip() for blob in disk.written] == [b"A1", b"B1"]
    assert loop.reports == [("B", None)]

    loop.run()

    assert [blob.strip() for blob in disk.written] == [b"A1", b"B1", b"A2"]
    assert loop.reports == [("B", None), ("A", None), ("A", None)]
    assert loop.calls.empty()


def test_a_closed_committer_takes_nothing() -> None:
    disk, loop = SimulatedDisk(), Loop()
    committer = ThreadCommitter(disk, loop.report, loop.hand_back, lambda: 0)
    committer.close()

    with pytest.raises(StoreClosed, match="the committer is closed"):
        committer.submit("S", group(opened(disk), b"x"))


def test_the_inline_committer_reports_before_it_returns() -> None:
    disk, loop = SimulatedDisk(), Loop()
    committer = InlineCommitter(disk, loop.report)
    handle = opened(disk)
    committer.submit("S", group(handle, b"abc"))
    disk.fail(1, errno.EIO)
    committer.submit("T", group(handle, b"abc"))
    committer.close()

    assert loop.owners() == ["S", "T"]
    assert loop.reports[0][1] is None
    assert loop.reports[1][1] is not None
