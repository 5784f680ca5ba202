"""Status lines, which servers send instead of a message (wire.md, Core protocol)."""

from typing import Final

from mypy_extensions import i64

from jetspark.headers.block import VERSION

CONTROL: Final = 100
END_OF_BATCH: Final = 204
BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
TIMEOUT: Final = 408
CONFLICT: Final = 409
PRECONDITION_FAILED: Final = 412
TOO_LARGE: Final = 413
LOCKED: Final = 423
SERVER_ERROR: Final = 500
NO_RESPONDERS: Final = 503

# 100 and 204.
IDLE_HEARTBEAT_TEXT: Final = b"Idle Heartbeat"
FLOW_CONTROL_TEXT: Final = b"FlowControl Request"
EOB_TEXT: Final = b"EOB"

# 400, and the texts that follow "Bad Request - ".
BAD_REQUEST_PREFIX: Final = b"Bad Request - "

# 404.
NO_MESSAGES_TEXT: Final = b"No Messages"
MESSAGE_NOT_FOUND_TEXT: Final = b"Message Not Found"
NO_RESULTS_TEXT: Final = b"No Results"

# 408.
REQUEST_TIMEOUT_TEXT: Final = b"Request Timeout"
EMPTY_REQUEST_TEXT: Final = b"Empty Request"
MALFORMED_REQUEST_TEXT: Final = b"Malformed Request"
REQUESTS_PENDING_TEXT: Final = b"Requests Pending"
BAD_REQUEST_TEXT: Final = b"Bad Request"

# 409. The three with a format placeholder take the consumer's limit.
MESSAGE_SIZE_TEXT: Final = b"Message Size Exceeds MaxBytes"
BATCH_COMPLETED_TEXT: Final = b"Batch Completed"
MAX_WAITING_TEXT: Final = b"Exceeded MaxWaiting"
MAX_REQUEST_BATCH_TEXT: Final = b"Exceeded MaxRequestBatch of %d"
MAX_REQUEST_EXPIRES_TEXT: Final = b"Exceeded MaxRequestExpires of %s"
MAX_REQUEST_MAX_BYTES_TEXT: Final = b"Exceeded MaxRequestMaxBytes of %d"
CONSUMER_DELETED_TEXT: Final = b"Consumer Deleted"
CONSUMER_IS_PUSH_TEXT: Final = b"Consumer is push based"
LEADERSHIP_CHANGE_TEXT: Final = b"Leadership Change"
SERVER_SHUTDOWN_TEXT: Final = b"Server Shutdown"

# 412 to 423.
MIN_LAST_SEQUENCE_TEXT: Final = b"Min Last Sequence"
REQUIRED_API_LEVEL_TEXT: Final = b"Required Api Level"
TOO_MANY_RESULTS_TEXT: Final = b"Too Many Results"
PIN_ID_MISMATCH_TEXT: Final = b"Nats-Pin-Id mismatch"
WRONG_PIN_ID_TEXT: Final = b"Nats-Wrong-Pin-Id"

_BLANK: Final = 0x20
_CR: Final = 0x0D
_ZERO: Final = 0x30
_NINE: Final = 0x39
_CODE_DIGITS_MAX: Final = 9


def status_block(code: int, text: bytes, lines: bytes = b"") -> bytes:
    """Return a complete block with a status line; ``lines`` are header lines with their CRLF."""
    if text:
        return b"NATS/1.0 %d %s\r\n%s\r\n" % (code, text, lines)
    return b"NATS/1.0 %d\r\n%s\r\n" % (code, lines)


def parse_status(block: bytes) -> tuple[int, bytes]:
    """Return the status code and text of ``block``; ``(0, b"")`` if it has none."""
    end: i64 = len(block)
    at: i64 = len(VERSION)
    if end <= at or block[at] != _BLANK or not block.startswith(VERSION):
        return 0, b""
    at = _skip_blanks(block, at, end)
    code: i64 = 0
    digits: i64 = 0
    while at < end and _ZERO <= block[at] <= _NINE and digits < _CODE_DIGITS_MAX:
        code = code * 10 + block[at] - _ZERO
        digits += 1
        at += 1
    if digits == 0:
        return 0, b""
    at = _skip_blanks(block, at, end)
    stop = at
    while stop < end and block[stop] != _CR:
        stop += 1
    return int(code), block[at:stop]


def _skip_blanks(block: bytes, at: i64, end: i64) -> i64:
    while at < end and block[at] == _BLANK:
        at += 1
    return at
