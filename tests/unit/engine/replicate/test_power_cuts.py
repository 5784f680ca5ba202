"""Power failures while streams are copied: nothing is skipped and nothing comes twice.

Before every step of the simulated disk an image is taken of what a cut may leave. On each an
engine is started, its copies come to rest, and what they hold is held against their origin.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.unit.engine.replicate.conftest import CopyBench, rows, times

SIZES = (0, 3, 40, 300, 700)
TURNS = 8
SEGMENT_SIZE = 6000  # several segments in a life


def opened(disk: SimulatedDisk, *, now: int = 0) -> CopyBench:
    bench = CopyBench(KeptPath("/store"), disk, segment_size=SEGMENT_SIZE, cache_budget=2000)
    bench.now = max(bench.now, now)
    return bench


def judge(bench: CopyBench, *, at_rest: bool) -> None:
    """A mirror is a prefix of its origin, or the same once it is at rest; a source likewise."""
    streams = bench.engine.streams
    if "M" not in streams or "S" not in streams:
        return
    origin = rows(streams["A"])
    mirror = rows(streams["M"])
    taken = [row[3] for row in rows(streams["S"]) if row[1] != b"s"]
    assert mirror == origin[: len(mirror)]
    assert times(streams["M"]) == times(streams["A"])[: len(mirror)]
    assert taken == [row[3] for row in origin][: len(taken)]
    if at_rest:
        assert len(mirror) == len(taken) == len(origin)


def live(seed: int) -> int:
    """One life; how many cuts were judged."""
    random = Random(seed)
    disk = SimulatedDisk()
    images: list[SimulatedDisk] = []

    def before(operation: Operation) -> None:
        if operation.kind in CHANGING and random.random() < 0.4:
            images.append(disk.image(random))

    bench = opened(disk)
    bench.make("A", subjects=["a.>"])
    bench.make("M", mirror={"name": "A"})
    bench.make("S", subjects=["s"], sources=[{"name": "A"}])
    disk.before_step = before
    number = 0
    for _ in range(TURNS):
        for _ in range(random.randint(1, 6)):
            number += 1
            body = b"%d " % number + random.randbytes(random.choice(SIZES))
            bench.publish(bench.engine.streams["A"], b"a.%d" % random.randrange(4), body)
        if random.random() < 0.5:
            bench.publish(bench.engine.streams["S"], b"s", b"own")
        for _ in range(random.randint(1, 8)):
            bench.turn()
            bench.submit()
            if bench.on_the_way and random.random() < 0.8:
                bench.land()
    disk.before_step = None
    bench.settle()
    judge(bench, at_rest=True)
    now = bench.now
    for image in images:
        again = opened(image, now=now)
        judge(again, at_rest=False)
        again.settle()
        judge(again, at_rest=True)
        again.put("A", b"a.1", b"after")
        judge(again, at_rest=True)
        again.close()
    bench.close()
    return len(images)


@pytest.mark.parametrize("seed", range(12))
def test_a_power_failure_loses_nothing_in_copies(seed: int) -> None:
    assert live(seed) > 5


def live_with_interest(seed: int, retention: str) -> int:
    """One life of a stream that removes what its mirror has; how many cuts were judged."""
    random = Random(seed)
    disk = SimulatedDisk()
    images: list[tuple[SimulatedDisk, int]] = []
    bench = opened(disk)
    origin = bench.make("O", subjects=["o.>"], retention=retention)
    bench.make("M", mirror={"name": "O"})

    def before(operation: Operation) -> None:
        if operation.kind in CHANGING and random.random() < 0.4:
            images.append((disk.image(random), int(origin.log.index.last_seq)))

    disk.before_step = before
    number = 0
    for _ in range(TURNS):
        for _ in range(random.randint(1, 6)):
            number += 1
            bench.publish(origin, b"o.1", b"%d" % number)
        for _ in range(random.randint(1, 8)):
            bench.turn()
            bench.submit()
            if bench.on_the_way and random.random() < 0.8:
                bench.land()
    disk.before_step = None
    now = bench.now
    for image, acknowledged in images:
        again = opened(image, now=now)
        again.settle()
        copied = [(row[0], int(row[3])) for row in rows(again.engine.streams["M"])]
        # Of a group that was not acknowledged a cut may leave any part.
        assert copied[:acknowledged] == [(n, n) for n in range(1, acknowledged + 1)]
        assert copied == sorted((n, n) for n in {seq for seq, _ in copied})
        assert rows(again.engine.streams["O"]) == []
        again.close()
    bench.close()
    return len(images)


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
@pytest.mark.parametrize("seed", range(4))
def test_a_power_failure_loses_nothing_of_a_stream_that_removes_messages(
    seed: int, retention: str
) -> None:
    assert live_with_interest(seed, retention) > 5
