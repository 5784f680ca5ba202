"""What consumers do not cost: reads at creation, timers, work while idle (issue of consumers)."""

from __future__ import annotations

import gc

from tests.unit.engine.consumer.conftest import SECOND, World

from jetspark.api.enums import DeliverPolicy
from jetspark.engine.consumer.consumer import Consumer

MESSAGES = 100_000


CASES: tuple[tuple[dict[str, object], int], ...] = (
    ({}, MESSAGES),
    ({"filter_subject": "s.7"}, 100),
    ({"filter_subject": "s.*"}, MESSAGES),
    ({"filter_subjects": ("s.1", "s.2", "s.3")}, 300),
    ({"deliver_policy": DeliverPolicy.LAST}, 1),
    ({"deliver_policy": DeliverPolicy.NEW}, 0),
    ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "s.*"}, 1000),
    (
        {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": MESSAGES // 2},
        MESSAGES // 2 + 1,
    ),
)


def test_creating_a_consumer_reads_no_message(world: World) -> None:
    """A stream of many messages on a thousand subjects, none of them in a cache."""
    stream = world.stream()
    for n in range(MESSAGES):
        stream.log.staged.add_message(b"s.%d" % (n % 1000), 0, b"x\r\n", world.now)
    world.engine.mark_dirty(stream)
    world.commit()
    world.crash()
    stream = world.engine.streams["S"]
    world.turn()
    reads = world.files.read_calls

    for number, (config, pending) in enumerate(CASES):
        consumer = world.consumer(stream, f"c{number}", **config)
        assert world.info(consumer).num_pending == pending, config

    assert world.files.read_calls == reads
    world.pull(b"1", key=b"S.c0")
    assert world.files.read_calls > reads  # so that no one can say reads were not counted


def test_a_thousand_consumers_have_no_deadline_while_nothing_happens(world: World) -> None:
    stream = world.stream()
    config = world.consumer(stream, "first").config
    for n in range(1000):
        world.engine.consumers.add(stream, f"c{n}", config, world.now, world.outbox)
    world.turn()

    world.publish(stream, b"s.a")
    world.turn()

    assert len(stream.consumers) == 1001
    assert world.engine.next_deadline() is None


def test_idle_consumers_are_not_looked_at_when_messages_come(world: World) -> None:
    stream = world.stream()
    for n in range(50):
        world.consumer(stream, f"c{n}")
    steps = []
    run_queue = world.engine.consumer_services.run_queue
    world.turn()
    assert run_queue.ready == []

    for _ in range(3):
        world.publish(stream, b"s.a")
        steps += run_queue.ready
    world.pass_time(SECOND)

    assert steps == []
    assert world.info(stream.consumers["c7"]).num_pending == 3


def test_dropped_consumers_are_not_kept_for_their_deadlines(world: World) -> None:
    stream = world.stream()
    for n in range(200):
        consumer = world.consumer(stream, f"c{n}", inactive_threshold=300 * SECOND)
        world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.turn()

    gc.collect()
    kept = [found for found in gc.get_objects() if isinstance(found, Consumer)]

    assert len(kept) < 20
