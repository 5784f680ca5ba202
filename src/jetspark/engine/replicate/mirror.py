"""A mirror: the origin's messages with their sequences and times, and its gaps."""

from typing import Final

from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.copy import CannotCopy, Copy
from jetspark.engine.replicate.origin import Origin
from jetspark.engine.replicate.upstream import NOTHING, Newest
from jetspark.store.format.segment import SEQUENCE_LIMIT
from jetspark.store.log.timeline import LATEST_STORED

LATEST: Final = int(LATEST_STORED)
# The newest message is searched for among this many sequences.
NEWEST_ROWS: Final = 1_000


class Mirror(Copy):
    """A stream that is the copy of another. Its own last sequence is its progress."""

    def find_position(self, _origin: Origin, _budget: Budget) -> int:
        """Return the progress of the copy: its own last sequence.

        A new stream with the origin's name has other messages from there on.
        """
        return int(self.stream.log.staged.seq)

    def newest(self) -> Newest:
        """Return the newest message that it has, if it is among the last sequences."""
        log = self.stream.log
        seq = int(log.index.newest_match(b">", NEWEST_ROWS))
        time_ns = int(log.reader.time_of(seq)) if seq > 0 else -1
        return Newest(seq, time_ns) if time_ns >= 0 else NOTHING

    def position_found(self) -> None:
        """Called once the position is known that reading starts at."""
        _check(self.position)
        self.stream.log.staged.skip_to(self.position)

    def failed(self) -> None:
        """Forget what was staged."""
        # No reader has seen these sequences, and they are the origin's: they are reused, for the
        # same messages. A skip over them would be messages that the mirror never gets.
        log = self.stream.log
        log.staged.reuse_sequences()
        super().failed()

    def prepare(self, seq: int) -> None:
        """Prepare to stage something of this sequence of the origin."""
        _check(seq)
        if seq - 1 > self.stream.log.staged.seq:
            self.stream.log.staged.skip_to(seq - 1)

    def at_end(self) -> None:
        """Note that everything in the origin was read."""
        # Messages at the end that were deleted before they were copied: a read of their sequences
        # (ADR-53) must see that the mirror is past them.
        if not self.filters and self.position > self.stream.log.staged.seq:
            _check(self.position)
            self.stream.log.staged.skip_to(self.position)

    def time_for(self, stored_ns: int, now: int) -> int:
        """Return the engine time that gives the copy the time of the original."""
        # Another server may send any number; a later time is stored as this one anyway.
        stored_ns = min(max(stored_ns, 0), LATEST)
        return int(self.stream.log.timeline.copied(stored_ns, now))


def _check(seq: int) -> None:
    """Refuse a sequence that the store cannot hold; other servers count up to 2**64 - 1."""
    if seq > SEQUENCE_LIMIT:
        raise CannotCopy(
            f"the origin is at sequence {seq}, and a mirror on this server holds sequences up to "
            f"{SEQUENCE_LIMIT}; copy it with a source instead, which assigns its own"
        )
