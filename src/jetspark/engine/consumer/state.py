"""A consumer's state: delivered, acknowledged, pending. The journal records it.

Sequences are named as on the wire: stream sequence (``seq``), ``consumer_seq``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import packed, unpacked
from jetspark.engine.consumer.pending import GONE, Pending

if TYPE_CHECKING:
    from jetspark.engine.consumer.cursor import Cursor
    from jetspark.engine.consumer.run_queue import RunQueue
    from jetspark.engine.stream.stream import Stream

ACK_NONE: Final[i64] = 0
ACK_ALL: Final[i64] = 1
ACK_EXPLICIT: Final[i64] = 2

# One acknowledgement of more messages than this does not list them for the stream.
RELEASED_ONE_BY_ONE: Final[i64] = 16_384


class ConsumerState:
    """The state of one consumer. ``owner`` is the consumer, or the copy that reads like one.

    ``journalled``: the log records it; otherwise it ends with the process.
    """

    def __init__(
        self,
        stream: Stream,
        run_queue: RunQueue,
        owner: Any,
        cursor: Cursor,
        journalled: bool,
        is_copy: bool = False,
    ) -> None:
        self.stream: Stream = stream
        self.run_queue: RunQueue = run_queue
        self.owner: Any = owner
        self.cursor: Cursor = cursor
        self.pending: Pending = Pending()
        self.policy: i64 = ACK_NONE
        # The stream removes messages that all consumers acknowledged.
        self.keeps_interest: bool = False
        # Sequences: the last ones delivered, and the ack floor.
        self.consumer_seq: i64 = 0
        self.seq: i64 = 0
        self.floor_consumer_seq: i64 = 0
        self.floor_seq: i64 = 0
        self.delivered_ns: i64 = 0
        self.acked_ns: i64 = 0
        # Messages that were delivered max_deliver times, and stay in the stream.
        self.spent: dict[int, int] = {}
        # A reset skipped messages up to here: those that are left are unacknowledged.
        self.passed_to: i64 = 0
        # Acknowledged, and not yet processed by the stream.
        self.released: list[int] = []
        # Very many were: the first of them; 0: none.
        self.released_from: i64 = 0
        # The stream is not new enough yet (`min_last_seq`).
        self.gated: bool = False
        # Nothing is sent because of `max_ack_pending`.
        self.limited: bool = False
        # It is in the lists of the run queue: to deliver, to be journalled. Flags instead of sets
        # of the queue, because each message asks for them.
        self.listed: bool = False
        self.unsaved: bool = False
        self.journalled: bool = journalled
        self.is_copy: bool = is_copy

    def enlist(self) -> bool:
        """Note that the run queue lists it, to deliver; False if it does already."""
        if self.listed:
            return False
        self.listed = True
        return True

    def begin_turn(self) -> None:
        """Start its turn: it may be listed again."""
        self.listed = False

    def enlist_unsaved(self) -> bool:
        """Note that the run queue lists it, to be journalled; False if there is no need to."""
        if self.unsaved or not self.journalled:
            return False
        self.unsaved = True
        return True

    def saved(self) -> bool:
        """Note that its journal is written now; False if that is not needed any more."""
        was_unsaved = self.unsaved
        self.unsaved = False
        return was_unsaved

    # Starting ----------------------------------------------------------------------------------

    def place(self, start: i64) -> None:
        """Start, or restart, at a sequence."""
        self.cursor.place(start)
        self.consumer_seq = 0
        self.seq = start - 1
        self.floor_consumer_seq = 0
        self.floor_seq = start - 1
        self.delivered_ns = 0
        self.acked_ns = 0

    def start_at(self, start: i64) -> None:
        """Start at a sequence, with nothing pending; the rest is counted."""
        self.place(start)
        self.cursor.recount()

    def reset(self, start: i64, queue: bool) -> None:
        """Forget what was delivered, and restart at a sequence.

        ``queue``: the stream is a work queue, which keeps what is skipped.
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
        """Restore positions from the journal; ``following`` is the next message to visit."""
        self.cursor.place(following)
        self.consumer_seq, self.seq = delivered
        self.floor_consumer_seq, self.floor_seq = floor
        self.delivered_ns = delivered_ns
        self.acked_ns = acked_ns
        self.gated = gated
        self.passed_to = passed_to

    def restore_messages(
        self,
        rows: Pending,
        spent: dict[int, int],
        listed: list[int] | bytes,
        listed_left: int,
    ) -> None:
        """Restore pending messages from the journal, as far as they still exist.

        ``rows`` has only what the journal says; ``listed`` are the last
        messages of subjects, packed if there are many, of which so many are left.
        """
        cursor = self.cursor
        pending = self.pending
        self.spent = {seq: n for seq, n in spent.items() if cursor.exists(seq)}
        if listed_left > 0:
            sequences = unpacked(listed) if isinstance(listed, bytes) else vec[i64](listed)
            done: i64 = max(i64(0), i64(len(sequences)) - listed_left)
            cursor.list_first(
                sequences[done:], listed if isinstance(listed, bytes) else packed(sequences)
            )
        kept = False
        row: i64 = 0
        end: i64 = len(rows.seqs)
        while row < end:
            seq = rows.seqs[row]
            if rows.words[row] != GONE and seq > self.floor_seq and cursor.exists(seq):
                pending.add(seq, rows.consumer_seqs[row], rows.deliveries(row))
                kept = True
            row += 1
        if not kept and not self.spent:
            self.floor_consumer_seq = self.consumer_seq
            self.floor_seq = max(self.floor_seq, self.seq)
        pending.saved()
        # The time that the server was down counts as ack wait.
        pending.end_run(self.delivered_ns)
        cursor.recount()

    def gate(self, gated: bool) -> None:
        """Set whether the stream is not new enough yet."""
        self.gated = gated

    def disown(self) -> None:
        """Drop the reference to the consumer, which was deleted."""
        self.owner = None

    def configure(self, policy: i64, keeps_interest: bool) -> None:
        """Apply a configuration."""
        self.policy = policy
        self.keeps_interest = keeps_interest

    # Deliveries --------------------------------------------------------------------------------

    def delivered(self, seq: i64, consumer_seq: i64) -> None:
        """Note the first delivery of a message."""
        self.consumer_seq = consumer_seq
        self.cursor.advance(seq)
        self.seq = max(self.seq, seq)
        if self.policy == ACK_NONE:
            self.floor_consumer_seq = consumer_seq
            self.floor_seq = seq
            if self.keeps_interest:
                self.released.append(int(seq))
        else:
            self.pending.add(seq, consumer_seq, 1)

    def redelivered(self, row: i64, consumer_seq: i64, until: i64) -> None:
        """Note a redelivery of a pending message; its ack wait ends at ``until``."""
        self.consumer_seq = consumer_seq
        self.pending.again(row, until)

    def begin_run(self) -> None:
        """Start to deliver; `max_ack_pending` is checked again."""
        self.limited = False

    def stopped_by_limit(self, limited: bool) -> None:
        """Note whether `max_ack_pending` ended a run: then an acknowledgement continues it."""
        self.limited = limited

    def continue_run(self) -> None:
        """Deliver again: `max_ack_pending` allows more."""
        self.limited = False
        self.run_queue.add(self)

    def end_run(self, now: i64) -> None:
        """Set the delivery time of messages."""
        self.delivered_ns = now
        self.pending.end_run(now)
        self.run_queue.save(self, now)

    def give_up(self, row: i64) -> None:
        """Give up a message that was delivered max_deliver times: unacknowledged, it stays."""
        pending = self.pending
        self.spent[int(pending.seqs[row])] = int(pending.deliveries(row))
        pending.release(row)  # the floor does not advance

    # Acknowledgements --------------------------------------------------------------------------

    def release(self, seq: i64) -> None:
        """Release an acknowledged message: the stream may remove it."""
        if self.keeps_interest:
            self.released.append(int(seq))
            self.run_queue.add(self)

    def _release_rows(self, count: i64) -> None:
        """Release the messages of the oldest rows: the stream may remove them."""
        pending = self.pending
        row = pending.head
        stop = row + count
        while row < stop:
            if pending.words[row] != GONE:
                self.released.append(int(pending.seqs[row]))
            row += 1
        self.run_queue.add(self)

    def release_from(self, seq: i64) -> None:
        """Release very many messages: the stream looks for what it may remove from one on."""
        if self.released_from == 0 or seq < self.released_from:
            self.released_from = seq
        self.run_queue.add(self)

    def has_released(self) -> bool:
        """Return whether the stream has to process acknowledged messages."""
        return len(self.released) > 0 or self.released_from > 0

    def take_released_from(self) -> int:
        """Return from which message on very many were released since the last call; 0: none."""
        seq = int(self.released_from)
        self.released_from = 0
        return seq

    def acknowledged(self, now: i64) -> None:
        """Note that something was acknowledged, or needs that no longer, for the journal."""
        self.acked_ns = now
        if not self.unsaved:
            self.run_queue.save(self, now)

    def take_released(self) -> list[int]:
        """Return the messages that were acknowledged since the last call."""
        taken = self.released
        self.released = []
        return taken

    def remove_pending(self, row: i64) -> None:
        """Remove a message from the pending ones; the floor advances if it was the oldest."""
        pending = self.pending
        consumer_seq = pending.consumer_seqs[row]
        pending.release(row)
        if pending.count == 0:
            self.floor_consumer_seq = self.consumer_seq
            self.floor_seq = max(self.floor_seq, self.seq)
        elif consumer_seq == self.floor_consumer_seq + 1:
            self.floor_consumer_seq = pending.consumer_seqs[pending.head] - 1
            self.floor_seq = max(self.floor_seq, pending.seqs[pending.head] - 1)

    def remove_pending_up_to(self, seq: i64, consumer_seq: i64) -> None:
        """Acknowledge everything up to a message."""
        if seq <= self.floor_seq or consumer_seq <= self.floor_consumer_seq:
            return
        pending = self.pending
        rows = pending.rows_up_to(seq)
        if self.keeps_interest:
            if rows > RELEASED_ONE_BY_ONE:
                self.release_from(pending.seqs[pending.head])
            else:
                self._release_rows(rows)
        pending.release_rows(rows)
        if self.spent:
            self.spent = {late: n for late, n in self.spent.items() if late > seq}
        self.floor_seq = seq
        self.floor_consumer_seq = max(
            self.floor_consumer_seq, min(consumer_seq, self.consumer_seq)
        )

    def take_spent(self, seq: i64) -> bool:
        """Remove a message that was delivered max_deliver times; False if it is not one."""
        if not self.spent or int(seq) not in self.spent:
            return False
        del self.spent[int(seq)]
        return True

    def settle_up_to(self, seq: i64, released: list[int]) -> None:
        """Settle everything up to a sequence; the stream may remove these messages."""
        self.released += released
        self.floor_seq = max(self.floor_seq, seq)
        self.cursor.place(self.floor_seq + 1)

    def skip(self, seq: i64, row: i64) -> None:
        """Skip a message that cannot be sent: it was removed, or cannot be read."""
        if row >= 0:
            self.remove_pending(row)
        else:
            self.cursor.advance(seq)

    # Events of the stream ----------------------------------------------------------------------

    def removed(self, seq: i64, subject_id: i64) -> bool:
        """Note that a message was removed from the stream; True if it was pending here."""
        self.cursor.removed(seq, subject_id)
        if seq > self.seq or seq <= self.floor_seq:
            if self.spent:
                self.spent.pop(int(seq), None)
            return False
        if self.spent:
            self.spent.pop(int(seq), None)
        return self.pending.find(seq) >= 0

    def removed_together(self, lowest: i64, highest: i64, count: i64, many: bool) -> bool:
        """Note that ``count`` messages of a range were removed; False: each must be noted.

        ``many``: recounting, when that is needed, costs less than visiting each.
        """
        if len(self.spent) > 0:
            return False
        if self.floor_seq >= highest:
            return True
        if self.pending.count > 0 and lowest <= self.seq:
            return False
        return self.cursor.removed_together(lowest, highest, count, many)

    def needs(self, seq: i64, subject_id: i64) -> bool:
        """Return whether this consumer still has to acknowledge a message."""
        if not self.cursor.wants(subject_id):
            return False
        if seq >= self.cursor.next or seq <= self.passed_to or self.cursor.is_listed(seq):
            return True
        if self.spent and int(seq) in self.spent:
            return True
        if self.policy == ACK_EXPLICIT:
            return seq > self.floor_seq and self.pending.find(seq) >= 0
        return seq > self.floor_seq

    def recount(self) -> bool:
        """Recount after many messages were removed; True if something was pending."""
        pending = self.pending
        cursor = self.cursor
        cursor.recount_later()
        was_first: i64 = pending.consumer_seqs[pending.head] if pending.count > 0 else 0
        found = pending.release_missing(cursor.index) > 0
        if found and pending.count == 0:
            self.floor_consumer_seq = self.consumer_seq
            self.floor_seq = max(self.floor_seq, self.seq)
        elif found and was_first == self.floor_consumer_seq + 1:
            # As if they were removed one by one.
            self.floor_consumer_seq = pending.consumer_seqs[pending.head] - 1
            if self.floor_consumer_seq >= was_first:
                self.floor_seq = max(self.floor_seq, pending.seqs[pending.head] - 1)
        self.spent = {seq: count for seq, count in self.spent.items() if cursor.exists(seq)}
        return found

    def pass_by(self, start: i64, now: i64) -> bool:
        """Continue at a sequence after a purge; removed messages are no longer pending.

        False if nothing of that changed it: most of very many consumers may be unused, and their
        states need not be written again.
        """
        cursor = self.cursor
        if (
            self.consumer_seq == 0
            and self.pending.count == 0
            and not self.spent
            and start <= cursor.next <= self.floor_seq + 1
            and cursor.next <= self.seq + 1
            and self.floor_consumer_seq == 0
        ):
            cursor.place(cursor.next)
            cursor.recount_later()
            return False
        if self.consumer_seq > 0 and self.policy != ACK_NONE:
            self.acked_ns = now
        self._drop_before(start)
        cursor.place(max(cursor.next, start))
        if self.pending.count == 0:
            self.floor_consumer_seq = self.consumer_seq
            self.floor_seq = max(self.floor_seq, cursor.next - 1)
        self.seq = max(self.seq, cursor.next - 1)
        cursor.recount_later()
        return True

    def _drop_before(self, start: i64) -> None:
        """Forget pending messages that were removed, or are before the place to continue."""
        pending = self.pending
        cursor = self.cursor
        if self.floor_seq < start:
            self.floor_seq = start - 1
            rows = pending.rows_up_to(start - 1)
            row = pending.head + rows - 1
            while row >= pending.head:
                if pending.words[row] != GONE:
                    self.floor_consumer_seq = max(
                        self.floor_consumer_seq, pending.consumer_seqs[row]
                    )
                    break
                row -= 1
            pending.release_rows(rows)
        highest = pending.release_missing(cursor.index)
        self.floor_consumer_seq = max(self.floor_consumer_seq, highest)
        self.spent = {seq: n for seq, n in self.spent.items() if cursor.exists(seq)}
