"""Deliver policies, filters, counts, and the gate of ADR-53."""

from __future__ import annotations

import pytest
from tests.unit.engine.consumer.conftest import SECOND, World, sequences, status

from jetspark.api.base import Timestamp
from jetspark.api.enums import DeliverPolicy
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.stream.stream import Stream


@pytest.fixture
def stream(world: World) -> Stream:
    """Nine messages on three subjects, in turn."""
    made = world.stream()
    world.publish(made, *[b"s.a", b"s.b", b"s.c"] * 3)
    return made


def all_of(world: World) -> list[int]:
    world.pull(b'{"batch":1000,"no_wait":true}')
    return sequences(world.got())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"deliver_policy": DeliverPolicy.LAST}, [9]),
        ({"deliver_policy": DeliverPolicy.LAST, "filter_subject": "s.b"}, [8]),
        ({"deliver_policy": DeliverPolicy.NEW}, []),
        (
            {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 7},
            [7, 8, 9],
        ),
        ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "s.*"}, [7, 8, 9]),
        (
            {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subjects": ("s.a", "s.c")},
            [7, 9],
        ),
        ({"filter_subject": "s.b"}, [2, 5, 8]),
        ({"filter_subject": "s.*"}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"filter_subjects": ("s.a", "s.c")}, [1, 3, 4, 6, 7, 9]),
        ({"filter_subject": "s.none"}, []),
    ],
)
def test_a_consumer_starts_where_its_policy_says(
    world: World, stream: Stream, config: dict[str, object], expected: list[int]
) -> None:
    consumer = world.consumer(stream, **config)

    counted = world.info(consumer).num_pending

    assert counted == len(expected)
    assert all_of(world) == expected


def test_a_start_time_is_found_in_the_log(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.now += SECOND
    middle = world.now
    world.publish(stream, b"s.a", b"s.a")

    consumer = world.consumer(
        stream,
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=Timestamp(middle),
    )

    assert consumer.start_seq_by_time() == 2
    assert all_of(world) == [2, 3]


def test_pending_after_each_message_is_in_its_reply(world: World, stream: Stream) -> None:
    world.consumer(stream, filter_subject="s.b")

    world.pull(b"3")

    assert [reply.rsplit(b".", 1)[1] for _, reply, _, _ in world.got()] == [b"2", b"1", b"0"]


def test_new_messages_are_counted_by_the_filter(world: World, stream: Stream) -> None:
    consumer = world.consumer(stream, filter_subjects=("s.a", "s.new.>"))

    world.publish(stream, b"s.a", b"s.b", b"s.new.x", b"s.other")

    assert world.info(consumer).num_pending == 5
    assert all_of(world) == [1, 4, 7, 10, 12]


def test_a_newer_message_does_not_come_twice_with_last_per_subject(
    world: World, stream: Stream
) -> None:
    consumer = world.consumer(
        stream, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>"
    )

    world.publish(stream, b"s.a")

    assert world.info(consumer).num_pending == 4
    assert all_of(world) == [7, 8, 9, 10]


def test_a_removed_last_message_is_passed_over(world: World, stream: Stream) -> None:
    consumer = world.consumer(
        stream, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>"
    )

    stream.log.staged.delete(8)
    world.engine.mark_dirty(stream)
    world.turn()

    assert world.info(consumer).num_pending == 2
    assert all_of(world) == [7, 9]


@pytest.mark.parametrize("filters", [(), ("s.b",), ("s.a", "s.b"), ("s.*",)])
def test_counts_stay_exact_when_messages_go(
    world: World, stream: Stream, filters: tuple[str, ...]
) -> None:
    consumer = world.consumer(stream, filter_subjects=filters)
    world.pull(b"1")

    for seq in (1, 2, 5, 9):
        stream.log.staged.delete(seq)
    world.engine.mark_dirty(stream)
    world.turn()
    counted = world.info(consumer).num_pending
    world.got()

    assert counted == len(all_of(world))


def test_eviction_by_limits_is_counted(world: World) -> None:
    stream = world.stream(max_msgs=3)
    consumer = world.consumer(stream, filter_subject="s.a")

    world.publish(stream, b"s.a", b"s.a", b"s.b", b"s.a", b"s.b")

    assert world.info(consumer).num_pending == 1
    assert all_of(world) == [4]


def test_other_filters_are_counted_again(world: World, stream: Stream) -> None:
    import msgspec

    consumer = world.consumer(stream, filter_subject="s.a")
    config = msgspec.structs.replace(consumer.config, filter_subject="s.*")

    world.engine.consumers.update(stream, consumer, config, world.now, world.outbox)
    world.turn()

    assert world.info(consumer).num_pending == 9


# ADR-53 ------------------------------------------------------------------------------------------


def gated(world: World, stream: Stream, **config: object) -> Consumer:
    return world.consumer(stream, min_last_seq=11, **config)


def test_a_gated_consumer_delivers_nothing_and_counts_right(world: World, stream: Stream) -> None:
    consumer = gated(world, stream)

    world.pull(b'{"batch":20,"expires":1000000000}')
    world.pass_time(SECOND)

    assert world.info(consumer).num_pending == 9
    assert [status(message) for message in world.got()] == [b"408 Request Timeout"]


def test_a_gated_pull_that_does_not_wait_gets_404(world: World, stream: Stream) -> None:
    gated(world, stream)

    world.pull(b'{"batch":20,"no_wait":true}')

    assert [status(message) for message in world.got()] == [b"404 No Messages"]


def test_the_gate_opens_with_the_sequence(world: World, stream: Stream) -> None:
    gated(world, stream)
    world.pull(b'{"batch":20,"expires":1000000000}')

    world.publish(stream, b"s.a")
    world.turn()
    before = world.got()
    world.publish(stream, b"s.a")
    world.turn()

    messages = world.got()
    assert before == []
    assert sequences(messages) == list(range(1, 12))
    assert messages[0][1].endswith(b".10")


def test_a_message_of_another_subject_opens_the_gate(world: World, stream: Stream) -> None:
    gated(world, stream, filter_subject="s.b")
    world.pull(b'{"batch":20,"expires":1000000000}')

    world.publish(stream, b"s.x", b"s.x")
    world.turn()

    assert sequences(world.got()) == [2, 5, 8]


def test_last_per_subject_with_a_gate_is_what_is_last_when_it_opens(
    world: World, stream: Stream
) -> None:
    consumer = gated(
        world, stream, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>"
    )
    world.pull(b'{"batch":20,"expires":1000000000}')

    world.publish(stream, b"s.a")
    world.turn()
    world.publish(stream, b"s.new")
    world.turn()

    assert sequences(world.got()) == [8, 9, 10, 11]
    assert world.info(consumer).num_pending == 0


def test_the_gate_survives_a_restart(world: World, stream: Stream) -> None:
    gated(world, stream)

    world.crash()
    world.pull(b'{"batch":20,"expires":1000000000}')
    closed = world.got()
    world.publish(world.engine.streams["S"], b"s.a", b"s.a")
    world.turn()

    assert closed == []
    assert len(world.got()) == 11


def test_an_opened_gate_stays_open(world: World, stream: Stream) -> None:
    import msgspec

    consumer = world.consumer(stream)
    world.pull(b"1")
    config = msgspec.structs.replace(consumer.config, min_last_seq=50)

    world.engine.consumers.update(stream, consumer, config, world.now, world.outbox)
    world.pull(b"1")

    assert sequences(world.got()) == [1, 2]
