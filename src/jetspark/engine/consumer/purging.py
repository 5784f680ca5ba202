"""What a purge does to consumers: they go on behind it, as on released servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.subjects.match import is_subset

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer


def on_purge(consumer: Consumer, pattern: bytes, now: int) -> None:
    """Messages of a pattern were purged; an empty pattern stands for every subject.

    A consumer of nothing else goes on at the first one left, or at the end; any other one at the
    first message of the stream. What is not there any more is not pending any more.
    """
    delivery = consumer.delivery
    index = delivery.cursor.index
    filters = delivery.cursor.filters
    within = pattern in {b"", b">"} or (
        bool(filters) and all(is_subset(own, pattern) for own in filters)
    )
    wider = not filters or any(is_subset(pattern, own) for own in filters)
    if not within and not wider:
        return
    start = int(index.first_seq)
    if within and pattern:
        start = int(index.next_match(max(index.purged_below(pattern), 1), pattern))
    if start == 0:
        start = int(index.last_seq) + 1
    if delivery.number > 0:
        delivery.acked_ns = now
    _let_go(consumer, start)
    delivery.cursor.next = max(delivery.cursor.next, start)
    if delivery.pending.count == 0:
        delivery.floor_number = delivery.number
        delivery.floor_seq = max(delivery.floor_seq, delivery.cursor.next - 1)
    delivery.seq = max(delivery.seq, delivery.cursor.next - 1)
    delivery.cursor.recount()
    consumer.hub.agenda.save(delivery, now)


def _let_go(consumer: Consumer, start: int) -> None:
    """Forget what was pending and is gone, or lies before the place to go on at."""
    delivery = consumer.delivery
    pending = delivery.pending
    behind = delivery.floor_seq < start
    if behind:
        delivery.floor_seq = start - 1
    rows = range(int(pending.head), len(pending.seqs))
    gone = [
        int(pending.seqs[row])
        for row in rows
        if pending.words[row]
        and (
            (behind and pending.seqs[row] < start)
            or not delivery.cursor.is_there(pending.seqs[row])
        )
    ]
    for seq in gone:
        row = pending.find(seq)
        delivery.floor_number = max(delivery.floor_number, pending.numbers[row])
        pending.release(row)
    spent = delivery.spent
    delivery.spent = {seq: n for seq, n in spent.items() if delivery.cursor.is_there(seq)}
