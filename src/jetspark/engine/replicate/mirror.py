"""A mirror: the origin's messages under their own sequences and times, with its gaps."""

from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.copy import Copy
from jetspark.engine.stream.stream import Stream
from jetspark.store.gaps import stage_gap


class Mirror(Copy):
    """A stream that is the copy of another. Its own last sequence says how far it has come."""

    def meet(self, origin: Stream | None) -> None:
        """The stream that is copied is there, or there no more."""
        if origin is not self.origin and self.position >= 0:
            # Another stream of that name has other messages from here on.
            self.position = int(self.stream.log.staged_seq)
        super().meet(origin)

    def find_position(self, origin: Stream, _budget: Budget) -> bool:
        """Find out how far the copy had come: to its own last sequence."""
        log = self.stream.log
        start = self.starting_position(origin) if log.staged_seq == 0 else 0
        stage_gap(log, start)
        self.position = int(log.staged_seq)
        return True

    def failed(self) -> None:
        """What was staged is forgotten."""
        # Nobody was told of these sequences, and they are the origin's: they are used again, for
        # the same messages. A skip over them would be messages that the mirror never gets.
        log = self.stream.log
        log.staged_seq = log.index.last_seq
        log.staged_time = log.index.last_time
        log.skip_needed = False
        super().failed()

    def prepare(self, seq: int) -> None:
        """Something of this sequence of the origin is about to be staged."""
        stage_gap(self.stream.log, seq - 1)

    def at_end(self, _origin: Stream) -> None:
        """Everything that the origin has was looked at."""
        # Messages at the end that were deleted before they were copied: whoever asks for their
        # sequences (ADR-53) hears that the mirror is past them.
        if not self.filters and self.position > self.stream.log.staged_seq:
            stage_gap(self.stream.log, self.position)

    def time_for(self, stored_ns: int, _now: int) -> int:
        """When the copy is said to have been stored: when the original was."""
        return stored_ns
