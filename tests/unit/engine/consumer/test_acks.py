"""Acknowledgements and redelivery (wire.md, Consumers), on a virtual clock."""

from __future__ import annotations

import json
from errno import ENOSPC
from itertools import pairwise

from tests.unit.engine.consumer.conftest import MS, SECOND, World, Written, sequences, status

from jetspark.api.enums import AckPolicy
from jetspark.engine.consumer.consumer import Consumer


def started(world: World, count: int = 3, **config: object) -> tuple[Consumer, list[Written]]:
    """A consumer that has delivered everything of a stream."""
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * count)
    consumer = world.consumer(stream, **config)
    world.pull(b"%d" % count)
    return consumer, world.got()


def floor(world: World, consumer: Consumer) -> tuple[int, int]:
    found = world.info(consumer).ack_floor
    return found.consumer_seq, found.stream_seq


def test_an_ack_takes_a_message_out_of_pending(world: World) -> None:
    consumer, messages = started(world)

    world.ack(messages[1][1])

    info = world.info(consumer)
    assert info.num_ack_pending == 2
    assert floor(world, consumer) == (0, 0)


def test_the_floor_moves_over_everything_that_is_acknowledged(world: World) -> None:
    consumer, messages = started(world, 5)

    world.ack(messages[1][1])
    world.ack(messages[2][1], b"+ACK")
    world.ack(messages[0][1])
    middle = floor(world, consumer)
    world.ack(messages[3][1])
    world.ack(messages[4][1])

    assert middle == (3, 3)
    assert floor(world, consumer) == (5, 5)


def test_ack_all_takes_everything_before_it(world: World) -> None:
    consumer, messages = started(world, 5, ack_policy=AckPolicy.ALL)

    world.ack(messages[2][1])

    assert world.info(consumer).num_ack_pending == 2
    assert floor(world, consumer) == (3, 3)


def test_without_acks_the_floor_follows_deliveries(world: World) -> None:
    consumer, messages = started(world, 3, ack_policy=AckPolicy.NONE)

    assert floor(world, consumer) == (3, 3)
    assert world.info(consumer).num_ack_pending == 0
    assert not world.ack(messages[0][1])


def test_an_ack_sent_as_a_request_is_answered_when_it_is_durable(world: World) -> None:
    _, messages = started(world)
    key = b"S.c"

    world.engine.deliveries.on_ack(key, messages[0][1], b"", b"_R.ack", world.now)
    before = world.got(b"_R.ack")
    world.turn()

    assert before == []
    assert world.got(b"_R.ack") == [(b"_R.ack", b"", b"", b"")]
    world.crash()
    stream = world.engine.streams["S"]
    assert world.info(stream.consumers["c"]).ack_floor.stream_seq == 1


def test_an_ack_that_cannot_be_written_is_refused_and_not_confirmed(world: World) -> None:
    consumer, messages = started(world)
    world.pass_time(SECOND)
    world.refuse = OSError(ENOSPC, "no space")

    world.ack(messages[0][1], answer_to=b"_R.ack")
    world.refuse = None
    refused = world.got(b"_R.ack")
    world.ack(messages[0][1], answer_to=b"_R.ack")

    status = b"NATS/1.0 503 Acknowledgement Could Not Be Stored\r\n\r\n"
    assert refused == [(b"_R.ack", b"", status, b"")]
    assert world.got(b"_R.ack")[-1] == (b"_R.ack", b"", b"", b"")
    world.crash()
    assert world.info(world.engine.streams["S"].consumers["c"]).ack_floor.stream_seq == 1
    assert consumer.state.pending.count == 2


def test_an_ack_of_something_never_delivered_gets_silence(world: World) -> None:
    consumer, _ = started(world, 3)

    known = world.ack(b"$JS.ACK.S.c.1.9.9.1.0", answer_to=b"_R.ack")

    assert known
    assert world.got(b"_R.ack") == []
    assert world.info(consumer).num_ack_pending == 3


def test_any_other_word_is_ignored_and_answered(world: World) -> None:
    consumer, messages = started(world)

    world.ack(messages[0][1], b"hello", answer_to=b"_R.ack")

    assert len(world.got(b"_R.ack")) == 1
    assert world.info(consumer).num_ack_pending == 3


def test_a_message_that_is_not_acknowledged_in_time_comes_again(world: World) -> None:
    consumer, messages = started(world)
    world.ack(messages[1][1])

    world.pull(b'{"batch":5,"expires":60000000000}')
    world.pass_time(30 * SECOND - 1)
    early = world.got()
    world.pass_time(1)

    again = world.got()
    assert early == []
    assert sequences(again) == [1, 3]
    assert again[0][1].startswith(b"$JS.ACK.S.c.2.1.4.")
    assert again[1][1].startswith(b"$JS.ACK.S.c.2.3.5.")
    assert world.info(consumer).num_redelivered == 2


def test_redelivery_comes_before_new_messages(world: World) -> None:
    consumer, _ = started(world, 2)
    world.publish(consumer.stream, b"s.a", b"s.a")

    world.pass_time(31 * SECOND)
    world.pull(b"4")

    assert sequences(world.got()) == [1, 2, 3, 4]


def test_a_nak_brings_a_message_back_at_once_in_the_order_of_naks(world: World) -> None:
    consumer, messages = started(world, 3, ack_wait=SECOND, backoff=(SECOND, 5 * SECOND))
    world.ack(messages[2][1], b"-NAK")
    world.ack(messages[0][1], b"-NAK")

    world.pull(b"2")

    assert sequences(world.got()) == [3, 1]
    assert len(world.events(b"MSG_NAKED.S.c")) == 2
    assert world.info(consumer).num_ack_pending == 3


def test_a_nak_with_a_delay_waits_that_long(world: World) -> None:
    _, messages = started(world, 2)
    world.ack(messages[0][1], b'-NAK {"delay":2000000000}')
    world.ack(messages[1][1], b"-NAK 1s")
    world.pull(b'{"batch":2,"expires":20000000000}')

    world.pass_time(SECOND - 1)
    nothing = world.got()
    world.pass_time(1)
    first = world.got()
    world.pass_time(SECOND)

    assert nothing == []
    assert sequences(first) == [2]
    assert sequences(world.got()) == [1]


def test_work_in_progress_restarts_the_time(world: World) -> None:
    _, messages = started(world, 2)
    world.pull(b'{"batch":2,"expires":60000000000}')
    world.pass_time(20 * SECOND)

    world.ack(messages[0][1], b"+WPI")
    world.pass_time(10 * SECOND)
    first = world.got()
    world.pass_time(20 * SECOND)

    assert sequences(first) == [2]
    assert sequences(world.got()) == [1]


def test_a_terminated_message_never_comes_again(world: World) -> None:
    consumer, messages = started(world, 2)

    world.ack(messages[0][1], b"+TERM bad input")
    world.pass_time(31 * SECOND)
    world.pull(b"2")

    (event,) = world.events(b"MSG_TERMINATED.S.c")
    assert json.loads(event[4])["reason"] == "bad input"
    assert sequences(world.got()) == [2]
    assert world.info(consumer).num_ack_pending == 1


def test_ack_and_next_asks_for_more(world: World) -> None:
    consumer, messages = started(world, 1)
    world.publish(consumer.stream, b"s.a", b"s.a")

    world.ack(messages[0][1], b'+NXT {"batch":2}', answer_to=b"_R.2")

    assert sequences(world.got(b"_R.2")) == [2, 3]
    assert floor(world, consumer) == (1, 1)


def test_backoff_gives_each_delivery_its_time(world: World) -> None:
    waits = (SECOND, 3 * SECOND, 10 * SECOND)
    _, _ = started(world, 1, ack_wait=SECOND, backoff=waits)
    world.pull(b'{"batch":9,"expires":600000000000}')
    seen = []

    for _ in range(40):
        world.pass_time(500 * MS)
        seen += [world.now] * len(world.got())

    gaps = [later - earlier for earlier, later in pairwise(seen)]
    assert gaps == [3 * SECOND, 10 * SECOND]


def test_a_message_delivered_often_enough_is_given_up(world: World) -> None:
    consumer, _ = started(world, 2, max_deliver=2, ack_wait=SECOND)

    world.pass_time(SECOND)
    world.pull(b"2")
    again = world.got()
    world.pass_time(SECOND)
    stays = world.info(consumer).num_ack_pending
    world.pull(b'{"batch":2,"no_wait":true}')

    assert sequences(again) == [1, 2]
    assert stays == 2
    assert [status(message) for message in world.got()] == [b"404 No Messages"]
    events = world.events(b"MAX_DELIVERIES.S.c")
    assert [json.loads(event[4])["stream_seq"] for event in events] == [1, 2]
    assert [json.loads(event[4])["deliveries"] for event in events] == [2, 2]
    assert world.info(consumer).num_ack_pending == 0
    assert world.info(consumer).num_redelivered == 2


def test_max_ack_pending_stops_deliveries_until_one_is_acknowledged(world: World) -> None:
    consumer, _ = started(world, 1, max_ack_pending=2)
    world.publish(consumer.stream, b"s.a", b"s.a")
    world.pull(b'{"batch":5,"expires":10000000000}')
    first = world.got()

    world.ack(first[0][1])

    assert sequences(first) == [2]
    assert sequences(world.got()) == [3]


def test_a_request_that_does_not_wait_is_not_over_at_max_ack_pending(world: World) -> None:
    consumer, _ = started(world, 1, max_ack_pending=1)
    world.publish(consumer.stream, b"s.a")

    world.pull(b'{"batch":1,"no_wait":true}')

    assert world.got() == []
    assert world.info(consumer).num_waiting == 1


def test_samples_report_how_long_acks_take(world: World) -> None:
    _, messages = started(world, 2, sample_freq="100")
    world.pass_time(250 * MS)

    world.ack(messages[0][1])

    (metric,) = world.events(b"METRIC.CONSUMER.ACK.S.c")
    assert json.loads(metric[4])["ack_time"] == 250 * MS
    assert json.loads(metric[4])["stream_seq"] == 1


def test_a_deleted_message_is_not_pending_any_more(world: World) -> None:
    consumer, _ = started(world, 3)

    consumer.stream.log.staged.delete(1)
    world.engine.mark_dirty(consumer.stream)
    world.turn()

    (event,) = world.events(b"MSG_TERMINATED.S.c")
    assert json.loads(event[4])["reason"] == "unacknowledged message was deleted"
    assert world.info(consumer).num_ack_pending == 2
    assert floor(world, consumer) == (1, 1)


def test_a_purged_stream_leaves_nothing_pending(world: World) -> None:
    consumer, _ = started(world, 3)

    consumer.stream.log.staged.purge(0, b"", 0)
    world.engine.mark_dirty(consumer.stream)
    world.turn()

    info = world.info(consumer)
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    assert floor(world, consumer) == (3, 3)


def test_reset_delivers_again_from_a_sequence(world: World) -> None:
    consumer, messages = started(world, 4)
    world.ack(messages[0][1])

    start = world.engine.consumers.reset(consumer.stream, consumer, 2, world.now)
    info = world.info(consumer)
    world.pull(b"4")

    assert start == 2
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (0, 1)
    assert (info.num_ack_pending, info.num_pending) == (0, 3)
    assert sequences(world.got()) == [2, 3, 4]


def test_reset_without_a_sequence_goes_back_to_the_floor(world: World) -> None:
    consumer, messages = started(world, 4)
    world.ack(messages[0][1])

    start = world.engine.consumers.reset(consumer.stream, consumer, 0, world.now)

    assert start == 2
    assert world.info(consumer).num_pending == 3


def test_ack_all_forgets_what_was_given_up_before_it(world: World) -> None:
    consumer, messages = started(
        world, 3, ack_policy=AckPolicy.ALL, max_deliver=1, ack_wait=SECOND
    )
    world.pass_time(SECOND)
    world.publish(consumer.stream, b"s.a")
    world.pull(b"1")
    (newest,) = world.got()

    world.ack(newest[1])

    assert len(messages) == 3
    assert consumer.state.spent == {}
