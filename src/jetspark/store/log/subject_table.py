"""The hash table of a stream's subjects.

A dict takes 50 bytes and more per subject, zeroed and copied whole each time it grows. Here a slot
is one word, with open addressing: 31 bits of the subject's hash (so that hardly any entry is
visited needlessly, and growing visits none) and the id of the entry, counted from 1.

A table that grows or shrinks is moved to its new slots incrementally: moving a million of them in
one turn of the loop would block all clients.
"""

from typing import Final

from librt.vecs import extend, vec
from mypy_extensions import i32, i64, mypyc_attr

_SLOTS_MIN: Final = 64
_HASH: Final[i64] = 0x7FFFFFFF
_NUMBER: Final[i64] = 0xFFFFFFFF
# A slot of the previous table that was moved or whose subject was removed: searches continue.
_MOVED: Final[i64] = -1
# No entry for certain, instead of the id of one that may be it.
_ABSENT: Final[i64] = -1
# This many slots are moved with each added subject: all of them long before the new ones are full,
# since only two in three are used.
_MOVED_WITH_EACH: Final[i64] = 8
# A table of at least this size prepares its next slots from half full on: to clear millions of
# them at once takes milliseconds. From there to two thirds, each added subject clears this many.
_PREPARED_FROM: Final[i64] = 1 << 16
_CLEARED: Final[vec[i64]] = vec[i64]([0] * 16)


@mypyc_attr(acyclic=True)  # there may be a million: nothing for the garbage collector to visit
class SubjectEntry:
    """One subject of a stream, in 64 bytes: ``id`` and ``count`` share a word.

    Neither exceeds 31 bits: the rows of that many messages are 40 GB of memory.
    """

    def __init__(self, subject: bytes, subject_id: i32) -> None:
        self.subject: bytes = subject
        self.id: i32 = subject_id
        self.count: i32 = 0
        self.first: i64 = 0
        self.last: i64 = 0
        self.staged_last: i64 = 0

    def add(self, seq: i64) -> None:
        """Count a message that became durable."""
        if self.count == 0:
            self.first = seq
        self.count += 1
        self.last = seq

    def remove(self, seq: i64, first: i64, last: i64) -> None:
        """Remove a message; ``first`` and ``last`` are those of the rest, 0 if none is left."""
        self.count -= 1
        self.first = first
        self.last = last
        if self.staged_last == seq:
            self.staged_last = last

    def clear(self) -> None:
        """Remove all its messages; decisions still see one that is staged."""
        if self.staged_last == self.last:
            self.staged_last = 0
        self.count = 0
        self.first = 0
        self.last = 0

    def stage(self, seq: i64) -> None:
        """Let decisions see this message as the last one."""
        self.staged_last = seq

    def unstage(self) -> None:
        """Let decisions see only what is durable."""
        self.staged_last = self.last


class SubjectTable:
    """Entries by subject. ``entries`` has them by id; the index puts them there."""

    def __init__(self) -> None:
        # By id; an unused one has an entry whose own id is negative.
        self.entries: list[SubjectEntry] = []
        self.slots: vec[i64] = vec[i64]([0] * _SLOTS_MIN)
        self.used: i64 = 0
        # While the table is moved: its previous slots, and how many of them were visited.
        self.before: vec[i64] = vec[i64]()
        self.moved: i64 = 0
        # The next slots, as far as they are cleared.
        self._coming: vec[i64] = vec[i64]()

    def get(self, subject: bytes) -> SubjectEntry | None:
        """Return the entry of a subject; None if it has none."""
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
        if len(self.before) > 0:
            return self._get_before(subject, mark)
        return None

    def get_many(self, subjects: list[bytes]) -> list[SubjectEntry | None]:
        """Return the entries of subjects, None for those that have none.

        Slots, entries and their subjects are somewhere in memory, and waiting for them takes most
        of the time of ``get``. Here each is read for all subjects before the next is: the
        processor waits for many of them at a time.
        """
        count: i64 = len(subjects)
        slots = self.slots
        last: i64 = len(slots) - 1
        moving = len(self.before) > 0
        found: vec[i64] = vec[i64]([0] * int(count))
        i: i64 = 0
        while i < count:
            found[i] = hash(subjects[i])
            i += 1
        i = 0
        while i < count:
            mark = found[i] & _HASH
            slot = slots[mark & last]
            if slot == 0 and not moving:
                found[i] = _ABSENT
            else:
                found[i] = slot & _NUMBER if slot >> 32 == mark else 0
            i += 1
        entries: list[SubjectEntry | None] = []
        i = 0
        while i < count:
            entries.append(self.entries[found[i] - 1] if found[i] > 0 else None)
            i += 1
        i = 0
        while i < count:
            entry = entries[i]
            if found[i] != _ABSENT and (entry is None or entry.subject != subjects[i]):
                entries[i] = self.get(subjects[i])
            i += 1
        return entries

    def _get_before(self, subject: bytes, mark: i64) -> SubjectEntry | None:
        slots = self.before
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
        """Make an entry of ``entries`` searchable by its subject."""
        self.used += 1
        if len(self.before) > 0:
            self.move(_MOVED_WITH_EACH)
        size: i64 = len(self.slots)
        if self.used * 3 > size * 2:
            self._resize(2 * size)
        elif size >= _PREPARED_FROM and self.used * 2 > size:
            self._prepare(2 * size)
        mark: i64 = hash(entry.subject)
        self._put(((mark & _HASH) << 32) | (i64(entry.id) + 1))

    def remove(self, entry: SubjectEntry) -> None:
        """Remove an entry, which was added before."""
        mark: i64 = hash(entry.subject)
        mark &= _HASH
        wanted = (mark << 32) | (i64(entry.id) + 1)
        self.used -= 1
        slots = self.slots
        last: i64 = len(slots) - 1
        at = mark & last
        while slots[at] != 0:
            if slots[at] == wanted:
                self._close(at)
                return
            at = (at + 1) & last
        slots = self.before
        last = len(slots) - 1
        at = mark & last
        while slots[at] != wanted:
            assert slots[at] != 0, "it was added before"
            at = (at + 1) & last
        slots[at] = _MOVED

    def _close(self, hole: i64) -> None:
        """Empty a slot, and move up those after it that would not be found any more."""
        slots = self.slots
        last: i64 = len(slots) - 1
        at = (hole + 1) & last
        while slots[at] != 0:
            home = (slots[at] >> 32) & last
            if (at - home) & last >= (at - hole) & last:
                slots[hole] = slots[at]
                hole = at
            at = (at + 1) & last
        slots[hole] = 0

    def _put(self, slot: i64) -> None:
        slots = self.slots
        last: i64 = len(slots) - 1
        at = (slot >> 32) & last
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = slot

    def _prepare(self, size: i64) -> None:
        """Clear some of the next slots, which are this many."""
        coming = self._coming
        if len(coming) == 0:
            # Memory that is reserved; it is touched as it is cleared.
            coming = vec[i64]([0], capacity=int(size))
        if i64(len(coming)) < size:
            some = min(size - i64(len(coming)), i64(len(_CLEARED)))
            self._coming = extend(coming, _CLEARED[:some])

    def _resize(self, size: i64) -> None:
        """Change the number of slots; the content is moved to them from now on."""
        self.move(i64(len(self.before)))
        self.before = self.slots
        self.moved = 0
        coming = self._coming
        self._coming = vec[i64]()
        if i64(len(coming)) == size:
            self.slots = coming
        else:
            self.slots = vec[i64]([0] * int(size))

    def move(self, count: i64) -> bool:
        """Move ``count`` slots; True when nothing is left to move."""
        before = self.before
        end = min(self.moved + count, i64(len(before)))
        at = self.moved
        while at < end:
            slot = before[at]
            if slot > 0:
                self._put(slot)
                before[at] = _MOVED
            at += 1
        self.moved = at
        if at < i64(len(before)):
            return False
        self.before = vec[i64]()
        self.moved = 0
        return True

    def settle(self) -> None:
        """Move everything that is left to move: at a start, when no client waits for a turn."""
        if len(self.before) > 0:
            self.move(i64(len(self.before)))

    def shrink(self) -> None:
        """Start to use fewer slots, if hardly any of them are used."""
        size: i64 = len(self.slots)
        if len(self.before) > 0 or self.used * 16 >= size or size <= _SLOTS_MIN:
            return
        while size > _SLOTS_MIN and self.used * 4 < size:
            size //= 2
        self._resize(size)
