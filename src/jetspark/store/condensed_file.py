"""Reading the file of a condensed segment (``condensed.py``)."""

from typing import Final

import msgspec
from xxhash import xxh3_64_digest

from jetspark.store.condensed import MAGIC, SUFFIX, VERSION, CondensedHead
from jetspark.store.log import StreamLog
from jetspark.store.manifest import unframe

_decoder: Final = msgspec.json.Decoder(CondensedHead)


def read_condensed(log: StreamLog, name: str, size: int) -> tuple[CondensedHead, bytes] | None:
    """Return the condensed form of a segment of this length; None when it is no use."""
    try:
        data = log.files.read_file(log.folder / (name + SUFFIX))
    except OSError:
        return None
    document = unframe(MAGIC, data)
    if document is None or xxh3_64_digest(data[:-8], log.codec.seed) != data[-8:]:
        return None
    try:
        head = _decoder.decode(document)
    except ValueError:
        return None
    if head.version != VERSION or head.stream_id != log.codec.seed or head.segment != name:
        return None
    return (head, data) if head.first_offset <= head.covered <= size else None
