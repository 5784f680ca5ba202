"""Atomic batches (ADR-50): their start, their end, and every reason to refuse one.

Messages wait in memory, within the server's limits; they are not visible. The commit validates all
of them against the state before the batch (``judge.py``) and then stages one run of records that
becomes durable completely or not at all.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch.answers import pub_ack
from jetspark.engine.batch.dialect import batch_number
from jetspark.engine.batch.idle_timer import IdleTimer
from jetspark.engine.batch.judge import BatchVerdict, judge_batch
from jetspark.engine.batch.limits import ID_MAX, BatchLimits
from jetspark.engine.batch.members import AtomicBatch, member_size
from jetspark.engine.batch.open_batches import OpenBatches
from jetspark.engine.direct.request import needs_newer
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Judgement
from jetspark.engine.stream.expectations import NO_SEQUENCE, BatchLooks, expected_sequence
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.rules import Rules
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.headers.block import remove_header
from jetspark.headers.names import REQUIRED_API_LEVEL
from jetspark.subjects.tokens import is_literal

COMMIT: Final = b"1"
END_OF_BATCH: Final = b"eob"
# Memory is granted to a batch in pieces of this size.
GRANT: Final = 16 * 1024


class AtomicBatches(OpenBatches):
    """The open atomic batches of one stream."""

    def __init__(
        self,
        ingest: Ingest,
        limits: BatchLimits,
        timer: IdleTimer,
        advise: Callable[[bytes, str, int, Outbox], None],
    ) -> None:
        super().__init__(ingest, limits, timer, advise)
        self.open: dict[bytes, AtomicBatch] = {}
        self.looks: BatchLooks = BatchLooks(ingest.log)

    def configure(self, rules: Rules) -> None:
        """Apply a configuration; disabling atomic batches drops the open ones."""
        self.rules = rules
        if self.open and not rules.allow_atomic:
            self.drop_all()

    def publish(
        self, judged: Judgement, subject: bytes, reply: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Handle a message whose headers name an atomic batch; return whether there is work."""
        headers = judged.headers
        block = judged.block
        body = judged.body
        batch = self.open.get(headers.batch_id)
        if (
            batch is None
            or headers.has_commit
            or expected_sequence(headers.batch_seq) != batch.last + 1
            or batch.last >= batch.messages_max
            or batch.size + member_size(subject, block, body) > batch.granted
            or len(headers.api_level) > 0
        ):
            return self.take(headers, subject, reply, block, body, int(now), outbox)
        batch.add(headers, subject, block, body, now)
        if len(reply) > 0:
            outbox.send((reply, reply, b"", b"", b""))
        return False

    def take(
        self,
        headers: PublishHeaders,
        subject: bytes,
        reply: bytes,
        block: bytes,
        body: bytes,
        now: int,
        outbox: Outbox,
    ) -> bool:
        """Handle a message that starts or ends a batch, or violates a rule.

        The order of the checks is the released server's. Raises LongLook if a commit has to look
        up the last messages of patterns in several turns.
        """
        batch_id = headers.batch_id
        number = batch_number(headers.batch_seq)
        ends = headers.has_commit and headers.batch_commit == END_OF_BATCH
        error = self.header_problem(headers, number)
        if error:
            self.replies.refuse(reply, error, False, outbox)
            return False
        batch = self.open.get(batch_id)
        opened = batch is None
        if batch is None:
            error = self.opening_problem(number, ends)
            if error:
                self.replies.refuse(reply, error, False, outbox)
                return False
            batch = self.begin(batch_id, now)
        if headers.has_commit and not ends and headers.batch_commit != COMMIT:
            self.abandon(batch, reply, error_body(ErrCode.ATOMIC_COMMIT_INVALID), outbox)
            return False
        if headers.api_level:
            if needs_newer(block):
                self.abandon(batch, reply, error_body(ErrCode.REQUIRED_API_LEVEL), outbox)
                self.advise(batch_id, AbandonReason.UNSUPPORTED, now, outbox)
                return False
            block = remove_header(block, REQUIRED_API_LEVEL)
        if number != batch.last + 1 or (ends and number == 1):
            self.abandon(batch, reply, error_body(ErrCode.ATOMIC_INCOMPLETE), outbox)
            self.advise(batch_id, AbandonReason.INCOMPLETE, now, outbox)
            return False
        size = 0 if ends else int(member_size(subject, block, body))
        error = self.size_problem(batch, number - int(ends), size)
        if error:
            self.abandon(batch, reply, error, outbox)
            self.advise(batch_id, AbandonReason.LARGE, now, outbox)
            return False
        if ends:
            lasts = self.looks.lasts_of(batch.patterns)
            return self.commit(batch, lasts, reply, now, outbox, True)
        if headers.has_commit:
            # LongLook: this message is handled again, so nothing has changed before it.
            of = headers.expected_subject
            last = {of} if len(of) > 0 and not is_literal(of) else set()
            lasts = self.looks.lasts_of(batch.patterns | last)
            batch.add(headers, subject, block, body, now)
            return self.commit(batch, lasts, reply, now, outbox, False)
        batch.add(headers, subject, block, body, now)
        outbox.reply(reply, b"")
        return opened

    def header_problem(self, headers: PublishHeaders, number: int) -> bytes:
        """Return why a message cannot be part of a batch."""
        if not self.rules.allow_atomic:
            return error_body(ErrCode.ATOMIC_DISABLED)
        if len(headers.batch_id) > ID_MAX:
            return error_body(ErrCode.ATOMIC_ID_INVALID)
        if number == NO_SEQUENCE:
            return error_body(ErrCode.ATOMIC_SEQUENCE_MISSING)
        return b""

    def opening_problem(self, number: int, ends: bool) -> bytes:
        """Return why a message cannot start a batch."""
        limits = self.limits
        if number != 1:
            if number - int(ends) > limits.atomic_messages:
                return error_body(ErrCode.ATOMIC_TOO_LARGE, size=limits.atomic_messages)
            return error_body(ErrCode.ATOMIC_INCOMPLETE)
        if (
            len(self.open) >= limits.atomic_per_stream
            or limits.atomic_open >= limits.atomic_per_server
        ):
            return error_body(ErrCode.ATOMIC_TOO_MANY)
        return b""

    def size_problem(self, batch: AtomicBatch, messages: int, size: int) -> bytes:
        """Return why a batch may not become this large: in messages, or in memory of all batches.

        Memory is granted in pieces, so that most messages need not ask.
        """
        limits = self.limits
        if messages > limits.atomic_messages:
            return error_body(ErrCode.ATOMIC_TOO_LARGE, size=limits.atomic_messages)
        missing = int(batch.size) + size - int(batch.granted)
        if missing > 0:
            granted = limits.grant(missing, GRANT)
            if granted == 0:
                return error_body(ErrCode.INSUFFICIENT_RESOURCES)
            batch.grant(granted)
        return b""

    def begin(self, batch_id: bytes, now: int) -> AtomicBatch:
        """Open a batch."""
        batch = AtomicBatch(batch_id, self.limits.atomic_messages, now)
        self.open[batch_id] = batch
        self.limits.atomic_opened()
        self.timer.opened(now)
        return batch

    def forget(self, batch: AtomicBatch) -> None:
        """Remove a batch that has ended and free its memory."""
        if self.open.pop(batch.batch_id, None) is not None:
            self.limits.atomic_closed(int(batch.granted))

    def drop_all(self) -> None:
        """Forget every open batch silently."""
        for batch in list(self.open.values()):
            self.forget(batch)

    def abandon(self, batch: AtomicBatch, reply: bytes, error: bytes, outbox: Outbox) -> None:
        """End a batch with an error; nothing of it is stored."""
        self.forget(batch)
        self.replies.refuse(reply, error, False, outbox)

    def commit(
        self,
        batch: AtomicBatch,
        lasts: dict[bytes, int],
        reply: bytes,
        now: int,
        outbox: Outbox,
        by_marker: bool,
    ) -> bool:
        """Validate a batch and stage all of it or nothing; ``lasts``: of its patterns."""
        self.forget(batch)
        if not (batch.plain and self.rules.open):
            verdict: BatchVerdict = judge_batch(self.checks, batch, lasts, now)
            if verdict.error:
                self.replies.refuse(reply, verdict.error, verdict.on_state, outbox)
                return False
        if by_marker:
            batch.commit_with_last()
        self.stage(batch, now)
        if reply:
            seq = int(self.log.staged.seq)
            head = self.replies.ack_head
            ack = pub_ack(head, seq, batch.batch_id, len(batch.subjects), duplicate=False)
            self.replies.acknowledge_with(reply, ack)
        return True

    def stage(self, batch: AtomicBatch, now: i64) -> None:
        """Stage a validated batch: one run of records, all or nothing."""
        staged = self.log.staged
        last_id = self.checks.last_id
        held = self.replies.mark()
        staged.begin_batch()
        try:
            self.stage_members(batch, now)
        except BaseException:
            # An unfinished batch would prevent the stream from ever writing again.
            staged.abort_batch()
            self.checks.rewind(last_id)
            self.replies.rewind(held)
            raise
        staged.end_batch()

    def stage_members(self, batch: AtomicBatch, now: i64) -> None:
        """Stage the messages of a batch that was started."""
        log = self.log
        subjects = batch.subjects
        i: i64 = 0
        count: i64 = len(subjects)
        if batch.plain and self.rules.open:
            while i < count:
                block = batch.blocks[i]
                if i == count - 1:
                    # Announced, so that `end_batch` need not rewrite the record.
                    log.staged.next_is_last()
                log.staged.add_message(subjects[i], len(block), block + batch.bodies[i], now)
                i += 1
            self.checks.stored_without_id()
        else:
            while i < count:
                member = self.checks.judge_member(subjects[i], batch.blocks[i], batch.bodies[i])
                self.ingest.store(member, subjects[i], b"", now)
                i += 1

    # Time --------------------------------------------------------------------------------------

    def take_idle(self, now: i64) -> list[bytes]:
        """Forget the batches that were idle for too long; return their ids."""
        idle: list[bytes] = []
        for batch in list(self.open.values()):
            if self.timer.is_over(batch.touched, now):
                self.forget(batch)
                idle.append(batch.batch_id)
        return idle

    def last_used(self) -> list[int]:
        """Return when each open batch was last used."""
        return [int(batch.touched) for batch in self.open.values()]
