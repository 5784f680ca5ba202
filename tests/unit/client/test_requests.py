import asyncio
from collections.abc import Callable
from typing import Any, cast

from jetspark.client.inbox import Mux, ReplySink
from jetspark.client.requests import Deadlines


class Timer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class ManualLoop:
    """The part of a loop that deadlines use, with a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    @property
    def armed(self) -> list[float]:
        return [timer.when for timer in self.timers if not timer.is_over]

    def advance(self, to: float) -> None:
        self.now = to
        for timer in list(self.timers):
            if timer.when <= to and not timer.is_over:
                timer.is_over = True
                timer.callback()


class Waiting(ReplySink):
    def __init__(self, deadline: float, *, renewals: int = 0) -> None:
        super().__init__()
        self.deadline = deadline
        self.failures: list[Exception] = []
        self._renewals = renewals

    def renew(self, now: float) -> bool:
        if not self._renewals:
            return False
        self._renewals -= 1
        self.deadline = now + 5
        return True

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


def make() -> tuple[ManualLoop, Mux, Deadlines]:
    loop, mux = ManualLoop(), Mux(b"_INBOX.x.")
    return loop, mux, Deadlines(cast("asyncio.AbstractEventLoop", cast("Any", loop)), mux)


def add(mux: Mux, deadlines: Deadlines, sink: Waiting) -> Waiting:
    mux.add(sink)
    deadlines.watch(sink.deadline)
    return sink


def test_one_timer_serves_all_requests() -> None:
    loop, mux, deadlines = make()
    for deadline in (5.0, 6.0, 7.0):
        add(mux, deadlines, Waiting(deadline))

    assert loop.armed == [5.0]


def test_an_earlier_deadline_moves_the_timer() -> None:
    loop, mux, deadlines = make()
    for deadline in (5.0, 2.0):
        add(mux, deadlines, Waiting(deadline))

    assert loop.armed == [2.0]


def test_only_expired_requests_fail_and_the_timer_continues_to_the_next() -> None:
    loop, mux, deadlines = make()
    sinks = [add(mux, deadlines, Waiting(deadline)) for deadline in (5.0, 6.0, 9.0)]
    loop.advance(6.0)

    assert [len(sink.failures) for sink in sinks] == [1, 1, 0]
    assert all(isinstance(sink.failures[0], TimeoutError) for sink in sinks[:2])
    assert loop.armed == [9.0]
    assert list(mux.pending.values()) == [sinks[2]]


def test_a_request_whose_replies_keep_coming_gets_more_time() -> None:
    loop, mux, deadlines = make()
    sink = add(mux, deadlines, Waiting(5.0, renewals=1))
    loop.advance(5.0)
    assert (sink.failures, loop.armed) == ([], [10.0])

    loop.advance(10.0)
    assert len(sink.failures) == 1


def test_no_timer_is_armed_without_a_waiter() -> None:
    loop, mux, deadlines = make()
    sink = add(mux, deadlines, Waiting(5.0))
    mux.discard(sink)
    loop.advance(5.0)

    assert (sink.failures, loop.armed) == ([], [])


def test_a_closed_client_has_no_timer() -> None:
    loop, mux, deadlines = make()
    add(mux, deadlines, Waiting(5.0))
    deadlines.close()

    assert loop.armed == []
