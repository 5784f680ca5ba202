"""What a store may hold: a model that hears of everything done, and judges what is found later.

The promises it checks (reliability.md 2): what was acknowledged is there, byte for byte; nothing
is there that was never staged; sequences rise and none that anybody saw is used again; a stream
that was made is there, one that was dropped is not; nothing is reported as damaged when nothing
was damaged.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from jetspark.store.log import StreamLog
from jetspark.store.manifest import Identity
from jetspark.store.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.recovery import Recovery
from jetspark.store.store import FileStore
from jetspark.testing.disk import SimulatedDisk

ROOT: Final = Path("/store")


class Violation(AssertionError):
    """A store broke a promise."""


class Message(NamedTuple):
    """What a publisher handed in."""

    subject: bytes
    headers: bytes
    body: bytes


class StreamModel:
    """One stream: what was staged, what was acknowledged, what became of it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        # Whether its creation was confirmed, and whether its removal was begun and confirmed.
        self.created = False
        self.dropping = False
        self.dropped = False
        self.acked: dict[int, Message] = {}
        # What may be found: acknowledged, or staged and not known to be gone.
        self.possible: dict[int, set[Message]] = {}
        # Sequences whose sync failed: they may be seen and still be gone later.
        self.unsure: set[int] = set()
        # The highest sequence given out by this process, or seen by anybody in an earlier one.
        self.highest_seq = 0

    def staged(self, seq: int, message: Message) -> None:
        """A message got a sequence."""
        if seq <= self.highest_seq:
            raise Violation(f"sequence {seq} was given out after {self.highest_seq}")
        self.highest_seq = seq
        self.possible.setdefault(seq, set()).add(message)

    def adopt(self, visible: dict[int, Message]) -> None:
        """Readers see these after a start: from now on they count as acknowledged."""
        self.created = True
        self.dropping = False
        self.possible = {seq: {message} for seq, message in visible.items()}
        self.unsure &= visible.keys()
        self.acked = {seq: m for seq, m in visible.items() if seq not in self.unsure}
        self.highest_seq = max(visible, default=0)


class StoreModel:
    """All streams of one store."""

    def __init__(self) -> None:
        self.streams: dict[int, StreamModel] = {}
        # A sync failed: bytes that looked written may be gone, and are then reported as damage.
        self.sync_failed = False

    def check(self, opened: "Opened") -> dict[int, dict[int, Message]]:
        """Compare what a start found with what may be there; the messages of every stream."""
        found = {log.identity.stream_id: log for log in opened.logs}
        for number, stream in self.streams.items():
            if stream.created and not stream.dropping and number not in found:
                raise Violation(f"stream {stream.identity.name} is gone")
        seen = {}
        for number, log in found.items():
            known = self.streams.get(number)
            if known is None or known.dropped:
                raise Violation(f"stream {log.identity.name} is there and should not be")
            if log.identity != known.identity:
                raise Violation(f"{log.identity} is there instead of {known.identity}")
            seen[number] = self._check_stream(known, log)
            self._check_report(opened.recoveries[number], opened.disturbed)
        return seen

    def _check_stream(self, stream: StreamModel, log: StreamLog) -> dict[int, Message]:
        visible = messages(log)
        for seq, message in visible.items():
            if message not in stream.possible.get(seq, ()):
                raise Violation(f"sequence {seq} of {stream.identity.name} was never staged so")
        for seq, message in stream.acked.items():
            if visible.get(seq) != message:
                raise Violation(f"sequence {seq} of {stream.identity.name} was lost or changed")
        if log.index.messages != len(visible):
            raise Violation(f"{log.index.messages} messages counted, {len(visible)} are there")
        highest = max((*stream.acked, *visible), default=0)
        if log.staged_seq < highest or log.index.last_seq > log.staged_seq:
            raise Violation(
                f"the next sequence would be {log.staged_seq + 1}, {highest} is used and "
                f"{log.index.last_seq} is shown"
            )
        return visible

    def _check_report(self, recovery: Recovery, disturbed: bool) -> None:
        proven = [place for place in recovery.damaged if place not in recovery.doubtful]
        if proven and not self.sync_failed:
            raise Violation(f"{proven} reported as damaged, and nothing was damaged")
        if recovery.notes and not (self.sync_failed or disturbed):
            raise Violation(f"notes where nothing went wrong: {recovery.notes}")

    def adopt(self, seen: dict[int, dict[int, Message]]) -> None:
        """Go on with what a start found."""
        for number, stream in list(self.streams.items()):
            if number in seen:
                stream.adopt(seen[number])
            else:
                stream.dropped = True
                stream.created = False


class Opened:
    """A store that was started on a disk."""

    def __init__(self, disk: SimulatedDisk, segment_size: int, cache_budget: int) -> None:
        self.disk = disk
        self.store = FileStore(disk, ROOT, segment_size=segment_size, cache_budget=cache_budget)
        self.recoveries: dict[int, Recovery] = {}
        before = disk.failed_steps
        self.logs = self.store.open(self._hear)
        # Whether the disk was made to fail meanwhile.
        self.disturbed = disk.failed_steps > before

    def _hear(self, identity: Identity, recovery: Recovery) -> None:
        self.recoveries[identity.stream_id] = recovery

    def close(self) -> None:
        """Stop the store and see that it gave everything back."""
        close_all(self.logs)
        self.store.close()
        if self.disk.open_handles:
            raise Violation(f"{self.disk.open_handles} handles were left open")


def close_all(logs: Iterable[StreamLog]) -> None:
    """Close logs; each of them twice, as that must not matter."""
    for log in logs:
        log.close()
        log.close()


def messages(log: StreamLog) -> dict[int, Message]:
    """Every message of a log by its sequence, read as a consumer would."""
    found = {}
    index = log.index
    seq = index.next_seq(1, b"")
    time = 0
    while seq:
        data, at = log.locate(seq)
        found[int(seq)] = Message(
            data[at + FIXED : subject_end(data, at)],
            data[subject_end(data, at) : headers_end(data, at)],
            data[headers_end(data, at) : body_end(data, at)],
        )
        if record_time(data, at) < time:
            raise Violation(f"time goes back at sequence {seq}")
        time = int(record_time(data, at))
        seq = index.next_seq(seq + 1, b"")
    return found
