"""Condensed segments: a start reads them instead of the messages, and finds the same."""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import check_counts, messages, sequences

from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import record_time
from jetspark.store.store import FileStore
from jetspark.store.upkeep.index_writer import IndexWriter

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def maintain(bench: "Bench") -> int:
    steps = 0
    while bench.log.maintain():
        steps += 1
    return steps


def condensed(bench: "Bench") -> list[Path]:
    return sorted(path for path in bench.disk.paths() if path.suffix == ".idx")


@pytest.fixture
def full(bench: "Bench") -> "Bench":
    """Several segments with removals and limits in them."""
    for number in range(60):
        bench.publish(b"x" * 500, subject=b"s.%d" % (number % 7), now=number * 10)
        if number == 20:
            bench.log.staged.delete(15)
            bench.log.staged.purge(12, b"s.3", 0)
        if number == 30:
            bench.limit(0, 0, 5)
        if number == 40:
            bench.limit(25, 0, 0)
    return bench


def test_a_start_finds_the_same_without_reading_the_messages(full: "Bench") -> None:
    before = messages(full.log)
    index = full.log.index
    first_time = full.log.reader.first_time
    expected = (index.first_seq, index.last_seq, first_time, index.last_time, index.bytes)
    position = full.log.index.position
    maintain(full)
    full.reopen()
    index = full.log.index

    assert messages(full.log) == before
    check_counts(full.log, before)
    assert expected == (
        index.first_seq,
        index.last_seq,
        full.log.reader.first_time,
        index.last_time,
        index.bytes,
    )
    assert full.log.index.position == position
    assert len(condensed(full)) == len(full.segments())
    assert (full.recovery.damaged, full.recovery.notes) == ([], [])
    seq = full.publish(b"more", now=1)[0]
    assert record_time(*full.log.reader.locate(seq)) == expected[3] + 1


def test_only_the_condensed_part_and_the_tail_are_read() -> None:
    """Bounded, whatever the size of the messages."""
    disk = SimulatedDisk()
    store = FileStore(disk, KeptPath("/store"), segment_size=200_000, cache_budget=1)
    store.open(lambda *_: None)
    log = store.create(Identity(stream_id=77, account="A", name="S", created_ns=1))
    for group in range(100):
        for number in range(50):
            log.staged.add_message(b"orders.%d" % (number % 20), 0, b"x" * 300 + b"\r\n", group)
        found = log.take_group()
        assert found is not None
        disk.write_synced(int(found.handle), [found.blob], int(found.offset))
        log.commit()
    while log.maintain():
        pass
    log.close()
    store.close()
    total = sum(size for path, size in disk.paths().items() if path.suffix == ".seg")
    before = disk.read_bytes
    (log,) = FileStore(disk, KeptPath("/store"), segment_size=200_000, cache_budget=1).open(
        lambda *_: None
    )
    read = disk.read_bytes - before

    assert log.index.messages == 5_000
    assert total > 1_700_000
    assert read < 5_000 * 17 + 100_000 + 20_000, "16 bytes a message, half a segment, heads"


def test_a_condenser_remembers_no_more_subjects_than_it_may(full: "Bench") -> None:
    """A second copy of millions of subjects would be the largest thing in memory."""
    before = messages(full.log)
    index = full.log.index
    seen = []
    for name in full.segments():
        rows = next(rows for rows in index.segments if rows.name == name.name)
        end = int(rows.length or full.log.segments.end)
        condenser = IndexWriter(
            full.disk,
            name.parent,
            full.log.codec,
            rows.handle,
            name.name,
            end,
            full.log.upkeep,
            subjects_max=3,
        )
        while not condenser.step():
            seen.append(len(condenser.subjects))
    full.reopen()

    assert max(seen) == 3
    assert len(condensed(full)) == len(full.segments())
    assert full.recovery.bytes_read < 60 * 100, "the messages were not read"
    assert messages(full.log) == before
    check_counts(full.log, before)


def test_the_newest_segment_is_condensed_when_it_grew_enough(bench: "Bench") -> None:
    bench.publish(b"x" * 3_000)
    maintain(bench)
    assert condensed(bench) == []
    bench.publish(b"x" * 3_000)
    maintain(bench)
    assert len(condensed(bench)) == 1
    bench.publish(b"y" * 100)
    assert maintain(bench) == 0
    bench.reopen()
    assert sequences(bench.log) == [1, 2, 3]
    # What was read: the head, the condensed part, and only the last record.
    assert bench.recovery.bytes_read < 2_000
    assert maintain(bench) == 0, "what the index file has is known after a start"


def test_each_step_is_small(bench: "Bench") -> None:
    bench.segment_size = 20_000_000
    bench.reopen()
    for _ in range(30):
        bench.publish(*[b"x" * 10] * 1_000)
    bench.log.roll()
    bench.disk.operations.clear()
    steps = maintain(bench)

    assert steps > 10
    assert max(op.size for op in bench.disk.operations) <= 400_000
    bench.reopen()
    assert bench.log.index.messages == 30_000


@pytest.mark.parametrize("how", ["flip", "missing", "short", "foreign", "covers too much"])
def test_what_does_not_check_is_not_used(full: "Bench", how: str) -> None:
    before = messages(full.log)
    maintain(full)
    path, other = condensed(full)[:2]
    full.log.close()
    full.store.close()
    if how == "flip":
        full.disk.flip(path, 8 * 200)
    elif how == "missing":
        full.disk.remove(path)
    elif how == "short":
        full.disk.put(path, full.disk.read_file(path)[:-100])
    elif how == "foreign":
        full.disk.put(path, full.disk.read_file(other))
    else:
        segment = path.with_suffix("")
        full.disk.put(segment, full.disk.read_file(segment)[:-1])
    full.reopen(full.disk)

    if how == "covers too much":
        assert len(full.recovery.damaged) == 1
    else:
        assert messages(full.log) == before
        assert full.recovery.damaged == []
    maintain(full)
    assert path in full.disk.paths()


def test_a_damaged_head_makes_the_segment_be_read(full: "Bench") -> None:
    before = messages(full.log)
    maintain(full)
    full.log.close()
    full.store.close()
    full.disk.flip(full.segments()[0], 8 * 5)
    full.reopen(full.disk)

    assert messages(full.log) == before
    assert len(full.recovery.damaged) == 1


def test_a_segment_with_damage_is_not_condensed(full: "Bench") -> None:
    """It is read at every start, and its damage reported."""
    segment = full.segments()[-2]
    full.disk.flip(segment, 8 * 1_500)
    maintain(full)

    assert segment.with_name(segment.name + ".idx") not in full.disk.paths()
    for _ in range(2):
        full.reopen()
        assert len(full.recovery.damaged) == 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_costs_nothing(full: "Bench", error: int) -> None:
    before = messages(full.log)
    step = 1
    while True:
        disk = full.disk.survivor()
        full.store = full.new_store(disk)
        (full.log,) = full.store.open(full.hear)
        handles = disk.open_handles
        disk.fail(step, error)
        while full.log.maintain():
            pass
        assert disk.open_handles <= handles
        if not disk.failed_steps:
            break
        disk.forget_failures()
        full.log.close()
        full.store.close()
        assert disk.open_handles == 0
        (log,) = full.new_store(disk).open(full.hear)
        assert messages(log) == before
        step += 1
    assert step > 10


def test_condensed_parts_go_with_their_segments(full: "Bench") -> None:
    maintain(full)
    full.log.staged.purge(0, b"", 0)
    full.write()
    full.log.commit()
    full.log.roll()
    maintain(full)

    assert len(full.segments()) == 1
    assert condensed(full) == []
    full.disk.put(
        full.log.segments.folder / "00000000000000000001-00000000000000000001.seg.idx", b"left"
    )
    full.reopen()
    assert condensed(full) == []


def test_a_log_that_is_closed_or_read_only_does_nothing(full: "Bench") -> None:
    full.log.maintain()
    full.log.fail(no_space=False)
    assert not full.log.maintain()
    full.log.close()
    full.store.close()
    assert not full.log.maintain()
    assert full.disk.open_handles == 0
