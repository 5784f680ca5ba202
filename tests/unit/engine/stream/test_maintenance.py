"""Logs that need something as time passes: syncs, space, a second chance."""

from __future__ import annotations

import errno

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.conftest import Bench

from jetspark.api.enums import PersistMode, Storage
from jetspark.api.stream import StreamConfig
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.store.committer import write
from jetspark.store.memory import MemoryFiles
from jetspark.units import Nanoseconds

MIB = 1 << 20
SECOND = 1_000_000_000
ROOT = KeptPath("/store")
BIG = b"x" * 400_000  # more than the filler that lies there already


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def syncs(disk: SimulatedDisk) -> int:
    return sum(op.kind == "sync" and op.path.endswith(".seg") for op in disk.operations)


def publish(bench: Bench, stream: Stream, payload: bytes) -> bytes:
    """Publish on the disk as it is; the answer."""
    bench.publish(stream, b"s.1", payload, reply=b"r")
    bench.submit()
    for _ in list(bench.on_the_way):
        stream, group = bench.on_the_way.pop(0)
        error = write(bench.files, group)
        if error is None:
            bench.engine.committed(stream, bench.outbox)
        else:
            bench.engine.failed(stream, error, bench.outbox)
    (entry,) = bench.replies()
    return entry


# Levels


def test_a_level_with_a_period_syncs_once_per_period(disk: SimulatedDisk) -> None:
    bench = Bench(ROOT, disk, durability="interval", sync_period_ns=2_000_000_000)
    stream = bench.create()
    before = syncs(disk)
    for _ in range(5):
        assert b'"seq":' in publish(bench, stream, b"x")
        bench.wait(0.1)
    assert syncs(disk) == before
    bench.wait(2)

    assert syncs(disk) == before + 1
    assert not stream.log.durability.unsynced
    bench.wait(10)
    assert syncs(disk) == before + 1
    assert bench.engine.next_deadline() is None


def test_a_stream_asks_for_async(disk: SimulatedDisk) -> None:
    bench = Bench(ROOT, disk)
    config = StreamConfig(name="S", subjects=("s.>",), persist_mode=PersistMode.ASYNC)
    stream = bench.engine.create_stream(prepared(config), bench.now)
    before = syncs(disk)
    publish(bench, stream, b"x")
    bench.wait(100)
    assert (stream.log.durability.level, syncs(disk)) == ("async", before)
    bench.wait(30)

    assert syncs(disk) == before + 1
    bench.restart()
    assert bench.engine.streams["S"].log.durability.level == "async"


def test_a_sync_that_fails_stops_the_stream_and_it_is_reopened(disk: SimulatedDisk) -> None:
    bench = Bench(ROOT, disk, durability="interval", sync_period_ns=1_000_000_000)
    stream = bench.create()
    publish(bench, stream, b"kept")
    bench.wait(0.5)
    disk.fail(1, errno.EIO)
    bench.wait(1)
    assert stream.log.access.read_only
    assert b"10077" in publish(bench, stream, b"refused")
    bench.wait(6)

    assert b'"seq":2' in publish(bench, stream, b"next")


# Errors


def test_a_stream_whose_write_failed_is_reopened_after_a_while(disk: SimulatedDisk) -> None:
    bench = Bench(ROOT, disk)
    stream = bench.create()
    publish(bench, stream, b"kept")
    disk.fail(2, errno.EIO)
    assert b"10077" in publish(bench, stream, b"lost")
    bench.wait(4)
    assert b"10077" in publish(bench, stream, b"refused")
    disk.fail(1, errno.EIO)
    bench.wait(2)
    assert stream.log.access.read_only
    bench.wait(5)

    assert b'"seq":3' in publish(bench, stream, b"next")
    bench.wait(10)
    assert bench.engine.next_deadline() is None
    assert bench.get(stream, b'{"seq":1}')[0][4] == b"kept"


def test_a_read_only_stream_with_old_messages_has_nothing_to_do(disk: SimulatedDisk) -> None:
    """Its deadline would be in the past for ever."""
    bench = Bench(ROOT, disk)
    config = StreamConfig(name="S", subjects=("s.>",), max_age=Nanoseconds(1_000_000_000))
    stream = bench.engine.create_stream(prepared(config), bench.now)
    publish(bench, stream, b"kept")
    disk.fail(2, errno.EIO)
    publish(bench, stream, b"lost")
    bench.engine.expire(bench.now, bench.outbox)
    bench.now += 2_000_000_000

    deadline = bench.engine.next_deadline()
    assert deadline is not None
    assert deadline > bench.now


# Full disks


def full_bench(disk: SimulatedDisk) -> tuple[Bench, Stream]:
    bench = Bench(ROOT, disk, reserve_size=MIB)
    stream = bench.create()
    publish(bench, stream, b"kept")
    assert "reserve" in disk.list_folder(ROOT)
    disk.capacity = sum(disk.paths().values()) + 100
    return bench, stream


def test_a_full_disk_refuses_messages_at_once_and_serves_reads(disk: SimulatedDisk) -> None:
    bench, stream = full_bench(disk)

    assert b"10023" in publish(bench, stream, BIG)
    before = disk.steps
    assert b"10023" in publish(bench, stream, b"")
    assert disk.steps == before
    assert bench.get(stream, b'{"seq":1}')[0][4] == b"kept"


def test_the_reserve_lets_deletes_and_consumers_continue(disk: SimulatedDisk) -> None:
    bench, stream = full_bench(disk)
    publish(bench, stream, BIG)

    assert "reserve" not in disk.list_folder(ROOT)
    stream.log.staged.set_consumer(1, b"c" * 200)
    assert b'"success":true' in bench.request(b"STREAM.MSG.DELETE.S", b'{"seq":1}')
    assert stream.log.index.messages == 0
    assert list(stream.log.engine_state.consumers) == [1]


def test_messages_are_taken_again_when_there_is_clearly_space(disk: SimulatedDisk) -> None:
    bench, stream = full_bench(disk)
    publish(bench, stream, BIG)
    used = sum(disk.paths().values())
    disk.capacity = used + 4 * MIB
    bench.wait(3)
    assert b"10023" in publish(bench, stream, b"y")
    disk.capacity = used + 6 * MIB
    bench.wait(1.5)

    assert b'"seq":' in publish(bench, stream, b"z")
    assert "reserve" in disk.list_folder(ROOT)
    assert bench.engine.next_deadline() is None


def test_space_is_looked_for_once_per_second(disk: SimulatedDisk) -> None:
    bench, stream = full_bench(disk)
    publish(bench, stream, BIG)
    before = sum(op.kind == "free space" for op in disk.operations)
    bench.wait(10)

    looks = sum(op.kind == "free space" for op in disk.operations) - before
    assert 8 <= looks <= 11


def test_a_quota_is_tried_again_at_once(disk: SimulatedDisk) -> None:
    """The file system shows space that this user may not have: there is nothing to wait for."""
    bench = Bench(ROOT, disk)
    stream = bench.create()
    disk.fail(1, errno.EDQUOT)

    assert b"10023" in publish(bench, stream, b"x")
    assert b'"seq":2' in publish(bench, stream, b"y")


# Memory


def test_a_stream_in_memory_does_not_survive_a_start_and_touches_no_disk(
    disk: SimulatedDisk,
) -> None:
    bench = Bench(ROOT, disk)
    config = StreamConfig(name="M", subjects=("m.>",), storage=Storage.MEMORY)
    before = disk.steps
    stream = bench.engine.create_stream(prepared(config), bench.now)
    bench.store(stream, b"m.1", b"x")

    assert isinstance(stream.log.segments.files, MemoryFiles)
    assert bench.get(stream, b'{"seq":1}')[0][4] == b"x"
    assert stream.log.index.bytes == 3 + 1 + 16
    assert disk.steps == before
    bench.restart()
    assert bench.engine.streams == {}


def test_a_stream_whose_file_could_not_be_truncated_on_a_full_disk_takes_messages_again(
    disk: SimulatedDisk,
) -> None:
    """Some file systems refuse a truncation, too, when they are full."""
    bench = Bench(ROOT, disk)
    stream = bench.create()
    assert b'"seq":1' in publish(bench, stream, b"x")
    disk.fail(1, errno.ENOSPC, times=4)
    assert b"insufficient resources" in publish(bench, stream, b"x" * 1500)
    assert (stream.log.access.failed, stream.log.access.full) == (True, True)
    disk.forget_failures()

    bench.wait(20)

    assert (stream.log.access.failed, stream.log.access.full) == (False, False)
    assert b'"seq":3' in publish(bench, stream, b"y")


@pytest.mark.parametrize("durability", ["durable", "interval", "async"])
def test_messages_that_expired_stay_away_when_max_age_is_removed(
    disk: SimulatedDisk, durability: str
) -> None:
    """At a lower level the record said which message was the first when it was last synced."""
    bench = Bench(ROOT, disk, durability=durability)
    config = StreamConfig(name="S", subjects=("s.>",), max_age=Nanoseconds(20 * SECOND))
    stream = bench.engine.create_stream(prepared(config), bench.now)
    for _ in range(3):
        publish(bench, stream, b"x")
    bench.wait(30)
    assert b'"messages":0' in bench.request(
        b"STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"max_age":0}'
    )

    bench.restart()

    assert b'"messages":0' in bench.request(b"STREAM.INFO.S")
