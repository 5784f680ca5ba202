"""Limits of a stream: evictions when a message is stored.

Evictions are not recorded. They depend only on the messages after them, so replaying the log under
the limits in force evicts the same; that holds as well when old segments without messages have
been removed.
"""

from mypy_extensions import i64

from jetspark.store.format.manifest import Identity
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.subject_table import SubjectEntry


class Limits:
    """How much a stream keeps; 0 or less means no limit."""

    def __init__(self, max_msgs: i64, max_bytes: i64, max_per_subject: i64) -> None:
        self.max_msgs: i64 = max(max_msgs, i64(0))
        self.max_bytes: i64 = max(max_bytes, i64(0))
        self.max_per_subject: i64 = max(max_per_subject, i64(0))
        self.any: bool = self.max_msgs > 0 or self.max_bytes > 0 or self.max_per_subject > 0

    def evict(self, index: StreamIndex, entry: SubjectEntry) -> None:
        """Evict what exceeds the limits after a message of a subject was added."""
        if self.max_per_subject > 0:
            while i64(entry.count) > self.max_per_subject:
                index.remove(entry.first)
        if self.max_msgs > 0:
            while index.messages > self.max_msgs:
                index.remove(index.first_seq)
        if self.max_bytes > 0:
            while index.bytes > self.max_bytes and index.messages > 0:
                index.remove(index.first_seq)

    def next_evicted(self, index: StreamIndex, entry: SubjectEntry) -> i64:
        """Return the message that ``evict`` would remove next; 0 if none."""
        if self.max_per_subject > 0 and i64(entry.count) > self.max_per_subject:
            return entry.first
        if self.max_msgs > 0 and index.messages > self.max_msgs:
            return index.first_seq
        if self.max_bytes > 0 and index.bytes > self.max_bytes and index.messages > 0:
            return index.first_seq
        return 0

    def enforce(self, index: StreamIndex) -> None:
        """Evict everything that exceeds the limits; in this order, as released servers do."""
        self.evict(index, index.blank)
        self.evict_subjects(index)

    def make_up(self, index: StreamIndex) -> None:
        """Evict what was not evicted after a record that cannot be read.

        Subjects first, as when messages are stored one by one: starting with the whole stream
        would evict messages that stayed because another one of their subject had been removed.
        """
        self.evict_subjects(index)
        self.evict(index, index.blank)

    def evict_subjects(self, index: StreamIndex) -> None:
        """Evict what exceeds the limit per subject."""
        if self.max_per_subject > 0:
            for entry in index.entries:
                while i64(entry.count) > self.max_per_subject:
                    index.remove(entry.first)


def limits_of(identity: Identity) -> Limits:
    """Return the limits in an identity."""
    return Limits(identity.max_msgs, identity.max_bytes, identity.max_per_subject)
