"""Index files: what a start must know of a segment, without the messages themselves.

Beside a segment lies ``<segment>.idx``: its records in their order, each message as sixteen bytes
(where it lies, what it counts, its subject), every other record whole. Replaying it does to the
index what replaying the segment does, limits and removals included, so nothing in it is ever out
of date and nothing has to be written again when messages go: it is made once, from the file, when
a segment is full, and for the newest one when enough was written. A start reads it and then the
rest of the segment. When it is missing or does not check, the segment itself is read.

The file: a frame (``manifest.py``, magic ``JSI1``), entries, and the xxh3-64 digest of all before,
seeded with the stream's id. An entry is two 64-bit words and what they announce::

    place | sequence step << 32 + subject     a message; places as in ``columns.py``
    -1 | length                               a subject follows: the next number of this file;
                                              it may have another one already
    -2 | length                               a record follows that is not a message
    -3 | sequence                             the next message counts from here
    -4 | time                                 the end; when the last message was stored

``index_writer.py`` makes it in steps of a bounded size.
"""

from typing import TYPE_CHECKING, Final

import msgspec
from mypy_extensions import i64
from xxhash import xxh3_64_digest

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
STEP_MAX: Final[i64] = 0x7FFFFFFF


class IndexHead(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of which segment this is."""

    version: int
    stream_id: int
    segment: str
    first_offset: int
    covered: int
    # That of the file; a segment that was rewritten has another one.
    generation: int = 0


_decoder: Final = msgspec.json.Decoder(IndexHead)


def read_index_file(log: "StreamLog", name: str) -> tuple[IndexHead, bytes] | None:
    """Return the index file of a segment; None when it is no use.

    It may cover more than the segment has, if that was cut since.
    """
    try:
        data = log.segments.files.read_file(log.segments.folder / (name + SUFFIX))
    except OSError:
        return None
    head = index_head(data, log.codec.seed)
    if head is None or head.segment != name:
        return None
    return (head, data) if head.first_offset <= head.covered else None


def index_head(data: bytes, stream_id: int) -> IndexHead | None:
    """The head of an index file that checks; None when anything about it is wrong."""
    document = unframe(MAGIC, data)
    if document is None or xxh3_64_digest(data[:-8], stream_id) != data[-8:]:
        return None
    try:
        head = _decoder.decode(document)
    except ValueError:
        return None
    return head if head.version == VERSION and head.stream_id == stream_id else None
