"""Failed logins: counted by address and user, and never at the cost of another address."""

from __future__ import annotations

from jetspark.clock import SystemClock
from jetspark.server.auth.login_limits import COUNTS_MAX, LoginLimits
from jetspark.server.config.blocks.jetspark import Limits
from jetspark.units import minutes, seconds


class Guesses:
    """Attempts at a virtual time."""

    def __init__(self, *, per_address: int = 0, per_user: int = 0) -> None:
        self.now: int = seconds(1)
        clock = SystemClock(wall=lambda: self.now, monotonic=lambda: self.now)
        limits = Limits(failed_logins_per_address=per_address, failed_logins_per_user=per_user)
        self.limits = LoginLimits(clock, limits)

    def checked(self, count: int, address: str = "1.1.1.1", user: str = "ann") -> int:
        """How many of so many wrong passwords are checked."""
        return sum(self.limits.begin(address, user) for _ in range(count))


def test_beyond_the_limit_nothing_is_checked_until_failures_expire() -> None:
    guesses = Guesses(per_user=6)

    assert guesses.checked(100) == 6
    assert guesses.limits.refused == 94
    guesses.now += seconds(10)
    assert guesses.checked(100) == 1
    guesses.now += minutes(10)
    assert guesses.checked(100) == 6


def test_attempts_from_one_address_lock_no_one_out_at_another() -> None:
    guesses = Guesses(per_address=20, per_user=6)

    assert guesses.checked(100) == 6
    assert guesses.checked(1, "2.2.2.2") == 1


def test_another_user_of_the_address_has_a_count_of_its_own() -> None:
    guesses = Guesses(per_user=6)
    guesses.checked(100)

    assert guesses.checked(100, user="bob") == 6


def test_an_address_that_tries_many_names_is_limited_as_a_whole() -> None:
    guesses = Guesses(per_address=20, per_user=6)

    assert sum(guesses.checked(1, user=f"user {n}") for n in range(100)) == 20


def test_logins_that_succeed_cost_nothing() -> None:
    guesses = Guesses(per_address=3, per_user=2)

    for _ in range(100):
        assert guesses.limits.begin("1.1.1.1", "ann")
        guesses.limits.succeeded("1.1.1.1", "ann")
    assert guesses.checked(100) == 2


def test_attempts_at_the_same_time_count_before_they_are_answered() -> None:
    guesses = Guesses(per_user=2)

    assert guesses.checked(2) == 2
    assert guesses.checked(1) == 0  # the first two are still being checked
    guesses.limits.succeeded("1.1.1.1", "ann")
    assert guesses.checked(1) == 1


def test_zero_is_no_limit() -> None:
    assert Guesses().checked(10_000) == 10_000


def test_names_that_a_client_invents_do_not_fill_the_memory() -> None:
    guesses = Guesses(per_user=60)
    for number in range(10 * COUNTS_MAX):
        guesses.now += 1_000_000
        guesses.checked(1, user=f"{number}" * 50)

    assert len(guesses.limits._by_user) <= 2 * COUNTS_MAX


def test_new_limits_apply_at_once() -> None:
    guesses = Guesses(per_user=2)
    guesses.checked(100)
    guesses.limits.follow(Limits(failed_logins_per_user=4))

    assert guesses.checked(100) == 4
    guesses.limits.follow(Limits(failed_logins_per_user=4, connections_per_user=1))
    assert guesses.checked(100) == 0
