"""Faults of the withdrawn read-after-write code that ours does not have.

One test for each fault that wire.md, Read-after-write, names. The one about redirects
is the read replica's: a request that was forwarded is never forwarded again.
"""

from __future__ import annotations

import msgspec
from tests.unit.engine.consumer.conftest import SECOND, World, sequences

from jetspark.api.enums import DeliverPolicy
from jetspark.engine.requests.dispatch import handle
from jetspark.headers.block import find_value

WAIT = b'{"batch":20,"expires":1000000000}'


def test_a_held_refusal_is_examined_again(world: World) -> None:
    """The read is answered as soon as the sequence arrives, not refused after the delay."""
    stream = world.stream(allow_direct=True)
    world.publish(stream, b"s.a")
    request = b'{"seq":1,"min_last_seq":2}'

    world.engine.direct.get(stream, b"", request, b"_R.1", world.now, world.outbox)
    world.turn()
    before = world.got()
    world.publish(stream, b"s.b")
    world.turn()

    (answer,) = world.got()
    assert before == []
    assert find_value(answer[2], b"Nats-Sequence") == b"1"


def test_a_filtered_consumer_is_woken_by_a_message_of_another_subject(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.a")
    world.consumer(stream, min_last_seq=3, filter_subject="s.a")
    world.pull(WAIT)
    before = sequences(world.got())

    world.publish(stream, b"s.other")
    world.turn()

    assert (before, sequences(world.got())) == ([], [1, 2])


def test_last_per_subject_loses_nothing_while_it_waits(world: World) -> None:
    """The shape of a KV watch; every wake-up below the value used to cost one entry."""
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c", b"s.a")
    world.consumer(
        stream,
        min_last_seq=8,
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        filter_subject="s.>",
    )
    world.pull(WAIT)

    for subject in (b"s.d", b"s.e", b"s.f"):
        world.publish(stream, subject)
        world.turn()
    before = sequences(world.got())
    world.publish(stream, b"s.g")
    world.turn()

    assert (before, sequences(world.got())) == ([], [2, 3, 4, 5, 6, 7, 8])


def test_raising_the_value_with_redeliveries_pending_does_not_rewind(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c", b"s.d")
    consumer = world.consumer(stream, ack_wait=SECOND)
    world.pull(b"2")
    first = sequences(world.got())
    config = msgspec.structs.replace(consumer.config, min_last_seq=4)

    world.engine.consumers.update(stream, consumer, config, world.now, world.outbox)
    world.pass_time(2 * SECOND)
    world.pull(WAIT)

    assert (first, sequences(world.got())) == ([1, 2], [1, 2, 3, 4])
    assert world.info(consumer).num_pending == 0


def test_allow_direct_that_an_update_switches_on_answers_unmet_reads(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a")
    before = world.engine.resolve(b"$JS.API.DIRECT.GET.S")
    update = b'{"name":"S","subjects":["s.>"],"allow_direct":true}'

    handle(world.engine, b"STREAM.UPDATE.S", update, b"_U", world.now, world.outbox)
    world.commit()
    target = world.engine.resolve(b"$JS.API.DIRECT.GET.S")
    assert before is None
    assert target is not None
    world.engine.direct.get(
        stream, b"", b'{"seq":1,"min_last_seq":9}', b"_R.1", world.now, world.outbox
    )
    world.engine.direct.get(
        stream, b"", b'{"seq":1,"min_last_seq":2}', b"_R.2", world.now, world.outbox
    )
    world.publish(stream, b"s.b")
    world.pass_time(SECOND)

    assert world.got(b"_R.1")[0][2].startswith(b"NATS/1.0 412 Min Last Sequence")
    assert find_value(world.got(b"_R.2")[0][2], b"Nats-Sequence") == b"1"
