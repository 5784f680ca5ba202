"""What the consumers of a stream need of it, and how they are notified of its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.index import StreamIndex

if TYPE_CHECKING:
    from jetspark.engine.consumer.delivery import Delivery
    from jetspark.engine.consumer.state import ConsumerState


class AttachedConsumers:
    """The consumers of one stream, and the copies that count as such."""

    def __init__(self) -> None:
        self.all: list[ConsumerState] = []
        # Those that have somebody to send to, or had until lately.
        self.receiving: list[Delivery] = []
        # A consumer could not be taken over: what it needs is not known.
        self.missing: bool = False

    def add(self, state: ConsumerState) -> None:
        """A consumer or a copy reads the stream from now on."""
        self.all.append(state)

    def remove(self, state: ConsumerState) -> None:
        """A consumer or a copy is gone."""
        self.all = [other for other in self.all if other is not state]
        self.receiving = [other for other in self.receiving if other.state is not state]

    def lose_one(self) -> None:
        """A consumer cannot be served: it stays on disk, and so does what it may need."""
        self.missing = True

    def receive(self, delivery: Delivery) -> None:
        """A consumer has somebody to send to."""
        if not delivery.receiving:
            delivery.receiving = True
            self.receiving.append(delivery)
        delivery.state.run_queue.add(delivery.state)

    def wants(self, subject: bytes) -> bool:
        """Say whether a consumer of the stream gets messages of a subject."""
        for state in self.all:  # noqa: SIM110 - a loop is compiled, a generator is not
            if state.cursor.matches(subject):
                return True
        return False

    def unneeded(self, index: StreamIndex, sequences: list[int]) -> list[int]:
        """Those of some messages that no consumer has to acknowledge any more."""
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
        """The messages of a range that no consumer needs; of a queue: that one had already."""
        found: list[int] = []
        seq = index.next_seq(first, b"")
        while 0 < seq <= last:
            columns = index.segment_of(seq)
            if columns is not None:
                number = i64(columns.subjects[seq - columns.base])
                if not self.needs(seq, number) and (
                    not queue or self.wants(index.entries[number].subject)
                ):
                    found.append(int(seq))
            seq = index.next_seq(seq + 1, b"")
        return found

    def needs(self, seq: i64, number: i64) -> bool:
        """Say whether a consumer still has to acknowledge a message."""
        for state in self.all:  # noqa: SIM110 - a loop is compiled, a generator is not
            if state.needs(seq, number):
                return True
        return False

    def wake(self) -> None:
        """The stream has more than before: called once per group."""
        idle = False
        for delivery in self.receiving:
            if delivery.has_receiver():
                delivery.state.run_queue.add(delivery.state)
            else:
                delivery.receiving = False
                idle = True
        if idle:
            self.receiving = [delivery for delivery in self.receiving if delivery.receiving]

    def note_removals(self, index: StreamIndex) -> list[tuple[ConsumerState, int]]:
        """Tell everybody which messages are gone; who waits for an acknowledgement of which."""
        pending: list[tuple[ConsumerState, int]] = []
        seqs = index.removed_seqs
        numbers = index.removed_subjects
        count: i64 = len(seqs)
        highest: i64 = 0
        i: i64 = 0
        while i < count:
            highest = max(highest, seqs[i])
            i += 1
        for state in self.all:
            if state.floor_seq >= highest and len(state.spent) == 0:
                continue
            i = 0
            while i < count:
                if state.removed(seqs[i], numbers[i]):
                    pending.append((state, int(seqs[i])))
                i += 1
        return pending
