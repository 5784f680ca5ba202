"""Republishing: messages are published under another subject, once they are durable."""

from jetspark.engine.outbox import Entry
from jetspark.engine.stream.rules import Rules
from jetspark.headers.block import append_lines
from jetspark.headers.names import (
    LAST_SEQUENCE,
    MSG_SIZE,
    SEQUENCE,
    STREAM,
    SUBJECT,
    TIME_STAMP,
)
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import format_rfc3339


def published_again(
    rules: Rules,
    subject: bytes,
    block: bytes,
    body: bytes,
    seq: int,
    before: int,
    time_ns: int,
) -> Entry | None:
    """Return the message to send; None if its subject is not republished.

    ``before`` is the previous sequence of the same subject, which shows a reader what it missed.
    """
    if rules.republish is None:
        return None
    to = rules.republish.apply(subject)
    if to is None or not is_valid_literal(to):
        return None
    lines = b"%b: %b\r\n%b: %b\r\n%b: %d\r\n%b: %b\r\n%b: %d\r\n" % (
        STREAM, rules.name,
        SUBJECT, subject,
        SEQUENCE, seq,
        TIME_STAMP, format_rfc3339(time_ns).encode(),
        LAST_SEQUENCE, before,
    )  # fmt: skip
    if rules.republish_headers_only:
        lines += b"%b: %d\r\n" % (MSG_SIZE, len(body))
        body = b""
    return to, to, b"", append_lines(block, lines), body
