"""A change of a configuration removes messages once it is durable, and not before."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import msgspec
import pytest

from jetspark.engine.requests.dispatch import handle

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

LIMITS = [
    b'"max_msgs":2',
    b'"max_bytes":200',
    b'"max_msgs_per_subject":1',
    b'"max_age":1000000000',
]
OLD = 5  # seconds


def sequences(stream: Stream) -> list[int]:
    index = stream.log.index
    found = []
    seq = int(index.next_seq(1, b""))
    while seq > 0:
        found.append(seq)
        seq = int(index.next_seq(seq + 1, b""))
    return found


def stored(bench: Bench) -> Stream:
    stream = bench.create("S", "s.>")
    for _ in range(9):
        bench.store(stream, b"s.a", b"x" * 20)
    bench.sent()
    bench.wait(OLD)
    return stream


def start_update(bench: Bench, limit: bytes) -> None:
    body = b'{"name":"S","subjects":["s.>"],%b}' % limit
    handle(bench.engine, b"STREAM.UPDATE.S", body, b"r", bench.now, bench.outbox)
    assert bench.sent() == []
    bench.submit()
    bench.wait(1)  # whatever timers it started


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_change_that_the_disk_refused_removed_nothing(
    bench: Bench, limit: bytes, code: int
) -> None:
    stream = stored(bench)

    start_update(bench, limit)
    while_written = sequences(stream)
    bench.fail(OSError(code, "no"))
    bench.wait(1)

    assert b"error" in bench.replies()[0]
    assert while_written == sequences(stream) == list(range(1, 10))
    bench.restart()
    assert sequences(bench.engine.streams["S"]) == list(range(1, 10))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_change_removes_messages_when_it_is_durable(bench: Bench, limit: bytes) -> None:
    stream = stored(bench)

    start_update(bench, limit)
    bench.land()
    bench.wait(1)

    answer = msgspec.json.decode(bench.replies()[0])
    assert "error" not in answer
    left = sequences(stream)
    assert len(left) < 9
    bench.restart()
    bench.wait(1)
    assert sequences(bench.engine.streams["S"]) == left


@pytest.mark.parametrize("limit", LIMITS[:3])
def test_a_change_of_a_stream_that_cannot_be_written_removes_nothing(
    bench: Bench, limit: bytes
) -> None:
    stream = stored(bench)
    bench.publish(stream, b"s.a", b"x")
    bench.submit()
    bench.fail(OSError(errno.EIO, "no"))
    bench.sent()

    body = b'{"name":"S","subjects":["s.>"],%b}' % limit
    handle(bench.engine, b"STREAM.UPDATE.S", body, b"r", bench.now, bench.outbox)

    assert b"error" in bench.replies()[0]
    assert sequences(stream) == list(range(1, 10))


@pytest.mark.parametrize("refused", [True, False])
def test_ids_are_forgotten_by_a_shorter_window_once_that_is_durable(
    bench: Bench, refused: bool
) -> None:
    headers = b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n"
    stream = bench.create("S", "s.>")
    bench.publish(stream, b"s.a", b"x", b"r", headers)
    bench.submit()
    bench.land()
    bench.sent()
    bench.wait(OLD)

    start_update(bench, b'"duplicate_window":100000000')
    if refused:
        bench.fail(OSError(errno.ENOSPC, "no"))
        stream.log.access.set_full(False)
    else:
        bench.land()
    bench.sent()
    bench.publish(stream, b"s.a", b"x", b"r", headers)

    assert stream.log.staged.seq == (1 if refused else 2)
