"""What a stream holds, kept in the simplest way that could be right, for the store's campaigns."""

from enum import Enum
from typing import NamedTuple

from jetspark.subjects.match import matches


class Message(NamedTuple):
    """What a publisher handed in."""

    subject: bytes
    headers: bytes
    body: bytes

    @property
    def size(self) -> int:
        """What it counts in a file store (wire.md, Streams)."""
        headers = 4 + len(self.headers) if self.headers else 0
        return 30 + len(self.subject) + len(self.body) + headers


class Fate(Enum):
    """What is known of a change."""

    STAGED = 1
    ACKED = 2
    FAILED = 3
    WRITTEN = 4


class Published(NamedTuple):
    """A message came."""

    seq: int
    message: Message


class Deleted(NamedTuple):
    """A message goes."""

    seq: int


class DeletedRange(NamedTuple):
    """Messages go."""

    first: int
    last: int


class ConsumerSet(NamedTuple):
    """A consumer came or changed; without a document it goes."""

    number: int
    document: bytes


class ConsumerChanged(NamedTuple):
    """The state of a consumer changed."""

    number: int
    whole: bool
    body: bytes


class FastBatchSet(NamedTuple):
    """A fast batch continued; without a body it is over."""

    batch_id: bytes
    body: bytes


class Restated(NamedTuple):
    """Something was said again."""


class Purged(NamedTuple):
    """Messages go, as STREAM.PURGE says."""

    before: int
    pattern: bytes
    keep: int


class Batched(NamedTuple):
    """Messages came and went together."""

    changes: "tuple[Published | Deleted, ...]"


Limited = tuple[int, int, int]
Entry = ConsumerSet | ConsumerChanged | FastBatchSet
Change = Published | Deleted | DeletedRange | Purged | Batched | Entry | Restated | Limited
# A document, the last whole state, and the changes after it.
Consumer = tuple[bytes, bytes, tuple[bytes, ...]]


def published(change: Change) -> list[Published]:
    """The messages that a change brings."""
    if isinstance(change, Batched):
        return [one for one in change.changes if isinstance(one, Published)]
    return [change] if isinstance(change, Published) else []


class State:
    """What one stream holds, kept in the simplest way that could be right."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.limits: tuple[int, int, int] = (0, 0, 0)
        self.consumers: dict[int, Consumer] = {}
        self.fast_batches: dict[bytes, bytes] = {}
        # After bytes that do not check nothing is evicted until a record says the limits.
        self.holed: bool = False

    def copy(self) -> "State":
        """The same, to go another way from here."""
        other = State()
        other.messages = dict(self.messages)
        other.limits = self.limits
        other.consumers = dict(self.consumers)
        other.fast_batches = dict(self.fast_batches)
        other.holed = self.holed
        return other

    def behind_a_hole(self) -> "State":
        """The same when a change after it was lost."""
        other = self.copy()
        other.holed = any(self.limits)
        return other

    @property
    def key(self) -> tuple[object, ...]:
        """Equal when two states are."""
        return (
            tuple(self.messages),
            self.limits,
            self.holed,
            frozenset(self.consumers.items()),
            frozenset(self.fast_batches.items()),
        )

    @property
    def named_consumers(self) -> dict[int, Consumer]:
        """Those whose document is known: nothing else is of use."""
        return {number: told for number, told in self.consumers.items() if told[0]}

    def do(self, change: "Change") -> None:
        """Make one change, and drop what the limits do not allow."""
        if isinstance(change, Published):
            self.messages[change.seq] = change.message
        elif isinstance(change, Deleted):
            self.messages.pop(change.seq, None)
        elif isinstance(change, DeletedRange):
            for seq in range(change.first, change.last + 1):
                self.messages.pop(seq, None)
        elif isinstance(change, Batched):
            for one in change.changes:
                self.do(one)
        elif isinstance(change, ConsumerSet | ConsumerChanged | FastBatchSet):
            self._enter(change)
        elif isinstance(change, Restated):
            pass
        elif isinstance(change, Purged):
            self._purge(change)
        else:
            self.limits = change
            self.holed = False
            self.evict(anew=True)
        if not self.holed:
            self.evict()

    def _enter(self, entry: Entry) -> None:
        if isinstance(entry, FastBatchSet):
            self.fast_batches.pop(entry.batch_id, None)
            if entry.body:
                self.fast_batches[entry.batch_id] = entry.body
            return
        document, state, changes = self.consumers.pop(entry.number, (b"", b"", ()))
        if isinstance(entry, ConsumerChanged):
            state, changes = (entry.body, ()) if entry.whole else (state, (*changes, entry.body))
        else:
            document = entry.document
        if isinstance(entry, ConsumerChanged) or document:
            self.consumers[entry.number] = (document, state, changes)

    def _purge(self, change: "Purged") -> None:
        hit = [
            seq
            for seq, message in self.messages.items()
            if not change.pattern or matches(message.subject, change.pattern)
        ]
        if change.keep:
            hit = hit[: -change.keep]
        for seq in hit:
            if not change.before or seq < change.before:
                del self.messages[seq]

    def evict(self, *, anew: bool = False) -> None:
        """Take out what the limits do not allow.

        A message makes room in its subject first; limits that are new look at the whole first.
        """
        if anew:
            self._evict_total()
        self._evict_subjects()
        self._evict_total()

    def _evict_subjects(self) -> None:
        max_per_subject = self.limits[2]
        if max_per_subject:
            for subject in {message.subject for message in self.messages.values()}:
                own = [seq for seq, m in self.messages.items() if m.subject == subject]
                for seq in own[:-max_per_subject]:
                    del self.messages[seq]

    def _evict_total(self) -> None:
        max_msgs, max_bytes, _ = self.limits
        while (max_msgs and len(self.messages) > max_msgs) or (
            max_bytes and self.size > max_bytes
        ):
            del self.messages[min(self.messages)]

    @property
    def size(self) -> int:
        """What the messages count (wire.md, Streams)."""
        return sum(message.size for message in self.messages.values())
