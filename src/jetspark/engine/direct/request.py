"""What a direct get asks for: one legal shape, or the status that refuses it (wire-facts.md 8)."""

from typing import Final

import msgspec

from jetspark.api.message import MsgGetRequest, decode_msg_get
from jetspark.headers.status import (
    BAD_REQUEST_TEXT,
    EMPTY_REQUEST_TEXT,
    MALFORMED_REQUEST_TEXT,
    TIMEOUT,
    status_block,
)

EMPTY: Final = status_block(TIMEOUT, EMPTY_REQUEST_TEXT)
MALFORMED: Final = status_block(TIMEOUT, MALFORMED_REQUEST_TEXT)
BAD: Final = status_block(TIMEOUT, BAD_REQUEST_TEXT)
_NOT_YET: Final = status_block(
    TIMEOUT, b"Bad Request - multi_last is not supported by this version of jetspark yet"
)


def parse_request(body: bytes, appended: str) -> MsgGetRequest | bytes:
    """Return the request, or the status block to answer with.

    ``appended`` is the subject that follows the stream's name in the request subject, if any: that
    form names the message itself and takes no other selection (ADR-31, decisions.md).
    """
    if appended and not body:
        return MsgGetRequest(last_by_subj=appended)
    if not body:
        return EMPTY
    try:
        request = decode_msg_get(body)
    except msgspec.MsgspecError:
        return MALFORMED
    if appended:
        return (
            BAD if _selects(request) else msgspec.structs.replace(request, last_by_subj=appended)
        )
    return _refusal(request) or request


def _selects(request: MsgGetRequest) -> bool:
    return bool(
        request.seq
        or request.last_by_subj
        or request.next_by_subj
        or request.batch
        or request.multi_last
        or request.start_time is not None
        or request.up_to_seq
        or request.up_to_time is not None
    )


def _refusal(request: MsgGetRequest) -> bytes | None:
    timed = request.start_time is not None
    if request.up_to_seq and request.up_to_time is not None:
        return BAD
    if request.multi_last:
        return BAD if request.last_by_subj or request.next_by_subj else _NOT_YET
    if request.last_by_subj:
        clash = request.seq or request.next_by_subj or request.batch or timed
        return BAD if clash else None
    if request.seq and timed:
        return BAD
    if not (request.seq or request.next_by_subj or timed or request.batch > 0):
        return EMPTY
    return None
