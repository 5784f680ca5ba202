"""From what users pass to bytes on the wire."""

from jetspark.protocol.encoder import encode_sub


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
