"""Conversion of users' arguments to bytes on the wire."""

from typing import Final

from jetspark.client.arguments import text
from jetspark.errors import BadSubject
from jetspark.protocol.encoder import encode_sub
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject

# Checked subjects are cached with their bytes: most programs publish to few of them.
SUBJECT_CACHE_MAX: Final = 4096


def add_literal(known: dict[str, bytes], subject: str) -> bytes:
    """Check a subject to publish to and cache its bytes; BadSubject if it is invalid."""
    encoded = encode_subject(subject)
    if not is_valid_literal(encoded):
        raise BadSubject(
            subject,
            "expected tokens separated by single dots, without spaces and the wildcards * and >",
        )
    if len(known) >= SUBJECT_CACHE_MAX:
        known.clear()
    known[subject] = encoded
    return encoded


def encode_subject(subject: object) -> bytes:
    """The bytes of a subject; TypeError if it is no str, BadSubject for lone surrogates."""
    if not isinstance(subject, str):
        hint = "; decode it first: subject.decode()" if isinstance(subject, bytes) else ""
        raise TypeError(f"a subject must be str, not {type(subject).__name__}{hint}")
    try:
        return subject.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadSubject(subject, f"it cannot be written as UTF-8: {error.reason}") from None


def check_pattern(subject: str, queue: str) -> None:
    """Refuse subjects and queue groups that cannot be subscribed to."""
    if not is_valid_subject(encode_subject(subject)):
        raise BadSubject(
            subject,
            "expected tokens separated by single dots, without spaces; * matches one token, "
            "> at the end one or more",
        )
    if not isinstance(queue, str):
        raise TypeError(
            f"queue must be str, not {type(queue).__name__}; use '' for no queue group"
        )
    text(queue, "queue")
    if any(char.isspace() for char in queue):
        raise ValueError(f"queue {queue!r}: a queue group name must not contain spaces")


def sub_frame(subject: str, queue: str, sid: int) -> bytes:
    """SUB for a checked subject and queue group."""
    return encode_sub(encode_subject(subject), queue.encode("utf-8", "surrogateescape"), sid)


def to_bytes(payload: object, name: str = "data") -> bytes:
    """Convert a bytes-like object; TypeError for anything else."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    hint = "; encode text first: text.encode()" if isinstance(payload, str) else ""
    raise TypeError(f"{name} must be bytes, not {type(payload).__name__}{hint}")
