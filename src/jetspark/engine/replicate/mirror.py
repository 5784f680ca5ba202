"""A mirror: the origin's messages under their own sequences and times, with its gaps."""

from typing import Final

from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.copy import Copy
from jetspark.engine.replicate.origin import Origin
from jetspark.engine.replicate.upstream import NOTHING, Newest

# The newest message is looked for among so many sequences.
NEWEST_ROWS: Final = 1_000


class Mirror(Copy):
    """A stream that is the copy of another. Its own last sequence says how far it has come."""

    def find_position(self, _origin: Origin, _budget: Budget) -> int:
        """Find out how far the copy had come: to its own last sequence.

        Another stream of the origin's name has other messages from there on.
        """
        return int(self.stream.log.staged.seq)

    def newest(self) -> Newest:
        """The newest message that it has, if that is one of the last sequences."""
        log = self.stream.log
        seq = int(log.index.newest_match(b">", NEWEST_ROWS))
        time_ns = int(log.reader.time_of(seq)) if seq > 0 else -1
        return Newest(seq, time_ns) if time_ns >= 0 else NOTHING

    def begun(self) -> None:
        """It is known where reading begins."""
        self.stream.log.staged.skip_to(self.position)

    def failed(self) -> None:
        """What was staged is forgotten."""
        # Nobody has seen these sequences, and they are the origin's: they are used again, for
        # the same messages. A skip over them would be messages that the mirror never gets.
        log = self.stream.log
        log.staged.reuse_sequences()
        super().failed()

    def prepare(self, seq: int) -> None:
        """Something of this sequence of the origin is about to be staged."""
        if seq - 1 > self.stream.log.staged.seq:
            self.stream.log.staged.skip_to(seq - 1)

    def at_end(self) -> None:
        """Everything that the origin has was looked at."""
        # Messages at the end that were deleted before they were copied: a read of their
        # sequences (ADR-53) hears that the mirror is past them.
        if not self.filters and self.position > self.stream.log.staged.seq:
            self.stream.log.staged.skip_to(self.position)

    def time_for(self, stored_ns: int, now: int) -> int:
        """The engine time that gives the copy the time of the original."""
        return int(self.stream.log.timeline.copied(stored_ns, now))
