"""Streams that share writes of the journal, against a naive model: lists of what was acknowledged.

``run_shared`` lives random lives of several streams: turns in which some of them change, groups of
one stream, releases, new segments, streams that are dropped, stops, kills and power failures; any
step of the disk may fail, those of the journal more often than others. After each action the disk
is looked at as power failures may leave it. ``run_damaged`` damages journal files of a store that
was killed, or lost power.

The model knows nothing about segments or frames. What was acknowledged is found, in its order;
what was refused may be found only directly after what was acknowledged before it, and no longer
once something else was acknowledged; no sequence is used twice.
"""

import errno
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import Violation, messages
from tests.support.store.turns import Streams

from jetspark.store.committer import write, write_turn
from jetspark.store.journal.format import Head, decode_head, frames_in
from jetspark.store.log.stream_log import Group, StreamLog
from jetspark.store.sharing import write_unsynced

ACTIONS: Final = 25
STREAMS: Final = 5
ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC)


@dataclass
class Shared:
    """What a run did."""

    states: int = 0
    lives: int = 0
    acked: int = 0
    frames: int = 0
    faults: int = 0
    refused: int = 0
    reopened: int = 0
    restarts: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} states of {self.lives} lives, {self.acked} messages acknowledged in "
            f"{self.frames} frames, {self.faults} failing steps, {self.refused} refused: 0 lost"
        )


class Known:
    """What is known of one stream."""

    def __init__(self) -> None:
        # Sequence and body of what was acknowledged; what was staged since, and may be found.
        self.acked: dict[int, bytes] = {}
        self.open: dict[int, bytes] = {}

    def check(self, name: str, found: dict[int, bytes]) -> None:
        """Compare with what a start found."""
        missing = [seq for seq in self.acked if found.get(seq) != self.acked[seq]]
        if missing:
            raise Violation(f"{name}: {missing} of {list(self.acked)} lost, {list(found)} found")
        for seq, body in found.items():
            if seq not in self.acked and self.open.get(seq) != body:
                raise Violation(f"{name}: {seq} was refused, or never written")

    def adopt(self, found: dict[int, bytes]) -> None:
        """Continue with what a start found: readers see it."""
        self.acked = dict(found)
        self.open = {}


def bodies(log: StreamLog) -> dict[int, bytes]:
    """Return the messages of a log."""
    return {seq: message.body for seq, message in messages(log).items()}


class _Life:
    def __init__(self, seed: int, done: Shared) -> None:
        self._random = Random(seed)
        self._done = done
        self._known: dict[str, Known] = {}
        self._streams = Streams(journal_size=8192 + 4096)
        self._number = 0
        self._fault = 0
        self._in_journal = False
        # A stream whose removal was not confirmed may exist or not.
        self._unsure: set[str] = set()
        self._watch()

    def live(self) -> None:
        for _ in range(STREAMS):
            self._create()
        for _ in range(ACTIONS):
            if self._random.random() < 0.25:
                self._fault = self._random.randint(1, 14)
                self._in_journal = self._random.random() < 0.5
            self._act()
            self._fault = 0
            self._look()
        self._done.frames += self._streams.store.journal.frames

    # Faults ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._streams.disk.before_step = self._before_step

    def _before_step(self, operation: Operation) -> None:
        if self._fault and (not self._in_journal or "journal" in operation.path):
            self._fault -= 1
            if self._fault == 0:
                self._done.faults += 1
                times = self._random.choice((1, 1, 3))
                self._streams.disk.fail(0, self._random.choice(ERRORS), times=times)

    # Actions -----------------------------------------------------------------------------------

    def _act(self) -> None:
        chance = self._random.random()
        failed = [log for log in self._streams.logs.values() if log.access.failed]
        if failed and chance < 0.6:
            self._reopen(failed[0])
        elif chance < 0.55:
            self._turn()
        elif chance < 0.7:
            self._publish()
        elif chance < 0.8:
            self._release()
        elif chance < 0.84:
            self._drop()
        elif chance < 0.87:
            self._create()
        else:
            self._restart()

    def _create(self) -> None:
        self._number += 1
        name = f"S{self._number}"
        try:
            self._streams.create_one(name, self._number)
        except OSError:
            self._unsure.add(name)
        else:
            self._known[name] = Known()

    def _writable(self) -> list[str]:
        return [name for name, log in self._streams.logs.items() if not log.access.read_only]

    def _staged(self, name: str) -> Group | None:
        log, known = self._streams.logs[name], self._known[name]
        size = self._random.choice((5, 40, 700))
        body = b"%d-" % self._random.getrandbits(32) * (size // 5)
        seq = int(log.staged.add_message(b"a.b", 0, body + b"\r\n", 1))
        if seq in known.acked or seq in known.open:
            raise Violation(f"{name}: sequence {seq} is used twice")
        known.open[seq] = body
        try:
            return log.take_group()
        except OSError as error:
            self._reported(name, error)
        return None

    def _reported(self, name: str, error: OSError | None) -> None:
        log, known = self._streams.logs[name], self._known[name]
        if error is None:
            log.commit()
            last = max(known.open)
            known.acked[last] = known.open[last]
            # What was refused before can never come back after this.
            known.open = {}
            self._done.acked += 1
            if bodies(log) != known.acked:
                raise Violation(f"{name}: readers see {list(bodies(log))}")
        else:
            log.fail(error.errno in {errno.ENOSPC, errno.EDQUOT})
            log.access.set_full(False)
            self._done.refused += 1
            if not log.access.read_only:
                known.open = {}  # truncated

    def _turn(self) -> None:
        journal = self._streams.store.journal
        if journal.wants_file:
            try:
                journal.prepare()
            except OSError:
                return
        names = self._writable()
        self._random.shuffle(names)
        turn: list[tuple[str, Group]] = []
        for name in names[: self._random.randint(1, STREAMS)]:
            group = self._staged(name)
            if group is not None and not group.may_share:
                self._reported(name, write(self._streams.disk, group))
            elif group is not None:
                turn.append((name, group))
        if not journal.takes(len(turn), sum(int(group.size) for _, group in turn)):
            for name, group in turn:
                self._reported(name, write(self._streams.disk, group))
            return
        shared: list[tuple[str, Group]] = []
        for name, group in turn:
            group.share(True)
            if write_unsynced(self._streams.disk, group):
                shared.append((name, group))
            else:
                group.share(False)
                self._reported(name, write(self._streams.disk, group))
        if not shared:
            return
        if self._random.random() < 0.3:
            self._look()  # between the plain writes and the frame
        errors = write_turn(self._streams.disk, journal, [group for _, group in shared])
        for (name, _), error in zip(shared, errors, strict=True):
            self._reported(name, error)

    def _publish(self) -> None:
        names = self._writable()
        if names:
            name = self._random.choice(names)
            if self._random.random() < 0.2:
                self._streams.logs[name].segments.want_roll()
            group = self._staged(name)
            if group is not None:
                self._reported(name, write(self._streams.disk, group))

    def _release(self) -> None:
        everything = self._random.random() < 0.5
        for segment in self._streams.store.journal.release(everything=everything):
            if segment.error is not None:
                log = next(
                    log
                    for log in self._streams.logs.values()
                    if log.identity.stream_id == segment.stream_id
                )
                segment.stop(segment.error)
                self._reported(log.identity.name, segment.error)

    def _reopen(self, log: StreamLog) -> None:
        if log.reopen():
            known = self._known[log.identity.name]
            known.open = {}
            self._done.reopened += 1
            if bodies(log) != known.acked:
                raise Violation(f"{log.identity.name}: {list(bodies(log))} after reopening")

    def _drop(self) -> None:
        if len(self._streams.logs) > 2:
            name = self._random.choice(list(self._streams.logs))
            log = self._streams.logs.pop(name)
            del self._known[name]
            self._unsure.add(name)
            try:
                self._streams.store.drop(log)
            except OSError:
                log.close()
            else:
                self._unsure.discard(name)

    def _restart(self) -> None:
        self._done.restarts += 1
        self._done.frames += self._streams.store.journal.frames
        chance = self._random.random()
        disk = self._streams.disk
        if chance < 0.4:
            self._streams.close()
            disk.before_step = None
            disk.forget_failures()
            if disk.open_handles:
                raise Violation(f"{disk.open_handles} handles were left open")
        elif chance < 0.7:
            disk = disk.survivor()
        else:
            disk = disk.image(self._random)
        self._streams = self._started(disk)
        for name, log in self._streams.logs.items():
            self._known.setdefault(name, Known()).adopt(bodies(log))
        self._watch()

    # What is looked at -------------------------------------------------------------------------

    def _look(self) -> None:
        for _ in range(3):
            image = self._streams.disk.image(self._random)
            if self._random.random() < 0.2:
                image = self._interrupted(image)
            self._started(image)

    def _interrupted(self, image: SimulatedDisk) -> SimulatedDisk:
        """An image of a start that a power failure ended."""
        left: list[SimulatedDisk] = []
        steps = iter(range(self._random.randint(1, 60)))

        def stop(_: Operation) -> None:
            if next(steps, None) is None and not left:
                left.append(image.image(self._random))

        image.before_step = stop
        self._started(image)
        image.before_step = None
        return left[0] if left else image.survivor()

    def _started(self, disk: SimulatedDisk) -> Streams:
        self._done.states += 1
        streams = Streams(disk, journal_size=8192 + 4096)
        if streams.unopened or streams.store.journal_notes:
            raise Violation(f"{streams.unopened} {streams.store.journal_notes}")
        for name, known in self._known.items():
            if name not in streams.logs:
                raise Violation(f"{name} is missing")
            known.check(name, bodies(streams.logs[name]))
        surplus = streams.logs.keys() - self._known.keys() - self._unsure
        if surplus:
            raise Violation(f"{surplus} exist")
        for name in streams.logs.keys() - self._known.keys():
            streams.logs.pop(name).close()
        return streams


def run_shared(states: int, *, seed: int = 0) -> Shared:
    """Check a number of states; raises Violation with the seed of the life."""
    done = Shared()
    while done.states < states:
        number = seed + done.lives
        life = _Life(number, done)
        try:
            life.live()
        except Exception as error:
            raise Violation(f"seed {number}: {error!r}") from error
        done.lives += 1
    return done


def run_damaged(rounds: int, *, seed: int = 0) -> int:
    """Damage journal files; return in how many rounds that was noticed."""
    noticed = 0
    for number in range(seed, seed + rounds):
        random = Random(number)
        streams = Streams()
        streams.create(*"ABCD")
        for n in range(random.randint(3, 30)):
            streams.turn(b"%03d" % n * 30, random.sample("ABCD", random.randint(2, 4)))
        acked = {name: bodies(log) for name, log in streams.logs.items()}
        killed = random.random() < 0.5
        disk = streams.disk.survivor() if killed else streams.disk.image(random)
        unseen = _damage(disk, random)
        started = Streams(disk)
        if started.unopened:
            raise Violation(f"seed {number}: {started.unopened} cannot be opened")
        for name, expected in acked.items():
            found = bodies(started.logs[name])
            lost = [seq for seq, body in expected.items() if found.get(seq) != body]
            if lost and killed:
                raise Violation(f"seed {number}: {lost} of {name} lost, its segment has them")
            if [body for seq, body in found.items() if expected.get(seq) != body]:
                raise Violation(f"seed {number}: {name} has what was never written")
            log = started.logs[name]
            reported = bool(started.store.journal_notes or log.missing or log.quarantine.known)
            # A frame has one message of a stream.
            if len(lost) > unseen and not reported:
                raise Violation(f"seed {number}: {lost} of {name} lost, and nothing is reported")
            if log.staged.seq < max(found, default=0):
                raise Violation(f"seed {number}: a sequence would be used twice")
        noticed += bool(started.store.journal_notes)
        started.turn(b"more")
        started.close()
    return noticed


def _damage(disk: SimulatedDisk, random: Random) -> int:
    """Damage a file; return how many frames may be missing without a trace.

    The end of the last frame cannot be distinguished from an interrupted write, nor can several
    frames at the end if the heads of all of them are damaged: then the frame before them is the
    last one, and damage that reaches into its end looks like an interrupted write as well. Without
    its oldest file the journal looks like one whose oldest file was released.
    """
    files = [path for path in disk.paths() if path.parent.name == "journal"]
    used = [path for path in files if disk.read_file(path).strip(b"\0")]
    path = random.choice(used)
    data = disk.read_file(path)
    end = len(data.rstrip(b"\0"))
    how = random.randrange(6)
    firsts = {each: (decode_head(disk.read_file(each)) or Head(0, 0)).first for each in used}
    oldest, newest = min(used, key=firsts.__getitem__), max(used, key=firsts.__getitem__)
    if how == 0:
        for _ in range(random.randint(1, 3)):
            disk.flip(path, random.randrange(end * 8))
    elif how == 1:
        disk.cut(path, random.randrange(len(data)))
    elif how == 2:
        disk.lose(path)
    elif how == 3:
        disk.swap(path, random.choice(files))
    elif how == 4:
        disk.put(Path(path).with_name("99999999.jnl"), random.choice((b"", b"x" * 9000, data)))
    else:
        at = random.randrange(end)
        disk.put(path, data[:at] + random.randbytes(512) + data[at + 512 :])
    if (path == newest and how in {1, 2}) or (path == oldest and how == 2):
        return sys.maxsize
    if path != newest or how not in {0, 5}:
        return 1
    head = decode_head(data)
    assert head is not None, "it was valid before"
    whole = [frame.number for frame in frames_in(data, head)]
    left = [
        frame.number
        for frame in frames_in(disk.read_file(path), head)
        if all(entry.data is not None for entry in frame.entries)
    ]
    return max(1, whole[-1] - max(left, default=head.first - 1))
