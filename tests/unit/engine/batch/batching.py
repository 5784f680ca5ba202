"""Batches for the tests of the engine: how to send their messages, what was answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.unit.engine.publishing import block

from jetspark.api.stream import StreamConfig
from jetspark.engine.stream.config import prepared
from jetspark.store.format.record import headers_end, subject_end

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

SECOND = 1_000_000_000
INBOX = b"_INBOX.b"
ADVISORY = b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED."


def made(bench: Bench, **settings: Any) -> Stream:
    """A stream that takes both kinds of batches, and an engine whose advisories are received."""
    bench.ports.listening = lambda subject: subject.startswith(ADVISORY)
    plain: dict[str, Any] = {
        "name": "S", "subjects": ("s.>",), "allow_atomic": True, "allow_batched": True,
    }  # fmt: skip
    return bench.engine.create_stream(prepared(StreamConfig(**plain | settings)), bench.now)


def member(
    bench: Bench,
    stream: Stream,
    number: int | str,
    subject: bytes = b"s.1",
    /,
    *,
    batch: str = "b",
    body: bytes = b"x",
    reply: bytes = b"r",
    subject_seq: str = "",
    **headers: str,
) -> None:
    """Send a message of an atomic batch."""
    named = {"batch_id": batch, "batch_sequence": str(number)} | headers
    if subject_seq:
        named["expected_last_subject_sequence"] = subject_seq
    bench.publish(stream, subject, body, reply=reply, headers=block(**named))


def by_headers(
    bench: Bench,
    stream: Stream,
    number: int | str,
    subject: bytes = b"s.1",
    /,
    *,
    batch: str = "f",
    body: bytes = b"x",
    **headers: str,
) -> None:
    """Send a message of a fast batch in the header dialect."""
    named = {"fast_batch_id": batch, "batch_sequence": str(number)} | headers
    bench.publish(stream, subject, body, reply=b"inbox", headers=block(**named))


def by_reply(
    bench: Bench,
    stream: Stream,
    number: int,
    op: int = 1,
    /,
    *,
    batch: str = "f",
    gap: str = "fail",
    flow: int | str = 10,
    subject: bytes = b"s.1",
    body: bytes = b"x",
    **headers: str,
) -> None:
    """Send a message of a fast batch in the reply-subject dialect."""
    reply = f"_INBOX.{batch}.{flow}.{gap}.{number}.{op}.$FI".encode()
    bench.publish(stream, subject, body, reply=reply, headers=block(**headers) if headers else b"")


def flush(bench: Bench) -> None:
    """The disk answers for everything."""
    bench.submit()
    while bench.on_the_way:
        bench.land()
        bench.submit()


def told(bench: Bench) -> list[Any]:
    """Bodies of what went out, advisories apart; an empty one is None."""
    entries = bench.sent()
    bench.outbox.now = [entry for entry in entries if entry[0].startswith(ADVISORY)]
    return [
        json.loads(entry[4]) if entry[4] else None
        for entry in entries
        if not entry[0].startswith(ADVISORY)
    ]


def abandoned(bench: Bench) -> list[tuple[str, str]]:
    """(batch, reason) of the advisories that went out."""
    entries = [json.loads(e[4]) for e in bench.sent() if e[0].startswith(ADVISORY)]
    return [(event["batch"], event["reason"]) for event in entries]


def codes(bench: Bench) -> list[Any]:
    """Error codes of what was answered; other answers as they are."""
    return [
        answer["error"]["err_code"] if answer and "error" in answer else answer
        for answer in told(bench)
    ]


def block_of(stream: Stream, seq: int) -> bytes:
    """The headers of a durable message."""
    data, at = stream.log.reader.locate(seq)
    return data[subject_end(data, at) : headers_end(data, at)]


def stored(stream: Stream) -> list[tuple[int, bytes]]:
    """Sequence and subject of every message a reader sees."""
    index = stream.log.index
    found = []
    seq = int(index.next_seq(1, b""))
    while seq:
        columns = index.segment_of(seq)
        assert columns is not None
        number = int(columns.subjects[seq - columns.base])
        found.append((seq, index.entries[number].subject))
        seq = int(index.next_seq(seq + 1, b""))
    return found


def pass_time(bench: Bench, seconds: float) -> None:
    """Let time go by, with everything due in between."""
    end = bench.now + int(seconds * SECOND)
    while (due := bench.engine.next_deadline()) is not None and due <= end:
        bench.now = max(bench.now, due)
        bench.engine.expire(bench.now, bench.outbox)
        flush(bench)
    bench.now = end
