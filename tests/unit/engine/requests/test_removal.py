"""STREAM.MSG.DELETE and STREAM.PURGE, and what waits for the disk (wire.md, Streams)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jetspark.engine.requests.dispatch import handle

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream


@pytest.fixture
def stream(bench: Bench) -> Stream:
    """Six messages on three subjects."""
    made = bench.create()
    for n in range(6):
        bench.store(made, b"s.%d" % (n % 3), b"v%d" % n)
    return made


def ask(bench: Bench, verb: bytes, body: bytes) -> dict[str, Any]:
    answer = msgspec.json.decode(bench.request(verb + b".S", body))
    assert isinstance(answer, dict)
    return answer


def sequences(stream: Stream) -> list[int]:
    index = stream.log.index
    found = []
    seq = int(index.next_seq(1, b""))
    while seq:
        found.append(seq)
        seq = int(index.next_seq(seq + 1, b""))
    return found


def test_a_deleted_message_stays_deleted_after_a_restart(bench: Bench, stream: Stream) -> None:
    assert ask(bench, b"STREAM.MSG.DELETE", b'{"seq":3}')["success"] is True
    assert sequences(stream) == [1, 2, 4, 5, 6]
    bench.restart()

    again = ask(bench, b"STREAM.MSG.DELETE", b'{"seq":3}')
    assert again["error"]["err_code"] == 10043
    assert again["error"]["description"] == "sequence 3 not found"
    state = ask(bench, b"STREAM.INFO", b'{"deleted_details":true}')["state"]
    assert (state["num_deleted"], state["deleted"]) == (1, [3])


@pytest.mark.parametrize(
    ("body", "purged", "left"),
    [
        (b"", 6, []),
        (b'{"filter":"s.1"}', 2, [1, 3, 4, 6]),
        (b'{"filter":"s.*"}', 6, []),
        (b'{"seq":4}', 3, [4, 5, 6]),
        (b'{"keep":2}', 4, [5, 6]),
        (b'{"filter":"s.0","keep":1}', 1, [2, 3, 4, 5, 6]),
        (b'{"filter":"s.0","seq":4}', 1, [2, 3, 4, 5, 6]),
        (b'{"filter":"none"}', 0, [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_a_purge_removes_what_it_names(
    bench: Bench, stream: Stream, body: bytes, purged: int, left: list[int]
) -> None:
    """Below `seq`, all but the newest `keep`, within `filter`."""
    answer = ask(bench, b"STREAM.PURGE", body)

    assert (answer["success"], answer["purged"]) == (True, purged)
    assert sequences(stream) == left
    bench.restart()
    assert sequences(bench.engine.streams["S"]) == left


@pytest.mark.usefixtures("stream")
def test_an_answer_waits_for_the_disk(bench: Bench) -> None:
    """What a reply stands on is durable first, also for a refusal."""
    for body in (b'{"seq":3}', b'{"seq":3}'):
        handle(bench.engine, b"STREAM.MSG.DELETE.S", body, b"r", bench.now, bench.outbox)
    bench.submit()
    handle(bench.engine, b"STREAM.PURGE.S", b"", b"p", bench.now, bench.outbox)
    assert bench.sent() == []

    bench.land()
    first, second = (entry[4] for entry in bench.sent())
    assert b'"success":true' in first
    assert b'"err_code":10043' in second
    bench.submit()
    bench.land()
    assert b'"purged":5' in bench.sent()[0][4]


def test_a_full_disk_refuses_the_request_and_nothing_is_lost(bench: Bench, stream: Stream) -> None:
    requests = (
        (b"STREAM.MSG.DELETE.S", b'{"seq":3}', b"stream_msg_delete_response"),
        (b"STREAM.PURGE.S", b"", b"stream_purge_response"),
        (b"STREAM.UPDATE.S", b'{"name":"S","subjects":["new"]}', b"stream_update_response"),
    )
    for verb, body, _ in requests:
        handle(bench.engine, verb, body, b"r", bench.now, bench.outbox)
    assert stream.config.subjects == ("new",)
    bench.submit()
    bench.fail(OSError(errno.ENOSPC, "full"))

    answers = [entry[4] for entry in bench.sent()]
    for (_, _, kind), answer in zip(requests, answers, strict=True):
        assert kind in answer
        assert b'"err_code":10023' in answer
    assert sequences(stream) == [1, 2, 3, 4, 5, 6]
    assert stream.config.subjects == ("s.>",)
    assert bench.engine.resolve(b"new") is None
    assert bench.engine.resolve(b"s.1") is not None


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        (b"STREAM.MSG.DELETE", b"", 10003),
        (b"STREAM.MSG.DELETE", b"{}", 10003),
        (b"STREAM.MSG.DELETE", b'{"seq":-1}', 10025),
        (b"STREAM.MSG.DELETE", b'{"seq":0}', 10057),
        (b"STREAM.MSG.DELETE", b'{"seq":99}', 10057),
        (b"STREAM.PURGE", b'{"seq":2,"keep":1}', 10003),
        (b"STREAM.PURGE", b'{"nonsense":1}', 10025),
    ],
    ids=str,
)
@pytest.mark.usefixtures("stream")
def test_a_request_that_cannot_be_is_refused(
    bench: Bench, verb: bytes, body: bytes, code: int
) -> None:
    assert ask(bench, verb, body)["error"]["err_code"] == code


def test_denied_removals_are_refused(bench: Bench) -> None:
    """wire.md, Streams: 10057 and 10110."""
    body = b'{"name":"S","deny_delete":true,"deny_purge":true}'
    bench.request(b"STREAM.CREATE.S", body)

    assert ask(bench, b"STREAM.MSG.DELETE", b'{"seq":1}')["error"] == {
        "code": 500, "err_code": 10057, "description": "message delete not permitted",
    }  # fmt: skip
    assert ask(bench, b"STREAM.PURGE", b"")["error"] == {
        "code": 500, "err_code": 10110, "description": "stream purge not permitted",
    }  # fmt: skip


def test_lower_limits_evict_at_once(bench: Bench, stream: Stream) -> None:
    """wire.md, Streams, UPDATE; and they hold after a restart."""
    bench.request(b"STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"max_msgs":2}')
    assert sequences(stream) == [5, 6]
    bench.restart()
    stream = bench.engine.streams["S"]
    bench.store(stream, b"s.9", b"x")

    assert sequences(stream) == [6, 7]


def test_a_limit_per_subject_keeps_the_newest(bench: Bench) -> None:
    """ADR-8's history; ADR-31: the stream allows direct get then."""
    bench.request(b"STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"],"max_msgs_per_subject":1}')
    stream = bench.engine.streams["S"]
    for n in range(6):
        bench.store(stream, b"s.%d" % (n % 2), b"v%d" % n)

    assert sequences(stream) == [5, 6]
    assert bench.get(stream, b"", b"s.0")[0][4] == b"v4"
