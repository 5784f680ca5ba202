"""From what users pass to bytes on the wire."""

from typing import Final

from jetspark.errors import BadSubject
from jetspark.protocol.encoder import encode_sub
from jetspark.subjects.tokens import is_valid_literal

# Checked subjects are remembered with their bytes: most programs publish to few of them.
SUBJECT_CACHE_MAX: Final = 4096


def add_literal(known: dict[str, bytes], subject: str) -> bytes:
    """Check a subject to publish to and remember its bytes; BadSubject when it is none."""
    encoded = subject.encode("utf-8", "surrogateescape")
    if not is_valid_literal(encoded):
        raise BadSubject(
            subject,
            "expected tokens separated by single dots, without blanks and without the "
            "wildcards * and >",
        )
    if len(known) >= SUBJECT_CACHE_MAX:
        known.clear()
    known[subject] = encoded
    return encoded


def sub_frame(subject: str, queue: str, sid: int) -> bytes:
    """SUB for a subject and a queue group that were checked."""
    encoded = subject.encode("utf-8", "surrogateescape")
    return encode_sub(encoded, queue.encode("utf-8", "surrogateescape"), sid)


def to_bytes(payload: object) -> bytes:
    """Accept what is bytes-like; anything else is a TypeError that says what to do."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    hint = "; encode text first: payload.encode()" if isinstance(payload, str) else ""
    raise TypeError(f"payload must be bytes, not {type(payload).__name__}{hint}")
