"""Several files of one stream lost or spoiled at once: pairs and triples, with a model next to.

    python -m tests.campaigns.store.lost_files --runs 20000 --seed 1

A stream lives for a while next to another one, on a simulated disk, and is closed. Then two or
three of its files are missing, cut, zeroed, replaced by a file of the other stream or by an older
version of themselves, and the store is opened. The model knows every message that was
acknowledged:

- the start does not fail, and the other stream is as it was;
- every message that is served is what was acknowledged under that sequence; one that was deleted
  may be back only where damage is reported;
- every acknowledged message that is not served is reported as lost;
- no sequence is given out again;
- a consumer that is missing, or has another state than its last, only where damage is reported;
- the next start finds the same.

No one can see that a folder is an older state of itself when all that says otherwise is lost: with
no manifest of today, a loss need only be reported somewhere in the stream, and with an older one
in its place not even that (``Damage.informed``, ``Damage.outdated``). ``replaced_files.py`` has
more kinds of damage.
"""

import argparse
from pathlib import Path
from random import Random
from typing import Final

from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.reading import consumers, messages
from tests.support.store.sample import stream_identity
from tests.support.store.state import Message

from jetspark.errors.storage import StorageFault
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore

ROOT: Final = KeptPath("/store")
SEGMENT_SIZE: Final = 6_000
KINDS: Final = ("missing", "cut", "zeroed", "foreign", "older")
CONSUMER: Final = 3


class Violation(AssertionError):
    """The store broke a promise; the text says what was done to it."""


class Life:
    """A stream and what it acknowledged, another one next to it, and their files."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.disk = SimulatedDisk()
        self.acked: dict[int, Message] = {}
        self.deleted: dict[int, Message] = {}
        self.used = 0
        self.state = (b"", b"", ())
        # The files of the stream when half of it was written.
        self.older: dict[Path, bytes] = {}
        self._live()
        self.folder = self._folder(1)
        self.other_folder = self._folder(2)

    def _folder(self, number: int) -> Path:
        return next(p.parent for p in self.disk.paths() if p.parent.name.endswith(f"{number:x}"))

    def files(self) -> list[Path]:
        """The files of the stream."""
        return sorted(path for path in self.disk.paths() if path.parent == self.folder)

    def _live(self) -> None:
        for part in range(2):
            store = open_store(self.disk)
            logs = store.open(lambda _identity, _recovery: None) or [
                store.create(stream_identity(number)) for number in (1, 2)
            ]
            for turn in range(self._random.randrange(3, 20)):
                for log in logs:
                    self._publish(log, 100 * part + turn)
                    if self._random.random() < 0.3:
                        keep_house(log)
            for log in logs:
                keep_house(log)
                log.close()
            store.close()
            if part == 0:
                folder = self._folder(1)
                self.older = {
                    path: self.disk.read_file(path)
                    for path in self.disk.paths()
                    if path.parent == folder
                }

    def _publish(self, log: StreamLog, turn: int) -> None:
        random = self._random
        mine = log.identity.stream_id == 1
        staged = {}
        for _ in range(random.randrange(1, 4)):
            subject = b"s.%d" % random.randrange(5)
            body = bytes([65 + turn % 26]) * random.choice((3, 200, 1500))
            seq = int(log.staged.add_message(subject, 0, body + b"\r\n", 1_000 + turn))
            staged[seq] = Message(subject, b"", body)
        gone = random.choice(list(self.acked)) if mine and self.acked else 0
        if gone and random.random() < 0.2:
            log.staged.delete(gone)
        else:
            gone = 0
        if random.random() < 0.3:
            document, state = b"consumer", b"state %d" % turn
            log.staged.set_consumer(CONSUMER, document)
            log.staged.set_consumer_state(CONSUMER, True, state)
            if mine:
                self.state = (document, state, ())
        commit(self.disk, log)
        if mine:
            self.acked.update(staged)
            self.used = max(self.used, *staged)
            if gone:
                self.deleted[gone] = self.acked.pop(gone)


class Damage:
    """What is done to some files of a stream."""

    def __init__(self, life: Life, kinds: dict[Path, str], random: Random) -> None:
        self.kinds = kinds
        self._life = life
        self.disk = life.disk.survivor()
        for path, kind in kinds.items():
            self._spoil(path, kind, random)

    def __str__(self) -> str:
        return ", ".join(f"{path.name} {kind}" for path, kind in self.kinds.items())

    @property
    def informed(self) -> bool:
        """Whether a manifest of today is left."""
        return any(p not in self.kinds for p in self._life.files() if is_manifest(p))

    @property
    def outdated(self) -> bool:
        """Whether an older manifest is all that is left."""
        kinds = {kind for path, kind in self.kinds.items() if is_manifest(path)}
        return not self.informed and "older" in kinds

    def _spoil(self, path: Path, kind: str, random: Random) -> None:
        size = self.disk.paths()[path]
        if kind == "older" and path in self._life.older:
            self.disk.put(path, self._life.older[path])
        elif kind in {"missing", "older"}:
            self.disk.lose(path)
        elif kind == "cut":
            self.disk.cut(path, random.randrange(size) if size else 0)
        elif kind == "zeroed":
            self.disk.put(path, bytes(size))
        else:
            folder = self._life.other_folder
            others = sorted(p for p in self.disk.paths() if p.parent == folder)
            # The other stream may be too small to have an index file.
            alike = [p for p in others if p.suffix == path.suffix] or others
            self.disk.put(path, self.disk.read_file(random.choice(alike)))


def is_manifest(path: Path) -> bool:
    """Say whether a file is one of the two manifests."""
    return path.name.startswith("manifest.")


def open_store(disk: SimulatedDisk) -> FileStore:
    """A store with small segments."""
    return FileStore(disk, ROOT, segment_size=SEGMENT_SIZE, cache_budget=0, reserve_size=0)


def keep_house(log: StreamLog) -> None:
    """Do all that a server does in the background."""
    log.upkeep.want_note(True)
    while log.maintain():
        pass


def commit(disk: SimulatedDisk, log: StreamLog) -> None:
    """Write what was staged."""
    group = log.take_group()
    assert group is not None
    disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    log.commit()


class Judge:
    """Opens a damaged store again and again, and compares it with what was acknowledged."""

    def __init__(self, life: Life, damage: Damage) -> None:
        self._life = life
        self._damage = damage
        self._acked = dict(life.acked)
        self._used = life.used
        self._notes: list[str] = []
        self._unopened: list[str] = []
        self._random = Random(str(damage))
        self._publishes = True

    def check(self) -> None:
        """Raise Violation when a promise is broken."""
        served: set[int] | None = None
        # What one start found out must hold for the next, whether something was stored or not.
        for publishes in (self._random.random() < 0.5, True, True):
            self._publishes = publishes
            store = open_store(self._damage.disk)
            logs = store.open(self._hear, self._cannot_open)
            by_id = {log.identity.stream_id: log for log in logs if self._is_original(log)}
            # With nothing left that says whose folder it was, and files of another stream in it,
            # it is a copy of that one: the server reports it and does not serve it.
            self._unopened += ["a copy" for log in logs if not self._is_original(log)]
            if 2 not in by_id or len(messages(by_id[2])) < 3:
                raise Violation("the other stream is not as it was")
            if 1 in by_id:
                served = self._check_stream(by_id[1], served)
            elif not self._unopened:
                raise Violation("the stream is gone, and nobody says so")
            for log in logs:
                log.close()
            store.close()

    def _is_original(self, log: StreamLog) -> bool:
        return log.segments.folder.name == f"stream-{log.identity.stream_id:016x}"

    def _hear(self, identity: Identity, recovery: Recovery) -> None:
        if identity.stream_id == 1:
            self._notes += recovery.notes

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        if folder != self._life.folder:
            raise Violation(f"{folder.name} cannot be opened: {error}")
        self._unopened.append(str(error))

    def _check_stream(self, log: StreamLog, before: set[int] | None) -> set[int]:
        refused: set[int] = set()
        served = messages(log, refused)
        keep_house(log)
        reported = {seq for a, b in log.quarantine.lost for seq in range(a, b + 1)}
        damaged = bool(log.quarantine.known or self._notes)
        # Where a sequence may be given out again, what was deleted is not what it stands for.
        known = self._life.deleted | self._acked
        if not damaged and not self._damage.outdated:
            known = self._acked
        wrong = [seq for seq in served if known.get(seq) != served[seq]]
        if wrong:
            raise Violation(f"{wrong} were never acknowledged like this")
        silent = self._acked.keys() - served.keys() - reported - refused
        excused = self._damage.outdated or (damaged and not self._damage.informed)
        if silent and not excused:
            raise Violation(f"{sorted(silent)} are lost, and nobody says so")
        if before is not None and set(served) != before:
            raise Violation(f"a second start finds other messages: {before ^ set(served)}")
        consumer = consumers(log).get(CONSUMER, (b"", b"", ()))
        if consumer != self._life.state and not (damaged or self._damage.outdated):
            raise Violation("the consumer is not as it was, and nobody says so")
        if self._publishes and not log.access.read_only:
            seq = int(log.staged.add_message(b"s.new", 0, b"new\r\n", 10_000))
            commit(self._damage.disk, log)
            if seq <= self._used and not self._damage.outdated:
                raise Violation(f"sequence {seq} is used again, {self._used} was given out")
            self._acked[seq] = served[seq] = Message(b"s.new", b"", b"new")
            self._used = max(seq, self._used)
        return set(served)


def run(runs: int, seed: int, most: int = 3) -> int:
    """Spoil two or three files of a stream, many times; how many stores were judged."""
    judged = 0
    for number in range(runs):
        random = Random(seed + number)
        life = Life(random)
        for _ in range(10):
            files = life.files()
            chosen = random.sample(files, min(random.randrange(2, most + 1), len(files)))
            # The files that say the most about the end of a stream are met often.
            if random.random() < 0.5:
                newest = [path for path in files if path.suffix == ".seg"][-1]
                chosen[0] = newest
            damage = Damage(life, {path: random.choice(KINDS) for path in chosen}, random)
            try:
                Judge(life, damage).check()
            except Exception as problem:
                raise Violation(f"seed {seed + number}: {damage}: {problem!r}") from problem
            judged += 1
    return judged


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    judged = run(arguments.runs, arguments.seed)
    print(f"{judged} stores with two or three spoiled files: nothing broken")  # noqa: T201


if __name__ == "__main__":
    main()
