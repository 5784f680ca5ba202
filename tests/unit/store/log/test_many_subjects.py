"""A stream of very many subjects looks them up together: decisions see the same as in a small one.

Each test does the same to both.
"""

from collections.abc import Callable
from random import Random

import pytest
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import ROOT

from jetspark.engine.stream.expectations import staged_last_of
from jetspark.store.committer import write
from jetspark.store.format.manifest import Identity
from jetspark.store.log.staged import LATE_FROM
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.store import FileStore

SUBJECTS = tuple(b"k.%d" % n for n in range(12))


def committed(log: StreamLog, disk: SimulatedDisk) -> None:
    group = log.take_group()
    if group is not None:
        assert write(disk, group) is None
        log.commit()


def filled(subjects: int) -> tuple[StreamLog, SimulatedDisk]:
    """Return a stream with one message on each of so many subjects."""
    disk = SimulatedDisk()
    store = FileStore(disk, ROOT)
    store.open(lambda _identity, _recovery: None)
    log = store.create(Identity(stream_id=7, account="A", name="S", created_ns=1))
    for n in range(subjects):
        log.staged.add_message(b"fill.%d" % n, 0, b"x\r\n", 1)
    committed(log, disk)
    return log, disk


@pytest.fixture(scope="module")
def wide_disk() -> SimulatedDisk:
    """A stream with so many subjects that they are looked up together, stored."""
    log, disk = filled(LATE_FROM)
    log.close()
    return disk


@pytest.fixture
def pair(wide_disk: SimulatedDisk) -> list[tuple[StreamLog, SimulatedDisk]]:
    """A small stream, and one with many subjects."""
    disk = wide_disk.survivor()
    store = FileStore(disk, ROOT)
    (wide,) = store.open(lambda _identity, _recovery: None)
    return [filled(1), (wide, disk)]


class Twin:
    """One of the two streams: sequences are counted from where its filling ended."""

    def __init__(self, log: StreamLog, disk: SimulatedDisk) -> None:
        self.log = log
        self.disk = disk
        self.base = int(log.index.last_seq)
        self.messages = int(log.index.messages)

    def publish(self, *subjects: bytes) -> list[int]:
        staged = self.log.staged
        return [int(staged.add_message(each, 0, b"x\r\n", 1)) - self.base for each in subjects]

    def commit(self) -> None:
        committed(self.log, self.disk)

    def decided(self) -> list[int]:
        """Return the last message of each subject as decisions see it."""
        found = [int(staged_last_of(self.log, each)) for each in (*SUBJECTS, b"k.*")]
        return [seq - self.base if seq else 0 for seq in found]

    def stored(self) -> list[tuple[int, int, int]]:
        """Return count, first and last message of each subject as readers see them."""
        found = []
        for subject in SUBJECTS:
            entry = self.log.index.subjects.get(subject)
            if entry is None or entry.count == 0:
                found.append((0, 0, 0))
            else:
                places = int(entry.first) - self.base, int(entry.last) - self.base
                found.append((int(entry.count), *places))
        return found

    def counts(self) -> tuple[int, int]:
        """Return how many messages decisions and readers see, without the filling."""
        log = self.log
        return int(log.staged.messages) - self.messages, int(log.index.messages) - self.messages


def same(pair: list[tuple[StreamLog, SimulatedDisk]], life: Callable[[Twin], object]) -> None:
    """Check that a life of both streams goes the same way."""
    narrow, wide = (life(Twin(log, disk)) for log, disk in pair)
    assert narrow == wide


Pair = list[tuple[StreamLog, SimulatedDisk]]


def test_expectations_see_staged_messages(pair: Pair) -> None:
    def life(twin: Twin) -> object:
        before = twin.log.staged.has_messages
        found: list[object] = [twin.publish(*SUBJECTS, *SUBJECTS[:3])]
        assert (before, twin.log.staged.has_messages) == (False, True)
        found += [twin.decided(), twin.publish(SUBJECTS[5]), twin.decided()]
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)


def test_staged_messages_are_deleted_and_purged(pair: Pair) -> None:
    def life(twin: Twin) -> object:
        staged = twin.log.staged
        twin.publish(*SUBJECTS, *SUBJECTS)
        found: list[object] = [staged.delete(twin.base + 13), twin.decided()]
        twin.publish(*SUBJECTS[:4])
        found += [int(staged.delete_range(twin.base + 3, twin.base + 5)), twin.decided()]
        twin.publish(*SUBJECTS[2:6])
        found += [int(staged.purge(0, SUBJECTS[3], 1)), twin.decided(), twin.counts()]
        twin.publish(*SUBJECTS[2:6])
        found += [int(staged.purge(0, b"k.*", 0)), twin.decided(), twin.counts()]
        twin.publish(SUBJECTS[1])
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)


@pytest.mark.parametrize("pattern", [b"k.*", b"", b"k.3"])
def test_messages_are_purged_right_after_they_were_staged(pair: Pair, pattern: bytes) -> None:
    def life(twin: Twin) -> object:
        twin.publish(*SUBJECTS)
        twin.commit()
        twin.publish(*SUBJECTS, *SUBJECTS)
        twin.log.staged.purge(0, pattern, 0)
        found: list[object] = [twin.decided(), twin.publish(*SUBJECTS[:2]), twin.decided()]
        twin.commit()
        return [*found, twin.decided(), twin.stored()]

    same(pair, life)


def test_what_failed_was_never_there(pair: Pair) -> None:
    def life(twin: Twin) -> object:
        twin.publish(*SUBJECTS[:6])
        twin.commit()
        twin.publish(*SUBJECTS[3:9])
        assert twin.log.take_group() is not None
        twin.publish(*SUBJECTS[5:])
        twin.log.fail(no_space=True)
        found: list[object] = [twin.decided(), twin.counts()]
        twin.log.access.set_full(False)
        twin.publish(*SUBJECTS[7:9])
        found.append(twin.decided())
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)


def test_batches_are_dropped_and_committed(pair: Pair) -> None:
    def life(twin: Twin) -> object:
        staged = twin.log.staged
        twin.publish(*SUBJECTS[:6])
        staged.begin_batch()
        twin.publish(*SUBJECTS[4:8])
        staged.abort_batch()
        found: list[object] = [twin.decided(), twin.publish(*SUBJECTS[1:3])]
        staged.begin_batch()
        twin.publish(*SUBJECTS[:3])
        staged.end_batch()
        found += [twin.publish(*SUBJECTS[7:9]), twin.decided()]
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)


def test_sequences_that_are_used_or_skipped_leave_gaps(pair: Pair) -> None:
    def life(twin: Twin) -> object:
        staged = twin.log.staged
        found: list[object] = [twin.publish(*SUBJECTS[:4])]
        staged.use_up(1)
        found.append(twin.publish(*SUBJECTS[:4]))
        staged.skip_to(staged.seq + 9)
        found += [twin.publish(*SUBJECTS[2:6]), twin.decided()]
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)


@pytest.mark.parametrize("seed", range(20))
def test_any_life_goes_the_same_way(pair: Pair, seed: int) -> None:
    def life(twin: Twin) -> object:
        random, staged, found = Random(seed), twin.log.staged, list[object]()
        for _ in range(60):
            staged = twin.log.staged
            match random.randrange(9):
                case 0 | 1 | 2 | 3:
                    found.append(twin.publish(*random.choices(SUBJECTS, k=random.randint(1, 8))))
                case 4:
                    twin.commit()
                case 5:
                    found.append(staged.delete(twin.base + random.randint(1, 60)))
                case 6:
                    pattern = random.choice((*SUBJECTS, b"k.*"))
                    found.append(int(staged.purge(0, pattern, random.randrange(3))))
                case 7:
                    staged.begin_batch()
                    twin.publish(*random.choices(SUBJECTS, k=3))
                    if random.random() < 0.5:
                        staged.end_batch()
                    else:
                        staged.abort_batch()
                case _:
                    found.append(twin.decided())
            found.append(twin.counts())
        twin.commit()
        return [*found, twin.decided(), twin.stored(), twin.counts()]

    same(pair, life)
