"""Files in memory: the log over them behaves as the one on a disk."""

import errno
from pathlib import Path
from random import Random

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.changes import Changes
from tests.support.store.model import (
    StreamModel,
    check_counts,
    consumers,
    messages,
    sequences,
)

from jetspark.store.committer import write
from jetspark.store.files import Files, OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.memory import MemoryFiles
from jetspark.store.store import FileStore

IDENTITY = Identity(stream_id=77, account="A", name="S", created_ns=1)


def commit(log: StreamLog) -> None:
    group = log.take_group()
    assert group is not None
    assert write(log.segments.files, group) is None
    log.commit()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["memory", "simulated", "real"])
def test_a_log_over_any_files_holds_what_the_model_says(
    kind: str, seed: int, tmp_path: Path
) -> None:
    """Messages, batches, removals, limits, consumers; tasks, and starts in between."""
    files: Files = {"memory": MemoryFiles, "simulated": SimulatedDisk, "real": OsFiles}[kind]()
    root = tmp_path / "store"
    store = FileStore(files, root, segment_size=3_000, cache_budget=0, reserve_size=100)
    store.open(lambda *_: None)
    log = store.create(IDENTITY)
    model = StreamModel(IDENTITY)
    random = Random(seed)
    changes = Changes(random)
    for _ in range(25):
        staged = changes.stage(log, model)
        if staged:
            commit(log)
            model.acknowledge(staged, durable=True)
        while log.maintain():
            pass
        if len(log.staged.writer) > 0:
            commit(log)
        if random.random() < 0.2:
            log.close()
            store.close()
            store = FileStore(files, root, segment_size=3_000, cache_budget=0, reserve_size=100)
            (log,) = store.open(lambda *_: None)
        assert sequences(log) == list(model.base.messages)
        assert messages(log) == model.base.messages
        assert consumers(log) == model.base.consumers
        check_counts(log, messages(log))
    log.close()
    store.close()


def test_a_stream_in_memory_counts_as_nats_server_does_and_leaves_nothing(tmp_path: Path) -> None:
    """Subject, headers, payload and 16."""
    store = FileStore(OsFiles(), tmp_path)
    store.open(lambda *_: None)
    before = sorted(tmp_path.rglob("*"))
    log = store.create_in_memory(IDENTITY)
    log.staged.add_message(b"abc", 0, b"12345\r\n", 1)
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    log.staged.add_message(b"abc", len(headers), headers + b"1\r\n", 1)
    expected = (3 + 5 + 16) + (3 + len(headers) + 1 + 16)

    assert log.staged.size == expected
    commit(log)
    assert log.index.bytes == expected
    assert [message.body for message in messages(log).values()] == [b"12345", b"1"]
    assert sorted(tmp_path.rglob("*")) == before
    files = log.segments.files
    assert isinstance(files, MemoryFiles)
    store.drop(log)
    assert files.open_handles == 0
    store.close()


def test_a_stream_in_memory_gives_memory_back() -> None:
    store = FileStore(MemoryFiles(), KeptPath("/store"), segment_size=10_000, reserve_size=0)
    store.open(lambda *_: None)
    log = store.create_in_memory(IDENTITY)
    log.staged.configure(b"{}", Limits(10, 0, 0))
    for _ in range(200):
        log.staged.add_message(b"a", 0, b"x" * 1_000 + b"\r\n", 1)
        commit(log)
        while log.maintain():
            pass

    assert len(log.index.segments) <= 3
    assert log.upkeep.indexed == {}
    assert log.reader.cache.size <= 1_100
    log.close()
    store.close()


# The files themselves ---------------------------------------------------------------------------


@pytest.fixture(params=["memory", "real"])
def files(request: pytest.FixtureRequest) -> Files:
    return MemoryFiles() if request.param == "memory" else OsFiles()


def test_files_are_written_read_cut_and_renamed(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    files.make_folder(folder)
    handle = files.open(folder / "x", create=True)
    files.write_synced(handle, [b"hello ", b"", b"world"], 0)
    files.write(handle, [b"W"], 6)
    files.write(handle, [b"!"], 13)
    files.sync(handle)
    files.drop_cached(handle)
    files.truncate(handle, 15)

    assert files.read(handle, 0, 100) == b"hello World\0\0!\0"
    assert files.read(handle, 6, 5) == b"World"
    assert files.size(handle) == 15
    files.truncate(handle, 5)
    files.close(handle)
    files.rename(folder / "x", folder / "y")
    assert files.read_file(folder / "y") == b"hello"
    files.replace(folder / "z", b"zz")
    files.rename(folder, folder.with_name("c"))
    assert files.list_folder(tmp_path / "a") == ["c"]
    assert files.list_folder(tmp_path / "a" / "c") == ["y", "z"]
    files.remove(tmp_path / "a" / "c" / "z")
    files.sync_folder(tmp_path / "a" / "c")
    files.remove_folder(tmp_path / "a")
    assert files.list_folder(tmp_path / "a") == []
    assert files.free_space(tmp_path) > 0


def test_files_refuse_what_is_not_there(files: Files, tmp_path: Path) -> None:
    files.make_folder(tmp_path)
    path = tmp_path / "x"
    for refused in (
        lambda: files.open(path),
        lambda: files.read_file(path),
        lambda: files.remove(path),
        lambda: files.rename(path, tmp_path / "y"),
        lambda: files.sync_folder(path),
    ):
        with pytest.raises(FileNotFoundError):
            refused()
    files.close(files.open(path, create=True))
    with pytest.raises(FileExistsError):
        files.open(path, create=True)
    with pytest.raises(OSError) as caught:
        files.size(10_000)
    assert caught.value.errno == errno.EBADF


def test_a_lock_is_held_by_one(files: Files, tmp_path: Path) -> None:
    files.make_folder(tmp_path)
    handle = files.lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        files.lock(tmp_path / "lock")
    files.close(handle)

    files.close(files.lock(tmp_path / "lock"))
