"""Maps the status line of a message to an exception (ADR-15, ADR-31, ADR-53)."""

from jetspark.errors.api import (
    ApiLevelRequired,
    BadRequest,
    MessageNotFound,
    MinLastSequence,
    TooManyResults,
)
from jetspark.errors.base import Error
from jetspark.errors.client import (
    ConsumerDeleted,
    NoResponders,
    PinIdMismatch,
    PullRefused,
    RequestTimeout,
    StatusReceived,
)
from jetspark.errors.codes import ErrCode

__all__ = ["status_error"]


def status_error(code: int, text: str) -> Error:
    """Create the exception for a status such as ``412 Min Last Sequence``.

    A status and the JSON error of the same meaning have one class: a caller need not know whether
    a message was read with DIRECT.GET or MSG.GET.
    """
    match code, text:
        case 412, "Required Api Level":
            return ApiLevelRequired(412, ErrCode.REQUIRED_API_LEVEL, text)
        case 412, _:
            return MinLastSequence(412, ErrCode.MIN_LAST_SEQUENCE, text)
        case 404, _:
            return MessageNotFound(404, ErrCode.MESSAGE_NOT_FOUND, text)
        case 408, "Request Timeout":
            return RequestTimeout("the pull request expired")
        case 408, _:
            return BadRequest(408, ErrCode.BAD_REQUEST, text)
        case 409, "Consumer Deleted":
            return ConsumerDeleted(409, text)
        case ((400 | 409), _):
            return PullRefused(code, text)
        case 413, _:
            return TooManyResults(413, 0, text)
        case 423, _:
            return PinIdMismatch(423, text)
        case 503, _:
            return NoResponders()
        case _:
            return StatusReceived(code, text)
