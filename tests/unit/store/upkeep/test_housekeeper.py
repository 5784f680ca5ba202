"""Tasks in the background: done once, reported once, and stopped at any point."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

from jetspark.store.committer import Housekeeper

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


class Task:
    """So many steps; may wait for a gate, or raise in the last one."""

    def __init__(self, steps: int, gate: threading.Event | None = None, error: str = "") -> None:
        self.left = steps
        self.gate = gate
        self.error = error
        self.pause = 0
        self.begun = threading.Event()

    def step(self) -> bool:
        self.begun.set()
        if self.gate is not None:
            self.gate.wait(10)
        self.left -= 1
        if self.left == 0 and self.error:
            raise OSError(self.error)
        return self.left == 0

    def pause_ns(self) -> int:
        return self.pause


class SlowTask(Task):
    """A minute between two steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.pause = 60 * 10**9


class Loop:
    """Where hand_back leads: runs what it was given when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.came = threading.Condition()

    def hand_back(self, call: Callable[[], None]) -> None:
        with self.came:
            self.calls.append(call)
            self.came.notify_all()

    def run(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.calls) >= count, 10)
            calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_a_task_is_done_to_its_end_and_reported_once() -> None:
    loop = Loop()
    ended: list[bool] = []
    keeper = Housekeeper(loop.hand_back)
    task = Task(5)
    keeper.start(task, ended.append)
    keeper.start(Task(1), ended.append)
    loop.run(2)
    keeper.close()

    assert task.left == 0
    assert ended == [False, False]


def test_a_task_that_must_go_slowly_lets_others_pass() -> None:
    """Compaction is limited in bytes per second; nothing waits for it."""
    loop = Loop()
    ended: list[str] = []
    keeper = Housekeeper(loop.hand_back, lambda: 0)
    slow = SlowTask(5)
    keeper.start(slow, lambda _failed: ended.append("slow"))
    assert slow.begun.wait(10)
    keeper.start(Task(1), lambda _failed: ended.append("quick"))
    loop.run(1)

    assert (ended, slow.left) == (["quick"], 4)

    keeper.close()

    assert ended == ["quick", "slow"]


def test_tasks_of_one_kind_share_one_pace() -> None:
    """A thousand streams are not read a thousand times as fast."""
    loop = Loop()
    keeper = Housekeeper(loop.hand_back, lambda: 0)
    tasks = [SlowTask(5) for _ in range(3)]
    for task in tasks:
        keeper.start(task, lambda _failed: None)
    assert tasks[0].begun.wait(10)
    keeper.start(Task(1), lambda _failed: None)
    loop.run(1)
    keeper.close()

    assert [task.left for task in tasks] == [4, 5, 5]


def test_a_task_that_waited_continues() -> None:
    loop = Loop()
    ended: list[bool] = []
    keeper = Housekeeper(loop.hand_back, time.monotonic_ns)
    slow = Task(4)
    slow.pause = 1000
    keeper.start(slow, ended.append)
    loop.run(1)
    keeper.close()

    assert (ended, slow.left) == ([False], 0)


def test_an_error_ends_the_task_and_not_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    ended: list[bool] = []
    keeper = Housekeeper(loop.hand_back)
    keeper.start(Task(2, error="no disk"), ended.append, what="Upkeep of stream 'S'")
    keeper.start(Task(1), ended.append)
    loop.run(2)
    keeper.close()

    assert ended == [True, False]
    assert "Upkeep of stream 'S' failed: no disk; will be retried" in caplog.text
    assert "Traceback" not in caplog.text


def test_closing_stops_after_the_step_in_progress() -> None:
    loop, gate = Loop(), threading.Event()
    ended: list[bool] = []
    keeper = Housekeeper(loop.hand_back)
    task = Task(1_000_000, gate)
    keeper.start(task, ended.append)
    keeper.start(Task(1), ended.append)
    assert task.begun.wait(10)
    threading.Timer(0, gate.set).start()
    keeper.close()
    keeper.close()

    assert task.left > 0
    assert ended == [True, True]
    # What was handed back before comes too late.
    for call in loop.calls:
        call()
    assert ended == [True, True]
    keeper.start(Task(1), ended.append)
    assert ended == [True, True, True]


def test_a_closed_housekeeper_that_had_nothing_to_do_has_no_thread() -> None:
    before = threading.active_count()
    Housekeeper(Loop().hand_back).close()

    assert threading.active_count() == before


def test_a_log_closes_when_its_task_comes_back(bench: "Bench") -> None:
    """A file that a task reads must not be someone else's meanwhile."""
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    task = bench.log.take_task()
    assert task is not None
    assert bench.log.take_task() is None
    assert not bench.log.maintain()
    task.step()
    task.step()
    bench.log.close()
    bench.store.close()
    assert bench.disk.open_handles > 0
    while not task.step():
        pass
    bench.log.end_task(failed=False)

    assert bench.disk.open_handles == 0


@pytest.mark.parametrize("failed", [False, True])
def test_a_removal_comes_back_too(bench: "Bench", failed: bool) -> None:
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    bench.log.staged.purge(30, b"", 0)
    bench.write()
    bench.log.commit()
    task = bench.log.take_task()
    assert task is not None
    bench.log.close()
    bench.store.close()
    if not failed:
        task.step()
    bench.log.end_task(failed=failed)

    assert bench.disk.open_handles == 0
    bench.reopen(bench.disk)
    assert list(messages(bench.log)) == [30]


def test_tasks_are_done_while_the_log_is_written(bench: "Bench") -> None:
    """The steps run in a thread, the log continues, and a start finds everything."""
    loop = Loop()
    keeper = Housekeeper(loop.hand_back)
    ended = 0

    def done(failed: bool) -> None:
        nonlocal ended
        ended += not failed
        bench.log.end_task(failed)

    bench.limit(20, 0, 0)
    waiting = 0
    for _ in range(100):
        bench.publish(b"x" * 1_000)
        task = bench.log.take_task()
        if task is not None:
            keeper.start(task, done)
            waiting += 1
            loop.run(1)
    keeper.close()
    before = messages(bench.log)
    bench.reopen()

    assert ended == waiting > 10
    assert messages(bench.log) == before
    assert len(bench.segments()) < 6
