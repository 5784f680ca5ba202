"""Ingest: stages valid messages, with everything that is sent with them."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.consumer.attached import AttachedConsumers
from jetspark.engine.stream.checks import Checks, Judgement
from jetspark.engine.stream.counters import format_integer
from jetspark.engine.stream.expectations import staged_last_of
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.lifetimes import Lifetimes
from jetspark.engine.stream.replies import Replies
from jetspark.engine.stream.republish import published_again
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.ttl import NO_TTL
from jetspark.store.log.stream_log import StreamLog
from jetspark.subjects.tokens import is_literal

# A rollup deletes this many messages by their sequences; more of them are a purge.
ROLLUP_BY_NAME_MAX: Final[i64] = 64


# Consumers that are asked about a message in one unit of a turn (turn.py).
ASKED_PER_UNIT: Final[i64] = 8


class Ingest:
    """Adds messages to the log of one stream."""

    def __init__(
        self,
        rules: Rules,
        log: StreamLog,
        checks: Checks,
        replies: Replies,
        lifetimes: Lifetimes,
        attached: AttachedConsumers,
    ) -> None:
        self.rules: Rules = rules
        self.log: StreamLog = log
        self.checks: Checks = checks
        self.replies: Replies = replies
        self.lifetimes: Lifetimes = lifetimes
        self.attached: AttachedConsumers = attached

    def configure(self, rules: Rules) -> None:
        """Apply a configuration."""
        self.rules = rules

    def store(self, judged: Judgement, subject: bytes, reply: bytes, now: i64) -> None:
        """Stage a message as checked, and what is sent with it."""
        rules = self.rules
        if rules.by_interest:
            # Very many consumers may have to be asked.
            self.log.index.turn.spend(len(self.attached.all) // ASKED_PER_UNIT)
            if not (self.attached.wants(subject) or self.attached.missing):
                self.store_nothing(judged, reply, now)
                return
        rollup = judged.headers.rollup
        before: i64 = 0
        if rules.republish is not None or len(rollup) > 0:
            before = staged_last_of(self.log, subject)
        headers_length: i64 = len(judged.block)
        tail = judged.block + judged.body if headers_length > 0 else judged.body
        seq = int(self.log.staged.add_message(subject, headers_length, tail, now))
        self.checks.accepted(judged, subject, seq, now)
        if judged.ttl != NO_TTL:
            self.lifetimes.learn(seq, judged.ttl, self.log.staged.time)
        if judged.headers.scheduling:
            self.note_schedule(judged.headers, seq, now)
        if len(rollup) > 0:
            self.roll_up(subject, seq, before, rollup.lower() == b"all")
        if rules.republish is not None:
            again = published_again(
                rules,
                subject,
                judged.block,
                judged.body[:-2],
                seq,
                int(before),
                int(self.log.staged.time),
            )
            if again is not None:
                self.replies.hold_republished(again)
        count = judged.count
        if len(reply) == 0:
            return
        if count is None:
            self.replies.acknowledge(reply, seq)
        else:
            value = b'%d,"val":"%b"}' % (seq, format_integer(count.number))
            self.replies.acknowledge_with(reply, self.replies.ack_head + value)

    def store_nothing(self, judged: Judgement, reply: bytes, now: i64) -> None:
        """Assign a sequence to a message without interest and answer it; it is not kept."""
        seq = int(self.log.staged.use_up(now))
        self.checks.accepted_unkept(judged, seq, now)
        if len(reply) > 0:
            self.replies.acknowledge(reply, seq)

    def note_schedule(self, headers: PublishHeaders, seq: int, now: i64) -> None:
        """Note that the message just staged is a schedule, or ends one."""
        if len(headers.schedule) > 0:
            self.lifetimes.plan(seq, headers, self.log.staged.time, now)
        if len(headers.schedule_next) > 0:
            self.log.staged.purge(0, headers.scheduler, 0)

    def roll_up(self, subject: bytes, seq: i64, before: i64, everything: bool) -> None:
        """Remove what the message just staged replaces: its subject, or everything.

        ``before`` is the last one of its subject. A few durable messages are deleted one by one: a
        purge scans the whole stream.
        """
        index = self.log.index
        self.log.staged.look_up()
        entry = index.subjects.get(subject)
        self.replies.hold_purge(b"" if everything else subject)
        if (
            everything
            or before > index.last_seq
            # A wildcard in it matches every such subject, as in nats-server.
            or not is_literal(subject)
            or entry is None
            or i64(entry.count) > ROLLUP_BY_NAME_MAX
        ):
            self.log.staged.purge(seq, b"" if everything else subject, 0)
            return
        old = entry.first
        while old > 0:
            following = index.next_in_subject(old)
            self.log.staged.delete(old)
            old = following
