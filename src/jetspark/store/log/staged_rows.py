"""The staged messages that decisions see, by sequence and by subject.

Removals ask which staged messages they concern, and a group may have thousands of both: each
removal visits the messages of its subjects, and none that an earlier one removed.
"""

from mypy_extensions import i64

from jetspark.store.log.subject_table import SubjectEntry
from jetspark.subjects.match import matches

# Sequence, accounted size and subject.
Row = tuple[int, int, SubjectEntry]


class StagedRows:
    """Staged messages that no staged deletion removes."""

    def __init__(self) -> None:
        self.by_seq: dict[int, Row] = {}
        # By the id of the subject, and by sequence; both in order.
        self.by_subject: dict[int, dict[int, Row]] = {}

    def add(self, seq: i64, size: i64, entry: SubjectEntry) -> None:
        """Add the newest message."""
        row = (int(seq), int(size), entry)
        self.by_seq[row[0]] = row
        rows = self.by_subject.get(int(entry.id))
        if rows is None:
            self.by_subject[int(entry.id)] = {row[0]: row}
        else:
            rows[row[0]] = row

    def remove(self, seq: int) -> None:
        """Remove a message, if it exists."""
        row = self.by_seq.pop(seq, None)
        if row is None:
            return
        subject_id = int(row[2].id)
        rows = self.by_subject[subject_id]
        del rows[seq]
        if not rows:
            del self.by_subject[subject_id]

    def remove_to(self, last: int) -> None:
        """Remove all messages up to a sequence."""
        gone: list[int] = []
        for seq in self.by_seq:
            if seq > last:
                break
            gone.append(seq)
        for seq in gone:
            self.remove(seq)

    def of(self, entry: SubjectEntry) -> list[Row]:
        """Return the messages of a subject, oldest first."""
        rows = self.by_subject.get(int(entry.id))
        return [] if rows is None else list(rows.values())

    def count_of(self, entry: SubjectEntry) -> i64:
        """Return how many messages a subject has."""
        rows = self.by_subject.get(int(entry.id))
        return 0 if rows is None else len(rows)

    def subjects(self) -> list[SubjectEntry]:
        """Return the subjects that have messages."""
        return [next(iter(rows.values()))[2] for rows in self.by_subject.values()]

    def last_of(self, entry: SubjectEntry) -> i64:
        """Return the newest message of a subject; 0 if it has none."""
        rows = self.by_subject.get(int(entry.id))
        return 0 if rows is None else next(reversed(rows))

    def all(self) -> list[Row]:
        """Return all messages, oldest first."""
        return list(self.by_seq.values())

    def below(self, end: int) -> list[Row]:
        """Return the messages below a sequence, oldest first."""
        found: list[Row] = []
        for row in self.by_seq.values():
            if row[0] >= end:
                break
            found.append(row)
        return found

    def matching(self, pattern: bytes) -> list[Row]:
        """Return the messages whose subjects match a pattern, oldest first."""
        found: list[Row] = []
        for rows in self.by_subject.values():
            entry = next(iter(rows.values()))[2]
            if matches(entry.subject, pattern):
                found += rows.values()
        found.sort(key=_sequence)
        return found


def _sequence(row: Row) -> int:
    return row[0]
