"""Manifests: two copies, each in a frame that checks."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk.simulated import SimulatedDisk

from jetspark.errors.storage import WrongStoreFormat
from jetspark.store.format.manifest import (
    COPIES,
    MANIFEST_MAGIC,
    Identity,
    Manifest,
    Stored,
    decode_identity,
    encode_identity,
    frame,
    read_manifests,
    unframe,
    write_manifest,
    write_manifests,
)

FOLDER = Path("/stream")
IDENTITY = Identity(
    stream_id=2**64 - 1,
    account="A",
    name="ORDERS",
    created_ns=5,
    config=msgspec.Raw(b'{"name":"ORDERS"}'),
)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


def test_both_copies_exist_from_the_beginning(disk: SimulatedDisk) -> None:
    write_manifests(disk, FOLDER, IDENTITY, Stored())

    assert disk.list_folder(FOLDER) == sorted(COPIES)
    assert read_manifests(disk, FOLDER) == (
        Manifest(epoch=2, identity=IDENTITY, segments=(), versions=()),
        [],
    )


def test_the_newest_copy_is_the_truth(disk: SimulatedDisk) -> None:
    for epoch in (1, 2, 3):
        write_manifest(
            disk, FOLDER, Manifest(epoch=epoch, identity=IDENTITY, sequence_floor=epoch * 10)
        )
    newest, damaged = read_manifests(disk, FOLDER)

    assert newest is not None
    assert (newest.epoch, newest.sequence_floor, damaged) == (3, 30, [])


@pytest.mark.parametrize("name", COPIES)
def test_any_flipped_bit_costs_one_copy_and_no_more(disk: SimulatedDisk, name: str) -> None:
    write_manifests(disk, FOLDER, IDENTITY, Stored())
    for bit in range(len(disk.read_file(FOLDER / name)) * 8):
        disk.flip(FOLDER / name, bit)
        found, damaged = read_manifests(disk, FOLDER)
        disk.flip(FOLDER / name, bit)

        assert found is not None
        assert found.identity == IDENTITY
        assert damaged == [name]


def test_without_a_copy_that_checks_there_is_no_manifest(disk: SimulatedDisk) -> None:
    disk.put(FOLDER / COPIES[0], b"")

    assert read_manifests(disk, FOLDER) == (None, list(COPIES))


@given(document=st.binary(max_size=60), end=st.integers(0, 80))
def test_a_document_comes_out_of_its_frame_whole_or_not_at_all(document: bytes, end: int) -> None:
    framed = frame(b"TEST", document)
    expected = document if end >= len(framed) else None

    assert unframe(b"TEST", framed[:end] if end < len(framed) else framed + b"more") == expected
    assert unframe(b"NEXT", framed) is None


@given(data=st.binary(max_size=60))
def test_no_bytes_make_unframe_raise(data: bytes) -> None:
    assert unframe(b"TEST", data) is None
    assert unframe(b"TEST", b"TEST" + data) is None


def test_another_format_is_refused_by_name(disk: SimulatedDisk) -> None:
    """The frame checks, so this is no damage: another version wrote it."""
    newer = msgspec.structs.replace(IDENTITY, format=2)
    write_manifests(disk, FOLDER, newer, Stored())

    with pytest.raises(WrongStoreFormat, match=r"'ORDERS' has disk format 2, .* reads format 1"):
        read_manifests(disk, FOLDER)
    with pytest.raises(WrongStoreFormat, match="'ORDERS' has disk format 2"):
        decode_identity(encode_identity(newer))


def test_a_document_of_another_shape_is_refused(disk: SimulatedDisk) -> None:
    disk.put(FOLDER / COPIES[0], frame(MANIFEST_MAGIC, b'{"epoch":"seven"}'))

    with pytest.raises(WrongStoreFormat, match=r"not what this version expects .*seven"):
        read_manifests(disk, FOLDER)
    with pytest.raises(WrongStoreFormat, match="not what this version expects"):
        decode_identity(b"[]")
