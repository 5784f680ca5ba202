"""Explains why a consumer does or does not deliver a message. Pure.

The question in most reports about consumers that "do not deliver". The answer is derived from
CONSUMER.INFO, STREAM.INFO and the message itself.
"""

from datetime import timedelta
from enum import StrEnum

import msgspec

from jetspark.api.consumer import ConsumerInfo, ExplainResponse
from jetspark.api.enums import AckPolicy, Outcome
from jetspark.api.stream import StreamState
from jetspark.subjects.match import matches


class Reason(StrEnum):
    """The first reason why a message is not delivered, or its state."""

    NOT_STORED = "not_stored"
    NOT_YET = "not_yet"
    FILTERED = "filtered"
    PAUSED = "paused"
    ACKNOWLEDGED = "acknowledged"
    BEFORE_START = "before_start"
    ACK_PENDING = "ack_pending"
    DELIVERED = "delivered"
    MAX_DELIVER = "max_deliver"
    MAX_ACK_PENDING = "max_ack_pending"
    NO_PULL_WAITING = "no_pull_waiting"
    NOT_BOUND = "not_bound"
    HELD_BACK = "held_back"
    DELIVERABLE = "deliverable"
    NOTHING_PENDING = "nothing_pending"


class Explanation(msgspec.Struct, frozen=True):
    """The reason, and a sentence with the numbers and what to do."""

    reason: Reason
    text: str

    def __str__(self) -> str:
        return self.text


def explain_delivered(answer: ExplainResponse) -> Explanation | None:
    """The answer of a server that tracks every single message, for a delivered one."""
    reasons = {
        Outcome.ACK_PENDING: Reason.ACK_PENDING,
        Outcome.ACKNOWLEDGED: Reason.ACKNOWLEDGED,
        Outcome.MAX_DELIVER: Reason.MAX_DELIVER,
    }
    reason = reasons.get(answer.outcome)
    if reason is None:
        return None
    until = f" at {answer.until}" if answer.until is not None else ""
    return Explanation(reason, f"sequence {answer.seq}: {answer.reason}{until}")


def explain(info: ConsumerInfo, state: StreamState, seq: int, subject: str | None) -> Explanation:
    """Explain why ``seq`` (0: the next message) is not delivered.

    ``subject`` is the subject of the stored message with this sequence, None if there is none.
    """
    config = info.config
    if seq > state.last_seq:
        return Explanation(
            Reason.NOT_YET, f"sequence {seq} is not stored yet: the last one is {state.last_seq}"
        )
    if seq and subject is None:
        return Explanation(
            Reason.NOT_STORED, f"sequence {seq} was deleted, expired or never stored"
        )
    filters = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    if subject is not None and filters:
        encoded = subject.encode("utf-8", "surrogateescape")
        if not any(matches(encoded, one.encode("utf-8", "surrogateescape")) for one in filters):
            return Explanation(
                Reason.FILTERED, f"subject {subject!r} matches no filter of {', '.join(filters)}"
            )
    if seq and seq <= info.delivered.stream_seq:
        return _explain_delivered(info, seq)
    if not seq and not info.num_pending:
        return Explanation(
            Reason.NOTHING_PENDING,
            f"everything was delivered; {info.num_ack_pending} messages await acknowledgement",
        )
    return _explain_waiting(info, state)


def _explain_delivered(info: ConsumerInfo, seq: int) -> Explanation:
    if info.config.ack_policy is AckPolicy.NONE:
        return Explanation(Reason.ACKNOWLEDGED, f"sequence {seq} was delivered; acks are not used")
    if seq <= info.ack_floor.stream_seq:
        return Explanation(
            Reason.ACKNOWLEDGED,
            f"sequence {seq} is at or below the ack floor {info.ack_floor.stream_seq}: it was "
            "acknowledged, terminated, or precedes the consumer's start",
        )
    if not info.num_ack_pending:
        most = info.config.max_deliver
        given_up = f", or given up after {most} deliveries (max_deliver)" if most > 0 else ""
        return Explanation(
            Reason.DELIVERED,
            f"sequence {seq} was delivered, and no message is pending: it was acknowledged or "
            f"terminated{given_up}",
        )
    wait = info.config.ack_wait / 1e9
    return Explanation(
        Reason.ACK_PENDING,
        f"sequence {seq} was delivered and may or may not be acknowledged: {info.num_ack_pending} "
        f"are pending; each is redelivered {wait:g} s after its delivery "
        f"(max_deliver {info.config.max_deliver})",
    )


def _explain_waiting(info: ConsumerInfo, state: StreamState) -> Explanation:
    config = info.config
    if info.paused:
        return Explanation(
            Reason.PAUSED,
            "the consumer is paused for another "
            f"{timedelta(seconds=info.pause_remaining // 10**9)}: resume() it",
        )
    if config.min_last_seq > state.last_seq:
        return Explanation(
            Reason.HELD_BACK,
            f"min_last_seq {config.min_last_seq}: the stream is at {state.last_seq}",
        )
    limit = config.max_ack_pending
    if config.ack_policy is not AckPolicy.NONE and 0 < limit <= info.num_ack_pending:
        return Explanation(
            Reason.MAX_ACK_PENDING,
            f"{info.num_ack_pending} messages are unacknowledged and max_ack_pending is {limit}: "
            "acknowledge them, or raise the limit",
        )
    if config.deliver_subject and not info.push_bound:
        return Explanation(
            Reason.NOT_BOUND, f"no subscription to the deliver subject {config.deliver_subject}"
        )
    if not config.deliver_subject and not info.num_waiting:
        return Explanation(Reason.NO_PULL_WAITING, "no pull request waits: call fetch or messages")
    return Explanation(
        Reason.DELIVERABLE, f"nothing prevents it; {info.num_pending} are to be delivered"
    )
