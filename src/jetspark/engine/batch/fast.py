"""Fast ingest (ADR-50): one state machine for both dialects.

Messages are staged as they arrive. Acknowledgements cover only what is durable: they are sent when
a group is. Only answers that depend on nothing but what was received are sent immediately: gaps,
and the flow at the start.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch import answers
from jetspark.engine.batch.dialect import COMMIT, END, PING, Part, parse_headers, parse_reply
from jetspark.engine.batch.fast_state import recorded, resumed
from jetspark.engine.batch.flow import FlowControl
from jetspark.engine.batch.idle_timer import IdleTimer
from jetspark.engine.batch.last_writer import wrote_last
from jetspark.engine.batch.limits import ID_MAX, BatchLimits
from jetspark.engine.batch.members import BY_HEADERS, BY_REPLY, FastBatch
from jetspark.engine.batch.open_batches import OpenBatches
from jetspark.engine.direct.request import needs_newer
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Judgement
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.replies import Standing
from jetspark.engine.stream.rules import Rules
from jetspark.errors.bodies import error_body, fast_header_body
from jetspark.errors.codes import FAST_HEADER_TEXTS, ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.frame import Frame
from jetspark.headers.block import find_value, remove_header, strip_status
from jetspark.headers.names import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    REQUIRED_API_LEVEL,
)
from jetspark.store.format.record import SUBJECT_MAX

# The end of the reply subject of a message within a fast batch, and where its number is.
APPEND_END: Final = b".1.$FI"
_APPEND_SIZE: Final[i64] = 6
_DOT: Final[i64] = 0x2E
_ZERO: Final[i64] = 0x30
_NINE: Final[i64] = 0x39


class FastBatches(OpenBatches):
    """The open fast batches of one stream."""

    def __init__(
        self,
        ingest: Ingest,
        limits: BatchLimits,
        timer: IdleTimer,
        advise: Callable[[bytes, str, int, Outbox], None],
    ) -> None:
        super().__init__(ingest, limits, timer, advise)
        self.flow_control: FlowControl = FlowControl()
        self.open: dict[bytes, FastBatch] = {}
        # By the prefix of their reply subjects; `appending` while there are any.
        self.heads: dict[bytes, FastBatch] = {}
        self.appending: bool = False
        # Those that continue in the open group.
        self.advanced: list[FastBatch] = []
        # Those that ended while the disk could not store that: recorded with the next group.
        self.ended: list[bytes] = []
        if self.rules.allow_batched:
            self.resume()

    def configure(self, rules: Rules) -> None:
        """Apply a configuration; disabling fast ingest drops the open batches."""
        self.rules = rules
        if self.open and not rules.allow_batched:
            for batch in list(self.open.values()):
                self.close(batch)

    # Messages ----------------------------------------------------------------------------------

    def append(self, subject: bytes, frame: Frame, now: i64) -> bool:
        """Append the next message of a fast batch, if it needs no special handling."""
        data = frame.data
        rs = frame.rs
        re = frame.re
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
        batch = self.heads.get(data[rs : i + 1])
        if batch is None or number != batch.last + 1 or batch.resumed:
            return False
        ps = frame.ps
        if ps == frame.hs:
            tail = data[ps : frame.pe + 2]
            self.log.staged.add_message(subject, 0, tail, now, frame.body)
            self.checks.stored_without_id()
        elif not self.append_checked(subject, data[frame.hs : ps], frame.ending(), now):
            return False
        batch.appended(number, self.log.staged.seq, now)
        self.advance(batch)
        return True

    def append_checked(self, subject: bytes, block: bytes, body: bytes, now: i64) -> bool:
        """Stage a message of a fast batch with headers; False: it needs the full checks."""
        judged = self.checks.judge(subject, strip_status(block), body, now, True)
        if (
            len(judged.error) > 0
            or judged.duplicate_of > 0
            or len(judged.headers.expected_last_id) > 0
            or len(judged.headers.api_level) > 0
        ):
            return False
        self.ingest.store(judged, subject, b"", now)
        return True

    def take_by_reply(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Handle a message whose reply subject ends with ``.$FI``; return whether work is due."""
        rules = self.rules
        answer_to = b"" if rules.no_ack else reply
        part: Part | None = None
        if rules.sealed:
            error = error_body(ErrCode.STREAM_SEALED)
        else:
            error = self.checks.size_problem(subject, block, body)
        if not error:
            part = parse_reply(reply)
            if not rules.allow_batched:
                error = error_body(ErrCode.FAST_DISABLED)
            elif part is None:
                error = error_body(ErrCode.FAST_PATTERN_INVALID)
            elif len(part.batch_id) > ID_MAX:
                error = error_body(ErrCode.FAST_ID_INVALID)
        if error or part is None:
            self.replies.refuse(answer_to, error, False, outbox)
            return False
        message = FastMessage(self, part, subject, answer_to, block, body, int(now), outbox)
        return message.take() or self.timer.moved

    def take_by_headers(
        self, judged: Judgement, subject: bytes, reply: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Handle a message with ``Nats-Fast-Batch-Id``; return whether there is work."""
        headers = judged.headers
        batch_id = headers.fast_batch_id
        error = b""
        part: Part | bytes = b""
        if not self.rules.allow_batched:
            error = fast_header_body(ErrCode.ATOMIC_DISABLED)
        elif len(batch_id) > ID_MAX:
            error = fast_header_body(ErrCode.ATOMIC_ID_INVALID)
        else:
            part = parse_headers(headers, reply)
            if isinstance(part, bytes):
                error = part
        if error or isinstance(part, bytes):
            batch = self.open.get(batch_id)
            if batch is None or batch.dialect != BY_HEADERS:
                self.replies.refuse(reply, error, False, outbox)
                return False
            return self.abandon(batch, reply, error, AbandonReason.INCOMPLETE, int(now), outbox)
        message = FastMessage(
            self, part, subject, reply, judged.block, judged.body, int(now), outbox
        )
        return message.take() or self.timer.moved

    def abandon(
        self,
        batch: FastBatch,
        reply: bytes,
        error: bytes,
        reason: AbandonReason,
        now: int,
        outbox: Outbox,
    ) -> bool:
        """End a batch with an error that also reports what of it is stored."""
        staged = self.close(batch)
        if batch.dialect == BY_REPLY:
            self.replies.refuse(reply, error, False, outbox)
        elif reply:
            body = answers.ended(self.replies.json_name, batch, error)
            self.replies.hold_newest((reply, reply, b"", b"", body), outbox)
        self.advise(batch.batch_id, reason, now, outbox)
        return staged

    # Lifecycle of a batch ----------------------------------------------------------------------

    def begin(self, part: Part, now: int) -> FastBatch:
        """Open the batch that a message describes."""
        batch = FastBatch(
            part.batch_id,
            part.dialect,
            part.gap_ok,
            part.head,
            part.flow,
            part.flow_bytes,
            now,
        )
        self.watch(batch)
        return batch

    def watch(self, batch: FastBatch) -> None:
        """Add an open fast batch."""
        self.open[batch.batch_id] = batch
        self.limits.fast_opened(int(batch.dialect))
        if batch.dialect == BY_REPLY:
            self.heads[batch.head] = batch
            self.appending = True
        self.timer.opened(batch.touched)
        self.flow_control.begin(batch, len(self.open))

    def move(self, batch: FastBatch, head: bytes) -> None:
        """Change the reply subject of a batch's publisher."""
        if self.heads.pop(batch.head, None) is not None:
            self.heads[head] = batch
        batch.move(head)

    def advance(self, batch: FastBatch) -> None:
        """Note that some of a batch is in the open group."""
        if not batch.listed:
            batch.enlist()
            self.advanced.append(batch)

    def release(self, batch: FastBatch) -> None:
        """Remove a fast batch that has ended."""
        if self.open.pop(batch.batch_id, None) is None:
            return
        batch.close()
        self.limits.fast_closed(int(batch.dialect))
        self.heads.pop(batch.head, None)
        self.appending = len(self.heads) > 0

    def release_all(self) -> None:
        """Remove all batches: the log was deleted."""
        for batch in list(self.open.values()):
            self.release(batch)

    def close(self, batch: FastBatch) -> bool:
        """End a batch, in the log too if it is recorded; return whether that was staged."""
        self.release(batch)
        if not batch.take_recorded():
            return False
        if self.log.access.read_only:
            self.ended.append(batch.batch_id)
            return False
        self.log.staged.set_fast_batch(batch.batch_id, b"")
        return True

    def resume(self) -> None:
        """Resume the batches that were open when the log was last written."""
        for batch_id, document in self.log.engine_state.fast_batches.items():
            batch = resumed(batch_id, document, self.log)
            self.watch(batch)
            self.timer.resumed(batch.touched)

    def begin_time(self, now: i64) -> None:
        """Set when the batches that were open at the start were last used."""
        for batch in self.open.values():
            # Some time before now, whatever the clock says.
            touched = self.log.timeline.engine_time(batch.touched)
            batch.touch(max(min(touched, now), i64(0)))
            self.timer.resumed(batch.touched)

    # Groups ------------------------------------------------------------------------------------

    def note_group(self) -> None:
        """Record the progress of its batches in the open group, which is about to be taken."""
        for batch_id in self.ended:
            self.log.staged.set_fast_batch(batch_id, b"")
        self.ended.clear()
        for batch in self.advanced:
            batch.group_taken()
            self.replies.hold_standing(
                (batch, int(batch.last), int(batch.last_bytes), int(batch.stored_seq))
            )
            if not batch.closed:
                self.log.staged.set_fast_batch(batch.batch_id, recorded(batch, self.log))
        self.advanced.clear()

    def committed(self, standings: list[Standing], latency_ns: i64, outbox: Outbox) -> None:
        """Acknowledge the batches of a durable group as their flow requires."""
        if latency_ns >= 0:
            self.flow_control.measured(int(latency_ns), int(self.log.staged.open_size()))
        for batch, last, size, seq in standings:
            batch.landed(last, size, seq)
            if not batch.closed:
                self.check_flow(batch, batch.reply_subject(), outbox)

    def check_flow(self, batch: FastBatch, reply: bytes, outbox: Outbox) -> bool:
        """Acknowledge what is durable if the flow requires it; return whether it did."""
        if self.rules.no_ack:
            return False
        if batch.acknowledge():
            self.flow_control.adapt(batch, len(self.open))
            outbox.reply(reply, answers.flow_ack(batch, int(batch.acked)))
            return True
        if batch.greet():
            outbox.reply(reply, answers.flow_ack(batch, 1))
            return True
        return False

    def failed(self, error: bytes, outbox: Outbox) -> None:
        """Undo everything staged: batches fall back to what is durable, and are notified."""
        self.advanced.clear()
        for batch in list(self.open.values()):
            if not batch.listed and not batch.in_flight:
                continue
            reply = b"" if self.rules.no_ack else batch.reply_subject()
            lost = int(batch.last)
            batch.fall_back()
            by_reply = batch.dialect == BY_REPLY
            if by_reply:
                outbox.reply(reply, answers.refused(lost, error))
            if by_reply and batch.gap_ok:
                continue
            self.release(batch)
            if by_reply:
                outbox.reply(reply, self.final_ack(batch))
            else:
                outbox.reply(reply, answers.ended(self.replies.json_name, batch, error))
        # Ends that are not in the log: the disk cannot store them now, the next group has them.
        self.ended = [name for name in self.log.engine_state.fast_batches if name not in self.open]

    def final_ack(self, batch: FastBatch) -> bytes:
        """Return the acknowledgement of a whole batch, as far as it is stored."""
        head = self.replies.ack_head
        seq = int(batch.stored_seq)
        return answers.pub_ack(head, seq, batch.batch_id, int(batch.last), duplicate=False)

    # Time --------------------------------------------------------------------------------------

    def take_idle(self, now: i64) -> list[FastBatch]:
        """Return the batches that were idle for too long."""
        return [b for b in self.open.values() if self.timer.is_over(b.touched, now)]

    def last_used(self) -> list[int]:
        """Return when each open batch was last used."""
        return [int(batch.touched) for batch in self.open.values()]


class FastMessage:
    """One message in the state machine."""

    def __init__(
        self,
        batches: FastBatches,
        part: Part,
        subject: bytes,
        reply: bytes,
        block: bytes,
        body: bytes,
        now: int,
        outbox: Outbox,
    ) -> None:
        self.batches: FastBatches = batches
        self.part: Part = part
        self.subject: bytes = subject
        self.reply: bytes = reply
        self.block: bytes = block
        self.body: bytes = body
        self.now: int = now
        self.outbox: Outbox = outbox

    def take(self) -> bool:
        """Handle the message; return whether something was staged."""
        part = self.part
        batches = self.batches
        batch = batches.open.get(part.batch_id)
        if batch is not None and batch.dialect != part.dialect:
            return self.refuse(self.error(ErrCode.FAST_ID_UNKNOWN), False)
        if batch is None:
            if part.seq != 1 or part.op in {END, PING}:
                # The batch may just have ended: this must not overtake its error or final ack,
                # because a client acts on the first answer it receives.
                return self.refuse(self.error(ErrCode.FAST_ID_UNKNOWN), True)
            if self.too_many():
                return self.refuse(error_body(ErrCode.FAST_TOO_MANY), False)
            batch = batches.begin(part, self.now)
        if find_value(self.block, REQUIRED_API_LEVEL):
            if needs_newer(self.block):
                return self.abandon(
                    batch, error_body(ErrCode.REQUIRED_API_LEVEL), AbandonReason.UNSUPPORTED
                )
            self.block = remove_header(self.block, REQUIRED_API_LEVEL)
        batch.touch(self.now)
        if part.head != batch.head:
            # Answers go to the reply subject of the newest message.
            batches.move(batch, part.head)
        if batch.take_resumed():
            if not batch.gap_ok:
                # ADR-50, leader change: what is stored is kept, the rest is up to the client.
                return self.finish(batch)
            if part.op != PING and part.seq == batch.last + 1:
                self.send(answers.flow_ack(batch, int(batch.acked)))
        if part.op == PING:
            return self.ping(batch)
        if part.seq != batch.last + 1 and not self.bridge(batch):
            return self.finish(batch)
        if part.op == END:
            return self.finish(batch)
        return self.store(batch)

    # Start -------------------------------------------------------------------------------------

    def too_many(self) -> bool:
        """Return whether the stream or the server has the maximum number of open batches."""
        dialect = self.part.dialect
        limits = self.batches.limits
        of_dialect = 0
        for batch in self.batches.open.values():
            of_dialect += int(batch.dialect == dialect)
        return (
            of_dialect >= limits.fast_per_stream[dialect]
            or limits.fast_open[dialect] >= limits.fast_per_server[dialect]
        )

    # Messages ----------------------------------------------------------------------------------

    def ping(self, batch: FastBatch) -> bool:
        """Answer with the last acknowledgement, after a report of what did not arrive."""
        seq = self.part.seq
        if seq > batch.last:
            self.send(answers.gap(batch, seq + 1))
            if not batch.gap_ok:
                return self.finish(batch)
            batch.passed(seq)
            if self.batches.check_flow(batch, self.reply, self.outbox):
                return False
        self.send(answers.flow_ack(batch, int(batch.acked)))
        return False

    def bridge(self, batch: FastBatch) -> bool:
        """Report missing or duplicate messages; return whether the batch continues."""
        seq = self.part.seq
        if batch.dialect == BY_REPLY or (batch.gap_ok and seq > batch.last):
            self.send(answers.gap(batch, seq))
        if batch.gap_ok and seq > batch.last:
            batch.bridge(seq - 1)
            return True
        reason = AbandonReason.INCOMPLETE
        self.batches.advise(batch.batch_id, reason, self.now, self.outbox)
        return False

    def store(self, batch: FastBatch) -> bool:
        """Validate a message and stage it."""
        part = self.part
        batches = self.batches
        if part.seq == 1 and part.op != COMMIT and batch.dialect == BY_REPLY:
            self.send(answers.flow_ack(batch, 0))
        try:
            error = self.batch_rule(batch)
        except ReadFailed as problem:
            error = error_body(ErrCode.STORE_FAILED, err=problem.public)
        if error:
            return self.refuse_one(batch, error, False)
        judged = batches.checks.judge(self.subject, self.block, self.body, self.now, True)
        if judged.error:
            return self.refuse_one(batch, judged.error, judged.on_state)
        if judged.duplicate_of > 0:
            if batch.dialect == BY_REPLY:
                return self.skip(batch, int(judged.duplicate_of))
            return self.refuse_one(batch, fast_header_body(ErrCode.ATOMIC_DUPLICATE), True)
        batches.ingest.store(judged, self.subject, b"", self.now)
        batch.stored(part.seq, batches.log.staged.seq, len(self.block) + len(self.body) - 2)
        batches.advance(batch)
        if part.op == COMMIT:
            self.finish(batch)
        return True

    def batch_rule(self, batch: FastBatch) -> bytes:
        """Return why a message is not allowed in a batch."""
        block = self.block
        if not block:
            return b""
        if find_value(block, EXPECTED_LAST_MSG_ID):
            return self.error(ErrCode.ATOMIC_UNSUPPORTED_HEADER)
        if batch.dialect == BY_REPLY or batch.last == 0:
            return b""
        if find_value(block, EXPECTED_LAST_SEQUENCE):
            return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        if find_value(block, EXPECTED_LAST_SUBJECT_SEQUENCE):
            of = find_value(block, EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT) or self.subject
            if wrote_last(self.batches.checks, batch, of):
                return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        return b""

    def skip(self, batch: FastBatch, first_copy: int) -> bool:
        """Skip a duplicate: not stored again, but counted (released dialect)."""
        part = self.part
        batch.passed(part.seq)
        if part.op == COMMIT:
            if part.seq == 1 and not batch.gap_ok:
                self.batches.close(batch)
                head = self.batches.replies.ack_head
                self.hold(answers.pub_ack(head, first_copy, batch.batch_id, 1, duplicate=True))
                return False
            return self.finish(batch)
        self.batches.check_flow(batch, self.reply, self.outbox)
        return False

    def refuse_one(self, batch: FastBatch, error: bytes, on_state: bool) -> bool:
        """Refuse an invalid message: the batch continues only if gaps are allowed."""
        part = self.part
        if part.seq == 1 and (not batch.gap_ok or batch.dialect == BY_HEADERS):
            self.batches.close(batch)
            return self.refuse(error, on_state)
        if batch.dialect == BY_HEADERS:
            # ADR-50: any message that fails its checks rejects the batch.
            return self.abandon(batch, error, AbandonReason.INCOMPLETE)
        body = answers.refused(part.seq, error)
        if on_state:
            self.hold(body)
        else:
            self.send(body)
        if batch.gap_ok and part.op != COMMIT:
            batch.passed(part.seq)
            return False
        return self.finish(batch)

    # End ---------------------------------------------------------------------------------------

    def finish(self, batch: FastBatch) -> bool:
        """End a batch: its final ack reports what is stored, once that is durable."""
        staged = self.batches.close(batch)
        self.hold(self.batches.final_ack(batch))
        return staged

    def abandon(self, batch: FastBatch, error: bytes, reason: AbandonReason) -> bool:
        """End a batch with an error."""
        return self.batches.abandon(batch, self.reply, error, reason, self.now, self.outbox)

    # Answers -----------------------------------------------------------------------------------

    def error(self, code: int) -> bytes:
        """Return an error body with the texts of the dialect."""
        if self.part.dialect == BY_HEADERS and code == ErrCode.FAST_ID_UNKNOWN:
            code = ErrCode.ATOMIC_INCOMPLETE
        fields: dict[str, object] = {}
        if code == ErrCode.ATOMIC_UNSUPPORTED_HEADER:
            fields["header"] = EXPECTED_LAST_MSG_ID.decode()
        if self.part.dialect == BY_HEADERS and code in FAST_HEADER_TEXTS:
            return fast_header_body(code, **fields)
        return error_body(code, **fields)

    def refuse(self, error: bytes, on_state: bool) -> bool:
        """Answer with an error; nothing was staged."""
        self.batches.replies.refuse(self.reply, error, on_state, self.outbox)
        return False

    def send(self, body: bytes) -> None:
        """Answer immediately."""
        self.outbox.reply(self.reply, body)

    def hold(self, body: bytes) -> None:
        """Answer once everything staged is durable."""
        if self.reply:
            entry = (self.reply, self.reply, b"", b"", body)
            self.batches.replies.hold_newest(entry, self.outbox)
