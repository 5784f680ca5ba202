"""Lives of a stream whose segments are rewritten all the time (``store.compaction``).

``run_rewrites`` publishes, deletes, purges, expires and changes limits at random, with segments of
a few records, and lets housekeeping do its work in between. Whatever was rewritten, a start must
find exactly what existed: before, in the middle of, and after each rewriting, after a kill and
after a power failure. A failure names the seed; the same seed fails again.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.support.store.model import Opened, Violation, check_counts, messages
from tests.support.store.state import Deleted, Message, Published, Purged, State

from jetspark.store.format.manifest import Identity
from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.upkeep.compaction import Compactor

SEGMENT_SIZE: Final = 800
CACHE_BUDGET: Final = 1200
ACTIONS: Final = 150
SUBJECTS: Final = 9
NUMBER: Final = 7


@dataclass
class Rewrites:
    """What a run did."""

    lives: int = 0
    rewritten: int = 0
    merged: int = 0
    states: int = 0
    starts: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rewritten} rewritten segments ({self.merged} of several files) in "
            f"{self.lives} lives, {self.starts} starts and {self.states} power cuts: "
            "always exactly what was there"
        )


def run_rewrites(lives: int, *, seed: int = 0) -> Rewrites:
    """Live this many lives; raises Violation with the seed of the one that broke a promise."""
    done = Rewrites()
    for number in range(seed, seed + lives):
        try:
            _Life(number, done).live()
        except Exception as error:
            raise Violation(f"seed {number}: {error!r}") from error
        done.lives += 1
    return done


class _Life:
    """One stream, and what must be in it."""

    def __init__(self, seed: int, done: Rewrites) -> None:
        self._random = Random(seed)
        self._done = done
        self._state = State()
        self._expired = 0
        self._disk = SimulatedDisk()
        self._opened = Opened(self._disk, SEGMENT_SIZE, CACHE_BUDGET)
        identity = Identity(stream_id=NUMBER, account="A", name="S", created_ns=1)
        self._log = self._opened.store.create(identity)
        self._opened.logs.append(self._log)
        # Some lives have no limit on a subject, some no deletes: their garbage is another.
        self._limits = self._random.random() < 0.8
        self._deletes = self._random.choice((0.0, 0.05, 0.3))
        self._now = 1

    def live(self) -> None:
        """Live it to its end."""
        for _ in range(ACTIONS):
            self._act()
            self._commit()
            if self._random.random() < 0.7:
                self._keep_house()
            if self._random.random() < 0.1:
                self._start_again()
        self._start_again()
        self._opened.close()

    def _act(self) -> None:
        chance = self._random.random()
        if chance < self._deletes and self._log.index.messages:
            first = int(self._log.index.first_seq)
            seq = self._random.randint(first, int(self._log.index.last_seq))
            if self._log.staged.delete(seq):
                self._state.do(Deleted(seq))
        elif chance < self._deletes + 0.03:
            keep = self._random.randrange(3)
            pattern = self._random.choice((b"s.1", b"s.*", b"s.2", b""))
            self._log.staged.purge(0, pattern, keep)
            self._state.do(Purged(0, pattern, keep))
        elif chance < self._deletes + 0.06 and self._limits:
            limits = (
                self._random.choice((0, 0, 8, 20)),
                self._random.choice((0, 0, 900, 3000)),
                self._random.choice((0, 1, 1, 2, 3)),
            )
            self._log.staged.configure(b'{"n":%d}' % limits[2], Limits(*limits))
            self._state.do(limits)
        elif chance < self._deletes + 0.08:
            self._expire()
        else:
            for _ in range(self._random.randint(1, 5)):
                self._publish()

    def _publish(self) -> None:
        # Few subjects come often and some hardly ever: those keep old segments alive.
        number = min(self._random.randrange(SUBJECTS), self._random.randrange(SUBJECTS))
        body = self._random.randbytes(self._random.choice((0, 5, 40, 90, 200, 500)))
        message = Message(b"s.%d" % number, b"", body)
        self._now += 1
        seq = self._log.staged.add_message(message.subject, 0, body + b"\r\n", self._now)
        self._state.do(Published(int(seq), message))

    def _expire(self) -> None:
        if self._log.index.messages and self._log.staged.position == self._log.index.position:
            self._expired = max(self._expired, self._now - self._random.randint(5, 60))
            before = set(self._state.messages)
            self._log.expire_before(self._expired)
            left = {seq for seq in before if self._log.reader.time_of(seq) >= 0}
            for seq in before - left:
                del self._state.messages[seq]

    def _commit(self) -> None:
        group = self._log.take_group()
        if group is not None:
            blobs = [group.blob, group.filler]
            self._disk.write_synced(int(group.handle), blobs, int(group.offset))
            self._log.commit()
        if messages(self._log) != self._state.messages:
            raise Violation("what is served is not what is there")

    def _keep_house(self) -> None:
        """Do some or all steps of housekeeping; cut the power in the middle of a rewriting."""
        steps = self._random.choice((1, 3, 10, 1000))
        if self._random.random() < 0.2:
            # As on a full disk: it continues in a new segment, and rewrites the others.
            self._log.upkeep.want_space()
        while steps and self._log.maintain():
            steps -= 1
            task = self._log.upkeep.task
            if isinstance(task, Compactor) and self._disk.before_step is None:
                self._done.rewritten += 1
                self._done.merged += len(task.sources) > 1
                self._disk.before_step = self._cut_power
            elif not isinstance(task, Compactor):
                self._disk.before_step = None
                self._check(messages(self._log), None)
        self._disk.before_step = None

    def _cut_power(self, operation: Operation) -> None:
        if operation.kind in CHANGING and self._random.random() < 0.3:
            image = self._disk.image(self._random)
            opened = Opened(image, SEGMENT_SIZE, CACHE_BUDGET)
            self._found(opened)
            opened.close(note=False)
            self._done.states += 1

    def _start_again(self) -> None:
        """Kill the process, or stop it, and start another."""
        if self._random.random() < 0.5:
            self._opened.close()
        self._disk = self._disk.survivor()
        self._opened = Opened(self._disk, SEGMENT_SIZE, CACHE_BUDGET)
        self._log = self._found(self._opened)
        self._done.starts += 1

    def _found(self, opened: Opened) -> StreamLog:
        (log,) = opened.logs
        log.expire_before(self._expired)
        recovery = opened.recoveries[NUMBER]
        if recovery.damaged or recovery.lost or recovery.notes:
            raise Violation(f"{recovery.damaged} {recovery.lost} {recovery.notes}")
        self._check(messages(log), log)
        return log

    def _check(self, found: dict[int, Message], log: StreamLog | None) -> None:
        if found != self._state.messages:
            back = sorted(found.keys() - self._state.messages.keys())
            lost = sorted(self._state.messages.keys() - found.keys())
            raise Violation(f"back {back}, lost {lost}")
        if log is not None:
            check_counts(log, found)
            log.segments.list_files()
