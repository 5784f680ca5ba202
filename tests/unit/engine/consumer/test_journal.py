"""What a crash leaves of a consumer: redelivery at worst, never a loss."""

from __future__ import annotations

from errno import EIO, ENOSPC

import msgspec
import pytest
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences

from jetspark.api.enums import AckPolicy, DeliverPolicy, Storage
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.journal import CHANGES_MAX, Journal
from jetspark.engine.wall import Wall
from jetspark.units import Nanoseconds


def revived(world: World) -> Consumer:
    world.crash()
    found = world.engine.streams["S"].consumers["c"]
    assert isinstance(found, Consumer)
    return found


def test_a_consumer_exists_after_a_crash(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.a")
    created = world.consumer(stream, filter_subject="s.a", max_deliver=7).created_ns

    consumer = revived(world)

    assert consumer.created_ns == created
    assert consumer.config.filter_subject == "s.a"
    assert world.info(consumer).num_pending == 2


def test_a_consumer_that_was_not_written_never_was(world: World) -> None:
    stream = world.stream()
    world.refuse = OSError(ENOSPC, "no space")

    world.consumer(stream)
    world.refuse = None

    assert stream.consumers == {}
    assert not world.engine.deliveries.pull(b"S.c", b"", b"", b"_R.1", world.now, world.outbox)


def test_deliveries_and_acks_are_written_with_the_next_tick(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 5)
    world.consumer(stream)
    world.pull(b"4")
    messages = world.got()
    world.ack(messages[0][1])
    world.ack(messages[2][1])

    world.pass_time(50 * MS)
    consumer = revived(world)

    info = world.info(consumer)
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (4, 4)
    assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == (1, 1)
    assert (info.num_ack_pending, info.num_pending) == (2, 1)


def test_what_was_not_written_is_delivered_again(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    world.consumer(stream)
    world.engine.deliveries.pull(b"S.c", b"", b"2", b"_R.1", world.now, world.outbox)
    world.engine.advance(world.now, world.outbox)
    (first, _) = world.got()
    world.engine.deliveries.on_ack(b"S.c", first[1], b"", b"", world.now)

    consumer = revived(world)
    world.pull(b"3")

    assert sequences(world.got()) == [1, 2, 3]
    assert world.info(consumer).ack_floor.stream_seq == 0


def test_pending_messages_come_again_when_their_time_is_over(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    world.consumer(stream)
    world.pull(b"2")
    world.got()
    world.pass_time(SECOND)

    world.crash()
    world.pull(b'{"batch":3,"expires":60000000000}')
    new = world.got()
    world.pass_time(30 * SECOND)

    again = world.got()
    assert sequences(new) == [3]
    assert sequences(again)[:2] == [1, 2]
    assert again[0][1].startswith(b"$JS.ACK.S.c.2.1.")


def test_the_time_a_server_was_away_counts(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 2)
    world.consumer(stream)
    world.pull(b"2")
    world.got()
    world.pass_time(SECOND)

    world.now += 3600 * SECOND
    world.crash()
    world.pull(b'{"batch":3,"expires":60000000000}')
    world.pass_time(1)

    assert sequences(world.got()) == [1, 2]


def test_delivery_counts_survive(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream, ack_wait=SECOND)
    world.pull(b'{"batch":3,"expires":60000000000}')
    world.pass_time(2 * SECOND + 100 * MS)
    world.got()

    consumer = revived(world)
    world.pull(b'{"batch":3,"expires":60000000000}')
    world.pass_time(2 * SECOND)

    assert world.info(consumer).num_redelivered == 1
    assert world.got()[0][1].startswith(b"$JS.ACK.S.c.4.1.")


def test_the_list_of_last_messages_survives(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c", b"s.a")
    world.consumer(stream, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>")
    world.pull(b"1")
    world.got()
    world.pass_time(SECOND)

    world.crash()
    world.pull(b"5")

    assert sequences(world.got()) == [3, 4]


def test_many_changes_become_one_whole_state(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3000)
    world.consumer(stream, max_ack_pending=-1)
    for _ in range(300):
        world.pull(b"10")
        for message in world.got()[::2]:
            world.ack(message[1])
        world.pass_time(60 * MS)

    records = stream.log.engine_state.consumers[1]
    consumer = revived(world)

    assert len(records.changes) < 300
    assert world.info(consumer).num_ack_pending == 1500
    assert world.info(consumer).delivered.stream_seq == 3000


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_change_costs_redeliveries_and_nothing_else(world: World, lost: int) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 12)
    world.consumer(stream)
    for _ in range(4):
        world.pull(b"3")
        for message in world.got():
            world.ack(message[1])
        world.pass_time(60 * MS)
    records = stream.log.engine_state.consumers[1]
    changes = [change for n, change in enumerate(records.changes) if n != lost]
    fresh = Consumer(
        stream, "c", world.engine.streams["S"].consumers["c"].config, 0, 1,
        world.engine.consumer_services,
    )  # fmt: skip

    fresh.journal.restore(records.state, changes, world.now)

    unacknowledged = fresh.state.floor_seq
    assert unacknowledged <= 12
    assert fresh.state.cursor.next <= unacknowledged + 1 + fresh.state.pending.count


def test_a_deleted_consumer_stays_deleted(world: World) -> None:
    stream = world.stream()
    consumer = world.consumer(stream)
    world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.commit()

    world.crash()

    assert world.engine.streams["S"].consumers == {}


def test_a_consumer_in_memory_ends_with_the_process(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream, mem_storage=True, ack_policy=AckPolicy.NONE)
    position = stream.log.staged.position
    world.pull(b"1")
    world.pass_time(SECOND)

    assert sequences(world.got()) == [1]
    assert stream.log.staged.position == position
    world.crash()
    assert world.engine.streams["S"].consumers == {}


def test_after_a_failed_write_everything_is_said_again(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    world.consumer(stream)
    world.pull(b"2")
    messages = world.got()
    world.pass_time(SECOND)
    world.refuse = OSError(ENOSPC, "no space")
    world.ack(messages[0][1])
    world.pass_time(SECOND)

    world.refuse = None
    world.ack(messages[1][1])
    world.pass_time(SECOND)
    consumer = revived(world)

    assert world.info(consumer).ack_floor.stream_seq == 2


def test_a_read_only_stream_still_delivers(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    world.consumer(stream)
    world.refuse = OSError(EIO, "disk error")
    world.publish(stream, b"s.a")
    world.refuse = None

    world.pull(b"3")
    world.pass_time(SECOND)

    assert sequences(world.got()) == [1, 2, 3]


def test_a_deletion_that_failed_is_undone_whatever_consumers_there_are_in_memory(
    world: World,
) -> None:
    """One in memory uses up no number of the log, and may have the same as another."""
    stream = world.stream()
    world.consumer(stream, "m", mem_storage=True, inactive_threshold=Nanoseconds(3600 * SECOND))
    consumer = world.consumer(stream, "c")
    world.refuse = OSError(ENOSPC, "no space")
    world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.commit()
    world.refuse = None

    assert sorted(stream.consumers) == ["c", "m"]


def test_a_stream_that_takes_no_writes_is_not_asked_for_ever_to_remove_a_consumer(
    world: World,
) -> None:
    stream = world.stream()
    world.consumer(stream, inactive_threshold=Nanoseconds(SECOND))
    world.consumer(stream, "p", deliver_subject="d", inactive_threshold=Nanoseconds(SECOND))
    world.refuse = OSError(EIO, "disk error")
    world.publish(stream, b"s.a")
    world.refuse = None

    world.pass_time(5 * SECOND)  # raises when deadlines never end

    assert sorted(stream.consumers) == ["c", "p"]
    assert stream.log.reopen()
    world.engine.reopened(stream)
    world.pass_time(2 * SECOND)
    assert stream.consumers == {}


def test_a_deleted_stream_is_not_kept_for_the_journal_of_its_consumers(world: World) -> None:
    stream = world.stream(storage=Storage.MEMORY)
    consumer = world.consumer(stream)
    world.publish(stream, b"s.a")
    world.pull(b"1")
    assert consumer.state.unsaved

    world.engine.consumers.settle(stream, consumer)
    world.remove(stream)
    other = world.stream("T")
    world.publish(other, b"s.a")
    world.consumer(other, "d")
    world.pull(b"1", key=b"T.d")
    world.pass_time(SECOND)

    assert world.engine.consumer_services.run_queue.unsaved == {}


def test_each_stream_writes_the_journal_of_its_own_consumers(world: World) -> None:
    streams = [world.stream(name) for name in ("S", "T")]
    for stream in streams:
        world.publish(stream, b"s.a")
        world.consumer(stream)
        world.pull(b"1", key=stream.config.name.encode() + b".c")
    run_queue = world.engine.consumer_services.run_queue

    world.publish(streams[0], b"s.a")
    left = list(run_queue.unsaved)
    due = run_queue.save_at
    world.pass_time(50 * MS)

    assert (left, due > 0) == ([streams[1]], True)
    assert (run_queue.unsaved, run_queue.save_at) == ({}, 0)


def test_a_consumer_that_was_saved_and_deleted_is_not_kept(world: World) -> None:
    stream = world.stream()
    consumer = world.consumer(stream)
    world.publish(stream, b"s.a")
    world.pull(b"1")

    world.engine.consumers.settle(stream, consumer)
    world.engine.consumer_services.run_queue.forget_unsaved(consumer.state)

    assert world.engine.consumer_services.run_queue.unsaved == {}


def test_messages_removed_before_a_consumer_exists_do_not_reduce_its_count(world: World) -> None:
    """Messages removed before a consumer was created do not reduce its count."""
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.b")
    consumer = world.consumer(stream, "c")
    # Takes a message out at once, before its own record is durable.
    config = msgspec.structs.replace(stream.config, max_msgs_per_subject=1)
    world.engine.update_stream(stream, config)
    world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.commit()

    later = world.consumer(stream, "d", mem_storage=True, ack_policy=AckPolicy.NONE)
    assert world.info(later).num_pending == 2
    world.publish(stream, b"s.c")

    assert world.info(later).num_pending == 3
    world.pull(b"10", key=b"S.d")
    assert sequences(world.got()) == [1, 3, 4]


def test_only_the_first_record_and_one_after_a_failure_are_complete_states(world: World) -> None:
    """The others have the changes: a complete state may be large."""
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    journal = Journal(world.consumer(stream).state, Wall())

    whole = [journal.next_record(world.now)[0] for _ in range(3)]
    journal.start_again()
    whole += [journal.next_record(world.now)[0] for _ in range(2)]

    assert whole == [True, False, False, True, False]


def test_changes_that_are_larger_than_the_state_end_with_a_complete_one(world: World) -> None:
    """Otherwise a start would have to read more and more of them."""
    stream = world.stream()
    journal = Journal(world.consumer(stream).state, Wall())
    size = 0

    while True:
        whole, body = journal.next_record(world.now)
        if whole and size > 0:
            break
        size += len(body)

    assert CHANGES_MAX < size < 2 * CHANGES_MAX
