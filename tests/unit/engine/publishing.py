"""Publishing for the tests of the engine: how to send, what was answered, how time passes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jetspark.api.stream import StreamConfig

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

SECOND = 1_000_000_000


def made(bench: Bench, **settings: Any) -> Stream:
    plain: dict[str, Any] = {
        "name": "S", "subjects": ("s.>",), "duplicate_window": 120 * SECOND,
    }  # fmt: skip
    settings = plain | settings
    return bench.engine.create_stream(StreamConfig(**settings), bench.now)


def block(**headers: str) -> bytes:
    """Header names as keywords: ``msg_id`` is ``Nats-Msg-Id``."""
    lines = [f"Nats-{name.title().replace('_', '-')}: {v}\r\n" for name, v in headers.items()]
    return ("NATS/1.0\r\n" + "".join(lines).replace("-Ttl:", "-TTL:") + "\r\n").encode()


def publish(bench: Bench, stream: Stream, subject: bytes = b"s.1", /, **headers: str) -> None:
    asked = block(**headers) if headers else b""
    bench.publish(stream, subject, b"x", reply=b"r", headers=asked)


def flush(bench: Bench) -> None:
    bench.submit()
    while bench.on_the_way:
        bench.land()
        bench.submit()


def answers(bench: Bench) -> list[Any]:
    """The replies that went out, short: a sequence, a duplicate's sequence, or an error code."""
    short: list[Any] = []
    for entry in bench.sent():
        body = json.loads(entry[4])
        if "error" in body:
            assert body["seq"] == 0
            short.append((body["error"]["err_code"], body["error"]["description"]))
        elif "duplicate" in body:
            short.append(("duplicate", body["seq"]))
        else:
            short.append(body["seq"])
    return short


def ask(bench: Bench, stream: Stream, subject: bytes = b"s.1", /, **headers: str) -> Any:
    publish(bench, stream, subject, **headers)
    flush(bench)
    (answer,) = answers(bench)
    return answer


def code(answer: Any) -> int:
    assert isinstance(answer, tuple), answer
    assert isinstance(answer[0], int), answer
    return answer[0]


def there(stream: Stream) -> list[int]:
    """The sequences of the messages that readers see."""
    found = []
    seq = stream.log.index.next_seq(1, b"")
    while seq:
        found.append(int(seq))
        seq = stream.log.index.next_seq(seq + 1, b"")
    return found


def wait(bench: Bench, seconds: float) -> None:
    """Let time pass; deadlines are met in their order, and what they stage becomes durable."""
    until = bench.now + int(seconds * SECOND)
    while True:
        deadline = bench.engine.next_deadline()
        if deadline is None or deadline > until:
            break
        bench.now = max(bench.now, deadline)
        bench.engine.expire(bench.now, bench.outbox)
        flush(bench)
    bench.now = until


def headers_of(bench: Bench, stream: Stream, seq: int) -> bytes:
    (entry,) = bench.get(stream, b'{"seq":%d}' % seq)
    return entry[3]
