"""The disk refuses to read: consumers wait there, say so, and pass no message."""

from __future__ import annotations

import logging

import pytest
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences, status

from jetspark.api.enums import AckPolicy, DeliverPolicy, Retention
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.stream.stream import Stream

WAIT = b'{"batch":20,"expires":60000000000}'


def filled(world: World, count: int = 3, **config: object) -> Stream:
    """A stream whose messages are read from the disk."""
    stream = world.stream("S", **config)
    for _ in range(count):
        world.publish(stream, b"s.a", payload=b"x" * 9000)
    stream.log.reader.cache.budget = 0
    return stream


def reopened(world: World) -> tuple[Stream, Consumer]:
    world.crash()
    stream = world.engine.streams["S"]
    stream.log.reader.cache.budget = 0
    return stream, stream.consumers["c"]


def refuse(world: World, stream: Stream, seq: int, *, times: int = 1 << 62) -> None:
    """Let the disk refuse to read one message."""
    columns = stream.log.index.segment_of(seq)
    assert columns is not None
    where = int(columns.offset_at(seq - columns.base))
    world.files.refuse_reads(columns.name, where + 100, where + 200, times=times)


def test_a_passing_read_error_costs_nothing(world: World) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, consumer = reopened(world)
    refuse(world, stream, 2, times=2)

    world.pull(WAIT)

    assert sequences(world.got()) == [1, 2, 3]
    assert world.events(b"MSG_TERMINATED") == []
    assert world.info(consumer).stopped == ""


def test_a_consumer_stops_at_a_message_that_the_disk_refuses_and_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, consumer = reopened(world)
    refuse(world, stream, 2)

    with caplog.at_level(logging.ERROR):
        world.pull(WAIT)
        world.pass_time(5 * SECOND)

    info = world.info(consumer)
    assert sequences(world.got()) == [1]
    assert (info.num_pending, info.delivered.stream_seq) == (2, 1)
    assert info.stopped == "message 2 cannot be read now: Input/output error"
    assert list(stream.log.reader.refused_reads) == [2]
    assert not stream.log.reader.unreadable  # no damage: nothing is known about the bytes
    assert world.events(b"MSG_TERMINATED") == []
    assert [r.getMessage() for r in caplog.records] == [
        "Stream 'S': consumer 'c' stops at message 2 cannot be read now: Input/output error"
    ]


def test_a_consumer_continues_automatically_when_reading_works_again(world: World) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, consumer = reopened(world)
    refuse(world, stream, 2)
    world.pull(WAIT)
    world.got()

    world.files.allow_reads()
    world.pass_time(2 * SECOND)

    assert sequences(world.got()) == [2, 3]
    assert world.info(consumer).stopped == ""
    assert stream.log.reader.refused_reads == {}


def test_commits_do_not_make_a_stopped_consumer_ask_the_disk_each_time(world: World) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, _ = reopened(world)
    refuse(world, stream, 2)
    world.pull(WAIT)
    before = world.files.read_calls + world.files.steps

    for _ in range(100):
        world.publish(stream, b"s.b")
        world.turn()

    reads = [
        o for o in list(world.files.operations)[before - world.files.steps :] if o[0] == "read"
    ]
    assert len(reads) <= 10


def test_an_operator_can_delete_the_message_that_stops_a_consumer(world: World) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, consumer = reopened(world)
    refuse(world, stream, 2)
    world.pull(WAIT)

    stream.log.staged.delete(2)
    world.engine.mark_dirty(stream)
    world.turn()
    world.pass_time(2 * SECOND)

    assert sequences(world.got()) == [1, 3]
    assert world.info(consumer).stopped == ""


def test_a_request_that_does_not_wait_gets_the_reason_for_no_messages(world: World) -> None:
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, _ = reopened(world)
    refuse(world, stream, 1)

    world.pull(b'{"batch":5,"no_wait":true}')
    world.pass_time(10 * MS)
    world.pull(b'{"batch":5,"no_wait":true}')

    assert [status(m) for m in world.got()] == [b"500 Message Could Not Be Read"] * 2


def test_a_request_that_got_messages_ends_without_an_error(world: World) -> None:
    """Clients throw away the messages they have when an error follows."""
    filled(world)
    world.consumer(world.engine.streams["S"])
    stream, _ = reopened(world)
    refuse(world, stream, 3)

    world.pull(b'{"batch":5,"no_wait":true,"expires":60000000000}')
    got = world.got()

    assert sequences(got[:2]) == [1, 2]
    assert [status(m) for m in got[2:]] == [b"408 Request Timeout"]


def test_a_push_consumer_waits_and_continues(world: World) -> None:
    stream = filled(world)
    world.consumer(stream, deliver_subject="d", ack_policy=AckPolicy.NONE)
    stream, consumer = reopened(world)
    refuse(world, stream, 2)
    inbox = world.bind(b"d")
    world.pass_time(3 * SECOND)
    before = sequences(inbox.take())

    world.files.allow_reads()
    world.pass_time(2 * SECOND)

    assert (before, sequences(inbox.take())) == ([1], [2, 3])
    assert world.info(consumer).ack_floor.stream_seq == 3


def test_a_work_queue_loses_nothing_to_five_read_errors(world: World) -> None:
    """Five errors in a row are more than one read tries: the queue waits, and continues."""
    stream = filled(world, 6, retention=Retention.WORKQUEUE)
    world.consumer(stream)
    stream, _ = reopened(world)
    refuse(world, stream, 3, times=5)

    world.pull(WAIT)
    world.pass_time(3 * SECOND)
    got = world.got()
    for _, reply, _, _ in got:
        world.ack(reply)
    world.commit()

    assert sequences(got) == [1, 2, 3, 4, 5, 6]
    assert stream.log.index.messages == 0


def test_a_redelivery_that_cannot_be_read_stays_pending(world: World) -> None:
    stream = filled(world, 2)
    consumer = world.consumer(stream, ack_wait=SECOND)
    world.pull(WAIT)
    world.got()
    world.pass_time(100 * MS)
    stream, consumer = reopened(world)
    refuse(world, stream, 1)
    world.pull(WAIT)
    world.pass_time(5 * SECOND)
    assert 1 not in sequences(world.got())
    assert world.info(consumer).num_ack_pending == 2

    world.files.allow_reads()
    world.pass_time(2 * SECOND)

    assert 1 in sequences(world.got())


def test_a_consumer_by_time_is_refused_while_times_cannot_be_read(world: World) -> None:
    """Where it begins would be a guess."""
    from jetspark.api.base import Timestamp
    from jetspark.errors.storage import ReadFailed

    stream = filled(world, 9)
    start = Timestamp(stream.log.reader.time_of(5))
    world.crash()
    stream = world.engine.streams["S"]
    stream.log.reader.cache.budget = 0
    world.files.refuse_reads(".seg")

    with pytest.raises(ReadFailed):
        world.consumer(stream, deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=start)

    world.files.allow_reads()
    world.consumer(stream, deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=start)
    world.pull(WAIT)
    assert sequences(world.got()) == [5, 6, 7, 8, 9]
