"""Consumers on the wire: configuration, state, pull requests, and the requests about them.

Field order and presence are those of nats-server 2.15.1. ``min_last_seq`` is ADR-53's and comes
last.
"""

from typing import Final

import msgspec

from jetspark.api.base import (
    ZERO_TIME,
    ApiStruct,
    Count,
    Duration,
    Int64,
    Paged,
    PagedRequest,
    Response,
    Success,
    Timestamp,
    shown,
)
from jetspark.api.enums import (
    AckPolicy,
    ConsumerAction,
    DeliverPolicy,
    Outcome,
    PriorityPolicy,
    ReplayPolicy,
)
from jetspark.api.stream import ClusterInfo
from jetspark.api.tolerant import Tolerant
from jetspark.units import Nanoseconds

__all__ = [
    "CONSUMER_CREATE",
    "CONSUMER_DELETE",
    "CONSUMER_EXPLAIN",
    "CONSUMER_INFO",
    "CONSUMER_LEADER_STEPDOWN",
    "CONSUMER_LIST",
    "CONSUMER_NAMES",
    "CONSUMER_PAUSE",
    "CONSUMER_RESET",
    "CONSUMER_UNPIN",
    "ConsumerConfig",
    "ConsumerCreateRequest",
    "ConsumerInfo",
    "ConsumerListResponse",
    "ConsumerNamesResponse",
    "ConsumersRequest",
    "ExplainRequest",
    "ExplainResponse",
    "NakOptions",
    "PauseRequest",
    "PauseResponse",
    "PriorityGroupState",
    "PullRequest",
    "ResetRequest",
    "ResetResponse",
    "SequenceInfo",
    "UnpinRequest",
    "UnpinResponse",
    "decode_nak_options",
    "decode_pull_request",
    "decode_reset",
    "decode_unpin",
]


class ConsumerConfig(ApiStruct, frozen=True, kw_only=True):
    """Configuration of a consumer, named as on the wire.

    ``ack_policy`` is ``none`` if absent, as on the released server: set ``AckPolicy.EXPLICIT``
    for a consumer that keeps messages until they are acknowledged.
    """

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = shown(DeliverPolicy.ALL)
    opt_start_seq: Count = 0
    opt_start_time: Timestamp | None = None
    ack_policy: AckPolicy = shown(AckPolicy.NONE)
    ack_wait: Duration = Nanoseconds(0)
    max_deliver: Int64 = shown(-1)
    backoff: tuple[Duration, ...] = ()
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] = ()
    replay_policy: ReplayPolicy = shown(ReplayPolicy.INSTANT)
    rate_limit_bps: Count = 0
    sample_freq: str = ""
    max_waiting: Int64 = 0
    max_ack_pending: Int64 = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int64 = 0
    max_expires: Duration = Nanoseconds(0)
    max_bytes: Int64 = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = Nanoseconds(0)
    inactive_threshold: Duration = Nanoseconds(0)
    num_replicas: Int64 = shown(0)
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    pause_until: Timestamp | None = None
    priority_groups: tuple[str, ...] = ()
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: Duration = Nanoseconds(0)
    min_last_seq: Count = 0


class ConsumerCreateRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    stream_name: str = shown("")
    config: ConsumerConfig = shown(ConsumerConfig())
    action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE
    pedantic: bool = False


class SequenceInfo(ApiStruct, frozen=True, kw_only=True):
    """A position in a stream: the consumer's sequence and the stream's."""

    consumer_seq: int = shown(0)
    stream_seq: int = shown(0)
    last_active: Timestamp | None = None


class PriorityGroupState(ApiStruct, frozen=True, kw_only=True):
    """The client that is pinned to a priority group."""

    group: str = shown("")
    pinned_client_id: str = ""
    pinned_ts: Timestamp = shown(ZERO_TIME)


class ConsumerInfo(ApiStruct, frozen=True, kw_only=True):
    """Configuration and state of a consumer."""

    stream_name: str = shown("")
    name: str = shown("")
    created: Timestamp = shown(ZERO_TIME)
    config: ConsumerConfig = shown(ConsumerConfig())
    delivered: SequenceInfo = shown(SequenceInfo())
    ack_floor: SequenceInfo = shown(SequenceInfo())
    num_ack_pending: int = shown(0)
    num_redelivered: int = shown(0)
    num_waiting: int = shown(0)
    num_pending: int = shown(0)
    cluster: ClusterInfo | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: Nanoseconds = Nanoseconds(0)
    ts: Timestamp = shown(ZERO_TIME)
    priority_groups: tuple[PriorityGroupState, ...] = ()
    # Ours: why nothing is delivered although messages are pending, while the disk fails reads.
    stopped: str = ""


class ConsumersRequest(PagedRequest, frozen=True, kw_only=True):
    """Body of CONSUMER.NAMES and CONSUMER.LIST."""


class ConsumerNamesResponse(Paged, frozen=True, kw_only=True):
    """Answer of CONSUMER.NAMES."""

    consumers: tuple[str, ...] | None = shown(())


class ConsumerListResponse(Paged, frozen=True, kw_only=True):
    """Answer of CONSUMER.LIST. ``missing`` and ``offline`` come from clusters only."""

    consumers: tuple[ConsumerInfo, ...] | None = shown(())
    missing: tuple[str, ...] | None = None
    offline: dict[str, str] | None = None


class PauseRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of CONSUMER.PAUSE; no time, or one in the past, resumes."""

    pause_until: Timestamp = shown(ZERO_TIME)


class PauseResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of CONSUMER.PAUSE."""

    paused: bool = shown(False)
    pause_until: Timestamp = shown(ZERO_TIME)
    pause_remaining: Nanoseconds = Nanoseconds(0)


class ResetRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of CONSUMER.RESET; 0 returns to the ack floor."""

    seq: Count = 0


class ResetResponse(ConsumerInfo, frozen=True, kw_only=True):
    """Answer of CONSUMER.RESET: the consumer afterwards, and the sequence it restarts at."""

    reset_seq: int = shown(0)


class UnpinRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of CONSUMER.UNPIN."""

    group: str = shown("")


class UnpinResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of CONSUMER.UNPIN: nothing but its type."""


class ExplainRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of CONSUMER.EXPLAIN (ours): the sequence of the message."""

    seq: Count = 0


class ExplainResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of CONSUMER.EXPLAIN: why a message is, or is not, delivered.

    ``outcome`` is one of the words in ``api/enums.py``, ``reason`` explains it to people.
    ``until`` is when the outcome changes without any action, ``deliveries`` how often the message
    was delivered, ``ahead`` how many messages are delivered before it.
    """

    stream_name: str = shown("")
    name: str = shown("")
    seq: int = shown(0)
    subject: str = ""
    outcome: Outcome = shown(Outcome.NOT_STORED)
    reason: str = shown("")
    until: Timestamp | None = None
    deliveries: int = 0
    ahead: int = 0


class PullRequest(ApiStruct, frozen=True, kw_only=True):
    """JSON body of CONSUMER.MSG.NEXT and of ``+NXT``."""

    expires: Duration = Nanoseconds(0)
    batch: Int64 = 0
    max_bytes: Int64 = 0
    no_wait: bool = False
    idle_heartbeat: Duration = Nanoseconds(0)
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int64 = 0


class NakOptions(ApiStruct, frozen=True, kw_only=True):
    """Argument of ``-NAK``."""

    delay: Duration = shown(Nanoseconds(0))


CONSUMER_CREATE: Final = Response("consumer_create", ConsumerInfo)
CONSUMER_INFO: Final = Response("consumer_info", ConsumerInfo)
CONSUMER_DELETE: Final = Response("consumer_delete", Success)
CONSUMER_NAMES: Final = Response(
    "consumer_names",
    ConsumerNamesResponse,
    error_keeps=b'"total":0,"offset":0,"limit":0,"consumers":[]',
)
CONSUMER_LIST: Final = Response(
    "consumer_list",
    ConsumerListResponse,
    error_keeps=b'"total":0,"offset":0,"limit":0,"consumers":[]',
)
CONSUMER_PAUSE: Final = Response(
    "consumer_pause",
    PauseResponse,
    error_keeps=b'"paused":false,"pause_until":"0001-01-01T00:00:00Z"',
)
CONSUMER_RESET: Final = Response("consumer_reset", ResetResponse, error_keeps=b'"reset_seq":0')
CONSUMER_UNPIN: Final = Response("consumer_unpin", UnpinResponse)
CONSUMER_EXPLAIN: Final = Response("consumer_explain", ExplainResponse)
CONSUMER_LEADER_STEPDOWN: Final = Response("consumer_leader_stepdown", Success)

# As nats-server reads them (observed).
decode_nak_options: Final = Tolerant(NakOptions).decode
decode_reset: Final = Tolerant(ResetRequest).decode
decode_unpin: Final = Tolerant(UnpinRequest).decode
_decode_pull: Final = Tolerant(PullRequest).decode


def decode_pull_request(body: bytes) -> PullRequest:
    """Read the body of CONSUMER.MSG.NEXT: nothing, a number of messages, or JSON.

    Text that is neither asks for one message, as on the released server. Raises
    ``msgspec.MsgspecError`` for a body that starts like an object and is not one (``400 Bad
    Request``).
    """
    text = body.strip()
    if text.startswith(b"{"):
        return _decode_pull(text)
    digits = text[1:] if text[:1] in {b"+", b"-"} else text
    # 19 digits: longer numbers do not fit 64 bits, and the released server treats them as text.
    if digits.isdigit() and len(digits) < 19:
        return PullRequest(batch=int(text))
    return PullRequest(batch=1)
