"""A message as stored in a stream, decoded from either get API."""

from datetime import datetime

import msgspec

from jetspark.api.message import StoredMessage
from jetspark.client.jetstream.timestamps import from_nanoseconds
from jetspark.client.message import Message
from jetspark.client.reprs import shown_bytes
from jetspark.errors import ProtocolViolation
from jetspark.headers.block import decode_headers, find_value
from jetspark.headers.headers import Headers
from jetspark.headers.names import SEQUENCE, STREAM, SUBJECT, TIME_STAMP
from jetspark.units import parse_rfc3339

_OWN_LINES = b"\r\nNats-Stream: "


class StreamMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message. ``time_ns`` is when it was stored, in nanoseconds since 1970."""

    stream: str
    subject: str
    seq: int
    time_ns: int
    data: bytes
    header_block: bytes = b""

    @property
    def headers(self) -> Headers:
        """The publisher's headers; empty if there are none."""
        return decode_headers(self.header_block) if self.header_block else Headers()

    @property
    def time(self) -> datetime:
        """``time_ns`` as a UTC datetime, truncated to microseconds."""
        return from_nanoseconds(self.time_ns)

    def __repr__(self) -> str:
        headers = f", headers={self.headers.items()!r}" if self.header_block else ""
        return (
            f"StreamMessage({self.subject!r}, {shown_bytes(self.data)}, stream={self.stream!r}, "
            f"seq={self.seq}, time='{self.time:%Y-%m-%d %H:%M:%S.%f}'{headers})"
        )


def own_lines(block: bytes) -> bytes:
    """The server's part of a direct-get reply's headers, as a separate block."""
    start = block.rfind(_OWN_LINES)
    return b"NATS/1.0" + block[start:] if start >= 0 else b""


def from_direct(reply: Message) -> StreamMessage:
    """Decode the reply of a direct get.

    The server's lines are the last ones: a user may have stored headers with the same names.
    """
    block = reply.header_block
    start = block.rfind(_OWN_LINES)
    lines = own_lines(block)
    stream, subject = find_value(lines, STREAM), find_value(lines, SUBJECT)
    sequence, stamp = find_value(lines, SEQUENCE), find_value(lines, TIME_STAMP)
    if stream is None or subject is None or sequence is None or stamp is None:
        raise ProtocolViolation(f"direct-get reply lacks required headers: {block[:200]!r}")
    try:
        return StreamMessage(
            stream=stream.decode("utf-8", "surrogateescape"),
            subject=subject.decode("utf-8", "surrogateescape"),
            seq=int(sequence),
            time_ns=parse_rfc3339(stamp.decode("ascii", "replace")),
            data=reply.data,
            header_block=block[: start + 2] + b"\r\n" if start > len(b"NATS/1.0") else b"",
        )
    except ValueError as error:
        raise ProtocolViolation(
            f"direct-get reply with headers that cannot be decoded: {error}"
        ) from error


def from_leader(stream: str, message: StoredMessage) -> StreamMessage:
    """Decode the answer of STREAM.MSG.GET."""
    return StreamMessage(
        stream=stream,
        subject=message.subject,
        seq=message.seq,
        time_ns=int(message.time),
        data=message.data,
        header_block=message.hdrs,
    )
