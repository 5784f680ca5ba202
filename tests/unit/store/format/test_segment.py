"""Segment files: names, heads, and that they appear whole or not at all."""

import errno
from pathlib import Path

import pytest
from tests.support.disk.simulated import Operation, SimulatedDisk

from jetspark.errors.storage import WrongStoreFormat
from jetspark.store.format.manifest import Identity, frame
from jetspark.store.format.segment import (
    FILLER,
    FILLER_MIN,
    FILLER_SIZE,
    SEGMENT_MAGIC,
    create_segment,
    encode_head,
    filler_begins,
    identity_of,
    parse_segment_name,
    read_head,
    segment_name,
)

FOLDER = Path("/stream")
IDENTITY = Identity(stream_id=9, account="A", name="S", created_ns=1)
HEAD = encode_head(IDENTITY, 7, 3)
PATH = FOLDER / segment_name(7, 3)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


def test_names_say_where_a_segment_begins_and_sort_like_segments() -> None:
    places = [(1, 1), (1, 2), (2, 9), (10, 10), (2**62 + 10**9, 2**62)]
    names = [segment_name(*place) for place in places]

    assert sorted(names) == names
    assert [parse_segment_name(name) for name in names] == places


@pytest.mark.parametrize("name", ["manifest.a", "x.seg", segment_name(1, 1) + ".tmp", "1-1.seg"])
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


def test_a_head_says_which_stream_this_is(disk: SimulatedDisk) -> None:
    handle = create_segment(disk, PATH, HEAD)
    data = disk.read(handle, 0, 1000)
    found = read_head(data + b"records")

    assert found is not None
    head, begin = found
    assert (head.first_seq, head.first_position, begin) == (7, 3, len(HEAD))
    assert identity_of(head) == IDENTITY
    assert len(data) == len(HEAD)


def test_any_flipped_bit_of_a_head_is_noticed() -> None:
    good = encode_head(IDENTITY, 7, 3)
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        assert read_head(bytes(damaged)) is None


def test_a_head_of_another_version_is_refused() -> None:
    with pytest.raises(WrongStoreFormat, match="open the store with the version"):
        read_head(frame(SEGMENT_MAGIC, b'{"something":"else"}'))


def test_after_a_power_failure_a_segment_is_complete_or_absent(disk: SimulatedDisk) -> None:
    head = encode_head(IDENTITY, 7, 3)
    found: list[bytes] = []

    def look(operation: Operation) -> None:
        images = disk.prefixes() if operation.kind == "sync" else [disk.survivor()]
        for image in images:
            names = [name for name in image.list_folder(FOLDER) if parse_segment_name(name)]
            found.extend(image.read_file(FOLDER / name) for name in names)

    disk.before_step = look
    create_segment(disk, PATH, HEAD)

    assert set(found) == {head}


@pytest.mark.parametrize("step", range(1, 9))
def test_an_attempt_that_failed_can_be_repeated(disk: SimulatedDisk, step: int) -> None:
    """The file may be there already although the call failed."""
    disk.fail(step, errno.ENOSPC)
    try:
        handle = create_segment(disk, PATH, HEAD)
    except OSError:
        assert disk.open_handles == 0
        handle = create_segment(disk, PATH, HEAD)

    assert disk.read(handle, 0, 1000) == encode_head(IDENTITY, 7, 3)
    assert disk.open_handles == 1


def test_a_segment_with_records_is_never_replaced(disk: SimulatedDisk) -> None:
    handle = create_segment(disk, PATH, HEAD)
    disk.write_synced(handle, [b"a record"], len(HEAD))
    disk.close(handle)

    with pytest.raises(FileExistsError, match="a segment with records exists"):
        create_segment(disk, PATH, HEAD)
    assert disk.open_handles == 0


@pytest.mark.parametrize("records", [b"", b"one", b"one" * FILLER_MIN, b"one" + FILLER + b"two"])
@pytest.mark.parametrize(
    "filler",
    [0, 1, FILLER_MIN - 1, FILLER_MIN, FILLER_MIN + 1, 5 * FILLER_MIN + 7, FILLER_SIZE + 1],
)
def test_filler_begins_after_the_last_byte_of_a_record(records: bytes, filler: int) -> None:
    assert filler_begins(records + FILLER * filler) == len(records)
