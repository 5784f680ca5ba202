"""A consumer's state in the log: small changes, and occasionally a complete one (disk-format.md).

A change has the consumer's position, the messages that became pending since the previous record,
those of earlier records that are no longer pending, and delivery counts. After a crash everything
after the last record is redelivered; the ack floor of a record never passes an unacknowledged
message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.engine.consumer.pending import ROWS_MAX, Pending, RunReader

if TYPE_CHECKING:
    from jetspark.engine.consumer.state import ConsumerState
    from jetspark.engine.wall import Wall

# Changes are folded into a complete state when they are longer than this and than the state was.
CHANGES_MAX: Final = 16 * 1024


class Record(msgspec.Struct, array_like=True, omit_defaults=True):
    """One journal record. A change builds on the one before, a complete state on nothing.

    Its times are dates: engine time means nothing to another process.
    """

    consumer_seq: int = 0
    seq: int = 0
    floor_consumer_seq: int = 0
    floor_seq: int = 0
    next: int = 1
    delivered_ns: int = 0
    acked_ns: int = 0
    gated: bool = False
    # Pending since: sequences and consumer sequences. Very many are runs, with their delivery
    # counts (``pending.RunWriter``): older versions refuse that, as with ``listed``.
    seqs: list[int] | bytes = []
    consumer_seqs: list[int] = []
    # No longer pending, above the floor.
    acked: list[int] = []
    # Delivery counts above one; messages that are not delivered again.
    counts: dict[int, int] = {}
    spent: dict[int, int] = {}
    # Last per subject: what is left of the list, from the end.
    listed_left: int = 0
    # A long list is packed (``cursor.Packer``), the same bytes until it is done: older versions
    # refuse that, and restart the consumer instead of skipping messages.
    listed: list[int] | bytes = []
    active_ns: int = 0
    # Numbers the records: a change is useless without the one before it, because messages that
    # became pending in between would be unknown.
    link: int = 0
    # Up to here a reset skipped messages that a work queue keeps.
    passed_to: int = 0

    def add_rows(self, rows: Pending) -> None:
        """Add what became pending, with its delivery counts. Raises ValueError."""
        if isinstance(self.seqs, bytes):
            RunReader(self.seqs).read_into(rows)
        else:
            for seq, consumer_seq in sorted(zip(self.seqs, self.consumer_seqs, strict=True)):
                rows.put(seq, consumer_seq, 1)
        for seq, deliveries in self.counts.items():
            rows.recount(seq, deliveries)


_SEQS: Final = Record.__struct_fields__.index("seqs")
_CONSUMER_SEQS: Final = Record.__struct_fields__.index("consumer_seqs")
_ACKED: Final = Record.__struct_fields__.index("acked")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class Journal:
    """The journal of one consumer."""

    def __init__(self, state: ConsumerState, wall: Wall) -> None:
        self._state = state
        self._wall = wall
        self._whole_due = True
        self._changes_size = 0
        self._whole_size = 0
        self._link = 0

    def next_record(self, active_ns: int) -> tuple[bool, bytes]:
        """Return whether the next record is a complete state, and its body."""
        # A list of very many that are no longer pending takes longer than what is left.
        whole = (
            self._whole_due
            or self._changes_size > max(CHANGES_MAX, self._whole_size)
            or len(self._state.pending.acked) > ROWS_MAX
        )
        self._link += 1
        body = self._encoded(active_ns, whole=whole)
        if whole:
            self._whole_due = False
            self._whole_size = len(body)
            self._changes_size = 0
        else:
            self._changes_size += len(body)
        return whole, body

    def start_again(self) -> None:
        """Write a complete state next: the last record did not reach the disk."""
        self._whole_due = True

    def _encoded(self, active_ns: int, *, whole: bool) -> bytes:
        """Return a record with what the journal lacks, or with everything."""
        state = self._state
        cursor, pending = state.cursor, state.pending
        in_runs = pending.rows_to_write(whole=whole) > ROWS_MAX
        counts: dict[int, int] = {}
        if not whole:
            counts = pending.recounted
        elif not in_runs:
            counts = pending.list_counts()
        record = Record(
            link=self._link,
            counts=counts,
            spent=dict(state.spent),
            listed=(cursor.packed or cursor.listed_left()) if whole else [],
            consumer_seq=int(state.consumer_seq),
            seq=int(state.seq),
            floor_consumer_seq=int(state.floor_consumer_seq),
            floor_seq=int(state.floor_seq),
            next=int(cursor.next),
            delivered_ns=self._date(int(state.delivered_ns)),
            acked_ns=self._date(int(state.acked_ns)),
            gated=state.gated,
            listed_left=len(cursor.listed) - int(cursor.listed_at),
            active_ns=self._date(active_ns),
            passed_to=int(state.passed_to),
        )
        values = list(msgspec.structs.astuple(record))
        if in_runs:
            values[_SEQS] = pending.packed_runs(whole=whole)
        else:
            seqs, consumer_seqs = pending.packed_rows(whole=whole)
            values[_SEQS], values[_CONSUMER_SEQS] = msgspec.Raw(seqs), msgspec.Raw(consumer_seqs)
        if not whole:
            values[_ACKED] = msgspec.Raw(pending.packed_acked(state.floor_seq))
        pending.saved()
        return _encode(values)

    def _date(self, time_ns: int) -> int:
        return self._wall.at(time_ns) if time_ns else 0

    def _engine_time(self, date_ns: int, now: int) -> int:
        """Return the engine time of a date; never in the future, even after a clock change."""
        return min(self._wall.engine_time(date_ns), now) if date_ns else 0

    # Reading -----------------------------------------------------------------------------------

    def restore(self, state: bytes, changes: list[bytes], now: int) -> None:
        """Restore a consumer from its records. Raises ValueError."""
        record = _decode(state) if state else Record()
        rows = Pending()
        record.add_rows(rows)
        listed = record.listed
        for body in changes:
            change = _decode(body)
            if change.link != record.link + 1:
                break  # one is lost: later ones are useless
            record = change
            record.add_rows(rows)
            for seq in record.acked:
                rows.drop(seq)
        self._link = record.link
        self._whole_size = len(state)
        self._changes_size = sum(map(len, changes))
        self._whole_due = True  # later records do not depend on how much could be read
        self._apply(record, rows, listed, now)

    def _apply(
        self,
        record: Record,
        rows: Pending,
        listed: list[int] | bytes,
        now: int,
    ) -> None:
        state = self._state
        state.restore(
            record.next,
            (record.consumer_seq, record.seq),
            (record.floor_consumer_seq, record.floor_seq),
            self._engine_time(record.delivered_ns, now),
            self._engine_time(record.acked_ns, now),
            record.gated,
            record.passed_to,
        )
        state.restore_messages(rows, record.spent, listed, record.listed_left)
