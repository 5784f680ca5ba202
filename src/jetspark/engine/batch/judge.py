"""The verdict on an atomic batch: every message of it, against the state before the batch.

ADR-50, server behaviour: expectations are checked at the commit, with what the stream held before
the batch; what the batch itself did before only decides whether a check can be made at all. The
order of the checks is the released server's (wire-facts.md 11).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jetspark.engine.batch.members import AtomicBatch
from jetspark.engine.stream.checks import ALLOWED, Checks
from jetspark.engine.stream.counters import CounterBroken, format_integer, parse_integer
from jetspark.engine.stream.expectations import expected_sequence, staged_last, staged_last_of
from jetspark.engine.stream.rare_headers import increment_problem, rollup_problem
from jetspark.engine.stream.room import BYTES, MESSAGES, PER_SUBJECT
from jetspark.engine.stream.schedules import schedule_problem
from jetspark.engine.stream.ttl import INVALID, NO_TTL, parse_ttl
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.headers.names import EXPECTED_LAST_MSG_ID
from jetspark.store.format.record import OVERHEAD

if TYPE_CHECKING:
    from jetspark.engine.batch.intake import BatchIntake


@dataclass(slots=True)
class Judgement:
    """Why a batch is refused; ``on_state``: because of what may not be durable yet."""

    error: bytes = ALLOWED
    on_state: bool = False


@dataclass(slots=True)
class _Before:
    """What the messages of the batch judged so far have done."""

    subjects: dict[bytes, int] = field(default_factory=dict)
    ids: set[bytes] = field(default_factory=set)
    totals: dict[bytes, int] = field(default_factory=dict)
    size: int = 0
    count: int = 0
    on_state: bool = False


def judge_batch(stream: BatchIntake, batch: AtomicBatch, now: int) -> Judgement:
    """Judge all messages in order; the first that fails is the verdict."""
    before = _Before()
    checks = stream.checks
    for subject, block, body in zip(batch.subjects, batch.blocks, batch.bodies, strict=True):
        checks.block = block
        checks.body = body
        checks.headers.read(block)
        try:
            error = _judge(checks, subject, before, now)
        except ReadFailed as problem:
            # The batch cannot be judged without a message that the disk refuses to read.
            error = error_body(ErrCode.STORE_FAILED, err=problem.public)
        if error:
            return Judgement(error, before.on_state)
    quota = checks.quota
    if quota is not None:
        # Each message had room by itself; all of them together must have it too.
        return Judgement(quota.problem(batch.subjects[0], 0, before.size), on_state=True)
    return Judgement()


def _judge(checks: Checks, subject: bytes, before: _Before, now: int) -> bytes:
    headers = checks.headers
    error = checks.judge_sizes(subject)
    if error:
        return error
    if headers.expected_last_id:
        return error_body(ErrCode.ATOMIC_UNSUPPORTED_HEADER, header=EXPECTED_LAST_MSG_ID.decode())
    error = (
        _judge_alone(checks, before, now)
        or _judge_counter(checks, subject, before)
        or _judge_sequences(checks, subject, before)
        or _judge_schedule(checks, subject, now)
        or _judge_rollup(checks, subject, before)
    )
    if error:
        return error
    before.subjects[subject] = before.subjects.get(subject, 0) + 1
    headers_length = len(checks.block)
    total = int(OVERHEAD) + len(subject) + headers_length + len(checks.body) - 2
    before.size += int(checks.log.codec.size_of(total, headers_length))
    before.count += 1
    return _judge_room(checks, subject, before)


def _judge_alone(checks: Checks, before: _Before, now: int) -> bytes:
    """What concerns one message: counter header, stream, TTL, id, source."""
    headers = checks.headers
    rules = checks.rules
    if headers.incr:
        error = increment_problem(checks.headers, checks.rules, len(checks.body) - 2)
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
        if not checks.window_loaded:
            checks.load_window(now)
        if headers.msg_id in before.ids:
            return error_body(ErrCode.ATOMIC_DUPLICATE)
        if checks.window.find(headers.msg_id, now):
            before.on_state = True
            return error_body(ErrCode.ATOMIC_DUPLICATE)
        before.ids.add(headers.msg_id)
        if len(checks.window.sequences) + len(before.ids) > checks.window.max_ids:
            return error_body(ErrCode.INSUFFICIENT_RESOURCES)
    if headers.stream_source:
        return error_body(ErrCode.SOURCE_HEADER_NOT_ALLOWED)
    return ALLOWED


def _judge_counter(checks: Checks, subject: bytes, before: _Before) -> bytes:
    if not checks.rules.allow_counter:
        return ALLOWED
    headers = checks.headers
    if not headers.incr:
        return error_body(ErrCode.COUNTER_INCREMENT_MISSING)
    total = before.totals.get(subject)
    if total is None:
        try:
            total = checks.counters.current(subject).number
        except CounterBroken:
            return error_body(ErrCode.COUNTER_BROKEN)
    total += parse_integer(headers.incr)
    before.totals[subject] = total
    checks.body = b'{"val":"%b"}\r\n' % format_integer(total)
    return checks.judge_sizes(subject)


def _judge_sequences(checks: Checks, subject: bytes, before: _Before) -> bytes:
    """Expected sequences: against the stream before the batch, or not at all."""
    headers = checks.headers
    if headers.expected_last_seq:
        # Released servers say how far the batch itself has come by now.
        running = int(staged_last(checks.log)) + before.count
        if expected_sequence(headers.expected_last_seq) != running:
            before.on_state = True
            return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=running)
        if before.count:
            return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
    if headers.expected_subject_seq:
        of = headers.expected_subject or subject
        if of in before.subjects:
            return error_body(ErrCode.WRONG_LAST_SEQUENCE_CONSTANT)
        actual = int(staged_last_of(checks.log, of))
        if expected_sequence(headers.expected_subject_seq) != actual:
            before.on_state = True
            return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=actual)
    elif headers.expected_subject:
        return error_body(ErrCode.LAST_SUBJECT_SEQUENCE_MISSING)
    return ALLOWED


def _judge_schedule(checks: Checks, subject: bytes, now: int) -> bytes:
    headers = checks.headers
    if headers.scheduling or headers.scheduler:
        problem = schedule_problem(headers, checks.rules, checks.log, subject, now)
        if problem:
            return error_body(problem)
        if headers.schedule and not headers.rollup:
            headers.rollup = b"sub"
    return ALLOWED


def _judge_rollup(checks: Checks, subject: bytes, before: _Before) -> bytes:
    """Rollups: of a subject only as its first message, of everything only as the first of all."""
    if not checks.headers.rollup:
        return ALLOWED
    error = rollup_problem(checks.headers, checks.rules)
    if error:
        return error
    if checks.headers.rollup.lower() == b"all":
        if before.count:
            return error_body(ErrCode.ROLLUP_FAILED, err="batch rollup all invalid")
    elif subject in before.subjects:
        return error_body(ErrCode.ROLLUP_FAILED, err="batch rollup sub invalid")
    return ALLOWED


def _judge_room(checks: Checks, subject: bytes, before: _Before) -> bytes:
    """Limits of a stream that discards new messages, with all of the batch so far counted."""
    rules = checks.rules
    if not rules.discard_new:
        return ALLOWED
    room = checks.room
    log = checks.log
    messages = int(log.staged.messages - room.filling.replaced - room.flying.replaced)
    problem = ""
    if 0 < rules.max_msgs < messages + before.count:
        problem = MESSAGES
    elif 0 < rules.max_bytes < log.staged.size + before.size:
        problem = BYTES
    elif rules.discard_new_per_subject and not checks.headers.rollup:
        count = int(room.count_of(subject)) + before.subjects[subject]
        if 0 < rules.max_per_subject < count:
            problem = PER_SUBJECT
    if not problem:
        return ALLOWED
    before.on_state = True
    return error_body(ErrCode.STORE_FAILED, err=problem)
