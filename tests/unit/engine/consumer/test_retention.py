"""Interest and work queue retention (wire.md, Publishing): what no one needs is not kept."""

from __future__ import annotations

import errno

import msgspec
import pytest
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences

from jetspark.api.enums import AckPolicy, DeliverPolicy, Retention
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream


def kept(stream: Stream) -> list[int]:
    index = stream.log.index
    found = []
    seq = int(index.next_seq(1, b""))
    while seq:
        found.append(seq)
        seq = int(index.next_seq(seq + 1, b""))
    return found


def acked(world: World, count: int, key: bytes = b"S.c") -> None:
    world.pull(b"%d" % count, key=key)
    for message in world.got():
        world.ack(message[1])


@pytest.fixture
def interest(world: World) -> Stream:
    return world.stream(retention=Retention.INTEREST)


@pytest.fixture
def queue(world: World) -> Stream:
    return world.stream(retention=Retention.WORKQUEUE)


def test_a_work_queue_removes_what_is_acknowledged(world: World, queue: Stream) -> None:
    world.publish(queue, *[b"s.a"] * 4)
    world.consumer(queue)

    world.pull(b"3")
    messages = world.got()
    world.ack(messages[2][1])
    world.ack(messages[0][1], b"+TERM")

    assert kept(queue) == [2, 4]
    world.crash()
    assert kept(world.engine.streams["S"]) == [2, 4]


def test_a_work_queue_keeps_messages_without_a_request(world: World, queue: Stream) -> None:
    consumer = world.consumer(queue, filter_subject="s.a")
    world.publish(queue, b"s.a", b"s.b")
    acked(world, 1)

    world.engine.consumers.drop(queue, consumer, world.now, world.outbox)
    world.turn()

    assert kept(queue) == [2]


def test_a_work_queue_keeps_what_a_reset_passes_over(world: World, queue: Stream) -> None:
    """No one acknowledged it; after a reset back it is delivered."""
    world.publish(queue, *[b"s.a"] * 6)
    consumer = world.consumer(queue)
    world.pull(b"2")
    world.ack(world.got()[1][1])

    world.engine.consumers.reset(queue, consumer, 5, world.now)
    world.commit()

    assert kept(queue) == [1, 3, 4, 5, 6]
    world.crash()
    queue = world.engine.streams["S"]
    assert kept(queue) == [1, 3, 4, 5, 6]
    acked(world, 1)
    assert kept(queue) == [1, 3, 4, 6]

    world.engine.consumers.reset(queue, queue.consumers["c"], 1, world.now)
    world.commit()
    acked(world, 4)

    assert kept(queue) == []


def test_interest_keeps_nothing_without_consumers(world: World, interest: Stream) -> None:
    interest.publish_checked(b"s.a", b"_R.pub", b"", b"x\r\n", world.now, world.outbox)
    world.engine.mark_dirty(interest)
    world.turn()

    (answer,) = world.got(b"_R.pub")
    assert answer[3] == b'{"stream":"S","seq":1}'
    assert kept(interest) == []
    assert interest.log.index.last_seq == 1
    world.crash()
    assert world.engine.streams["S"].log.index.last_seq == 1


def test_interest_keeps_only_what_a_filter_wants(world: World, interest: Stream) -> None:
    world.consumer(interest, filter_subject="s.a")

    world.publish(interest, b"s.a", b"s.b", b"s.a")

    assert kept(interest) == [1, 3]


def test_interest_removes_messages_that_all_consumers_acknowledged(
    world: World, interest: Stream
) -> None:
    world.consumer(interest, "c")
    world.consumer(interest, "e")
    world.publish(interest, *[b"s.a"] * 3)

    acked(world, 3, b"S.c")
    before = kept(interest)
    acked(world, 2, b"S.e")

    assert before == [1, 2, 3]
    assert kept(interest) == [3]


def test_the_last_consumer_takes_everything_along(world: World, interest: Stream) -> None:
    first = world.consumer(interest, "c")
    second = world.consumer(interest, "e")
    world.publish(interest, *[b"s.a"] * 3)
    acked(world, 2, b"S.c")

    world.engine.consumers.drop(interest, second, world.now, world.outbox)
    world.turn()
    middle = kept(interest)
    world.engine.consumers.drop(interest, first, world.now, world.outbox)
    world.turn()

    assert middle == [3]
    assert kept(interest) == []


def test_other_filters_release_messages(world: World, interest: Stream) -> None:
    consumer = world.consumer(interest, filter_subject="s.*")
    world.publish(interest, b"s.a", b"s.b")
    config = msgspec.structs.replace(consumer.config, filter_subject="s.b")

    world.engine.consumers.update(interest, consumer, config, world.now, world.outbox)
    world.turn()

    assert kept(interest) == [2]


def test_without_acks_a_delivery_is_enough(world: World, interest: Stream) -> None:
    world.consumer(interest, ack_policy=AckPolicy.NONE)
    world.publish(interest, b"s.a", b"s.b")

    world.pull(b"1")

    assert kept(interest) == [2]


def test_ack_all_releases_everything_before(world: World, interest: Stream) -> None:
    world.consumer(interest, ack_policy=AckPolicy.ALL)
    world.publish(interest, *[b"s.a"] * 4)
    world.pull(b"3")

    world.ack(world.got()[1][1])

    assert kept(interest) == [3, 4]


def test_a_message_given_up_stays(world: World, queue: Stream) -> None:
    world.consumer(queue, max_deliver=1, ack_wait=SECOND)
    world.publish(queue, b"s.a", b"s.b")
    world.pull(b"1")

    world.pass_time(SECOND)
    world.pull(b'{"batch":5,"no_wait":true}')

    assert kept(queue) == [1, 2]


def test_an_ack_that_was_durable_without_its_removal_is_made_good(
    world: World, queue: Stream
) -> None:
    consumer = world.consumer(queue)
    world.publish(queue, *[b"s.a"] * 3)
    consumer.state.keeps_interest = False  # so that the removal is lost
    acked(world, 2)
    world.pass_time(100 * MS)
    before = kept(queue)

    world.crash()
    world.turn()

    assert before == [1, 2, 3]
    assert kept(world.engine.streams["S"]) == [3]


def test_a_consumer_that_starts_later_needs_nothing_older(world: World, interest: Stream) -> None:
    world.consumer(interest, "c")
    world.publish(interest, b"s.a", b"s.a")
    world.consumer(interest, "e", deliver_policy=DeliverPolicy.NEW)

    acked(world, 2, b"S.c")

    assert kept(interest) == []


def test_what_is_removed_is_seen_until_that_is_durable(world: World, queue: Stream) -> None:
    world.consumer(queue)
    world.publish(queue, b"s.a")
    world.pull(b"1")
    (message,) = world.got()

    world.engine.deliveries.on_ack(b"S.c", message[1], b"", b"", world.now)
    world.engine.advance(world.now, world.outbox)
    staged = kept(queue)
    world.turn()

    assert staged == [1]
    assert kept(queue) == []


def test_acks_out_of_order_go_as_ranges(world: World, queue: Stream) -> None:
    world.consumer(queue)
    world.publish(queue, *[b"s.a"] * 10)
    world.pull(b"10")
    messages = world.got()
    position = queue.log.staged.position

    for n in (4, 2, 3, 8, 7):
        world.engine.deliveries.on_ack(b"S.c", messages[n][1], b"", b"", world.now)
    world.turn()

    assert kept(queue) == [1, 2, 6, 7, 10]
    assert queue.log.staged.position - position <= 3
    assert sequences(messages) == list(range(1, 11))


def test_an_answered_ack_means_that_the_message_is_deleted(world: World, queue: Stream) -> None:
    world.consumer(queue)
    world.publish(queue, b"s.a", b"s.b")
    world.pull(b"1")
    (message,) = world.got()

    world.engine.deliveries.on_ack(b"S.c", message[1], b"", b"_R.ack", world.now)
    while not world.got(b"_R.ack"):
        world.commit()

    assert kept(queue) == [2]


def test_a_consumer_created_after_the_last_one_left_does_not_see_messages_without_interest(
    world: World,
) -> None:
    """The answer to CONSUMER.DELETE means that the messages are deleted, too."""
    stream = world.stream(retention="interest")
    first = world.consumer(stream, "first")
    world.consumer(stream, "other", filter_subject="s.b")
    world.publish(stream, b"s.a", b"s.b")
    world.engine.consumers.drop(stream, first, world.now, world.outbox)
    world.commit()

    assert stream.log.index.messages == 1
    assert world.info(world.consumer(stream, "second")).num_pending == 1


def test_a_removal_that_the_disk_refused_is_decided_again(world: World, queue: Stream) -> None:
    """No one would ask for it: the consumer is done with the message."""
    world.publish(queue, *[b"s.a"] * 3)
    world.consumer(queue)
    world.pull(b"2")
    first, second = world.got()

    world.refuse = OSError(errno.ENOSPC, "no space")
    world.ack(first[1])
    world.refuse = None
    world.ack(second[1])
    world.pass_time(5 * SECOND)

    assert kept(queue) == [3]


def test_what_was_acknowledged_while_the_disk_refused_goes_when_it_is_back(
    world: World, queue: Stream
) -> None:
    world.publish(queue, *[b"s.a"] * 3)
    world.consumer(queue)
    world.pull(b"2")
    first, second = world.got()

    world.refuse = OSError(errno.EIO, "broken")
    world.ack(first[1])
    assert queue.log.access.failed
    world.ack(second[1])
    world.refuse = None
    assert queue.log.reopen()
    world.engine.reopened(queue)
    world.pass_time(5 * SECOND)

    assert kept(queue) == [3]


def test_refused_removals_are_not_tried_again_at_once(world: World, queue: Stream) -> None:
    """A disk that refuses is not asked as fast as it can refuse."""
    world.publish(queue, b"s.a")
    world.consumer(queue)
    world.pull(b"1")
    (message,) = world.got()
    world.refuse = OSError(errno.EDQUOT, "quota")

    world.ack(message[1])
    world.pass_time(10 * SECOND)  # raises when deadlines never end

    assert kept(queue) == [1]


def many_unwanted(world: World, retention: Retention, count: int = 9_000) -> Stream:
    """A stream that takes several turns to be searched, and consumers that want nothing of it."""
    stream = world.stream(retention=retention)
    wanted = {"filter_subject": "s.a"} if retention == Retention.INTEREST else {}
    world.consumer(stream, "all", **wanted)
    for number in range(40):
        world.consumer(stream, f"c{number}", filter_subject="s.none")
    for _ in range(count):
        stream.log.staged.add_message(b"s.a", 0, b"x\r\n", world.now)
    world.engine.mark_dirty(stream)
    world.commit()
    assert len(kept(stream)) == count
    return stream


def update(world: World, retention: bytes) -> None:
    body = b'{"name":"S","subjects":["s.>"],"retention":"%b"}' % retention
    handle(world.engine, b"STREAM.UPDATE.S", body, b"_U", world.now, world.outbox)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_change_to_interest_that_the_disk_refused_removes_nothing(
    world: World, code: int
) -> None:
    stream = many_unwanted(world, Retention.LIMITS)
    world.engine.consumers.drop(stream, stream.consumers["all"], world.now, world.outbox)
    world.turn()

    update(world, b"interest")
    world.refuse = OSError(code, "no")
    world.commit()
    world.refuse = None
    world.turn()

    assert b"error" in world.got(b"_U")[0][3]
    assert len(kept(stream)) == 9_000
    world.crash()
    assert len(kept(world.engine.streams["S"])) == 9_000


def test_a_change_to_limits_keeps_what_was_not_removed_yet(world: World) -> None:
    """The last consumer that needed the messages left just before."""
    stream = many_unwanted(world, Retention.INTEREST)
    world.engine.consumers.drop(stream, stream.consumers["all"], world.now, world.outbox)

    update(world, b"limits")
    world.commit()
    answered = len(kept(stream))
    world.turn()

    assert b"error" not in world.got(b"_U")[0][3]
    assert 0 < answered < 9_000
    assert len(kept(stream)) == answered
