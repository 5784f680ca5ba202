"""The real file system below the file layer, and the simulated one: both keep one contract."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.disk.simulated import SimulatedDisk

from jetspark.store.files import Files, OsFiles
from jetspark.testing.disk import FillableFiles


class Place:
    """A file layer and a folder to use it in."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.files = files
        self.folder = folder


def simulated(_: Path) -> Place:
    disk = SimulatedDisk()
    disk.make_folder(Path("/work"))
    return Place(disk, Path("/work"))


@pytest.fixture(
    params=[
        lambda folder: Place(OsFiles(), folder),
        lambda folder: Place(OsFiles(one_call=False), folder),
        lambda folder: Place(OsFiles(synced=False), folder),
        lambda folder: Place(FillableFiles(), folder),
        simulated,
    ],
    ids=["one call", "two calls", "without syncs", "for tests", "simulated"],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    make: Callable[[Path], Place] = request.param
    return make(tmp_path)


def test_blobs_are_written_one_after_the_other(place: Place) -> None:
    files = place.files
    handle = files.open(place.folder / "f", create=True)
    files.write_synced(handle, [b"abc", b"", b"defg"], 0)
    files.write_synced(handle, [b"XY"], 2)
    files.sync(handle)

    assert files.size(handle) == 7
    assert files.read(handle, 0, 100) == b"abXYefg"
    assert files.read(handle, 3, 2) == b"Ye"
    assert files.read(handle, 7, 5) == b""
    files.close(handle)


def test_more_blobs_than_one_call_takes_are_written(place: Place) -> None:
    """The kernel takes 1,024 pieces at a time."""
    files = place.files
    handle = files.open(place.folder / "f", create=True)
    blobs = [b"%d," % n for n in range(2500)]
    files.write_synced(handle, blobs, 3)

    assert files.read(handle, 3, 100_000) == b"".join(blobs)
    files.close(handle)


class Stingy(OsFiles):
    """A kernel that takes a few bytes at a time, and after some of them nothing."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.takes = takes

    def _write_once(self, handle: int, blobs: Sequence[bytes], offset: int) -> int:
        self.takes -= 1
        return os.pwritev(handle, [blobs[0][:3]], offset) if self.takes >= 0 else 0


def test_short_writes_are_continued(tmp_path: Path) -> None:
    """Short writes are dealt with inside the file layer."""
    files = Stingy(100)
    handle = files.open(tmp_path / "f", create=True)
    files.write_synced(handle, [b"abcdefgh", b"ij", b"klmnop"], 2)

    assert files.read(handle, 2, 100) == b"abcdefghijklmnop"
    files.close(handle)


def test_a_kernel_that_takes_nothing_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    files = Stingy(2)
    handle = files.open(tmp_path / "f", create=True)
    with pytest.raises(OSError, match="accepted no byte of a write") as caught:
        files.write_synced(handle, [b"abcdefgh"], 0)
    files.close(handle)

    assert caught.value.errno == errno.EIO


def test_a_write_of_nothing_changes_nothing(place: Place) -> None:
    files = place.files
    handle = files.open(place.folder / "f", create=True)
    files.write_synced(handle, [], 10)
    files.write_synced(handle, [b""], 0)

    assert files.size(handle) == 0
    files.close(handle)


def test_a_file_is_made_once(place: Place) -> None:
    place.files.close(place.files.open(place.folder / "f", create=True))

    with pytest.raises(FileExistsError):
        place.files.open(place.folder / "f", create=True)
    with pytest.raises(FileNotFoundError):
        place.files.open(place.folder / "g")


def test_a_closed_handle_is_refused(place: Place) -> None:
    handle = place.files.open(place.folder / "f", create=True)
    place.files.close(handle)

    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        place.files.write_synced(handle, [b"x"], 0)
    assert caught.value.errno == errno.EBADF


def test_truncate_cuts(place: Place) -> None:
    handle = place.files.open(place.folder / "f", create=True)
    place.files.write_synced(handle, [b"abcdef"], 0)
    place.files.truncate(handle, 2)

    assert place.files.read(handle, 0, 10) == b"ab"
    place.files.close(handle)


def test_replace_leaves_the_new_content_and_nothing_else(place: Place) -> None:
    path = place.folder / "f"
    place.files.replace(path, b"old")
    place.files.replace(path, b"newer")

    assert place.files.read_file(path) == b"newer"
    assert place.files.list_folder(place.folder) == ["f"]


def test_a_folder_whose_sync_failed_is_synced_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFiles()
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        if len(synced) == 2:
            raise OSError(errno.EIO, "failed")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="failed"):
        files.make_folder(tmp_path / "account")
    assert (tmp_path / "account").is_dir()
    files.make_folder(tmp_path / "account")
    files.make_folder(tmp_path / "account")

    # The parent's own name, then twice what was created in it: nothing more once it is on disk.
    assert synced == [str(tmp_path.parent), str(tmp_path), str(tmp_path)]


def test_folders_are_made_with_their_parents_and_removed_with_their_children(
    place: Place,
) -> None:
    deep = place.folder / "a" / "b" / "c"
    place.files.make_folder(deep)
    place.files.make_folder(deep)
    place.files.replace(deep / "f", b"x")
    place.files.replace(place.folder / "a" / "g", b"x")
    place.files.rename(deep, deep.with_name("d"))

    assert place.files.list_folder(place.folder / "a" / "b") == ["d"]
    assert place.files.list_folder(place.folder / "nowhere") == []
    assert place.files.list_folder(place.folder / "a" / "g") == []

    place.files.remove_folder(place.folder / "a")

    assert place.files.list_folder(place.folder) == []


def test_removing_what_is_not_there_is_an_error(place: Place) -> None:
    place.files.replace(place.folder / "f", b"x")
    place.files.remove(place.folder / "f")

    with pytest.raises(FileNotFoundError):
        place.files.remove(place.folder / "f")
    with pytest.raises(FileNotFoundError):
        place.files.read_file(place.folder / "f")
    with pytest.raises(FileNotFoundError):
        place.files.remove_folder(place.folder / "nowhere")
    with pytest.raises(FileNotFoundError):
        place.files.rename(place.folder / "f", place.folder / "g")
    with pytest.raises(FileNotFoundError):
        place.files.sync_folder(place.folder / "nowhere")


def test_a_lock_is_for_one(place: Place) -> None:
    path = place.folder / "LOCK"
    handle = place.files.lock(path)

    with pytest.raises(BlockingIOError):
        place.files.lock(path)

    place.files.close(handle)
    place.files.close(place.files.lock(path))


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.lock(tmp_path / "LOCK")
    program = (
        "import sys, pathlib; from jetspark.store.files import OsFiles\n"
        "try: OsFiles().lock(pathlib.Path(sys.argv[1]))\n"
        "except BlockingIOError: sys.exit(7)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "LOCK")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    refused = subprocess.run(command, env=environment, check=False).returncode
    files.close(handle)
    taken = subprocess.run(command, env=environment, check=False).returncode

    assert (refused, taken) == (7, 0)


def test_a_full_disk_is_an_error_and_not_a_short_write(tmp_path: Path) -> None:
    """The kernel's own full disk: every write to it fails with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    handle = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OSError, match="No space left") as caught:
        OsFiles(one_call=False).write_synced(handle, [b"x"], 0)
    os.close(handle)

    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_without_syncs_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.delattr(os, name)
    files = OsFiles(synced=False)

    files.make_filled(tmp_path / "folder", {"a": b"1"})
    files.replace(tmp_path / "folder" / "b", b"2")
    files.rename(tmp_path / "folder" / "b", tmp_path / "folder" / "c")
    handle = files.open(tmp_path / "folder" / "a")
    files.write_synced(handle, [b"34"], 0)
    files.sync(handle)
    files.truncate(handle, 1)
    files.close(handle)

    assert files.read_file(tmp_path / "folder" / "a") == b"3"
