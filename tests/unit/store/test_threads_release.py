"""Threads that wait for work keep nothing of what they did before."""

import gc
import threading
import weakref
from collections.abc import Callable

from tests.support.disk.simulated import SimulatedDisk

from jetspark.store.committer import Housekeeper, ThreadCommitter
from jetspark.store.threads import DiskThreads


class Kept:
    """Something large, such as a stream that is removed now."""

    size = 0
    handle = 0
    offset = 0
    blob = b""
    filler = b""
    synced = False
    before = None
    segment = None
    may_share = False
    last_seq = 0

    def assemble(self) -> None: ...

    def prepare(self) -> None: ...

    def share(self, shared: bool) -> None: ...

    def truncate(self, files: object) -> None: ...

    def done(self, error: OSError | None) -> None: ...


def released(ref: "weakref.ref[Kept] | weakref.ref[Failing]") -> bool:
    """Wait until the thread has come back to its queue."""
    for _ in range(1000):
        if ref() is None:
            return True
        threading.Event().wait(0.005)
    return False


def test_a_disk_thread_that_waits_keeps_nothing() -> None:
    finished = threading.Event()

    def hand_back(call: Callable[[], None]) -> None:
        call()
        finished.set()

    threads = DiskThreads(hand_back, count=1)
    kept = Kept()
    ref = weakref.ref(kept)
    threads.run(kept.assemble, kept.done)
    del kept
    assert finished.wait(10)
    assert released(ref)
    threads.close()


def test_a_committer_thread_that_waits_keeps_nothing() -> None:
    calls: list[Callable[[], None]] = []
    written = threading.Event()

    def hand_back(call: Callable[[], None]) -> None:
        calls.append(call)
        written.set()

    committer = ThreadCommitter(
        SimulatedDisk(), lambda _owner, _error: None, hand_back, lambda: 0, workers_max=1
    )
    owner, work = Kept(), Kept()
    refs = [weakref.ref(owner), weakref.ref(work)]
    committer.submit(owner, work)
    del owner, work
    assert written.wait(10)
    calls.pop()()
    assert all(released(ref) for ref in refs)
    committer.close()


class Failing(Kept):
    """A task whose folder was removed meanwhile."""

    def step(self) -> bool:
        raise FileNotFoundError("removed")

    def pause_ns(self) -> int:
        return 0


def test_a_task_that_failed_keeps_nothing() -> None:
    """Not even in a cycle: objects from the start of a server are never collected."""
    calls: list[Callable[[], None]] = []
    ended = threading.Event()

    def hand_back(call: Callable[[], None]) -> None:
        calls.append(call)
        ended.set()

    housekeeper = Housekeeper(hand_back, lambda: 0)
    task = Failing()
    ref = weakref.ref(task)
    gc.disable()
    try:
        housekeeper.start(task, lambda _failed: None, lambda: False, "a task")
        del task
        assert ended.wait(10)
        calls.pop()()
        assert released(ref)
    finally:
        gc.enable()
        housekeeper.close()
