"""The subjects of a stream in sorted order: a pattern visits the candidates, not all subjects.

Blocks of sorted subjects, none of them long, so that an insertion is cheap. Built at the first
wildcard query, in steps that each fit into a turn of the loop: subjects are distributed to parts
by a sample of them, each part is sorted and becomes blocks, and what was added meanwhile follows.
Streams whose readers never use a wildcard pay nothing. A subject that the stream no longer has
stays until the order is rebuilt: the caller looks it up.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from mypy_extensions import i64

from jetspark.subjects.match import same_token, token_end, wildcard_at
from jetspark.subjects.tokens import GREATER, has_empty_token, is_literal

# Each comparison reads a subject that is in no cache of the processor: a search makes seven of
# them in a block. There are so few blocks that their heads stay in a cache.
BLOCK: Final = 128
# At most this many subjects are sampled to choose where the parts start, however many there are.
SAMPLE_MAX: Final[i64] = 4096
# A subject costs about this many units of a turn (turn.py) to distribute, sort, add, or visit: it
# is read from memory, where subjects are in another order.
DEALT: Final[i64] = 3
SORTED: Final[i64] = 3
ADDED: Final[i64] = 6
LOOKED_AT: Final[i64] = 2

# This many discarded blocks are freed per turn.
RELEASED: Final = 128

NOT_MADE: Final = 0
DEALING: Final = 1
SORTING: Final = 2
ADDING: Final = 3
MADE: Final = 4


class SubjectOrder:
    """Subjects, searchable by pattern."""

    def __init__(self) -> None:
        self.state: int = NOT_MADE
        # Where each block starts; the first starts before everything.
        self.heads: list[bytes] = []
        self.blocks: list[list[bytes]] = []
        # The discarded content, until it is freed.
        self.remains: list[list[bytes]] = []
        # While it is built: where each part starts, the parts, and how far it is.
        self.starts: list[bytes] = []
        self.parts: list[list[bytes]] = []
        self.at: i64 = 0
        # What was added meanwhile.
        self.late: list[bytes] = []

    def begin(self, sample: list[bytes]) -> None:
        """Start building; ``sample`` has at most ``SAMPLE_MAX`` of the subjects, from all over."""
        sample.sort()
        self.starts = [b""]
        for subject in sample:
            if subject > self.starts[-1]:
                self.starts.append(subject)
        self.parts = [[] for _ in self.starts]
        self.at = 0
        self.late = []
        self.state = DEALING

    def deal(self, subject: bytes) -> None:
        """Put a subject into its part, unsorted."""
        self.parts[bisect_right(self.starts, subject) - 1].append(subject)

    def dealt(self, at: i64, all_dealt: bool) -> None:
        """Note that subjects were distributed up to here; if those were all, sorting follows."""
        self.at = 0 if all_dealt else at
        if all_dealt:
            self.heads = []
            self.blocks = []
            self.starts = []
            self.state = SORTING

    def build_some(self, units: i64) -> bool:
        """Sort some of the parts, or add some of what came meanwhile; True when it is complete."""
        while self.state == SORTING and units > 0:
            units -= 1 + i64(len(self.parts[self.at])) * SORTED
            self.sort_part(self.parts[self.at])
            self.parts[self.at] = []
            self.at += 1
            if self.at == i64(len(self.parts)):
                self.parts = []
                self.at = 0
                self.state = ADDING
                if not self.blocks:
                    self.heads.append(b"")
                    self.blocks.append([])
        while self.state == ADDING and units > 0:
            if self.at == i64(len(self.late)):
                self.late = []
                self.state = MADE
            else:
                units -= ADDED
                self.insert(self.late[self.at])
                self.at += 1
        return self.state == MADE

    def sort_part(self, part: list[bytes]) -> None:
        """Sort a part; it becomes the next blocks."""
        part.sort()
        for start in range(0, len(part), BLOCK):
            block = part[start : start + BLOCK]
            self.heads.append(block[0] if self.blocks else b"")
            self.blocks.append(block)

    def add(self, subject: bytes) -> None:
        """Add a subject, which may be present already."""
        if self.state == MADE:
            self.insert(subject)
        else:
            self.late.append(subject)

    def insert(self, subject: bytes) -> None:
        """Insert a subject into its block, unless it is present."""
        at = bisect_right(self.heads, subject) - 1
        block = self.blocks[at]
        place = bisect_left(block, subject)
        if place < len(block) and block[place] == subject:
            return
        block.insert(place, subject)
        if len(block) > 2 * BLOCK:
            half = block[BLOCK:]
            del block[BLOCK:]
            self.blocks.insert(at + 1, half)
            self.heads.insert(at + 1, half[0])

    def forget(self) -> None:
        """Discard everything until the next query."""
        self.state = NOT_MADE
        self.heads = []
        self.remains += self.blocks
        self.remains += self.parts
        self.blocks = []
        self.starts = []
        self.parts = []
        self.late = []

    def release_some(self) -> bool:
        """Free some of the discarded blocks, in one turn; True when none is left."""
        del self.remains[-RELEASED:]
        return not self.remains

    def matching(self, pattern: bytes, start: bytes, units: i64, found: list[bytes]) -> bytes:
        """Append matches from ``start`` on to ``found``; return where to continue, or nothing.

        Non-matching ranges are skipped: with ``*.k7``, ``a3.k7`` is followed by what follows
        ``a3.``.
        """
        if has_empty_token(pattern):
            return b""
        n: i64 = bisect_right(self.heads, start) - 1
        block = self.blocks[n]
        i: i64 = bisect_left(block, start)
        while True:
            end: i64 = len(block)
            if i >= end:
                n += 1
                if n >= i64(len(self.blocks)):
                    return b""
                block = self.blocks[n]
                i = 0
                continue
            subject = block[i]
            if units <= 0:
                return subject
            units -= LOOKED_AT
            i += 1
            key = following(subject, pattern)
            if not key:
                found.append(subject)
            elif key == _NOTHING:
                return b""
            elif i < end and block[i] >= key:
                continue
            elif i < end and block[end - 1] >= key:
                i = bisect_left(block, key, i)
            else:
                units -= LOOKED_AT
                ahead = self.block_of(key, n)
                i = end
                if ahead > n:
                    n = ahead
                    block = self.blocks[n]
                    i = bisect_left(block, key)

    def all_match(self, pattern: bytes) -> bool:
        """Return whether all subjects match, for patterns that end with a full wildcard only.

        Those with the same beginning are next to each other.
        """
        if not pattern.endswith(b".>") or not is_literal(pattern[:-2]):
            return False
        if not self.blocks[0] or not self.blocks[-1]:
            return False
        return self.blocks[0][0].startswith(pattern[:-1]) and self.blocks[-1][-1].startswith(
            pattern[:-1]
        )

    def block_of(self, key: bytes, n: i64) -> i64:
        """Return the last block that starts at or before a key, at least ``n``.

        Usually a near one: the distance is doubled until it is far enough.
        """
        heads = self.heads
        count: i64 = len(heads)
        near = n
        ahead: i64 = 1
        while near + ahead < count and heads[near + ahead] <= key:
            near += ahead
            ahead *= 2
        return bisect_right(heads, key, near + 1, min(near + ahead, count)) - 1


# No subject from here on can match; no key equals this.
_NOTHING: Final = b"."


def following(subject: bytes, pattern: bytes) -> bytes:
    """Return where the next match after a subject can be; empty if the subject matches."""
    subject_end: i64 = len(subject)
    pattern_end: i64 = len(pattern)
    at: i64 = 0
    want: i64 = 0
    while True:
        stop = token_end(subject, at, subject_end)
        want_stop = token_end(pattern, want, pattern_end)
        wild = wildcard_at(pattern, want, want_stop)
        if wild == GREATER:
            return b"" if want_stop == pattern_end else _NOTHING
        if wild == 0 and not same_token(subject, at, stop, pattern, want, want_stop):
            key = subject[:at] + pattern[want:want_stop]
            if subject < key:
                return key
            if want_stop < pattern_end:
                key += b"."
                if subject < key:
                    return key
            # Past everything that starts with the tokens before: a slash sorts after a dot.
            return subject[: at - 1] + b"/" if at > 0 else _NOTHING
        if want_stop == pattern_end:
            return b"" if stop == subject_end else subject[:stop] + b"/"
        if stop == subject_end:
            return subject + b"\0"
        at = stop + 1
        want = want_stop + 1
