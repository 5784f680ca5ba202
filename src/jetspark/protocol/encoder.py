"""Encoders for frames, both directions.

The ``write_*`` forms append to a ``BytesWriter`` that holds the output of one chunk (hot-path.md,
Loop and sockets); the ``encode_*`` forms return one frame. Arguments are trusted: subjects,
replies, queues and sids are validated where they enter.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.headers.numbers import write_number
from jetspark.protocol.handshake import ConnectOptions, ServerInfo, connect_json, info_json

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
OK: Final = b"+OK\r\n"


def write_pub(out: BytesWriter, subject: bytes, reply: bytes, payload: bytes) -> None:
    """Append PUB; an empty ``reply`` means none."""
    out.write(b"PUB ")
    out.write(subject)
    if reply:
        out.write(b" ")
        out.write(reply)
    out.write(b" ")
    write_number(out, len(payload))
    out.write(b"\r\n")
    out.write(payload)
    out.write(b"\r\n")


def write_hpub(
    out: BytesWriter, subject: bytes, reply: bytes, headers: bytes, payload: bytes
) -> None:
    """Append HPUB; ``headers`` is a whole header block with its empty line."""
    out.write(b"HPUB ")
    out.write(subject)
    if reply:
        out.write(b" ")
        out.write(reply)
    out.write(b" ")
    write_number(out, len(headers))
    out.write(b" ")
    write_number(out, len(headers) + len(payload))
    out.write(b"\r\n")
    out.write(headers)
    out.write(payload)
    out.write(b"\r\n")


def write_msg(out: BytesWriter, subject: bytes, sid: bytes, reply: bytes, payload: bytes) -> None:
    """Append MSG; an empty ``reply`` means none."""
    write_msg_head(out, subject, sid, reply, len(payload))
    out.write(payload)
    out.write(b"\r\n")


def write_msg_head(out: BytesWriter, subject: bytes, sid: bytes, reply: bytes, size: i64) -> None:
    """Append everything before the payload of MSG; an empty ``reply`` means none."""
    out.write(b"MSG ")
    out.write(subject)
    out.write(b" ")
    out.write(sid)
    if len(reply) > 0:
        out.write(b" ")
        out.write(reply)
    out.write(b" ")
    write_number(out, size)
    out.write(b"\r\n")


def write_hmsg(
    out: BytesWriter, subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes
) -> None:
    """Append HMSG; ``headers`` is a whole header block with its empty line."""
    write_hmsg_head(out, subject, sid, reply, len(headers), len(payload))
    out.write(headers)
    out.write(payload)
    out.write(b"\r\n")


def write_hmsg_head(
    out: BytesWriter, subject: bytes, sid: bytes, reply: bytes, headers_size: i64, size: i64
) -> None:
    """Append the control line of HMSG; header block and payload have these sizes."""
    out.write(b"HMSG ")
    out.write(subject)
    out.write(b" ")
    out.write(sid)
    if len(reply) > 0:
        out.write(b" ")
        out.write(reply)
    out.write(b" ")
    write_number(out, headers_size)
    out.write(b" ")
    write_number(out, headers_size + size)
    out.write(b"\r\n")


def encode_pub(subject: bytes, reply: bytes, payload: bytes) -> bytes:
    """Return PUB; an empty ``reply`` means none."""
    out = BytesWriter()
    write_pub(out, subject, reply, payload)
    return out.getvalue()


def encode_hpub(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return HPUB; ``headers`` is a whole header block with its empty line."""
    out = BytesWriter()
    write_hpub(out, subject, reply, headers, payload)
    return out.getvalue()


def encode_msg(subject: bytes, sid: bytes, reply: bytes, payload: bytes) -> bytes:
    """Return MSG; an empty ``reply`` means none."""
    out = BytesWriter()
    write_msg(out, subject, sid, reply, payload)
    return out.getvalue()


def encode_hmsg(subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return HMSG; ``headers`` is a whole header block with its empty line."""
    out = BytesWriter()
    write_hmsg(out, subject, sid, reply, headers, payload)
    return out.getvalue()


def encode_sub(subject: bytes, queue: bytes, sid: int) -> bytes:
    """Return SUB; an empty ``queue`` means a plain subscription."""
    if queue:
        return b"SUB %b %b %d\r\n" % (subject, queue, sid)
    return b"SUB %b %d\r\n" % (subject, sid)


def encode_unsub(sid: int, max_msgs: int) -> bytes:
    """Return UNSUB; ``max_msgs`` 0 means immediately."""
    if max_msgs > 0:
        return b"UNSUB %d %d\r\n" % (sid, max_msgs)
    return b"UNSUB %d\r\n" % sid


def encode_err(text: bytes) -> bytes:
    """Return -ERR with the text in quotes."""
    return b"-ERR '%b'\r\n" % text


def encode_info(info: ServerInfo) -> bytes:
    """Return INFO, with a blank before CRLF as nats-server sends it."""
    return b"INFO %b \r\n" % info_json(info)


def encode_connect(options: ConnectOptions) -> bytes:
    """Return CONNECT."""
    return b"CONNECT %b\r\n" % connect_json(options)
