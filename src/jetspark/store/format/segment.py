"""Segment files: their names, and the head each one begins with.

A head is a framed document (see ``manifest.py``, magic ``JSS1``): the stream's identity and where
in the stream this segment begins. Records follow it directly. Behind the last one there may be
*filler*: syncing into bytes that exist already costs a third less than growing the file each
time, so a small group that reaches the end of the file takes some filler with it.
Filler is no record, and it is not zero: zeros are what damage and unwritten sectors look like.
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

# A stream with a limit of its size has smaller ones, so that what it evicts leaves the disk, too:
# this part of its limit, but none that would be full after a few messages.
SEGMENT_PART: Final = 8
SEGMENT_MIN: Final = 1024 * 1024

FILLER: Final = b"\xa5"
FILLER_SIZE: Final = 256 * 1024
# No more filler than there are records, so that a stream of a few messages is a small file. The
# pieces are shared by all streams.
FILLER_MIN: Final = 4 * 1024
FILLERS: Final = tuple(FILLER * size for size in (256 * 1024, 64 * 1024, 16 * 1024, 4 * 1024))
# Large groups gain little and would write everything twice.
FILLED_GROUP_MAX: Final = 16 * 1024

_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.seg")


class SegmentHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a segment stands in its stream, and what older segments may not exist to say."""

    first_seq: int
    first_position: int
    # Every message below had gone when the segment was begun; 0: nothing is known.
    first_live: int = 0
    last_time: int = 0
    # How often the file was rewritten, and up to which position it goes instead of others
    # (``compaction.py``); 0: it is the original.
    generation: int = 0
    through: int = 0
    # Its messages were compressed where that gained something.
    packed: bool = False
    # The highest number that a consumer had until then.
    consumer_number: int = 0
    identity: msgspec.Raw


_head_decoder = msgspec.json.Decoder(SegmentHead)


def fitting_size(max_bytes: int, largest: int) -> int:
    """How long the segments of a stream are that holds ``max_bytes`` (0 or less: no limit)."""
    if max_bytes <= 0:
        return largest
    return min(largest, max(SEGMENT_MIN, max_bytes // SEGMENT_PART))


def segment_name(first_seq: int, first_position: int) -> str:
    """File name of a segment; sorting names sorts segments.

    The position makes it unique: two segments can begin at one sequence when the first of them
    got only records that are not messages.
    """
    return f"{first_seq:020d}-{first_position:020d}{SUFFIX}"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """First sequence and first position of a segment; None when it is another kind of file."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def encode_head(
    identity: Identity,
    first_seq: int,
    first_position: int,
    *,
    first_live: int = 0,
    last_time: int = 0,
    consumer_number: int = 0,
) -> bytes:
    """The bytes a segment begins with."""
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
    """The bytes a segment begins with that was rewritten."""
    return frame(SEGMENT_MAGIC, msgspec.json.encode(head))


def create_segment(files: Files, path: Path, head: bytes) -> int:
    """Make a segment file durably; return its handle. Records follow its head.

    It appears under its name whole or not at all, so an attempt that failed can be repeated.
    """
    try:
        handle = files.open(path)
    except FileNotFoundError:
        pass
    else:
        # Left by an attempt whose last step failed; with records in it, it would be something
        # that must never be replaced.
        length = files.size(handle)
        files.close(handle)
        if length > len(head):
            raise FileExistsError(errno.EEXIST, "a segment with records is in the way", str(path))
    files.replace(path, head)
    return files.open(path)


def read_head(data: bytes) -> tuple[SegmentHead, int] | None:
    """Decode the head at the start of ``data``; return it and where the records begin."""
    document = unframe(SEGMENT_MAGIC, data)
    if document is None:
        return None
    try:
        return _head_decoder.decode(document), 8 + len(document) + 8
    except ValueError as error:
        raise unreadable(document, error) from error


def identity_of(head: SegmentHead) -> Identity:
    """The identity a segment carries."""
    return decode_identity(bytes(head.identity))


def without_filler(data: bytes, good: int) -> bytes:
    """The content of a segment up to the filler after it; ``good`` bytes are records."""
    return data[: max(good, len(data.rstrip(FILLER)))]
