"""Explains why a consumer delivers a message, or does not (``$JS.API.CONSUMER.EXPLAIN``, ours).

``facts_of`` collects the facts about one sequence, ``explain`` is a pure function of them: the
first of the reasons, in the order in which they prevent a delivery. Nothing here changes anything.
"""

from dataclasses import dataclass
from typing import Final

from jetspark.api.base import Timestamp
from jetspark.api.consumer import ExplainResponse
from jetspark.api.enums import AckPolicy, DeliverPolicy, Outcome
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.pending import MOVED, QUEUED, STATE
from jetspark.store.log.columns import NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about one sequence and one consumer at one time."""

    seq: int
    first_seq: int
    last_seq: int
    subject: bytes = b""  # empty: the message does not exist
    matches: bool = True
    before_start: bool = False
    passed: bool = False  # the consumer is past it
    acks: bool = True  # the policy requires acknowledgements
    # Delivered and not acknowledged: how often, until when; 0 is as soon as possible.
    pending: bool = False
    deliveries: int = 0
    due_ns: int = 0
    spent: bool = False
    max_deliver: int = -1
    # What blocks every message.
    min_last_seq: int = 0  # 0: the gate is open
    paused_until: int = 0
    push: bool = False
    receivers: int = 0  # waiting pull requests, or 1 for a deliver subject with interest
    limited: bool = False
    ack_pending: int = 0
    max_ack_pending: int = 0
    stalled: bool = False
    paced_until: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """One outcome, with a sentence for people and when it changes without any action."""

    outcome: Outcome
    reason: str
    until_ns: int = 0


def explain(facts: Facts) -> Verdict:
    """Explain what happened to a message, or what it waits for."""
    if not facts.subject:
        return Verdict(Outcome.NOT_STORED, _missing(facts))
    subject = facts.subject.decode(errors="replace")
    if not facts.matches:
        text = f"the subject {subject!r} matches none of the consumer's filters"
        return Verdict(Outcome.FILTERED, text)
    if facts.spent:
        text = (
            f"it was delivered {facts.deliveries} times without an acknowledgement, and "
            f"max_deliver is {facts.max_deliver}"
        )
        return Verdict(Outcome.MAX_DELIVER, text)
    if facts.pending and facts.due_ns:
        text = (
            f"it was delivered {_times(facts.deliveries)} and waits for its acknowledgement; "
            "otherwise it is redelivered"
        )
        return Verdict(Outcome.ACK_PENDING, text, facts.due_ns)
    if facts.passed and not facts.pending:
        return _passed(facts)
    again = " again" if facts.pending else ""
    return _obstacle(facts) or Verdict(
        Outcome.NEXT,
        f"nothing blocks it: it is delivered{again} "
        + (f"after {facts.ahead} others" if facts.ahead else "next"),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _missing(facts: Facts) -> str:
    if facts.seq > facts.last_seq:
        return f"the stream ends at sequence {facts.last_seq}"
    if facts.seq < facts.first_seq:
        return (
            f"the stream starts at sequence {facts.first_seq}: the message was removed by a "
            "limit, a purge, or because every consumer had acknowledged it"
        )
    return "the message was deleted"


def _passed(facts: Facts) -> Verdict:
    if facts.before_start:
        text = "it is before the start of the consumer's deliver policy"
        return Verdict(Outcome.BEFORE_START, text)
    if not facts.acks:
        text = "it was delivered, and the consumer requires no acknowledgements"
        return Verdict(Outcome.DELIVERED, text)
    return Verdict(Outcome.ACKNOWLEDGED, "it was delivered and acknowledged, or terminated")


def _obstacle(facts: Facts) -> Verdict | None:
    """Return what prevents the consumer from delivering anything now."""
    if facts.min_last_seq:
        text = (
            f"the consumer waits for the stream to reach min_last_seq {facts.min_last_seq}; it is "
            f"at {facts.last_seq}"
        )
        return Verdict(Outcome.GATED, text)
    if facts.paused_until:
        return Verdict(Outcome.PAUSED, "the consumer is paused", facts.paused_until)
    if not facts.receivers:
        if facts.push:
            return Verdict(Outcome.NO_INTEREST, "no subscriber on the deliver subject")
        return Verdict(Outcome.NO_PULL, "no pull request is waiting")
    if facts.limited and not facts.pending:
        text = (
            f"{facts.ack_pending} messages wait for their acknowledgement, and max_ack_pending is "
            f"{facts.max_ack_pending}"
        )
        return Verdict(Outcome.MAX_ACK_PENDING, text)
    if facts.stalled:
        text = "the receiver has not answered the last flow control request"
        return Verdict(Outcome.STALLED, text)
    if facts.paced_until:
        text = "the rate limit or replay at the original rate delays it"
        return Verdict(Outcome.PACED, text, facts.paced_until)
    return None


_OPENED: Final = (DeliverPolicy.NEW, DeliverPolicy.LAST, DeliverPolicy.LAST_PER_SUBJECT)


def facts_of(consumer: Consumer, seq: int, now: int) -> Facts:
    """Collect the facts for ``explain``."""
    delivery = consumer.delivery
    cursor = delivery.state.cursor
    index = cursor.index
    config = consumer.config
    subject = _subject(consumer, seq)
    row = int(delivery.state.pending.find(seq))
    spent = seq in delivery.state.spent
    listed = _is_listed(consumer, seq)
    deliveries = int(delivery.state.pending.deliveries(row)) if row >= 0 else 0
    return Facts(
        seq=seq,
        first_seq=int(index.first_seq),
        last_seq=int(index.last_seq),
        subject=subject,
        matches=cursor.matches(subject),
        before_start=bool(subject) and _is_before_start(consumer, seq),
        passed=seq < cursor.next and not listed,
        acks=config.ack_policy != AckPolicy.NONE,
        pending=row >= 0,
        deliveries=delivery.state.spent[seq] if spent else deliveries,
        due_ns=_date(consumer, _due(consumer, row, seq)),
        spent=spent,
        max_deliver=config.max_deliver,
        min_last_seq=config.min_last_seq if index.last_seq < config.min_last_seq else 0,
        paused_until=int(config.pause_until or 0) if consumer.is_paused(now) else 0,
        push=bool(config.deliver_subject),
        receivers=int(delivery.outlet is not None) or len(delivery.waiting),
        limited=0 < delivery.max_ack_pending <= delivery.state.pending.count,
        ack_pending=int(delivery.state.pending.count),
        max_ack_pending=int(delivery.max_ack_pending),
        stalled=bool(delivery.asked) and delivery.unconfirmed >= delivery.window > 0,
        paced_until=_date(consumer, int(delivery.resume_at)) if delivery.resume_at > now else 0,
        ahead=_ahead(consumer, seq) if subject and row < 0 else 0,
    )


def answer(consumer: Consumer, stream_name: str, seq: int, now: int) -> ExplainResponse:
    """Return the answer to CONSUMER.EXPLAIN."""
    facts = facts_of(consumer, seq, now)
    verdict = explain(facts)
    return ExplainResponse(
        stream_name=stream_name,
        name=consumer.name,
        seq=seq,
        subject=facts.subject.decode(errors="replace"),
        outcome=verdict.outcome,
        reason=verdict.reason,
        until=Timestamp(verdict.until_ns) if verdict.until_ns else None,
        deliveries=facts.deliveries,
        ahead=facts.ahead if verdict.outcome == Outcome.NEXT else 0,
    )


def _subject(consumer: Consumer, seq: int) -> bytes:
    index = consumer.state.cursor.index
    columns = index.segment_of(seq) if 0 < seq <= index.last_seq else None
    if columns is None or columns.offsets[seq - columns.base] == NOWHERE:
        return b""
    return index.entries[columns.subjects[seq - columns.base]].subject


def _date(consumer: Consumer, time_ns: int) -> int:
    """Return the date of an engine time; 0 stays 0."""
    return consumer.services.wall.at(time_ns) if time_ns else 0


def _due(consumer: Consumer, row: int, seq: int) -> int:
    """Return when a pending message is redelivered; 0: immediately."""
    delivery = consumer.delivery
    if row < 0:
        return 0
    state = delivery.state.pending.words[row] & STATE
    if state == QUEUED:
        return 0
    if state == MOVED:
        return delivery.state.pending.moved.get(seq, 0)
    return int(delivery.state.pending.time_of(row)) + int(delivery.ack_wait)


def _is_listed(consumer: Consumer, seq: int) -> bool:
    """Return whether a message is listed as last of its subject and not delivered yet."""
    cursor = consumer.state.cursor
    return cursor.is_listed(seq)


def _is_before_start(consumer: Consumer, seq: int) -> bool:
    """Return whether a message is before the start of the deliver policy.

    The consumer does not store the start; it follows from when it was created, and when messages
    were stored.
    """
    config = consumer.config
    policy = config.deliver_policy
    log = consumer.stream.log
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        return seq < config.opt_start_seq
    stored = int(log.reader.time_of(seq))
    if policy == DeliverPolicy.BY_START_TIME:
        return stored < (config.opt_start_time or 0)
    if policy not in _OPENED or stored > consumer.created_ns:
        return False
    if policy == DeliverPolicy.NEW:
        return True
    cursor = consumer.state.cursor
    if policy == DeliverPolicy.LAST:
        later = int(cursor.find(seq + 1))
    else:
        later = int(cursor.index.next_in_subject(seq))
    return later > 0 and int(log.reader.time_of(later)) <= consumer.created_ns


def _ahead(consumer: Consumer, seq: int) -> int:
    """Return how many messages the consumer delivers before this one."""
    cursor = consumer.state.cursor
    place = int(cursor.listed_place(seq))
    if place >= 0:
        return place - int(cursor.listed_at)
    listed = len(cursor.listed) - int(cursor.listed_at)
    return listed + int(cursor.count(cursor.next, seq - 1)) if seq >= cursor.next else 0
