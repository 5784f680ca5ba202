"""The byte layout of journal files (disk-format.md, Journal).

A file is a head, twice, and frames at multiples of a sector. A frame has the groups of one turn: a
table that says where each group belongs, then their bytes. Everything is checksummed with a random
key that is in the head and changes whenever a file is used again: frames of an earlier use fail
their checks, and no payload can imitate a frame.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from librt.strings import BytesWriter, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from jetspark.errors.storage import WrongStoreFormat

HEAD_MAGIC: Final = b"JSJ1"
FRAME_MAGIC: Final = b"JSF1"
VERSION: Final = 1
# The two copies of the head are in different sectors, whatever their size.
HEAD_COPIES: Final = (0, 4096)
FRAMES_AT: Final = 8192
# Frames begin at multiples of this: no sector contains parts of two frames.
ALIGNMENT: Final = 512

_HEAD: Final = struct.Struct("<4sIQQQQ")
_FRAME: Final = struct.Struct("<4sIQII")
_ENTRY: Final = struct.Struct("<QQQQQQII")
_NAME: Final = struct.Struct("<QQQ")
_CHECK: Final = struct.Struct("<Q")
_COUNTS: Final = struct.Struct("<IQI")
HEAD_SIZE: Final = _HEAD.size
FRAME_OVERHEAD: Final = _FRAME.size + _CHECK.size
ENTRY_SIZE: Final = _ENTRY.size


class Head(NamedTuple):
    """The head of a journal file: its key, and the number of its first frame.

    Frames below ``floor`` were not needed any more when the file came into use.
    """

    key: int
    first: int
    floor: int = 0


class Place(NamedTuple):
    """Where a group belongs: its stream, the segment by name and generation, the offset."""

    stream_id: int
    first_seq: int
    first_position: int
    generation: int
    offset: int

    @property
    def name_in_frame(self) -> bytes:
        """The first fields of an entry."""
        return name_in_frame(self.stream_id, self.first_seq, self.first_position)


def name_in_frame(stream_id: int, first_seq: int, first_position: int) -> bytes:
    """Return how an entry of a frame begins: the stream, and the name of the segment."""
    return _NAME.pack(stream_id, first_seq, first_position)


class PlacedSegment(Protocol):
    """The segment of a group (``JournaledSegment``)."""

    @property
    def name_in_frame(self) -> bytes:
        """Its stream and its name as an entry begins (``name_in_frame``)."""
        ...

    @property
    def generation(self) -> int:
        """How often the file was rewritten."""
        ...


Segment_co = TypeVar("Segment_co", bound=PlacedSegment, covariant=True)


class JournalGroup(Protocol[Segment_co]):
    """A group as a frame contains it (``store.log.Group`` is one)."""

    @property
    def segment(self) -> Segment_co:
        """The segment it belongs to."""
        ...

    @property
    def offset(self) -> int:
        """The offset in the segment."""
        ...

    @property
    def blob(self) -> bytes:
        """Its bytes."""
        ...

    @property
    def last_seq(self) -> int:
        """The last sequence that was assigned with it."""
        ...


class Entry(NamedTuple):
    """A group that was found in a frame. ``data`` is None if its bytes fail their check."""

    place: Place
    last_seq: int
    length: int
    data: bytes | None


class Frame(NamedTuple):
    """A frame that was found. ``whole``: every group in it passes its check."""

    number: int
    at: int
    end: int
    entries: list[Entry]

    @property
    def whole(self) -> bool:
        """Return whether every group passes its check."""
        return all(entry.data is not None for entry in self.entries)


def encode_head(head: Head) -> bytes:
    """Return one copy of the head of a file.

    The second copy is written first, durably, then the first: one of them is always valid, or the
    file was never used and the first one is zeros.
    """
    fixed = HEAD_MAGIC + struct.pack("<IQQQ", VERSION, head.key, head.first, head.floor)
    return fixed + _CHECK.pack(xxh3_64_intdigest(fixed))


def is_unused(data: bytes) -> bool:
    """Return whether a file has no head because it was never used."""
    return not data[: HEAD_COPIES[1]].strip(b"\0")


def decode_head(data: bytes) -> Head | None:
    """Decode the head of a file; None if both copies are damaged.

    Raises WrongStoreFormat if another version of jetspark wrote it.

    If a power failure interrupted the head of the next use, the copies may differ: the later one
    counts, and it has no frames yet.
    """
    found = []
    for at in HEAD_COPIES:
        if len(data) < at + HEAD_SIZE:
            continue
        magic, version, key, first, floor, check = _HEAD.unpack_from(data, at)
        fixed = data[at : at + HEAD_SIZE - _CHECK.size]
        if magic == HEAD_MAGIC and check == xxh3_64_intdigest(fixed):
            if version != VERSION:
                raise WrongStoreFormat(
                    f"the journal has format {version}, this version reads format {VERSION}: open "
                    "the store with the jetspark that wrote it"
                )
            found.append(Head(key, first, floor))
    return max(found, key=lambda head: head.first, default=None)


def frame_size(groups: int, size: int) -> int:
    """Return the length of a frame with this many groups, of this size in total."""
    return FRAME_OVERHEAD + groups * ENTRY_SIZE + size


def encode_frame(key: int, number: int, groups: Iterable[JournalGroup[PlacedSegment]]) -> bytes:
    """Return a frame."""
    # With very many streams in a turn this is done once per message: no objects per group.
    table = BytesWriter()
    blobs = []
    size = 0
    for group in groups:
        blob = group.blob
        segment = group.segment
        length: i64 = len(blob)
        size += length
        table.write(segment.name_in_frame)
        write_i64_le(table, group.offset)
        write_i64_le(table, group.last_seq)
        write_i64_le(table, read_i64_be(xxh3_64_digest(blob, key), 0))
        write_i32_le(table, i32(length))
        write_i32_le(table, i32(segment.generation))
        blobs.append(blob)
    total = frame_size(len(blobs), size)
    count = len(blobs)
    check = _head_check(FRAME_MAGIC, total, number, count, key)
    fixed = _FRAME.pack(FRAME_MAGIC, total, number, count, check) + table.getvalue()
    return b"".join((fixed, _CHECK.pack(xxh3_64_intdigest(fixed, key)), *blobs))


def _head_check(magic: bytes, total: int, number: int, count: int, key: int) -> int:
    """Return the check of the head of a frame.

    A payload may look like thousands of heads of long tables, and a start would hash each of them.
    """
    return xxh3_64_intdigest(magic + _COUNTS.pack(total, number, count), key) & 0xFFFFFFFF


def aligned(at: int) -> int:
    """Return where the next frame after ``at`` may begin."""
    return (at + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def decode_frame(data: bytes, at: int, key: int) -> Frame | None:
    """Decode the frame at ``at``; None if its table fails its check.

    Groups whose bytes fail their check, or that are not complete, have no data.
    """
    if len(data) < at + FRAME_OVERHEAD:
        return None
    magic, total, number, count, check = _FRAME.unpack_from(data, at)
    if magic != FRAME_MAGIC or check != _head_check(magic, total, number, count, key):
        return None
    table_end = at + _FRAME.size + count * ENTRY_SIZE
    if len(data) < table_end + _CHECK.size:
        return None
    if _CHECK.unpack_from(data, table_end)[0] != xxh3_64_intdigest(data[at:table_end], key):
        return None
    entries = []
    begin = table_end + _CHECK.size
    for n in range(count):
        stream_id, first_seq, first_position, offset, last_seq, check, length, generation = (
            _ENTRY.unpack_from(data, at + _FRAME.size + n * ENTRY_SIZE)
        )
        blob = data[begin : begin + length]
        begin += length
        good = len(blob) == length and xxh3_64_intdigest(blob, key) == check
        place = Place(stream_id, first_seq, first_position, generation, offset)
        entries.append(Entry(place, last_seq, length, blob if good else None))
    return Frame(number, at, at + total, entries)


def frames_in(data: bytes, head: Head) -> Iterator[Frame]:
    """Find the frames of a file, in order; those after damaged bytes as well."""
    at = FRAMES_AT
    number = head.first
    while at >= 0:
        frame = decode_frame(data, at, head.key)
        if frame is not None and frame.number >= number:
            yield frame
            number = frame.number + 1
            at = aligned(frame.end)
        else:
            at = data.find(FRAME_MAGIC, at + 1)
            while at >= 0 and at % ALIGNMENT:
                at = data.find(FRAME_MAGIC, aligned(at))
