"""Interest and work queue streams keep exactly what someone still needs (wire.md, Publishing).

Random consumers come, acknowledge, change and go; the server is killed in between. The model is a
dict of messages and, for each consumer, the set of those it still has to acknowledge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.unit.engine.consumer.conftest import MS, World, sequences

from jetspark.api.enums import DeliverPolicy, Retention
from jetspark.engine.stream.stream import Stream
from jetspark.subjects.match import matches

SUBJECTS = (b"s.a", b"s.b", b"s.c")
STEPS = 120


@dataclass
class Needs:
    """One consumer of the model."""

    pattern: str
    open: set[int] = field(default_factory=set)
    replies: dict[int, bytes] = field(default_factory=dict)

    def wants(self, subject: bytes) -> bool:
        return matches(subject, self.pattern.encode())


class Walk:
    """A stream under one policy, and what should be in it."""

    def __init__(self, policy: Retention, seed: int) -> None:
        self.random = Random(seed)
        self.policy = policy
        self.world = World()
        self.world.stream(retention=policy)
        self.consumers: dict[str, Needs] = {}
        self.messages: dict[int, bytes] = {}
        self.last = 0
        self.made = 0

    @property
    def stream(self) -> Stream:
        return self.world.engine.streams["S"]

    def step(self) -> None:
        chosen = self.random.choices(
            (self.publish, self.make, self.fetch, self.acknowledge, self.drop, self.crash),
            (6, 1, 5, 8, 1, 1),
        )[0]
        chosen()
        self.world.turn()
        assert kept(self.stream) == sorted(self.messages), chosen.__name__

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            subject = self.random.choice(SUBJECTS)
            self.world.publish(self.stream, subject)
            self.last += 1
            wanted = [needs for needs in self.consumers.values() if needs.wants(subject)]
            if wanted or self.policy == Retention.WORKQUEUE:
                self.messages[self.last] = subject
            for needs in wanted:
                needs.open.add(self.last)

    def make(self) -> None:
        taken = {needs.pattern for needs in self.consumers.values()}
        free = [s.decode() for s in SUBJECTS if s.decode() not in taken]
        if self.policy == Retention.INTEREST:
            free = ["s.>", "s.a", "s.b"]
        if not free or len(self.consumers) > 3:
            return
        self.made += 1
        name = f"c{self.made}"
        needs = self.consumers[name] = Needs(self.random.choice(free))
        new = self.policy == Retention.INTEREST and self.random.random() < 0.5
        if not new:
            needs.open = {q for q, subject in self.messages.items() if needs.wants(subject)}
        self.world.consumer(
            self.stream,
            name,
            filter_subject=needs.pattern,
            deliver_policy=DeliverPolicy.NEW if new else DeliverPolicy.ALL,
        )

    def fetch(self) -> None:
        if not self.consumers:
            return
        name = self.random.choice(sorted(self.consumers))
        self.world.pull(b'{"batch":3,"no_wait":true}', key=b"S." + name.encode())
        for message in self.world.got():
            if message[1]:
                self.consumers[name].replies[sequences([message])[0]] = message[1]

    def acknowledge(self) -> None:
        ready = [(n, q) for n, needs in self.consumers.items() for q in needs.replies]
        if not ready:
            return
        name, seq = self.random.choice(sorted(ready))
        needs = self.consumers[name]
        self.world.ack(needs.replies.pop(seq), self.random.choice((b"", b"+TERM")))
        needs.open.discard(seq)
        if not any(seq in other.open for other in self.consumers.values()):
            self.messages.pop(seq, None)

    def drop(self) -> None:
        if not self.consumers:
            return
        name = self.random.choice(sorted(self.consumers))
        consumer = self.stream.consumers[name]
        self.world.engine.consumers.drop(self.stream, consumer, self.world.now, self.world.outbox)
        del self.consumers[name]
        if self.policy == Retention.INTEREST:
            needed = set().union(*(needs.open for needs in self.consumers.values()))
            self.messages = {q: s for q, s in self.messages.items() if q in needed}

    def crash(self) -> None:
        self.world.pass_time(60 * MS)
        self.world.crash()


def kept(stream: Stream) -> list[int]:
    index = stream.log.index
    found = []
    seq = int(index.next_seq(1, b""))
    while seq:
        found.append(seq)
        seq = int(index.next_seq(seq + 1, b""))
    return found


@pytest.mark.parametrize("policy", [Retention.INTEREST, Retention.WORKQUEUE])
@pytest.mark.parametrize("seed", range(12))
def test_a_stream_keeps_what_is_needed(policy: Retention, seed: int) -> None:
    walk = Walk(policy, seed)

    for _ in range(STEPS):
        walk.step()

    walk.world.close()


def test_the_model_notices_a_message_too_many() -> None:
    walk = Walk(Retention.WORKQUEUE, 1)
    walk.publish()
    walk.messages[99] = b"s.a"

    with pytest.raises(AssertionError):
        walk.step()

    walk.world.close()
