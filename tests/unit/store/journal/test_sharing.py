"""Groups of several streams that share a write: what the committer does with a turn."""

import errno
import queue
import threading
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.support.disk.simulated import Operation
from tests.support.store.turns import Streams

from jetspark.store.committer import ThreadCommitter, Turn
from jetspark.store.log.stream_log import Group, StreamLog

WAIT = 20
NAMES = ("A", "B", "C")


class Turns:
    """A committer with a journal, and a thread that stands for the event loop."""

    def __init__(self) -> None:
        self.streams = Streams()
        self.streams.create(*NAMES)
        self.calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self.reports: list[list[tuple[str, bool]]] = []
        self.committer = ThreadCommitter(
            self.streams.disk,
            lambda owner, error: self._reported([(owner, error)]),
            self.calls.put,
            lambda: 0,
            inline_bytes_max=-1,
            journal=self.streams.store.journal,
            report_turn=self._reported,
        )

    def _reported(self, reports: list[tuple[object, OSError | None]]) -> None:
        for owner, error in reports:
            log = self.streams.logs[str(owner)]
            if error is None:
                log.commit()
            else:
                log.fail(error.errno == errno.ENOSPC)
        self.reports.append([(str(owner), error is None) for owner, error in reports])

    def taken(self, body: bytes, *names: str) -> Turn:
        """Stage a message in each stream and take the groups."""
        return [(name, self._group(self.streams.logs[name], body)) for name in names]

    def _group(self, log: StreamLog, body: bytes) -> Group:
        log.staged.add_message(b"a.b", 0, body + b"\r\n", 1)
        group = log.take_work()
        assert group is not None
        return group

    def run(self) -> None:
        """Run the next call that a thread handed back."""
        self.calls.get(timeout=WAIT)()


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    made.committer.close()


def test_the_groups_of_a_turn_are_reported_together(turns: Turns) -> None:
    assert turns.committer.share(turns.taken(b"one", *NAMES)) == []
    turns.run()

    assert turns.reports == [[(name, True) for name in NAMES]]
    assert turns.streams.store.journal.frames == 1
    assert turns.committer.counts.shared == turns.committer.counts.groups == 3
    after = turns.streams.started(turns.streams.disk.image(Random(1)))
    assert after.bodies() == {name: [b"one"] for name in NAMES}


def test_a_single_group_is_not_shared(turns: Turns) -> None:
    turn = turns.taken(b"one", "A")

    assert turns.committer.share(turn) == turn
    assert turns.streams.store.journal.frames == 0


def test_large_groups_and_new_segments_are_not_shared(turns: Turns) -> None:
    large = turns.taken(b"x" * 70_000, "A")
    turns.streams.logs["B"].segments.want_roll()
    rolls = turns.taken(b"one", "B")

    assert turns.committer.share(large + rolls) == large + rolls


def test_groups_that_arrive_during_a_write_share_the_next_one(turns: Turns) -> None:
    gate = threading.Event()

    def hold(operation: Operation) -> None:
        if operation.kind == "write" and "journal" in operation.path:
            assert gate.wait(WAIT)

    turns.streams.disk.before_step = hold
    assert turns.committer.share(turns.taken(b"one", "A", "B")) == []
    # Alone, but it need not wait for a sync of its own.
    assert turns.committer.share(turns.taken(b"one", "C")) == []
    assert turns.reports == []
    gate.set()
    turns.run()
    turns.run()

    assert turns.reports == [[("A", True), ("B", True)], [("C", True)]]
    assert turns.streams.store.journal.frames == 2


def test_a_segment_that_cannot_be_written_fails_alone(turns: Turns) -> None:
    folder = f"{turns.streams.logs['B'].identity.stream_id:016x}"
    broken: list[Operation] = []

    def refuse(operation: Operation) -> None:
        if operation.kind == "write" and folder in operation.path:
            broken.append(operation)
            raise OSError(errno.EIO, "broken")

    turns.streams.disk.before_step = refuse
    assert turns.committer.share(turns.taken(b"one", *NAMES)) == []
    turns.run()
    turns.run()

    assert sorted(turns.reports) == [[("A", True), ("C", True)], [("B", False)]]
    # Without a sync for the journal, and then with one of its own.
    assert len(broken) == 2


def test_without_a_file_each_group_is_submitted(turns: Turns) -> None:
    turns.streams.store.journal.shrink()
    turn = turns.taken(b"one", *NAMES)

    assert turns.committer.share(turn) == turn


def test_what_waits_is_written_when_the_committer_is_closed(turns: Turns) -> None:
    gate = threading.Event()

    def hold(operation: Operation) -> None:
        if operation.kind == "write" and "journal" in operation.path:
            assert gate.wait(WAIT)

    turns.streams.disk.before_step = hold
    turns.committer.share(turns.taken(b"one", "A", "B"))
    turns.committer.share(turns.taken(b"one", "C"))
    gate.set()
    turns.committer.close()
    turns.run()

    assert sorted(turns.reports) == [[("A", True), ("B", True)], [("C", True)]]
