"""A start costs the tail since the last index, not the stream."""

from collections.abc import Sequence
from pathlib import Path

from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.store import FileStore

MESSAGES = 1_000_000
SUBJECTS = 10_000
GROUP = 20_000
MIB = 1 << 20


class CountingFiles(OsFiles):
    """The real files, and how much was read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read(self, handle: int, offset: int, size: int) -> bytes:
        data = super().read(handle, offset, size)
        self.bytes_read += len(data)
        return data

    def read_file(self, path: Path) -> bytes:
        data = super().read_file(path)
        self.bytes_read += len(data)
        return data

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        # Not synced: nothing here is about power failures, and a test must not wear out a disk.
        self.write(handle, blobs, offset)


def test_opening_a_million_messages_reads_their_indexes_and_the_tail(tmp_path: Path) -> None:
    files = CountingFiles()
    store = FileStore(files, tmp_path / "store")
    store.open(lambda *_: None)
    log = store.create(Identity(stream_id=7, account="A", name="S", created_ns=1))
    body = b"x" * 128 + b"\r\n"
    subjects = [b"orders.%d" % number for number in range(SUBJECTS)]
    for first in range(0, MESSAGES, GROUP):
        for number in range(first, first + GROUP):
            log.staged.add_message(subjects[number % SUBJECTS], 0, body, number)
        group = log.take_group()
        assert group is not None
        files.write_synced(int(group.handle), [group.blob], int(group.offset))
        log.commit()
        while log.maintain():
            pass
    written = sum(path.stat().st_size for path in tmp_path.rglob("*.seg"))
    # As after SIGKILL: no one said that the end is near.
    store.close()
    files.bytes_read = 0

    (opened,) = FileStore(files, tmp_path / "store").open(lambda *_: None)

    assert (opened.index.messages, opened.index.subject_count) == (MESSAGES, SUBJECTS)
    assert written > 180 * MIB
    # 16 bytes a message, and what came after the last index.
    assert files.bytes_read < 16 * MESSAGES + 17 * MIB
    opened.close()
    log.close()
