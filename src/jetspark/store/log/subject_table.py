"""The subjects of a stream: an entry for each, found by its subject.

A dict takes 50 bytes and more per subject, zeroed and copied whole each time that it grows. Here
a slot is one word, with open addressing: 31 bits of the subject's hash (so that hardly an entry
is looked at in vain, and growing looks at none) and the number of the entry, counted from 1.
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64, mypyc_attr

_SLOTS_MIN: Final = 64
_HASH: Final[i64] = 0x7FFFFFFF
_NUMBER: Final[i64] = 0xFFFFFFFF


@mypyc_attr(acyclic=True)  # there may be a million: nothing for the garbage collector to visit
class SubjectEntry:
    """One subject of a stream, in 64 bytes: ``number`` and ``count`` share a word.

    Neither goes past 31 bits: the rows of that many messages are 40 GB of memory.
    """

    def __init__(self, subject: bytes, number: i32) -> None:
        self.subject: bytes = subject
        self.number: i32 = number
        self.count: i32 = 0
        self.first: i64 = 0
        self.last: i64 = 0
        self.staged_last: i64 = 0


class SubjectTable:
    """Entries by subject. ``entries`` has them by number; only this class adds to it."""

    def __init__(self) -> None:
        # By number; one that nobody has holds an entry whose own number is negative.
        self.entries: list[SubjectEntry] = []
        self.slots: vec[i64] = vec[i64]([0] * _SLOTS_MIN)
        self.used: i64 = 0

    def get(self, subject: bytes) -> SubjectEntry | None:
        """The entry of a subject; None when it has none."""
        mark: i64 = hash(subject)
        mark &= _HASH
        slots = self.slots
        last: i64 = len(slots) - 1
        at = mark & last
        slot = slots[at]
        while slot != 0:
            if slot >> 32 == mark:
                entry = self.entries[(slot & _NUMBER) - 1]
                if entry.subject == subject:
                    return entry
            at = (at + 1) & last
            slot = slots[at]
        return None

    def add(self, entry: SubjectEntry) -> None:
        """Let an entry of ``entries`` be found by its subject."""
        self.used += 1
        if self.used * 3 > i64(len(self.slots)) * 2:
            before = self.slots
            self.slots = vec[i64]([0] * (2 * len(before)))
            for slot in before:
                if slot != 0:
                    self._put(slot)
        mark: i64 = hash(entry.subject)
        self._put(((mark & _HASH) << 32) | (i64(entry.number) + 1))

    def _put(self, slot: i64) -> None:
        slots = self.slots
        last: i64 = len(slots) - 1
        at = (slot >> 32) & last
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = slot

    def rebuild(self) -> None:
        """Make the table again: entries lost their subjects."""
        self.used = 0
        self.slots = vec[i64]([0] * _SLOTS_MIN)
        for entry in self.entries:
            if entry.number >= 0:
                self.add(entry)
