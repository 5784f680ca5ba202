"""Where a consumer begins: the deliver policy, looked up in the index (wire-facts.md 7).

No message is read, but for ``by_start_time``, whose binary search reads the times of a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.api.enums import DeliverPolicy

if TYPE_CHECKING:
    from jetspark.api.consumer import ConsumerConfig
    from jetspark.engine.consumer.state import ConsumerState


def begin(state: ConsumerState, config: ConsumerConfig) -> None:
    """Put a consumer that delivered nothing yet at its first message."""
    cursor = state.cursor
    index = cursor.index
    cursor.listed = vec[i64]()
    cursor.listed_at = 0
    first = int(index.first_seq)
    last = int(index.last_seq)
    policy = config.deliver_policy
    limit = state.stream.config.max_msgs_per_subject  # 1: every message is its subject's last
    listed: list[int] = []
    start = first
    if config.opt_start_seq:
        start = config.opt_start_seq
    elif policy == DeliverPolicy.LAST:
        start = newest(state)
    elif policy == DeliverPolicy.LAST_PER_SUBJECT and limit != 1:
        listed = newest_of_each(state)
        start = listed[0] if listed else last
    elif config.opt_start_time is not None:
        start = closer(state, int(state.stream.log.first_at(config.opt_start_time)))
    elif policy == DeliverPolicy.NEW:
        start = last + 1
    if first == 0 and not config.opt_start_seq:
        start = 1
    elif start > last and not config.opt_start_seq:
        start = last + 1
    else:
        start = max(start, first, 1)
    state.place(start)
    if policy == DeliverPolicy.LAST_PER_SUBJECT and limit != 1:
        cursor.listed = vec[i64](listed)
        cursor.next = last + 1
    cursor.recount()


def closer(state: ConsumerState, start: int) -> int:
    """The first message for this consumer, where released servers show it as the start."""
    index = state.cursor.index
    last = int(index.last_seq)
    firsts = [int(index.next_seq(1, index.mask_for(pattern))) for pattern in state.cursor.filters]
    nearest = min((first for first in firsts if start <= first < last), default=0)
    return nearest or start


def newest(state: ConsumerState) -> int:
    """The last message for this consumer; the last of all when there is no filter."""
    index = state.cursor.index
    if not state.cursor.filters:
        return int(index.last_seq)
    return max(int(index.last_match(pattern)) for pattern in state.cursor.filters)


def newest_of_each(state: ConsumerState) -> list[int]:
    """The last message of each subject for this consumer, in order."""
    cursor = state.cursor
    index = cursor.index
    if not cursor.filters:
        return sorted(int(entry.last) for entry in index.entries if entry.count > 0)
    # Filters do not overlap: no subject comes twice.
    last = []
    for pattern in cursor.filters:
        last += index.entries_like(pattern)
    return sorted(int(entry.last) for entry in last if entry.count > 0)
