"""Answers to publishers of batches: acknowledgements, gaps and errors of both dialects."""

from __future__ import annotations

import msgspec

from jetspark.engine.batch.members import BY_REPLY, FastBatch

_quote = msgspec.json.encode


def pub_ack(head: bytes, seq: int, batch_id: bytes, count: int, *, duplicate: bool) -> bytes:
    """Return the acknowledgement of a whole batch; ``head`` is the stream's prefix of acks."""
    mark = b',"duplicate": true' if duplicate else b""
    return head + b'%d%b,"batch":%b,"count":%d}' % (
        seq, mark, _quote(batch_id.decode(errors="replace")), count,
    )  # fmt: skip


def flow_ack(batch: FastBatch, seq: int) -> bytes:
    """Return a flow ack: everything up to ``seq`` is durable, and the ack interval."""
    if batch.dialect == BY_REPLY:
        return b'{"type":"ack","seq":%d,"msgs":%d}' % (seq, int(batch.flow))
    if batch.flow_bytes:
        return b'{"seq":%d,"bytes":%d}' % (seq, int(batch.flow_bytes))
    return b'{"seq":%d,"messages":%d}' % (seq, int(batch.flow))


def gap(batch: FastBatch, seq: int) -> bytes:
    """Return a gap report: the message ``seq`` arrived before others that are missing.

    Released servers name the first missing one, ADR-50 the last one that arrived.
    """
    if batch.dialect == BY_REPLY:
        return b'{"type":"gap","last_seq":%d,"seq":%d}' % (int(batch.last) + 1, seq)
    rate = b'"bytes":%d' % int(batch.flow_bytes)
    if not batch.flow_bytes:
        rate = b'"messages":%d' % int(batch.flow)
    # Zero is omitted, as everywhere in this kind of message.
    last = b'"last_seq":%d,' % int(batch.last) if batch.last else b""
    return b'{%b"seq":%d,%b}' % (last, seq, rate)


def refused(seq: int, error: bytes) -> bytes:
    """Return the refusal of one message (reply-subject dialect)."""
    return b'{"type":"err","seq":%d,"error":%b}' % (seq, error)


def ended(json_name: bytes, batch: FastBatch, error: bytes) -> bytes:
    """Return the refusal of a message and the rest (header dialect); what is stored is kept."""
    return b'{"error":%b,"stream":%b,"seq":%d,"batch":%b,"count":%d}' % (
        error,
        json_name,
        int(batch.stored_seq),
        _quote(batch.batch_id.decode(errors="replace")),
        int(batch.last),
    )
