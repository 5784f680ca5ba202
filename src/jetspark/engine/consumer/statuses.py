"""Status blocks of consumers that several parts send (wire.md, Consumers)."""

from typing import Final

from jetspark.engine.consumer.delivery import Waiting
from jetspark.headers.names import LAST_CONSUMER, LAST_STREAM, PENDING_BYTES, PENDING_MESSAGES
from jetspark.headers.status import CONTROL, IDLE_HEARTBEAT_TEXT, status_block

# The next message exists, and the disk fails to read it.
UNREADABLE_TEXT: Final = b"Message Could Not Be Read"


def rest(request: Waiting) -> bytes:
    """Return the header lines with what a request did not get."""
    return rest_lines(int(request.pending - request.delivered), int(request.bytes_left))


def rest_lines(messages: int, size: int) -> bytes:
    """Return the same, from numbers."""
    return b"%b: %d\r\n%b: %d\r\n" % (PENDING_MESSAGES, messages, PENDING_BYTES, size)


def heartbeat_block(consumer_seq: int, seq: int, more: bytes = b"") -> bytes:
    """Return the idle heartbeat with the position of the consumer."""
    lines = b"%b: %d\r\n%b: %d\r\n%b" % (LAST_CONSUMER, consumer_seq, LAST_STREAM, seq, more)
    return status_block(CONTROL, IDLE_HEARTBEAT_TEXT, lines)
