"""Consumers that receive while a large group is applied in several turns."""

from __future__ import annotations

import random

import pytest
from tests.unit.engine.consumer.conftest import World, sequences

from jetspark.store.log.columns import NOWHERE
from jetspark.subjects.match import matches

SUBJECTS = (b"s.a.1", b"s.a.2", b"s.b.1", b"s.c")
FILTERS = ((), ("s.a.*",), ("s.b.1", "s.c"), ("s.none",))
PURGES = ((0, b"s.a.*", 0), (0, b"s.*.1", 2), (15, b"", 0), (0, b"s.none.*", 0), (0, b"", 0))


class Busy(World):
    """A world in which consumers receive between the steps of a group."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.main = self.stream(max_msgs_per_subject=self.random.choice((-1, 6)))
        self.steps = 0
        self.received: list[list[int]] = [[] for _ in FILTERS]
        for n, filters in enumerate(FILTERS):
            self.consumer(self.main, f"c{n}", filter_subjects=filters)
        self.main.log.apply_at_most(1)

    def between_steps(self) -> None:
        self.steps += 1
        self.engine.advance(self.now, self.outbox)
        if self.random.random() < 0.5:
            self.receive(self.random.randint(1, 3))
        self.check()

    def receive(self, count: int) -> None:
        """Every consumer gets some messages, and acknowledges half of them."""
        for n in range(len(FILTERS)):
            self.pull(b'{"batch":%d,"no_wait":true}' % count, key=b"S.c%d" % n)
            for message in self.got():
                if message[1]:
                    self.received[n] += sequences([message])
                    if self.random.random() < 0.5:
                        self.ack(message[1])

    def stage(self) -> None:
        log = self.main.log
        for _ in range(self.random.randint(1, 25)):
            self.now += 1
            kind = self.random.randrange(12)
            if kind < 9:
                log.staged.add_message(self.random.choice(SUBJECTS), 0, b"x\r\n", self.now)
            elif kind < 10:
                log.staged.delete(self.random.randint(1, max(1, int(log.staged.seq))))
            else:
                before, pattern, keep = self.random.choice(PURGES)
                log.staged.purge(before, pattern, keep)
                self.main.replies.hold_purge(pattern)
        self.engine.mark_dirty(self.main)

    def check(self) -> None:
        """What each consumer still has to get is what a count finds."""
        index = self.main.log.index
        for n, filters in enumerate(FILTERS):
            consumer = self.main.consumers[f"c{n}"]
            left = 0
            for seq in range(int(consumer.state.cursor.next), int(index.last_seq) + 1):
                columns = index.segment_of(seq)
                if columns is None or columns.offsets[seq - int(columns.base)] == NOWHERE:
                    continue
                subject = index.entries[int(columns.subjects[seq - int(columns.base)])].subject
                left += not filters or any(matches(subject, f.encode()) for f in filters)
            assert self.info(consumer).num_pending == left


@pytest.mark.parametrize("seed", range(40))
def test_consumers_count_what_is_left_while_a_group_is_applied(seed: int) -> None:
    world = Busy(seed)
    for _ in range(8):
        world.stage()
        world.commit()
        world.turn()
        world.check()
    world.receive(200)
    world.turn()
    world.check()
    assert world.steps > 30
    for seqs in world.received:
        assert seqs == sorted(set(seqs)), "each once, in order"
    world.close()
