"""The consumers of a stream: what they still need, and how they are notified of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.index import StreamIndex

if TYPE_CHECKING:
    from jetspark.engine.consumer.delivery import Delivery
    from jetspark.engine.consumer.state import ConsumerState


# Consumers are notified of each removed message if that takes at most this many visits at once.
VISITED_AT_ONCE: Final[i64] = 65_536


class AttachedConsumers:
    """The consumers of one stream, and the copies that count as consumers."""

    def __init__(self) -> None:
        self.all: list[ConsumerState] = []
        # Those that have a receiver, or had one recently.
        self.receiving: list[Delivery] = []
        # A consumer could not be adopted: what it needs is unknown.
        self.missing: bool = False

    def add(self, state: ConsumerState) -> None:
        """Attach a consumer or a copy."""
        self.all.append(state)

    def remove(self, state: ConsumerState) -> None:
        """Detach a consumer or a copy."""
        # New lists: a caller may be iterating over the old ones. By slices, as there may be many.
        at: i64 = len(self.all) - 1
        while at >= 0 and self.all[at] is not state:
            at -= 1
        if at >= 0:
            self.all = self.all[:at] + self.all[at + 1 :]
        at = len(self.receiving) - 1
        while at >= 0 and self.receiving[at].state is not state:
            at -= 1
        if at >= 0:
            self.receiving = self.receiving[:at] + self.receiving[at + 1 :]

    def remove_all(self, states: list[ConsumerState]) -> None:
        """Detach many."""
        removed = {id(state) for state in states}
        self.all = [state for state in self.all if id(state) not in removed]
        self.receiving = [each for each in self.receiving if id(each.state) not in removed]

    def lose_one(self) -> None:
        """Note that a consumer cannot be served: it stays on disk, with everything it may need."""
        self.missing = True

    def receive(self, delivery: Delivery) -> None:
        """Note that a consumer has a receiver."""
        if delivery.enlist_receiving():
            self.receiving.append(delivery)
        delivery.state.run_queue.add(delivery.state)

    def wants(self, subject: bytes) -> bool:
        """Return whether a consumer of the stream receives messages of a subject."""
        for state in self.all:  # noqa: SIM110 - a loop is compiled, a generator is not
            if state.cursor.matches(subject):
                return True
        return False

    def unneeded(self, index: StreamIndex, sequences: list[int]) -> list[int]:
        """Return those messages that no consumer still has to acknowledge."""
        found: list[int] = []
        for seq in sequences:
            columns = index.segment_of(seq)
            if columns is None or columns.offsets[seq - columns.base] == NOWHERE:
                continue
            if not self.needs(seq, i64(columns.subjects[seq - columns.base])):
                found.append(seq)
        return found

    def unneeded_between(
        self, index: StreamIndex, first: i64, last: i64, queue: bool
    ) -> list[int]:
        """Return the messages of a range that no consumer needs; in a queue: that one had."""
        found: list[int] = []
        seq = index.next_seq(first, b"")
        while 0 < seq <= last:
            columns = index.segment_of(seq)
            if columns is not None:
                subject_id = i64(columns.subjects[seq - columns.base])
                if not self.needs(seq, subject_id) and (
                    not queue or self.wants(index.entries[subject_id].subject)
                ):
                    found.append(int(seq))
            seq = index.next_seq(seq + 1, b"")
        return found

    def needs(self, seq: i64, subject_id: i64) -> bool:
        """Return whether a consumer still has to acknowledge a message."""
        for state in self.all:  # noqa: SIM110 - a loop is compiled, a generator is not
            if state.needs(seq, subject_id):
                return True
        return False

    def wake(self) -> None:
        """Wake the consumers after a group was committed."""
        idle = False
        for delivery in self.receiving:
            if delivery.has_receiver():
                delivery.state.run_queue.add(delivery.state)
            else:
                delivery.stop_receiving()
                idle = True
        if idle:
            self.receiving = [delivery for delivery in self.receiving if delivery.receiving]

    def count_again(self) -> list[ConsumerState]:
        """Let all consumers recount what is left for them; return the copies."""
        copies: list[ConsumerState] = []
        for state in self.all:
            state.cursor.recount_later()
            if state.is_copy:
                copies.append(state)
        return copies

    def note_removals(self, index: StreamIndex) -> list[tuple[ConsumerState, int]]:
        """Notify all of removed messages; return which of them had which message pending."""
        pending: list[tuple[ConsumerState, int]] = []
        seqs = index.removed_seqs
        subject_ids = index.removed_subjects
        count: i64 = len(seqs)
        highest: i64 = 0
        lowest: i64 = index.last_seq
        i: i64 = 0
        while i < count:
            highest = max(highest, seqs[i])
            lowest = min(lowest, seqs[i])
            i += 1
        many = count * i64(len(self.all)) > VISITED_AT_ONCE
        for state in self.all:
            if state.removed_together(lowest, highest, count, many):
                continue
            i = 0
            while i < count:
                if state.removed(seqs[i], subject_ids[i]):
                    pending.append((state, int(seqs[i])))
                i += 1
        return pending
