"""Index files: the data of a segment that startup needs, without the messages themselves.

Next to a segment is ``<segment>.idx``: its records in order, each message as sixteen bytes (its
place, its size, its subject), every other record whole. Replaying it has the same effect on the
index as replaying the segment, limits and removals included, so it never becomes out of date and
is not rewritten when messages are removed: it is created once, from the file, when a segment is
full, and for the newest one when enough was written. Startup reads it and then the rest of the
segment. If it is missing or its checksum is wrong, the segment itself is read.

The file: a frame (``manifest.py``, magic ``JSI1``), entries, and the xxh3-64 digest of everything
before it, seeded with the stream's id. An entry is two 64-bit words and what they announce::

    place | sequence step << 32 + subject     a message; places as in ``columns.py``
        -1 | length                               a subject follows: the next subject id of this
                                                  file; it may have another id already
    -2 | length                               a record follows that is not a message
    -3 | sequence                             the next message counts from here
    -4 | time                                 the end; when the last message was stored

``index_writer.py`` creates it in steps of bounded size.
"""

from typing import TYPE_CHECKING, Final

import msgspec
from mypy_extensions import i64
from xxhash import xxh3_64_digest

from jetspark.store.files import Files
from jetspark.store.format.manifest import unframe

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog

MAGIC: Final = b"JSI1"
SUFFIX: Final = ".idx"
VERSION: Final = 1
SUBJECT: Final[i64] = -1
RECORD: Final[i64] = -2
FROM: Final[i64] = -3
END: Final[i64] = -4
# How many bytes of its segment an index file repeats.
LAST: Final = 8
STEP_MAX: Final[i64] = 0x7FFFFFFF


class IndexHead(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the segment that the file covers."""

    version: int
    stream_id: int
    segment: str
    first_offset: int
    covered: int
    # That of the file; a segment that was rewritten has another one.
    generation: int = 0
    # The last bytes of the segment that it covers, the checksum of a record: others may have been
    # written there since, if it was cut. Empty: not recorded, as in older versions.
    last: bytes = b""


_decoder: Final = msgspec.json.Decoder(IndexHead)


def read_index_file(log: "StreamLog", name: str) -> tuple[IndexHead, bytes] | None:
    """Return the index file of a segment; None if it is unusable.

    It may cover more than the segment has, if that was truncated since.
    """
    try:
        data = log.segments.files.read_file(log.segments.folder / (name + SUFFIX))
    except OSError:
        return None
    head = index_head(data, log.codec.seed)
    if head is None or head.segment != name:
        return None
    return (head, data) if head.first_offset <= head.covered else None


def last_bytes(files: Files, handle: int, covered: int) -> bytes:
    """Return the last bytes of the part of a segment that an index file covers."""
    return files.read(handle, max(covered - LAST, 0), LAST)


def is_of(head: IndexHead, files: Files, handle: int) -> bool:
    """Return whether an index file was made from what a segment has now; raises OSError."""
    return head.last in {b"", last_bytes(files, handle, head.covered)}


def index_head(data: bytes, stream_id: int) -> IndexHead | None:
    """Return the head of a valid index file; None if anything is wrong with it."""
    document = unframe(MAGIC, data)
    if document is None or xxh3_64_digest(memoryview(data)[:-8], stream_id) != data[-8:]:
        return None
    try:
        head = _decoder.decode(document)
    except ValueError:
        return None
    return head if head.version == VERSION and head.stream_id == stream_id else None
