"""Records: the layout on disk of a message, or of a change of a stream (disk-format.md, Records).

Little-endian, fixed part 40 bytes::

    0  u32 magic "JSR1"      4  u32 total length     8  u64 sequence (0: not a message)
    16 i64 time ns          24  u16 subject length  26  u8 kind     27  u8 flags
    28 u32 headers length   32  u32 key id          36  u32 frame word

then subject, headers, body, CRLF, and an 8-byte checksum: the xxh3-64 digest (big-endian, its
canonical form) of everything from byte 8 up to and including the CRLF, seeded with the stream's
id. The frame word is length ^ low half of sequence ^ low half of the id: it distinguishes a
damaged length from a damaged body without a second hash.

Flag ``GROUP_FIRST`` marks the first record of a synced write. A stream has one group in flight at
a time, so such a record proves that everything before it was on disk when it was written: this is
how recovery distinguishes damage from the rest of an interrupted write (``replay.py``).

An atomic batch is a run of records in one synced write: each has ``BATCH_MEMBER``, the first
``BATCH_FIRST``, the last ``BATCH_LAST``.

``COMPRESSED``: the body is replaced by its length, as a 64-bit word, and its zlib stream
(``compression.py``); the checksum covers what is stored. Only rewritten segments have such
records.

Two 32-bit fields are always written and read as one 64-bit word: one native call.
"""

from typing import Any, Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64
from xxhash import xxh3_64_digest

MAGIC: Final[i64] = 0x3152534A  # b"JSR1"
FIXED: Final[i64] = 40
# Fixed part, CRLF and checksum: a record without subject, headers and body.
OVERHEAD: Final[i64] = 50
# No record is longer: subject 64 KiB, headers and body are limited by max_payload (64 MiB).
LENGTH_MAX: Final[i64] = 128 * 1024 * 1024
SUBJECT_MAX: Final[i64] = 0xFFFF  # its length is a u16

# A record of this size or more is not copied on the loop if possible: that would take most of a
# millisecond.
LARGE: Final[i64] = 512 * 1024

MESSAGE: Final[i64] = 1
DELETE_RANGE: Final[i64] = 2
PURGE: Final[i64] = 3
SKIP: Final[i64] = 4
SEGMENT_DROP: Final[i64] = 5
CONSUMER: Final[i64] = 6
CONSUMER_STATE: Final[i64] = 7
FAST_BATCH: Final[i64] = 8
CONFIGURATION: Final[i64] = 9

BATCH_MEMBER: Final[i64] = 1
BATCH_LAST: Final[i64] = 2
COMPRESSED: Final[i64] = 4
GROUP_FIRST: Final[i64] = 8
BATCH_FIRST: Final[i64] = 16

# Results of `examine` other than a length.
TRUNCATED: Final[i64] = 0  # the data ends inside the record
BAD_FRAME: Final[i64] = -1  # magic, length or frame word are wrong: no record starts here
BAD_CHECK: Final[i64] = -2  # framing is valid, content is not

_LOW: Final[i64] = 0xFFFFFFFF
_SIGN: Final[i64] = 0x80000000
_WRAP: Final[i64] = 0x100000000


class Codec:
    """Encodes and validates the records of one stream, whose id seeds every checksum."""

    def __init__(self, stream_id: int) -> None:
        self.seed: int = stream_id
        # The same as an object: compiled code would make one for each checksum.
        self._seed: Any = stream_id
        self.id_low: i64 = stream_id & 0xFFFFFFFF
        self.scratch: BytesWriter = BytesWriter()
        # The overhead per message in addition to subject, headers and body, as in nats-server; and
        # with headers.
        self.message_cost: i64 = 30
        self.headers_cost: i64 = 4

    def count_as_memory(self) -> None:
        """Use the overhead that nats-server adds in a memory store."""
        self.message_cost = 16
        self.headers_cost = 0

    def message_size(self, data: bytes, at: i64) -> i64:
        """Return the accounted size of a message, from its record, compressed or not."""
        lengths = read_i64_le(data, at + 24)
        size = self.size_of(record_length(data, at), headers_in(lengths))
        if (lengths >> 24) & COMPRESSED:
            body = headers_end(data, at)
            size += read_i64_le(data, body) - (body_end(data, at) - body)
        return size

    def size_of(self, total: i64, headers_length: i64) -> i64:
        """Return the accounted size of a message whose record has this length."""
        size: i64 = total - OVERHEAD + self.message_cost
        if headers_length > 0:
            size += self.headers_cost
        return size

    def encode(
        self,
        writer: BytesWriter,
        seq: i64,
        time_ns: i64,
        kind: i64,
        flags: i64,
        subject: bytes,
        headers_length: i64,
        tail: bytes,
    ) -> i64:
        """Append one record to ``writer`` and return its length.

        ``tail`` is headers, body and CRLF in one piece: that is how a publish arrives. Raises
        ValueError, with nothing written, for values that the format cannot hold.
        """
        subject_length: i64 = len(subject)
        total: i64 = FIXED + 8 + subject_length + len(tail)
        if subject_length > SUBJECT_MAX or total > LENGTH_MAX or headers_length + 2 > len(tail):
            raise too_long(subject_length, headers_length, total)
        frame: i64 = (total ^ seq ^ self.id_low) & _LOW
        if frame >= _SIGN:
            frame -= _WRAP
        scratch = self.scratch
        scratch.truncate(0)
        write_i64_le(scratch, seq)
        write_i64_le(scratch, time_ns)
        write_i64_le(
            scratch, subject_length | (kind << 16) | (flags << 24) | (headers_length << 32)
        )
        write_i64_le(scratch, frame << 32)
        scratch.write(subject)
        scratch.write(tail)
        checked = scratch.getvalue()
        write_i64_le(writer, MAGIC | (total << 32))
        writer.write(checked)
        writer.write(xxh3_64_digest(checked, self._seed))
        return total

    def encode_head(
        self,
        seq: i64,
        time_ns: i64,
        kind: i64,
        flags: i64,
        subject: bytes,
        headers_length: i64,
        tail_length: i64,
    ) -> bytes:
        """Encode everything before the tail of a record that is too large to be copied here.

        The digest of both except for the first 8 bytes follows (``Parts`` in ``log/group.py``).
        """
        subject_length: i64 = len(subject)
        total: i64 = FIXED + 8 + subject_length + tail_length
        if subject_length > SUBJECT_MAX or total > LENGTH_MAX or headers_length + 2 > tail_length:
            raise too_long(subject_length, headers_length, total)
        frame: i64 = (total ^ seq ^ self.id_low) & _LOW
        if frame >= _SIGN:
            frame -= _WRAP
        head = BytesWriter()
        write_i64_le(head, MAGIC | (total << 32))
        write_i64_le(head, seq)
        write_i64_le(head, time_ns)
        write_i64_le(head, subject_length | (kind << 16) | (flags << 24) | (headers_length << 32))
        write_i64_le(head, frame << 32)
        head.write(subject)
        return head.getvalue()

    def examine(self, data: bytes, at: i64) -> i64:
        """Return the length of the record at ``at``, or TRUNCATED, BAD_FRAME, BAD_CHECK."""
        left: i64 = len(data) - at
        if left < OVERHEAD:
            return TRUNCATED
        total = self.framed_length(data, at)
        if total < 0:
            return BAD_FRAME
        if total > left:
            return TRUNCATED
        if total < LARGE:
            digest = xxh3_64_digest(data[at + 8 : at + total - 8], self._seed)
        else:
            digest = xxh3_64_digest(memoryview(data)[at + 8 : at + total - 8], self._seed)
        if digest != data[at + total - 8 : at + total]:
            return BAD_CHECK
        return total

    def framed_length(self, data: bytes, at: i64) -> i64:
        """Return the length that the fixed part at ``at`` claims, or BAD_FRAME.

        The whole fixed part must exist; the rest need not.
        """
        head = read_i64_le(data, at)
        total: i64 = (head >> 32) & _LOW
        if (head & _LOW) != MAGIC or total < OVERHEAD or total > LENGTH_MAX:
            return BAD_FRAME
        frame: i64 = (read_i64_le(data, at + 32) >> 32) & _LOW
        if frame != (total ^ read_i64_le(data, at + 8) ^ self.id_low) & _LOW:
            return BAD_FRAME
        lengths = read_i64_le(data, at + 24)
        if OVERHEAD + (lengths & 0xFFFF) + ((lengths >> 32) & _LOW) > total:
            return BAD_FRAME
        return total


def too_long(subject_length: i64, headers_length: i64, total: i64) -> ValueError:
    """Return the error for values that the format cannot hold."""
    return ValueError(
        f"a record holds a subject of up to {int(SUBJECT_MAX)} bytes and "
        f"{int(LENGTH_MAX)} bytes in all, the headers within them; this one has a subject "
        f"of {int(subject_length)}, headers of {int(headers_length)}, {int(total)} in all"
    )


def record_length(data: bytes, at: i64) -> i64:
    """Length of a valid record."""
    return (read_i64_le(data, at) >> 32) & _LOW


def record_sequence(data: bytes, at: i64) -> i64:
    """Sequence of a valid record; 0 if it is not a message."""
    return read_i64_le(data, at + 8)


def record_time(data: bytes, at: i64) -> i64:
    """Time of a valid record."""
    return read_i64_le(data, at + 16)


def record_kind(data: bytes, at: i64) -> i64:
    """Kind of a valid record."""
    return (read_i64_le(data, at + 24) >> 16) & 0xFF


def record_flags(data: bytes, at: i64) -> i64:
    """Flags of a valid record."""
    return (read_i64_le(data, at + 24) >> 24) & 0xFF


def record_key(data: bytes, at: i64) -> i64:
    """Key id of a valid record; 0 if it is not encrypted."""
    return read_i64_le(data, at + 32) & _LOW


def subject_end(data: bytes, at: i64) -> i64:
    """End of the subject and start of the headers; the subject starts at ``at + FIXED``."""
    return at + FIXED + (read_i64_le(data, at + 24) & 0xFFFF)


def record_lengths(data: bytes, at: i64) -> i64:
    """The word that holds kind, flags and the lengths of subject and headers."""
    return read_i64_le(data, at + 24)


def kind_in(lengths: i64) -> i64:
    """Kind of a record, from the word of its lengths."""
    return (lengths >> 16) & 0xFF


def headers_in(lengths: i64) -> i64:
    """Length of the headers of a record, from the word of its lengths."""
    return (lengths >> 32) & _LOW


def headers_end(data: bytes, at: i64) -> i64:
    """End of the headers and start of the body."""
    lengths = read_i64_le(data, at + 24)
    return at + FIXED + (lengths & 0xFFFF) + ((lengths >> 32) & _LOW)


def body_end(data: bytes, at: i64) -> i64:
    """End of the body and start of its CRLF."""
    return at + record_length(data, at) - 10
