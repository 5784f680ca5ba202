"""Fast ingest (ADR-50): one state machine for both dialects.

Messages are staged as they come. Acknowledgements cover only what is durable: they are made when
a group is (``groups.py``). What is told at once stands on nothing but what was received: gaps,
and the flow at the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch import words
from jetspark.engine.batch.dialect import (
    COMMIT,
    END,
    PING,
    Part,
    parse_headers,
    parse_reply,
)
from jetspark.engine.batch.flow import FlowControl
from jetspark.engine.batch.groups import check_flow, close, drop_all, move, resume, watch
from jetspark.engine.batch.limits import ID_MAX
from jetspark.engine.batch.members import BY_HEADERS, BY_REPLY, FastBatch
from jetspark.engine.batch.written import wrote_last
from jetspark.engine.direct.request import needs_newer
from jetspark.engine.outbox import Outbox
from jetspark.errors.bodies import error_body, fast_header_body
from jetspark.errors.codes import FAST_HEADER_TEXTS, ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.headers.block import find_value, remove_header
from jetspark.headers.names import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    REQUIRED_API_LEVEL,
)

if TYPE_CHECKING:
    from jetspark.engine.batch.intake import BatchIntake

__all__ = ["FlowControl", "drop_all", "resume", "take_by_headers", "take_by_reply"]


def take_by_reply(
    stream: BatchIntake,
    subject: bytes,
    reply: bytes,
    block: bytes,
    body: bytes,
    now: int,
    outbox: Outbox,
) -> bool:
    """Take a message whose reply subject ends with ``.$FI``; say whether there is work to do."""
    rules = stream.rules
    checks = stream.checks
    answer_to = b"" if rules.no_ack else reply
    checks.block, checks.body = block, body
    part: Part | None = None
    if rules.sealed:
        error = error_body(ErrCode.STREAM_SEALED)
    elif not (error := checks.judge_sizes(subject)):
        part = parse_reply(reply)
        if not rules.allow_batched:
            error = error_body(ErrCode.FAST_DISABLED)
        elif part is None:
            error = error_body(ErrCode.FAST_PATTERN_INVALID)
        elif len(part.batch_id) > ID_MAX:
            error = error_body(ErrCode.FAST_ID_INVALID)
    if error or part is None:
        outbox.reply(answer_to, stream.failure(error))
        return False
    turn = Turn(stream, part, subject, answer_to, block, body, now, outbox)
    return turn.take() or stream.deadline_moved


def take_by_headers(
    stream: BatchIntake,
    subject: bytes,
    reply: bytes,
    block: bytes,
    body: bytes,
    now: int,
    outbox: Outbox,
) -> bool:
    """Take a message with ``Nats-Fast-Batch-Id``, whose headers the checks have read."""
    headers = stream.checks.headers
    batch_id = headers.fast_batch_id
    error = b""
    part: Part | bytes = b""
    if not stream.rules.allow_batched:
        error = fast_header_body(ErrCode.ATOMIC_DISABLED)
    elif len(batch_id) > ID_MAX:
        error = fast_header_body(ErrCode.ATOMIC_ID_INVALID)
    else:
        part = parse_headers(headers, reply)
        if isinstance(part, bytes):
            error = part
    if error or isinstance(part, bytes):
        batch = stream.fast.get(batch_id)
        if batch is None or batch.dialect != BY_HEADERS:
            outbox.reply(reply, stream.failure(error))
            return False
        return _abandon(stream, batch, reply, error, AbandonReason.INCOMPLETE, now, outbox)
    turn = Turn(stream, part, subject, reply, block, body, now, outbox)
    return turn.take() or stream.deadline_moved


def _abandon(
    stream: BatchIntake,
    batch: FastBatch,
    reply: bytes,
    error: bytes,
    reason: AbandonReason,
    now: int,
    outbox: Outbox,
) -> bool:
    """End a batch with an error that also says what of it is stored."""
    staged = close(stream, batch)
    if reply:
        if batch.dialect == BY_HEADERS:
            body = words.ended(stream, batch, error)
            stream.hold_newest((reply, reply, b"", b"", body), outbox)
        else:
            outbox.now.append((reply, reply, b"", b"", stream.failure(error)))
    stream.advise(batch.batch_id, reason, now, outbox)
    return staged


@dataclass(slots=True)
class Turn:
    """One message on its way through the state machine."""

    stream: BatchIntake
    part: Part
    subject: bytes
    reply: bytes
    block: bytes
    body: bytes
    now: int
    outbox: Outbox

    def take(self) -> bool:
        """Do what the message asks; say whether something was staged."""
        part = self.part
        batch = self.stream.fast.get(part.batch_id)
        if batch is not None and batch.dialect != part.dialect:
            return self._refuse(self._error(ErrCode.FAST_ID_UNKNOWN))
        if batch is None:
            error = self._opening_problem()
            if error:
                return self._refuse(error)
            batch = self._open()
        if find_value(self.block, REQUIRED_API_LEVEL):
            if needs_newer(self.block):
                error = error_body(ErrCode.REQUIRED_API_LEVEL)
                reason = AbandonReason.UNSUPPORTED
                return _abandon(
                    self.stream, batch, self.reply, error, reason, self.now, self.outbox
                )
            self.block = remove_header(self.block, REQUIRED_API_LEVEL)
        batch.touched = self.now
        if part.head != batch.head:
            # Answers go where the newest message wants them.
            move(self.stream, batch, part.head)
        if batch.resumed:
            batch.resumed = False
            if not batch.gap_ok:
                # ADR-50, leader change: what is stored stays, the rest is the client's affair.
                return self._finish(batch)
            if part.op != PING and part.seq == batch.last + 1:
                self._send(words.flow_ack(batch, int(batch.acked)))
        if part.op == PING:
            return self._ping(batch)
        if part.seq != batch.last + 1 and not self._bridge(batch):
            return self._finish(batch)
        if part.op == END:
            return self._finish(batch)
        return self._store(batch)

    # Beginning ---------------------------------------------------------------------------------

    def _opening_problem(self) -> bytes:
        dialect = self.part.dialect
        limits = self.stream.batch_limits
        if self.part.seq != 1 or self.part.op in {END, PING}:
            return self._error(ErrCode.FAST_ID_UNKNOWN)
        of_dialect = sum(b.dialect == dialect for b in self.stream.fast.values())
        if (
            of_dialect >= limits.fast_per_stream[dialect]
            or limits.fast_open[dialect] >= limits.fast_per_server[dialect]
        ):
            return error_body(ErrCode.FAST_TOO_MANY)
        return b""

    def _open(self) -> FastBatch:
        part = self.part
        stream = self.stream
        batch = FastBatch(part.batch_id, part.dialect, part.gap_ok, self.now)
        batch.head = part.head
        batch.asked = part.flow
        batch.asked_bytes = part.flow_bytes
        watch(stream, batch)
        stream.flow_control.begin(batch, len(stream.fast))
        return batch

    # The middle --------------------------------------------------------------------------------

    def _ping(self, batch: FastBatch) -> bool:
        """Answer with the last acknowledgement, after a report of what did not arrive."""
        seq = self.part.seq
        if seq > batch.last:
            self._send(words.gap(batch, seq + 1))
            if not batch.gap_ok:
                return self._finish(batch)
            batch.last = seq
            self._settle(batch)
            if check_flow(self.stream, batch, self.reply, self.outbox):
                return False
        self._send(words.flow_ack(batch, int(batch.acked)))
        return False

    def _bridge(self, batch: FastBatch) -> bool:
        """Messages are missing, or came twice: report it; say whether the batch goes on."""
        seq = self.part.seq
        if batch.dialect == BY_REPLY or (batch.gap_ok and seq > batch.last):
            self._send(words.gap(batch, seq))
        if batch.gap_ok and seq > batch.last:
            batch.last = seq - 1
            return True
        self.stream.advise(batch.batch_id, AbandonReason.INCOMPLETE, self.now, self.outbox)
        return False

    def _store(self, batch: FastBatch) -> bool:
        """Judge a message and stage it."""
        part = self.part
        stream = self.stream
        checks = stream.checks
        if part.seq == 1 and part.op != COMMIT and batch.dialect == BY_REPLY:
            self._send(words.flow_ack(batch, 0))
        checks.on_state = False
        checks.duplicate_of = 0
        try:
            error = self._batch_rule(batch)
        except ReadFailed as problem:
            error = error_body(ErrCode.STORE_FAILED, err=problem.public)
        if not error:
            checks.in_batch = True
            error = checks.judge_or_refuse(self.subject, self.block, self.body, self.now)
            checks.in_batch = False
        if not error and checks.duplicate_of > 0:
            if batch.dialect == BY_REPLY:
                return self._skip(batch, int(checks.duplicate_of))
            checks.on_state = True
            error = fast_header_body(ErrCode.ATOMIC_DUPLICATE)
        if error:
            return self._refuse_one(batch, error)
        stream.store(self.subject, b"", self.now)
        batch.last = part.seq
        batch.last_bytes += len(self.block) + len(self.body) - 2
        batch.stored_seq = stream.log.staged.seq
        if batch.first_seq == 0:
            batch.first_seq = batch.stored_seq
        if not batch.listed:
            batch.listed = True
            stream.advanced.append(batch)
        if part.op == COMMIT:
            self._finish(batch)
        return True

    def _batch_rule(self, batch: FastBatch) -> bytes:
        """What a message may not ask for because it is in a batch."""
        block = self.block
        if not block:
            return b""
        if find_value(block, EXPECTED_LAST_MSG_ID):
            return self._error(ErrCode.ATOMIC_UNSUPPORTED_HEADER)
        if batch.dialect == BY_REPLY or batch.last == 0:
            return b""
        if find_value(block, EXPECTED_LAST_SEQUENCE):
            return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        if find_value(block, EXPECTED_LAST_SUBJECT_SEQUENCE):
            of = find_value(block, EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT) or self.subject
            if wrote_last(self.stream.log, batch, of):
                return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        return b""

    def _skip(self, batch: FastBatch, first_copy: int) -> bool:
        """Released dialect: a duplicate is not stored again, but it counts."""
        part = self.part
        batch.last = part.seq
        if part.op == COMMIT:
            if part.seq == 1 and not batch.gap_ok:
                close(self.stream, batch)
                body = words.pub_ack(self.stream, first_copy, batch.batch_id, 1, duplicate=True)
                self._hold(body)
                return False
            return self._finish(batch)
        self._settle(batch)
        check_flow(self.stream, batch, self.reply, self.outbox)
        return False

    def _refuse_one(self, batch: FastBatch, error: bytes) -> bool:
        """A message failed its checks: the batch goes on only where gaps are allowed."""
        part = self.part
        on_state = self.stream.checks.on_state
        if part.seq == 1 and (not batch.gap_ok or batch.dialect == BY_HEADERS):
            close(self.stream, batch)
            return self._refuse(error, waits=on_state)
        if batch.dialect == BY_HEADERS:
            # ADR-50: any message that fails its checks rejects the batch.
            reason = AbandonReason.INCOMPLETE
            return _abandon(self.stream, batch, self.reply, error, reason, self.now, self.outbox)
        body = words.refused(part.seq, error)
        if on_state:
            self._hold(body)
        else:
            self._send(body)
        if batch.gap_ok and part.op != COMMIT:
            batch.last = part.seq
            self._settle(batch)
            return False
        return self._finish(batch)

    # The end -----------------------------------------------------------------------------------

    def _finish(self, batch: FastBatch) -> bool:
        """End a batch: its final ack says what is stored, once it is durable."""
        staged = close(self.stream, batch)
        self._hold(
            words.pub_ack(self.stream, int(batch.stored_seq), batch.batch_id, int(batch.last))
        )
        return staged

    # Answers -----------------------------------------------------------------------------------

    def _settle(self, batch: FastBatch) -> None:
        """A sequence was passed without a message; when nothing is on its way, it is settled."""
        if not batch.listed and not batch.flying:
            batch.durable = batch.last

    def _error(self, code: int) -> bytes:
        """The body of an error in the words of the dialect."""
        if self.part.dialect == BY_HEADERS and code == ErrCode.FAST_ID_UNKNOWN:
            code = ErrCode.ATOMIC_INCOMPLETE
        fields = {}
        if code == ErrCode.ATOMIC_UNSUPPORTED_HEADER:
            fields["header"] = EXPECTED_LAST_MSG_ID.decode()
        if self.part.dialect == BY_HEADERS and code in FAST_HEADER_TEXTS:
            return fast_header_body(code, **fields)
        return error_body(code, **fields)

    def _refuse(self, error: bytes, *, waits: bool = False) -> bool:
        body = self.stream.failure(error)
        if waits:
            self._hold(body)
        else:
            self._send(body)
        return False

    def _send(self, body: bytes) -> None:
        self.outbox.reply(self.reply, body)

    def _hold(self, body: bytes) -> None:
        if self.reply:
            self.stream.hold_newest((self.reply, self.reply, b"", b"", body), self.outbox)
