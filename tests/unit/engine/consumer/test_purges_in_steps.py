"""Consumers are after a purge in steps where they are after one that takes a single turn."""

from __future__ import annotations

import json
import random

import pytest
from tests.unit.engine.consumer.conftest import World, sequences

from jetspark.api.base import encode
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.settings import EngineSettings

SUBJECTS = (b"s.a.1", b"s.a.2", b"s.b.1", b"s.b.2", b"s.c")
FILTERS = ((), ("s.a.*",), ("s.a.1",), ("s.>",), ("s.b.1", "s.c"), ("s.none",))
PURGES: tuple[dict[str, object], ...] = (
    {"filter": "s.a.*"}, {"filter": "s.a.1"}, {"filter": "s.>"}, {"filter": "s.*.1", "keep": 3},
    {"filter": "s.a.>", "seq": 60}, {"seq": 77}, {"keep": 5}, {},
)  # fmt: skip


class Play:
    """One world, in which purges take steps of this many sequences."""

    def __init__(self, seed: int, step: int) -> None:
        rng = random.Random(seed)
        self.world = World()
        self.world.engine.change_settings(EngineSettings(purge_step=step))
        self.stream = self.world.stream()
        self.consumers = [
            self.world.consumer(self.stream, f"c{n}", filter_subjects=filters)
            for n, filters in enumerate(FILTERS)
        ]
        self.publish(rng, 120)
        for n in range(len(FILTERS)):
            for _, reply, _, _ in self.pull(n, rng.randint(0, 30)):
                if rng.random() < 0.5:
                    self.world.ack(reply)
        self.purged = [self.purge(rng) for _ in range(3)]
        self.publish(rng, 10)

    def publish(self, rng: random.Random, count: int) -> None:
        self.world.publish(self.stream, *(rng.choice(SUBJECTS) for _ in range(count)))
        self.world.turn()

    def pull(self, number: int, count: int) -> list[tuple[bytes, bytes, bytes, bytes]]:
        body = b'{"batch":%d,"no_wait":true}' % max(count, 1)
        self.world.pull(body, key=b"S.c%d" % number)
        return [message for message in self.world.got() if message[1]]

    def purge(self, rng: random.Random) -> int:
        world = self.world
        body = json.dumps(rng.choice(PURGES)).encode()
        handle(world.engine, b"STREAM.PURGE.S", body, b"_P", world.now, world.outbox)
        world.turn()
        (answer,) = world.got(b"_P")
        purged: int = json.loads(answer[3])["purged"]
        return purged

    def states(self) -> list[object]:
        found: list[object] = []
        for number, consumer in enumerate(self.consumers):
            info = json.loads(encode(self.world.info(consumer)))
            found.append({name: info[name] for name in sorted(info) if name != "ts"})
            found.append(sequences(self.pull(number, 200)))
        return found


@pytest.mark.parametrize("seed", range(15))
def test_consumers_are_where_a_purge_in_one_turn_leaves_them(seed: int) -> None:
    at_once, in_steps = Play(seed, 10_000), Play(seed, 7)

    assert in_steps.purged == at_once.purged
    assert in_steps.states() == at_once.states()
    at_once.world.close()
    in_steps.world.close()
