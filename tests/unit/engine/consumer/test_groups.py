"""Priority groups: overflow, prioritized, pinned client (wire.md, Consumers)."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.unit.engine.consumer.conftest import SECOND, World, sequences, status

from jetspark.api.enums import PriorityPolicy
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.stream.stream import Stream


def grouped(world: World, stream: Stream, policy: PriorityPolicy) -> Consumer:
    return world.consumer(
        stream, priority_policy=policy, priority_groups=("g",), priority_timeout=5 * SECOND
    )


def body(**fields: object) -> bytes:
    return json.dumps({"batch": 1, "expires": 60 * SECOND, "group": "g", **fields}).encode()


def test_a_request_without_its_group_is_refused(world: World) -> None:
    grouped(world, world.stream(), PriorityPolicy.OVERFLOW)

    world.pull(body(group=""))
    world.pull(body(group="other"))
    world.pull(body(id="x"))
    world.pull(body(priority=10))

    assert [status(message) for message in world.got()] == [
        b"400 Bad Request - Priority Group missing",
        b"400 Bad Request - Invalid Priority Group",
        b"400 Bad Request - Not a Pinned Client Priority consumer",
        b"400 Bad Request - Priority must be between 0 and 9",
    ]


def test_limits_of_overflow_belong_to_overflow(world: World) -> None:
    world.consumer(world.stream())

    world.pull(body(group="", min_pending=3))

    assert [status(m) for m in world.got()] == [
        b"400 Bad Request - Not a Overflow Priority consumer"
    ]


def test_overflow_serves_a_request_only_when_enough_is_pending(world: World) -> None:
    stream = world.stream()
    grouped(world, stream, PriorityPolicy.OVERFLOW)
    world.pull(body(min_pending=3), b"_R.over")
    world.publish(stream, b"s.a", b"s.a")
    world.turn()
    early = world.got(b"_R.over")

    world.publish(stream, b"s.a")
    world.turn()

    assert early == []
    assert sequences(world.got(b"_R.over")) == [1]


def test_overflow_lets_a_request_without_limits_pass(world: World) -> None:
    stream = world.stream()
    grouped(world, stream, PriorityPolicy.OVERFLOW)
    world.pull(body(min_pending=100), b"_R.over")
    world.pull(body())

    world.publish(stream, b"s.a")
    world.turn()

    assert sequences(world.got()) == [1]
    assert world.got(b"_R.over") == []


def test_overflow_counts_unacknowledged_messages_too(world: World) -> None:
    stream = world.stream()
    grouped(world, stream, PriorityPolicy.OVERFLOW)
    world.pull(body(min_ack_pending=1), b"_R.over")
    world.pull(body())

    world.publish(stream, b"s.a", b"s.a")
    world.turn()

    assert sequences(world.got()) == [1]
    assert sequences(world.got(b"_R.over")) == [2]


def test_the_lowest_number_is_served_first(world: World) -> None:
    stream = world.stream()
    grouped(world, stream, PriorityPolicy.PRIORITIZED)
    world.pull(body(priority=5, batch=2), b"_R.5")
    world.pull(body(priority=1, batch=2), b"_R.1")
    world.pull(body(priority=1, batch=2), b"_R.2")

    world.publish(stream, *[b"s.a"] * 5)
    world.turn()

    assert sequences(world.got(b"_R.1")) == [1, 3]
    assert sequences(world.got(b"_R.2")) == [2, 4]
    assert sequences(world.got(b"_R.5")) == [5]


def test_one_client_is_pinned_and_named_in_its_messages(world: World) -> None:
    stream = world.stream()
    consumer = grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.pull(body(batch=2), b"_R.1")
    world.pull(body(batch=2), b"_R.2")

    world.publish(stream, b"s.a", b"s.a", b"s.a")
    world.turn()

    first = world.got(b"_R.1")
    pin = consumer.groups.pin
    assert sequences(first) == [1, 2]
    assert first[0][2] == b"NATS/1.0\r\nNats-Pin-Id: %b\r\n\r\n" % pin.encode()
    assert world.got(b"_R.2") == []
    (event,) = world.events(b"CONSUMER.PINNED.S.c")
    assert json.loads(event[4])["pinned_id"] == pin
    (state,) = world.info(consumer).priority_groups
    assert (state.group, state.pinned_client_id) == ("g", pin)


def test_a_client_that_gets_no_message_is_not_pinned(world: World) -> None:
    stream = world.stream()
    consumer = grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.publish(stream, b"s.a", b"s.a")
    world.pull(body(max_bytes=1), b"_R.small")

    world.pull(body(batch=2), b"_R.next")

    (refused,) = world.got(b"_R.small")
    assert status(refused) == b"409 Message Size Exceeds MaxBytes"
    served = world.got(b"_R.next")
    assert sequences(served) == [1, 2]
    assert b"Nats-Pin-Id: %b" % consumer.groups.pin.encode() in served[0][2]
    assert len(world.events(b"CONSUMER.PINNED.S.c")) == 1


def test_the_pinned_client_continues_by_its_id(world: World) -> None:
    stream = world.stream()
    consumer = grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.publish(stream, b"s.a", b"s.a")
    world.pull(body())
    world.got()

    world.pull(body(id="wrong"))
    world.pull(body(id=consumer.groups.pin))

    refused, message = world.got()
    if refused[1]:
        refused, message = message, refused
    assert status(refused) == b"423 Nats-Pin-Id mismatch"
    assert sequences([message]) == [2]


def test_a_pin_ends_when_its_client_is_silent(world: World) -> None:
    stream = world.stream()
    grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.publish(stream, b"s.a", b"s.a")
    world.pull(body(), b"_R.1")
    world.pull(body(), b"_R.2")
    waiting = world.got(b"_R.2")

    world.pass_time(5 * SECOND)

    assert waiting == []
    assert sequences(world.got(b"_R.2")) == [2]
    (event,) = world.events(b"CONSUMER.UNPINNED.S.c")
    assert json.loads(event[4])["reason"] == "timeout"


@pytest.mark.parametrize(
    ("policy", "groups"),
    [
        (PriorityPolicy.NONE, ()),
        (PriorityPolicy.OVERFLOW, ("g",)),
        (PriorityPolicy.PINNED_CLIENT, ("h",)),
    ],
)
def test_a_pin_does_not_outlive_its_policy_or_its_group(
    world: World, policy: PriorityPolicy, groups: tuple[str, ...]
) -> None:
    stream = world.stream()
    consumer = grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.publish(stream, b"s.a", b"s.a")
    world.pull(body(), b"_R.1")
    (first,) = world.got(b"_R.1")
    pin = consumer.groups.pin.encode()

    changed = msgspec.structs.replace(
        consumer.config, priority_policy=policy, priority_groups=groups
    )
    world.engine.consumers.update(stream, consumer, changed, world.now, world.outbox)
    world.pull(body(group="".join(groups)), b"_R.2")
    (second,) = world.got(b"_R.2")
    world.pass_time(6 * SECOND)

    assert pin in first[2]
    assert pin not in second[2]
    assert sequences([second]) == [2]
    event = world.events(b"CONSUMER.UNPINNED.S.c")[0]
    assert (json.loads(event[4])["group"], json.loads(event[4])["reason"]) == ("g", "admin")


def test_an_administrator_takes_the_pin_away(world: World) -> None:
    stream = world.stream()
    consumer = grouped(world, stream, PriorityPolicy.PINNED_CLIENT)
    world.publish(stream, b"s.a", b"s.a")
    world.pull(body(), b"_R.1")
    old = consumer.groups.pin

    world.engine.consumers.unpin(consumer, world.now, world.outbox)
    world.pull(body(id=old), b"_R.1")
    world.pull(body(), b"_R.2")

    (event,) = world.events(b"CONSUMER.UNPINNED.S.c")
    assert json.loads(event[4])["reason"] == "admin"
    assert [status(m) for m in world.got(b"_R.1") if not m[1]] == [b"423 Nats-Wrong-Pin-Id"]
    assert sequences(world.got(b"_R.2")) == [2]
