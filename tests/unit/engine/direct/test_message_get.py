"""STREAM.MSG.GET, with read-after-write (wire.md, Streams and Read-after-write)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jetspark.engine.limits import MIN_LAST_SEQ_WAIT_NS
from jetspark.engine.requests.dispatch import handle

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

BLOCK = b"NATS/1.0\r\nA: 1\r\n\r\n"


@pytest.fixture
def stream(bench: Bench) -> Stream:
    """Three messages; the second has headers, the third no body."""
    made = bench.create()
    bench.store(made, b"s.1", b"one")
    bench.store(made, b"s.2", b"two", headers=BLOCK)
    bench.store(made, b"s.1", b"")
    return made


def ask(bench: Bench, body: bytes) -> dict[str, Any]:
    answer = msgspec.json.decode(bench.request(b"STREAM.MSG.GET.S", body))
    assert isinstance(answer, dict)
    return answer


@pytest.mark.usefixtures("stream")
def test_a_message_is_shown_with_its_whole_header_block(bench: Bench) -> None:
    """`hdrs` and `data` are base64, and left out while empty."""
    message = ask(bench, b'{"seq":2}')["message"]

    assert (message["subject"], message["seq"]) == ("s.2", 2)
    assert base64.b64decode(message["hdrs"]) == BLOCK
    assert base64.b64decode(message["data"]) == b"two"
    assert "hdrs" not in ask(bench, b'{"seq":2,"no_hdr":true}')["message"]
    assert "data" not in ask(bench, b'{"last_by_subj":"s.1"}')["message"]


@pytest.mark.usefixtures("stream")
def test_a_satisfied_minimum_comes_with_its_proof(bench: Bench) -> None:
    """`min_last_seq` next to `message` or `error`, only when asked for."""
    assert ask(bench, b'{"seq":1,"min_last_seq":2}')["min_last_seq"] == 3
    missing = ask(bench, b'{"seq":9,"min_last_seq":3}')
    assert missing["error"]["err_code"] == 10037
    assert missing["min_last_seq"] == 3
    assert "min_last_seq" not in ask(bench, b'{"seq":1}')
    assert "min_last_seq" not in ask(bench, b'{"seq":9}')


def test_a_read_waits_for_its_sequence(bench: Bench, stream: Stream) -> None:
    """ADR-53: answered as soon as the sequence arrives."""
    body = b'{"last_by_subj":"s.1","min_last_seq":4}'
    assert handle(bench.engine, b"STREAM.MSG.GET.S", body, b"r", bench.now, bench.outbox)
    assert bench.sent() == []

    bench.store(stream, b"s.1", b"new")

    (entry,) = bench.sent()
    answer = msgspec.json.decode(entry[4])
    assert entry[0] == b"r"
    assert answer["message"]["seq"] == 4
    assert answer["min_last_seq"] == 4


@pytest.mark.usefixtures("stream")
def test_a_read_that_waited_long_enough_is_refused(bench: Bench) -> None:
    """ADR-53: 412 / 10180 `min last sequence`."""
    body = b'{"seq":1,"min_last_seq":9}'
    handle(bench.engine, b"STREAM.MSG.GET.S", body, b"r", bench.now, bench.outbox)

    bench.engine.expire(bench.now + MIN_LAST_SEQ_WAIT_NS, bench.outbox)

    (entry,) = bench.sent()
    assert msgspec.json.decode(entry[4]) == {
        "type": "io.nats.jetstream.api.v1.stream_msg_get_response",
        "error": {"code": 412, "err_code": 10180, "description": "min last sequence"},
        "min_last_seq": 3,
    }


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"seq":1,"last_by_subj":"a","min_last_seq":99}', 10003),
        (b'{"min_last_seq":99}', 10003),
        (b'{"min_last_seq":-1}', 10025),
        (b'{"seq":1,"batch":2}', 10003),
    ],
    ids=str,
)
def test_a_bad_request_is_refused_before_the_gate(bench: Bench, body: bytes, code: int) -> None:
    """Contradictory requests are refused at once."""
    assert ask(bench, body)["error"]["err_code"] == code
