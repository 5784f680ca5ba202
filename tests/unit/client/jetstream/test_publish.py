from typing import Any

import pytest

from jetspark.client.jetstream.publishing.publisher import Expect, publish_headers, read_ack
from jetspark.errors import ApiError, NoResponders, ProtocolViolation, WrongLastSequence
from jetspark.headers.block import decode_headers


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"msg_id": "m1"}, [("Nats-Msg-Id", "m1")]),
        ({"ttl": 90}, [("Nats-TTL", "1m30s")]),
        ({"ttl": 1.5}, [("Nats-TTL", "1.5s")]),
        ({"ttl": "never"}, [("Nats-TTL", "never")]),
        ({"expect": Expect(stream="S")}, [("Nats-Expected-Stream", "S")]),
        ({"expect": Expect(last_seq=0)}, [("Nats-Expected-Last-Sequence", "0")]),
        (
            {"expect": Expect(last_subject_seq=7, last_subject="a.>")},
            [
                ("Nats-Expected-Last-Subject-Sequence", "7"),
                ("Nats-Expected-Last-Subject-Sequence-Subject", "a.>"),
            ],
        ),
        ({"expect": Expect(last_msg_id="m0")}, [("Nats-Expected-Last-Msg-Id", "m0")]),
        ({"expect": Expect()}, []),
        (
            {"headers": {"k": "v"}, "msg_id": "m1"},
            [("k", "v"), ("Nats-Msg-Id", "m1")],
        ),
        ({"headers": [("k", "1"), ("k", "2")]}, [("k", "1"), ("k", "2")]),
    ],
)
def test_arguments_become_headers(
    arguments: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """The headers of a publish."""
    given: dict[str, Any] = {"headers": None, "msg_id": "", "expect": None, "ttl": None}

    block = publish_headers(**(given | arguments))

    assert (decode_headers(block).items() if block else []) == expected


@pytest.mark.parametrize("ttl", [0, 0.5, -1, "forever"])
def test_a_time_to_live_below_a_second_is_refused_before_it_is_sent(ttl: Any) -> None:
    """Less than 1 s is 10165."""
    with pytest.raises(ValueError, match="ttl="):
        publish_headers(None, "", None, ttl)


@pytest.mark.parametrize("ttl", [b"5", [5], True])
def test_a_time_to_live_of_another_type_is_refused_with_what_is_expected(ttl: Any) -> None:
    with pytest.raises(TypeError, match="expected seconds as a number, a timedelta, or 'never'"):
        publish_headers(None, "", None, ttl)


@pytest.mark.parametrize(
    ("header", "msg_id", "expect", "ttl"),
    [
        ("Nats-Msg-Id", "b", None, None),
        ("Nats-Expected-Last-Sequence", "", Expect(last_seq=1), None),
        ("Nats-TTL", "", None, 5),
    ],
)
def test_a_header_that_an_argument_contradicts_is_refused(
    header: str, msg_id: str, expect: Expect | None, ttl: float | None
) -> None:
    """The server reads the first of two, and would ignore the argument."""
    with pytest.raises(ValueError, match=f"header '{header}' is 'a' in headers= and"):
        publish_headers({header: "a"}, msg_id, expect, ttl)


def test_a_header_that_an_argument_repeats_is_sent_once() -> None:
    block = publish_headers({"Nats-Msg-Id": "a", "x": "y"}, "a", None, None)

    assert block == b"NATS/1.0\r\nNats-Msg-Id: a\r\nx: y\r\n\r\n"


@pytest.mark.parametrize("field", ["last_seq", "last_subject_seq"])
@pytest.mark.parametrize("value", [-1, "5", 1.5])
def test_an_expected_sequence_that_is_none_is_refused(field: str, value: Any) -> None:
    """The server would say "wrong last sequence"."""
    with pytest.raises(ValueError, match=f"Expect.{field}={value!r}: expected a sequence"):
        publish_headers(None, "", Expect(**{field: value}), None)


def test_a_subject_to_compare_needs_a_sequence() -> None:
    """Without the sequence header it is 10193."""
    with pytest.raises(ValueError, match="requires last_subject_seq"):
        publish_headers(None, "", Expect(last_subject="a"), None)


def test_an_ack_names_stream_and_sequence() -> None:
    ack = read_ack("a", b"", b'{"stream":"S","seq":7,"duplicate":true}')

    assert (ack.stream, ack.seq, ack.duplicate) == ("S", 7, True)


def test_a_refusal_is_raised_as_its_class() -> None:
    body = (
        b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},'
        b'"stream":"S","seq":0}'
    )

    with pytest.raises(WrongLastSequence) as caught:
        read_ack("a", b"", body)
    assert caught.value.actual == 3


def test_an_unknown_refusal_is_an_api_error() -> None:
    with pytest.raises(ApiError, match="new trouble"):
        read_ack("a", b"", b'{"error":{"code":400,"err_code":19999,"description":"new trouble"}}')


def test_no_responders_says_that_no_stream_stores_the_subject() -> None:
    with pytest.raises(NoResponders) as caught:
        read_ack("a.b", b"NATS/1.0 503\r\n\r\n", b"")

    assert caught.value.subject == "a.b"
    assert "no stream stores this subject" in caught.value.__notes__[0]


def test_an_answer_of_something_else_than_a_stream_is_shown() -> None:
    with pytest.raises(ProtocolViolation, match="b'hello'"):
        read_ack("a", b"", b"hello")
