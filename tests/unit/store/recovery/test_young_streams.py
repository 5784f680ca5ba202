"""A young stream has no manifests yet: it is created with three syncs, and nothing is in doubt."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.support.store.reading import messages
from tests.unit.store.conftest import ROOT, Bench

from jetspark.store.committer import write
from jetspark.store.format.manifest import COPIES, Identity, read_manifests
from jetspark.store.store import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from jetspark.store.recovery.replay import Recovery

SMALL = b"s" * 50
# More than the filler of a new segment of the bench.
LARGE = b"l" * 3_000


@pytest.fixture
def young() -> Bench:
    return Bench(is_young=True)


def store(bench: Bench, body: bytes) -> None:
    """Store a message as the server does."""
    bench.stage(body)
    group = bench.log.take_work()
    assert group is not None
    error = write(bench.disk, group)
    if error is None:
        bench.log.commit()
    else:
        bench.log.fail(error.errno == errno.ENOSPC)


def copies(bench: Bench) -> list[str]:
    names = bench.disk.list_folder(bench.log.segments.folder)
    return [name for name in names if name in COPIES]


def rest(bench: Bench) -> None:
    """Let a period of upkeep pass."""
    bench.log.upkeep.want_note(True)
    while bench.log.maintain():
        pass


def found_quietly(bench: Bench, disk: SimulatedDisk) -> list[bytes]:
    """Start on a disk; return the messages. Nothing was wrong, and nothing may be reported."""
    recoveries: list[Recovery] = []
    fresh = bench.new_store(disk)
    (log,) = fresh.open(lambda _identity, recovery: recoveries.append(recovery))
    (recovery,) = recoveries
    assert (recovery.notes, recovery.doubted, recovery.lost) == ([], [], [])
    assert recovery.damaged == recovery.doubtful
    assert not log.access.read_only
    bodies = [message.body for message in messages(log).values()]
    log.close()
    fresh.close()
    return bodies


def test_a_stream_is_created_with_three_syncs() -> None:
    """Of its file, its folder, and the folder that has its name."""
    disk = SimulatedDisk()
    store = FileStore(disk, ROOT, reserve_size=0)
    store.open(lambda _identity, _recovery: None)
    store.create(Identity(stream_id=1, account="A", name="FIRST", created_ns=1))
    disk.operations.clear()
    store.create(Identity(stream_id=2, account="A", name="S", created_ns=1))

    syncs = [each.kind for each in disk.operations if each.kind.startswith("sync")]
    assert syncs == ["sync", "sync folder", "sync folder"]


def test_its_first_message_costs_one_sync(young: Bench) -> None:
    young.disk.operations.clear()
    store(young, SMALL)

    syncs = [each.kind for each in young.disk.operations if each.kind.startswith("sync")]
    assert syncs == ["sync"]
    assert copies(young) == []


def test_a_group_that_does_not_fit_into_the_filler_waits_for_manifests(young: Bench) -> None:
    steps: list[Operation] = []
    young.disk.before_step = steps.append
    store(young, LARGE)

    assert copies(young) == list(COPIES)
    written = [step.path.rsplit("/", 1)[-1] for step in steps if step.kind in {"rename", "write"}]
    assert written.index("manifest.a") < written.index(young.segments()[0].name)


def test_a_level_below_durable_waits_for_manifests(young: Bench) -> None:
    young.log.durability.choose("interval", 1_000_000_000, 100)
    store(young, SMALL)

    manifest, damaged = read_manifests(young.disk, young.log.segments.folder)
    assert manifest is not None
    assert (manifest.sequence_floor, damaged) == (101, [])


@pytest.mark.parametrize("ended", [Bench.reopen, rest])
def test_what_is_stored_is_in_its_manifests_later(
    young: Bench, ended: Callable[[Bench], object]
) -> None:
    """After a period of upkeep, or a stop."""
    store(young, SMALL)
    ended(young)

    manifest, damaged = read_manifests(young.disk, young.log.segments.folder)
    assert manifest is not None
    assert (manifest.last_seq, damaged) == (1, [])
    assert manifest.segments == (young.segments()[0].name,)


def test_a_stream_without_messages_needs_no_manifests(young: Bench) -> None:
    """A thousand of them stop and start quickly."""
    for _ in range(3):
        young.reopen()
        assert (copies(young), young.recovery.notes) == ([], [])
    store(young, SMALL)
    young.reopen()
    assert copies(young) == list(COPIES)


def test_a_changed_configuration_is_in_its_manifests(young: Bench) -> None:
    young.log.staged.configure(b'{"new":1}')
    store(young, SMALL)
    survivor = young.disk.survivor()
    rest(young)

    manifest, _ = read_manifests(young.disk, young.log.segments.folder)
    assert manifest is not None
    assert bytes(manifest.identity.config) == b'{"new":1}'
    young.reopen(survivor)
    assert bytes(young.log.identity.config) == b'{"new":1}'


SCRIPTS: dict[str, list[Callable[[Bench], object]]] = {
    "small": [lambda b: store(b, SMALL)] * 4,
    "outgrown": [lambda b: store(b, SMALL), lambda b: store(b, LARGE), lambda b: store(b, SMALL)],
    "upkeep": [lambda b: store(b, SMALL), rest, lambda b: store(b, SMALL)],
    "rolled": [lambda b: store(b, SMALL), *[lambda b: store(b, LARGE)] * 4],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_no_crash_puts_anything_in_doubt(
    young: Bench, script: list[Callable[[Bench], object]]
) -> None:
    """At every step, also of the start after it: nothing is missing, and nothing is reported."""
    acknowledged: list[bytes] = []
    states: list[tuple[list[bytes], SimulatedDisk]] = []

    def look(operation: Operation) -> None:
        if operation.kind in CHANGING:
            states.append((list(acknowledged), young.disk.survivor()))
            states.extend(
                (list(acknowledged), young.disk.image(Random(seed))) for seed in range(3)
            )

    young.disk.before_step = look
    for act in script:
        act(young)
        acknowledged[:] = [message.body for message in messages(young.log).values()]
    young.disk.before_step = None

    assert len(states) > 20
    seeds = Random(1)
    for expected, disk in states:
        again: list[SimulatedDisk] = []

        def keep(operation: Operation, disk: SimulatedDisk = disk) -> None:
            if operation.kind in CHANGING:
                again.append(disk.image(Random(seeds.random())))  # noqa: B023 - used at once

        disk.before_step = keep
        assert found_quietly(young, disk)[: len(expected)] == expected
        disk.before_step = None
        for image in again:
            assert found_quietly(young, image)[: len(expected)] == expected


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["no space", "error"])
@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_no_failed_write_puts_anything_in_doubt(young: Bench, body: bytes, error: int) -> None:
    """A write fails at each step, and then the power does."""
    store(young, SMALL)
    step = 1
    while True:
        bench = Bench(is_young=True)
        store(bench, SMALL)
        bench.disk.fail(step, error)
        failed = bench.disk.failed_steps
        store(bench, body)
        if bench.disk.failed_steps == failed:
            break
        kept = len(messages(bench.log))
        for seed in range(6):
            assert len(found_quietly(bench, bench.disk.image(Random(seed)))) >= kept
        if bench.log.access.failed:
            assert bench.log.reopen()
        bench.log.access.set_full(False)
        store(bench, body)
        for seed in range(6):
            found = found_quietly(bench, bench.disk.image(Random(seed)))
            assert found[:kept] == [SMALL] * kept or body in found
            assert len(found) >= kept
        step += 1
    assert step > (2 if body == SMALL else 10)


def test_a_cut_file_without_manifests_is_in_doubt(young: Bench) -> None:
    """Without its filler: messages may have been lost with it."""
    store(young, SMALL)
    disk = young.disk.survivor()
    disk.cut(young.segments()[0], int(young.log.segments.end))

    young.reopen(disk)
    assert young.recovery.doubted
    assert young.log.staged.seq > 1
