"""Removes expired messages, stores their markers, and sends scheduled messages."""

from mypy_extensions import i64

from jetspark.engine.stream.checks import Checks
from jetspark.engine.stream.dedupe import FORGOTTEN_AT_ONCE
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.lifetimes import FIRED_PER_TURN, PER_TURN, Lifetimes, marker_block
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.schedules import fired
from jetspark.engine.stream.ttl import SECOND
from jetspark.errors.storage import ReadFailed
from jetspark.store.log.stream_log import StreamLog


class Expiry:
    """The time-dependent work of one stream."""

    def __init__(self, ingest: Ingest) -> None:
        self.ingest: Ingest = ingest
        self.rules: Rules = ingest.rules
        self.log: StreamLog = ingest.log
        self.checks: Checks = ingest.checks
        self.lifetimes: Lifetimes = ingest.lifetimes

    def configure(self, rules: Rules) -> None:
        """Apply a configuration."""
        self.rules = rules

    def next_deadline(self) -> i64:
        """Return when ``expire`` has something to do; 0 if nothing."""
        deadline = self.lifetimes.next_deadline(self.rules)
        window = self.checks.window
        if window.due > 0:
            # Ids expire on lookup; this is for a stream without lookups.
            idle = window.due + window.window
            if deadline == 0 or idle < deadline:
                deadline = idle
        return deadline

    def expire(self, now: i64) -> bool:
        """Remove expired messages, some at a time; return whether something was staged."""
        window = self.checks.window
        if window.due > 0:
            window.expire(now, FORGOTTEN_AT_ONCE)
        rules = self.rules
        if self.log.access.read_only or (
            # Neither markers nor scheduled messages can be stored.
            self.log.access.full and (rules.marker_ttl > 0 or rules.allow_schedules)
        ):
            return False
        if now < self.lifetimes.held_until:
            return False
        before = self.log.staged.position
        try:
            return self.end_due(now)
        except ReadFailed:
            # Nothing expires unread; what was staged before is kept.
            self.lifetimes.hold(now)
            return self.log.staged.position > before

    def end_due(self, now: i64) -> bool:
        """Remove expired messages, some at a time; raises ReadFailed if the disk fails."""
        lifetimes = self.lifetimes
        if lifetimes.scanning(self.rules):
            lifetimes.scan(now)
            return False
        staged = False
        count: i64 = 0
        while count < PER_TURN:
            seq = lifetimes.next_message(now)
            if seq == 0:
                break
            try:
                staged = self.end_message(seq, now) or staged
            except ReadFailed:
                lifetimes.take_back(seq, now)
                raise
            count += 1
        if self.rules.allow_schedules:
            staged = self.fire(now) or staged
        if self.rules.max_age > 0:
            staged = self.end_old(now) or staged
        return staged

    def fire(self, now: i64) -> bool:
        """Send the messages of schedules that are due."""
        lifetimes = self.lifetimes
        staged = False
        count: i64 = 0
        while count < FIRED_PER_TURN:
            seq = lifetimes.next_schedule(now)
            if seq == 0:
                break
            count += 1
            try:
                message = fired(self.log, seq, int(now) + lifetimes.wall_lead)
            except ReadFailed:
                lifetimes.fire_again(int(seq), int(now))
                raise
            if message is None:
                continue
            if message.following is not None:
                lifetimes.schedule(int(seq), message.following)
            judged = self.checks.judge_fired(message.target, message.block, message.body)
            if len(judged.error) == 0:
                self.ingest.store(judged, message.target, b"", now)
                staged = True
            if message.following is None:
                self.log.staged.purge(0, message.scheduler, 0)
                staged = True
        return staged

    def end_old(self, now: i64) -> bool:
        """Remove messages older than ``max_age``."""
        rules = self.rules
        log = self.log
        lifetimes = self.lifetimes
        due = lifetimes.oldest_due(rules)
        if due == 0 or due > now:
            return False
        if rules.marker_ttl <= 0 and not lifetimes.exempt:
            # No record: the log has the time of each message, and that is enough.
            log.expire_before(log.timeline.stored_time(now - rules.max_age) + 1)
            return False
        staged = False
        seq = lifetimes.next_expiring(0)
        count: i64 = 0
        oldest = log.timeline.stored_time(now - rules.max_age)
        while seq > 0 and count < PER_TURN and log.reader.stored_at(seq, True) <= oldest:
            staged = self.end_message(seq, now) or staged
            seq = lifetimes.next_expiring(seq)
            count += 1
        return staged

    def end_message(self, seq: i64, now: i64) -> bool:
        """Remove an expired message, or replace it by a marker if it was the subject's last."""
        if self.rules.marker_ttl <= 0:
            return self.log.staged.delete(seq)
        subject = self.lifetimes.subject_to_mark(seq)
        if len(subject) == 0:
            return self.log.staged.delete(seq)
        seconds = self.rules.marker_ttl // SECOND
        block = marker_block(seconds)
        marker = self.log.staged.add_message(subject, len(block), block + b"\r\n", now)
        self.checks.stored_without_id()
        self.lifetimes.learn(int(marker), seconds, self.log.staged.time)
        self.ingest.roll_up(subject, marker, seq, False)
        return True
