"""The part of a stream that batches talk to: the messages that come by the thousand.

What is rare about batches (their beginning, their end, every refusal) is in the modules beside
this one, which are not compiled.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.api.stream import StreamConfig
from jetspark.engine.batch import atomic, fast
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.batch.members import AtomicBatch, FastBatch, member_size
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.expectations import expected_sequence
from jetspark.engine.stream.intake import Intake
from jetspark.headers.block import strip_status
from jetspark.store.format.record import SUBJECT_MAX
from jetspark.store.log.stream_log import StreamLog

# How the reply subject of a message in the middle of a fast batch ends, and where its number is.
APPEND_END: Final = b".1.$FI"
_APPEND_SIZE: Final[i64] = 6
_DOT: Final[i64] = 0x2E
_ZERO: Final[i64] = 0x30
_NINE: Final[i64] = 0x39


class BatchIntake(Intake):
    """The open batches of a stream."""

    def __init__(
        self,
        config: StreamConfig,
        created_ns: int,
        log: StreamLog,
        batch_limits: BatchLimits | None = None,
    ) -> None:
        super().__init__(config, created_ns, log)
        self.batch_limits: BatchLimits = batch_limits or BatchLimits()
        self.atomic: dict[bytes, AtomicBatch] = {}
        self.fast: dict[bytes, FastBatch] = {}
        # Fast batches by what their reply subjects begin with.
        self.fast_heads: dict[bytes, FastBatch] = {}
        # Fast batches that go on in the group that fills.
        self.advanced: list[FastBatch] = []
        # Fast batches that ended when the disk could not take it: said with the next group.
        self.ended: list[bytes] = []
        # When a batch may have been idle for too long; 0: none is open.
        self.batch_due: i64 = 0
        # The engine has to look at `next_deadline` again.
        self.deadline_moved: bool = False
        # When the group on its way was taken and became durable, to know how fast the disk is.
        self.taken_ns: i64 = 0
        self.committed_ns: i64 = 0
        self.flow_control: fast.FlowControl = fast.FlowControl()
        # Set by the engine: tells that a batch was abandoned, and why.
        self.advise: Callable[[bytes, str, int, Outbox], None] = no_advice
        if config.allow_batched:
            fast.resume(self)

    def configure(self, config: StreamConfig) -> None:
        """Go by another configuration; switching a kind of batch off drops what is open."""
        super().configure(config)
        if self.atomic and not config.allow_atomic:
            atomic.drop_all(self)
        if self.fast and not config.allow_batched:
            fast.drop_all(self)

    # Atomic ------------------------------------------------------------------------------------

    def publish_batched(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Take a message whose headers name a batch; the checks have read them."""
        headers = self.checks.headers
        if len(headers.batch_id) == 0:
            return fast.take_by_headers(self, subject, reply, block, body, now, outbox)
        batch = self.atomic.get(headers.batch_id)
        if (
            batch is None
            or headers.has_commit
            or expected_sequence(headers.batch_seq) != batch.last + 1
            or batch.last >= batch.messages_max
            or batch.size + member_size(subject, block, body) > batch.granted
            or len(headers.api_level) > 0
        ):
            return atomic.take(self, subject, reply, block, body, now, outbox)
        self.add_member(batch, subject, block, body, now)
        if len(reply) > 0:
            outbox.now.append((reply, reply, b"", b"", b""))
        return False

    def add_member(
        self, batch: AtomicBatch, subject: bytes, block: bytes, body: bytes, now: i64
    ) -> None:
        """The next message of an atomic batch; the checks have read its headers."""
        headers = self.checks.headers
        if batch.plain and (
            len(headers.msg_id) > 0
            or len(headers.rollup) > 0
            or len(headers.ttl) > 0
            or len(headers.incr) > 0
            or headers.scheduling
            or len(headers.stream_source) > 0
            or headers.expects_anything()
        ):
            batch.plain = False
        batch.subjects.append(subject)
        batch.blocks.append(block)
        batch.bodies.append(body)
        batch.last += 1
        batch.touched = now
        batch.size += member_size(subject, block, body)

    def stage_batch(self, batch: AtomicBatch, now: i64) -> None:
        """Stage an atomic batch that was judged: one run of records, all or nothing."""
        log = self.log
        subjects = batch.subjects
        log.staged.begin_batch()
        i: i64 = 0
        count: i64 = len(subjects)
        if batch.plain and self.rules.open:
            while i < count:
                block = batch.blocks[i]
                if i == count - 1:
                    # Said beforehand, so that `end_batch` need not write the record again.
                    log.staged.next_is_last()
                log.staged.add_message(subjects[i], len(block), block + batch.bodies[i], now)
                i += 1
            self.checks.last_id = b""
        else:
            while i < count:
                atomic.prepare(self.checks, subjects[i], batch.blocks[i], batch.bodies[i])
                self.store(subjects[i], b"", now)
                i += 1
        log.staged.end_batch()

    # Fast --------------------------------------------------------------------------------------

    def append_fast(
        self, subject: bytes, data: bytes, rs: i64, re: i64, hs: i64, ps: i64, pe: i64, now: i64
    ) -> bool:
        """Take the message that is next in a fast batch, if nothing is unusual about it."""
        i = re - _APPEND_SIZE
        if (
            i <= rs
            or data[i:re] != APPEND_END
            or not self.rules.open
            or self.log.access.read_only
            or self.log.access.full
            or len(subject) > SUBJECT_MAX
        ):
            return False
        number: i64 = 0
        scale: i64 = 1
        i -= 1
        stop = max(rs, i - 17)
        while i >= stop:
            digit: i64 = data[i]
            if digit == _DOT:
                break
            if digit < _ZERO or digit > _NINE:
                return False
            number += (digit - _ZERO) * scale
            scale *= 10
            i -= 1
        batch = self.fast_heads.get(data[rs : i + 1])
        if batch is None or number != batch.last + 1 or batch.resumed:
            return False
        if ps == hs:
            self.log.staged.add_message(subject, 0, data[ps : pe + 2], now)
            self.checks.last_id = b""
        elif not self.append_checked(subject, data[hs:ps], data[ps : pe + 2], now):
            return False
        batch.stored_seq = self.log.staged.seq
        batch.last = number
        batch.touched = now
        if not batch.listed:
            batch.listed = True
            self.advanced.append(batch)
        return True

    def append_checked(self, subject: bytes, block: bytes, body: bytes, now: i64) -> bool:
        """Stage a message of a fast batch that has headers; False: it needs a closer look."""
        checks = self.checks
        checks.in_batch = True
        error = checks.judge_or_refuse(subject, strip_status(block), body, now)
        checks.in_batch = False
        headers = checks.headers
        if (
            len(error) > 0
            or checks.duplicate_of > 0
            or len(headers.expected_last_id) > 0
            or len(headers.api_level) > 0
        ):
            return False
        self.store(subject, b"", now)
        return True

    def publish_fast(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Take a message whose reply subject is one of fast ingest."""
        return fast.take_by_reply(self, subject, reply, block, body, now, outbox)


def no_advice(_batch_id: bytes, _reason: str, _now: int, _outbox: Outbox) -> None:
    """A stream without an engine tells nobody."""
