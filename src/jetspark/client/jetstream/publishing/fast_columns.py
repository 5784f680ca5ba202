"""Header blocks of the rows that ``FastPublisher.extend`` sends. Pure."""

from collections.abc import Sequence
from itertools import repeat

from jetspark.client.jetstream.publishing.publisher import publish_headers


def row_block(headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, row: int) -> bytes:
    """The header block of a row."""
    block = headers[row] if headers is not None else b""
    if msg_ids is None or not msg_ids[row]:
        return block
    own = publish_headers(None, msg_ids[row], None, None)
    return block[:-2] + own[10:] if block else own


def row_blocks(
    headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, at: int, stop: int
) -> Sequence[bytes]:
    """The header blocks of rows."""
    if msg_ids is not None:
        return [row_block(headers, msg_ids, row) for row in range(at, stop)]
    return list(repeat(b"", stop - at)) if headers is None else headers[at:stop]
