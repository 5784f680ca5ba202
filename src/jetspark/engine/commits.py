"""The groups of a turn: what is done once per stream and turn.

With very many streams each message is a group of its own, so this is as frequent as messages are
and compiled (hot-path.md). What concerns few streams is left to the callers, who are not.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetspark.engine.failures import TEXT as FAILED
from jetspark.engine.failures import Failures
from jetspark.engine.limits import APPLIED_PER_TURN
from jetspark.engine.stream.stream import Stream
from jetspark.store.log.group import Group

if TYPE_CHECKING:
    from mypy_extensions import i64

    from jetspark.engine.consumer.run_queue import RunQueue
    from jetspark.engine.outbox import Outbox

# A stream with its group, or why it has none.
Taken = tuple[Stream, Group | OSError]


class Commits:
    """Takes the groups of an engine's streams, and applies those that are durable.

    ``save`` stages the state of a stream's consumers, ``note_deadline`` queues a deadline, and
    ``begin_index_work`` starts what the index of a stream wants to do in steps.
    """

    def __init__(
        self,
        run_queue: RunQueue,
        failures: Failures,
        save: Callable[[Stream], None],
        note_deadline: Callable[[Stream], None],
        begin_index_work: Callable[[Stream], None],
    ) -> None:
        self.run_queue: RunQueue = run_queue
        self.failures: Failures = failures
        self.save: Callable[[Stream], None] = save
        self.note_deadline: Callable[[Stream], None] = note_deadline
        self.begin_index_work: Callable[[Stream], None] = begin_index_work

    def take(
        self, dirty: list[Stream], now: i64, outbox: Outbox | None
    ) -> tuple[list[Taken], list[Stream]]:
        """Return the next group of each stream without one in flight; and the other streams.

        Streams that become dirty meanwhile are added to ``dirty``, and are handled as well.
        """
        groups: list[Taken] = []
        waiting: list[Stream] = []
        at = 0
        while at < len(dirty):
            stream = dirty[at]
            at += 1
            if stream.log.staged.in_flight is not None:
                waiting.append(stream)
                continue
            stream.mark_dirty(False)
            if stream.dropped:
                # What was staged when it was removed has been refused; its files are closed.
                continue
            if stream.batches.timer.moved and stream.batches.timer.take_moved():
                self.note_deadline(stream)
            try:
                if stream.removes_unneeded or stream in self.run_queue.unsaved:
                    self.save(stream)
                group = stream.take_group(now)
            except Exception as error:  # noqa: BLE001 - one stream, not all
                # What this stream staged cannot be written: it is refused, as after a disk error.
                self.failures.note(f"writing stream {stream.config.name!r}", error)
                groups.append((stream, OSError(errno.EIO, FAILED)))
                continue
            if group is not None:
                groups.append((stream, group))
            elif outbox is not None:
                stream.replies.answer_acks(outbox)
        return groups, waiting

    def apply(
        self, streams: list[Stream], now: i64, outbox: Outbox
    ) -> tuple[list[Stream], list[Stream], int]:
        """Apply durable groups of streams of which nothing else depends on a commit.

        Returns the other streams, unchanged, and those that are too many for one turn; the streams
        with upkeep to do; and by how many bytes all of them have grown.
        """
        others: list[Stream] = []
        kept: list[Stream] = []
        grown: i64 = 0
        left: i64 = APPLIED_PER_TURN
        for stream in streams:
            if left <= 0 or not stream.commits_alone():
                others.append(stream)
                continue
            left -= stream.log.records_in_flight()
            try:
                stream.committed(outbox, now)
                grown += stream.take_growth()
                stream.maintenance.committed()
                if stream.has_earlier_deadline():
                    self.note_deadline(stream)
                index = stream.log.index
                if index.order_wanted or index.sweep_wanted:
                    self.begin_index_work(stream)
            except Exception as error:  # noqa: BLE001 - one stream, not all
                self.failures.note(f"after a commit of stream {stream.config.name!r}", error)
            if stream.log.wants_upkeep(now):
                kept.append(stream)
        return others, kept, int(grown)


class Reported:
    """What the committer reported about the streams of one owner."""

    def __init__(self) -> None:
        self.written: list[Stream] = []
        self.failed: list[tuple[Stream, OSError]] = []

    def add(self, stream: Stream, error: OSError | None) -> None:
        """Add the report of a group."""
        if error is None:
            self.written.append(stream)
        else:
            self.failed.append((stream, error))


def for_disk(
    taken: list[Taken], owner: object
) -> tuple[list[tuple[object, Group]], list[Taken], int]:
    """Return the groups for the disk, each with its owner and stream; the rest; all messages.

    The rest are groups of streams in memory, and errors. The messages are those for the disk.
    """
    turn: list[tuple[object, Group]] = []
    rest: list[Taken] = []
    messages = 0
    for each in taken:
        stream = each[0]
        group = each[1]
        if isinstance(group, Group) and not stream.log.segments.in_memory:
            messages += len(group.entries)
            turn.append(((owner, stream), group))
        else:
            rest.append(each)
    return turn, rest, messages


def by_owner(reports: list[tuple[object, OSError | None]]) -> dict[object, Reported]:
    """Return the reports of groups of ``for_disk`` by their owners."""
    found: dict[object, Reported] = {}
    for of, error in reports:
        assert isinstance(of, tuple), "the owner and the stream"
        owner: object = of[0]
        stream: Stream = of[1]
        reported = found.get(owner)
        if reported is None:
            reported = found[owner] = Reported()
        reported.add(stream, error)
    return found
