"""Expiry times of messages: ``max_age`` and ``Nats-TTL``; firing times of schedules.

A heap of (time, sequence) for messages with a TTL of their own, and the oldest message for
``max_age``. Both yield one deadline (contracts.md, Commit). After a start the TTLs are read from
the log again, in pieces, so that a long stream does not block the others.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.schedules import Due, first_due
from jetspark.engine.stream.ttl import NEVER, SECOND, parse_ttl
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.block import find_value
from jetspark.headers.names import KV_OPERATION, MARKER_REASON, ROLLUP, TTL
from jetspark.store.format.record import FIXED, headers_end, record_time, subject_end
from jetspark.store.log.stream_log import StreamLog
from jetspark.units import format_duration

# What one call may visit: the same limit as for reads in one turn (contracts.md, Reads).
PER_TURN: Final[i64] = 1000
# A schedule that fires is read, evaluated and stored, which takes some thirty microseconds.
FIRED_PER_TURN: Final[i64] = 256

# Deadlines are 64-bit nanoseconds; a later one never comes.
FOREVER: Final = 2**63 - 1

# A message that the disk failed to read is retried this much later.
RETRY_NS: Final[i64] = 1_000_000_000


class Lifetimes:
    """When the messages of one stream expire, and when its schedules fire."""

    def __init__(self, log: StreamLog) -> None:
        self.log: StreamLog = log
        self.heap: list[tuple[int, int]] = []
        # Schedules, by the time they fire next, and whether that is a date.
        self.schedules: list[tuple[int, int, bool]] = []
        # Those that were due before they were durable: once durable they can be read, and fire.
        self.early: list[tuple[int, int, bool]] = []
        # Messages whose TTL was over before they were durable: whether a marker is due is read
        # from them, so they expire once they are durable.
        self.early_ends: list[tuple[int, int]] = []
        # How far the wall clock is ahead of engine time.
        self.wall_lead: int = 0
        # Messages that max_age does not apply to.
        self.exempt: set[int] = set()
        # The sequences that existed at the start and were not visited yet.
        self.scan_next: i64 = 1
        self.scan_last: i64 = log.index.last_seq
        self.headers: PublishHeaders = PublishHeaders()
        # The disk failed to read: nothing is visited before this time.
        self.held_until: i64 = 0

    def learn(self, seq: int, ttl: i64, time_ns: i64) -> None:
        """Add a message with a TTL: whole seconds, or NEVER."""
        if ttl == NEVER:
            self.exempt.add(seq)
        elif ttl > 0:
            stored = int(self.log.timeline.engine_time(time_ns))
            heappush(self.heap, (min(max(stored + int(ttl) * SECOND, 1), FOREVER), seq))

    def start_again(self) -> None:
        """Read everything from the log again: a group failed."""
        self.heap = []
        self.schedules = []
        self.early = []
        self.early_ends = []
        self.exempt = set()
        self.scan_next = 1
        self.scan_last = self.log.index.last_seq

    def scanning(self, rules: Rules) -> bool:
        """Return whether messages from before the start have to be visited."""
        return (rules.allow_ttl or rules.allow_schedules) and self.scan_next <= self.scan_last

    def next_message(self, now: i64) -> i64:
        """Remove and return the next message whose TTL is over; 0 if none."""
        while self.heap and self.heap[0][0] <= now:
            due = heappop(self.heap)
            seq: i64 = due[1]
            if seq <= self.log.index.last_seq:
                return seq
            self.early_ends.append(due)
        return 0

    def plan(self, seq: int, headers: PublishHeaders, stored_ns: i64, now: i64) -> None:
        """Add a stored schedule: compute when it fires first."""
        stored = int(self.log.timeline.engine_time(stored_ns)) + self.wall_lead
        due = first_due(headers, stored, int(now) + self.wall_lead)
        if due is not None:
            self.schedule(seq, due)

    def schedule(self, seq: int, due: Due) -> None:
        """Set when a schedule fires: at a date, or after a time."""
        time_ns = min(max(due.time_ns - self.wall_lead, 1), FOREVER)
        heappush(self.schedules, (time_ns, seq, due.dated))

    def fire_again(self, seq: int, now: int) -> None:
        """Retry a schedule that could not be read as soon as possible."""
        heappush(self.schedules, (now, seq, False))

    def follow_wall(self, lead: int) -> None:
        """Adjust dates after the wall clock was set."""
        change = lead - self.wall_lead
        self.wall_lead = lead
        self.schedules = [
            (min(max(time_ns - change, 1), FOREVER) if dated else time_ns, seq, dated)
            for time_ns, seq, dated in self.schedules
        ]
        heapify(self.schedules)

    def next_schedule(self, now: i64) -> i64:
        """Remove and return the next schedule that fires; 0 if none."""
        while self.schedules and self.schedules[0][0] <= now:
            due = heappop(self.schedules)
            seq: i64 = due[1]
            if seq <= self.log.index.last_seq:
                return seq
            self.early.append(due)
        return 0

    def take_early(self) -> None:
        """Process what was due before it was durable, and is durable now."""
        last = int(self.log.index.last_seq)
        ends = self.early_ends
        self.early_ends = []
        for end in ends:
            if end[1] <= last:
                heappush(self.heap, end)
            else:
                self.early_ends.append(end)
        waiting = self.early
        self.early = []
        for due in waiting:
            if due[1] <= last:
                heappush(self.schedules, due)
            else:
                self.early.append(due)

    def oldest_due(self, rules: Rules) -> i64:
        """Return when the oldest message is too old; 0 if never."""
        index = self.log.index
        if rules.max_age <= 0 or index.messages == 0:
            return 0
        # A message may be older than engine time, which may start in 1970.
        oldest = self.log.timeline.engine_time(self.log.reader.first_time)
        return max(oldest + rules.max_age, i64(1))

    def take_back(self, seq: i64, now: i64) -> None:
        """Retry a message whose expiry cannot be decided now a little later."""
        heappush(self.heap, (int(now + RETRY_NS), int(seq)))

    def hold(self, now: i64) -> None:
        """Retry a little later: the disk failed to read."""
        self.held_until = now + RETRY_NS

    def next_deadline(self, rules: Rules) -> i64:
        """Return when something is due; 0 if nothing."""
        deadline = self.first_due(rules)
        return max(deadline, self.held_until) if deadline > 0 else deadline

    def first_due(self, rules: Rules) -> i64:
        """Return when something is due, whether the disk can be read or not; 0 if nothing."""
        if self.scanning(rules):
            return 1
        deadline = self.oldest_due(rules)
        if self.exempt and deadline > 0:
            deadline = self.expiring_due(rules)
        if self.early or self.early_ends:
            self.take_early()
        if self.heap:
            own: i64 = self.heap[0][0]
            if deadline == 0 or own < deadline:
                deadline = own
        if self.schedules:
            fires: i64 = self.schedules[0][0]
            if deadline == 0 or fires < deadline:
                deadline = fires
        return deadline

    def expiring_due(self, rules: Rules) -> i64:
        """Return when the oldest message that may expire is too old; 0 if none."""
        seq = self.next_expiring(0)
        if seq == 0:
            return 0
        stored = max(self.log.reader.time_of(seq), i64(0))
        return max(self.log.timeline.engine_time(stored) + rules.max_age, i64(1))

    def next_expiring(self, after: i64) -> i64:
        """Return the first message after ``after`` that may expire; 0: none."""
        seq = self.log.index.next_seq(after + 1, b"")
        while seq > 0 and int(seq) in self.exempt:
            seq = self.log.index.next_seq(seq + 1, b"")
        return seq

    def read(self, seq: i64) -> i64:
        """Read the headers of a durable message; return when it was stored, -1: it has no headers.

        Raises ReadFailed if the disk fails.
        """
        try:
            data, at = self.log.reader.locate(seq)
        except CorruptRecord:
            return -1
        if len(data) == 0:
            return -1
        start = subject_end(data, at)
        end = headers_end(data, at)
        if end == start or not self.headers.read(data[start:end]):
            return -1
        return record_time(data, at)

    def subject_to_mark(self, seq: i64) -> bytes:
        """Return the subject that needs a marker when this message is removed; empty for none.

        None is needed if newer messages exist, nor for a marker or a purge of a key. Raises
        ReadFailed if the disk fails.
        """
        try:
            data, at = self.log.reader.locate(seq)
        except CorruptRecord:
            return b""
        if len(data) == 0:
            return b""
        start = subject_end(data, at)
        end = headers_end(data, at)
        block = data[start:end]
        if find_value(block, MARKER_REASON) or find_value(block, KV_OPERATION) == b"PURGE":
            return b""
        subject = data[at + FIXED : start]
        self.log.staged.look_up()
        entry = self.log.index.subjects.get(subject)
        return subject if entry is not None and entry.staged_last == seq else b""

    def scan(self, now: i64) -> None:
        """Visit some of the messages that existed at the start."""
        count: i64 = 0
        seq = self.log.index.next_seq(self.scan_next, b"")
        while count < PER_TURN and 0 < seq <= self.scan_last:
            stored = self.read(seq)
            if stored >= 0:
                headers = self.headers
                if len(headers.ttl) > 0:
                    self.learn(int(seq), parse_ttl(headers.ttl), stored)
                if len(headers.schedule) > 0:
                    self.plan(int(seq), headers, stored, now)
            self.scan_next = seq + 1
            seq = self.log.index.next_seq(seq + 1, b"")
            count += 1
        if seq == 0 or seq > self.scan_last:
            self.scan_next = self.scan_last + 1


def marker_block(seconds: i64) -> bytes:
    """Return the headers of the marker for the removal of a subject's last message."""
    text = format_duration(int(seconds) * SECOND).encode()
    return b"NATS/1.0\r\n%b: MaxAge\r\n%b: %b\r\n%b: sub\r\n\r\n" % (
        MARKER_REASON,
        TTL,
        text,
        ROLLUP,
    )
