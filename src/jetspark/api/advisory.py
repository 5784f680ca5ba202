"""Advisories and metrics: the events that a server publishes on ``$JS.EVENT``."""

from typing import Final

from jetspark.api.base import (
    ZERO_TIME,
    ApiStruct,
    Timestamp,
    shown,
)
from jetspark.api.enums import AbandonReason, Action
from jetspark.api.stream import StreamState

__all__ = [
    "ADVISORY_PREFIX",
    "METRIC_PREFIX",
    "AckMetric",
    "ApiAudit",
    "BatchAbandoned",
    "ClientInfo",
    "ConsumerActed",
    "ConsumerPaused",
    "Event",
    "GroupPinned",
    "GroupUnpinned",
    "MaxDeliveries",
    "MessageNaked",
    "MessageTerminated",
    "OutOfSpace",
    "RestoreComplete",
    "RestoreCreate",
    "SnapshotComplete",
    "SnapshotCreate",
    "StreamActed",
    "StreamDamaged",
]

ADVISORY_PREFIX: Final = "$JS.EVENT.ADVISORY"
METRIC_PREFIX: Final = "$JS.EVENT.METRIC"

_ADVISORY: Final = "io.nats.jetstream.advisory.v1"
_DONE: Final = {Action.CREATE: "CREATED", Action.MODIFY: "UPDATED", Action.DELETE: "DELETED"}


class Event(ApiStruct, frozen=True, kw_only=True):
    """The fields all events start with: type, id, time."""

    type: str = shown("")
    id: str = shown("")
    timestamp: Timestamp = shown(ZERO_TIME)

    def published_on(self) -> str:
        """Return the subject of the event."""
        raise NotImplementedError


class ClientInfo(ApiStruct, frozen=True, kw_only=True):
    """The client that sent the request."""

    start: Timestamp | None = None
    host: str = ""
    id: int = 0
    acc: str = ""
    svc: str = ""
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    server: str = ""
    cluster: str = ""
    kind: str = ""
    client_type: str = ""


class ApiAudit(Event, frozen=True, kw_only=True):
    """One ``$JS.API`` request and its answer."""

    type: str = shown(f"{_ADVISORY}.api_audit")
    server: str = shown("")
    client: ClientInfo | None = shown(None)
    subject: str = shown("")
    request: str = ""
    response: str = shown("")
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.API"


class StreamActed(Event, frozen=True, kw_only=True):
    """A stream was created, changed or deleted."""

    type: str = shown(f"{_ADVISORY}.stream_action")
    stream: str = shown("")
    action: Action = shown(Action.CREATE)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.{_DONE[self.action]}.{self.stream}"


class StreamDamaged(Event, frozen=True, kw_only=True):
    """Checksums of a stream's bytes do not match. ``doubtful``: possibly never acknowledged.

    Ours. At most ``messages`` from ``first_seq`` to ``last_seq`` are lost; 0 if none was affected.
    """

    type: str = shown("io.jetspark.advisory.v1.stream_damaged")
    stream: str = shown("")
    first_seq: int = shown(0)
    last_seq: int = shown(0)
    messages: int = shown(0)
    bytes: int = shown(0)
    reason: str = shown("")
    doubtful: bool = False
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.DAMAGED.{self.stream}"


class ConsumerActed(Event, frozen=True, kw_only=True):
    """A consumer was created or deleted."""

    type: str = shown(f"{_ADVISORY}.consumer_action")
    stream: str = shown("")
    consumer: str = shown("")
    action: Action = shown(Action.CREATE)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.{_DONE[self.action]}.{self.stream}.{self.consumer}"


class ConsumerPaused(Event, frozen=True, kw_only=True):
    """A consumer was paused or resumed."""

    type: str = shown(f"{_ADVISORY}.consumer_pause")
    stream: str = shown("")
    consumer: str = shown("")
    paused: bool = shown(False)
    pause_until: Timestamp = shown(ZERO_TIME)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.PAUSE.{self.stream}.{self.consumer}"


class AckMetric(Event, frozen=True, kw_only=True):
    """A sampled acknowledgement; ``ack_time`` is how long it took, in nanoseconds."""

    type: str = shown("io.nats.jetstream.metric.v1.consumer_ack")
    stream: str = shown("")
    consumer: str = shown("")
    consumer_seq: int = shown(0)
    stream_seq: int = shown(0)
    ack_time: int = shown(0)
    deliveries: int = shown(0)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{METRIC_PREFIX}.CONSUMER.ACK.{self.stream}.{self.consumer}"


class MaxDeliveries(Event, frozen=True, kw_only=True):
    """A message was delivered as often as the consumer allows."""

    type: str = shown(f"{_ADVISORY}.max_deliver")
    stream: str = shown("")
    consumer: str = shown("")
    stream_seq: int = shown(0)
    deliveries: int = shown(0)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.MAX_DELIVERIES.{self.stream}.{self.consumer}"


class MessageNaked(Event, frozen=True, kw_only=True):
    """A client refused a message with ``-NAK``."""

    type: str = shown(f"{_ADVISORY}.nak")
    stream: str = shown("")
    consumer: str = shown("")
    consumer_seq: int = shown(0)
    stream_seq: int = shown(0)
    deliveries: int = shown(0)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.MSG_NAKED.{self.stream}.{self.consumer}"


class MessageTerminated(Event, frozen=True, kw_only=True):
    """A client ended redelivery of a message with ``+TERM``."""

    type: str = shown(f"{_ADVISORY}.terminated")
    stream: str = shown("")
    consumer: str = shown("")
    consumer_seq: int = shown(0)
    stream_seq: int = shown(0)
    deliveries: int = shown(0)
    reason: str = ""
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.MSG_TERMINATED.{self.stream}.{self.consumer}"


class GroupPinned(Event, frozen=True, kw_only=True):
    """A client was pinned to a priority group."""

    type: str = shown(f"{_ADVISORY}.consumer_group_pinned")
    account: str = ""
    stream: str = shown("")
    consumer: str = shown("")
    domain: str = ""
    group: str = shown("")
    pinned_id: str = shown("")

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.PINNED.{self.stream}.{self.consumer}"


class GroupUnpinned(Event, frozen=True, kw_only=True):
    """A priority group lost its pinned client: ``admin`` or ``timeout``."""

    type: str = shown(f"{_ADVISORY}.consumer_group_unpinned")
    account: str = ""
    stream: str = shown("")
    consumer: str = shown("")
    domain: str = ""
    group: str = shown("")
    reason: str = shown("")

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.CONSUMER.UNPINNED.{self.stream}.{self.consumer}"


class BatchAbandoned(Event, frozen=True, kw_only=True):
    """A batch was abandoned before its commit (ADR-50's type, the released subject)."""

    type: str = shown(f"{_ADVISORY}.batch_abandoned")
    stream: str = shown("")
    domain: str = ""
    batch: str = shown("")
    reason: AbandonReason = shown(AbandonReason.TIMEOUT)

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.BATCH_ABANDONED.{self.stream}"


class SnapshotCreate(Event, frozen=True, kw_only=True):
    """A snapshot was started."""

    type: str = shown(f"{_ADVISORY}.snapshot_create")
    stream: str = shown("")
    state: StreamState = shown(StreamState())
    client: ClientInfo | None = shown(None)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.SNAPSHOT_CREATE.{self.stream}"


class SnapshotComplete(Event, frozen=True, kw_only=True):
    """A snapshot ended."""

    type: str = shown(f"{_ADVISORY}.snapshot_complete")
    stream: str = shown("")
    start: Timestamp = shown(ZERO_TIME)
    end: Timestamp = shown(ZERO_TIME)
    client: ClientInfo | None = shown(None)
    domain: str = ""
    error: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.SNAPSHOT_COMPLETE.{self.stream}"


class RestoreCreate(Event, frozen=True, kw_only=True):
    """A restore was started."""

    type: str = shown(f"{_ADVISORY}.restore_create")
    stream: str = shown("")
    client: ClientInfo | None = shown(None)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.RESTORE_CREATE.{self.stream}"


class RestoreComplete(Event, frozen=True, kw_only=True):
    """A restore ended."""

    type: str = shown(f"{_ADVISORY}.restore_complete")
    stream: str = shown("")
    start: Timestamp = shown(ZERO_TIME)
    end: Timestamp = shown(ZERO_TIME)
    bytes: int = shown(0)
    client: ClientInfo | None = shown(None)
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.STREAM.RESTORE_COMPLETE.{self.stream}"


class OutOfSpace(Event, frozen=True, kw_only=True):
    """A server has no space left for JetStream."""

    type: str = shown(f"{_ADVISORY}.server_out_of_space")
    server: str = shown("")
    server_id: str = shown("")
    stream: str = ""
    cluster: str = shown("")
    domain: str = ""

    def published_on(self) -> str:
        """Return the subject of the event."""
        return f"{ADVISORY_PREFIX}.SERVER.OUT_OF_STORAGE"
