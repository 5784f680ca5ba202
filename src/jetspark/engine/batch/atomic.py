"""Atomic batches (ADR-50): how they begin, how they end, and everything that refuses one.

Messages wait in memory, bounded by the server's limits; nothing of them shows. The commit judges
all of them against the state before the batch (``judge.py``) and then stages one run of records
that is on disk whole or not at all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch.dialect import batch_number
from jetspark.engine.batch.judge import Judgement, judge_batch
from jetspark.engine.batch.limits import ID_MAX
from jetspark.engine.batch.members import AtomicBatch, member_size
from jetspark.engine.batch.words import pub_ack
from jetspark.engine.direct.request import needs_newer
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Checks
from jetspark.engine.stream.expectations import NO_SEQUENCE
from jetspark.engine.stream.ttl import NO_TTL, parse_ttl
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.headers.block import append_lines, remove_header
from jetspark.headers.names import BATCH_COMMIT, REQUIRED_API_LEVEL, ROLLUP

if TYPE_CHECKING:
    from jetspark.engine.batch.intake import BatchIntake

COMMIT = b"1"
END_OF_BATCH = b"eob"
# So much memory a batch is given at a time.
GRANT = 16 * 1024


def take(
    stream: BatchIntake,
    subject: bytes,
    reply: bytes,
    block: bytes,
    body: bytes,
    now: int,
    outbox: Outbox,
) -> bool:
    """Take a message of an atomic batch; return whether the engine has something to do.

    The order of the checks is the released server's (wire-facts.md 11).
    """
    headers = stream.checks.headers
    batch_id = headers.batch_id
    number = batch_number(headers.batch_seq)
    ends = headers.has_commit and headers.batch_commit == END_OF_BATCH
    error = _header_problem(stream, number)
    if error:
        outbox.reply(reply, stream.failure(error))
        return False
    batch = stream.atomic.get(batch_id)
    opened = batch is None
    if batch is None:
        error = _opening_problem(stream, number, ends=ends)
        if error:
            outbox.reply(reply, stream.failure(error))
            return False
        batch = _open(stream, batch_id, now)
    if headers.has_commit and not ends and headers.batch_commit != COMMIT:
        _abandon(stream, batch, reply, error_body(ErrCode.ATOMIC_COMMIT_INVALID), outbox)
        return False
    if headers.api_level:
        if needs_newer(block):
            error = error_body(ErrCode.REQUIRED_API_LEVEL)
            _abandon(stream, batch, reply, error, outbox)
            stream.advise(batch_id, AbandonReason.UNSUPPORTED, now, outbox)
            return False
        block = remove_header(block, REQUIRED_API_LEVEL)
    if number != batch.last + 1 or (ends and number == 1):
        _abandon(stream, batch, reply, error_body(ErrCode.ATOMIC_INCOMPLETE), outbox)
        stream.advise(batch_id, AbandonReason.INCOMPLETE, now, outbox)
        return False
    size = 0 if ends else int(member_size(subject, block, body))
    error = _size_problem(stream, batch, number - ends, size)
    if error:
        _abandon(stream, batch, reply, error, outbox)
        stream.advise(batch_id, AbandonReason.LARGE, now, outbox)
        return False
    if ends:
        return _commit(stream, batch, reply, now, outbox, by_marker=True)
    stream.add_member(batch, subject, block, body, now)
    if headers.has_commit:
        return _commit(stream, batch, reply, now, outbox, by_marker=False)
    outbox.reply(reply, b"")
    return opened


def _header_problem(stream: BatchIntake, number: int) -> bytes:
    if not stream.rules.allow_atomic:
        return error_body(ErrCode.ATOMIC_DISABLED)
    if len(stream.checks.headers.batch_id) > ID_MAX:
        return error_body(ErrCode.ATOMIC_ID_INVALID)
    if number == NO_SEQUENCE:
        return error_body(ErrCode.ATOMIC_SEQUENCE_MISSING)
    return b""


def _opening_problem(stream: BatchIntake, number: int, *, ends: bool) -> bytes:
    """Why a message cannot begin a batch."""
    limits = stream.batch_limits
    if number != 1:
        if number - ends > limits.atomic_messages:
            return error_body(ErrCode.ATOMIC_TOO_LARGE, size=limits.atomic_messages)
        return error_body(ErrCode.ATOMIC_INCOMPLETE)
    if (
        len(stream.atomic) >= limits.atomic_per_stream
        or limits.atomic_open >= limits.atomic_per_server
    ):
        return error_body(ErrCode.ATOMIC_TOO_MANY)
    return b""


def _size_problem(stream: BatchIntake, batch: AtomicBatch, messages: int, size: int) -> bytes:
    """Why a batch may not become so large: in messages, or in what all batches hold.

    Memory is granted in pieces, so that most messages need not ask.
    """
    limits = stream.batch_limits
    if messages > limits.atomic_messages:
        return error_body(ErrCode.ATOMIC_TOO_LARGE, size=limits.atomic_messages)
    missing = int(batch.size) + size - int(batch.granted)
    if missing > 0:
        left = limits.staged_bytes - limits.staged
        if missing > left:
            return error_body(ErrCode.INSUFFICIENT_RESOURCES)
        granted = min(max(missing, GRANT), left)
        batch.granted += granted
        limits.staged += granted
    return b""


def _open(stream: BatchIntake, batch_id: bytes, now: int) -> AtomicBatch:
    batch = AtomicBatch(batch_id, stream.batch_limits.atomic_messages, now)
    stream.atomic[batch_id] = batch
    stream.batch_limits.atomic_open += 1
    watch(stream, now)
    return batch


def watch(stream: BatchIntake, now: int) -> None:
    """A batch was opened: there is a time at which it is idle for too long."""
    if stream.batch_due == 0:
        stream.batch_due = now + stream.batch_limits.idle_ns
        stream.deadline_moved = True


def forget(stream: BatchIntake, batch: AtomicBatch) -> None:
    """A batch is over; what it held is free."""
    if stream.atomic.pop(batch.batch_id, None) is not None:
        stream.batch_limits.atomic_open -= 1
        stream.batch_limits.staged -= int(batch.granted)


def drop_all(stream: BatchIntake) -> None:
    """Forget every open batch, without a word."""
    for batch in list(stream.atomic.values()):
        forget(stream, batch)


def _abandon(
    stream: BatchIntake, batch: AtomicBatch, reply: bytes, error: bytes, outbox: Outbox
) -> None:
    forget(stream, batch)
    outbox.reply(reply, stream.failure(error))


def _commit(
    stream: BatchIntake,
    batch: AtomicBatch,
    reply: bytes,
    now: int,
    outbox: Outbox,
    *,
    by_marker: bool,
) -> bool:
    """Judge a batch and stage all of it or nothing."""
    forget(stream, batch)
    verdict = Judgement()
    if not (batch.plain and stream.rules.open):
        verdict = judge_batch(stream, batch, now)
    if verdict.error:
        if reply:
            entry = (reply, reply, b"", b"", stream.failure(verdict.error))
            if verdict.on_state:
                stream.hold_newest(entry, outbox)
            else:
                outbox.now.append(entry)
        return False
    if by_marker:
        # ADR-50: the last message is stored as if it had committed the batch itself.
        batch.blocks[-1] = append_lines(batch.blocks[-1], BATCH_COMMIT + b": 1\r\n")
    stream.stage_batch(batch, now)
    if reply:
        seq = int(stream.log.staged.seq)
        ack = pub_ack(stream, seq, batch.batch_id, len(batch.subjects))
        stream.filling.entries.append((reply, reply, b"", b"", ack))
    return True


def prepare(checks: Checks, subject: bytes, block: bytes, body: bytes) -> None:
    """Make the checks ready to store a message of a batch that was judged as a whole."""
    rules = checks.rules
    headers = checks.headers
    checks.block = block
    checks.body = body
    checks.count = None
    checks.duplicate_of = 0
    checks.ttl = NO_TTL
    headers.read(block)
    if headers.schedule and not headers.rollup:
        headers.rollup = b"sub"
        checks.block = append_lines(block, ROLLUP + b": sub\r\n")
    if rules.allow_counter:
        checks.add_up(subject)
    if headers.ttl:
        checks.ttl = parse_ttl(headers.ttl)
        checks.lengthen()
    if rules.discard_new:
        # For what it notes: the batch was judged, so a failed read changes nothing any more.
        with suppress(ReadFailed):
            checks.room.problem(
                subject, len(checks.block), len(checks.body) - 2, bool(headers.rollup)
            )
