"""Large reads of many clients: together they have one share of a turn."""

from __future__ import annotations

import time
from collections.abc import Callable

from jetspark.server.net.turn_queue import READS_NS, SHARE_MIN, TurnQueue


class Loop:
    """Callbacks of the next turn."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.queue = TurnQueue(self.soon.append, lambda: 0, lambda _late: None)

    def turn(self) -> None:
        soon = self.soon[:]
        self.soon.clear()
        for callback in soon:
            callback()


def test_reads_use_up_a_turn_and_the_next_one_is_new() -> None:
    loop = Loop()
    loop.queue.count_read(READS_NS)
    assert not loop.queue.is_late()

    loop.queue.count_read(1)
    assert loop.queue.is_late()
    loop.turn()
    assert not loop.queue.is_late()
    assert loop.soon == []


class Busy:
    """Work that never ends, of so much CPU time in each turn."""

    def resume(self) -> bool:
        until = time.thread_time_ns() + 2 * READS_NS
        while time.thread_time_ns() < until:
            pass
        return True


def test_the_queue_counts_as_well() -> None:
    """Otherwise one large step of it and one large read would be in the same turn."""
    loop = Loop()
    loop.queue.count_read(1)
    loop.queue.add(Busy())
    for _ in range(3):
        loop.turn()
        assert loop.queue.is_late()
        loop.queue.count_read(1)


def test_a_turn_is_ended_once_however_many_read() -> None:
    loop = Loop()
    for _ in range(10):
        loop.queue.count_read(READS_NS)

    assert len(loop.soon) == 1


class Step:
    """One step of work, which notes its name."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name = name
        self._done = done

    def resume(self) -> bool:
        self._done.append(self._name)
        return False


def test_what_others_wait_for_does_not_wait_for_large_reads() -> None:
    times = iter(range(0, 10**12, 10**9))
    soon: list[Callable[[], None]] = []
    queue = TurnQueue(soon.append, lambda: next(times), lambda _late: None)
    done = list[str]()
    for _ in range(1000):
        queue.add(Step("large", done))
    queue.add(Step("first", done), first=True)
    soon[0]()

    assert done == ["first", "large"]


def test_those_that_come_first_share_a_turn() -> None:
    """One that wants to do little would otherwise wait for dozens of whole turns."""
    loop = Loop()
    assert loop.queue.share(16_384) == 16_384
    for _ in range(16):
        loop.queue.add(Busy(), first=True)
    assert loop.queue.share(16_384) == 1_024
    for _ in range(1_000):
        loop.queue.add(Busy(), first=True)
    assert loop.queue.share(16_384) == SHARE_MIN
