"""Failed syncs: nothing is believed that the disk did not take."""

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

from jetspark.errors.storage import StoreReadOnly

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def fail_sync(bench: "Bench") -> None:
    """Write the group in flight on a disk that loses it and says so."""
    group = bench.log.take_group()
    assert group is not None
    bench.disk.fail(2, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    bench.log.fail(no_space=False)


def bodies(bench: "Bench") -> dict[int, bytes]:
    return {seq: message.body for seq, message in messages(bench.log).items()}


def test_what_a_start_shows_after_a_failed_sync_survives_a_power_failure(bench: "Bench") -> None:
    bench.limit(2, 0, 0)
    bench.publish(b"one", b"two")
    bench.stage(b"three")
    fail_sync(bench)
    shown = bodies_after_start(bench)

    assert shown == {2: b"two", 3: b"three"}
    for seed in range(30):
        bench.reopen(bench.disk.image(Random(seed)))
        assert bodies(bench) == shown


def bodies_after_start(bench: "Bench") -> dict[int, bytes]:
    bench.log.close()
    bench.store.close()
    bench.reopen(bench.disk)
    return bodies(bench)


def test_a_failed_log_is_verified_and_written_to_again(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(b"never")
    fail_sync(bench)
    with pytest.raises(StoreReadOnly):
        bench.stage(b"refused")

    assert bench.log.reopen()
    assert not bench.log.access.read_only
    assert bodies(bench) == {1: b"one"}
    (seq,) = bench.publish(b"two")
    assert seq > 2
    assert len(bench.segments()) == 2
    assert bodies_after_start(bench) == {1: b"one", seq: b"two"}
    assert bench.recovery.damaged == []


def test_truncated_records_never_come_back(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(b"never")
    fail_sync(bench)
    assert bench.log.reopen()
    for seed in range(30):
        image = bench.disk.image(Random(seed))
        bench.reopen(image)
        assert bodies(bench) == {1: b"one"}


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_a_disk_that_still_fails_leaves_the_log_read_only(bench: "Bench", step: int) -> None:
    bench.publish(b"one")
    bench.stage(b"never")
    fail_sync(bench)
    bench.disk.fail(step, errno.EIO)

    assert not bench.log.reopen()
    assert bench.log.access.read_only
    bench.disk.forget_failures()
    assert bench.log.reopen()
    assert bodies(bench) == {1: b"one"}


def test_a_log_whose_messages_are_lost_stays_read_only(bench: "Bench") -> None:
    bench.publish(b"one" * 50)
    bench.stage(b"never")
    fail_sync(bench)
    (path,) = bench.segments()
    bench.disk.flip(path, bench.disk.read_file(path).index(b"oneone") * 8)

    assert not bench.log.reopen()
    assert bench.log.access.read_only


def test_only_a_failed_log_is_reopened(bench: "Bench") -> None:
    bench.publish(b"one")

    assert not bench.log.reopen()
    bench.log.close()
    assert not bench.log.reopen()


def test_a_log_that_is_closed_while_it_is_verified_gives_its_file_back(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(b"never")
    fail_sync(bench)
    bench.log.upkeep.want_reopening(True)
    task = bench.log.take_task()
    assert task is not None
    task.step()
    bench.log.close()
    bench.store.close()
    task.step()
    bench.log.end_task(failed=False)

    assert bench.disk.open_handles == 0


def test_a_segment_without_records_is_continued(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.log.roll()
    bench.stage(b"never")
    fail_sync(bench)
    assert bench.log.reopen()
    bench.publish(b"two")

    assert len(bench.segments()) == len(bench.log.index.segments) == 2
    assert set(bodies_after_start(bench).values()) == {b"one", b"two"}
