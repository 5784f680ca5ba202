"""What a store may hold: a model that records everything done, and judges what is found later.

The promises it checks: what was acknowledged exists, byte for byte; nothing
exists that was never staged; sequences rise and none that anybody saw is used again; a stream
that was made exists, one that was dropped is not; nothing is reported as damaged when nothing
was damaged. Removal and limits take out what they must and nothing else.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.reading import (
    Violation,
    check_counts,
    consumers,
    messages,
    sequences,
)
from tests.support.store.state import (
    Change,
    Consumer,
    Fate,
    Limited,
    Message,
    State,
    published,
)

from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore

__all__ = [
    "Found",
    "Message",
    "Opened",
    "StoreModel",
    "StreamModel",
    "Violation",
    "check_counts",
    "consumers",
    "messages",
    "sequences",
]

ROOT: Final = KeptPath("/store")
# Room for a few frames, so that lives have many files.
JOURNAL_SIZE: Final = 8192 + 4096
# More changes than these that may be there or not have too many outcomes to try them all.
OPEN_MAX: Final = 9


class Found(NamedTuple):
    """What a start found in one stream."""

    messages: dict[int, Message]
    limits: Limited
    document: bytes
    consumers: dict[int, Consumer]
    fast_batches: dict[bytes, bytes]
    unsure: bool

    def is_in(self, state: State) -> bool:
        """Say whether a state is what was found."""
        return (
            state.messages == self.messages
            and state.named_consumers == self.consumers
            and state.fast_batches == self.fast_batches
        )


class StreamModel:
    """One stream: what was staged, what was acknowledged, what became of it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        # Whether its creation was confirmed, and whether its removal was started and confirmed.
        self.created: bool = False
        self.dropping: bool = False
        self.dropped = False
        # What is certain, and the changes after it, in their order. Those that were staged, or
        # were and have failed, may be there or not.
        self.base: State = State()
        self.changes: list[tuple[Fate, Change]] = []
        # Everything ever staged, for streams of which little is certain.
        self.possible: dict[int, set[Message]] = {}
        # The highest sequence given out by this process, or seen by anybody in an earlier one.
        self.highest_seq: int = 0
        # Documents of configurations that were staged; the one that was acknowledged last.
        self.documents: set[bytes] = {bytes(identity.config)}
        self.document: bytes = bytes(identity.config)
        # What an acknowledgement means, and the highest sequence that readers ever saw.
        self.level = "durable"
        self.seen_seq: int = 0
        self._moment: tuple[object, ...] = ()
        self._states: list[State] = []
        self._certain: set[int] = set()
        # Everything older was taken out by age; whatever opens the stream does that again.
        self.expired_before = 0

    def staged(self, change: "Change") -> None:
        """A change was staged, and may be found from now on."""
        for seq, message in published(change):
            if seq <= self.highest_seq:
                raise Violation(f"sequence {seq} was given out after {self.highest_seq}")
            self.highest_seq = seq
            self.possible.setdefault(seq, set()).add(message)
        self.changes.append((Fate.STAGED, change))

    def acknowledge(self, count: int, *, durable: bool) -> None:
        """The oldest ``count`` changes that were staged are acknowledged.

        ``durable`` says whether they are on disk, or only written (``store/upkeep/sync.py``).
        """
        for n, (fate, change) in enumerate(self.changes):
            if fate is Fate.STAGED and count:
                self.changes[n] = (Fate.ACKED if durable else Fate.WRITTEN, change)
                self.seen_seq = max([self.seen_seq, *(one.seq for one in published(change))])
                count -= 1
        self._collapse()

    def synced(self) -> None:
        """What was acknowledged before it was on disk exists now."""
        self.changes = [
            (Fate.ACKED if fate is Fate.WRITTEN else fate, change) for fate, change in self.changes
        ]
        self._collapse()

    @property
    def written(self) -> int:
        """How many changes were acknowledged before they are on disk."""
        return sum(fate is Fate.WRITTEN for fate, _ in self.changes)

    def visible(self) -> State:
        """What readers of the open log see: all that was acknowledged."""
        state = self.base.copy()
        for fate, change in self.changes:
            if fate in {Fate.ACKED, Fate.WRITTEN}:
                state.do(change)
        return state

    def _collapse(self) -> None:
        if all(fate is Fate.ACKED for fate, _ in self.changes):
            self.base = self.base.copy()
            for _, change in self.changes:
                self.base.do(change)
            self.changes = []

    def failed(self, *, cut: bool) -> None:
        """What was staged has failed. ``cut``: off the file, so no one may ever see it."""
        kept: list[tuple[Fate, Change]] = []
        for fate, change in self.changes:
            if fate is not Fate.STAGED:
                kept.append((fate, change))
            elif not cut:
                kept.append((Fate.FAILED, change))
            else:
                for seq, message in published(change):
                    self.possible[seq].discard(message)
        self.changes = kept
        self._collapse()

    def cut_off(self) -> None:
        """What has failed was truncated: no one may ever see it."""
        for fate, change in self.changes:
            if fate is Fate.FAILED:
                for seq, message in published(change):
                    self.possible[seq].discard(message)
        self.changes = [known for known in self.changes if known[0] is not Fate.FAILED]
        self._collapse()

    def moment(self) -> tuple[object, ...]:
        """Equal as long as nothing was recorded that a verdict depends on."""
        return (
            self.base,
            tuple(self.changes),
            (self.created, self.dropping, self.dropped),
            (self.document, len(self.documents)),
            (self.highest_seq, self.seen_seq, self.expired_before),
        )

    def states(self) -> "list[State]":
        """Everything that may be found; empty when there are too many possibilities.

        Asked for many images of one point in time, so it is kept until something changes.
        """
        moment = (self.base, tuple(self.changes))
        if self._moment != moment:
            self._moment = moment
            self._states = self._possible_states()
            self._certain = (
                set.intersection(*(set(state.messages) for state in self._states))
                if self._states
                else set()
            )
        return self._states

    def _possible_states(self) -> "list[State]":
        if sum(fate is not Fate.ACKED for fate, _ in self.changes) > OPEN_MAX:
            return []
        states = [self.base]
        for fate, change in self.changes:
            holed = [] if fate is Fate.ACKED else [state.behind_a_hole() for state in states]
            # A record before the change that is none itself, such as a skip, may be lost alone.
            after = [state.copy() for state in (*states, *holed)]
            for state in after:
                state.do(change)
            if fate is not Fate.ACKED:
                after += states + holed
            states = list({state.key: state for state in after}.values())
        found = [state.copy() for state in states]
        for state in found:
            state.evict()
        return found

    def certain(self) -> set[int]:
        """Sequences that everything that may be found has."""
        self.states()
        return self._certain

    def adopt(self, found: "Found") -> None:
        """Readers see this after a start: from now on it counts as acknowledged.

        A start that could not prove the end of the log shows less than there may be.
        """
        self.created = True
        self.dropping = False
        if found.unsure:
            self.failed(cut=False)
            return
        self.base = State()
        self.base.messages = dict(found.messages)
        self.base.limits = found.limits
        self.base.consumers = dict(found.consumers)
        self.base.fast_batches = dict(found.fast_batches)
        self.changes = []
        self.possible = {seq: {message} for seq, message in found.messages.items()}
        self.seen_seq = max([self.seen_seq, *found.messages])
        self.highest_seq = self.seen_seq
        self.document = found.document


class StoreModel:
    """All streams of one store."""

    def __init__(self) -> None:
        self.streams: dict[int, StreamModel] = {}
        # A sync failed: bytes that looked written may be gone, and are then reported as damage.
        self.sync_failed = False

    def moment(self) -> tuple[object, ...]:
        """Equal as long as nothing was recorded: what is found on equal disks is judged alike."""
        return (self.sync_failed, *(stream.moment() for stream in self.streams.values()))

    def check(self, opened: "Opened") -> dict[int, Found]:
        """Compare what a start found with what may be there; what every stream holds."""
        found = {log.identity.stream_id: log for log in opened.logs}
        for number, stream in self.streams.items():
            if stream.created and not stream.dropping and number not in found:
                raise Violation(f"stream {stream.identity.name} is gone")
        seen = {}
        for number, log in found.items():
            known = self.streams.get(number)
            if known is None or known.dropped:
                raise Violation(f"stream {log.identity.name} is there and should not be")
            self._check_identity(known, log)
            seen[number] = self._check_stream(known, log)
            self._check_report(opened.recoveries[number], opened.disturbed)
            if log.quarantine.lost and not self.sync_failed:
                raise Violation(f"{log.quarantine.lost} reported as lost, and nothing is")
        return seen

    def _check_identity(self, stream: StreamModel, log: StreamLog) -> None:
        found, known = log.identity, stream.identity
        if (found.stream_id, found.name, found.account, found.created_ns) != (
            known.stream_id,
            known.name,
            known.account,
            known.created_ns,
        ):
            raise Violation(f"{found} is there instead of {known}")
        document = bytes(found.config)
        if document not in stream.documents:
            raise Violation(f"{document!r} was never its configuration")
        if not stream.changes and not log.access.read_only and document != stream.document:
            raise Violation(f"configuration {document!r} instead of {stream.document!r}")

    def _check_stream(self, stream: StreamModel, log: StreamLog) -> Found:
        log.expire_before(stream.expired_before)
        unreadable: set[int] = set()
        visible = messages(log, unreadable)
        if unreadable:
            raise Violation(f"{unreadable} cannot be read, and nothing was damaged")
        for seq, message in visible.items():
            if message not in stream.possible.get(seq, ()):
                raise Violation(f"sequence {seq} of {stream.identity.name} was never staged so")
        limits = (
            int(log.limits.max_msgs),
            int(log.limits.max_bytes),
            int(log.limits.max_per_subject),
        )
        document = bytes(log.identity.config)
        found = Found(
            visible,
            limits,
            document,
            consumers(log),
            dict(log.engine_state.fast_batches),
            log.access.read_only,
        )
        if log.access.read_only:
            return found
        states = stream.states()
        if states and not any(found.is_in(state) for state in states):
            possible = [(sorted(s.messages), s.consumers, s.fast_batches) for s in states]
            raise Violation(
                f"{stream.identity.name} has {sorted(visible)}, {found.consumers}, "
                f"{found.fast_batches}, that is none of {possible}; {stream.changes}"
            )
        check_counts(log, visible)
        highest = max((stream.seen_seq, *stream.certain(), *visible))
        if log.staged.seq < highest or log.index.last_seq > log.staged.seq:
            raise Violation(
                f"the next sequence would be {log.staged.seq + 1}, {highest} is used and "
                f"{log.index.last_seq} is shown"
            )
        if log.staged.last_consumer_id < max(found.consumers, default=0):
            raise Violation(
                f"consumer number {log.staged.last_consumer_id + 1} would be given again"
            )
        return found

    def _check_report(self, recovery: Recovery, disturbed: bool) -> None:
        proven = [place for place in recovery.damaged if place not in recovery.doubtful]
        if proven and not self.sync_failed:
            raise Violation(f"{proven} reported as damaged, and nothing was damaged")
        # Of a consumer only the state may be left in a write that was interrupted.
        notes = [note for note in recovery.notes if not (recovery.doubtful and "consumer" in note)]
        if notes and not (self.sync_failed or disturbed):
            raise Violation(f"notes where nothing went wrong: {notes}")

    def adopt(self, seen: dict[int, Found]) -> None:
        """Continue with what a start found."""
        for number, stream in list(self.streams.items()):
            if number in seen:
                stream.adopt(seen[number])
            else:
                stream.dropped = True
                stream.created = False


class Opened:
    """A store that was started on a disk."""

    def __init__(
        self,
        disk: SimulatedDisk,
        segment_size: int,
        cache_budget: int,
        random_key: Callable[[], int] = lambda: 1,
    ) -> None:
        self.disk = disk
        self.store: FileStore = FileStore(
            disk,
            ROOT,
            segment_size=segment_size,
            cache_budget=cache_budget,
            sequences_ahead=8,
            reserve_size=0,
            random_key=random_key,
            journal_size=JOURNAL_SIZE,
        )
        self.recoveries: dict[int, Recovery] = {}
        before = disk.failed_steps
        self.logs: list[StreamLog] = self.store.open(self._hear)
        # Whether the disk was made to fail meanwhile.
        self.disturbed: bool = disk.failed_steps > before

    def _hear(self, identity: Identity, recovery: Recovery) -> None:
        self.recoveries[identity.stream_id] = recovery

    def close(self, *, note: bool = True) -> None:
        """Stop the store and see that it gave everything back.

        ``note`` False, for a disk that no one looks at again: no manifest is written.
        """
        close_all(self.logs, note=note)
        self.store.close()
        if self.disk.open_handles:
            raise Violation(f"{self.disk.open_handles} handles were left open")


def close_all(logs: Iterable[StreamLog], *, note: bool = True) -> None:
    """Close logs; each of them twice, as that must not matter."""
    for log in logs:
        log.close(note=note)
        log.close(note=note)
