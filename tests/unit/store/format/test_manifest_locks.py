"""Manifests of different streams do not wait for each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jetspark.store.format.manifest import (
    Identity,
    Stored,
    note_stored,
    raise_floor,
    read_manifests,
    renew_manifests,
    write_manifests,
)
from jetspark.store.memory import MemoryFiles

SLOW = Identity(stream_id=1, account="A", name="SLOW", created_ns=1)
OTHER = Identity(stream_id=2, account="A", name="OTHER", created_ns=1)


class SlowSync(MemoryFiles):
    """The disk takes its time for the manifests of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.end = threading.Event()
        self.slow: Path | None = None

    def replace(self, path: Path, content: bytes) -> None:
        """Wait where the test says so."""
        if path.parent == self.slow:
            self.begun.set()
            assert self.end.wait(60)
        super().replace(path, content)


@pytest.fixture
def files() -> SlowSync:
    files = SlowSync()
    for identity in (SLOW, OTHER):
        folder = Path("/", identity.name)
        files.make_folder(folder)
        write_manifests(files, folder, identity, Stored())
    files.slow = Path("/SLOW")
    return files


def test_a_slow_manifest_does_not_hold_up_other_streams(files: SlowSync) -> None:
    names = ("a.seg",)
    task = threading.Thread(target=note_stored, args=(files, Path("/SLOW"), 1, Stored(7, names)))
    task.start()
    assert files.begun.wait(60)

    done = threading.Event()

    def as_the_loop_does() -> None:
        raise_floor(files, Path("/OTHER"), 2, 100)
        renew_manifests(files, Path("/OTHER"), OTHER)
        done.set()

    loop = threading.Thread(target=as_the_loop_does)
    loop.start()
    waited = not done.wait(20)
    files.end.set()
    task.join()
    loop.join()

    assert not waited
    found, _ = read_manifests(files, Path("/OTHER"))
    assert found is not None
    assert found.sequence_floor == 100


def test_changes_of_one_streams_manifests_do_not_undo_each_other(files: SlowSync) -> None:
    files.slow = None
    threads = [
        threading.Thread(
            target=note_stored, args=(files, Path("/SLOW"), 1, Stored(n, (f"{n}.seg",)))
        )
        for n in range(1, 9)
    ]
    threads += [
        threading.Thread(target=raise_floor, args=(files, Path("/SLOW"), 1, 100)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found, damaged = read_manifests(files, Path("/SLOW"))
    assert found is not None
    assert (found.sequence_floor, found.last_seq, damaged) == (100, 8, [])
