"""Validation of an atomic batch: every message, against the state before the batch.

ADR-50, server behaviour: expectations are checked at the commit, against what the stream contained
before the batch; earlier messages of the batch only decide whether a check is possible at all. The
order of the checks is the released server's (wire.md, Batches).
"""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.engine.batch.members import AtomicBatch
from jetspark.engine.stream.checks import ALLOWED, Checks, Judgement
from jetspark.engine.stream.counters import CounterBroken, parse_integer
from jetspark.engine.stream.expectations import expected_sequence, staged_last, staged_last_of
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.rare_headers import increment_problem, rollup_problem
from jetspark.engine.stream.room import BYTES, MESSAGES, PER_SUBJECT
from jetspark.engine.stream.schedules import schedule_problem
from jetspark.engine.stream.ttl import INVALID, NO_TTL, parse_ttl
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.headers.names import EXPECTED_LAST_MSG_ID
from jetspark.store.format.record import OVERHEAD


@dataclass(slots=True)
class BatchVerdict:
    """Why a batch is refused; ``on_state``: because of state that may not be durable yet."""

    error: bytes = ALLOWED
    on_state: bool = False


def judge_batch(
    checks: Checks, batch: AtomicBatch, lasts: dict[bytes, int], now: int
) -> BatchVerdict:
    """Validate all messages in order; the first failure is the verdict.

    ``lasts`` are the last sequences of the patterns that the batch expects something of.
    """
    judge = _BatchJudge(checks, lasts)
    for subject, block, body in zip(batch.subjects, batch.blocks, batch.bodies, strict=True):
        try:
            error = judge.problem(checks.read(block, body), subject, now)
        except ReadFailed as problem:
            # The batch cannot be validated without a message that the disk fails to read.
            error = error_body(ErrCode.STORE_FAILED, err=problem.public)
        if error:
            return BatchVerdict(error, judge.on_state)
    quota = checks.quota
    if quota is not None:
        # There was room for each message alone; there must be room for all of them together.
        return BatchVerdict(quota.problem(batch.subjects[0], 0, judge.size), on_state=True)
    return BatchVerdict()


class _BatchJudge:
    """Validates one message after the other, including the effects of those before it."""

    def __init__(self, checks: Checks, lasts: dict[bytes, int]) -> None:
        self._checks = checks
        self._lasts = lasts
        self._rules = checks.rules
        # The number of messages per subject, the ids, and the values of counters so far.
        self._subjects: dict[bytes, int] = {}
        self._ids: set[bytes] = set()
        self._totals: dict[bytes, int] = {}
        self._count = 0
        self.size = 0
        # The refusal depends on state that may not be durable yet.
        self.on_state = False

    def problem(self, judged: Judgement, subject: bytes, now: int) -> bytes:
        """Return why the next message is refused; empty if it is not."""
        headers = judged.headers
        error = self._checks.size_problem(subject, judged.block, judged.body)
        if error:
            return error
        if headers.expected_last_id:
            name = EXPECTED_LAST_MSG_ID.decode()
            return error_body(ErrCode.ATOMIC_UNSUPPORTED_HEADER, header=name)
        error = (
            self._alone(judged, now)
            or self._counter(judged, subject)
            or self._sequences(headers, subject)
            or self._schedule(headers, subject, now)
            or self._rollup(headers, subject)
        )
        if error:
            return error
        self._subjects[subject] = self._subjects.get(subject, 0) + 1
        headers_length = len(judged.block)
        total = int(OVERHEAD) + len(subject) + headers_length + len(judged.body) - 2
        self.size += int(self._checks.log.codec.size_of(total, headers_length))
        self._count += 1
        return self._room(headers, subject)

    def _alone(self, judged: Judgement, now: int) -> bytes:
        """Check what concerns one message alone: counter header, stream, TTL, id, source."""
        headers = judged.headers
        rules = self._rules
        checks = self._checks
        if headers.incr:
            error = increment_problem(headers, rules, len(judged.body) - 2)
            if error:
                return error
        if headers.expected_stream and headers.expected_stream != rules.name:
            return error_body(ErrCode.WRONG_STREAM)
        if headers.ttl:
            ttl = parse_ttl(headers.ttl)
            if ttl != NO_TTL and not rules.allow_ttl:
                return error_body(ErrCode.TTL_DISABLED)
            if ttl == INVALID:
                return error_body(ErrCode.TTL_INVALID)
        if headers.msg_id:
            if headers.msg_id in self._ids:
                return error_body(ErrCode.ATOMIC_DUPLICATE)
            if checks.find_duplicate(headers.msg_id, now):
                self.on_state = True
                return error_body(ErrCode.ATOMIC_DUPLICATE)
            self._ids.add(headers.msg_id)
            if len(checks.window) + len(self._ids) > checks.window.max_ids:
                return error_body(ErrCode.INSUFFICIENT_RESOURCES)
        if headers.stream_source:
            return error_body(ErrCode.SOURCE_HEADER_NOT_ALLOWED)
        return ALLOWED

    def _counter(self, judged: Judgement, subject: bytes) -> bytes:
        """Check counters: whether the message can become the new value of its subject."""
        if not self._rules.allow_counter:
            return ALLOWED
        headers = judged.headers
        if not headers.incr:
            return error_body(ErrCode.COUNTER_INCREMENT_MISSING)
        total = self._totals.get(subject)
        if total is None:
            try:
                total = self._checks.counters.current(subject).number
            except CounterBroken:
                return error_body(ErrCode.COUNTER_BROKEN)
        total += parse_integer(headers.incr)
        self._totals[subject] = total
        judged.set_total(total)
        return self._checks.size_problem(subject, judged.block, judged.body)

    def _sequences(self, headers: PublishHeaders, subject: bytes) -> bytes:
        """Check expected sequences: against the stream before the batch, or not at all."""
        log = self._checks.log
        if headers.expected_last_seq:
            # Released servers answer with the last sequence including the batch so far.
            running = int(staged_last(log)) + self._count
            if expected_sequence(headers.expected_last_seq) != running:
                self.on_state = True
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=running)
            if self._count:
                return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        if headers.expected_subject_seq:
            of = headers.expected_subject or subject
            if of in self._subjects:
                return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
            last = self._lasts.get(of)
            actual = int(staged_last_of(log, of)) if last is None else last
            if expected_sequence(headers.expected_subject_seq) != actual:
                self.on_state = True
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=actual)
        elif headers.expected_subject:
            return error_body(ErrCode.LAST_SUBJECT_SEQUENCE_MISSING)
        return ALLOWED

    def _schedule(self, headers: PublishHeaders, subject: bytes, now: int) -> bytes:
        if headers.scheduling or headers.scheduler:
            problem = schedule_problem(headers, self._rules, self._checks.log, subject, now)
            if problem:
                return error_body(problem)
            if headers.schedule and not headers.rollup:
                headers.set_rollup(b"sub")
        return ALLOWED

    def _rollup(self, headers: PublishHeaders, subject: bytes) -> bytes:
        """Check rollups: of a subject only as its first message, of all only as the first."""
        if not headers.rollup:
            return ALLOWED
        error = rollup_problem(headers, self._rules)
        if error:
            return error
        if headers.rollup.lower() == b"all":
            if self._count:
                return error_body(ErrCode.ROLLUP_FAILED, err="batch rollup all invalid")
        elif subject in self._subjects:
            return error_body(ErrCode.ROLLUP_FAILED, err="batch rollup sub invalid")
        return ALLOWED

    def _room(self, headers: PublishHeaders, subject: bytes) -> bytes:
        """Check the limits of a stream with discard new, counting the whole batch so far."""
        rules = self._rules
        if not rules.discard_new:
            return ALLOWED
        room = self._checks.room
        log = self._checks.log
        room.follow()
        messages = int(log.staged.messages - room.open.replaced - room.in_flight.replaced)
        problem = ""
        if 0 < rules.max_msgs < messages + self._count:
            problem = MESSAGES
        elif 0 < rules.max_bytes < log.staged.size + self.size:
            problem = BYTES
        elif rules.discard_new_per_subject and not headers.rollup:
            count = int(room.count_of(subject)) + self._subjects[subject]
            if 0 < rules.max_per_subject < count:
                problem = PER_SUBJECT
        if not problem:
            return ALLOWED
        self.on_state = True
        return error_body(ErrCode.STORE_FAILED, err=problem)
