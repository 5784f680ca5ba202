"""Damage to a store at rest: flipped bits, zeroed pages, shortened files.

``run_flips`` flips single bits anywhere in a store, in every kind of file, and starts it: at most
the record that was hit may be missing, and that must be reported. ``check_damage`` judges any
other damaged range the same way.

What is judged, and why it is no stricter in two places:

- Right after a start, damage in a segment with an index file need not be known: a start is
  bounded by what was written since the last index, so it does not read those. No wrong bytes are
  served; the reader of the message finds out. When housekeeping went through the
  segments once, everything must be known and nothing may be unreadable without being so.
- A record that removes messages can be hit like any other. It is one record lost, and reported;
  without it the messages that it removed are back, whole. That is only accepted where no index
  has a copy of the record: a start believes the index, so in a segment with an index file
  nothing is back.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import Opened, Violation, messages
from tests.support.store.reading import consumers
from tests.support.store.sample import (
    CACHE_BUDGET,
    SEGMENT_SIZE,
    TIME,
    Place,
    Sample,
)

from jetspark.store.log.stream_log import StreamLog


@dataclass
class Damaged:
    """What a run did."""

    cases: int = 0
    records_lost: int = 0
    reported: int = 0

    def __str__(self) -> str:
        return (
            f"{self.cases} damaged stores: {self.records_lost} records lost, all of them "
            "reported; 0 neighbours, 0 streams lost, 0 wrong bytes"
        )


def run_flips(flips: int, *, seed: int = 0, kind: str = "plain") -> Damaged:
    """Flip one bit of a store this many times; raises Violation with what was flipped.

    Every file is hit: half of the flips choose a file first, so that small ones get their share.
    """
    random = Random(seed)
    sample = Sample(kind)
    done = Damaged()
    files = [(path, size) for path, size in sample.files.items() if size]
    sizes = [size for _, size in files]
    for n in range(flips):
        path, size = random.choices(files, sizes)[0] if n % 2 else random.choice(files)
        flip(sample, path, random.randrange(size * 8), done)
    return done


def flip(sample: Sample, path: Path, bit: int, done: Damaged) -> None:
    """Flip one bit of a sample and judge what a start makes of it."""
    disk = sample.disk.survivor()
    disk.flip(path, bit)
    try:
        lost = check_damage(sample, disk, path, bit // 8, bit // 8 + 1, done)
        if lost > 1:
            raise Violation(f"{lost} records are lost")
    except Exception as error:
        raise Violation(f"{sample.kind}: bit {bit} of {path}: {error!r}") from error
    done.cases += 1
    done.records_lost += lost


def check_damage(
    sample: Sample,
    disk: SimulatedDisk,
    path: Path,
    begin: int,
    end: int,
    done: Damaged | None = None,
) -> int:
    """Start a store in which a range of a file was changed; return how many records are lost.

    Everything outside the range must be served, what is missing must be reported, and the store
    must continue: it takes new messages, keeps its house, and finds the same at the next start.
    """
    lost = 0
    for again in (False, True):
        opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
        found = {log.identity.stream_id: log for log in opened.logs}
        if found.keys() != sample.messages.keys():
            raise Violation(f"there are streams {found.keys()}")
        for log in found.values():
            judge = _Judge(sample, opened, log, path, begin, end)
            lost = max(lost, judge.check_start(again=again))
            if not again:
                _publish_one(disk, log)
                _keep_house(disk, log)
                judge.check_kept()
                if done is not None:
                    done.reported += len(log.quarantine.take_news())
        opened.close()
    return lost


class _Judge:
    """What one stream of a damaged store must show."""

    def __init__(
        self, sample: Sample, opened: Opened, log: StreamLog, path: Path, begin: int, end: int
    ) -> None:
        self.number = log.identity.stream_id
        self.sample = sample
        self.recovery = opened.recoveries[self.number]
        self.log = log
        self.path = path
        self.end = end
        folder = sample.folders[self.number]
        self.ours = folder in {path.parent, path.parent.parent}
        self.hit: list[Place] = []
        if path.parent == folder:
            self.hit = [p for p in sample.places.get(path, []) if p.meets(begin, end)]
        self.before = sample.messages[self.number]
        self.may_miss = {place.seq for place in self.hit if place.seq}
        covered = sample.covered.get(path, 0)
        if self.hit and begin < sample.places[path][0].begin:
            # Without the head of its segment no one knows whether an index belongs to it.
            covered = 0
        # Nothing but the record itself says so, and it was hit.
        self.may_return = any(p.removes and p.end > covered for p in self.hit)
        self.may_forget = any(not p.seq and p.end > covered for p in self.hit)

    def check_start(self, *, again: bool) -> int:
        """Judge what a start shows; how many messages are missing."""
        log, sample = self.log, self.sample
        if log.identity != sample.identities[self.number]:
            raise Violation(f"{log.identity} has changed")
        unreadable: set[int] = set()
        missing = self._check_messages(unreadable)
        if log.staged.seq < max(self.before):
            raise Violation(f"sequence {log.staged.seq + 1} would be used again")
        unknown = missing - self._reported() - unreadable
        if unknown:
            raise Violation(f"{unknown} are lost and not reported")
        if consumers(log) != sample.consumers[self.number] and not self.may_forget:
            raise Violation(f"consumers are {consumers(log)}")
        if not again:
            self._check_report()
        return len(missing)

    def check_kept(self) -> None:
        """Judge what there is when housekeeping went through everything."""
        unreadable: set[int] = set()
        missing = self._check_messages(unreadable)
        if unreadable:
            raise Violation(f"{unreadable} are unreadable, and nobody copied them aside")
        if missing - self._reported():
            raise Violation(f"{missing - self._reported()} are lost and not reported")
        known = len(self.log.quarantine.known) - len(self.sample.lost[self.number])
        segment = self.ours and self.path in self.sample.places
        # A record in the newest segment that an index has a copy of is looked at when it is full.
        later = self.path in self.sample.newest and not self.may_miss and not self.may_forget
        lost = self.sample.lost[self.number]
        again = self.hit and all(any(a <= p.seq <= b for a, b in lost) for p in self.hit)
        # Next to what is known it makes that longer.
        grown = self.log.quarantine.lost_bytes > self.sample.lost_bytes[self.number]
        if segment and known < 1 and not grown and not later and not again:
            raise Violation("the damage is not reported")
        if not segment and known > 0:
            raise Violation("damage is reported where there is none")
        if self.log.quarantine.waiting:
            raise Violation("damaged bytes were not copied aside")

    def _check_messages(self, unreadable: set[int]) -> set[int]:
        found = messages(self.log, unreadable)
        visible = {seq: m for seq, m in found.items() if m.subject != b"new"}
        for seq, message in visible.items():
            if self.sample.published[self.number].get(seq) != message:
                raise Violation(f"sequence {seq} has wrong bytes")
        back = visible.keys() - self.before.keys()
        if back and not self.may_return:
            raise Violation(f"{back} are back, and what removed them was not hit")
        missing = self.before.keys() - visible.keys()
        if missing - self.may_miss:
            raise Violation(f"{missing - self.may_miss} are lost and were not hit")
        return set(missing)

    def _reported(self) -> set[int]:
        lost = self.log.quarantine.lost
        return {seq for first, last in lost for seq in range(first, last + 1)}

    def _check_report(self) -> None:
        """Damage to the last group may be the rest of a write; anything else is certain."""
        newest = self.path in self.sample.newest
        last_group = newest and self.end > _last_group(self.sample.places[self.path])
        if self.recovery.doubtful and not last_group:
            raise Violation(f"{self.recovery.doubtful} doubtful, and that is certain")
        read = self.path in self.sample.places and not self.sample.covered[self.path]
        if self.ours and read and not self.recovery.damaged:
            raise Violation("a start read the damage and did not report it")


def _last_group(places: list[Place]) -> int:
    """Where the last group of a segment begins."""
    return max(place.begin for place in places if place.begins_group)


def _keep_house(disk: SimulatedDisk, log: StreamLog) -> None:
    """Let housekeeping do all it has to, and commit what it stages."""
    while True:
        while log.maintain(TIME * 2):
            pass
        if log.staged.position == log.index.position:
            return
        _commit(disk, log)


def _publish_one(disk: SimulatedDisk, log: StreamLog) -> None:
    log.staged.add_message(b"new", 0, b"\r\n", 2)
    _commit(disk, log)


def _commit(disk: SimulatedDisk, log: StreamLog) -> None:
    group = log.take_group()
    assert group is not None
    disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    log.commit()
