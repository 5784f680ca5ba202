"""The last message of each of several subjects, at one point in time (ADR-31, multi_last)."""

from bisect import bisect_left
from typing import Final

from mypy_extensions import i64

from jetspark.engine.direct.read import DirectReader, Run
from jetspark.engine.outbox import Budget, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.headers.status import (
    END_OF_BATCH,
    EOB_TEXT,
    NO_RESULTS_TEXT,
    NOT_FOUND,
    TOO_LARGE,
    TOO_MANY_RESULTS_TEXT,
)
from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal

SUBJECTS_MAX: Final = 1024  # ADR-31, multi-subject requests
UNITS_PER_LOOK: Final[i64] = 2048  # of a turn (turn.py)
LOOKS_PER_TURN: Final[i64] = 8
# This many comparisons of a subject with a pattern are done at once, without the order.
FEW_COMPARISONS: Final[i64] = 4096


class MultiRead(Run):
    """A multi_last get in progress. ``batch`` 0 or less sends everything; ``up_to`` 0 is now."""

    def __init__(
        self,
        reader: DirectReader,
        stream: Stream,
        outlet: Outlet,
        to: bytes,
        first: i64,
        patterns: list[bytes],
        up_to: i64,
        batch: i64,
        max_bytes: i64,
        proof: bytes,
    ) -> None:
        super().__init__(reader, stream, outlet, to, max_bytes, proof, False)
        self.up_to: i64 = up_to
        self.first: i64 = first
        self.patterns: list[bytes] = patterns
        self.too_many: bool = False
        self.sequences: list[int] = []
        self.at: i64 = -1  # not started
        self.searching: SubjectSearch | None = None
        self.left: i64 = batch if batch > 0 else SUBJECTS_MAX

    def begin(self, budget: Budget) -> bool:
        """Look up what the subjects have now; False if that continues in the next turn."""
        index = self.stream.log.index
        search = self.searching
        if search is None:
            # Never beyond what exists: the next page requests the same point in time again.
            self.up_to = min(self.up_to, index.last_seq) if self.up_to > 0 else index.last_seq
            search = self.searching = SubjectSearch(index, self.patterns, self.up_to)
        done = search.step()
        budget.spend_search(search.take_compared())
        if not done:
            return False
        self.searching = None
        found = search.entries()
        self.too_many = len(found) > SUBJECTS_MAX
        if not self.too_many:
            self.sequences = last_sequences(index, found, self.up_to)
        # ``seq`` in a request is the cursor: everything before it was on an earlier page.
        self.at = bisect_left(self.sequences, self.first)
        self.pending: i64 = len(self.sequences) - self.at
        return True

    def step(self, budget: Budget) -> bool:
        """Send as much as this turn allows; True when the run is over.

        What is looked up is sent in the same turn if the receiver has room, whatever budget the
        turn has left: later some of it may have been replaced, and a subject that always had a
        message would be missing.
        """
        late = self.at >= 0
        if not late and not self.stream.dropped and not self.begin(budget):
            budget.exhaust()  # counts as much as a turn of reads
            return self.is_lost()
        while True:
            if self.is_lost():
                return True
            if self.at == len(self.sequences) or self.left <= 0 or self.bytes_left <= 0:
                self.finish()
                return True
            if self.outlet.full() or (late and not budget.left()):
                return False
            data, at = self.read(self.sequences[self.at])
            self.at += 1
            if data:
                self.send(data, at, budget)
                self.left -= 1
            else:
                self.pending -= 1  # deleted since the request arrived

    def read(self, seq: i64) -> tuple[bytes, i64]:
        """Read one of the messages; raises LongRead.

        A large one that was replaced while it was read is sent: it was its subject's last.
        """
        data, at = self.stream.log.reader.locate_in_turn(seq)
        read = self.take_read()
        if len(data) == 0 and read is not None and i64(read.seq) == seq:
            return read.data, 0
        return data, at

    def finish(self) -> None:
        """Send the end of the run, with its point in time."""
        if self.too_many:
            self.status(TOO_LARGE, TOO_MANY_RESULTS_TEXT, self.proof)
        elif not self.sequences:
            self.status(NOT_FOUND, NO_RESULTS_TEXT, self.proof)
        else:
            lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\nNats-UpTo-Sequence: %d\r\n"
            counts = (int(self.pending), int(self.last_sent), int(self.up_to))
            self.status(END_OF_BATCH, EOB_TEXT, lines % counts + self.proof)


class SubjectSearch:
    """Finds the subjects that match any of some patterns, at most one too many, in steps."""

    def __init__(self, index: StreamIndex, patterns: list[bytes], up_to: i64) -> None:
        self.index: StreamIndex = index
        self.up_to: i64 = up_to
        self.found: dict[bytes, SubjectEntry] = {}
        self.wild: list[bytes] = []
        self.at: i64 = 0
        # Subjects compared with a pattern since they were last accounted for.
        self.compared: i64 = 0
        self.following: bytes = b""
        for pattern in patterns:
            if is_literal(pattern):
                entry = index.subjects.get(pattern)
                if entry is not None:
                    self.note(entry)
            else:
                self.wild.append(pattern)

    def note(self, entry: SubjectEntry) -> None:
        """Add a matching subject if it had a message by then."""
        if entry.count > 0 and entry.first <= self.up_to:
            self.found[entry.subject] = entry

    def step(self) -> bool:
        """Visit as many subjects as a turn allows; True when finished."""
        index = self.index
        if i64(len(index.entries)) * i64(len(self.wild)) <= FEW_COMPARISONS and not self.following:
            self.compare_all()
            return True
        looks: i64 = 0
        while self.at < i64(len(self.wild)) and len(self.found) <= SUBJECTS_MAX:
            if not index.order_made():
                index.order_step()
                return False
            if looks >= LOOKS_PER_TURN:
                return False
            subjects: list[bytes] = []
            self.following = index.order.matching(
                self.wild[self.at], self.following, UNITS_PER_LOOK, subjects
            )
            looks += 1
            self.compared += UNITS_PER_LOOK
            for entry in index.entries_of(subjects):
                self.note(entry)
            if not self.following:
                self.at += 1
        return True

    def take_compared(self) -> i64:
        """Return how many subjects were compared with a pattern since the last call."""
        compared = self.compared
        self.compared = 0
        return compared

    def compare_all(self) -> None:
        """Visit every subject: for a few that is the fastest."""
        while self.at < i64(len(self.wild)):
            pattern = self.wild[self.at]
            self.at += 1
            self.compared += len(self.index.entries)
            for entry in self.index.entries:
                if entry.count > 0 and matches(entry.subject, pattern):
                    self.note(entry)

    def entries(self) -> list[SubjectEntry]:
        """Return what was found and still exists."""
        return [e for e in self.found.values() if e.count > 0 and e.first <= self.up_to]


def last_sequences(index: StreamIndex, found: list[SubjectEntry], up_to: i64) -> list[int]:
    """Return the last sequence of each subject up to one, ascending; reads no record."""
    sequences: list[int] = []
    flags = bytearray(len(index.entries))
    searched: i64 = 0
    for entry in found:
        if entry.last <= up_to:
            sequences.append(int(entry.last))
        else:
            flags[int(entry.id)] = 1
            searched += 1
    # The others have newer messages: one scan backwards from there finds them all.
    n: i64 = len(index.segments) - 1
    while n >= 0 and searched > 0:
        columns = index.segments[n]
        n -= 1
        i: i64 = min(i64(len(columns.offsets)) - 1, up_to - columns.base)
        while i >= 0 and searched > 0:
            subject_id = columns.subjects[i]
            if columns.offsets[i] != NOWHERE and flags[int(subject_id)] != 0:
                flags[int(subject_id)] = 0
                searched -= 1
                sequences.append(int(columns.base + i))
            i -= 1
    sequences.sort()
    return sequences
