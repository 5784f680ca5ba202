"""Pull requests and their statuses (wire.md, Consumers), on a virtual clock."""

from __future__ import annotations

from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences, status


def test_a_request_gets_as_many_messages_as_it_asks_for(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c")
    world.consumer(stream)

    world.pull(b"2")

    first, second = world.got()
    assert first[0] == b"s.a"
    assert first[1].startswith(b"$JS.ACK.S.c.1.1.1.")
    assert first[1].endswith(b".2")
    assert second[1].startswith(b"$JS.ACK.S.c.1.2.2.")
    assert (first[2], first[3]) == (b"", b"x")


def test_an_empty_body_and_any_text_ask_for_one_message(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c")
    world.consumer(stream)

    world.pull(b"")
    world.pull(b"please")

    assert sequences(world.got()) == [1, 2]


def test_a_request_waits_for_messages_to_come(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)
    world.pull(b'{"batch":2,"expires":1000000000}')

    world.publish(stream, b"s.a")
    world.turn()
    first = world.got()
    world.publish(stream, b"s.b")
    world.turn()

    assert sequences(first) == [1]
    assert sequences(world.got()) == [2]


def test_nothing_is_delivered_before_it_is_durable(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)
    world.pull(b'{"batch":1,"expires":1000000000}')
    stream.publish_checked(b"s.a", b"", b"", b"x\r\n", world.now, world.outbox)
    world.engine.mark_dirty(stream)

    world.engine.advance(world.now, world.outbox)
    before = world.got()
    world.turn()

    assert before == []
    assert sequences(world.got()) == [1]


def test_a_request_that_does_not_wait_gets_404_for_nothing(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)

    world.pull(b'{"batch":5,"no_wait":true}')

    (message,) = world.got()
    assert message[2] == b"NATS/1.0 404 No Messages\r\n\r\n"


def test_a_partly_filled_request_that_does_not_wait_ends_with_404(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b")
    consumer = world.consumer(stream)

    world.pull(b'{"batch":5,"no_wait":true}')

    *messages, last = world.got()
    assert sequences(messages) == [1, 2]
    assert status(last) == b"404 No Messages"
    assert world.info(consumer).num_waiting == 0


def test_no_wait_with_expires_waits_and_ends_with_408(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)

    world.pull(b'{"batch":5,"no_wait":true,"expires":1000000000}')
    before = world.got()
    world.pass_time(2 * SECOND)

    assert before == []
    assert [status(message) for message in world.got()] == [b"408 Request Timeout"]


def test_a_request_that_is_over_says_what_it_did_not_get(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream)

    world.pull(b'{"batch":5,"expires":1000000000,"max_bytes":100000}')
    world.pass_time(SECOND - 1)
    before = [status(message) for message in world.got() if not message[1]]
    world.pass_time(1)

    (last,) = world.got()
    assert before == []
    assert last[2].startswith(b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 4\r\n")
    assert b"Nats-Pending-Bytes: 999" in last[2]


def test_a_message_that_does_not_fit_ends_the_request(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", payload=b"x" * 500)
    consumer = world.consumer(stream)

    world.pull(b'{"batch":5,"expires":1000000000,"max_bytes":100}')

    (message,) = world.got()
    assert message[2] == (
        b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n"
        b"Nats-Pending-Messages: 5\r\nNats-Pending-Bytes: 100\r\n\r\n"
    )
    assert world.info(consumer).num_pending == 1


def test_a_filled_request_with_bytes_left_says_batch_completed(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream)

    world.pull(b'{"batch":1,"max_bytes":10000}')

    message, last = world.got()
    left = 10000 - sum(map(len, message))
    assert status(last) == b"409 Batch Completed"
    assert b"Nats-Pending-Messages: 0\r\nNats-Pending-Bytes: %d\r\n" % left in last[2]


def test_heartbeats_come_while_a_request_waits(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream)

    world.pull(b'{"batch":2,"expires":1000000000,"idle_heartbeat":300000000}')
    world.got()
    world.pass_time(700 * MS)

    beats = world.got()
    assert [status(message) for message in beats] == [b"100 Idle Heartbeat"] * 2
    assert b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n" in beats[0][2]


def test_a_heartbeat_of_more_than_half_the_time_is_refused(world: World) -> None:
    world.consumer(world.stream())

    world.pull(b'{"batch":2,"expires":1000,"idle_heartbeat":501}')

    assert [status(m) for m in world.got()] == [b"400 Bad Request - heartbeat value too large"]


def test_limits_of_the_consumer_are_named(world: World) -> None:
    stream = world.stream()
    world.consumer(stream, max_batch=10, max_expires=SECOND, max_bytes=100, max_waiting=1)

    world.pull(b'{"batch":11}')
    world.pull(b'{"batch":1,"expires":2000000000}')
    world.pull(b'{"batch":1,"max_bytes":101}')
    world.pull(b'{"batch":1,"expires":1000000000}')
    world.pull(b'{"batch":1,"expires":1000000000}')

    assert [status(message) for message in world.got()] == [
        b"409 Exceeded MaxRequestBatch of 10",
        b"409 Exceeded MaxRequestExpires of 1s",
        b"409 Exceeded MaxRequestMaxBytes of 100",
        b"409 Exceeded MaxWaiting",
    ]


def test_broken_json_is_a_bad_request(world: World) -> None:
    world.consumer(world.stream())

    world.pull(b'{"batch":')

    assert [status(m)[:18] for m in world.got()] == [b"400 Bad Request - "]


def test_requests_are_served_in_turn_one_message_each(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)
    for reply in (b"_R.1", b"_R.2", b"_R.3"):
        world.pull(b'{"batch":2,"expires":1000000000}', reply)

    world.publish(stream, *[b"s.a"] * 6)
    world.turn()

    assert sequences(world.got(b"_R.1")) == [1, 4]
    assert sequences(world.got(b"_R.2")) == [2, 5]
    assert sequences(world.got(b"_R.3")) == [3, 6]


def test_a_request_without_a_subscriber_consumes_no_message(world: World) -> None:
    stream = world.stream()
    consumer = world.consumer(stream)
    world.pull(b'{"batch":1,"expires":1000000000}', b"_R.gone")
    world.pull(b'{"batch":1,"expires":1000000000}')
    world.inboxes[b"_R.gone"].is_gone = True

    world.publish(stream, b"s.a")
    world.turn()

    assert sequences(world.got()) == [1]
    assert world.got(b"_R.gone") == []
    assert world.info(consumer).num_ack_pending == 1


def test_a_receiver_with_enough_waiting_gets_the_rest_later(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 3)
    world.consumer(stream)
    world.inboxes.setdefault(b"_R.1", type(world.inbox(b"_R.1"))()).is_full = True  # type: ignore[misc]
    world.pull(b"3")
    before = world.got()

    world.inboxes[b"_R.1"].is_full = False
    assert world.engine.unstall()
    world.turn()

    assert before == []
    assert sequences(world.got()) == [1, 2, 3]


def test_one_turn_sends_no_more_than_its_budget(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 2500)
    world.consumer(stream, max_ack_pending=-1)
    world.engine.deliveries.pull(b"S.c", b"", b"2500", b"_R.1", world.now, world.outbox)

    assert world.engine.advance(world.now, world.outbox)
    first = len(world.got())
    assert world.engine.advance(world.now, world.outbox)
    second = len(world.got())
    world.turn()

    assert (first, second, len(world.got())) == (1000, 1000, 500)


def test_a_deleted_consumer_tells_those_who_wait(world: World) -> None:
    stream = world.stream()
    consumer = world.consumer(stream)
    world.pull(b'{"batch":1,"expires":1000000000}')

    world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.turn()

    assert [status(message) for message in world.got()] == [b"409 Consumer Deleted"]
    assert not world.engine.deliveries.pull(b"S.c", b"", b"", b"_R.1", world.now, world.outbox)


def test_a_request_that_came_with_an_ack_is_notified_that_its_consumer_was_deleted(
    world: World,
) -> None:
    """It waits for the next turn, and the consumer may go before that."""
    stream = world.stream()
    consumer = world.consumer(stream)
    world.publish(stream, b"s.a", b"s.b")
    world.pull(b"1")
    ((_, reply, _, _),) = world.got()

    world.engine.deliveries.on_ack(b"S.c", reply, b"+NXT", b"_R.1", world.now)
    world.engine.consumers.drop(stream, consumer, world.now, world.outbox)
    world.turn()

    assert [status(message) for message in world.got()] == [b"409 Consumer Deleted"]
    assert world.engine.failures.count == 0


def test_a_deleted_stream_tells_those_who_wait(world: World) -> None:
    stream = world.stream()
    world.consumer(stream)
    world.pull(b'{"batch":1,"expires":1000000000}')

    world.remove(stream)

    assert [status(message) for message in world.got()] == [b"409 Consumer Deleted"]


def test_a_push_consumer_takes_no_requests(world: World) -> None:
    stream = world.stream()
    world.consumer(stream, deliver_subject="d", max_waiting=0)

    world.pull(b"1")

    assert [status(message) for message in world.got()] == [b"409 Consumer is push based"]


def test_an_idle_ephemeral_consumer_is_removed(world: World) -> None:
    stream = world.stream()
    world.consumer(stream, inactive_threshold=5 * SECOND)
    world.pass_time(3 * SECOND)
    world.pull(b'{"batch":1,"no_wait":true}')

    world.pass_time(4 * SECOND)
    there = "c" in stream.consumers
    world.pass_time(2 * SECOND)
    world.crash()

    assert there
    assert world.engine.streams["S"].consumers == {}


def test_a_waiting_request_keeps_a_consumer(world: World) -> None:
    stream = world.stream()
    world.consumer(stream, inactive_threshold=5 * SECOND)
    world.pull(b'{"batch":1,"expires":60000000000}')

    world.pass_time(30 * SECOND)

    assert "c" in stream.consumers


def test_a_message_that_cannot_be_read_is_skipped_and_reported(world: World) -> None:
    stream = world.stream()
    for _ in range(3):
        world.publish(stream, b"s.a", payload=b"x" * 9000)
    consumer = world.consumer(stream)
    stream.log.reader.cache.budget = 0
    world.crash()
    stream = world.engine.streams["S"]
    consumer = stream.consumers["c"]
    columns = stream.log.index.segments[0]
    where = int(columns.offset_at(1))
    world.files.write_synced(int(columns.handle), [b"damaged!"], where + 60)

    world.pull(b"3")

    assert sequences(world.got()) == [1, 3]
    assert len(world.events(b"MSG_TERMINATED.S.c")) == 1
    world.pull(b'{"batch":5,"expires":60000000000}')
    world.pass_time(31 * SECOND)
    assert sequences(world.got()) == [1, 3]
    assert world.info(consumer).num_ack_pending == 2
