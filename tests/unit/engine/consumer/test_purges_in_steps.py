"""Consumers are after a purge in steps where they are after one that takes a single turn."""

from __future__ import annotations

import json
import random

import pytest
from tests.unit.engine.consumer.conftest import World, sequences

from jetspark.api.base import encode
from jetspark.engine.consumer import purging
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.settings import EngineSettings
from jetspark.store.committer import write

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


@pytest.mark.parametrize("seed", range(15))
def test_consumers_that_a_purge_reaches_late_are_where_it_leaves_the_others(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = Play(seed, 10_000)
    monkeypatch.setattr(purging, "ADJUSTED_PER_TURN", 1)
    late = Play(seed, 10_000)

    assert late.purged == at_once.purged
    assert late.states() == at_once.states()
    at_once.world.close()
    late.world.close()


def test_a_purge_reaches_some_consumers_per_turn_and_in_the_end_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purging, "ADJUSTED_PER_TURN", 2)
    world = World()
    stream = world.stream()
    consumers = [world.consumer(stream, f"c{n}") for n in range(20)]
    world.publish(stream, b"s.a", b"s.b")
    world.turn()

    stream.log.staged.purge(0, b"", 0)
    stream.replies.hold_purge(b"")
    world.engine.mark_dirty(stream)
    for _, group in world.engine.take_groups(world.now):
        assert not isinstance(group, OSError)
        write(stream.log.segments.files, group)
    world.engine.committed(stream, world.outbox, world.now)
    reached = [consumer.state.floor_seq == 2 for consumer in consumers]
    assert sum(reached) == 2
    assert world.info(consumers[-1]).ack_floor.stream_seq == 2, "it is used"
    while world.engine.advance(world.now, world.outbox):
        now_reached = [consumer.state.floor_seq == 2 for consumer in consumers]
        assert sum(now_reached) <= sum(reached) + 3
        reached = now_reached
    assert all(consumer.state.floor_seq == 2 for consumer in consumers)
    world.close()


def test_a_purge_writes_no_state_of_consumers_that_it_does_not_change() -> None:
    world = World()
    stream = world.stream()
    consumers = [world.consumer(stream, f"c{n}") for n in range(20)]
    world.publish(stream, b"s.a", b"s.b", b"s.a")
    world.turn()
    world.pull(b'{"batch":2,"no_wait":true}', key=b"S.c3")
    world.turn()
    world.pass_time(100_000_000)
    written = stream.log.index.position

    handle(world.engine, b"STREAM.PURGE.S", b'{"filter":"s.b"}', b"_P", world.now, world.outbox)
    world.turn()
    while world.engine.advance(world.now, world.outbox):
        world.turn()
    world.pass_time(100_000_000)
    assert stream.log.index.position - written == 2, "the purge, and the consumer that was used"
    assert [world.info(each).num_pending for each in (consumers[0], consumers[3])] == [2, 1]
    world.close()
