"""Corners of batch publishing: who else exists, what is full, what is read-only."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tests.unit.engine.batch.batching import (
    ADVISORY,
    abandoned,
    by_reply,
    codes,
    flush,
    made,
    member,
    stored,
    told,
)

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


def test_an_advisory_may_be_stored_by_a_stream(bench: Bench) -> None:
    """Also in the middle of a refusal: the stream that stores it is notified like any other."""
    stream = made(bench)
    events = made(bench, name="EVENTS", subjects=("$JS.EVENT.>",), no_ack=True)
    member(bench, stream, 1)
    member(bench, stream, 3)
    flush(bench)

    assert codes(bench) == [None, 10176]
    assert [subject for _, subject in stored(events)] == [ADVISORY + b"S"]


def test_a_read_only_stream_refuses_both_kinds(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    bench.submit()
    told(bench)
    bench.fail(OSError(errno.EIO, "Input/output error"))
    told(bench)

    member(bench, stream, 1)
    by_reply(bench, stream, 1, 0)

    assert codes(bench) == [10077, 10077]


def test_a_sealed_stream_refuses_both_kinds(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    told(bench)
    bench.request(
        b"STREAM.UPDATE.S",
        b'{"name":"S","subjects":["s.>"],"allow_atomic":true,"allow_batched":true,"sealed":true}',
    )

    member(bench, stream, 2, batch_commit="1")
    by_reply(bench, stream, 1, 0)

    assert codes(bench) == [10109, 10109]
    assert stored(stream) == []


def test_ids_are_those_of_a_stream(bench: Bench) -> None:
    one = made(bench)
    other = made(bench, name="T", subjects=("t.>",))
    member(bench, one, 1)
    member(bench, other, 1, b"t.1")

    member(bench, other, 2, b"t.1", batch_commit="1")
    member(bench, one, 2, batch_commit="1")
    flush(bench)

    answers = [answer for answer in told(bench) if answer]
    assert {(answer["stream"], answer["seq"]) for answer in answers} == {("S", 2), ("T", 2)}


def test_plain_messages_pass_an_open_fast_batch(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    bench.publish(stream, b"s.9", b"x", reply=b"plain")
    bench.publish(stream, b"s.9", b"x", reply=b"API")
    by_reply(bench, stream, 2, 2)
    flush(bench)

    answers = told(bench)
    assert [answer["seq"] for answer in answers if "type" not in answer] == [2, 3, 4]


def test_a_deleted_stream_takes_its_batches_along(bench: Bench) -> None:
    stream = made(bench)
    limits = stream.batches.fast.limits
    member(bench, stream, 1)
    by_reply(bench, stream, 1, 0)
    flush(bench)
    told(bench)

    bench.request(b"STREAM.DELETE.S")

    assert (limits.atomic_open, limits.fast_open, limits.staged) == (0, [0, 0], 0)
    bench.now += 20_000_000_000
    bench.engine.expire(bench.now, bench.outbox)
    assert abandoned(bench) == []


def test_two_batches_in_one_group_are_two_runs(bench: Bench) -> None:
    stream = made(bench)
    for number in (1, 2):
        for name in ("x", "y"):
            subject = f"s.{name}".encode()
            if number == 1:
                member(bench, stream, 1, subject, batch=name)
            else:
                member(bench, stream, 2, subject, batch=name, batch_commit="1")
    bench.submit()
    assert len(bench.on_the_way) == 1

    bench.land()

    assert [subject for _, subject in stored(stream)] == [b"s.x", b"s.x", b"s.y", b"s.y"]


def test_the_last_id_of_a_batch_is_the_last_id_of_the_stream(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, msg_id="a")
    member(bench, stream, 2, msg_id="b", batch_commit="1")
    flush(bench)
    told(bench)

    bench.publish(
        stream, b"s.1", b"x", reply=b"r",
        headers=b"NATS/1.0\r\nNats-Expected-Last-Msg-Id: b\r\n\r\n",
    )  # fmt: skip
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 3}]


def test_republished_messages_go_out_with_their_batch(bench: Bench) -> None:
    answer = bench.request(
        b"STREAM.CREATE.S",
        b'{"name":"S","subjects":["s.>"],"allow_atomic":true,'
        b'"republish":{"src":"s.>","dest":"r.>"}}',
    )
    assert b'"error"' not in answer
    stream = bench.engine.streams["S"]
    member(bench, stream, 1)
    member(bench, stream, 2, batch_commit="1")
    assert [entry[0] for entry in bench.sent()] == [b"r"]
    bench.submit()
    assert bench.sent() == []

    bench.land()

    assert [entry[0] for entry in bench.sent()] == [b"r", b"r.1", b"r.1"]
