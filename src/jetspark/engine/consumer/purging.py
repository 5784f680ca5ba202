"""The effect of a purge on consumers: they continue after it, as on released servers.

Very many consumers are adjusted in steps, some of them in each turn of the loop. One that is used
earlier is adjusted then: what a client sees is always as of after the purge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.subjects.match import is_subset

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.stream.stream import Stream
    from jetspark.store.log.index import StreamIndex

# This many consumers per turn are adjusted to one purge, or fewer to several.
ADJUSTED_PER_TURN: Final = 256


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
    if state.pass_by(start, now):
        consumer.services.run_queue.save(state, now)


class Adjustments:
    """The consumers of one account that purges have not reached yet, by stream."""

    def __init__(self) -> None:
        self.by_stream: dict[Stream, Lagging] = {}

    def add(self, stream: Stream, purges: list[bytes], now: int) -> None:
        """Adjust the consumers of a stream to purges, now if they are few, and count again."""
        if not stream.consumers:
            return
        lagging = self.by_stream.setdefault(stream, Lagging(stream.log.index))
        lagging.add(list(stream.consumers.values()), purges)
        if lagging.step(now, ADJUSTED_PER_TURN):
            del self.by_stream[stream]

    def reach(self, consumer: Consumer, now: int) -> None:
        """Adjust a consumer that is used."""
        lagging = self.by_stream.get(consumer.stream)
        if lagging is not None:
            lagging.reach(consumer, now)

    def step(self, now: int) -> None:
        """Adjust some consumers, of one stream in each turn."""
        for stream, lagging in list(self.by_stream.items())[:1]:
            del self.by_stream[stream]
            if not stream.dropped and not lagging.step(now, ADJUSTED_PER_TURN):
                self.by_stream[stream] = lagging  # after the others


class Lagging:
    """The consumers of one stream that purges have not reached yet."""

    def __init__(self, index: StreamIndex) -> None:
        self._index = index
        # The patterns in order of their last purges, each with its number.
        self._purges: dict[bytes, int] = {}
        self._count = 0
        # The consumers, each with the number of the first purge that it has to be adjusted to.
        self._waiting: dict[Consumer, int] = {}

    def add(self, consumers: list[Consumer], purges: list[bytes]) -> None:
        """Let consumers be adjusted to purges that became durable."""
        first = self._count
        for pattern in purges:
            self._purges.pop(pattern, None)
            self._purges[pattern] = self._count
            self._count += 1
        for consumer in consumers:
            self._waiting.setdefault(consumer, first)

    def reach(self, consumer: Consumer, now: int) -> None:
        """Adjust one of them, if it is."""
        first = self._waiting.pop(consumer, -1)
        if first >= 0:
            self._adjust(consumer, first, PurgeStarts(self._index), now)

    def step(self, now: int, most: int) -> bool:
        """Adjust some, those first that wait for the longest time; True when all are adjusted."""
        starts = PurgeStarts(self._index)
        for consumer in list(self._waiting)[: max(1, most // max(1, len(self._purges)))]:
            self._adjust(consumer, self._waiting.pop(consumer), starts, now)
        return not self._waiting

    def _adjust(self, consumer: Consumer, first: int, starts: PurgeStarts, now: int) -> None:
        if consumer.delivery.dropped:
            return
        for pattern, number in self._purges.items():
            if number >= first:
                on_purge(consumer, pattern, starts, now)
        consumer.recount(now)
