"""The simulated disk: what is guaranteed, what may be lost, and that nothing else happens."""

import errno
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk.nodes import SECTOR, Write
from tests.support.disk.simulated import Operation, SimulatedDisk

F = Path("/f")


def images(disk: SimulatedDisk, count: int = 300) -> list[SimulatedDisk]:
    return [disk.image(Random(seed)) for seed in range(count)]


def contents(found: list[SimulatedDisk], path: Path = F) -> set[bytes]:
    return {disk.read_file(path) for disk in found if path in disk.paths()}


def during(disk: SimulatedDisk, kind: str) -> list[SimulatedDisk]:
    """Images of the state before each step of a kind; filled while the disk is used."""
    found: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == kind:
            found.extend(images(disk))

    disk.before_step = look
    return found


def made(content: bytes = b"") -> tuple[SimulatedDisk, int]:
    """A disk with one durable file, open."""
    disk = SimulatedDisk()
    disk.put(F, content)
    return disk, disk.open(F)


# What is guaranteed -----------------------------------------------------------------------------


def test_what_was_synced_is_in_every_image() -> None:
    disk, handle = made()
    disk.write_synced(handle, [b"abc", b"def"], 0)
    disk.write_synced(handle, [b"X"], 2)
    disk.truncate(handle, 5)
    disk.replace(Path("/g"), b"new")
    disk.make_folder(Path("/a/b"))
    disk.rename(Path("/g"), Path("/h"))

    for image in images(disk, 50):
        assert image.paths() == {F: 5, Path("/h"): 3}
        assert image.read_file(F) == b"abXde"
        assert image.list_folder(Path("/a")) == ["b"]


def test_a_file_is_not_there_for_certain_before_its_folder_was_synced() -> None:
    disk = SimulatedDisk()
    handle = disk.open(F, create=True)
    disk.write_synced(handle, [b"abc"], 0)

    assert {tuple(image.paths()) for image in images(disk, 50)} == {(), (F,)}

    disk.sync_folder(Path("/"))

    assert contents(images(disk, 50)) == {b"abc"}


def test_a_removed_file_may_come_back_until_its_folder_was_synced() -> None:
    disk, handle = made(b"abc")
    disk.close(handle)
    found = during(disk, "sync folder")
    disk.remove(F)

    assert {tuple(image.paths()) for image in found} == {(), (F,)}
    assert images(disk, 1)[0].paths() == {}


def test_a_rename_is_atomic() -> None:
    disk, handle = made(b"abc")
    disk.close(handle)
    found = during(disk, "sync folder")
    disk.rename(F, Path("/g"))

    assert {tuple(image.paths()) for image in found} == {(F,), (Path("/g"),)}


def test_a_replaced_file_is_old_or_new() -> None:
    disk, handle = made(b"old")
    disk.close(handle)
    found: list[SimulatedDisk] = []
    disk.before_step = lambda _: found.extend(images(disk, 30))
    disk.replace(F, b"newer")

    assert contents(found) == {b"old", b"newer"}


def test_a_removed_folder_leaves_any_part_of_itself() -> None:
    disk = SimulatedDisk()
    for name in ("a", "b", "c"):
        disk.put(Path("/d") / name, b"x")
    found = during(disk, "sync folder")
    disk.remove_folder(Path("/d"))

    left = {frozenset(path.name for path in image.paths()) for image in found}
    assert len(left) == 8
    assert images(disk, 1)[0].list_folder(Path("/")) == []


# What may be lost -------------------------------------------------------------------------------


def test_a_write_in_progress_may_leave_any_part_and_changes_nothing_else() -> None:
    before = bytes(range(256)) * 8
    disk, handle = made(before)
    found = during(disk, "sync")
    data = b"\xff" * 1500
    disk.write_synced(handle, [data], 700)
    left = contents(found)

    assert before in left, "all of it may be lost"
    assert before[:700] + data in left, "all of it may be there"
    assert all(content[:700] == before[:700] for content in left)
    assert all(len(content) in range(len(before), 2201) for content in left)
    torn = [c for c in left if c not in {before, before[:700] + data}]
    assert any(c[700:768] != data[:68] and c[1024:1536] == data[:512] for c in torn), "reordered"
    assert any(c[2048:] and set(c[2048:]) == {0} for c in torn), "zeros where nothing arrived"
    assert any(len(set(c[2048:])) > 20 for c in torn), "garbage"
    assert any(c[700:].count(0xFF) % 512 not in {0, 68, 152} for c in torn), "cut inside a sector"


def test_prefixes_are_all_of_them() -> None:
    disk, handle = made(b"start")
    found: list[bytes] = []
    disk.before_step = lambda operation: (
        found.extend(image.read_file(F) for image in disk.prefixes())
        if operation.kind == "sync"
        else None
    )
    disk.write_synced(handle, [b"0123456789"], 5)

    assert found == [b"start" + b"0123456789"[:kept] for kept in range(11)]
    assert disk.read_file(F) == b"start0123456789"


def test_sector_subsets_are_all_of_them() -> None:
    disk, handle = made(b"s" * 100)
    found: list[bytes] = []
    disk.before_step = lambda operation: (
        found.extend(image.read_file(F) for image in disk.sector_subsets())
        if operation.kind == "sync"
        else None
    )
    disk.write_synced(handle, [b"1" * 412 + b"2" * 512 + b"3" * 10], 100)

    assert len(found) == len(set(found)) == 8
    assert b"s" * 100 in found
    assert b"s" * 100 + bytes(412) + b"2" * 512 in found


def test_enumerating_needs_one_write_in_progress() -> None:
    disk, _ = made()

    with pytest.raises(ValueError, match="one write must be under way, there are 0"):
        next(disk.prefixes())


def test_the_same_seed_gives_the_same_image() -> None:
    disk, handle = made(b"x" * 2000)
    pairs: list[tuple[SimulatedDisk, SimulatedDisk]] = []
    disk.before_step = lambda _: pairs.extend(
        (disk.image(Random(seed)), disk.image(Random(seed))) for seed in range(20)
    )
    disk.write_synced(handle, [b"y" * 3000], 1000)

    assert all(one.read_file(F) == other.read_file(F) for one, other in pairs)


def test_an_image_is_a_world_of_its_own() -> None:
    disk, handle = made(b"abc")
    image = disk.image(Random(1))
    other = image.open(F)
    image.write_synced(other, [b"XYZ"], 0)

    assert disk.read(handle, 0, 3) == b"abc"


def test_what_a_killed_process_wrote_stays_until_a_power_failure() -> None:
    disk, handle = made(b"abc")
    left: list[SimulatedDisk] = []
    disk.before_step = lambda operation: (
        left.append(disk.survivor()) if operation.kind == "sync" else None
    )
    disk.write_synced(handle, [b"DEF"], 3)
    (survivor,) = left

    assert survivor.open_handles == 0
    assert survivor.read_file(F) == b"abcDEF"
    assert b"abc" in contents(images(survivor))
    survivor.sync(survivor.open(F))
    assert contents(images(survivor)) == {b"abcDEF"}


def test_a_survivor_keeps_names_that_were_not_synced() -> None:
    disk = SimulatedDisk()
    disk.open(F, create=True)
    survivor = disk.survivor()

    assert F in survivor.paths()
    assert {tuple(image.paths()) for image in images(survivor, 50)} == {(), (F,)}


# Failures ---------------------------------------------------------------------------------------


def test_a_failed_write_has_written_a_part() -> None:
    disk, handle = made(b"")
    disk.fail(1, errno.EIO)

    with pytest.raises(OSError, match="Input/output error") as caught:
        disk.write_synced(handle, [b"0123456789"], 0)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "/f")
    assert 0 < disk.size(handle) < 10
    disk.write_synced(handle, [b"0123456789"], 0)
    assert disk.failed_steps == 1


def test_a_failed_sync_is_not_made_good_by_the_next_one() -> None:
    """What Linux does: the error is reported once, the pages are forgotten."""
    disk, handle = made(b"")
    disk.fail(2, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        disk.write_synced(handle, [b"lost?"], 0)
    disk.sync(handle)

    assert disk.read_file(F) == b"lost?"
    assert {b"", b"lost?"} <= contents(images(disk))

    disk.write_synced(handle, [b"again"], 0)
    assert contents(images(disk)) == {b"again"}


def test_a_cut_takes_lost_writes_with_it() -> None:
    disk, handle = made(b"abc")
    disk.fail(2, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        disk.write_synced(handle, [b"lost?"], 3)
    disk.truncate(handle, 3)

    assert contents(images(disk)) == {b"abc"}


def test_steps_fail_as_often_as_asked() -> None:
    disk, handle = made(b"")
    disk.fail(1, errno.ENOSPC, times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            disk.write_synced(handle, [b"x"], 0)
    disk.write_synced(handle, [b"x"], 0)
    disk.fail(1, errno.EIO, times=100)
    disk.forget_failures()
    disk.write_synced(handle, [b"x"], 0)


def test_a_full_disk_takes_what_fits() -> None:
    disk, handle = made(b"12345")
    disk.capacity = 8
    with pytest.raises(OSError, match="No space"):
        disk.write_synced(handle, [b"6789"], 5)
    assert disk.read_file(F) == b"12345678"
    with pytest.raises(OSError, match="No space"):
        disk.open(Path("/g"), create=True)
    with pytest.raises(OSError, match="No space"):
        disk.make_folder(Path("/d"))
    # What exists can be written again, and what is cut makes room.
    disk.write_synced(handle, [b"abc"], 0)
    disk.truncate(handle, 3)
    disk.close(disk.open(Path("/g"), create=True))


def test_reads_can_fail_and_are_counted() -> None:
    disk, handle = made(b"abcdef")
    disk.read(handle, 1, 3)
    disk.read_file(F)
    disk.read(handle, 4, 100)

    assert (disk.read_calls, disk.read_bytes) == (3, 3 + 6 + 2)
    disk.fail(1, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        disk.read(handle, 0, 1)
    assert disk.read_calls == 3


def test_operations_are_recorded() -> None:
    disk, handle = made()
    disk.operations.clear()
    disk.write_synced(handle, [b"abc"], 0)
    disk.read(handle, 0, 2)

    assert list(disk.operations) == [
        Operation("write", "/f", 3),
        Operation("sync", "/f"),
        Operation("read", "/f", 2),
    ]


def test_a_flipped_bit_is_on_the_disk() -> None:
    disk, _ = made(b"\x00\x00")
    disk.flip(F, 9)

    assert disk.read_file(F) == b"\x00\x02"
    assert contents(images(disk, 5)) == {b"\x00\x02"}


def test_a_lock_ends_with_its_holder() -> None:
    disk = SimulatedDisk()
    disk.lock(F)
    with pytest.raises(BlockingIOError):
        disk.lock(F)

    disk.survivor().lock(F)


def test_a_file_is_no_folder_and_a_folder_no_file() -> None:
    disk, _ = made()
    disk.make_folder(Path("/d"))

    with pytest.raises(IsADirectoryError):
        disk.open(Path("/d"))
    with pytest.raises(NotADirectoryError):
        disk.sync_folder(F)
    with pytest.raises(FileNotFoundError):
        disk.open(Path("/f/x"))


@given(offset=st.integers(0, 2000), size=st.integers(1, 3000))
def test_sectors_are_the_write_cut_at_sector_boundaries(offset: int, size: int) -> None:
    write = Write(offset, bytes(n % 251 for n in range(size)))
    sectors = write.sectors()

    assert b"".join(sector.data for sector in sectors) == write.data
    assert sectors[0].offset == offset
    assert all(sector.offset % SECTOR == 0 for sector in sectors[1:])
    assert all(0 < len(sector.data) <= SECTOR for sector in sectors)
    assert all(a.end == b.offset for a, b in pairwise(sectors))
