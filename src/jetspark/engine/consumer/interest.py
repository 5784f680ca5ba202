"""Interest and work-queue retention: removes messages that no consumer needs.

Acknowledged messages are processed once per turn; those that are no longer needed are deleted as
ranges, staged like every delete, so readers no longer see them once that is durable. When interest
itself changes (a consumer is deleted, gets other filters, or recovers after a crash), the whole
stream is scanned, some of it per turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jetspark.api.enums import Retention
from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.consumer.state import ConsumerState
from jetspark.engine.stream.stream import Stream

# What one turn scans.
# Rows that a scan visits per turn, and how many consumers may be asked about all of them.
ROWS_PER_TURN: Final = 20_000
ASKED_PER_TURN: Final = 8 * ROWS_PER_TURN


class Interest:
    """Removes messages that no consumer of their stream needs any more."""

    def __init__(self, run_queue: RunQueue, mark_dirty: Callable[[Stream], None]) -> None:
        self._run_queue = run_queue
        self._mark_dirty = mark_dirty
        # Streams whose interest changed, and where to continue the scan.
        self._sweeps: dict[Stream, int] = {}

    def acknowledged(self, state: ConsumerState) -> None:
        """Handle acknowledged messages in a stream with interest or work-queue retention."""
        released = state.take_released()
        many_from = state.take_released_from()
        stream = state.stream
        attached = stream.attached
        if stream.config.retention == Retention.INTEREST and attached.missing:
            return
        if stream.config.retention == Retention.LIMITS or stream.dropped:
            return
        if many_from:
            released.append(many_from)
        if not released:
            return
        if many_from or len(released) * len(attached.all) > ASKED_PER_TURN:
            # One acknowledgement may release all messages: they are found in steps.
            first = min(released)
            self._sweeps[stream] = min(first, self._sweeps.get(stream, first))
            self._run_queue.wake()
            return
        self._delete(stream, attached.unneeded(stream.log.index, sorted(released)))

    def changed(self, stream: Stream) -> None:
        """Handle a change of interest: the stream may keep too many messages."""
        if stream.config.retention == Retention.LIMITS or stream.dropped:
            return
        by_interest = stream.config.retention == Retention.INTEREST
        if by_interest and stream.attached.missing:
            return
        if by_interest and not stream.attached.all:
            self._sweeps.pop(stream, None)
            if stream.log.staged.messages > 0 and not stream.log.access.read_only:
                stream.log.staged.purge(0, b"", 0)
                self._mark_dirty(stream)
            return
        self._sweeps[stream] = int(stream.log.index.first_seq)
        # The first part now: the answer to the client that changed it waits for the same group, so
        # a consumer created after that answer does not see unneeded messages.
        self._sweep_some(stream)
        self._run_queue.wake()

    def is_changing(self) -> bool:
        """Return whether ``sweep`` has something to do."""
        return bool(self._sweeps)

    def forget(self, stream: Stream) -> None:
        """Forget a deleted stream."""
        self._sweeps.pop(stream, None)

    def sweep(self) -> bool:
        """Scan some of the streams whose interest changed; True while some remain."""
        for stream in list(self._sweeps):
            if self._sweep_some(stream):
                break
        return bool(self._sweeps)

    def _sweep_some(self, stream: Stream) -> bool:
        """Scan the next part of a stream; False if there is none.

        A change of retention, or one that the disk refused, may have ended the scan.
        """
        attached = stream.attached
        first = int(stream.log.index.after_gap(self._sweeps[stream]))
        keeps_all = stream.dropped or stream.config.retention == Retention.LIMITS
        if keeps_all or first > stream.log.index.last_seq:
            del self._sweeps[stream]
            return False
        asked = max(1, ASKED_PER_TURN // max(1, len(attached.all)))
        last = first + min(ROWS_PER_TURN, asked) - 1
        queue = stream.config.retention == Retention.WORKQUEUE
        found = attached.unneeded_between(stream.log.index, first, last, queue)
        self._delete(stream, found)
        self._sweeps[stream] = last + 1
        return True

    def _delete(self, stream: Stream, sequences: list[int]) -> None:
        """Stage the deletion of messages, as ranges."""
        if not sequences or stream.log.access.read_only:
            return
        first = last = sequences[0]
        for seq in sequences[1:]:
            if seq > last + 1:
                stream.log.staged.delete_range(first, last)
                first = seq
            last = seq
        stream.log.staged.delete_range(first, last)
        self._mark_dirty(stream)
