"""Purges of very many messages: in steps, so that other work does not wait for them.

A purge that keeps something visits every message it removes, and with a filter all others too,
unless few subjects match. It is split into steps by sequence; each is a purge of its own in the
log, and the next one follows when it is durable. The end of the range is fixed when the purge is
requested. The answer is sent with the last step.
"""

from collections.abc import Callable

from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import StoreReadOnly


class LongPurge:
    """One purge in progress; ``done(purged)`` answers it, ``failed`` reports that it cannot."""

    def __init__(
        self,
        stream: Stream,
        end: int,
        done: Callable[[int], None],
        failed: Callable[[], None],
        pattern: bytes,
        step: int,
    ) -> None:
        self.stream = stream
        self._end = end
        self._pattern = pattern
        self._at = int(stream.log.index.first_seq)
        self._step = step
        self._done = done
        self._failed = failed
        self._purged = 0

    def give_up(self) -> None:
        """Give up: it cannot continue."""
        self._failed()

    def step(self) -> bool:
        """Stage the next step; True when that was the last one."""
        log = self.stream.log
        at = int(log.index.after_gap(max(self._at, int(log.index.first_seq))))
        bound = self._at = min(at + self._step, self._end)
        try:
            self._purged += int(log.staged.purge(bound, self._pattern, 0))
        except StoreReadOnly:
            self._failed()
            return True
        if bound < self._end:
            return False
        # Consumers continue after the whole purge; until then they count what was removed.
        self.stream.replies.hold_purge(self._pattern)
        self._done(self._purged)
        return True


class Purges:
    """The long purges of an engine, at most one step of each in flight."""

    def __init__(self, mark_dirty: Callable[[Stream], None]) -> None:
        self.by_stream: dict[Stream, list[LongPurge]] = {}
        self._mark_dirty = mark_dirty

    def start(self, purge: LongPurge) -> None:
        """Start a purge; it waits for earlier ones of the same stream."""
        waiting = self.by_stream.setdefault(purge.stream, [])
        waiting.append(purge)
        if len(waiting) == 1:
            self.next_step(purge.stream)

    def next_step(self, stream: Stream) -> None:
        """Continue with the next step: what was staged is durable."""
        waiting = self.by_stream.get(stream)
        if waiting is None:
            return
        if waiting[0].step():
            waiting.pop(0)
        if not waiting:
            del self.by_stream[stream]
        self._mark_dirty(stream)

    def end(self, stream: Stream) -> None:
        """End the purges of a stream: it was deleted, or its disk failed."""
        for purge in self.by_stream.pop(stream, []):
            purge.give_up()
