"""Where one consumer is in its stream: delivered, acknowledged, pending. What the journal keeps.

The sequences of the wire are called as on the wire: stream sequence (``seq``), consumer sequence
(``number``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import packed, unpacked
from jetspark.engine.consumer.pending import Pending

if TYPE_CHECKING:
    from jetspark.engine.consumer.cursor import Cursor
    from jetspark.engine.consumer.run_queue import RunQueue
    from jetspark.engine.stream.stream import Stream

ACK_NONE: Final[i64] = 0
ACK_ALL: Final[i64] = 1
ACK_EXPLICIT: Final[i64] = 2


class ConsumerState:
    """The state of one consumer. ``owner`` is the consumer, or what reads the stream as one.

    ``journalled``: the log records it, or else it ends with the process.
    """

    def __init__(
        self, stream: Stream, run_queue: RunQueue, owner: Any, cursor: Cursor, journalled: bool
    ) -> None:
        self.stream: Stream = stream
        self.run_queue: RunQueue = run_queue
        self.owner: Any = owner
        self.cursor: Cursor = cursor
        self.pending: Pending = Pending()
        self.policy: i64 = ACK_NONE
        # The stream removes what everybody acknowledged.
        self.keeps_interest: bool = False
        # Sequences: the last ones delivered, and the ack floor.
        self.number: i64 = 0
        self.seq: i64 = 0
        self.floor_number: i64 = 0
        self.floor_seq: i64 = 0
        self.delivered_ns: i64 = 0
        self.acked_ns: i64 = 0
        # Messages that were delivered as often as they may be, and stay in the stream.
        self.spent: dict[int, int] = {}
        # A reset passed over messages up to here: nobody acknowledged those that are left.
        self.passed_to: i64 = 0
        # Acknowledged, and not yet looked at by the stream.
        self.released: list[int] = []
        # The stream is not new enough yet (`min_last_seq`).
        self.gated: bool = False
        # Nothing goes out because of `max_ack_pending`.
        self.limited: bool = False
        # It is in the lists of the run_queue: to deliver, to be journalled.
        self.listed: bool = False
        self.unsaved: bool = False
        self.journalled: bool = journalled

    # Starting ----------------------------------------------------------------------------------

    def place(self, start: i64) -> None:
        """Begin, or begin again, at a sequence."""
        self.cursor.place(start)
        self.number = 0
        self.seq = start - 1
        self.floor_number = 0
        self.floor_seq = start - 1
        self.delivered_ns = 0
        self.acked_ns = 0

    def start_at(self, start: i64) -> None:
        """Begin at a sequence, with nothing pending; what is left is counted."""
        self.place(start)
        self.cursor.recount()

    def reset(self, start: i64, queue: bool) -> None:
        """Forget what was delivered, and begin again at a sequence.

        ``queue``: the stream is a work queue, which keeps what is passed over.
        """
        if queue and start - 1 > self.floor_seq:
            self.passed_to = start - 1
        else:
            self.passed_to = min(self.passed_to, start - 1)
        self.pending = Pending()
        self.spent = {}
        self.cursor.list_first(vec[i64](), b"")
        self.start_at(start)

    def restore(
        self,
        following: i64,
        delivered: tuple[int, int],
        floor: tuple[int, int],
        delivered_ns: i64,
        acked_ns: i64,
        gated: bool,
        passed_to: i64,
    ) -> None:
        """Be where the journal says; ``following`` is the next message to look at."""
        self.cursor.place(following)
        self.number, self.seq = delivered
        self.floor_number, self.floor_seq = floor
        self.delivered_ns = delivered_ns
        self.acked_ns = acked_ns
        self.gated = gated
        self.passed_to = passed_to

    def restore_messages(
        self,
        rows: list[tuple[int, int, int]],
        spent: dict[int, int],
        listed: list[int] | bytes,
        listed_left: int,
    ) -> None:
        """Know the messages that the journal says are pending, as far as they still exist.

        Rows are sequence, consumer sequence and deliveries, in order; ``listed`` are the last
        messages of subjects, in bytes if there are many, of which so many are left.
        """
        cursor = self.cursor
        pending = self.pending
        self.spent = {seq: n for seq, n in spent.items() if cursor.is_there(seq)}
        if listed_left > 0:
            sequences = unpacked(listed) if isinstance(listed, bytes) else vec[i64](listed)
            done: i64 = max(i64(0), i64(len(sequences)) - listed_left)
            cursor.list_first(
                sequences[done:], listed if isinstance(listed, bytes) else packed(sequences)
            )
        kept = False
        for seq, number, deliveries in rows:
            if seq > self.floor_seq and cursor.is_there(seq):
                pending.add(seq, number, deliveries)
                kept = True
        if not kept and not self.spent:
            self.floor_number = self.number
            self.floor_seq = max(self.floor_seq, self.seq)
        pending.saved()
        # As long as the server was away counts as time to acknowledge.
        pending.end_run(self.delivered_ns)
        cursor.recount()

    def gate(self, gated: bool) -> None:
        """Say whether the stream is not new enough yet."""
        self.gated = gated

    def disown(self) -> None:
        """Its consumer is gone, and nothing leads there any more."""
        self.owner = None

    def configure(self, policy: i64, keeps_interest: bool) -> None:
        """Go by another configuration from now on."""
        self.policy = policy
        self.keeps_interest = keeps_interest

    # Deliveries --------------------------------------------------------------------------------

    def delivered(self, seq: i64, number: i64) -> None:
        """A message was delivered for the first time."""
        self.number = number
        self.cursor.advance(seq)
        self.seq = max(self.seq, seq)
        if self.policy == ACK_NONE:
            self.floor_number = number
            self.floor_seq = seq
            if self.keeps_interest:
                self.released.append(int(seq))
        else:
            self.pending.add(seq, number, 1)

    def redelivered(self, row: i64, number: i64, until: i64) -> None:
        """A pending message was delivered again; it may take until then."""
        self.number = number
        self.pending.again(row, until)

    def end_run(self, now: i64) -> None:
        """Messages were delivered at a time."""
        self.delivered_ns = now
        self.pending.end_run(now)
        self.run_queue.save(self, now)

    def give_up(self, row: i64) -> None:
        """A message was delivered as often as it may be: nobody acknowledged it, it stays."""
        pending = self.pending
        self.spent[int(pending.seqs[row])] = int(pending.deliveries(row))
        pending.release(row)  # the floor does not move

    # Acknowledgements --------------------------------------------------------------------------

    def release(self, seq: i64) -> None:
        """A message is acknowledged: the stream may remove it."""
        if self.keeps_interest:
            self.released.append(int(seq))
            self.run_queue.add(self)

    def acknowledged(self, now: i64) -> None:
        """Something was acknowledged, or needs that no longer: the journal hears of it."""
        self.acked_ns = now
        if not self.unsaved:
            self.run_queue.save(self, now)

    def take_released(self) -> list[int]:
        """The messages that were acknowledged since this was asked last."""
        taken = self.released
        self.released = []
        return taken

    def let_go(self, row: i64) -> None:
        """A message is not pending any more; the floor moves when it was the oldest."""
        pending = self.pending
        number = pending.numbers[row]
        pending.release(row)
        if pending.count == 0:
            self.floor_number = self.number
            self.floor_seq = max(self.floor_seq, self.seq)
        elif number == self.floor_number + 1:
            self.floor_number = pending.numbers[pending.head] - 1
            self.floor_seq = max(self.floor_seq, pending.seqs[pending.head] - 1)

    def let_go_up_to(self, seq: i64, number: i64) -> None:
        """Everything up to a message is acknowledged."""
        if seq <= self.floor_seq or number <= self.floor_number:
            return
        pending = self.pending
        while pending.head < i64(len(pending.seqs)) and pending.seqs[pending.head] <= seq:
            gone = pending.seqs[pending.head]
            pending.release(pending.head)
            self.release(gone)
        if self.spent:
            self.spent = {late: n for late, n in self.spent.items() if late > seq}
        self.floor_seq = seq
        self.floor_number = max(self.floor_number, min(number, self.number))

    def settle_up_to(self, seq: i64, released: list[int]) -> None:
        """Everything up to a sequence is done with, and the stream may remove these messages."""
        self.released += released
        self.floor_seq = max(self.floor_seq, seq)
        self.cursor.place(self.floor_seq + 1)

    def skip(self, seq: i64, row: i64) -> None:
        """A message that was to be sent cannot be: it is gone, or cannot be read."""
        if row >= 0:
            self.let_go(row)
        else:
            self.cursor.advance(seq)

    # What happens to the stream ----------------------------------------------------------------

    def removed(self, seq: i64, number: i64) -> bool:
        """A message was removed from the stream; True when it was pending here."""
        self.cursor.removed(seq, number)
        if seq > self.seq or seq <= self.floor_seq:
            if self.spent:
                self.spent.pop(int(seq), None)
            return False
        if self.spent:
            self.spent.pop(int(seq), None)
        return self.pending.find(seq) >= 0

    def needs(self, seq: i64, number: i64) -> bool:
        """Say whether a message of the stream is still to be acknowledged here."""
        if not self.cursor.wants(number):
            return False
        if seq >= self.cursor.next or seq <= self.passed_to or self.cursor.is_listed(seq):
            return True
        if self.spent and int(seq) in self.spent:
            return True
        if self.policy == ACK_EXPLICIT:
            return seq > self.floor_seq and self.pending.find(seq) >= 0
        return seq > self.floor_seq

    def recount(self) -> bool:
        """Much left the stream: look at everything again; True when something was pending."""
        pending = self.pending
        cursor = self.cursor
        cursor.recount()
        gone = [
            int(pending.seqs[row])
            for row in range(int(pending.head), len(pending.seqs))
            if not cursor.is_there(pending.seqs[row])
        ]
        for seq in gone:
            row = pending.find(seq)
            if row >= 0:
                self.let_go(row)
        self.spent = {seq: count for seq, count in self.spent.items() if cursor.is_there(seq)}
        return len(gone) > 0

    def pass_by(self, start: i64, now: i64) -> None:
        """A purge took messages: go on at a sequence; what is gone is not pending any more."""
        if self.number > 0:
            self.acked_ns = now
        self._drop_before(start)
        cursor = self.cursor
        cursor.place(max(cursor.next, start))
        if self.pending.count == 0:
            self.floor_number = self.number
            self.floor_seq = max(self.floor_seq, cursor.next - 1)
        self.seq = max(self.seq, cursor.next - 1)
        cursor.recount()

    def _drop_before(self, start: i64) -> None:
        """Forget what was pending and is gone, or lies before the place to go on at."""
        pending = self.pending
        cursor = self.cursor
        moved = self.floor_seq < start
        if moved:
            self.floor_seq = start - 1
        gone = [
            int(pending.seqs[row])
            for row in range(int(pending.head), len(pending.seqs))
            if pending.words[row]
            and ((moved and pending.seqs[row] < start) or not cursor.is_there(pending.seqs[row]))
        ]
        for seq in gone:
            row = pending.find(seq)
            self.floor_number = max(self.floor_number, pending.numbers[row])
            pending.release(row)
        self.spent = {seq: n for seq, n in self.spent.items() if cursor.is_there(seq)}
