"""Compressed messages: the layout of a compressed body, and how it is read (``record.py``).

``compression: s2`` in a stream's configuration allows its messages to be compressed on disk;
readers never see it. We compress with zlib, at its fastest level, each message separately so that
one flipped bit still damages only one message, and only when a full segment is rewritten
(``compaction.py``): nothing that waits for an acknowledgement pays for it. Stream state counts
messages uncompressed; ``disk_bytes`` of a log is the size on disk.

Not compiled: zlib does the work.
"""

import struct
import zlib
from typing import Final

from librt.strings import BytesWriter

from jetspark.store.format.record import (
    COMPRESSED,
    FIXED,
    GROUP_FIRST,
    LENGTH_MAX,
    MESSAGE,
    OVERHEAD,
    Codec,
    body_end,
    headers_end,
    record_flags,
    record_length,
    record_sequence,
    record_time,
    subject_end,
)

LEVEL: Final = 1
# A body is decompressed in pieces of this size, so that other threads run in between.
PIECE: Final = 1024 * 1024
# Compressing shorter bodies gains nothing: zlib adds eleven bytes, and the length is eight.
BODY_MIN: Final = 64


def pack(codec: Codec, data: bytes, at: int, writer: BytesWriter) -> bool:
    """Write the message at ``at`` with its body compressed; False if that gains nothing."""
    begin, end = int(headers_end(data, at)), int(body_end(data, at))
    if end - begin < BODY_MIN or int(record_flags(data, at)) & COMPRESSED:
        return False
    packed = zlib.compress(data[begin:end], LEVEL)
    if 8 + len(packed) >= end - begin:
        return False
    subject = int(subject_end(data, at))
    codec.encode(
        writer,
        record_sequence(data, at),
        record_time(data, at),
        MESSAGE,
        int(record_flags(data, at)) & int(GROUP_FIRST) | int(COMPRESSED),
        data[at + int(FIXED) : subject],
        begin - subject,
        data[subject:begin] + struct.pack("<q", end - begin) + packed + b"\r\n",
    )
    return True


def unpacked(data: bytes, at: int) -> bytes:
    """Return the record at ``at`` with its body decompressed, for readers; without a checksum.

    Empty if the body cannot be decompressed.
    """
    begin, end = int(headers_end(data, at)), int(body_end(data, at))
    if end - begin < 8:
        return b""
    length = int(struct.unpack_from("<q", data, begin)[0])
    if not 0 <= length <= LENGTH_MAX:
        return b""
    pieces = _decompressed(memoryview(data)[begin + 8 : end], length)
    if pieces is None:
        return b""
    total = int(record_length(data, at)) - (end - begin) + length
    fixed = bytearray(data[at : at + int(FIXED)])
    struct.pack_into("<I", fixed, 4, total)
    fixed[27] &= ~int(COMPRESSED)
    middle = data[at + int(FIXED) : begin]
    # Joining megabytes releases the interpreter lock.
    plain = b"".join([bytes(fixed), middle, *pieces, b"\r\n", bytes(8)])
    assert len(plain) == total >= OVERHEAD, "the record has its full length"
    return plain


def _decompressed(packed: memoryview, length: int) -> list[bytes] | None:
    """Return a body of this length in pieces; None if the stream is damaged or has another."""
    stream = zlib.decompressobj()
    pieces: list[bytes] = []
    left = length
    at = 0
    rest = b""
    try:
        while not stream.eof and left >= 0:
            if not rest:
                rest = bytes(packed[at : at + PIECE])
                at += len(rest)
            # One byte more: the stream is over, or longer than it claims.
            piece = stream.decompress(rest, min(PIECE, left + 1))
            if not piece and not rest and not stream.eof:
                return None
            rest = stream.unconsumed_tail
            pieces.append(piece)
            left -= len(piece)
    except zlib.error:
        return None
    return pieces if stream.eof and left == 0 else None
