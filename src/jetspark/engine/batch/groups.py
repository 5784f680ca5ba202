"""Fast batches and the disk: what the log says of them, and what a durable group lets go out.

Every group that carries messages of a fast batch ends with a record of how far the batch has come
(contracts.md 4, kind 8), so that a server that starts again knows what it has of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch import atomic, words
from jetspark.engine.batch.members import BY_REPLY, FastBatch
from jetspark.engine.outbox import Outbox

if TYPE_CHECKING:
    from jetspark.engine.batch.intake import BatchIntake

# A batch as it stands in a group: batch, last sequence, bytes, stream sequence.
Standing = tuple[FastBatch, int, int, int]


class FastState(msgspec.Struct, array_like=True, frozen=True):
    """What the log keeps of an open fast batch.

    ``last`` and ``stored_seq`` are true once the whole group is on disk. ``durable`` and
    ``durable_seq`` were true before it: a power cut may leave the record and not what it is about.
    """

    dialect: int
    gap_ok: bool
    head: bytes
    asked: int
    asked_bytes: int
    last: int
    first_seq: int
    stored_seq: int
    durable: int
    durable_seq: int
    # The last sequence that was durable before the group.
    since_seq: int
    touched: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FastState).decode


# The life of a batch ------------------------------------------------------------------------


def watch(stream: BatchIntake, batch: FastBatch) -> None:
    """A fast batch is open from now on."""
    stream.fast[batch.batch_id] = batch
    stream.batch_limits.fast_open[int(batch.dialect)] += 1
    if batch.dialect == BY_REPLY:
        stream.fast_heads[batch.head] = batch
        stream.appending = True
    atomic.watch(stream, int(batch.touched))


def move(stream: BatchIntake, batch: FastBatch, head: bytes) -> None:
    """The publisher of a batch listens somewhere else from now on."""
    if stream.fast_heads.pop(batch.head, None) is not None:
        stream.fast_heads[head] = batch
    batch.head = head


def release(stream: BatchIntake, batch: FastBatch) -> None:
    """A fast batch is no longer open."""
    if stream.fast.pop(batch.batch_id, None) is None:
        return
    batch.closed = True
    stream.batch_limits.fast_open[int(batch.dialect)] -= 1
    stream.fast_heads.pop(batch.head, None)
    stream.appending = len(stream.fast_heads) > 0


def close(stream: BatchIntake, batch: FastBatch) -> bool:
    """End a batch, in the log too if it is there; say whether that was staged."""
    release(stream, batch)
    if not batch.recorded or stream.log.access.read_only:
        return False
    stream.log.staged.set_fast_batch(batch.batch_id, b"")
    batch.recorded = False
    return True


def drop_all(stream: BatchIntake) -> None:
    """End every fast batch without a word."""
    for batch in list(stream.fast.values()):
        close(stream, batch)


def drop_with_stream(stream: BatchIntake) -> None:
    """The stream is gone, and its batches with it: what they took of the limits is free."""
    atomic.drop_all(stream)
    for batch in list(stream.fast.values()):
        release(stream, batch)


def resume(stream: BatchIntake) -> None:
    """Take up the batches that were open when the log was last written."""
    for batch_id, document in stream.log.ledger.fast_batches.items():
        state = _decode(document)
        batch = FastBatch(batch_id, state.dialect, state.gap_ok, state.touched)
        batch.head = state.head
        batch.asked, batch.asked_bytes = state.asked, state.asked_bytes
        last, seq = state.last, state.stored_seq
        if not _is_whole(stream, state):
            last, seq = state.durable, state.durable_seq
        batch.last = batch.durable = batch.acked = last
        batch.first_seq = state.first_seq
        batch.stored_seq = batch.durable_seq = seq
        batch.resumed = batch.recorded = batch.greeted = True
        watch(stream, batch)
        stream.flow_control.begin(batch, len(stream.fast))
        stream.batch_due = min(stream.batch_due, state.touched + stream.batch_limits.idle_ns)


def _is_whole(stream: BatchIntake, state: FastState) -> bool:
    """Say whether everything reached the disk that came with the group of a record."""
    return not any(
        first <= state.stored_seq and last > state.since_seq for first, last in stream.log.missing
    )


# Groups ----------------------------------------------------------------------------------


def note_group(stream: BatchIntake) -> None:
    """The group that fills is about to be taken: say in it how far its batches are."""
    for batch_id in stream.ended:
        stream.log.staged.set_fast_batch(batch_id, b"")
    stream.ended.clear()
    for batch in stream.advanced:
        batch.listed = False
        batch.flying = True
        stream.filling.batches.append(
            (batch, int(batch.last), int(batch.last_bytes), int(batch.stored_seq))
        )
        if not batch.closed:
            state = _state(stream, batch, int(stream.log.index.last_seq))
            stream.log.staged.set_fast_batch(batch.batch_id, _encode(state))
            batch.recorded = True
    stream.advanced.clear()


def _state(stream: BatchIntake, batch: FastBatch, since_seq: int) -> FastState:
    return FastState(
        dialect=int(batch.dialect),
        gap_ok=batch.gap_ok,
        head=batch.head,
        asked=int(batch.asked),
        asked_bytes=int(batch.asked_bytes),
        last=int(batch.last),
        first_seq=int(batch.first_seq),
        stored_seq=int(batch.stored_seq),
        durable=int(batch.durable),
        durable_seq=int(batch.durable_seq),
        since_seq=since_seq,
        # By the clock of the stream: engine time means nothing to another process.
        touched=int(stream.log.timeline.stored_time(batch.touched)),
    )


def committed(stream: BatchIntake, standings: list[Standing], outbox: Outbox) -> None:
    """A group is durable: its batches are acknowledged as far as their flow asks for."""
    if stream.taken_ns > 0 and stream.committed_ns > 0:
        latency = int(stream.committed_ns - stream.taken_ns)
        stream.flow_control.measured(latency, len(stream.log.staged.writer))
    for batch, last, size, seq in standings:
        batch.flying = False
        # Sequences without a message need no disk: they are settled with those before them.
        batch.durable = last if batch.listed else batch.last
        batch.durable_bytes = size
        batch.durable_seq = seq
        if not batch.closed:
            check_flow(stream, batch, reply_subject(batch), outbox)


def reply_subject(batch: FastBatch) -> bytes:
    """Where an acknowledgement goes: the reply subject of the last durable message."""
    if batch.dialect != BY_REPLY:
        return batch.head
    op = b"0" if batch.durable == 1 else b"1"
    return batch.head + b"%d.%b.$FI" % (int(batch.durable), op)


def check_flow(stream: BatchIntake, batch: FastBatch, reply: bytes, outbox: Outbox) -> bool:
    """Acknowledge what is durable if the flow says so; say whether that was done."""
    if stream.rules.no_ack:
        return False
    if batch.flow_bytes > 0:
        if batch.durable_bytes - batch.acked_bytes < batch.flow_bytes:
            return _greet(batch, reply, outbox)
        batch.acked_bytes = batch.durable_bytes
        batch.acked = batch.durable
    else:
        steps = (batch.durable - batch.acked) // batch.flow
        if steps < 1:
            return _greet(batch, reply, outbox)
        # One ack for all of them: it covers those before it (ADR-50, lost acks).
        batch.acked += steps * batch.flow
    batch.greeted = True
    stream.flow_control.adapt(batch, len(stream.fast))
    outbox.reply(reply, words.flow_ack(batch, int(batch.acked)))
    return True


def _greet(batch: FastBatch, reply: bytes, outbox: Outbox) -> bool:
    """Header dialect: the first message is acknowledged whatever the flow is."""
    if batch.greeted or batch.dialect == BY_REPLY or batch.durable < 1:
        return False
    batch.greeted = True
    outbox.reply(reply, words.flow_ack(batch, 1))
    return True


def failed(stream: BatchIntake, error: bytes, outbox: Outbox) -> None:
    """Nothing that was staged is there: batches fall back to what is durable, and are told."""
    stream.advanced.clear()
    for batch in list(stream.fast.values()):
        if not batch.listed and not batch.flying:
            continue
        batch.listed = batch.flying = False
        reply = b"" if stream.rules.no_ack else reply_subject(batch)
        lost = int(batch.last)
        batch.last = batch.durable
        batch.last_bytes = batch.durable_bytes
        batch.stored_seq = batch.durable_seq
        by_reply = batch.dialect == BY_REPLY
        if by_reply:
            outbox.reply(reply, words.refused(lost, error))
        if by_reply and batch.gap_ok:
            continue
        release(stream, batch)
        if by_reply:
            ack = words.pub_ack(stream, int(batch.stored_seq), batch.batch_id, int(batch.last))
            outbox.reply(reply, ack)
        else:
            outbox.reply(reply, words.ended(stream, batch, error))
    # Ends that the log does not know: the disk cannot take them now, the next group says them.
    stream.ended = [name for name in stream.log.ledger.fast_batches if name not in stream.fast]


# Time ----------------------------------------------------------------------------------


def expire(stream: BatchIntake, now: int, outbox: Outbox) -> bool:
    """Abandon what was idle for too long; say whether something was staged."""
    idle = int(stream.batch_limits.idle_ns)
    staged = False
    abandoned: list[bytes] = []
    for batch in list(stream.atomic.values()):
        if batch.touched + idle <= now:
            atomic.forget(stream, batch)
            abandoned.append(batch.batch_id)
    for open_batch in list(stream.fast.values()):
        if open_batch.touched + idle <= now:
            staged = close(stream, open_batch) or staged
            abandoned.append(open_batch.batch_id)
    times = [b.touched for b in stream.atomic.values()]
    times += [b.touched for b in stream.fast.values()]
    stream.batch_due = int(min(times)) + idle if times else 0
    for batch_id in abandoned:
        stream.advise(batch_id, AbandonReason.TIMEOUT, now, outbox)
    return staged
