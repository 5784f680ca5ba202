"""Counters, transforms and republishing: decisions before, readers after the commit."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.publishing import answers, ask, block, code, flush, made, publish

from jetspark.api.stream import Republish, SubjectTransform
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.counters import CHUNK, format_integer, parse_integer

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


def add(bench: Bench, stream: Stream, number: str) -> None:
    bench.publish(stream, b"s.1", b"", reply=b"r", headers=block(incr=number))


def values(bench: Bench) -> list[str]:
    return [json.loads(entry[4]).get("val", "refused") for entry in bench.sent()]


def test_a_counter_adds_to_what_is_staged_and_answers_when_it_is_durable(bench: Bench) -> None:
    stream = made(bench, allow_msg_counter=True, allow_direct=True)
    for number in ("1", "5", "-10"):
        add(bench, stream, number)
    bench.submit()
    add(bench, stream, "100")
    assert values(bench) == []

    bench.land()
    assert values(bench) == ["1", "6", "-4"]
    flush(bench)
    assert values(bench) == ["96"]
    (entry,) = bench.get(stream, b'{"last_by_subj":"s.1"}')
    assert entry[4] == b'{"val":"96"}'


@pytest.mark.parametrize("in_flight", [0, 1, 2, 3, 4])
def test_a_counter_continues_from_the_last_message_that_was_not_deleted(
    bench: Bench, in_flight: int
) -> None:
    stream = made(bench, allow_msg_counter=True)
    for count, number in enumerate(("1", "20", "300", "4000"), 1):
        add(bench, stream, number)
        if count == in_flight:
            bench.submit()
    for seq in (4, 3):
        body = b'{"seq":%d}' % seq
        handle(bench.engine, b"STREAM.MSG.DELETE.S", body, b"r", bench.now, bench.outbox)
    add(bench, stream, "50000")
    if in_flight:
        bench.land()
    flush(bench)

    assert "50021" in values(bench)


def test_a_failed_group_did_not_count(bench: Bench) -> None:
    stream = made(bench, allow_msg_counter=True)
    add(bench, stream, "1")
    flush(bench)
    add(bench, stream, "10")
    bench.submit()
    bench.fail(NO_SPACE)
    values(bench)

    add(bench, stream, "100")
    flush(bench)

    assert values(bench) == ["101"]


def test_a_counter_continues_after_a_restart(bench: Bench) -> None:
    stream = made(bench, allow_msg_counter=True)
    add(bench, stream, "9" * 5000)
    flush(bench)
    values(bench)
    bench.restart()

    add(bench, bench.engine.streams["S"], "1")
    flush(bench)

    assert values(bench) == ["1" + "0" * 5000]


def test_a_stream_that_counts_takes_nothing_else(bench: Bench) -> None:
    stream = made(bench, allow_msg_counter=True)

    assert code(ask(bench, stream)) == 10169
    assert code(ask(bench, stream, incr="1")) == 10170


@given(st.integers() | st.integers(CHUNK - 3, CHUNK + 3) | st.just(-(CHUNK**3) - 7))
def test_numbers_of_any_size_are_read_as_they_were_written(number: int) -> None:
    assert parse_integer(format_integer(number)) == number


@pytest.mark.parametrize("text", [b"x", b"1 ", b"--1", b"+-1", b"1_0", b"0x1", b"-"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parse_integer(text)


def test_a_transform_comes_before_the_checks(bench: Bench) -> None:
    """Transforms are applied before expectation checks and storage."""
    stream = made(bench, subject_transform=SubjectTransform(src="s.*", dest="t.{{wildcard(1)}}"))

    assert ask(bench, stream, b"s.1") == 1
    assert ask(bench, stream, b"s.1", expected_last_subject_sequence="1") == 2
    assert stream.log.index.last_match(b"t.1") == 2
    assert stream.log.index.last_match(b"s.1") == 0


def test_a_message_is_published_again_when_it_is_durable(bench: Bench) -> None:
    stream = made(bench, republish=Republish(src="s.>", dest="again.>"))
    bench.publish(stream, b"s.1", b"one", headers=b"NATS/1.0\r\nA: 1\r\n\r\n")
    bench.publish(stream, b"s.1", b"two")
    bench.submit()
    assert bench.sent() == []

    bench.land()

    first, second = bench.sent()
    assert (first[0], first[1], first[4]) == (b"again.1", b"again.1", b"one")
    assert first[3].startswith(
        b"NATS/1.0\r\nA: 1\r\nNats-Stream: S\r\nNats-Subject: s.1\r\nNats-Sequence: 1\r\n"
        b"Nats-Time-Stamp: 2025-11-15T"
    )
    assert first[3].endswith(b"\r\nNats-Last-Sequence: 0\r\n\r\n")
    assert second[3].endswith(b"\r\nNats-Last-Sequence: 1\r\n\r\n")


def test_only_headers_are_published_again_if_configured(bench: Bench) -> None:
    stream = made(bench, republish=Republish(src=">", dest="again.>", headers_only=True))
    publish(bench, stream)
    flush(bench)

    again = bench.sent()[-1]
    assert again[4] == b""
    assert again[3].endswith(b"\r\nNats-Msg-Size: 1\r\n\r\n")


def test_nothing_is_published_again_of_a_failed_group(bench: Bench) -> None:
    stream = made(bench, republish=Republish(src=">", dest="again.>"))
    publish(bench, stream)
    bench.submit()
    bench.fail(NO_SPACE)

    assert [code(answer) for answer in answers(bench)] == [10023]


def test_another_stream_stores_what_is_published_again(bench: Bench) -> None:
    stream = made(bench, republish=Republish(src=">", dest="again.>"))
    other = made(bench, name="T", subjects=("again.>",))
    publish(bench, stream)
    flush(bench)

    assert other.log.index.last_match(b"again.s.1") == 1
