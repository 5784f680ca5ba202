"""Files that are missing, cut, foreign, exchanged or unreadable, and reads that fail.

Two streams live for a while on a simulated disk. Then one thing happens to one file, or to the
reads of one, and the store is started again. Whatever happened:

- every message that is served is what was acknowledged under that sequence;
- every acknowledged message that is not served is reported, or the disk refuses to read it and
  reading it says so;
- no sequence is given out again;
- the other stream is as it was, and the start does not fail;
- when nothing but reads failed, everything exists once they work again.
"""

from random import Random
from typing import Final

from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import Message, Violation
from tests.support.store.reading import messages
from tests.support.store.sample import stream_identity

from jetspark.store.log.stream_log import StreamLog
from jetspark.store.store import FileStore

ROOT: Final = KeptPath("/store")
SEGMENT_SIZE: Final = 6_000

# What one file kept when a process ended is worth: by stream id, sequence and message.
Kept = dict[int, dict[int, Message]]


def run_file_faults(runs: int, seed: int) -> dict[str, int]:
    """Let one thing happen to one file, many times; how often each kind was met."""
    met: dict[str, int] = {}
    for number in range(runs):
        random = Random(seed + number)
        life = Life(random)
        try:
            kind = life.spoil()
            met[kind] = met.get(kind, 0) + 1
            life.check(kind)
        except Violation as problem:
            raise Violation(f"seed {seed + number}: {life.done}: {problem}") from problem
        except Exception as problem:
            raise Violation(f"seed {seed + number}: {life.done}: {problem!r}") from problem
    return met


class Life:
    """Two streams, what they acknowledged, and what is done to a file of theirs."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk: SimulatedDisk = SimulatedDisk()
        self.acked: Kept = {1: {}, 2: {}}
        # The highest sequence that was given out.
        self.used: dict[int, int] = {1: 0, 2: 0}
        # What was deleted, and comes back when the record that says so is lost.
        self.deleted: Kept = {1: {}, 2: {}}
        self.done: str = "nothing was done"
        self.target: int = 0
        self._live()

    def _store(self) -> FileStore:
        return FileStore(
            self.disk, ROOT, segment_size=SEGMENT_SIZE, cache_budget=0, reserve_size=0
        )

    def _live(self) -> None:
        random = self.random
        store = self._store()
        store.open(lambda _identity, _recovery: None)
        logs = [store.create(stream_identity(number)) for number in (1, 2)]
        for turn in range(random.randrange(4, 40)):
            log = random.choice(logs)
            self._publish(log, turn)
            if random.random() < 0.2:
                self._keep_house(log)
        for log in logs:
            log.upkeep.want_note(True)
            self._keep_house(log)
        if random.random() < 0.5:
            self.disk = self.disk.survivor()
        else:
            for log in logs:
                log.close()
            store.close()

    def _keep_house(self, log: StreamLog) -> None:
        while log.maintain():
            pass

    def _publish(self, log: StreamLog, turn: int) -> None:
        number = log.identity.stream_id
        staged = {}
        for _ in range(self.random.randrange(1, 4)):
            subject = b"s.%d" % self.random.randrange(5)
            body = bytes([65 + turn % 26]) * self.random.choice((3, 200, 1500, 5000))
            seq = int(log.staged.add_message(subject, 0, body + b"\r\n", 1_000 + turn))
            staged[seq] = Message(subject, b"", body)
        gone = 0
        if self.random.random() < 0.2 and self.acked[number]:
            gone = self.random.choice(list(self.acked[number]))
            log.staged.delete(gone)
        group = log.take_group()
        assert group is not None
        self.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
        log.commit()
        self.acked[number].update(staged)
        if gone:
            self.deleted[number][gone] = self.acked[number].pop(gone)
        self.used[number] = max(self.used[number], *staged)

    # What happens ------------------------------------------------------------------------------

    def spoil(self) -> str:
        """Do something to a file; what kind of thing."""
        random = self.random
        paths = sorted(path for path in self.disk.paths() if path.parent.name.startswith("stream"))
        path = random.choice(paths)
        self.target = int(path.parent.name[-16:], 16)
        size = self.disk.paths()[path]
        kind = random.choice(
            ("read once", "read often", "no reads", "missing", "cut", "foreign", "beside", "swap")
        )
        first = random.randrange(max(size, 1))
        end = random.choice((first + 1, first + 512, first // 4096 * 4096 + 4096))
        self.done = f"{kind}: {path} ({size} bytes, from {first} to {end})"
        if kind == "read once":
            self.disk.refuse_reads(str(path), first, end, times=1)
        elif kind == "read often":
            self.disk.refuse_reads(str(path), first, end, times=random.randrange(2, 12))
        elif kind == "no reads":
            self.disk.refuse_reads(str(path), first, end)
        elif kind == "missing":
            self.disk.lose(path)
        elif kind == "cut":
            self.disk.cut(path, first)
        elif kind in {"foreign", "beside"}:
            others = [p for p in paths if p.parent != path.parent and p.suffix == path.suffix]
            if not others:
                return "nothing"
            content = self.disk.read_file(random.choice(others))
            if kind == "beside" and path.suffix == ".seg":
                while path in paths:  # a name that is in use would be a file replaced
                    at = random.randrange(1, 200)
                    path = path.with_name(f"{at:020d}-{at + random.randrange(2):020d}.seg")
            self.disk.put(path, content)
            self.done += f" became {path}"
        else:
            others = [
                p
                for p in paths
                if p.parent == path.parent and p.suffix == path.suffix and p != path
            ]
            if not others:
                return "nothing"
            other = random.choice(others)
            self.disk.swap(path, other)
            self.done += f" with {other}"
        return kind

    # What must hold ----------------------------------------------------------------------------

    def check(self, kind: str) -> None:
        """Start the store, and look at everything; then start it once more."""
        store, logs = self._open()
        if set(logs) != {1, 2}:
            raise Violation(f"streams {sorted(logs)} are there")
        for number, log in logs.items():
            served = self._check_stream(log, number)
            if number != self.target and len(served) < len(self.acked[number]):
                raise Violation(f"stream {number} lost messages, and nothing was done to it")
            self._keep_house(log)
            self._go_on(log, number)
        for log in logs.values():
            log.close()
        store.close()
        self.disk.allow_reads()
        store, logs = self._open()
        for number, log in logs.items():
            served = self._check_stream(log, number)
            if kind in {"read once", "read often", "no reads", "swap", "beside", "nothing"} and (
                len(served) < len(self.acked[number])
            ):
                lost = sorted(set(self.acked[number]) - served)
                raise Violation(f"stream {number}: {lost} did not come back")
            log.close()
        store.close()
        if self.disk.open_handles:
            raise Violation(f"{self.disk.open_handles} files were left open")

    def _open(self) -> tuple[FileStore, dict[int, StreamLog]]:
        self.disk = self.disk if self.disk.open_handles == 0 else self.disk.survivor()
        store = self._store()
        logs = store.open(lambda _identity, _recovery: None)
        return store, {log.identity.stream_id: log for log in logs}

    def _check_stream(self, log: StreamLog, number: int) -> set[int]:
        acked = self.acked[number]
        refused: set[int] = set()
        served = messages(log, refused)
        known = acked | self.deleted[number] if log.quarantine.known else acked
        wrong = [seq for seq in served if known.get(seq) != served[seq]]
        if wrong:
            raise Violation(f"stream {number}: {wrong} were never acknowledged like this")
        reported = {seq for a, b in log.quarantine.lost for seq in range(a, b + 1)}
        silent = set(acked) - set(served) - reported - refused
        if silent:
            raise Violation(f"stream {number}: {sorted(silent)} are lost, and nobody says so")
        return set(served)

    def _go_on(self, log: StreamLog, number: int) -> None:
        """Publish once more: no sequence is used twice."""
        if log.access.read_only:
            return
        seq = int(log.staged.add_message(b"s.new", 0, b"new\r\n", 10_000))
        group = log.take_group()
        assert group is not None
        self.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
        log.commit()
        if seq <= self.used[number]:
            raise Violation(f"stream {number}: sequence {seq} is used again")
        self.acked[number][seq] = Message(b"s.new", b"", b"new")
        self.used[number] = seq
