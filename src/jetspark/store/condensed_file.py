"""Reading the file of a condensed segment (``condensed.py``)."""

from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_64_digest

from jetspark.store.condensed import MAGIC, SUFFIX, VERSION, CondensedHead
from jetspark.store.manifest import unframe

if TYPE_CHECKING:
    from jetspark.store.log import StreamLog

_decoder: Final = msgspec.json.Decoder(CondensedHead)


def read_condensed(log: "StreamLog", name: str, size: int) -> tuple[CondensedHead, bytes] | None:
    """Return the condensed form of a segment of this length; None when it is no use."""
    try:
        data = log.segments.files.read_file(log.segments.folder / (name + SUFFIX))
    except OSError:
        return None
    head = condensed_head(data, log.codec.seed)
    if head is None or head.segment != name:
        return None
    return (head, data) if head.first_offset <= head.covered <= size else None


def condensed_head(data: bytes, stream_id: int) -> CondensedHead | None:
    """The head of a condensed file that checks; None when anything about it is wrong."""
    document = unframe(MAGIC, data)
    if document is None or xxh3_64_digest(data[:-8], stream_id) != data[-8:]:
        return None
    try:
        head = _decoder.decode(document)
    except ValueError:
        return None
    return head if head.version == VERSION and head.stream_id == stream_id else None
