"""Damage to a store at rest: flipped bits, zeroed pages, shortened files, and disks that fail.

``run_flips`` flips single bits anywhere in a store and starts it: at most the record that was hit
may be missing, and that must be reported. ``check_damage`` judges any other damaged range the
same way. ``run_faults`` lets every single step of a short life fail once, with every error given.
"""

import errno
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from jetspark.store.files import NO_SPACE
from jetspark.store.log import StreamLog
from jetspark.store.manifest import Identity
from jetspark.store.record import MESSAGE, record_kind, record_length, record_sequence
from jetspark.store.segment import SUFFIX, read_head
from jetspark.testing.disk import SimulatedDisk
from jetspark.testing.store_model import Message, Opened, Violation, messages

SEGMENT_SIZE: Final = 1500
CACHE_BUDGET: Final = 600
GROUPS: Final = (1, 3, 2, 1, 4, 3)


class Place:
    """Where a record lies; ``seq`` is 0 when it is not a message."""

    def __init__(self, seq: int, begin: int, end: int) -> None:
        self.seq = seq
        self.begin = begin
        self.end = end

    def meets(self, begin: int, end: int) -> bool:
        """Tell whether a range of bytes touches the record."""
        return self.begin < end and begin < self.end


class Sample:
    """A store with a bit of everything, and the knowledge of what is where.

    ``condensed``: with its full segments condensed, so that a start does not read them. Damage to
    a message is then found by whoever reads it.
    """

    def __init__(self, *, condensed: bool = False) -> None:
        self.condensed = condensed
        self.disk = SimulatedDisk()
        opened = Opened(self.disk, SEGMENT_SIZE, CACHE_BUDGET)
        # Every message ever acknowledged: what a damaged record removed may be back.
        self.published: dict[int, dict[int, Message]] = {}
        for number in (0x1234567890ABCDEF, 7):
            log = opened.store.create(_identity(number))
            opened.logs.append(log)
            self._fill(log, Random(number))
            while condensed and log.maintain():
                pass
        self.identities = {log.identity.stream_id: log.identity for log in opened.logs}
        self.messages = {log.identity.stream_id: messages(log) for log in opened.logs}
        self.folders = {log.identity.stream_id: log.folder for log in opened.logs}
        opened.close()
        self.files = self.disk.paths()
        self.places = {path: self._places(path) for path in self.files if path.suffix == SUFFIX}
        # The newest segment of each stream, where damage cannot always be told from a torn write.
        self.newest = {
            max(path for path in self.places if path.parent == folder)
            for folder in self.folders.values()
        }

    def _fill(self, log: StreamLog, random: Random) -> None:
        for turn, size in enumerate(GROUPS):
            if turn == 3:
                # Some sequences are skipped: their group met a full disk.
                self.disk.fail(1, errno.ENOSPC)
                self._publish(log, random, 2)
            if turn == 4:
                log.stage_delete(2)
                log.stage_purge(0, b"s.1", 1)
                log.set_limits(40, 0, 6)
                log.stage_configuration(b'{"n":2}')
            self._publish(log, random, size)

    def _publish(self, log: StreamLog, random: Random, count: int) -> None:
        published = self.published.setdefault(log.identity.stream_id, {})
        for _ in range(count):
            headers = random.choice((b"", b"NATS/1.0\r\nA: b\r\n\r\n"))
            body = random.randbytes(random.randrange(150))
            subject = b"s.%d" % random.randrange(4)
            seq = log.stage_message(subject, len(headers), headers + body + b"\r\n", 1)
            published[int(seq)] = Message(subject, headers, body)
        group = log.take_group()
        assert group is not None
        try:
            self.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
        except OSError:
            log.fail(no_space=True)
        else:
            log.commit()

    def _places(self, path: Path) -> list[Place]:
        data = self.disk.read_file(path)
        head = read_head(data)
        assert head is not None
        at = head[1]
        found = []
        while at < len(data):
            length = int(record_length(data, at))
            message = record_kind(data, at) == MESSAGE
            seq = int(record_sequence(data, at)) if message else 0
            found.append(Place(seq, at, at + length))
            at += length
        return found


@dataclass
class Damage:
    """What a run did."""

    cases: int = 0
    records_lost: int = 0

    def __str__(self) -> str:
        return (
            f"{self.cases} damaged stores: {self.records_lost} records lost, all of them "
            "reported; 0 neighbours, 0 streams lost, 0 wrong bytes"
        )


def run_flips(flips: int, *, seed: int = 0, condensed: bool = False) -> Damage:
    """Flip one bit of a store this many times; raises Violation with what was flipped."""
    random = Random(seed)
    sample = Sample(condensed=condensed)
    done = Damage()
    files = list(sample.files.items())
    sizes = [size for _, size in files]
    for _ in range(flips):
        path, size = random.choices(files, sizes)[0]
        flip(sample, path, random.randrange(size * 8), done)
    return done


def flip(sample: Sample, path: Path, bit: int, done: Damage) -> None:
    """Flip one bit of a sample and judge what a start makes of it."""
    disk = sample.disk.survivor()
    disk.flip(path, bit)
    try:
        lost = check_damage(sample, disk, path, bit // 8, bit // 8 + 1)
        if lost > 1:
            raise Violation(f"{lost} records are lost")
    except Exception as error:
        raise Violation(f"bit {bit} of {path}: {error!r}") from error
    done.cases += 1
    done.records_lost += lost


def check_damage(sample: Sample, disk: SimulatedDisk, path: Path, begin: int, end: int) -> int:
    """Start a store in which a range of a file was changed; return how many records are lost.

    Everything outside the range must be served, what is missing must be reported, and the store
    must go on: it takes new messages and finds them, and the same damage, at the next start.
    """
    lost = 0
    for again in (False, True):
        opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
        found = {log.identity.stream_id: log for log in opened.logs}
        if found.keys() != sample.messages.keys():
            raise Violation(f"there are streams {found.keys()}")
        for number, log in found.items():
            if log.identity != sample.identities[number]:
                raise Violation(f"{log.identity} has changed")
            lost += _check_stream(sample, opened, log, path, begin, end)
            if not again:
                _publish_one(disk, log)
        opened.close()
    return lost // 2


def _check_stream(
    sample: Sample, opened: Opened, log: StreamLog, path: Path, begin: int, end: int
) -> int:
    number = log.identity.stream_id
    before = sample.messages[number]
    unreadable: set[int] = set()
    found = messages(log, unreadable)
    visible = {seq: m for seq, m in found.items() if m.subject != b"new"}
    hit: list[Place] = []
    if path.parent == sample.folders[number]:
        hit = [place for place in sample.places.get(path, []) if place.meets(begin, end)]
    may_miss = {place.seq for place in hit if place.seq}
    for seq, message in visible.items():
        if sample.published[number].get(seq) != message:
            raise Violation(f"sequence {seq} has wrong bytes")
    back = visible.keys() - before.keys()
    if back and not any(place.seq == 0 for place in hit):
        raise Violation(f"{back} are back, and what removed them was not hit")
    missing = before.keys() - visible.keys()
    if missing - may_miss:
        raise Violation(f"{missing - may_miss} are lost and were not hit")
    if log.staged_seq < max(before):
        raise Violation(f"sequence {log.staged_seq + 1} would be used again")
    recovery = opened.recoveries[number]
    ours = path.parent == sample.folders[number]
    if ours and path in sample.places and not (recovery.damaged or sample.condensed):
        raise Violation("the damage is not reported")
    if not ours and recovery.damaged:
        raise Violation("damage is reported where there is none")
    reported = {seq for first, last in recovery.lost for seq in range(first, last + 1)}
    if missing - reported - unreadable:
        raise Violation(f"{missing - reported} are lost and not reported")
    last_group = path in sample.newest and end > _last_group(sample.places[path])
    if recovery.doubtful and not last_group:
        raise Violation(f"{recovery.doubtful} doubtful, and that is certain")
    return len(missing)


def _last_group(places: list[Place]) -> int:
    """Where the last group of a segment begins (the sample's last group has its own size)."""
    return places[-min(GROUPS[-1], len(places))].begin


def _publish_one(disk: SimulatedDisk, log: StreamLog) -> None:
    log.stage_message(b"new", 0, b"\r\n", 2)
    group = log.take_group()
    assert group is not None
    disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    log.commit()


def _identity(number: int) -> Identity:
    return Identity(stream_id=number, account="A", name=f"S{number}", created_ns=5)


# Steps that fail --------------------------------------------------------------------------------


def run_faults(errors: tuple[int, ...] = (errno.EIO, errno.ENOSPC)) -> int:
    """Let each step of a short life fail once with each error; how many runs that were.

    After an error that is not about space a log takes nothing more. Whatever failed, the next
    start serves all that was acknowledged, and nothing that never was staged.
    """
    runs = 0
    for error in errors:
        step = 1
        while _one_fault(step, error):
            step += 1
            runs += 1
    return runs


def _one_fault(step: int, error: int) -> bool:
    """Live a short life in which one step fails; whether it had that many steps."""
    disk = SimulatedDisk()
    disk.fail(step, error)
    acked: dict[int, Message] = {}
    staged: dict[int, Message] = {}
    with suppress(OSError):
        _short_life(disk, acked, staged)
    where = f"step {step}, error {errno.errorcode[error]}"
    if disk.open_handles:
        raise Violation(f"{where}: {disk.open_handles} handles were left open")
    fired = disk.failed_steps > 0
    disk.forget_failures()
    opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
    found = {log.identity.stream_id: messages(log) for log in opened.logs}
    visible = found.pop(1, {})
    wrong = [seq for seq in visible if staged.get(seq) != visible[seq]]
    lost = [seq for seq in acked if seq not in visible]
    if wrong or lost:
        raise Violation(f"{where}: wrong {wrong}, lost {lost}")
    if found not in ({}, {2: {}}):
        raise Violation(f"{where}: there is {found}")
    opened.close()
    return fired


def _short_life(
    disk: SimulatedDisk, acked: dict[int, Message], staged: dict[int, Message]
) -> None:
    """Make a stream, write to it, start again, make and drop another, write more."""
    for first_turn in (0, 8):
        opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
        try:
            if first_turn == 0:
                opened.logs.append(opened.store.create(_identity(1)))
            else:
                opened.store.drop(opened.store.create(_identity(2)))
            for turn in range(first_turn, first_turn + 8):
                _publish_checked(disk, opened.logs[0], turn, acked, staged)
                opened.logs[0].maintain()
                opened.logs[0].maintain()
        finally:
            opened.close()


def _publish_checked(
    disk: SimulatedDisk,
    log: StreamLog,
    turn: int,
    acked: dict[int, Message],
    staged: dict[int, Message],
) -> None:
    if log.read_only:
        return
    body = bytes([turn]) * (turn * 40)
    seq = int(log.stage_message(b"s.%d" % (turn % 3), 0, body + b"\r\n", turn))
    if seq in acked:
        raise Violation(f"sequence {seq} is used again")
    staged[seq] = Message(b"s.%d" % (turn % 3), b"", body)
    try:
        group = log.take_group()
        assert group is not None
        disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    except OSError as error:
        log.fail(error.errno in NO_SPACE)
        if not log.read_only:
            del staged[seq]
    else:
        log.commit()
        acked[seq] = staged[seq]
