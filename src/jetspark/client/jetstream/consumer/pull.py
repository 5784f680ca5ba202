"""Pull requests: their limits, and the meaning of the statuses that answer them. Pure.

ADR-15: 404 and 408 are the normal end of a request and are not shown; 409, 503 and unknown
statuses are errors. Two of the 409s end a fetch that has messages without an error.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from jetspark.api.base import encode_request
from jetspark.api.consumer import PullRequest
from jetspark.client.arguments import whole
from jetspark.client.jetstream.pages import parse_count
from jetspark.errors import Error, status_error
from jetspark.headers.block import find_value
from jetspark.headers.names import PENDING_BYTES, PENDING_MESSAGES
from jetspark.headers.status import (
    BATCH_COMPLETED_TEXT,
    CONFLICT,
    CONTROL,
    LEADERSHIP_CHANGE_TEXT,
    LOCKED,
    MAX_WAITING_TEXT,
    MESSAGE_SIZE_TEXT,
    NO_RESPONDERS,
    NOT_FOUND,
    SERVER_SHUTDOWN_TEXT,
    TIMEOUT,
    parse_status,
)
from jetspark.units import seconds

BATCH_MAX: Final = 2**31 - 1  # messages of one request: more than any client can handle
EXPIRES_MAX: Final = 365 * 86_400.0  # seconds; servers count in nanoseconds, up to 292 years
HEARTBEAT_MIN: Final = 0.1  # seconds; servers refuse shorter ones
# Sent by a server that restarts or moves a consumer: this request ended, a new one will work.
_PASSING: Final = (LEADERSHIP_CHANGE_TEXT, SERVER_SHUTDOWN_TEXT, MAX_WAITING_TEXT)


class PullStatus(Enum):
    """What a status means for its request."""

    ALIVE = auto()  # a heartbeat: the request continues
    ENDED = auto()  # 404, 408: nothing (more) for this request
    FILLED = auto()  # its bytes are used up, or the next message does not fit into them
    PASSING = auto()  # ended by a transient condition: request again
    UNPINNED = auto()  # another client is pinned to the group: request again without the old id
    GONE = auto()  # no responders: no such consumer, or JetStream is not ready yet
    FAILED = auto()  # a new request would fail too


class PullAnswer(msgspec.Struct, frozen=True):
    """A parsed status: its meaning, what was left of the request, the error for the user."""

    status: PullStatus
    pending_msgs: int = 0
    pending_bytes: int = 0
    error: Error | None = None
    # The next message alone exceeds the requested bytes.
    oversized: bool = False


def read_pull_status(block: bytes) -> PullAnswer:
    """Parse the header block of a status that answers a pull request."""
    code, text = parse_status(block)
    if code == CONTROL:
        return PullAnswer(PullStatus.ALIVE)
    pending = max(parse_count(find_value(block, PENDING_MESSAGES)), 0)
    room = max(parse_count(find_value(block, PENDING_BYTES)), 0)
    if code in {NOT_FOUND, TIMEOUT}:
        return PullAnswer(PullStatus.ENDED, pending, room)
    error = status_error(code, text.decode("utf-8", "replace"))
    if code == NO_RESPONDERS:
        return PullAnswer(PullStatus.GONE, error=error)
    if code == LOCKED:
        return PullAnswer(PullStatus.UNPINNED, error=error)
    if code == CONFLICT and text.startswith((BATCH_COMPLETED_TEXT, MESSAGE_SIZE_TEXT)):
        return PullAnswer(
            PullStatus.FILLED, pending, room, error, text.startswith(MESSAGE_SIZE_TEXT)
        )
    if code == CONFLICT and text.startswith(_PASSING):
        return PullAnswer(PullStatus.PASSING, pending, room, error)
    return PullAnswer(PullStatus.FAILED, pending, room, error)


class PullGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a request in a priority group of the consumer.

    ``min_pending`` and ``min_ack_pending`` are for policy overflow, ``priority`` (0 is the first)
    for prioritized.
    """

    name: str
    min_pending: int = 0
    min_ack_pending: int = 0
    priority: int = 0


def encode_pull(
    batch: int,
    *,
    max_bytes: int = 0,
    expires: float = 0.0,
    no_wait: bool = False,
    heartbeat: float = 0.0,
    group: PullGroup | None = None,
    pin_id: str = "",
) -> bytes:
    """The body of CONSUMER.MSG.NEXT."""
    request = PullRequest(
        batch=batch,
        max_bytes=max_bytes,
        expires=seconds(min(expires, EXPIRES_MAX)),
        no_wait=bool(no_wait),
        idle_heartbeat=seconds(heartbeat),
    )
    if group is not None:
        request = msgspec.structs.replace(
            request,
            group=group.name,
            min_pending=group.min_pending,
            min_ack_pending=group.min_ack_pending,
            priority=group.priority,
            id=pin_id,
        )
    return encode_request(request)


def check_pull(
    batch: int,
    max_bytes: int,
    expires: float,
    heartbeat: float,
    *,
    counted: str = "batch",
    waits: str = "timeout",
) -> None:
    """Refuse arguments that the server would refuse or answer unhelpfully.

    ``counted`` and ``waits`` are the names of the caller's arguments for the number of messages
    and for the time.
    """
    whole(batch, counted, least=1, most=BATCH_MAX)
    whole(max_bytes, "max_bytes")
    if expires <= 0:
        raise ValueError(
            f"{waits}={expires:g}: a pull request needs a time above 0 to wait for messages; "
            "use fetch(no_wait=True) for those available now"
        )
    if heartbeat and not heartbeat >= HEARTBEAT_MIN:
        raise ValueError(f"heartbeat={heartbeat}: expected at least {HEARTBEAT_MIN} s, or 0")
    if heartbeat and heartbeat * 2 > expires:
        raise ValueError(
            f"heartbeat={heartbeat} s: expected at most half of the request's {expires} s, or "
            "none would ever be sent"
        )
