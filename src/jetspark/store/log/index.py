"""What is in a stream, in memory: columns by sequence and one entry per subject.

Columns, not objects: per message an offset, the number of its subject, what it
counts, and the next sequence of the same subject, kept per segment so that they go when the
segment goes. Everything here is durable state except ``SubjectEntry.staged_last``, which
decisions look at before the disk has answered; ``Staged`` sets it, and here it only leaves a
message that is removed.

A message that is removed leaves a hole: its offset becomes ``NOWHERE``. The rest of its row
stays, so that the chain of its subject still leads across it.
"""

from typing import Final

from librt.vecs import append, extend, pop, vec
from mypy_extensions import i32, i64

from jetspark.store.log.columns import HOLES_MAX, NOWHERE, Columns
from jetspark.store.log.subject_order import (
    DEALING,
    DEALT,
    LOOKED_AT,
    MADE,
    NOT_MADE,
    SAMPLED,
    SORTING,
    SubjectOrder,
)
from jetspark.store.log.subject_table import SubjectEntry, SubjectTable
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal
from jetspark.turn import UNITS_PER_TURN, Turn

__all__ = ["NOWHERE", "Columns", "StreamIndex", "SubjectEntry"]

# Numbers of subjects without messages are given to others when there are this many, at least.
EMPTY_SUBJECTS_MIN: Final[i64] = 4096
# So many subjects are looked at in one turn to see whether they have no message; a stream that has
# no more of them than that does it when a group is committed.
RECYCLED_PER_TURN: Final[i64] = 16_384
# A search over more sequences than these is counted as work (turn.py).
LONG_SEARCH: Final[i64] = 1024
# With fewer subjects an order is not worth it; with more than the second it is made in steps.
ORDER_FROM: Final[i64] = 1024
ORDER_AT_ONCE: Final[i64] = 8192
# A pattern that matches more than one subject in so many is compared with all of them.
FEW: Final[i64] = 8
# So many patterns, and so many subjects of each, are kept for who asks next.
KEPT_PATTERNS: Final = 4
KEPT_ENTRIES: Final = 2048
# A search for the newest message of a pattern tries so many messages first.
TRIED: Final[i64] = 1024


class StreamIndex:
    """The durable messages of one stream."""

    def __init__(self) -> None:
        self.subjects: SubjectTable = SubjectTable()
        self.entries: list[SubjectEntry] = self.subjects.entries
        # In their order, once a wildcard was asked about; who could not wait for it says so.
        self.order: SubjectOrder = SubjectOrder()
        self.ordered: bool = False
        self.order_wanted: bool = False
        # What was found by the order for some patterns, while no subject comes or goes.
        self.kept: dict[bytes, list[SubjectEntry]] = {}
        self.kept_used: i64 = 0
        self.kept_generation: i64 = 0
        self.order_end: i64 = 0
        # Where long searches are counted as work.
        self.turn: Turn = Turn()
        self.segments: list[Columns] = []
        # The position of the last record that is durable.
        self.position: i64 = 0
        self.messages: i64 = 0
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        # Numbers that nobody has. A sweep for more of them: whether there is to be one, whether
        # somebody has to begin with it, and down to which number it has come (-1: none began).
        self.free: vec[i64] = vec[i64]()
        self.sweeping: bool = False
        self.sweep_wanted: bool = False
        self.sweep_at: i64 = -1
        self.sweep_end: i64 = 0
        # What it found so far, and from which number on all were free when it came by.
        self.swept: vec[i64] = vec[i64]()
        self.swept_from: i64 = 0
        self.blank: SubjectEntry = SubjectEntry(b"", -1)
        # The entry asked for last.
        self.newest: SubjectEntry | None = None
        # Moves when numbers change hands: what was found before is worth nothing then.
        self.generation: i64 = 0
        self.bytes: i64 = 0
        # What was taken out so far, in bytes: tells when looking for garbage is worth it.
        self.removed_bytes: i64 = 0
        self.last_time: i64 = 0
        self.subject_count: i64 = 0
        # When the message of a sequence was stored that was the first one, as far as it is known.
        self.first_time_known: i64 = 0
        self.first_time_of: i64 = 0
        # For who keeps counts of its own: with `tracking`, which messages went, or that so many
        # went at once, or subjects got other numbers, that it must count again.
        self.tracking: bool = False
        self.removed_seqs: vec[i64] = vec[i64]()
        self.removed_subjects: vec[i64] = vec[i64]()
        self.recount: bool = False
        # The pattern that was purged last, and below which sequence it has nothing for ever.
        self.purged_pattern: bytes = b""
        self.purged_end: i64 = 0

    def known(self, subject: bytes) -> SubjectEntry | None:
        """The entry of a subject; None when it has none."""
        # Many streams have one subject, and many publishers stay with one for a while.
        newest = self.newest
        if newest is not None and newest.subject == subject:
            return newest
        return self.subjects.get(subject)

    def entry(self, subject: bytes) -> SubjectEntry:
        """The entry of a subject, made when it is new."""
        found = self.known(subject)
        if found is None:
            if len(self.free) > 0:
                self.free, number = pop(self.free)
                found = SubjectEntry(subject, i32(number))
                self.entries[number] = found
            else:
                found = SubjectEntry(subject, len(self.entries))
                self.entries.append(found)
            self.subjects.add(found)
            if self.ordered:
                self.order.add(subject)
        self.newest = found
        return found

    def add_segment(self, handle: i64, base: i64, start: i64, name: str = "") -> None:
        """Messages added from now on lie in another file."""
        self.segments.append(Columns(handle, base, start, name))

    def drop_rows(self, count: int) -> None:
        """Forget the oldest rows of a file of which later ones stay."""
        self.segments[count].forgotten = True
        self.segments = self.segments[count:]

    def drop_file(self, count: int) -> None:
        """Forget the oldest rows, which are all of a file."""
        self.segments = self.segments[count:]

    def replace_rows(self, first: int, count: int, rows: list[Columns]) -> None:
        """A run of segments was rewritten: have other rows in the place of theirs."""
        self.segments = [*self.segments[:first], *rows, *self.segments[first + count :]]

    def count_work(self, turn: Turn) -> None:
        """Count long searches as work of this loop."""
        self.turn = turn

    def close(self) -> None:
        """The files were closed: nothing is found any more."""
        self.segments = []

    def add_message(
        self, seq: i64, entry: SubjectEntry, offset: i64, time_ns: i64, size: i64
    ) -> None:
        """A message became durable."""
        columns = self.segments[-1]
        skipped: i64 = seq - columns.base - len(columns.offsets)
        if skipped > HOLES_MAX:
            before = columns
            self.add_segment(columns.handle, seq, columns.start, columns.name)
            columns = self.segments[-1]
            columns.generation = before.generation
            columns.packed = before.packed
        elif skipped > 0:
            columns.add_holes(skipped)
        columns.add(offset, entry.number, size)
        if self.messages == 0:
            self.first_seq = seq
            self.first_time_of = seq
            self.first_time_known = time_ns
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time = time_ns
        if entry.count == 0:
            entry.first = seq
            self.subject_count += 1
        else:
            self.chain(columns, entry.last, seq)
        entry.count += 1
        entry.last = seq

    def chain(self, newest: Columns, seq: i64, following: i64) -> None:
        """Say of a message which one of its subject comes next."""
        i: i64 = seq - newest.base
        if i >= 0:
            newest.nexts[i] = following
            return
        columns = self.segment_of(seq)
        if columns is not None:
            columns.nexts[seq - columns.base] = following

    def skip_to(self, last_seq: i64) -> None:
        """Sequences up to this one are used up without a message."""
        self.last_seq = max(self.last_seq, last_seq)
        if self.messages == 0 and self.last_seq > 0:
            self.first_seq = self.last_seq + 1

    def reach(self, position: i64) -> None:
        """Records up to a position are durable."""
        self.position = max(self.position, position)

    def note_time(self, time_ns: i64) -> None:
        """Nothing stored later is older than this."""
        self.last_time = max(self.last_time, time_ns)

    def note_first_time(self, time_ns: i64) -> None:
        """The oldest message was stored then (``LogReader.first_time`` has looked)."""
        self.first_time_of = self.first_seq
        self.first_time_known = time_ns

    def end_replay(self, last_time: i64, records: i64) -> None:
        """Records of an index file were replayed, without times: the last one was stored then.

        The time of the first message is looked up when it is asked for.
        """
        self.last_time = last_time
        self.first_time_of = -1
        self.position += records

    # Search ------------------------------------------------------------------------------------

    def segment_at(self, seq: i64) -> i64:
        """Number of the last segment that begins at or before a sequence; -1 when none does.

        Segments without messages share their base with the one after them: the last one counts.
        """
        low: i64 = 0
        high: i64 = len(self.segments)
        while low < high:
            middle = (low + high) // 2
            if self.segments[middle].base <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def segment_of(self, seq: i64) -> Columns | None:
        """The segment a sequence lies in, if it is one the index knows."""
        i = self.segment_at(seq)
        if i < 0:
            return None
        columns = self.segments[i]
        if seq - columns.base < len(columns.offsets):
            return columns
        return None

    def after_gap(self, seq: i64) -> i64:
        """``seq``, or where the next segment begins if none has it; past the end: there is none.

        A gap between segments may be longer than anybody can count, which is for those who go
        through a stream by sequences.
        """
        n = self.segment_at(seq)
        if n >= 0 and seq - self.segments[n].base < len(self.segments[n].offsets):
            return seq
        n += 1
        while n < i64(len(self.segments)):
            if len(self.segments[n].offsets) > 0:
                return max(seq, self.segments[n].base)
            n += 1
        return max(seq, self.last_seq + 1)

    def next_seq(self, seq: i64, mask: bytes) -> i64:
        """First message at or after ``seq`` whose subject the mask has; 0 when there is none.

        An empty mask stands for every subject.
        """
        seq = max(seq, self.first_seq)
        number_of_segments: i64 = len(self.segments)
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < number_of_segments:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end:
                if columns.offsets[i] != NOWHERE:
                    number = i64(columns.subjects[i])
                    if not mask or (number < len(mask) and mask[number] != 0):
                        if columns.base + i > seq + LONG_SEARCH:
                            self.turn.spend((columns.base + i - seq) >> 5)
                        return columns.base + i
                i += 1
        if self.last_seq > seq + LONG_SEARCH:
            self.turn.spend((self.last_seq - seq) >> 5)
        return 0

    def count_from(self, seq: i64, mask: bytes) -> i64:
        """How many messages at or after ``seq`` have a subject of the mask."""
        if not mask and self.messages == self.last_seq - self.first_seq + 1:
            if seq <= self.first_seq:
                return self.messages
            return max(i64(0), self.last_seq - seq + 1)
        count: i64 = 0
        number_of_segments: i64 = len(self.segments)
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < number_of_segments:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end:
                if columns.offsets[i] != NOWHERE:
                    number = i64(columns.subjects[i])
                    if not mask or (number < len(mask) and mask[number] != 0):
                        count += 1
                i += 1
        return count

    def next_match(self, seq: i64, pattern: bytes) -> i64:
        """First message at or after ``seq`` whose subject matches; 0 when there is none."""
        seq = max(seq, self.first_seq)
        if not is_literal(pattern):
            found = self.nearest_match(seq, pattern, TRIED)
            if found > 0 or self.last_seq - seq < TRIED:
                return found
        nearest: i64 = 0
        within = False  # some have messages on both sides
        like = self.entries_like(pattern)
        for entry in like:
            if entry.count > 0 and entry.last >= seq:
                if entry.first < seq:
                    within = True
                elif nearest == 0 or entry.first < nearest:
                    nearest = entry.first
        return self.next_seq(seq, self.mask_of(like)) if within else nearest

    def nearest_match(self, seq: i64, pattern: bytes, rows: i64) -> i64:
        """First message whose subject matches, of so many from ``seq`` on; 0: none of them."""
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < i64(len(self.segments)) and rows > 0:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end and rows > 0:
                rows -= 1
                if columns.offsets[i] != NOWHERE and matches(
                    self.entries[i64(columns.subjects[i])].subject, pattern
                ):
                    return columns.base + i
                i += 1
        return 0

    def mask_for(self, pattern: bytes) -> bytes:
        """One byte per subject number: 1 where the subject matches; never empty."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return b"\0"
            return b"\0" * int(found.number) + b"\1"
        return self.mask_of(self.entries_like(pattern))

    def mask_of(self, entries: list[SubjectEntry]) -> bytes:
        """One byte per subject number: 1 for these that have messages; never empty."""
        flags = bytearray(max(1, len(self.entries)))
        for entry in entries:
            if entry.count > 0:
                flags[int(entry.number)] = 1
        return bytes(flags)

    def entries_like(self, pattern: bytes) -> list[SubjectEntry]:
        """The entries whose subjects match a pattern, in no order, with or without messages."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            return [] if found is None else [found]
        count: i64 = len(self.entries)
        if count > ORDER_FROM and self.order.state != MADE:
            if count > ORDER_AT_ONCE:
                self.order_wanted = True
            else:
                self.make_order()
        if self.order.state == MADE:
            found_in_order = self.ordered_like(pattern, count // FEW)
            if found_in_order is not None:
                return found_in_order
        self.turn.spend(count >> 1)
        return [entry for entry in self.entries if matches(entry.subject, pattern)]

    def few_entries(self, patterns: list[bytes], most: i64) -> list[SubjectEntry] | None:
        """The entries that match, of patterns that do not overlap; None when they are many.

        Also None when finding them would take long.
        """
        found: list[SubjectEntry] = []
        for pattern in patterns:
            if is_literal(pattern):
                entry = self.subjects.get(pattern)
                if entry is not None:
                    found.append(entry)
            elif self.needs_order():
                return None
            elif self.order.state == MADE:
                like = self.ordered_like(pattern, most)
                if like is None:
                    return None
                found += like
            else:
                found += self.entries_like(pattern)
            if i64(len(found)) > most:
                return None
        return found

    def ordered_like(self, pattern: bytes, looks: i64) -> list[SubjectEntry] | None:
        """The entries that match, by the order; None when more than so many looks are needed.

        Kept for who asks next: one request asks more than once, and nothing came in between.
        """
        if self.kept_used != self.subjects.used or self.kept_generation != self.generation:
            self.kept = {}
            self.kept_used = self.subjects.used
            self.kept_generation = self.generation
        known = self.kept.get(pattern)
        if known is not None:
            return known
        subjects: list[bytes] = []
        if self.order.matching(pattern, b"", looks * LOOKED_AT, subjects):
            return None
        like = self.entries_of(subjects)
        if len(like) <= KEPT_ENTRIES:
            if len(self.kept) >= KEPT_PATTERNS:
                self.kept = {}
            self.kept[pattern] = like
        return like

    def entries_of(self, subjects: list[bytes]) -> list[SubjectEntry]:
        """The entries of those of the subjects that have one."""
        self.turn.spend(len(subjects) << 2)
        like: list[SubjectEntry] = []
        for subject in subjects:
            found = self.subjects.get(subject)
            if found is not None:
                like.append(found)
        return like

    def needs_order(self) -> bool:
        """Say whether who asks with a wildcard should have the order made first, in steps."""
        return len(self.entries) > ORDER_AT_ONCE and self.order.state != MADE

    def take_order_wanted(self) -> bool:
        """Say whether somebody could not wait for the order since this was asked last."""
        wanted = self.order_wanted
        self.order_wanted = False
        return wanted

    def take_sweep_wanted(self) -> bool:
        """Say whether ``sweep_step`` is to be called until it is done, and nobody does so yet."""
        wanted = self.sweep_wanted
        self.sweep_wanted = False
        return wanted

    def order_made(self) -> bool:
        """Say whether all subjects are in their order; that of few subjects is made at once."""
        if self.order.state != MADE and len(self.entries) <= ORDER_AT_ONCE:
            self.make_order()
        return self.order.state == MADE

    def make_order(self) -> None:
        """Make the order here and now."""
        while not self.order_step():
            pass

    def order_step(self) -> bool:
        """Make the order, as far as one turn allows; True when it is made."""
        order = self.order
        entries = self.entries
        if order.state == NOT_MADE:
            self.ordered = True
            self.order_wanted = False
            self.order_end = len(entries)
            order.begin([entry.subject for entry in entries[::SAMPLED] if entry.number >= 0])
        elif order.state == DEALING:
            # What came meanwhile was added to the order.
            end = min(self.order_end, i64(len(entries)))
            stop = min(end, order.at + UNITS_PER_TURN // DEALT)
            i = order.at
            while i < stop:
                entry = entries[i]
                if entry.number >= 0:
                    order.deal(entry.subject)
                i += 1
            order.dealt(i, i >= end)
        elif order.state == SORTING:
            return order.sort_some(UNITS_PER_TURN)
        return order.state == MADE

    def last_match(self, pattern: bytes) -> i64:
        """Sequence of the newest message whose subject matches; 0 when there is none."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return 0
            return found.last
        # Most often one of the newest messages matches.
        last = self.newest_match(pattern, TRIED)
        if last > 0:
            return last
        for entry in self.entries_like(pattern):
            if entry.count > 0 and entry.last > last:
                last = entry.last
        return last

    def newest_match(self, pattern: bytes, rows: i64) -> i64:
        """The newest message whose subject matches, if it is one of the last so many; else 0."""
        n: i64 = len(self.segments) - 1
        while n >= 0 and rows > 0:
            columns = self.segments[n]
            n -= 1
            i: i64 = len(columns.offsets) - 1
            while i >= 0 and rows > 0:
                rows -= 1
                if columns.offsets[i] != NOWHERE and matches(
                    self.entries[i64(columns.subjects[i])].subject, pattern
                ):
                    return columns.base + i
                i -= 1
        return 0

    # Removal -----------------------------------------------------------------------------------

    def remove(self, seq: i64) -> bool:
        """Take a message out; False when it is not there."""
        columns = self.segment_of(seq)
        if columns is None:
            return False
        i: i64 = seq - columns.base
        size = columns.size_at(i)
        if size == 0:
            return False
        columns.offsets[i] = NOWHERE
        columns.live -= 1
        columns.weight -= size
        self.removed_bytes += size
        entry = self.entries[i64(columns.subjects[i])]
        if self.tracking:
            self.removed_seqs = append(self.removed_seqs, seq)
            self.removed_subjects = append(self.removed_subjects, i64(entry.number))
        self.messages -= 1
        self.bytes -= size
        entry.count -= 1
        if entry.count == 0:
            self.subject_count -= 1
            entry.first = 0
            entry.last = 0
        elif seq == entry.first:
            entry.first = self.live_from(columns.nexts[i], entry)
        elif seq == entry.last:
            entry.last = self.previous_in_subject(entry, seq)
        if entry.staged_last == seq:
            entry.staged_last = entry.last
        if seq == self.first_seq:
            if self.messages == 0:
                self.first_seq = self.last_seq + 1
            else:
                self.first_seq = self.next_seq(seq + 1, b"")
        return True

    def note_purge(self, pattern: bytes, end: i64) -> None:
        """Nothing of a pattern is left below a sequence."""
        self.purged_pattern = pattern
        # A purge may name a sequence beyond the end: what comes below it later is not purged.
        self.purged_end = min(end, self.last_seq + 1)

    def purged_below(self, pattern: bytes) -> i64:
        """The sequence below which nothing of a pattern is left, as far as that is known."""
        return self.purged_end if pattern == self.purged_pattern else i64(0)

    def track(self, tracking: bool) -> None:
        """Keep in mind which messages go, for somebody who keeps counts of its own, or do not."""
        self.tracking = tracking
        if not tracking:
            self.forget_removed()

    def want_recount(self) -> None:
        """Have those who keep counts of their own count again."""
        self.recount = True

    def forget_removed(self) -> None:
        """The caller that keeps its own counts has taken over what was removed."""
        self.removed_seqs = vec[i64]()
        self.removed_subjects = vec[i64]()
        self.recount = False

    def clear(self) -> None:
        """Take every message out."""
        self.recount = self.tracking
        for entry in self.entries:
            if entry.count > 0:
                if entry.staged_last == entry.last:
                    entry.staged_last = 0
                entry.count = 0
                entry.first = 0
                entry.last = 0
        for columns in self.segments:
            columns.forget(self.last_seq + 1)
        self.removed_bytes += self.bytes
        self.messages = 0
        self.bytes = 0
        self.subject_count = 0
        self.first_seq = self.last_seq + 1

    def live_from(self, seq: i64, entry: SubjectEntry) -> i64:
        """Follow the chain of a subject from ``seq`` to the first message that exists; 0: none.

        Rows of removed messages are part of the chain until their segment goes or is rewritten;
        then the rows after are searched. That is rare: limits take the oldest of a subject, so
        only what was removed by its sequence leaves a message that points at a hole.
        """
        while seq > 0:
            columns = self.segment_of(seq)
            if columns is None or columns.subjects[seq - columns.base] < 0:
                return self.search_from(seq, entry)
            i: i64 = seq - columns.base
            if columns.offsets[i] != NOWHERE:
                return seq
            seq = columns.nexts[i]
        return 0

    def search_from(self, seq: i64, entry: SubjectEntry) -> i64:
        """The first message of a subject at or after ``seq``, by looking at every row; 0: none."""
        number = entry.number
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < len(self.segments) and seq <= entry.last:
            columns = self.segments[n]
            i: i64 = max(i64(0), seq - columns.base)
            while i < len(columns.offsets):
                if columns.subjects[i] == number and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i += 1
            n += 1
        return 0

    def next_in_subject(self, seq: i64) -> i64:
        """The next message of the same subject after one that exists; 0 when there is none."""
        columns = self.segment_of(seq)
        if columns is None:
            return 0
        i: i64 = seq - columns.base
        if columns.offsets[i] == NOWHERE:
            return 0
        entry = self.entries[i64(columns.subjects[i])]
        if seq == entry.last:
            return 0
        following = self.live_from(columns.nexts[i], entry)
        columns.nexts[i] = following  # the next walk passes over the holes at once
        return following

    def previous_in_subject(self, entry: SubjectEntry, seq: i64) -> i64:
        """The message of a subject before ``seq``; 0 when there is none."""
        if entry.count <= 1 or seq <= entry.first:
            return entry.first if entry.first < seq else 0
        n: i64 = self.segment_at(seq - 1)
        number = entry.number
        while n >= 0:
            columns = self.segments[n]
            i: i64 = min(seq - 1 - columns.base, i64(len(columns.offsets)) - 1)
            while i >= 0:
                if columns.subjects[i] == number and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i -= 1
            n -= 1
        return 0

    # Subjects without messages -----------------------------------------------------------------

    def wants_recycling(self) -> bool:
        """Say whether so many subjects have no message that their numbers should be freed."""
        used: i64 = i64(len(self.entries)) - len(self.free)
        empty = used - self.subject_count
        return empty > EMPTY_SUBJECTS_MIN and empty * 2 > used and not self.sweeping

    def want_sweep(self) -> bool:
        """Have ``sweep_step`` called until it is done; False: so few that it can be done now."""
        if i64(len(self.entries)) <= RECYCLED_PER_TURN:
            return False
        self.sweeping = True
        self.sweep_wanted = True
        return True

    def recycle(self, staged: list[SubjectEntry]) -> None:
        """Forget subjects that have no message and none on its way, here and now."""
        while not self.sweep_step(staged, RECYCLED_PER_TURN):
            pass

    def sweep_step(self, staged: list[SubjectEntry], count: i64) -> bool:
        """Look at so many subjects and forget those without messages; True when all are done.

        From the highest number down, so that the numbers at the end are given up altogether.
        ``staged`` are the subjects of messages on their way.
        """
        if self.sweep_at < 0:
            self.sweeping = True
            self.sweep_at = self.sweep_end = self.swept_from = len(self.entries)
            # It comes by those too; new subjects get new numbers meanwhile.
            self.free = vec[i64]()
        elif self.sweep_at > 0:
            self.sweep_some(staged, count)
            if self.sweep_at == 0:
                self.hand_out_swept()
        elif self.order.release_some() and self.subjects.move(count):
            self.sweeping = False
            self.sweep_at = -1
            return True
        return False

    def sweep_some(self, staged: list[SubjectEntry], count: i64) -> None:
        """Look at some of the subjects; those without messages are not found any more."""
        kept = {int(entry.number) for entry in staged}
        stop = max(i64(0), self.sweep_at - count)
        at = self.sweep_at
        while at > stop:
            at -= 1
            entry = self.entries[at]
            if entry.number >= 0:
                if entry.count > 0 or (kept and int(at) in kept):
                    continue
                self.subjects.remove(entry)
                self.entries[at] = self.blank
            self.swept = append(self.swept, at)
            if self.swept_from == at + 1:
                self.swept_from = at
        self.sweep_at = at
        self.newest = None
        self.kept = {}
        # What was removed and not counted yet is known by its number.
        self.recount = self.recount or len(self.removed_seqs) > 0

    def hand_out_swept(self) -> None:
        """A sweep has looked at all subjects: others may have the numbers that it found."""
        swept = self.swept
        if i64(len(self.entries)) == self.sweep_end:
            # It came by those at the end first.
            del self.entries[int(self.swept_from) :]
            swept = swept[self.sweep_end - self.swept_from :]
        self.free = extend(swept, self.free)
        self.swept = vec[i64]()
        self.numbers_changed()
        # Half of what the order has is gone, at least.
        self.ordered = False
        self.order.forget()
        self.subjects.shrink()

    def give_up(self, number: i64) -> None:
        """Nobody has a number any more."""
        self.entries[number] = self.blank
        if number >= self.sweep_at:  # or else the sweep comes by
            self.free = append(self.free, number)

    def numbers_changed(self) -> None:
        """Numbers may have other subjects from now on: what was found by them is void."""
        self.recount = self.recount or len(self.removed_seqs) > 0
        self.generation += 1
        self.newest = None

    def forget_staged(self, staged: list[SubjectEntry]) -> None:
        """Drop what exists only because of messages that did not become durable."""
        for entry in staged:
            number = i64(entry.number)
            # It may be in there more than once.
            there = number < i64(len(self.entries)) and self.entries[number] is entry
            if there and entry.count == 0:
                self.subjects.remove(entry)
                self.give_up(number)
        self.numbers_changed()

    def begin_staging(self) -> None:
        """All was replayed: decisions begin with what is durable."""
        for entry in self.entries:
            entry.staged_last = entry.last
