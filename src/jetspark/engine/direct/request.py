"""Parsing of a direct get: a valid request, or the status that refuses it."""

from typing import Final

import msgspec

from jetspark.api.levels import API_LEVEL
from jetspark.api.message import MsgGetRequest, decode_msg_get
from jetspark.headers.block import find_value
from jetspark.headers.names import REQUIRED_API_LEVEL
from jetspark.headers.status import (
    BAD_REQUEST_TEXT,
    EMPTY_REQUEST_TEXT,
    MALFORMED_REQUEST_TEXT,
    PRECONDITION_FAILED,
    REQUIRED_API_LEVEL_TEXT,
    TIMEOUT,
    status_block,
)
from jetspark.units import parse_int64

EMPTY: Final = status_block(TIMEOUT, EMPTY_REQUEST_TEXT)
MALFORMED: Final = status_block(TIMEOUT, MALFORMED_REQUEST_TEXT)
BAD: Final = status_block(TIMEOUT, BAD_REQUEST_TEXT)
LEVEL_TOO_LOW: Final = status_block(PRECONDITION_FAILED, REQUIRED_API_LEVEL_TEXT)


def needs_newer(headers: bytes) -> bool:
    """Return whether a request requires a higher API level than this server has.

    A value that is not a number is refused too (wire.md, API requests).
    """
    if not headers:
        return False
    wanted = find_value(headers, REQUIRED_API_LEVEL)
    if not wanted:
        return False
    level = parse_int64(wanted.decode("ascii", "replace"))
    return level is None or level > API_LEVEL


def parse_request(body: bytes, appended: str) -> MsgGetRequest | bytes:
    """Return the request, or the status block to answer with.

    ``appended`` is the subject after the stream's name in the request subject, if any: that form
    names the message itself and allows no other selection (ADR-31, decisions.md).
    """
    if appended and not body:
        return MsgGetRequest(last_by_subj=appended)
    if not body:
        return EMPTY
    request = _decoded(body)
    if request is None:
        return MALFORMED
    if appended:
        return (
            BAD if _selects(request) else msgspec.structs.replace(request, last_by_subj=appended)
        )
    return _refusal(request) or request


def _decoded(body: bytes) -> MsgGetRequest | None:
    try:
        return decode_msg_get(body)
    except msgspec.MsgspecError:
        return None


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
    last = bool(request.last_by_subj)
    if not (request.seq or last or request.next_by_subj or request.multi_last or timed):
        # ADR-31 lets a batch start at 1 on its own (decisions.md).
        return None if request.batch > 0 else EMPTY
    clash = (
        (request.seq and last)
        or (request.seq and timed)
        or (timed and last)
        or (last and request.next_by_subj)
        or (last and request.batch > 0)
        or (last and request.multi_last)
        or (request.next_by_subj and request.multi_last)
        or (request.up_to_seq and request.up_to_time is not None)
    )
    return BAD if clash else None
