"""The state of a consumer in the log: small changes, and now and then the whole (disk-format.md).

A change says where the consumer is, which messages became pending since the record before, which
of those in earlier records are not pending any more, and how often some were delivered. After a
crash whatever came after the last record is delivered again; the ack floor of a record never
passes a message that nobody acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.engine.consumer.pending import GONE

if TYPE_CHECKING:
    from jetspark.engine.consumer.state import ConsumerState
    from jetspark.engine.wall import Wall

# Changes are folded into a whole state when they are longer than this and than the whole was.
CHANGES_MAX: Final = 16 * 1024


class Record(msgspec.Struct, array_like=True, omit_defaults=True):
    """One journal record. A change counts from the one before, a whole state from nothing.

    Its times are dates: engine time means nothing to another process.
    """

    number: int = 0
    seq: int = 0
    floor_number: int = 0
    floor_seq: int = 0
    next: int = 1
    delivered_ns: int = 0
    acked_ns: int = 0
    gated: bool = False
    # Pending since: sequences and consumer sequences.
    seqs: list[int] = []
    numbers: list[int] = []
    # Not pending any more, above the floor.
    acked: list[int] = []
    # How often delivered, where that is more than once; messages that are not delivered again.
    counts: dict[int, int] = {}
    spent: dict[int, int] = {}
    # Last per subject: what is left of the list, from the end.
    listed_left: int = 0
    # One that is long is said in bytes (``cursor.Packer``), the same ones until it is done: older
    # versions refuse that, and let the consumer start again instead of leaving messages out.
    listed: list[int] | bytes = []
    active_ns: int = 0
    # Counts the records: a change is worth nothing without the one before it, because what became
    # pending in between would not be known.
    link: int = 0
    # Up to here a reset passed over messages that a work queue keeps.
    passed_to: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class Journal:
    """What the log knows about one consumer."""

    def __init__(self, state: ConsumerState, wall: Wall) -> None:
        self._state = state
        self._wall = wall
        self._whole_due = True
        self._changes_size = 0
        self._whole_size = 0
        self._link = 0

    def next_record(self, active_ns: int) -> tuple[bool, bytes]:
        """Whether the next record is a whole state, and its body."""
        whole = self._whole_due or self._changes_size > max(CHANGES_MAX, self._whole_size)
        record = self._head(active_ns)
        self._rows(record, whole=whole)
        self._link += 1
        record.link = self._link
        body = _encode(record)
        if whole:
            self._whole_due = False
            self._whole_size = len(body)
            self._changes_size = 0
        else:
            self._changes_size += len(body)
        return whole, body

    def start_again(self) -> None:
        """What was given out did not reach the disk: the next record says everything."""
        self._whole_due = True

    def _head(self, active_ns: int) -> Record:
        state = self._state
        cursor = state.cursor
        return Record(
            number=int(state.number),
            seq=int(state.seq),
            floor_number=int(state.floor_number),
            floor_seq=int(state.floor_seq),
            next=int(cursor.next),
            delivered_ns=self._date(int(state.delivered_ns)),
            acked_ns=self._date(int(state.acked_ns)),
            gated=state.gated,
            listed_left=len(cursor.listed) - int(cursor.listed_at),
            active_ns=self._date(active_ns),
            passed_to=int(state.passed_to),
        )

    def _date(self, time_ns: int) -> int:
        return self._wall.at(time_ns) if time_ns else 0

    def _engine_time(self, date_ns: int, now: int) -> int:
        """When something was; it is not still to come when the clock was set back since."""
        return min(self._wall.engine_time(date_ns), now) if date_ns else 0

    def _rows(self, record: Record, *, whole: bool) -> None:
        state = self._state
        pending = state.pending
        first = 0 if whole else max(int(pending.saved_to - pending.trimmed), 0)
        for row in range(max(first, int(pending.head)), len(pending.seqs)):
            if pending.words[row] != GONE:
                record.seqs.append(int(pending.seqs[row]))
                record.numbers.append(int(pending.numbers[row]))
                deliveries = int(pending.deliveries(row))
                if whole and deliveries > 1:
                    record.counts[record.seqs[-1]] = deliveries
        if whole:
            cursor = state.cursor
            record.listed = cursor.packed or cursor.listed_left()
        else:
            floor = state.floor_seq
            record.acked = [int(seq) for seq in pending.acked if seq > floor]
            record.counts = pending.recounted
        record.spent = dict(state.spent)
        pending.saved()

    # Reading -----------------------------------------------------------------------------------

    def restore(self, state: bytes, changes: list[bytes], now: int) -> None:
        """Put a consumer where the records say. Raises ValueError."""
        record = _decode(state) if state else Record()
        rows = dict(zip(record.seqs, record.numbers, strict=True))
        counts = dict(record.counts)
        listed = record.listed
        for body in changes:
            change = _decode(body)
            if change.link != record.link + 1:
                break  # one is lost: what is known ends before it
            record = change
            rows.update(zip(record.seqs, record.numbers, strict=True))
            for seq in record.acked:
                rows.pop(seq, None)
            counts.update(record.counts)
        self._link = record.link
        self._whole_size = len(state)
        self._changes_size = sum(map(len, changes))
        self._whole_due = True  # what follows does not depend on how much could be read
        self._apply(record, rows, counts, listed, now)

    def _apply(
        self,
        record: Record,
        rows: dict[int, int],
        counts: dict[int, int],
        listed: list[int] | bytes,
        now: int,
    ) -> None:
        state = self._state
        state.restore(
            record.next,
            (record.number, record.seq),
            (record.floor_number, record.floor_seq),
            self._engine_time(record.delivered_ns, now),
            self._engine_time(record.acked_ns, now),
            record.gated,
            record.passed_to,
        )
        state.restore_messages(
            [(seq, rows[seq], counts.get(seq, 1)) for seq in sorted(rows)],
            record.spent,
            listed,
            record.listed_left,
        )
