"""Segment files: their names and heads.

A head is a framed document (see ``manifest.py``, magic ``JSS1``): the stream's identity and the
position in the stream where the segment starts. Records follow it directly. The last one may be
followed by *filler*: syncing into bytes that exist already costs a third less than growing the
file each time, so a small group that reaches the end of the file also writes some filler. Filler
is not a record, and it is not zero: damage and unwritten sectors look like zeros.
"""

import errno
import re
from pathlib import Path
from typing import Final

import msgspec

from jetspark.store.files import Files
from jetspark.store.format.manifest import (
    Identity,
    decode_identity,
    encode_identity,
    frame,
    unframe,
    unreadable,
)

SEGMENT_MAGIC: Final = b"JSS1"
SUFFIX: Final = ".seg"
SEGMENT_SIZE: Final = 32 * 1024 * 1024

# A stream with a size limit has smaller segments, so that evicted messages leave the disk, too:
# this fraction of its limit, but not so small that a few messages fill one.
SEGMENT_PART: Final = 8
SEGMENT_MIN: Final = 1024 * 1024

FILLER: Final = b"\xa5"
FILLER_SIZE: Final = 256 * 1024
# No more filler than records, so that a stream of a few messages is a small file. All streams
# share the pieces.
FILLER_MIN: Final = 4 * 1024
FILLERS: Final = tuple(FILLER * size for size in (256 * 1024, 64 * 1024, 16 * 1024, 4 * 1024))
# What a stream is created with: enough for the messages until its manifests are written, even if
# many streams are created at once and become busy (``upkeep/manifests.py``).
YOUNG_FILLER: Final = FILLERS[-2]
# Large groups gain little and would write everything twice.
FILLED_GROUP_MAX: Final = 16 * 1024

# Names allow larger numbers than sequences and positions can have. A stream begins at 2^62 at the
# most; its messages follow, and whatever is added to the last of them is still below 2^63.
SEQUENCE_LIMIT: Final = 2**63 - 2**40
_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.seg", re.ASCII)


class SegmentHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position of a segment in its stream, and state in case older segments are missing."""

    first_seq: int
    first_position: int
    # Every message below had been removed when the segment was started; 0: unknown.
    first_live: int = 0
    last_time: int = 0
    # How often the file was rewritten, and up to which position it replaces others
    # (``compaction.py``); 0: it is the original.
    generation: int = 0
    through: int = 0
    # Its messages were compressed where that saved space.
    packed: bool = False
    # The highest consumer id until then.
    consumer_number: int = 0
    identity: msgspec.Raw


_head_decoder = msgspec.json.Decoder(SegmentHead)


def fitting_size(max_bytes: int, largest: int) -> int:
    """Return the segment length for a stream of ``max_bytes`` (0 or less: no limit)."""
    if max_bytes <= 0:
        return largest
    return min(largest, max(SEGMENT_MIN, max_bytes // SEGMENT_PART))


def segment_name(first_seq: int, first_position: int) -> str:
    """Return the file name of a segment; sorting names sorts segments.

    The position makes it unique: two segments can start at one sequence if the first one contains
    only records that are not messages.
    """
    return f"{first_seq:020d}-{first_position:020d}{SUFFIX}"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Return first sequence and first position of a segment; None for other files."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    begin = int(found[1]), int(found[2])
    return begin if max(begin) <= SEQUENCE_LIMIT else None


def encode_head(
    identity: Identity,
    first_seq: int,
    first_position: int,
    *,
    first_live: int = 0,
    last_time: int = 0,
    consumer_number: int = 0,
) -> bytes:
    """Return the bytes that a segment starts with."""
    head = SegmentHead(
        first_seq=first_seq,
        first_position=first_position,
        first_live=first_live,
        last_time=last_time,
        consumer_number=consumer_number,
        identity=msgspec.Raw(encode_identity(identity)),
    )
    return frame(SEGMENT_MAGIC, msgspec.json.encode(head))


def encode_rewritten_head(head: SegmentHead) -> bytes:
    """Return the bytes that a rewritten segment starts with."""
    return frame(SEGMENT_MAGIC, msgspec.json.encode(head))


def create_segment(files: Files, path: Path, head: bytes) -> int:
    """Create a segment file durably; return its handle. Records follow its head.

    It appears under its name completely or not at all, so a failed attempt can be repeated.
    """
    try:
        handle = files.open(path)
    except FileNotFoundError:
        pass
    else:
        # Left by an attempt whose last step failed; if it has records, it must never be
        # replaced.
        length = files.size(handle)
        files.close(handle)
        if length > len(head):
            raise FileExistsError(errno.EEXIST, "a segment with records exists", str(path))
    files.replace(path, head)
    return files.open(path)


def read_head(data: bytes) -> tuple[SegmentHead, int] | None:
    """Decode the head at the start of ``data``; return it and where the records start."""
    document = unframe(SEGMENT_MAGIC, data)
    if document is None:
        return None
    try:
        return _head_decoder.decode(document), 8 + len(document) + 8
    except ValueError as error:
        raise unreadable(document, error) from error


def identity_of(head: SegmentHead) -> Identity:
    """Return the identity that a segment contains."""
    return decode_identity(bytes(head.identity))


def refill(files: Files, handle: int, offset: int, end: int) -> None:
    """Overwrite a part of a segment with filler, durably."""
    files.write_synced(handle, [FILLER * (end - offset)], offset)


def filler_begins(data: bytes) -> int:
    """Return where the filler at the end of some bytes begins; their length if they have none.

    By whole pieces: stripping single bytes takes 25 us for a stream that was just created, which
    is a tenth of opening it.
    """
    end = len(data)
    for piece in FILLERS:
        while data.endswith(piece, 0, end):
            end -= len(piece)
    rest = max(0, end - FILLER_MIN)
    return rest + len(data[rest:end].rstrip(FILLER))


def without_filler(data: bytes, good: int) -> bytes:
    """Return the content of a segment without filler; ``good`` bytes are records."""
    return data[: max(good, filler_begins(data))]
