"""The scrubber finds damage that no one reads."""

import errno
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

from jetspark.store.format.manifest import read_manifests
from jetspark.store.upkeep.counts import UpkeepRates
from jetspark.store.upkeep.scrub import SLICE, Scrub
from jetspark.store.upkeep.upkeep import DAY_NS

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

BODY = bytes(range(200))
NOW = 10 * DAY_NS


@pytest.fixture
def full(bench: "Bench") -> "Bench":
    """Some full segments, condensed, and one that is written to."""
    bench.segment_size = 3000
    bench.cache_budget = 0
    bench.reopen()
    for _ in range(50):
        bench.publish(BODY)
    while bench.log.maintain():
        pass
    return bench


def keep_house(bench: "Bench", now: int) -> int:
    """Do all that is to be done; how many segments were scrubbed."""
    scrubs = set()
    while bench.log.maintain(now):
        task = bench.log.upkeep.task
        if isinstance(task, Scrub):
            scrubs.add(task.name)
    return len(scrubs)


def test_damage_that_no_reader_touches_is_found(full: "Bench") -> None:
    first = full.log.segments.list_files()[0]
    offset = int(first.rows[0].offset_at(2))
    full.disk.flip(full.log.segments.folder / first.name, (offset + 99) * 8)
    full.reopen()
    assert full.log.quarantine.known == {}

    keep_house(full, NOW)

    (damage,) = full.log.quarantine.take_news()
    counts = full.log.upkeep.counts
    assert counts.scrubs == len(full.segments()) - 1
    assert (
        counts.scrub_read >= sum(file.length for file in full.log.segments.list_files()[:-1]) * 0.9
    )
    assert (counts.scrub_damage, counts.scrubs_failed) == (1, 0)
    assert (damage.segment, damage.offset) == (first.name, offset)
    assert (damage.first_seq, damage.messages, damage.time_ns) == (3, 1, NOW)
    assert full.log.quarantine.lost == [(3, 3)]
    assert list(messages(full.log)) == [1, 2, *range(4, 51)]


def test_each_full_segment_is_scrubbed_once_a_day(full: "Bench") -> None:
    count = len(full.log.segments.list_files()) - 1

    assert keep_house(full, NOW) == count
    assert keep_house(full, NOW + DAY_NS - 1) == 0
    assert keep_house(full, NOW + DAY_NS) == count


def test_a_restart_does_not_start_over(full: "Bench") -> None:
    count = keep_house(full, NOW)
    full.reopen()

    assert count > 3
    assert keep_house(full, NOW + DAY_NS - 1) == 0
    assert keep_house(full, NOW + DAY_NS) == count


def test_a_clock_that_was_set_back_does_not_stop_it(full: "Bench") -> None:
    """Previously nothing was scrubbed until the clock had caught up."""
    count = len(full.log.segments.list_files()) - 1
    keep_house(full, NOW)
    full.reopen()

    assert keep_house(full, NOW - 5 * DAY_NS) == count
    assert keep_house(full, NOW - 4 * DAY_NS - 1) == 0
    assert keep_house(full, NOW - 4 * DAY_NS) == count


def test_without_an_interval_nothing_is_scrubbed(full: "Bench") -> None:
    assert keep_house(full, 0) == 0


def test_it_reads_no_faster_than_it_may(full: "Bench") -> None:
    full.log.upkeep.rates = UpkeepRates(scrub_rate=1000)
    task = full.log.take_task(NOW)
    assert isinstance(task, Scrub)
    waited = 0
    while not task.step():
        waited += task.pause_ns()
    full.log.end_task(False)

    assert task.length < waited * 1000 // 10**9 + 2000


def test_other_tasks_have_their_turn_in_between(bench: "Bench") -> None:
    """Removing and rewriting do not wait for a segment that is read slowly."""
    bench.segment_size = 3 * SLICE
    bench.reopen()
    for _ in range(14):
        bench.publish(bytes(SLICE // 4))
    while bench.log.maintain():
        pass
    task = bench.log.take_task(NOW)
    assert isinstance(task, Scrub)
    steps = 0
    while not task.step():
        steps += 1
    bench.log.end_task(False)

    assert not task.finished
    assert task.at < task.length
    assert bench.log.take_task(NOW) is task


def test_an_invalid_index_file_is_rebuilt(full: "Bench") -> None:
    first = full.log.segments.list_files()[0]
    path = full.log.segments.folder / (first.name + ".idx")
    content = full.disk.read_file(path)
    full.disk.flip(path, 300)

    keep_house(full, NOW)

    assert full.disk.read_file(path) == content


def test_a_damaged_manifest_is_written_from_the_other_copy(full: "Bench") -> None:
    full.disk.flip(full.log.segments.folder / "manifest.b", 300)

    keep_house(full, NOW)

    manifest, damaged = read_manifests(full.disk, full.log.segments.folder)
    assert damaged == []
    assert manifest is not None
    assert manifest.identity == full.log.identity


def test_a_disk_that_refuses_is_asked_again_tomorrow(full: "Bench") -> None:
    task = full.log.take_task(NOW)
    assert isinstance(task, Scrub)
    full.disk.fail(1, errno.EIO, times=50)
    with pytest.raises(OSError, match="Input/output"):
        task.step()
    full.disk.forget_failures()
    full.log.end_task(True)

    assert full.log.quarantine.known == {}
    assert full.log.upkeep.scrubbed == {task.name: NOW}
