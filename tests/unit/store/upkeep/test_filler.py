"""Filler after the records of the newest segment: written with a group, and never in the way."""

import errno
from typing import TYPE_CHECKING

import pytest
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import messages, sequences

from jetspark.store.committer import write
from jetspark.store.format.manifest import Identity
from jetspark.store.format.segment import (
    FILLER,
    FILLER_SIZE,
    SEGMENT_SIZE,
    fitting_size,
    without_filler,
)

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

STEP = 10_000 // 8  # of the bench's segments


def publish(bench: "Bench", *bodies: bytes) -> None:
    """Write as the server does, filler included."""
    bench.stage(*bodies)
    group = bench.log.take_group()
    assert group is not None
    error = write(bench.disk, group)
    if error is not None:
        bench.log.fail(error.errno == errno.ENOSPC)
    else:
        bench.log.commit()


def newest(bench: "Bench") -> bytes:
    return bench.disk.read_file(bench.segments()[-1])


def test_a_group_that_reaches_the_end_takes_filler_with_it(bench: "Bench") -> None:
    publish(bench, b"one")
    length = len(newest(bench))
    assert newest(bench).endswith(FILLER * STEP)
    # The next ones fit into it: the file does not grow.
    for _ in range(10):
        publish(bench, b"x" * 20)
        assert len(newest(bench)) == length
    publish(bench, b"y" * 1_000)
    assert len(newest(bench)) > length


def test_a_start_continues_in_the_filler(bench: "Bench") -> None:
    publish(bench, b"one")
    length = len(newest(bench))
    for _ in range(3):
        bench.reopen()
        assert (bench.recovery.damaged, bench.recovery.torn_bytes) == ([], 0)
        publish(bench, b"more")
        assert len(newest(bench)) == length
    assert sequences(bench.log) == [1, 2, 3, 4]


def test_large_groups_take_none(bench: "Bench") -> None:
    bench.segment_size = 1_000_000
    bench.reopen()
    publish(bench, b"x" * 20_000)

    assert not newest(bench).endswith(FILLER * 100)


def test_a_full_segment_loses_its_filler(bench: "Bench") -> None:
    for _ in range(40):
        publish(bench, b"x" * 500)
    segments = bench.segments()

    assert len(segments) > 2
    for path in segments[:-1]:
        assert not bench.disk.read_file(path).endswith(FILLER * 20)
    assert all(bench.disk.paths()[path] <= 10_000 for path in segments)
    bench.reopen()
    assert len(messages(bench.log)) == 40


def test_filler_that_stays_in_a_full_segment_is_no_damage(bench: "Bench") -> None:
    publish(bench, b"one")
    bench.disk.fail(1, errno.EIO)
    bench.log.roll()
    publish(bench, b"two")
    first = bench.disk.read_file(bench.segments()[0])
    assert first.endswith(FILLER * 100)
    for _ in range(2):
        bench.reopen()
        assert sequences(bench.log) == [1, 2]
        assert bench.recovery.damaged == []
    while bench.log.maintain():
        pass
    bench.reopen()
    assert sequences(bench.log) == [1, 2]


@pytest.mark.parametrize("last", [0xA5, 0x00])
def test_a_record_that_ends_like_filler_keeps_its_end(last: int) -> None:
    data = b"record" + bytes([last])

    assert without_filler(data + FILLER * 50, 7) == data
    assert without_filler(data + FILLER * 50, 3) == (b"record" if last == 0xA5 else data)


def test_every_record_survives_whatever_its_last_byte(bench: "Bench") -> None:
    """One check in 256 ends with the byte that filler is made of."""
    bench.segment_size = 10_000_000
    bench.reopen()
    for number in range(600):
        publish(bench, b"%d" % number)
        if number % 10 == 0:
            bench.reopen()
    bench.reopen()
    assert len(messages(bench.log)) == 600
    assert bench.recovery.damaged == []


def test_a_group_torn_inside_filler_costs_nothing_that_was_acknowledged(bench: "Bench") -> None:
    publish(bench, b"one", b"two")
    bench.stage(b"three", b"four" * 30, b"five")
    images: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "sync":
            images.extend(bench.disk.prefixes())

    bench.disk.before_step = look
    bench.write()
    for image in images:
        bench.reopen(image)
        found = {seq: message.body for seq, message in messages(bench.log).items()}
        assert found.items() >= {1: b"one", 2: b"two"}.items()
        assert (
            found.items()
            <= {1: b"one", 2: b"two", 3: b"three", 4: b"four" * 30, 5: b"five"}.items()
        )
        assert bench.recovery.damaged == []
        publish(bench, b"new")
        before = messages(bench.log)
        bench.reopen()
        assert messages(bench.log) == before
        assert bench.recovery.damaged == []


def test_damage_to_the_last_record_before_filler_is_reported(bench: "Bench") -> None:
    """A page of zeros is no filler."""
    publish(bench, b"one")
    publish(bench, b"two" * 50)
    path = bench.segments()[0]
    data = bytearray(newest(bench))
    at = data.find(b"two")
    data[at - 20 : at + 150] = bytes(170)
    bench.log.close()
    bench.store.close()
    bench.disk.put(path, bytes(data))
    bench.reopen(bench.disk)

    assert sequences(bench.log) == [1]
    assert bench.recovery.damaged != []
    assert bench.log.quarantine.lost == [(2, 5)], "as many as may have been in there"


def test_what_does_not_fit_with_filler_is_tried_without(bench: "Bench") -> None:
    """Filler is the first thing to do without."""
    publish(bench, b"one")
    publish(bench, b"x" * 1_000)
    used = sum(bench.disk.paths().values())
    bench.disk.capacity = used + 600
    publish(bench, b"x" * 1_500)
    assert bench.log.index.last_seq == 2
    bench.disk.capacity = used + 600
    publish(bench, b"y" * 500)
    assert sequences(bench.log)[-1] == 4
    assert not newest(bench).endswith(FILLER * 10)
    bench.reopen()
    assert sequences(bench.log) == [1, 2, 4]


def test_a_stream_of_one_message_is_a_small_file(bench: "Bench") -> None:
    """Filler is no longer than what was written, so eight hundred streams are a few megabytes."""
    bench.segment_size = SEGMENT_SIZE
    bench.reopen()
    publish(bench, b"one")
    assert len(newest(bench)) <= 8 * 1024
    for _ in range(100):
        publish(bench, b"x" * 10_000)
    assert newest(bench).endswith(FILLER * 60_000)
    assert len(newest(bench)) < 2 * 1_100_000


def test_streams_share_their_filler(bench: "Bench") -> None:
    """A quarter of a megabyte in each of a thousand streams was most of their memory."""
    other = bench.store.create(Identity(stream_id=2, account="A", name="T", created_ns=1))
    for log in (bench.log, other):
        log.segments.size = SEGMENT_SIZE
        log.segments.filler_max = FILLER_SIZE
    first = bench.log.segments.filler_after(100, 1_000_000, 0)
    assert len(first) == FILLER_SIZE
    assert first is other.segments.filler_after(100, 2_000_000, 0)


@pytest.mark.parametrize(
    ("max_bytes", "size"),
    [(-1, 32 << 20), (0, 32 << 20), (1000, 1 << 20), (80 << 20, 10 << 20), (1 << 40, 32 << 20)],
)
def test_segments_are_an_eighth_of_what_a_stream_holds(max_bytes: int, size: int) -> None:
    assert fitting_size(max_bytes, 32 << 20) == size
