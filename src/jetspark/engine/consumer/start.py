"""Where a consumer starts: the deliver policy, looked up in the index (wire.md, Consumers).

No message is read, except for ``by_start_time``, whose binary search reads the times of a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.api.enums import DeliverPolicy
from jetspark.engine.consumer.cursor import (
    FILTERS_LOOKED_UP_MAX,
    SUBJECTS_COUNTED,
    SUBJECTS_JUDGED_MAX,
    Cursor,
    Listing,
    weight_of,
)
from jetspark.steps import ITEMS, USUAL, Pace
from jetspark.store.log.pattern_search import UNKNOWN, LastSearch
from jetspark.subjects.tokens import is_literal

if TYPE_CHECKING:
    from collections.abc import Generator

    from jetspark.api.consumer import ConsumerConfig
    from jetspark.engine.consumer.state import ConsumerState
    from jetspark.engine.stream.stream import Stream
    from jetspark.subjects.pattern_set import PatternSet


class Findings(NamedTuple):
    """Results of searches in steps before a consumer is created.

    ``listing`` has the last messages of its subjects, ``newest`` is the last message of all of
    them, ``filters`` and ``patterns`` are its filters, in order and as a set.
    """

    listing: Listing | None = None
    newest: int | None = None
    filters: list[bytes] | None = None
    patterns: PatternSet | None = None


NO_FINDINGS: Final = Findings()


def begin(state: ConsumerState, config: ConsumerConfig, findings: Findings = NO_FINDINGS) -> None:
    """Set a new consumer to its first message."""
    listing = findings.listing
    cursor = state.cursor
    index = cursor.index
    cursor.list_first(vec[i64](), b"")
    first = int(index.first_seq)
    last = int(index.last_seq)
    policy = config.deliver_policy
    lists = lists_subjects(state.stream, config)
    listed = vec[i64]()
    packed = b""
    listed_last = last
    start = first
    if config.opt_start_seq:
        start = config.opt_start_seq
    elif policy == DeliverPolicy.LAST:
        start = newest(state) if findings.newest is None else findings.newest
    elif lists:
        if listing is None:
            listed = vec[i64](newest_of_each(cursor))
        else:
            listed, listed_last = listing.found, int(listing.last)
            packed = listing.packer.writer.getvalue()
        start = int(listed[0]) if len(listed) > 0 else last
    elif config.opt_start_time is not None:
        start = closer(state, int(state.stream.log.reader.first_at(config.opt_start_time)))
    elif policy == DeliverPolicy.NEW:
        start = last + 1
    if first == 0 and not config.opt_start_seq:
        start = 1
    elif start > last and not config.opt_start_seq:
        start = last + 1
    else:
        start = max(start, first, 1)
    state.place(start)
    if lists:
        cursor.list_first(listed, packed)
        cursor.place(listed_last + 1)
    cursor.recount()


def closer(state: ConsumerState, start: int) -> int:
    """Return the first message for this consumer, which released servers show as the start."""
    index = state.cursor.index
    last = int(index.last_seq)
    if len(state.cursor.filters) > FILTERS_LOOKED_UP_MAX:
        return start
    firsts = [int(index.quick_next(1, pattern)) for pattern in state.cursor.filters]
    if UNKNOWN in firsts:
        return start  # all subjects would have to be compared with a filter
    nearest = min((first for first in firsts if start <= first < last), default=0)
    return nearest or start


def newest(state: ConsumerState) -> int:
    """Return the last message for this consumer; the last of all without filters."""
    index = state.cursor.index
    if not state.cursor.filters:
        return int(index.last_seq)
    return max(int(index.last_match(pattern)) for pattern in state.cursor.filters)


def finding_newest(
    stream: Stream, config: ConsumerConfig, filters: list[bytes]
) -> Generator[None, None, int | None]:
    """Find the last message for a consumer with filters in steps; None for others."""
    if config.deliver_policy != DeliverPolicy.LAST or not filters:
        return None
    index = stream.log.index
    pace = Pace()
    found = 0
    for pattern in filters:
        # A wildcard may be compared with many subjects.
        if pace.is_due(len(pattern) if is_literal(pattern) else ITEMS * USUAL):
            yield
        last = int(index.quick_last(pattern))
        if last == UNKNOWN:
            search = LastSearch(index, pattern)
            while not search.step():
                yield
            last = int(search.last)
        found = max(found, last)
    return found


def lists_subjects(stream: Stream, config: ConsumerConfig) -> bool:
    """Return whether a consumer starts with a list: the last message of each of its subjects."""
    if config.opt_start_seq or config.deliver_policy != DeliverPolicy.LAST_PER_SUBJECT:
        return False
    # With 1 every message is its subject's last.
    return stream.config.max_msgs_per_subject != 1


def long_listing(
    stream: Stream, config: ConsumerConfig, filters: list[bytes], patterns: PatternSet | None
) -> Listing | None:
    """Return the search for the list of a consumer in steps, if it is too much for one turn."""
    index = stream.log.index
    many = len(filters) > FILTERS_LOOKED_UP_MAX
    at_once = SUBJECTS_JUDGED_MAX // weight_of(patterns) if many else SUBJECTS_COUNTED
    if not lists_subjects(stream, config) or len(index.entries) <= at_once:
        return None
    if filters and not many and index.few_entries(filters, SUBJECTS_COUNTED) is not None:
        return None
    return Listing(Cursor(index, filters, patterns))


def newest_of_each(cursor: Cursor) -> list[int]:
    """Return the last message of each subject for this consumer, in order."""
    index = cursor.index
    if not cursor.filters:
        return sorted(int(entry.last) for entry in index.entries if entry.count > 0)
    # Filters do not overlap: no subject occurs twice.
    last = cursor.few_entries()
    if last is None:
        last = [entry for pattern in cursor.filters for entry in index.entries_like(pattern)]
    return sorted(int(entry.last) for entry in last if entry.count > 0)
