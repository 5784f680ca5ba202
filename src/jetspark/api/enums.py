"""The enumerations of the JSON API.

Decoding is tolerant: a value that a newer server introduced becomes a member of its own, so that a
client can show and return it. Requests are strict: ``api/strict.py`` accepts only the values
listed here.
"""

from enum import StrEnum
from typing import Self

__all__ = [
    "AbandonReason",
    "AckPolicy",
    "Action",
    "Compression",
    "ConsumerAction",
    "DeliverPolicy",
    "Discard",
    "Outcome",
    "PersistMode",
    "PriorityPolicy",
    "ReplayPolicy",
    "Retention",
    "Storage",
    "Word",
]


class Word(StrEnum):
    """Base of the enumerations: preserves unknown values."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = "UNKNOWN"
        unknown._value_ = value
        return unknown

    @property
    def known(self) -> bool:
        """Whether this value is listed in the enumeration."""
        return self._name_ in type(self).__members__


class Retention(Word):
    """When messages are removed from a stream."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(Word):
    """What happens to a new message when the stream is full."""

    OLD = "old"
    NEW = "new"


class Storage(Word):
    """Where a stream stores its messages."""

    FILE = "file"
    MEMORY = "memory"


class Compression(Word):
    """How sealed segments are compressed."""

    NONE = "none"
    S2 = "s2"


class PersistMode(Word):
    """What a PubAck waits for: the disk (default), or nothing (async)."""

    DEFAULT = "default"
    ASYNC = "async"


class DeliverPolicy(Word):
    """Where a consumer starts."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(Word):
    """Which messages an acknowledgement covers."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"


class ReplayPolicy(Word):
    """How fast stored messages are delivered."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(Word):
    """How the pull requests of a priority group share a consumer."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class ConsumerAction(Word):
    """What CONSUMER.CREATE may do: either (empty), only create, only update."""

    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"


class Outcome(Word):
    """The outcome that CONSUMER.EXPLAIN reports for a message; the request is ours."""

    NOT_STORED = "not_stored"
    FILTERED = "filtered"
    BEFORE_START = "before_start"
    ACKNOWLEDGED = "acknowledged"
    DELIVERED = "delivered"
    ACK_PENDING = "ack_pending"
    MAX_DELIVER = "max_deliver_reached"
    GATED = "gated"
    PAUSED = "paused"
    NO_INTEREST = "no_interest"
    NO_PULL = "no_pull_waiting"
    MAX_ACK_PENDING = "max_ack_pending_reached"
    STALLED = "flow_control_stalled"
    PACED = "paced"
    NEXT = "next"


class Action(Word):
    """What happened to a stream or consumer, in an advisory."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"


class AbandonReason(Word):
    """Why a batch was abandoned (ADR-50, advisories; ``large`` is the released server's)."""

    TIMEOUT = "timeout"
    INCOMPLETE = "incomplete"
    UNSUPPORTED = "unsupported"
    LARGE = "large"
