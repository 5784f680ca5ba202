"""How messages come into a stream: judged, staged, and answered when that may be said.

Replies that stand on a decision wait for that decision (contracts.md 1). They are held with the
group that carries it: ``filling`` while the group fills, ``flying`` while it is on its way.
"""

from typing import Any, Final

import msgspec
from mypy_extensions import i64

from jetspark.api.stream import StreamConfig
from jetspark.engine.limits import DUPLICATE_IDS_MAX
from jetspark.engine.outbox import Entry, Outbox
from jetspark.engine.stream.checks import BATCHED, Checks
from jetspark.engine.stream.counters import format_integer
from jetspark.engine.stream.expectations import staged_last_of
from jetspark.engine.stream.expiry import Expiry
from jetspark.engine.stream.held import Answer, Held
from jetspark.engine.stream.quota import Quota
from jetspark.engine.stream.republish import published_again
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.ttl import NO_TTL
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.headers.block import strip_status
from jetspark.store.format.record import SUBJECT_MAX
from jetspark.store.log.stream_log import StreamLog
from jetspark.subjects.tokens import is_literal

STORE_FAILED: Final = 10077
# The reply subject of a fast batch ends so (wire-facts.md 11).
FAST_BATCH_END: Final = b".$FI"
_UPPER_I: Final = 0x49
# A rollup deletes so many messages by their sequences; more of them are a purge.
ROLLUP_BY_NAME_MAX: Final[i64] = 64


class Intake:
    """The part of a stream that publishers talk to."""

    def __init__(self, config: StreamConfig, created_ns: int, log: StreamLog) -> None:
        self.config: StreamConfig = config
        self.created_ns: int = created_ns
        self.log: StreamLog = log
        self.allow_direct: bool = config.allow_direct
        self.name: bytes = config.name.encode()
        self.json_name: bytes = msgspec.json.encode(config.name)
        self.ack_head: bytes = b'{"stream":' + self.json_name + b',"seq":'
        self.rules: Rules = Rules(config, log.identity.stream_id)
        self.checks: Checks = Checks(self.rules, log, DUPLICATE_IDS_MAX)
        self.expiry: Expiry = Expiry(log)
        self.filling: Held = Held()
        self.flying: Held = Held()
        # The deadline that the engine knows of; 0: none.
        self.deadline: i64 = 0
        # When the log is looked after next (``engine/tending.py``); 0: never.
        self.tend_at: i64 = 0
        # The last sequence that the group on its way carries.
        self.flying_seq: i64 = 0
        # Republished messages that became durable; the engine takes them.
        self.published: list[Entry] = []
        self.dirty: bool = False
        self.dropped: bool = False
        # A fast batch is open that says in reply subjects what it is.
        self.appending: bool = False
        # By name; their type is not known here (``engine/consumer/consumer.py``).
        self.consumers: dict[str, Any] = {}
        # Whoever is told what happens here; None while there is no consumer.
        self.readers: Any = None
        # Copies that write to this stream, and that read it (``engine/replicate``).
        self.copies: list[Any] = []
        self.followers: list[Any] = []
        # The patterns of the purges that became durable with the last group.
        self.purged: list[bytes] = []
        if config.first_seq > 1 and log.staged.seq == 0:
            # Stands in the configuration, so it needs no record.
            log.staged.begin_after(config.first_seq - 1)

    def configure(self, config: StreamConfig) -> None:
        """Go by another configuration from now on; messages judged before keep their verdict."""
        self.config = config
        self.allow_direct = config.allow_direct
        self.guard(self.checks.quota)

    def guard(self, quota: Quota | None) -> None:
        """Have every message pass a quota from now on, or none."""
        self.checks.quota = quota
        self.rules = Rules(self.config, self.log.identity.stream_id)
        self.rules.open = self.rules.open and quota is None
        self.checks.configure(self.rules)

    # Publishing --------------------------------------------------------------------------------

    def publish(
        self,
        subject: bytes,
        data: bytes,
        rs: i64,
        re: i64,
        hs: i64,
        ps: i64,
        pe: i64,
        now: i64,
        outbox: Outbox,
    ) -> bool:
        """Take a message, by the parser's offsets; return whether something was staged."""
        if (
            len(subject) > SUBJECT_MAX
            or not self.rules.open
            or self.log.access.read_only
            or self.log.access.full
            or (re > rs and data[re - 1] == _UPPER_I)
            or (ps > hs and not self.checks.take_headers(data, hs, ps, now))
        ):
            if (
                self.appending
                and re > rs
                and self.append_fast(subject, data, rs, re, hs, ps, pe, now)
            ):
                return True
            return self.publish_checked(
                subject, data[rs:re], data[hs:ps], data[ps : pe + 2], now, outbox
            )
        if ps == hs:
            self.checks.last_id = b""
        seq = self.log.staged.add_message(subject, ps - hs, data[hs : pe + 2], now)
        if re > rs:
            self.filling.replies.append(data[rs:re])
            self.filling.sequences.append(int(seq))
        return True

    def publish_checked(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Take a message that has headers or meets a rule; ``body`` ends with its CRLF."""
        rules = self.rules
        asked = reply
        if rules.no_ack:
            reply = b""
        if self.log.access.read_only:
            error = error_body(STORE_FAILED, err="stream is read-only after a disk error")
            outbox.reply(reply, self.failure(error))
            return False
        if self.log.access.full:
            outbox.reply(reply, self.failure(error_body(ErrCode.INSUFFICIENT_RESOURCES)))
            return False
        if rules.transform is not None:
            mapped = rules.transform.apply(subject)
            if mapped is not None:
                subject = mapped
        block = strip_status(block)
        if asked.endswith(FAST_BATCH_END):
            return self.publish_fast(subject, asked, block, body, now, outbox)
        checks = self.checks
        error = checks.judge_or_refuse(subject, block, body, now)
        if len(error) > 0:
            if error == BATCHED:
                return self.publish_batched(subject, reply, block, body, now, outbox)
            self.refuse(reply, self.failure(error), outbox)
            return False
        if checks.duplicate_of > 0:
            self.acknowledge_duplicate(reply, checks.duplicate_of, outbox)
            return False
        self.store(subject, reply, now)
        return True

    def append_fast(
        self, subject: bytes, data: bytes, rs: i64, re: i64, hs: i64, ps: i64, pe: i64, now: i64
    ) -> bool:
        """Take the next message of a fast batch the short way, if that is what it is."""
        raise NotImplementedError

    def publish_fast(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Take a message whose reply subject is one of fast ingest (``engine/batch``)."""
        raise NotImplementedError

    def publish_batched(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Take a message whose headers, as the checks read them, name a batch."""
        raise NotImplementedError

    def store(self, subject: bytes, reply: bytes, now: i64) -> None:
        """Stage the message that the checks let pass, and what goes out with it."""
        checks = self.checks
        if self.rules.by_interest and not (
            self.readers is not None and (self.readers.wants(subject) or self.readers.missing)
        ):
            self.store_nothing(reply, now)
            return
        before: i64 = 0
        if self.rules.republish is not None or len(checks.headers.rollup) > 0:
            before = staged_last_of(self.log, subject)
        headers_length: i64 = len(checks.block)
        tail = checks.block + checks.body if headers_length > 0 else checks.body
        seq = int(self.log.staged.add_message(subject, headers_length, tail, now))
        checks.accepted(subject, seq, now)
        if checks.ttl != NO_TTL:
            self.expiry.learn(seq, checks.ttl, self.log.staged.time)
        if checks.headers.scheduling:
            self.note_schedule(seq, now)
        if len(checks.headers.rollup) > 0:
            self.roll_up(subject, seq, before, checks.headers.rollup.lower() == b"all")
        if self.rules.republish is not None:
            again = published_again(
                self.rules,
                subject,
                checks.block,
                checks.body[:-2],
                seq,
                int(before),
                int(self.log.staged.time),
            )
            if again is not None:
                self.filling.messages.append(again)
        count = checks.count
        if len(reply) == 0:
            return
        if count is None:
            self.filling.replies.append(reply)
            self.filling.sequences.append(seq)
        else:
            body = self.ack_head + b'%d,"val":"%b"}' % (seq, format_integer(count.number))
            self.filling.entries.append((reply, reply, b"", b"", body))

    def store_nothing(self, reply: bytes, now: i64) -> None:
        """Nobody is interested: the message gets its sequence and its answer, and is not kept."""
        seq = int(self.log.staged.use_up(now))
        msg_id = self.checks.headers.msg_id
        self.checks.last_id = msg_id
        if len(msg_id) > 0:
            self.checks.window.add(msg_id, seq, now)
        if len(reply) > 0:
            self.filling.replies.append(reply)
            self.filling.sequences.append(seq)

    def note_schedule(self, seq: int, now: i64) -> None:
        """The message just staged is a schedule, or ends one."""
        headers = self.checks.headers
        if len(headers.schedule) > 0:
            self.expiry.plan(seq, headers, self.log.staged.time, now)
        if len(headers.schedule_next) > 0:
            self.log.staged.purge(0, headers.scheduler, 0)

    def roll_up(self, subject: bytes, seq: i64, before: i64, everything: bool) -> None:
        """The message just staged takes the place of all before it, of its subject or at all.

        ``before`` is the last one of its subject. A few durable messages are named one by one:
        a purge looks through the whole stream.
        """
        index = self.log.index
        entry = index.subjects.get(subject)
        self.filling.purges.append(b"" if everything else subject)
        if (
            everything
            or before > index.last_seq
            # A wildcard in it stands for every subject that it matches, as in nats-server.
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

    def refuse(self, reply: bytes, body: bytes, outbox: Outbox) -> None:
        """Answer a publish with an error: at once, or when what it stands on is durable."""
        if len(reply) == 0:
            return
        if self.checks.on_state:
            self.hold_newest((reply, reply, b"", b"", body), outbox)
        else:
            outbox.now.append((reply, reply, b"", b"", body))

    def acknowledge_duplicate(self, reply: bytes, seq: i64, outbox: Outbox) -> None:
        """Answer with the sequence of the first copy, once that copy is durable."""
        if len(reply) == 0:
            return
        # The blank is there in released servers too.
        body = self.ack_head + b'%d,"duplicate": true}' % int(seq)
        entry = (reply, reply, b"", b"", body)
        if seq <= self.log.index.last_seq:
            outbox.now.append(entry)
        elif seq <= self.flying_seq:
            self.flying.entries.append(entry)
        else:
            self.filling.entries.append(entry)

    def hold_newest(self, entry: Entry, outbox: Outbox) -> None:
        """Send a reply when all that is staged is durable; at once when nothing is."""
        log = self.log
        if log.staged.position == log.index.position:
            outbox.now.append(entry)
        elif (
            log.staged.in_flight is not None
            and log.staged.in_flight.last_position == log.staged.position
        ):
            self.flying.entries.append(entry)
        else:
            self.filling.entries.append(entry)

    def hold_answer(self, answer: Answer, outbox: Outbox) -> None:
        """Answer a request when all that is staged is durable; at once when nothing is."""
        log = self.log
        if log.staged.position == log.index.position:
            outbox.reply(answer[0], answer[1])
        elif (
            log.staged.in_flight is not None
            and log.staged.in_flight.last_position == log.staged.position
        ):
            self.flying.answers.append(answer)
        else:
            self.filling.answers.append(answer)

    def hold_ack(self, reply: bytes) -> None:
        """Answer an acknowledgement when the journal record that the next group gets is durable.

        The consumer is in the journal's list, so there is such a record.
        """
        self.filling.acks.append(reply)

    def hold_message(self, entry: Entry) -> bool:
        """Publish a message when all that is staged is durable; False when nothing is.

        When the disk refuses, the message never was.
        """
        log = self.log
        if log.staged.position == log.index.position:
            return False
        if (
            log.staged.in_flight is not None
            and log.staged.in_flight.last_position == log.staged.position
        ):
            self.flying.messages.append(entry)
        else:
            self.filling.messages.append(entry)
        return True

    def failure(self, error: bytes) -> bytes:
        """The body of a failed publish: the zero sequence is there in released servers too."""
        return b'{"error":%s,"stream":%s,"seq":0}' % (error, self.json_name)
