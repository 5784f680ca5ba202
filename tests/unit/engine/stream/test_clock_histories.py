"""Random lives of a stream whose clock is set all the time, and a model that knows no clock."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.publishing import SECOND, ask, made, there, wait

from jetspark.units import Nanoseconds

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


HOUR = 3600 * SECOND
AGE = 100
WINDOW = 120


class Life:
    """One stream and what should be in it, by the seconds that passed."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.passed = 0.0
        self.ends: dict[int, float] = {}
        self.ids: dict[str, tuple[int, float]] = {}
        self.stream = made(bench, allow_msg_ttl=True, max_age=Nanoseconds(AGE * SECOND))

    def publish(self) -> None:
        ttl = self.random.choice([None, 10, 45, 300])
        msg_id = self.random.choice(["", "a", "b", "c"])
        headers = {"ttl": f"{ttl}s"} if ttl else {}
        if msg_id:
            headers["msg_id"] = msg_id
        answer = ask(self.bench, self.stream, **headers)
        known = self.ids.get(msg_id)
        if known is not None and self.passed < known[1]:
            assert answer == ("duplicate", known[0]), (answer, known)
            return
        assert isinstance(answer, int), answer
        self.ends[answer] = self.passed + min(ttl or AGE, AGE)
        if msg_id:
            self.ids[msg_id] = (answer, self.passed + WINDOW)

    def wait(self) -> None:
        # Never to the exact time at which something ends.
        seconds = self.random.choice([1, 7, 30, 61]) + self.random.random()
        wait(self.bench, seconds)
        self.passed += seconds

    def set_clock(self) -> None:
        lead = self.random.choice([0, 1, -1, 24, -24, 24 * 365 * 100]) * HOUR
        self.bench.engine.follow_wall(self.bench.now, lead + self.random.randrange(HOUR))

    def restart(self) -> None:
        """With the clock set back, right after a message: then it is known what passed."""
        self.publish_plain()
        back = self.random.choice([0, 1, HOUR, 24 * HOUR, 24 * 365 * 20 * HOUR])
        self.bench.now = max(self.bench.now - back, self.random.randrange(1, HOUR))
        self.bench.restart()
        # The ids of messages are deleted with them.
        self.ids = {
            name: known for name, known in self.ids.items() if self.ends[known[0]] > self.passed
        }
        self.stream = self.bench.engine.streams["S"]
        wait(self.bench, 0)
        # Ids are read for the first message that has one: those of messages that end before that
        # are not known.
        self.publish_plain(msg_id=f"new {len(self.ends)}")

    def publish_plain(self, **headers: str) -> None:
        answer = ask(self.bench, self.stream, **headers)
        self.ends[answer] = self.passed + AGE

    def check(self) -> None:
        expected = [seq for seq, end in self.ends.items() if end > self.passed]
        assert there(self.stream) == expected
        times = [int(self.stream.log.reader.time_of(seq)) for seq in expected]
        assert times == sorted(set(times))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_the_passing_of_time_ends_a_message_or_an_id(bench: Bench, seed: int) -> None:
    life = Life(bench, seed)
    for _ in range(60):
        life.random.choice([life.publish, life.publish, life.wait, life.set_clock])()
        life.check()


@pytest.mark.parametrize("seed", range(4))
def test_nor_does_a_restart_with_the_clock_set_back(bench: Bench, seed: int) -> None:
    life = Life(bench, seed)
    for _ in range(40):
        life.random.choice([life.publish, life.publish, life.wait, life.restart])()
        life.check()
