"""Automatic status management of push consumers (ADR-15). Pure: ``now`` is an argument.

Checks that something arrives at least every few heartbeats, that no consumer sequence is missing,
and that every flow-control request is answered once, when the reader has reached it. The reader
calls ``on_message`` and ``on_status`` in the order of delivery.
"""

import math
from datetime import timedelta
from typing import Final

import msgspec

from jetspark.client.jetstream.pages import parse_count
from jetspark.client.timeouts import call_seconds
from jetspark.errors import ConsumerGap, Error, status_error
from jetspark.headers.block import find_value
from jetspark.headers.names import CONSUMER_STALLED, LAST_CONSUMER
from jetspark.headers.status import (
    CONTROL,
    FLOW_CONTROL_TEXT,
    NOT_FOUND,
    TIMEOUT,
    parse_status,
)

ALARM_INTERVALS: Final = 3  # ADR-15: "3 times the idle heartbeat interval"


def alarm_seconds(alarm: float | timedelta | None, heartbeat: float) -> float:
    """Seconds without messages before the alarm: given, or three heartbeats; 0 is never."""
    if alarm is None:
        return heartbeat * ALARM_INTERVALS
    alarm = call_seconds(alarm, 0.0, "alarm")
    if not 0 <= alarm < math.inf or 0 < alarm < heartbeat:
        raise ValueError(
            f"alarm={alarm}: expected at least one heartbeat ({heartbeat:g} s), or 0 for no alarm"
        )
    return alarm


class StatusEffect(msgspec.Struct, frozen=True):
    """The effect of a status: a reply to publish, a gap to report, an error to raise."""

    answer: str = ""
    gap: ConsumerGap | None = None
    error: Error | None = None


NOTHING: Final = StatusEffect()


class StatusMonitor:
    """The state of one push subscription. Times are nanoseconds of one clock."""

    def __init__(self, *, alarm_ns: int, check_gaps: bool, next_seq: int = 0, now: int) -> None:
        # ADR-15: no gap checks for members of a queue group.
        self._check_gaps = check_gaps
        # The next consumer sequence; 0 before the first message.
        self._next_seq = next_seq
        self._alarm_ns = alarm_ns
        self._arrivals = 0
        self._quiet_since = now
        self._answered = ""

    def next_look(self, now: int) -> int | None:
        """When to call ``is_overdue`` next; None if nothing is monitored."""
        return now + max(self._alarm_ns // ALARM_INTERVALS, 1) if self._alarm_ns else None

    def is_overdue(self, arrivals: int, now: int) -> bool:
        """Whether the alarm is due: ``arrivals`` (a counter) did not change for the alarm time.

        The time restarts after an alarm, so that a long silence is reported repeatedly.
        """
        if arrivals != self._arrivals:
            self._arrivals = arrivals
            self._quiet_since = now
            return False
        if not self._alarm_ns or now - self._quiet_since < self._alarm_ns:
            return False
        self._quiet_since = now
        return True

    def on_message(self, consumer_seq: int) -> ConsumerGap | None:
        """A message reached the reader; returns a gap if messages before it are missing."""
        due, self._next_seq = self._next_seq, consumer_seq + 1
        if not self._check_gaps or not due or consumer_seq == due:
            return None
        return ConsumerGap(due, consumer_seq)

    def on_status(self, block: bytes, reply: str) -> StatusEffect:
        """A status reached the reader."""
        code, text = parse_status(block)
        if code == CONTROL and text.startswith(FLOW_CONTROL_TEXT):
            return StatusEffect(answer=self._answer(reply))
        if code == CONTROL:
            return self._on_heartbeat(block)
        if code in {NOT_FOUND, TIMEOUT}:
            return NOTHING
        return StatusEffect(error=status_error(code, text.decode("utf-8", "replace")))

    def _on_heartbeat(self, block: bytes) -> StatusEffect:
        stalled = find_value(block, CONSUMER_STALLED)
        answer = self._answer(stalled.decode("utf-8", "surrogateescape")) if stalled else ""
        gap: ConsumerGap | None = None
        last = parse_count(find_value(block, LAST_CONSUMER))
        if self._check_gaps and last >= 0:
            if self._next_seq and last >= self._next_seq:
                gap = ConsumerGap(self._next_seq, last + 1)
            self._next_seq = max(self._next_seq, last + 1)
        return StatusEffect(answer=answer, gap=gap)

    def _answer(self, subject: str) -> str:
        """The flow-control subject, the first time it is seen; ADR-15: one answer is enough."""
        if not subject or subject == self._answered:
            return ""
        self._answered = subject
        return subject
