"""Rewriting segments: the code that visits every row and every record (``compaction.py``)."""

import zlib

from librt.strings import BytesWriter, read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

from jetspark.store.format.compression import pack
from jetspark.store.format.record import (
    BATCH_MEMBER,
    CONSUMER,
    FAST_BATCH,
    FIXED,
    MESSAGE,
    Codec,
    headers_in,
    record_flags,
    record_kind,
    record_lengths,
    record_sequence,
    record_time,
    subject_end,
)
from jetspark.store.log.columns import HOLES_MAX, NOWHERE, Columns
from jetspark.store.log.index import StreamIndex


class Source:
    """A file of a run, and its messages that existed when the run was chosen."""

    def __init__(self, handle: i64, name: str, length: i64, at: i64, packing: bool) -> None:
        self.handle: i64 = handle
        self.name: str = name
        self.length: i64 = length
        # How far it was copied; it starts where the records do.
        self.at: i64 = at
        self.offsets: vec[i64] = vec[i64]()
        self.seqs: vec[i64] = vec[i64]()
        # The offsets of the messages in the new file, in the same order.
        self.moved: vec[i64] = vec[i64]()
        self.last_time: i64 = 0
        self.packing: bool = packing

    def note(self, columns: Columns) -> None:
        """Add the messages of some rows."""
        i: i64 = 0
        while i < len(columns.offsets):
            if columns.offsets[i] != NOWHERE:
                self.offsets = append(self.offsets, columns.offset_at(i))
                self.seqs = append(self.seqs, columns.base + i)
            i += 1

    def copied_to(self, at: i64) -> None:
        """Note how far it was copied."""
        self.at = at

    def copy(self, codec: Codec, data: bytes, at: i64, writer: BytesWriter, written: i64) -> i64:
        """Copy the messages that existed from the next bytes of the file, from ``at`` on.

        Returns where it stopped: at the end, before a record of the engine state, which the caller
        decides about, or before an invalid one.
        """
        k: i64 = len(self.moved)
        while at < len(data):
            total = codec.examine(data, at)
            if total <= 0:
                break
            kind = record_kind(data, at)
            if kind == MESSAGE:
                if k < len(self.offsets) and self.offsets[k] == self.at + at:
                    self.moved = append(self.moved, written + len(writer))
                    self.last_time = record_time(data, at)
                    if not self.packing or not pack(codec, data, int(at), writer):
                        copy_record(codec, data, at, total, writer)
                    k += 1
            elif CONSUMER <= kind <= FAST_BATCH:
                break
            at += total
        return at


def copy_record(codec: Codec, data: bytes, at: i64, total: i64, writer: BytesWriter) -> None:
    """Copy one record, without the flags of an atomic batch."""
    if record_flags(data, at) & BATCH_MEMBER == 0:
        writer.write(data[at : at + total])
        return
    end = subject_end(data, at)
    codec.encode(
        writer,
        record_sequence(data, at),
        record_time(data, at),
        record_kind(data, at),
        0,
        data[at + FIXED : end],
        headers_in(record_lengths(data, at)),
        data[end : at + total - 8],
    )


def removed_rows(columns: Columns) -> bytes:
    """Return one bit per row: 1 where the file has a removed message; empty if there is none.

    The newest first: messages are removed by another thread meanwhile, the oldest first.
    """
    flags = bytearray((len(columns.offsets) + 7) // 8)
    count: i64 = 0
    i: i64 = len(columns.offsets) - 1
    while i >= 0:
        if columns.offsets[i] == NOWHERE and columns.subjects[i] >= 0:
            flags[i >> 3] |= 1 << (i & 7)
            count += 1
        i -= 1
    return bytes(flags) if count > 0 else b""


def apply_drop(index: StreamIndex, body: bytes) -> None:
    """Remove what a record of a rewritten segment says was removed before it.

    Its body: first and last sequence, and one bit for each, 1 if removed; no bits: all are.
    """
    first = read_i64_le(body, 0)
    last = read_i64_le(body, 8)
    flags = zlib.decompress(body[16:]) if len(body) > 16 else b""
    seq = index.next_seq(first, b"")
    while 0 < seq <= last:
        bit = seq - first
        if len(flags) == 0 or flags[bit >> 3] & (1 << (bit & 7)) != 0:
            index.remove(seq)
        seq = index.next_seq(seq + 1, b"")


def take_over(index: StreamIndex, sources: list[Source], fresh: Columns) -> list[Columns]:
    """Return rows for the new file, from those of the old ones.

    Messages that were removed meanwhile keep their rows: they are in the new file. ``fresh``
    starts after the run until there is a row.
    """
    rows = [fresh]
    target = fresh
    for source in sources:
        k: i64 = 0
        while k < len(source.seqs):
            seq = source.seqs[k]
            columns = index.segment_of(seq)
            if columns is not None:
                i: i64 = seq - columns.base
                skipped = seq - target.base - len(target.offsets)
                if len(target.offsets) == 0:
                    target.start_at(seq)
                elif skipped > HOLES_MAX:
                    target = Columns(fresh.handle, seq, fresh.start, fresh.name)
                    rows.append(target)
                else:
                    target.add_holes(skipped)
                target.add_moved(source.moved[k], columns, i)
            k += 1
    return rows
