"""Levels of durability: what a power failure may take, and what never."""

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import messages

from jetspark.store.committer import write
from jetspark.store.recovery.findings import CHECK_SIZE
from jetspark.store.store import FileStore

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


@pytest.fixture
def lazy(bench: "Bench") -> "Bench":
    """A stream whose groups are acknowledged before they are on disk."""
    bench.log.durability.choose("interval")
    bench.log.durability.sequences_ahead = 100
    return bench


def publish(bench: "Bench", *bodies: bytes) -> list[int]:
    staged = bench.stage(*bodies)
    group = bench.log.take_group()
    assert group is not None
    assert write(bench.disk, group) is None
    bench.log.commit()
    return staged


def syncs(bench: "Bench") -> int:
    segments = {str(path) for path in bench.segments()}
    return sum(op.kind == "sync" and op.path in segments for op in bench.disk.operations)


def bodies(bench: "Bench") -> dict[int, bytes]:
    return {seq: message.body for seq, message in messages(bench.log).items()}


def test_a_group_is_visible_when_it_is_written(lazy: "Bench") -> None:
    before = syncs(lazy)
    publish(lazy, b"one")
    publish(lazy, b"two")

    assert bodies(lazy) == {1: b"one", 2: b"two"}
    assert syncs(lazy) == before
    assert lazy.log.durability.unsynced


def test_a_kill_loses_nothing_and_a_power_failure_only_what_was_not_synced(lazy: "Bench") -> None:
    publish(lazy, b"one")
    lazy.log.durability.want_sync(True)
    while lazy.log.maintain():
        pass
    assert not lazy.log.durability.unsynced
    publish(lazy, b"two")
    publish(lazy, b"three")
    killed = lazy.disk.survivor()
    cut = [lazy.disk.image(Random(seed)) for seed in range(40)]

    lost = 0
    for image in cut:
        lazy.reopen(image)
        found = bodies(lazy)
        assert found.items() >= {1: b"one"}.items()
        assert found.items() <= {1: b"one", 2: b"two", 3: b"three"}.items()
        # Nothing that readers saw gets another message.
        assert lazy.publish(b"new")[0] > 3
        lost += len(found) < 3
    assert lost > 5
    lazy.reopen(killed)
    assert bodies(lazy) == {1: b"one", 2: b"two", 3: b"three"}
    assert lazy.recovery.damaged == []


def test_a_segment_is_synced_before_the_next_one_is_started(lazy: "Bench") -> None:
    for _ in range(12):
        publish(lazy, b"x" * 1_000)
    assert len(lazy.segments()) == 2
    for seed in range(20):
        lazy.reopen(lazy.disk.image(Random(seed)))
        assert len(bodies(lazy)) >= 9


def test_closing_syncs_and_gives_sequences_back(lazy: "Bench") -> None:
    publish(lazy, b"one")
    lazy.log.close()
    lazy.store.close()
    lazy.reopen(lazy.disk.image(Random(1)))

    assert bodies(lazy) == {1: b"one"}
    assert lazy.publish(b"two") == [2]


def test_a_batch_exists_as_a_whole_or_not_at_all(lazy: "Bench") -> None:
    """Groups after it prove nothing: they were not synced either."""
    publish(lazy, b"first")
    lazy.log.staged.begin_batch()
    lazy.stage(b"a" * 600, b"b" * 600, b"c" * 600)
    lazy.log.staged.end_batch()
    group = lazy.log.take_group()
    assert group is not None
    assert write(lazy.disk, group) is None
    lazy.log.commit()
    publish(lazy, b"later" * 100)
    for seed in range(200):
        lazy.reopen(lazy.disk.image(Random(seed)))
        found = set(bodies(lazy))
        assert found.isdisjoint({2, 3, 4}) or found.issuperset({2, 3, 4})
        assert lazy.recovery.damaged == lazy.recovery.doubtful


def test_nothing_is_removed_before_what_took_its_place_is_synced(lazy: "Bench") -> None:
    lazy.limit(3, 0, 0)
    for _ in range(30):
        publish(lazy, b"x" * 1_000)
        while lazy.log.maintain():
            pass
        image = lazy.disk.image(Random(5))
        disk, log, store = lazy.disk, lazy.log, lazy.store
        lazy.reopen(image)
        # What a lost message had evicted exists again.
        assert len(bodies(lazy)) >= 3 or log.index.last_seq < 12
        lazy.disk, lazy.log, lazy.store = disk, log, store
    assert len(lazy.segments()) <= 2


def test_a_higher_level_syncs_what_came_before(lazy: "Bench") -> None:
    publish(lazy, b"one")
    lazy.log.durability.choose("durable")
    publish(lazy, b"two")

    assert not lazy.log.durability.unsynced
    for seed in range(20):
        lazy.reopen(lazy.disk.image(Random(seed)))
        assert bodies(lazy) == {1: b"one", 2: b"two"}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_is_an_error_of_the_log(lazy: "Bench", error: int) -> None:
    """Also when there was no space: a later sync is not for what this one lost."""
    publish(lazy, b"one")
    lazy.log.durability.want_sync(True)
    lazy.disk.fail(1, error)
    lazy.log.maintain()

    assert lazy.log.durability.sync_error is not None
    lazy.log.fail(no_space=error == errno.ENOSPC)
    assert lazy.log.access.read_only
    assert bodies(lazy) == {1: b"one"}
    assert lazy.log.reopen()
    assert not lazy.log.durability.unsynced
    for seed in range(20):
        lazy.reopen(lazy.disk.image(Random(seed)))
        assert bodies(lazy) == {1: b"one"}


@pytest.mark.parametrize("step", [3, 4, 5, 6, 7])
def test_a_manifest_that_cannot_be_written_fails_the_group(lazy: "Bench", step: int) -> None:
    """Both are read first, which are two steps."""
    lazy.stage(b"one")
    lazy.disk.fail(step, errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        lazy.log.take_group()
    lazy.log.fail(no_space=True)
    assert publish(lazy, b"two") == [2]


def test_an_unknown_level_is_refused(bench: "Bench") -> None:
    with pytest.raises(ValueError, match="expected one of durable, interval, async"):
        bench.log.durability.choose("sometimes")


def test_a_store_gives_its_level_to_its_streams(bench: "Bench") -> None:
    bench.log.close()
    bench.store.close()
    store = FileStore(
        bench.disk,
        bench.log.segments.folder.parent.parent,
        durability="interval",
        sync_period_ns=7,
    )
    (log,) = store.open(bench.hear)

    assert (log.durability.level, log.durability.sync_period, log.durability.durable) == (
        "interval",
        7,
        False,
    )
    store.choose_level(log, "async")
    assert (log.durability.level, log.durability.sync_period) == ("async", 120_000_000_000)


def test_a_start_after_a_full_disk_writes_only_the_last_group_again(lazy: "Bench") -> None:
    """What was on the disk before is not written again: a power failure would tear it."""
    publish(lazy, b"one")
    lazy.log.durability.want_sync(True)
    while lazy.log.maintain():
        pass
    lazy.stage(b"refused")
    group = lazy.log.take_group()
    assert group is not None
    lazy.disk.fail(1, errno.ENOSPC)
    assert write(lazy.disk, group) is not None
    lazy.log.fail(no_space=True)
    lazy.disk.forget_failures()
    end = int(lazy.log.segments.end)
    publish(lazy, b"two")
    last_group = int(lazy.log.segments.end) - end

    lazy.reopen(lazy.disk.survivor())

    segments = {str(path) for path in lazy.segments()}
    written = [
        op.size for op in lazy.disk.operations if op.kind == "write" and op.path in segments
    ]
    assert list(bodies(lazy).values()) == [b"one", b"two"]
    assert max(written) <= last_group + CHECK_SIZE


def test_a_file_that_a_group_and_a_task_need_is_closed_once_by_the_last_of_them(
    lazy: "Bench",
) -> None:
    """Closed twice, the number of the file may be another file's by then."""
    publish(lazy, b"one")
    lazy.log.durability.want_sync(True)
    task = lazy.log.take_task()
    assert task is not None
    lazy.stage(b"two")
    group = lazy.log.take_group()
    assert group is not None
    closed: list[int] = []
    close = lazy.disk.close

    def counted(handle: int) -> None:
        closed.append(handle)
        close(handle)

    lazy.disk.close = counted  # type: ignore[method-assign]
    lazy.log.close()
    assert write(lazy.disk, group) is None
    lazy.log.commit()
    assert task.step(), "its file is still open"
    lazy.log.end_task(False)

    assert closed == [int(group.handle)]


def test_a_start_writes_nothing_again_that_was_on_disk_before_a_torn_group(lazy: "Bench") -> None:
    """A power failure in that write could tear what was acknowledged."""
    publish(lazy, b"one")
    publish(lazy, b"two")
    lazy.log.durability.want_sync(True)
    while lazy.log.maintain():
        pass
    lazy.stage(b"x" * 900)
    group = lazy.log.take_group()
    assert group is not None
    lazy.disk.fail(1, errno.EIO)  # half of it is written
    assert write(lazy.disk, group) is not None
    killed = lazy.disk.survivor()
    images: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "sync" and operation.path.endswith(".seg") and not images:
            images.extend(killed.image(Random(seed)) for seed in range(40))

    killed.before_step = look
    lazy.reopen(killed)
    for image in images:
        lazy.reopen(image)
        assert bodies(lazy) == {1: b"one", 2: b"two"}
