"""Open fast batches in the log (docs/internals/disk-format.md, kind 8).

Every group with messages of a fast batch ends with a record of the batch's progress, so that a
server that restarts knows what it has of it.
"""

import msgspec

from jetspark.engine.batch.members import FastBatch
from jetspark.store.log.stream_log import StreamLog


class FastState(msgspec.Struct, array_like=True, frozen=True):
    """The record of an open fast batch.

    ``last`` and ``stored_seq`` are true once the whole group is on disk. ``durable`` and
    ``durable_seq`` were true before it: a power failure may keep the record and lose its messages.
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


def recorded(batch: FastBatch, log: StreamLog) -> bytes:
    """Return the record of a batch in the open group."""
    return _encode(
        FastState(
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
            since_seq=int(log.index.last_seq),
            # By the clock of the stream: engine time means nothing to another process.
            touched=int(log.timeline.stored_time(batch.touched)),
        )
    )


def resumed(batch_id: bytes, document: bytes, log: StreamLog) -> FastBatch:
    """Return the batch in a record; its ``touched`` is a time of the stream's clock."""
    state = _decode(document)
    batch = FastBatch(
        batch_id,
        state.dialect,
        state.gap_ok,
        state.head,
        state.asked,
        state.asked_bytes,
        state.touched,
    )
    last, seq = state.last, state.stored_seq
    if not _is_whole(log, state):
        last, seq = state.durable, state.durable_seq
    batch.resume(last, state.first_seq, seq)
    return batch


def _is_whole(log: StreamLog, state: FastState) -> bool:
    """Return whether all of the group of a record reached the disk."""
    return not any(
        first <= state.stored_seq and last > state.since_seq for first, last in log.missing
    )
