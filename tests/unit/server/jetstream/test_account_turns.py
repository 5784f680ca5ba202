"""The turns of all accounts share the time of a turn of the loop."""

from collections.abc import Callable
from functools import partial

import pytest

from jetspark.clock import SystemClock
from jetspark.server.jetstream.account_turns import LONGEST_NS, AccountTurns


class HandClock(SystemClock):
    """A clock that advances by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def monotonic_ns(self) -> int:
        return self.at


class Loop:
    """A loop whose turns are run by hand."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def turn(self) -> None:
        ready, self.ready = self.ready, []
        for callback in ready:
            callback()


def test_busy_accounts_share_the_time_of_a_turn_and_each_has_the_next_in_order() -> None:
    clock, loop = HandClock(), Loop()
    turns = AccountTurns(clock, loop.call_soon)
    served: list[int] = []

    def account(number: int) -> Callable[[], None]:
        def turn() -> None:
            served.append(number)
            clock.at += LONGEST_NS // 2
            turns.add(turn)  # it always has more to do

        return turn

    for number in range(30):
        turns.add(account(number))
    for passed in range(1, 31):
        loop.turn()
        assert len(served) == 2 * passed
    assert served == [*range(30), *range(30)]


def test_accounts_with_little_to_do_have_one_turn_of_the_loop_together() -> None:
    loop = Loop()
    turns = AccountTurns(HandClock(), loop.call_soon)
    served: list[int] = []
    for number in range(30):
        turns.add(partial(served.append, number))

    loop.turn()

    assert served == list(range(30))
    assert loop.ready == [], "nothing is left to do"


def test_an_account_whose_turn_fails_does_not_stop_the_others() -> None:
    loop = Loop()
    turns = AccountTurns(HandClock(), loop.call_soon)
    served: list[int] = []

    def fail() -> None:
        raise ValueError("it is broken")

    turns.add(fail)
    turns.add(lambda: served.append(1))
    with pytest.raises(ValueError, match="it is broken"):
        loop.turn()
    loop.turn()

    assert served == [1]
