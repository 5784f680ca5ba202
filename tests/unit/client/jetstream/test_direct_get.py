import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetspark.api.base import Timestamp
from jetspark.api.stream import StreamConfig, StreamInfo, StreamState
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.direct_get import (
    StreamReader,
    describe,
    make_request,
    without_min_last_seq,
)
from jetspark.client.jetstream.stored import from_direct
from jetspark.client.jetstream.timestamps import to_nanoseconds
from jetspark.client.message import Message
from jetspark.errors import MinLastSequence, ProtocolViolation, RequestTimeout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seq": 5}, "seq 5"),
        ({"last_by_subject": "a"}, "last on 'a'"),
        ({"next_by_subject": "a.>"}, "next on 'a.>'"),
        ({"seq": 5, "next_by_subject": "a"}, "seq 5 and on, next on 'a'"),
        ({"start_time_ns": 1_000_000_000}, "from 1970-01-01T00:00:01Z"),
        (
            {"start_time_ns": 0, "next_by_subject": "a"},
            "next on 'a', from 0001-01-01T00:00:00Z",
        ),
    ],
)
def test_the_legal_forms_are_accepted(arguments: dict[str, Any], words: str) -> None:
    """ADR-31, request; wire.md, Direct get: what is not 408."""
    assert describe(make_request(**arguments)) == words


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"min_last_seq": 5},
        {"seq": 1, "last_by_subject": "a"},
        {"last_by_subject": "a", "next_by_subject": "b"},
        {"last_by_subject": "a", "start_time_ns": 1},
        {"seq": 1, "start_time_ns": 1},
        {"seq": -1},
        {"seq": 1, "min_last_seq": -1},
    ],
)
def test_contradictions_are_refused_before_they_are_sent(arguments: dict[str, Any]) -> None:
    """What is 408 Bad Request or Empty Request."""
    with pytest.raises(ValueError):
        make_request(**arguments)


def test_only_the_new_field_is_left_out_for_released_servers() -> None:
    request = make_request(seq=5, next_by_subject="a", min_last_seq=9)

    assert without_min_last_seq(request) == make_request(seq=5, next_by_subject="a")


def test_a_reply_is_read_from_its_last_headers() -> None:
    block = (
        b"NATS/1.0\r\nNats-Sequence: 999\r\nNats-Stream: X\r\nk: v\r\nNats-Stream: S\r\n"
        b"Nats-Subject: a.b\r\nNats-Sequence: 4\r\nNats-Time-Stamp: 2026-01-01T00:00:00.5Z\r\n\r\n"
    )
    message = from_direct(Message("_INBOX.x.1", b"data", "", block))

    assert (message.stream, message.subject, message.seq, message.data) == ("S", "a.b", 4, b"data")
    assert message.time == datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
    assert message.headers.items() == [("Nats-Sequence", "999"), ("Nats-Stream", "X"), ("k", "v")]


def test_a_reply_without_headers_is_the_servers_mistake() -> None:
    with pytest.raises(ProtocolViolation, match="lacks required headers"):
        from_direct(Message("_INBOX.x.1", b"data", "", b"NATS/1.0\r\n\r\n"))


def test_times_are_exact_to_the_microsecond() -> None:
    moment = datetime(2026, 11, 15, 7, 1, 4, 606_147, timezone(timedelta(hours=2)))

    assert to_nanoseconds(moment) == 1_794_718_864_606_147_000
    assert to_nanoseconds(Timestamp(123)) == 123
    with pytest.raises(TypeError, match="expected a datetime with a time zone"):
        to_nanoseconds(123)  # type: ignore[arg-type]


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        to_nanoseconds(datetime(2026, 11, 15))  # noqa: DTZ001 - that is the mistake


def answering(*last_seqs: int) -> StreamReader:
    """A reader whose leader is at these sequences, one call after the other, then silent."""
    answers: Iterator[int] = iter(last_seqs)

    async def call(*_: object, timeout: float) -> StreamInfo:
        for last_seq in answers:
            state = StreamState(last_seq=last_seq)
            return StreamInfo(config=StreamConfig(name="S"), state=state)
        raise RequestTimeout(f"no reply within {timeout} s")

    core = SimpleNamespace(loop=asyncio.get_running_loop())
    return StreamReader(cast("ApiClient", SimpleNamespace(core=core, call=call)), "S")


async def test_a_leader_that_lags_at_the_timeout_is_named() -> None:
    """Bounded, then MinLastSequence; also when the last answer is late."""
    reader = answering(3, 4)

    with pytest.raises(MinLastSequence, match="sequence 5 in time: its leader is at 4"):
        await reader.wait_for_leader(5, asyncio.get_running_loop().time() + 60)


async def test_a_leader_that_never_answers_is_a_timeout() -> None:
    with pytest.raises(RequestTimeout, match="no reply"):
        await answering().wait_for_leader(5, asyncio.get_running_loop().time() + 60)


async def test_a_leader_is_polled_until_it_has_the_sequence() -> None:
    state = await answering(3, 6).wait_for_leader(5, asyncio.get_running_loop().time() + 60)

    assert state.last_seq == 6
