"""What was done to the keys of a bucket and when, and a judge who says whether that can be.

Revisions order all writes, which makes the judgement cheap: sorted by (revision, write before
read, beginning) the operations on a key are a legal sequence; that sequence respects real time,
and the history is linearizable, exactly when no operation sees less than one that had ended
before it began, and no write is at or below what had been seen before it began. So it takes
one pass over the operations of each key in the order of their beginnings.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

import msgspec

WRITES = frozenset({"put", "update", "create", "delete"})


class Violation(AssertionError):
    """The history cannot be explained by any order of its operations."""


class Done(msgspec.Struct, frozen=True, gc=False):
    """One operation on one key that ended.

    ``get`` saw ``value`` at ``revision`` (None: no value; revision 0: never one); a write stored
    it there; ``refused`` found ``revision`` where another one was expected. ``expected`` is the
    revision that an update asked for.
    """

    kind: str
    key: str
    began: int
    ended: int
    revision: int
    value: bytes | None
    expected: int | None = None


class Cut(msgspec.Struct, frozen=True, gc=False):
    """Several keys read as of one point in time: revision and value of those that had one."""

    keys: tuple[str, ...]
    began: int
    ended: int
    seen: dict[str, tuple[int, bytes]]


class Written(NamedTuple):
    """What the bucket says was written; the value is None for the marker of a deletion."""

    key: str
    value: bytes | None


class History:
    """Everything that was done, and everything that was written, by revision."""

    def __init__(self) -> None:
        self.done: list[Done] = []
        self.cuts: list[Cut] = []
        # First and last revision of writes that were made together or not at all.
        self.together: list[tuple[int, int]] = []
        self.log: dict[int, Written] = {}

    def __len__(self) -> int:
        return len(self.done) + sum(len(cut.keys) for cut in self.cuts)

    def judge(self) -> None:
        """Raise Violation when this history is not linearizable."""
        versions = _versions(self.log)
        self._judge_log()
        self._judge_conditions(versions)
        by_key: dict[str, list[Done]] = defaultdict(list)
        for done in self.done:
            by_key[done.key].append(done)
        for operations in by_key.values():
            _judge_order(operations)
        # The bucket is one log: writes of different keys keep the order of real time, too.
        _judge_order([done for done in self.done if done.kind in WRITES])
        clock = _Clock(self.done)
        self.together.sort()
        for cut in self.cuts:
            self._judge_cut(cut, clock, versions)

    def _judge_log(self) -> None:
        """What was acknowledged exists, what was read was written, nothing else was."""
        found = list(self.log)
        if found != list(range(1, len(found) + 1)):
            raise Violation("the log of writes has gaps, or is not in order")
        answered: set[int] = set()
        for done in self.done:
            if done.kind in WRITES:
                if done.revision in answered:
                    raise Violation(f"two writes were told this revision: {done}")
                answered.add(done.revision)
                if self.log.get(done.revision) != (done.key, done.value):
                    raise Violation(f"lost: {done}, there is {self.log.get(done.revision)}")
            elif done.kind == "get" and done.revision:
                if self.log.get(done.revision) != (done.key, done.value):
                    raise Violation(f"never written: {done}")
            elif done.kind == "get" and done.value is not None:
                raise Violation(f"a value without a revision: {done}")
        phantoms = self.log.keys() - answered
        if phantoms:
            first = min(phantoms)
            raise Violation(f"nobody wrote revision {first}: {self.log[first]}")

    def _judge_conditions(self, versions: dict[str, list[int]]) -> None:
        """What expected a revision was stored right after it; refusals had a reason."""
        for done in self.done:
            if done.kind == "refused" and done.revision and done.revision == done.expected:
                raise Violation(f"refused although it was as expected: {done}")
            if done.kind == "refused" and done.revision and done.expected is None:
                if self.log[done.revision].value is None:
                    raise Violation(f"a creation was refused without a value: {done}")
                continue
            if done.kind not in {"update", "create"}:
                continue
            before = _before(versions[done.key], done.revision)
            if done.kind == "create":
                if before and self.log[before].value is not None:
                    raise Violation(f"created over the value of revision {before}: {done}")
            elif before != done.expected:
                raise Violation(f"an update was lost: revision {before} came between: {done}")

    def _judge_cut(self, cut: Cut, clock: "_Clock", versions: dict[str, list[int]]) -> None:
        """There is one revision as of which all keys are as they were read."""
        low, high = clock.lowest(cut.began), clock.highest(cut.ended)
        high = len(self.log) if high is None else high
        for key, (revision, value) in cut.seen.items():
            if self.log.get(revision) != (key, value):
                raise Violation(f"never written: {key} in {cut}")
            low = max(low, revision)
            own = versions[key]
            after = bisect_right(own, revision)
            if after < len(own):
                high = min(high, own[after] - 1)
        absent = [key for key in cut.keys if key not in cut.seen]
        at = low
        while at <= high:
            moved = self._next_possible(at, absent, versions)
            if moved == at:
                return
            at = moved
        raise Violation(f"no moment between {low} and {high} looks like this: {cut}")

    def _next_possible(self, at: int, absent: list[str], versions: dict[str, list[int]]) -> int:
        """The first revision from ``at`` on that splits nothing and where a key is absent."""
        index = bisect_right(self.together, (at, len(self.log) + 1)) - 1
        if index >= 0 and at < self.together[index][1]:
            return self.together[index][1]
        for key in absent:
            own = versions.get(key, [])
            index = bisect_right(own, at) - 1
            if index >= 0 and self.log[own[index]].value is not None:
                return own[index + 1] if index + 1 < len(own) else len(self.log) + 1
        return at


class _Clock:
    """Which revisions real time allows: the bucket is one log, whatever the keys are."""

    def __init__(self, done: list[Done]) -> None:
        ends = sorted((each.ended, each.revision) for each in done)
        self._ends = [ended for ended, _ in ends]
        self._known = [0, *accumulate((revision for _, revision in ends), max)]
        begins = sorted((each.began, each.revision) for each in done if each.kind in WRITES)
        self._begins = [began for began, _ in begins]
        later = list(accumulate((revision for _, revision in reversed(begins)), min))
        self._later = later[::-1]

    def lowest(self, began: int) -> int:
        """The highest revision that was known before ``began``."""
        return self._known[bisect_left(self._ends, began)]

    def highest(self, ended: int) -> int | None:
        """The last revision that can have been there at ``ended``; None for no limit."""
        index = bisect_right(self._begins, ended)
        return self._later[index] - 1 if index < len(self._later) else None


def _judge_order(operations: list[Done]) -> None:
    """Nothing sees less than what had ended before it began; writes come after all of it."""
    ends = sorted((done.ended, done.revision) for done in operations)
    at, floor = 0, 0
    for done in sorted(operations, key=lambda done: done.began):
        while ends[at][0] < done.began:
            floor = max(floor, ends[at][1])
            at += 1
        if done.kind in WRITES:
            if done.revision <= floor:
                raise Violation(f"revision {floor} was known before this began: {done}")
        elif done.revision < floor and (done.revision or done.kind == "get"):
            raise Violation(f"stale: revision {floor} was known before this began: {done}")


def _versions(log: dict[int, Written]) -> dict[str, list[int]]:
    """The revisions of each key, in order."""
    versions: dict[str, list[int]] = defaultdict(list)
    for revision, written in log.items():
        versions[written.key].append(revision)
    return versions


def _before(revisions: list[int], revision: int) -> int:
    """The revision of the key before this one; 0 when there is none."""
    index = bisect_left(revisions, revision) - 1
    return revisions[index] if index >= 0 else 0
