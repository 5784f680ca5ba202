"""The loop stays awake briefly when someone waits for each answer (hot-path.md, Disk)."""

from collections import deque
from collections.abc import Callable

from jetspark.server.net.busy_poll import CREDIT_MAX, POLL_NS, PROBE_EVERY, BusyPoll


class Loop:
    """A loop whose turns are counted, with a clock that one turn moves by a microsecond."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.turns = 0
        self.ready: deque[Callable[[], None]] = deque()
        self.busy_poll = BusyPoll(self.ready.append, lambda: self.now_ns)

    def turn(self) -> None:
        """Run what was ready when the turn began."""
        self.turns += 1
        self.now_ns += 1000
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def sleep(self) -> int:
        """Turn until there is nothing to do; how often that was."""
        before = self.turns
        while self.ready:
            self.turn()
        return self.turns - before


def distrusting() -> Loop:
    """A loop that has learnt that no one sends again in time."""
    loop = Loop()
    for _ in range(CREDIT_MAX):
        loop.busy_poll.on_chunk()
        loop.sleep()
    return loop


def test_it_looks_out_for_a_while_and_sleeps_then() -> None:
    loop = Loop()

    loop.busy_poll.on_chunk()

    assert POLL_NS // 1000 <= loop.sleep() <= POLL_NS // 1000 + 2


def test_it_continues_as_long_as_a_sender_sends_in_time() -> None:
    loop = Loop()
    loop.busy_poll.on_chunk()

    for _ in range(100):
        for _ in range(5):
            loop.turn()
        assert loop.ready
        loop.busy_poll.on_chunk()

    assert loop.sleep() >= POLL_NS // 1000


def test_the_time_counts_from_the_answer_on() -> None:
    loop = Loop()
    loop.busy_poll.on_chunk()

    loop.now_ns += 50 * POLL_NS  # a group was written before ``_begin``

    assert loop.sleep() >= POLL_NS // 1000


def test_without_another_message_it_sleeps_at_once() -> None:
    loop = distrusting()

    slept = []
    for _ in range(PROBE_EVERY // 2):
        loop.busy_poll.on_chunk()
        slept.append(loop.sleep())

    assert sum(turns == 0 for turns in slept) >= PROBE_EVERY // 2 - 1


def test_now_and_then_it_looks_out_again_and_learns() -> None:
    loop = distrusting()

    for _ in range(PROBE_EVERY):
        loop.busy_poll.on_chunk()
    for _ in range(CREDIT_MAX):
        assert loop.ready
        for _ in range(3):
            loop.turn()
        loop.busy_poll.on_chunk()
    loop.sleep()
    loop.busy_poll.on_chunk()

    assert loop.sleep() >= POLL_NS // 1000


def test_chunks_that_come_while_it_looks_out_start_nothing_more() -> None:
    loop = Loop()

    for _ in range(10):
        loop.busy_poll.on_chunk()

    assert len(loop.ready) == 1
