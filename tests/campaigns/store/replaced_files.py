"""Files of a store put back from other times and places, with a model next to.

    python -m tests.campaigns.store.replaced_files --runs 2000 --seed 1

Three streams of one store share the writes of a journal; messages are deleted, purged and evicted
by limits, segments are rewritten, the store is stopped and killed. The files are copied at several
times. Then some of those of one stream are replaced: by older versions, also with a flipped bit,
all but one file of the folder, by each other, by nothing at all, by files of another stream,
exchanged with it; files that were removed come back, and so do files of the journal.

What must hold is what ``lost_files.py`` says, and more: as long as one manifest of today is left,
no deleted message is served again unless damage is reported, wherever in the log. Messages
that are back count towards the limits of the stream, which may remove older ones for them.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from tests.campaigns.store.lost_files import ROOT, SEGMENT_SIZE, Violation, is_manifest
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.reading import check_counts, consumers, messages, sequences
from tests.support.store.sample import stream_identity
from tests.support.store.state import Consumer, Message

from jetspark.errors.storage import StorageFault
from jetspark.store.committer import write, write_turn
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import Group, StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.sharing import write_unsynced
from jetspark.store.store import FileStore
from jetspark.subjects.match import matches

STREAMS: Final = (1, 2, 3)
TARGET: Final = 1
OTHER: Final = 2
CONSUMER: Final = 3
PARTS: Final = 3
JOURNAL_SIZE: Final = 8192 + 8192
DAMAGES: Final = 8

Files = dict[Path, bytes]


class Model:
    """What one stream acknowledged."""

    def __init__(self) -> None:
        self.acked: dict[int, Message] = {}
        self.deleted: dict[int, Message] = {}
        self.used: int = 0
        self.consumer: Consumer = (b"", b"", ())
        # Purges that kept some: the pattern, how many, and the last message at the time.
        self.kept: list[tuple[bytes, int, int]] = []

    def copy(self) -> "Model":
        """Return a copy."""
        other = Model()
        other.acked, other.deleted = dict(self.acked), dict(self.deleted)
        other.used, other.consumer = self.used, self.consumer
        other.kept = list(self.kept)
        return other


class Started:
    """A store that was opened, and what it said."""

    def __init__(self, disk: SimulatedDisk) -> None:
        keys = iter(range(1, 1 << 30))
        self.disk = disk
        self._heard: list[Recovery] = []
        self.unopened: dict[str, str] = {}
        self.store = FileStore(
            disk,
            ROOT,
            segment_size=SEGMENT_SIZE,
            cache_budget=0,
            reserve_size=0,
            journal_size=JOURNAL_SIZE,
            random_key=lambda: next(keys),
        )
        opened = self.store.open(self._hear, self._cannot_open)
        self.copies = [log for log in opened if not _is_original(log)]
        self.logs = {log.identity.stream_id: log for log in opened if _is_original(log)}
        # What was found in a folder with the manifest of another stream is not said of that one.
        self.notes: dict[int, list[str]] = {number: [] for number in STREAMS}
        for log, recovery in zip(opened, self._heard, strict=True):
            if _is_original(log):
                self.notes[log.identity.stream_id] += recovery.notes

    def _hear(self, _identity: Identity, recovery: Recovery) -> None:
        self._heard.append(recovery)

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        self.unopened[folder.name] = str(error)

    def commit(self, logs: list[StreamLog]) -> None:
        """Write what was staged, in one synced write where that is possible."""
        shared: list[tuple[StreamLog, Group]] = []
        journal = self.store.journal
        if journal.wants_file:
            journal.prepare()
        for log in logs:
            group = log.take_group()
            if group is None:
                continue
            if len(logs) < 2 or not group.may_share:
                assert write(self.disk, group) is None
                log.commit()
                continue
            group.share(True)
            assert write_unsynced(self.disk, group)
            shared.append((log, group))
        groups = [group for _, group in shared]
        if groups:
            assert set(write_turn(self.disk, journal, groups)) == {None}
            for log, _ in shared:
                log.commit()

    def keep_house(self) -> None:
        """Do all that a server does in the background."""
        for log in self.logs.values():
            log.upkeep.want_note(True)
            while log.maintain():
                pass

    def close(self) -> None:
        """Stop."""
        for log in [*self.logs.values(), *self.copies]:
            log.close()
        self.store.close()


def _is_original(log: StreamLog) -> bool:
    return log.segments.folder.name == f"stream-{log.identity.stream_id:016x}"


class Life:
    """Streams that live for a while, and the files at some times of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = SimulatedDisk()
        self.models = {number: Model() for number in STREAMS}
        self.states: list[Files] = []
        self.was_killed = False
        for part in range(PARTS):
            self._live(part)
            self.states.append({path: self.disk.read_file(path) for path in self.disk.paths()})

    def _live(self, part: int) -> None:
        random = self.random
        started = Started(self.disk)
        for _ in range(2):
            started.store.journal.prepare()
        for number in STREAMS if part == 0 else ():
            limits = {
                "max_msgs": random.choice((0, 0, 25)),
                "max_per_subject": random.choice((0, 0, 4)),
            }
            identity = msgspec.structs.replace(stream_identity(number), **limits)
            started.logs[number] = started.store.create(identity)
        for turn in range(random.randrange(3, 25)):
            chosen = random.sample(STREAMS, random.randrange(1, 4))
            for number in chosen:
                self._stage(started.logs[number], self.models[number], 100 * part + turn)
            started.commit([started.logs[number] for number in chosen])
            for number in chosen:
                self._settle(started.logs[number], self.models[number])
            if random.random() < 0.3:
                started.keep_house()
        started.keep_house()
        self.was_killed = random.random() < 0.4
        if self.was_killed:
            self.disk = self.disk.survivor()
        else:
            started.close()

    def _stage(self, log: StreamLog, model: Model, turn: int) -> None:
        random, staged = self.random, log.staged
        for _ in range(random.randrange(1, 4)):
            subject = b"s.%d" % random.randrange(5)
            body = bytes([65 + turn % 26]) * random.choice((3, 200, 1500))
            seq = int(staged.add_message(subject, 0, body + b"\r\n", 1_000 + turn))
            model.acked[seq] = Message(subject, b"", body)
            model.used = max(model.used, seq)
        kind = random.random()
        old = [seq for seq in model.acked if seq <= log.index.last_seq]
        if kind < 0.3 and old:
            for seq in random.sample(old, min(random.randrange(1, 5), len(old))):
                staged.delete(seq)
        elif kind < 0.4 and old:
            before = random.choice((0, random.choice(old)))
            pattern = random.choice((b"", b"s.%d" % random.randrange(5), b"s.*"))
            keep = 0 if before else random.choice((0, 1, 3))
            staged.purge(before, pattern, keep)
            if keep:
                model.kept.append((pattern, keep, int(staged.seq)))
        if random.random() < 0.3:
            document, state = b"consumer", b"state %d" % turn
            staged.set_consumer(CONSUMER, document)
            staged.set_consumer_state(CONSUMER, True, state)
            model.consumer = (document, state, ())

    def _settle(self, log: StreamLog, model: Model) -> None:
        left = set(sequences(log))
        for seq in [seq for seq in model.acked if seq not in left]:
            model.deleted[seq] = model.acked.pop(seq)

    def folder(self, number: int) -> Path:
        """Return the folder of a stream."""
        return next(p.parent for p in self.disk.paths() if p.parent.name.endswith(f"{number:x}"))


class Damage:
    """What is done to the files."""

    def __init__(self, life: Life, random: Random) -> None:
        self._random = random
        self.disk = life.disk.survivor()
        self.states = life.states[:-1]
        self.done: list[str] = []
        self.folder = life.folder(TARGET)
        self.other = life.folder(OTHER)
        # The files that are not as they were; streams that are not.
        self.touched: set[Path] = set()
        self.streams = {TARGET}
        self.newest_life = life
        kinds: list[Callable[[], None]] = [
            self._older,
            self._older,
            self._older,
            self._older_flipped,
            self._empty,
            self._missing,
            self._cut,
            self._twin,
            self._moved,
            self._returned,
            self._foreign,
            self._exchanged,
        ]
        if random.random() < 0.1:
            self._older_folder()
        else:
            for _ in range(random.randrange(1, 4)):
                random.choice(kinds)()
        if random.random() < 0.1:
            self._older_journal()

    def __str__(self) -> str:
        return ", ".join(self.done)

    def files(self, folder: Path) -> list[Path]:
        """Return the files in a folder."""
        return sorted(path for path in self.disk.paths() if path.parent == folder)

    @property
    def informed(self) -> bool:
        """Whether a manifest of today is left."""
        return any(is_manifest(p) and p not in self.touched for p in self.files(self.folder))

    @property
    def outdated(self) -> bool:
        """Whether older manifests are all that is left."""
        return not self.informed and any(is_manifest(p) for p in self.files(self.folder))

    def _put(self, path: Path, content: bytes, what: str) -> None:
        if path in self.disk.paths() and self.disk.read_file(path) == content:
            return
        self.disk.put(path, content)
        self._touch(path, what)

    def _touch(self, path: Path, what: str) -> None:
        self.touched.add(path)
        self.done.append(f"{path.name} {what}")

    def _choose(self) -> Path:
        files = self.files(self.folder) or [self.folder / "manifest.a"]
        segments = [path for path in files if path.suffix == ".seg"]
        if segments and self._random.random() < 0.5:
            return self._random.choice(segments)
        return self._random.choice(files)

    def _older(self) -> None:
        path, state = self._choose(), self._random.randrange(len(self.states))
        if path in self.states[state]:
            self._put(path, self.states[state][path], f"of state {state}")

    def _older_flipped(self) -> None:
        path, state = self._choose(), self._random.randrange(len(self.states))
        content = bytearray(self.states[state].get(path, b""))
        if content:
            content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
            self._put(path, bytes(content), f"of state {state}, flipped")

    def _empty(self) -> None:
        self._put(self._choose(), b"", "empty")

    def _missing(self) -> None:
        path = self._choose()
        if path in self.disk.paths():
            self.disk.lose(path)
            self._touch(path, "missing")

    def _cut(self) -> None:
        path = self._choose()
        if size := self.disk.paths().get(path, 0):
            self._put(path, self.disk.read_file(path)[: self._random.randrange(size)], "cut")

    def _alike(self, path: Path, folder: Path) -> Path | None:
        alike = [p for p in self.files(folder) if p.suffix == path.suffix and p != path]
        return self._random.choice(alike) if alike else None

    def _twin(self) -> None:
        path = self._choose()
        other = self._alike(path, self.folder)
        if other is not None:
            self._put(path, self.disk.read_file(other), f"is {other.name}")

    def _moved(self) -> None:
        path = self._choose()
        at = self._random.randrange(1, 80)
        name = path.with_name(f"{at:020d}-{at + self._random.randrange(3):020d}.seg")
        if path.suffix == ".seg" and path in self.disk.paths() and name not in self.disk.paths():
            self._put(name, self.disk.read_file(path), f"is a copy of {path.name}")

    def _returned(self) -> None:
        state = self._random.randrange(len(self.states))
        gone = [
            path
            for path in sorted(self.states[state])
            if path.parent == self.folder and path not in self.disk.paths()
        ]
        if gone:
            path = self._random.choice(gone)
            self._put(path, self.states[state][path], f"of state {state} returned")

    def _foreign(self) -> None:
        path = self._choose()
        other = self._alike(path, self.other)
        if other is not None:
            self._put(path, self.disk.read_file(other), f"is {other.name} of another stream")

    def _exchanged(self) -> None:
        path = self._choose()
        other = self._alike(path, self.other)
        if other is not None and path in self.disk.paths():
            content = self.disk.read_file(path)
            self._put(path, self.disk.read_file(other), f"is {other.name} of another stream")
            self._put(other, content, f"is {path.name} of this stream")
            self.streams.add(OTHER)

    def _older_folder(self) -> None:
        state = self._random.randrange(len(self.states))
        kept = self._choose()
        old = {p: data for p, data in self.states[state].items() if p.parent == self.folder}
        for path in self.files(self.folder):
            if path not in old and path != kept:
                self.disk.lose(path)
                self._touch(path, "missing")
        for path, content in old.items():
            if path != kept:
                self._put(path, content, f"of state {state}")

    def _older_journal(self) -> None:
        state = self._random.randrange(len(self.states))
        for path, content in self.states[state].items():
            if path.parent.name == "journal":
                self._put(path, content, f"of state {state}")
                self.streams |= set(STREAMS)


def _is_displaced(log: StreamLog, model: Model, seq: int) -> bool:
    """Say whether a message may have been removed because deleted ones were back, and counted.

    By limits, or by a purge that kept some. For a time is enough: a later purge may have removed
    those that were back.
    """
    subject = model.acked[seq].subject
    newer = {
        other: message.subject
        for each in (model.acked, model.deleted)
        for other, message in each.items()
        if other > seq
    }
    alike = [other for other, owner in newer.items() if owner == subject]
    limits = log.limits
    if 0 < limits.max_msgs <= len(newer) or 0 < limits.max_per_subject <= len(alike):
        return True
    return any(
        (not pattern or matches(subject, pattern))
        and keep <= sum(n <= last and (not pattern or matches(newer[n], pattern)) for n in newer)
        for pattern, keep, last in model.kept
    )


class Judge:
    """Opens a damaged store again and again, and compares it with what was acknowledged."""

    def __init__(self, life: Life, damage: Damage) -> None:
        self._damage = damage
        self._models = {number: model.copy() for number, model in life.models.items()}
        self._served: dict[int, set[int]] = {}
        self._reported: set[int] = set()
        self._random = Random(str(damage))
        self._kills = life.was_killed

    def check(self) -> None:
        """Raise Violation when a promise is broken."""
        for publishes in (self._random.random() < 0.5, True, True):
            started = Started(self._damage.disk)
            for number in STREAMS:
                self._check(started, number)
            for number, log in started.logs.items():
                self._go_on(started, log, number, publishes=publishes)
            if self._random.random() < 0.3:
                self._damage.disk = self._damage.disk.survivor()
            else:
                started.close()

    def _check(self, started: Started, number: int) -> None:
        model = self._models[number]
        touched = number in self._damage.streams
        log = started.logs.get(number)
        if log is None:
            if touched and (
                started.copies or any(n.endswith(f"{number:x}") for n in started.unopened)
            ):
                return
            raise Violation(f"stream {number} is gone: {started.unopened}")
        refused: set[int] = set()
        served = messages(log, refused)
        check_counts(log, served) if not refused else None
        if started.notes[number] or log.quarantine.known:
            self._reported.add(number)
        damaged = number in self._reported
        informed = self._damage.informed or number != TARGET
        outdated = self._damage.outdated and number == TARGET
        if damaged and not touched:
            raise Violation(f"stream {number} was not touched: {started.notes[number]}")
        known = model.deleted | model.acked if damaged or outdated else model.acked
        wrong = [seq for seq in served if known.get(seq) != served[seq]]
        if wrong:
            raise Violation(f"stream {number}: {wrong} were never acknowledged like this")
        reported = {seq for a, b in log.quarantine.lost for seq in range(a, b + 1)}
        silent = model.acked.keys() - served.keys() - reported - refused
        if damaged:
            silent = {seq for seq in silent if not _is_displaced(log, model, seq)}
        if silent and not (outdated or (damaged and not informed)):
            raise Violation(f"stream {number}: {sorted(silent)} are lost, and nobody says so")
        before = self._served.get(number)
        if before is not None:
            other = before ^ served.keys()
            if damaged:
                # A message that is known to be lost does not count, for a limit or a purge that
                # keeps some: one that was removed may be back.
                other -= served.keys() & model.deleted.keys()
            if other:
                raise Violation(f"stream {number}: another start finds {other}")
        consumer = consumers(log).get(CONSUMER, (b"", b"", ()))
        if consumer != model.consumer and not (damaged or outdated):
            raise Violation(f"stream {number}: the consumer is not as it was")
        self._served[number] = set(served)

    def _go_on(self, started: Started, log: StreamLog, number: int, *, publishes: bool) -> None:
        model = self._models[number]
        if self._random.random() < 0.7:
            log.upkeep.want_note(True)
            while log.maintain():
                pass
        if not publishes or log.access.read_only:
            return
        seq = int(log.staged.add_message(b"s.new", 0, b"new\r\n", 10_000))
        before = set(sequences(log))
        started.commit([log])
        if seq <= model.used and not (self._damage.outdated and number == TARGET):
            raise Violation(f"stream {number}: {seq} is used again, {model.used} was given out")
        model.acked[seq] = Message(b"s.new", b"", b"new")
        model.used = max(seq, model.used)
        # What the limits evict for the new message.
        left = set(sequences(log))
        for gone in before - left:
            if gone in model.acked:
                model.deleted[gone] = model.acked.pop(gone)
        if number in self._served:
            self._served[number] = set(messages(log, set()))


def run(runs: int, seed: int) -> int:
    """Replace files of a stream, many times; how many stores were judged."""
    judged = 0
    for number in range(runs):
        random = Random(seed + number)
        life = Life(random)
        for _ in range(DAMAGES):
            damage = Damage(life, random)
            if not damage.done:
                continue
            try:
                Judge(life, damage).check()
            except Exception as problem:
                raise Violation(f"seed {seed + number}: {damage}: {problem!r}") from problem
            judged += 1
    return judged


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    judged = run(arguments.runs, arguments.seed)
    print(f"{judged} stores with files of other times and places: nothing broken")  # noqa: T201


if __name__ == "__main__":
    main()
