"""The effect of a purge on consumers: they continue after it, as on released servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.subjects.match import is_subset

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.store.log.index import StreamIndex


class PurgeStarts:
    """Where consumers continue after purges: looked up once for all of them."""

    def __init__(self, index: StreamIndex) -> None:
        self._index = index
        self._found: dict[bytes, int] = {}

    def after(self, pattern: bytes) -> int:
        """Return the first message of a pattern that was purged; 0 if none is left."""
        index = self._index
        found = self._found.get(pattern)
        if found is None:
            found = int(index.next_match(max(index.purged_below(pattern), 1), pattern))
            self._found[pattern] = found
        return found


def on_purge(consumer: Consumer, pattern: bytes, starts: PurgeStarts, now: int) -> None:
    """Adjust a consumer to a purge of a pattern; an empty pattern means every subject.

    A consumer of nothing else continues at the first message left, or at the end; any other one at
    the first message of the stream. Removed messages are no longer pending.
    """
    state = consumer.state
    index = state.cursor.index
    filters = state.cursor.filters
    within = pattern in {b"", b">"} or (
        bool(filters) and all(is_subset(own, pattern) for own in filters)
    )
    wider = not filters or any(is_subset(pattern, own) for own in filters)
    if not within and not wider:
        return
    start = int(index.first_seq)
    if within and pattern:
        start = starts.after(pattern)
    if start == 0:
        start = int(index.last_seq) + 1
    state.pass_by(start, now)
    consumer.services.run_queue.save(state, now)
