"""The interest of copies: keeps messages in a stream until a copy has them on disk.

In a stream with interest or work-queue retention a copy counts as one more consumer: what it has
not stored is kept, also while the copy cannot store it, and what it has stored is removed when no
consumer needs it. Nothing has to be recorded for that: the copy knows its progress.
"""

from __future__ import annotations

from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.consumer.state import ACK_ALL, ConsumerState
from jetspark.engine.stream.stream import Stream


class CopyInterest:
    """The interest of one copy in its origin."""

    def __init__(self, stream: Stream, filters: list[bytes], run_queue: RunQueue) -> None:
        self._stream = stream
        self._cursor = Cursor(stream.log.index, filters)
        self._state = ConsumerState(
            stream, run_queue, self, self._cursor, journalled=False, is_copy=True
        )
        self._state.configure(ACK_ALL, keeps_interest=False)
        stream.attached.add(self._state)
        stream.log.index.track(True)

    def stored(self, position: int) -> bool:
        """Note that a copy has everything up to a sequence; True if something may be removed."""
        state = self._state
        found: list[int] = []
        seq = int(self._cursor.find(state.floor_seq + 1))
        while 0 < seq <= position:
            found.append(seq)
            seq = int(self._cursor.find(seq + 1))
        state.settle_up_to(position, found)
        return bool(state.released)

    def end(self) -> None:
        """End the interest: the copy was deleted."""
        attached = self._stream.attached
        attached.remove(self._state)
        self._stream.log.index.track(bool(attached.all))

    # Notifications that consumers of a stream get ----------------------------------------------

    def recount(self, _now: int) -> None:
        """Do nothing: it counts nothing."""

    def on_deleted(self, _seq: int, _now: int) -> None:
        """Do nothing: it waits for nothing."""
