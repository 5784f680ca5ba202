"""Whether a stream with discard new has room for another message (wire.md, Publishing).

Counted on staged state: durable plus staged messages. Limits with *discard old* need no decision:
the store evicts when a message becomes durable.

Publishing changes a few counts. Once a rollup, purge or delete is staged, which may concern any of
the messages, they are counted from the messages that are left, until nothing is staged: of all
subjects once, and then of the subjects that change.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.rules import Rules
from jetspark.errors.storage import CorruptRecord
from jetspark.store.format.record import OVERHEAD
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.subject_table import SubjectEntry

MESSAGES: Final = "maximum messages exceeded"
BYTES: Final = "maximum bytes exceeded"
PER_SUBJECT: Final = "maximum messages per subject exceeded"


# Messages of one subject that are looked at, whether they are about to be removed. Of more than
# these none is considered removed: a message may be refused that would fit.
LOOKED_AT_MAX: Final[i64] = 65_536


# Counting the messages of a subject costs this many units of a turn (turn.py).
COUNTED_UNITS: Final[i64] = 2


class Load:
    """The effect of one group that the counts of the store do not include yet."""

    def __init__(self) -> None:
        # Messages that replace another one of their subject.
        self.replaced: i64 = 0
        # How many more messages a subject has; negative after a rollup.
        self.subjects: dict[bytes, int] = {}


class Room:
    """The limits of one stream, to decide whether a new message is refused."""

    def __init__(self, rules: Rules, log: StreamLog) -> None:
        self.rules: Rules = rules
        self.log: StreamLog = log
        self.open: Load = Load()
        self.in_flight: Load = Load()
        # The staged removals that the counts include: how often they changed.
        self.removals: i64 = 0
        # Counted from what is left: the durable messages of subjects, as far as they were asked,
        # and by how many messages subjects exceed their limit.
        self.left: dict[bytes, int] | None = None
        self.over: dict[bytes, int] = {}

    def configure(self, rules: Rules) -> None:
        """Apply a configuration."""
        self.rules = rules
        # What is staged was not counted, or by other rules.
        self.removals = -1
        self.log.staged.deletions.follow(False)

    def problem(self, subject: bytes, headers_length: i64, body_length: i64, rollup: bool) -> str:
        """Return why a message is refused; empty if there is room. The order is nats-server's."""
        rules = self.rules
        self.follow()
        replaces = self.replaces(subject)
        # A rollup makes room for itself.
        if replaces and rules.discard_new_per_subject and not rollup:
            return PER_SUBJECT
        messages = self.log.staged.messages - self.open.replaced - self.in_flight.replaced
        if 0 < rules.max_msgs <= messages and not replaces:
            return MESSAGES
        if rules.max_bytes > 0:
            total = OVERHEAD + len(subject) + headers_length + body_length
            size = self.log.codec.size_of(total, headers_length)
            if self.log.staged.size + size > rules.max_bytes and (
                not replaces or self.oldest_size(subject) < size
            ):
                return BYTES
        return ""

    def replaces(self, subject: bytes) -> bool:
        """Return whether another message replaces the oldest one of its subject."""
        return 0 < self.rules.max_per_subject <= self.count_of(subject)

    def count_of(self, subject: bytes) -> i64:
        """Return how many messages a subject has, including staged ones."""
        count: i64 = 0
        if self.left is not None:
            self.log.staged.look_up()
        entry = self.log.index.subjects.get(subject)
        if self.left is not None:
            return 0 if entry is None else self.left_of(entry)
        if entry is not None:
            count = i64(entry.count)
        count += self.open.subjects.get(subject, 0)
        count += self.in_flight.subjects.get(subject, 0)
        return count

    def follow(self) -> None:
        """Count what staged removals concern."""
        if self.rules.max_per_subject <= 0:
            return
        deletions = self.log.staged.deletions
        if self.removals != deletions.changes:
            self.count_again()
        elif len(deletions.touched) > 0:
            for subject in deletions.take_touched():
                self.count_subject(subject)

    def count_again(self) -> None:
        """Count from the messages that are left: staged removals may concern any of them."""
        staged = self.log.staged
        staged.deletions.follow(True)
        self.removals = staged.deletions.changes
        self.left = {}
        self.over = {}
        self.open = Load()
        self.in_flight = Load()
        subjects = staged.left_rows().subjects()
        self.log.index.turn.spend(i64(len(subjects)) * COUNTED_UNITS)
        for entry in subjects:
            self.note_over(entry)

    def count_subject(self, subject: bytes) -> None:
        """Count what is left of a subject that changed."""
        left = self.left
        if left is None:
            return
        left.pop(subject, None)
        entry = self.log.index.subjects.get(subject)
        if entry is not None:
            self.note_over(entry)

    def note_over(self, entry: SubjectEntry) -> None:
        """Note by how much a subject exceeds its limit: these messages are going to be evicted."""
        over = max(0, int(self.left_of(entry) - self.rules.max_per_subject))
        self.open.replaced += over - self.over.get(entry.subject, 0)
        if over > 0:
            self.over[entry.subject] = over
        else:
            self.over.pop(entry.subject, None)

    def left_of(self, entry: SubjectEntry) -> i64:
        """Return how many messages of a subject are left, including staged ones."""
        staged = self.log.staged
        assert self.left is not None, "counted from what is left"
        durable = self.left.get(entry.subject)
        if durable is None:
            durable = int(entry.count)
            if entry.last < staged.deletions.purged_below(entry.subject):
                durable = 0
            elif staged.deletions.any and durable <= LOOKED_AT_MAX:
                durable = staged.durable_left(entry)
            self.left[entry.subject] = durable
        return durable + staged.left_rows().count_of(entry)

    def oldest_size(self, subject: bytes) -> i64:
        """Return the accounted size of the oldest durable message of a subject; 0 if none."""
        entry = self.log.index.subjects.get(subject)
        if entry is None or entry.count == 0:
            return 0
        first = entry.first
        deletions = self.log.staged.deletions
        while deletions.any and first > 0 and deletions.has(first, subject):
            first = self.log.index.next_in_subject(first)
        if first == 0:
            return 0
        try:
            data, at = self.log.reader.locate(first)
        except CorruptRecord:
            return 0
        if len(data) == 0:
            return 0
        return self.log.codec.message_size(data, at)

    def take(self, subject: bytes, rollup: bool) -> None:
        """Count a staged message; after a rollup it is alone on its subject."""
        load = self.open
        if self.rules.max_per_subject <= 0:
            return
        if self.left is not None:
            # It is among those that are left.
            self.log.staged.look_up()
            entry = self.log.index.subjects.get(subject)
            if entry is not None:
                self.note_over(entry)
        elif rollup:
            load.subjects[subject] = (
                load.subjects.get(subject, 0) + 1 - int(self.count_of(subject))
            )
        elif self.replaces(subject):
            load.replaced += 1
        else:
            load.subjects[subject] = load.subjects.get(subject, 0) + 1

    def group_taken(self) -> None:
        """Note that the staged messages are in flight."""
        if self.left is None:
            self.in_flight = self.open
            self.open = Load()

    def applied(self, entries: list[SubjectEntry]) -> None:
        """Note that the index has these messages of the group in flight; the others follow."""
        if self.rules.max_per_subject <= 0:
            return
        if self.left is not None:
            for entry in entries:
                self.count_subject(entry.subject)
            return
        if self.log.staged.deletions.any:
            self.removals = -1
            return
        load = self.in_flight
        for entry in entries:
            more = load.subjects.get(entry.subject, 0)
            if more > 0:
                load.subjects[entry.subject] = more - 1
            else:
                load.replaced -= 1

    def committed(self) -> None:
        """Note that the group in flight is durable."""
        self.in_flight = Load()
        staged = self.log.staged
        if self.left is not None and not (
            staged.seq > self.log.index.last_seq or staged.deletions.any
        ):
            self.failed()

    def failed(self) -> None:
        """Forget everything that was staged."""
        self.open = Load()
        self.in_flight = Load()
        self.left = None
        self.over = {}
        self.log.staged.deletions.follow(False)
        self.removals = self.log.staged.deletions.changes
