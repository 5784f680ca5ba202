"""Ids: 22 base-62 characters, a random prefix and a running number."""

import itertools
import subprocess
import sys
import threading

import pytest

from jetspark.ids import Nuid, new_inbox, short_id

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
STEP_MIN, STEP_MAX = 33, 333


def number_of(text: str) -> int:
    number = 0
    for char in text:
        number = number * 62 + DIGITS.index(char)
    return number


class Dice:
    """A random source that gives the numbers it was configured to, then continues counting up."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.draws = 0

    def __call__(self, size: int) -> bytes:
        self.draws += 1
        number = self.numbers.pop(0) if self.numbers else self.draws
        return number.to_bytes(size, "big")


def test_an_id_is_22_base62_characters() -> None:
    ids = [Nuid().next() for _ in range(50)]

    assert all(len(one) == 22 and set(one) <= set(DIGITS) for one in ids)


def test_ids_of_one_source_share_a_prefix_and_grow_by_one_random_step() -> None:
    nuid = Nuid()
    ids = [nuid.next() for _ in range(1000)]
    numbers = [number_of(one[12:]) for one in ids]
    steps = {later - earlier for earlier, later in itertools.pairwise(numbers)}

    assert {ids[0][:12]} == {one[:12] for one in ids}
    assert len(steps) == 1
    assert STEP_MIN <= steps.pop() <= STEP_MAX


@pytest.mark.parametrize(
    ("draw", "step"),
    [(0, STEP_MIN), (300, STEP_MAX), (301, STEP_MIN)],
    ids=["low", "high", "wrap"],
)
def test_the_step_lies_between_33_and_333(draw: int, step: int) -> None:
    nuid = Nuid(Dice(0, draw, 0))
    first, second = nuid.next(), nuid.next()

    assert ("0" * 22, step) == (first, number_of(second))


@pytest.mark.parametrize("first", [62**10 - 1, 62**10 - STEP_MIN], ids=["beyond", "just beyond"])
def test_a_new_prefix_is_drawn_when_the_numbers_are_used_up(first: int) -> None:
    nuid = Nuid(Dice(1, 0, first, 2, 0, 5))
    last_of_first, first_of_second = nuid.next(), nuid.next()

    assert (last_of_first[:12], number_of(last_of_first[12:])) == ("000000000001", first)
    assert first_of_second == "000000000002" + "0000000005"


def test_a_new_prefix_is_drawn_after_a_fork() -> None:
    """A forked worker must not give out the ids of its parent."""
    process = 1
    nuid = Nuid(process_id=lambda: process)
    before = nuid.next()
    process = 2
    after = nuid.next()

    assert before[:12] != after[:12]
    assert nuid.next()[:12] == after[:12]


def test_a_real_fork_gives_other_ids() -> None:
    """In a process of its own: forking one that has threads is not safe."""
    program = (
        "import os; from jetspark.ids import Nuid; nuid = Nuid(); pid = os.fork(); "
        "os.write(1, nuid.next().encode() + b' '); pid and os.waitpid(pid, 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    parent, child = ran.stdout.decode().split()

    assert 22 == len(parent) == len(child)
    assert parent[:12] != child[:12]


def test_threads_never_get_the_same_id() -> None:
    nuid = Nuid()
    found: list[list[str]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(nuid.next() for _ in range(2000)))
        for mine in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({one for mine in found for one in mine}) == 4 * 2000


def test_an_inbox_is_the_prefix_and_an_id() -> None:
    nuid = Nuid(Dice(7, 0, 9))

    assert new_inbox(nuid) == "_INBOX.0000000000070000000009"
    assert new_inbox(nuid, "my.prefix").startswith("my.prefix.00000000000700000000")


def test_a_short_id_has_eight_characters_of_the_same_alphabet() -> None:
    made = [short_id(number) for number in (0, 61, 62, 2**64 - 1)]

    assert made[:3] == ["00000000", "0000000z", "00000010"]
    assert len(made[3]) == 8
    assert made[3].isalnum()
