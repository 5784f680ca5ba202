"""Push consumers: interest, heartbeats, flow control, pace (wire.md, Consumers)."""

from __future__ import annotations

from itertools import pairwise

from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences, status

from jetspark.api.enums import AckPolicy, ReplayPolicy
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.push import FLOW_WINDOW_FIRST
from jetspark.engine.stream.stream import Stream


def pushed(world: World, stream: Stream, **config: object) -> Consumer:
    values: dict[str, object] = {
        "deliver_subject": "d",
        "max_waiting": 0,
        "ack_policy": AckPolicy.NONE,
        "ack_wait": 0,
        "max_ack_pending": 0,
    }
    values.update(config)
    return world.consumer(stream, **values)


def test_nothing_is_delivered_before_a_subscriber_exists(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b")
    consumer = pushed(world, stream)
    before = (world.info(consumer).push_bound, world.info(consumer).num_pending)

    inbox = world.bind(b"d")

    messages = inbox.take()
    assert before == (False, 2)
    assert sequences(messages) == [1, 2]
    assert messages[0][0] == b"s.a"
    assert world.info(consumer).push_bound


def test_messages_follow_as_they_become_durable(world: World) -> None:
    stream = world.stream()
    pushed(world, stream)
    inbox = world.bind(b"d")

    world.publish(stream, b"s.a")
    world.turn()

    assert sequences(inbox.take()) == [1]


def test_nothing_is_delivered_after_the_last_unsubscribe(world: World) -> None:
    stream = world.stream()
    consumer = pushed(world, stream)
    inbox = world.bind(b"d")
    world.unbind(b"d")

    world.publish(stream, b"s.a")
    world.turn()
    again = world.bind(b"d")

    assert inbox.take() == []
    assert sequences(again.take()) == [1]
    assert world.info(consumer).push_bound


def test_a_deliver_group_needs_interest_of_the_group(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    consumer = pushed(world, stream, deliver_group="g")

    plain = world.bind(b"d")
    bound = world.info(consumer).push_bound
    member = world.bind(b"d", b"g")

    assert not bound
    assert plain.take() == []
    assert sequences(member.take()) == [1]


def test_an_unbound_ephemeral_consumer_is_removed(world: World) -> None:
    stream = world.stream()
    pushed(world, stream, inactive_threshold=5 * SECOND)
    world.bind(b"d")
    world.pass_time(60 * SECOND)
    there = "c" in stream.consumers

    world.unbind(b"d")
    world.pass_time(5 * SECOND - 1)
    still = "c" in stream.consumers
    world.pass_time(1)

    assert (there, still) == (True, True)
    assert stream.consumers == {}


def test_an_idle_consumer_sends_heartbeats(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    pushed(world, stream, idle_heartbeat=SECOND, filter_subject="s.a")
    inbox = world.bind(b"d")
    inbox.take()

    world.pass_time(600 * MS)
    world.publish(stream, b"s.a")
    world.turn()
    inbox.take()
    world.pass_time(SECOND - 2)
    early = inbox.take()
    world.pass_time(2)

    (beat,) = inbox.take()
    assert early == []
    assert beat[2] == (
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    )
    assert beat[:2] == (b"d", b"")


def test_flow_control_asks_at_half_the_window_and_stops_at_the_whole(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 30, payload=b"x" * 200_000)
    consumer = pushed(world, stream, flow_control=True, idle_heartbeat=SECOND)
    inbox = world.bind(b"d")

    messages = inbox.take()
    (question,) = [m for m in messages if m[2].startswith(b"NATS/1.0 100 FlowControl Request")]
    sent = sum(len(m[3]) for m in messages)
    assert question[1].startswith(b"$JS.FC.S.c.")
    assert FLOW_WINDOW_FIRST < sent < FLOW_WINDOW_FIRST + 400_000

    world.pass_time(SECOND)
    (beat,) = inbox.take()
    assert b"Nats-Consumer-Stalled: " + question[1] in beat[2]

    world.engine.deliveries.confirmed(b"S.c", question[1])
    world.turn()
    more = inbox.take()
    assert consumer.delivery.window == 2 * FLOW_WINDOW_FIRST
    assert sum(len(m[3]) for m in more) > FLOW_WINDOW_FIRST // 2


def test_an_old_answer_confirms_nothing(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * 30, payload=b"x" * 200_000)
    pushed(world, stream, flow_control=True, idle_heartbeat=SECOND)
    inbox = world.bind(b"d")
    inbox.take()

    world.engine.deliveries.confirmed(b"S.c", b"$JS.FC.S.c.WRONG")
    world.turn()

    assert inbox.take() == []


def test_a_full_receiver_gets_the_rest_later(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.a")
    pushed(world, stream)
    inbox = world.bind(b"d")
    inbox.take()
    inbox.is_full = True
    world.publish(stream, b"s.a")
    world.turn()
    before = inbox.take()

    inbox.is_full = False
    world.engine.unstall()
    world.turn()

    assert before == []
    assert sequences(inbox.take()) == [3]


def test_headers_only_says_how_large_the_message_is(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", payload=b"x" * 42)
    pushed(world, stream, headers_only=True)

    (message,) = world.bind(b"d").take()

    assert message[2] == b"NATS/1.0\r\nNats-Msg-Size: 42\r\n\r\n"
    assert message[3] == b""


def test_a_rate_limit_spreads_messages_in_time(world: World) -> None:
    stream = world.stream(max_msg_size=1000)
    world.publish(stream, *[b"s.a"] * 4, payload=b"x" * 900)
    pushed(world, stream, rate_limit_bps=8_000)
    inbox = world.bind(b"d")
    times = [world.now] * len(inbox.take())

    for _ in range(60):
        world.pass_time(100 * MS)
        times += [world.now] * len(inbox.take())

    gaps = [(later - first) / SECOND for first, later in pairwise(times)]
    assert len(times) == 4
    assert 0.8 <= gaps[1] <= 1.1
    assert 0.8 <= gaps[2] <= 1.1


def test_replay_keeps_the_distance_in_time(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    world.now += 2 * SECOND
    world.publish(stream, b"s.a")
    pushed(world, stream, replay_policy=ReplayPolicy.ORIGINAL)
    inbox = world.bind(b"d")
    first = inbox.take()

    world.pass_time(2 * SECOND - MS)
    early = inbox.take()
    world.pass_time(2 * MS)
    second = inbox.take()
    world.publish(stream, b"s.a")
    world.turn()

    assert sequences(first) == [1]
    assert early == []
    assert sequences(second) == [2]
    assert sequences(inbox.take()) == [3]


def test_a_paused_consumer_sends_nothing_until_its_time(world: World) -> None:
    import msgspec

    from jetspark.api.base import Timestamp

    stream = world.stream()
    consumer = pushed(world, stream)
    inbox = world.bind(b"d")
    config = msgspec.structs.replace(
        consumer.config, pause_until=Timestamp(world.now + 10 * SECOND)
    )

    world.engine.consumers.update(stream, consumer, config, world.now, world.outbox)
    world.turn()
    world.publish(stream, b"s.a")
    world.turn()
    world.pass_time(10 * SECOND - 2)
    before = inbox.take()
    paused = world.info(consumer)
    world.pass_time(2)

    assert before == []
    assert (paused.paused, paused.pause_remaining) == (True, 1)
    assert len(world.events(b"CONSUMER.PAUSE.S.c")) == 1
    assert sequences(inbox.take()) == [1]


def test_a_paused_pull_consumer_still_answers_expired_requests(world: World) -> None:
    from jetspark.api.base import Timestamp

    stream = world.stream()
    world.publish(stream, b"s.a")
    world.consumer(stream, pause_until=Timestamp(world.now + 10 * SECOND))

    world.pull(b'{"batch":1,"expires":1000000000}')
    world.pass_time(2 * SECOND)

    assert [status(message) for message in world.got()] == [b"408 Request Timeout"]


def test_push_acks_and_redelivery(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.a")
    pushed(world, stream, ack_policy=AckPolicy.EXPLICIT, ack_wait=SECOND, max_ack_pending=10)
    inbox = world.bind(b"d")
    world.ack(inbox.take()[0][1])

    world.pass_time(SECOND)

    assert sequences(inbox.take()) == [2]


def test_a_new_deliver_subject_is_used(world: World) -> None:
    import msgspec

    stream = world.stream()
    consumer = pushed(world, stream)
    old = world.bind(b"d")
    new = world.bind(b"e")
    config = msgspec.structs.replace(consumer.config, deliver_subject="e")

    world.engine.consumers.update(stream, consumer, config, world.now, world.outbox)
    world.publish(stream, b"s.a")
    world.turn()

    assert old.take() == []
    assert sequences(new.take()) == [1]
