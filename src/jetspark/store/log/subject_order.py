"""The subjects of a stream in sorted order: a pattern visits the candidates, not all subjects.

Blocks of sorted subjects, none of them long, so that an insertion is cheap. Built at the first
wildcard query, in steps that each fit into a turn of the loop: subjects are distributed to blocks
by a sample of them, then each block is sorted. Streams whose readers never use a wildcard pay
nothing. A subject that the stream no longer has stays until the order is rebuilt: the caller looks
it up.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from mypy_extensions import i64

from jetspark.subjects.match import same_token, token_end, wildcard_at
from jetspark.subjects.tokens import GREATER, has_empty_token

BLOCK: Final = 512
# One in this many subjects is sampled to choose where blocks start.
SAMPLED: Final = 128
# A subject costs about this many units of a turn (turn.py) to distribute, sort, or visit.
DEALT: Final[i64] = 3
SORTED: Final[i64] = 1
LOOKED_AT: Final[i64] = 2

# This many discarded blocks are freed per turn.
RELEASED: Final = 32

NOT_MADE: Final = 0
DEALING: Final = 1
SORTING: Final = 2
MADE: Final = 3


class SubjectOrder:
    """Subjects, searchable by pattern."""

    def __init__(self) -> None:
        self.state: int = NOT_MADE
        self.size: i64 = 0
        # Where each block starts; the first starts before everything.
        self.heads: list[bytes] = []
        self.blocks: list[list[bytes]] = []
        # The discarded content, until it is freed.
        self.remains: list[list[bytes]] = []
        # How far it is built, and what was added meanwhile.
        self.at: i64 = 0
        self.late: list[bytes] = []

    def begin(self, sample: list[bytes]) -> None:
        """Start building; ``sample`` has one in ``SAMPLE`` of the subjects."""
        sample.sort()
        self.heads = [b""]
        for subject in sample[:: max(1, BLOCK // SAMPLED)]:
            if subject > self.heads[-1]:
                self.heads.append(subject)
        self.blocks = [[] for _ in self.heads]
        self.size = 0
        self.at = 0
        self.late = []
        self.state = DEALING

    def deal(self, subject: bytes) -> None:
        """Put a subject into its block, unsorted."""
        self.blocks[bisect_right(self.heads, subject) - 1].append(subject)

    def dealt(self, at: i64, all_dealt: bool) -> None:
        """Note that subjects were distributed up to here; if those were all, sorting follows."""
        self.at = 0 if all_dealt else at
        if all_dealt:
            self.state = SORTING

    def sort_some(self, units: i64) -> bool:
        """Sort some of the blocks; True when everything is sorted."""
        self.state = SORTING
        while self.at < i64(len(self.blocks)):
            if units <= 0:
                return False
            block = self.blocks[self.at]
            units -= i64(len(block)) * SORTED
            block.sort()
            self.size += len(block)
            self.at += 1
        late, self.late = self.late, []
        self.state = MADE
        for subject in late:
            self.add(subject)
        return True

    def add(self, subject: bytes) -> None:
        """Add a subject, which may be present already."""
        if self.state != MADE:
            self.late.append(subject)
            return
        at = bisect_right(self.heads, subject) - 1
        block = self.blocks[at]
        place = bisect_left(block, subject)
        if place < len(block) and block[place] == subject:
            return
        block.insert(place, subject)
        self.size += 1
        if len(block) > 2 * BLOCK:
            half = block[BLOCK:]
            del block[BLOCK:]
            self.blocks.insert(at + 1, half)
            self.heads.insert(at + 1, half[0])

    def forget(self) -> None:
        """Discard everything until the next query."""
        self.state = NOT_MADE
        self.size = 0
        self.heads = []
        self.remains += self.blocks
        self.blocks = []
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
                ahead: i64 = bisect_right(self.heads, key) - 1
                i = end
                if ahead > n:
                    n = ahead
                    block = self.blocks[n]
                    i = bisect_left(block, key)


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
