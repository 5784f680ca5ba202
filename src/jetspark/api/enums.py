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
        """Whether this version lists the value: a newer server may send others."""
        return self._name_ in type(self).__members__


class Retention(Word):
    """When a stream removes messages; the limits of the stream apply to all three."""

    LIMITS = "limits"
    """Only by the limits of the stream."""
    INTEREST = "interest"
    """Also once every consumer of a message has acknowledged it; at once if it has none."""
    WORKQUEUE = "workqueue"
    """Also once a consumer has acknowledged the message; consumers must not overlap."""


class Discard(Word):
    """What a full stream does with a new message."""

    OLD = "old"
    """It stores the message and removes the oldest ones."""
    NEW = "new"
    """It refuses the message."""


class Storage(Word):
    """Where a stream stores its messages."""

    FILE = "file"
    """On disk."""
    MEMORY = "memory"
    """In memory: the messages are lost when the server stops."""


class Compression(Word):
    """How the server compresses full segments of a stream."""

    NONE = "none"
    """Not at all."""
    S2 = "s2"
    """With S2, an extension of Snappy."""


class PersistMode(Word):
    """What a PubAck waits for."""

    DEFAULT = "default"
    """A sync of the disk."""
    ASYNC = "async"
    """No sync of the disk: a power failure may lose acknowledged messages."""


class DeliverPolicy(Word):
    """Where a consumer starts."""

    ALL = "all"
    """At the first message of the stream."""
    LAST = "last"
    """At the last message."""
    NEW = "new"
    """After the last message: at the first one stored from then on."""
    BY_START_SEQUENCE = "by_start_sequence"
    """At ``opt_start_seq``."""
    BY_START_TIME = "by_start_time"
    """At the first message stored at or after ``opt_start_time``."""
    LAST_PER_SUBJECT = "last_per_subject"
    """With the last message of each subject."""


class AckPolicy(Word):
    """Which messages an acknowledgement covers."""

    NONE = "none"
    """Messages need no acknowledgement."""
    ALL = "all"
    """The acknowledged message and all messages before it."""
    EXPLICIT = "explicit"
    """Only the acknowledged message."""


class ReplayPolicy(Word):
    """How fast a consumer delivers stored messages."""

    INSTANT = "instant"
    """As fast as clients take them."""
    ORIGINAL = "original"
    """With the intervals at which they were stored."""


class PriorityPolicy(Word):
    """How the pull requests of a priority group share a consumer."""

    NONE = "none"
    """The consumer has no priority groups."""
    OVERFLOW = "overflow"
    """A request gets messages only while its ``min_pending`` or ``min_ack_pending`` is reached."""
    PINNED_CLIENT = "pinned_client"
    """One client gets all messages, another one only after the first stops requesting."""
    PRIORITIZED = "prioritized"
    """Requests with a lower ``priority`` number get messages first."""


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
