"""Power failures while consumers work: at least once, no floor ahead of the truth.

Every image that the simulated disk may leave is good enough to continue from: what no one
acknowledged is delivered again or is still to be delivered, and what was acknowledged by a request
that was answered is over.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences

from jetspark.engine.consumer.consumer import Consumer
from jetspark.store.committer import write
from jetspark.store.log.stream_log import Group

SEEDS = 40
STEPS = 60


class Life:
    """A stream with one consumer, until the lights go out."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.stream = self.world.stream()
        self.world.consumer(self.stream, ack_wait=5 * SECOND, max_ack_pending=8)
        self.stored: set[int] = set()
        self.replies: dict[int, bytes] = {}
        self.said: set[int] = set()  # acknowledged, by whatever means
        self.answered: set[int] = set()  # acknowledged, and the answer came back

    @property
    def consumer(self) -> Consumer:
        found = self.stream.consumers["c"]
        assert isinstance(found, Consumer)
        return found

    def step(self) -> None:
        self.random.choice((self.publish, self.fetch, self.fetch, self.ack, self.ack, self.wait))()

    def publish(self) -> None:
        count = self.random.randint(1, 4)
        self.world.publish(self.stream, *[b"s.a"] * count)
        self.stored = set(range(1, int(self.stream.log.index.last_seq) + 1))

    def fetch(self) -> None:
        world = self.world
        world.engine.deliveries.pull(b"S.c", b"", b"3", b"_R.1", world.now, world.outbox)
        world.engine.advance(world.now, world.outbox)
        for message in world.got():
            if message[1]:
                self.replies[sequences([message])[0]] = message[1]

    def ack(self) -> None:
        if not self.replies:
            return
        world = self.world
        seq = self.random.choice(sorted(self.replies))
        answer_to = b"_R.ack%d" % seq if self.random.random() < 0.5 else b""
        world.engine.deliveries.on_ack(b"S.c", self.replies.pop(seq), b"", answer_to, world.now)
        self.said.add(seq)
        if self.random.random() < 0.5:
            world.turn()
            if answer_to and world.got(answer_to):
                self.answered.add(seq)

    def wait(self) -> None:
        self.world.pass_time(self.random.choice((10 * MS, 60 * MS, SECOND)))

    def cut(self) -> None:
        """The lights go out, perhaps in the middle of a write, and on again."""
        world = self.world
        groups = world.engine.take_groups()
        if groups and self.random.random() < 0.5:
            for _, group in groups:
                assert isinstance(group, Group)
                write(world.files, group)  # written, and no one learned of it
        world.files = world.files.image(self.random)
        world.outbox.now.clear()
        world.inboxes.clear()
        world.engine = world._open()
        self.stream = world.engine.streams["S"]
        self.replies.clear()
        self.check()

    def check(self) -> None:
        state = self.consumer.state
        for seq in self.stored:
            waits = state.pending.find(seq) >= 0 or seq >= state.cursor.next
            assert waits or seq in self.said, f"{seq} is lost"
            assert seq > state.floor_seq or seq in self.said, f"the floor is ahead of {seq}"
            assert not (waits and seq in self.answered), f"{seq} was acknowledged for certain"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_power_failure_causes_redeliveries_and_nothing_else(seed: int) -> None:
    life = Life(seed)

    for _ in range(4):
        for _ in range(STEPS // 4):
            life.step()
        life.cut()

    drained = set(life.said)
    for _ in range(100):
        life.world.pass_time(6 * SECOND)
        life.fetch()
        for seq in sorted(life.replies):
            life.world.ack(life.replies.pop(seq))
            drained.add(seq)
    assert life.stored <= drained
