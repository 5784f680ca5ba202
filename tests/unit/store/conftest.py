"""A simulated disk and a stream on it, for the tests of the store."""

from pathlib import Path

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk

from jetspark.store.format.manifest import Identity, Stored, write_manifests
from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore

ROOT = KeptPath("/store")


class Bench:
    """A store with one stream, and short words for what tests do with it.

    The stream has manifests unless it is to be young (``store/upkeep/manifests.py``).
    """

    def __init__(self, *, is_young: bool = False) -> None:
        self.is_young = is_young
        self.disk = SimulatedDisk()
        self.segment_size = 10_000
        self.cache_budget = 1_000_000
        self.reserve_size = 0
        self.recovery = Recovery()
        self.store = self.new_store(self.disk)
        self.store.open(self.hear)
        self.log = self.store.create(
            Identity(stream_id=0xABCDEF0123456789, account="A", name="S", created_ns=1)
        )
        if not self.is_young:
            age(self.log)

    def new_store(self, disk: SimulatedDisk) -> FileStore:
        return FileStore(
            disk,
            ROOT,
            segment_size=self.segment_size,
            cache_budget=self.cache_budget,
            reserve_size=self.reserve_size,
        )

    def hear(self, identity: Identity, recovery: Recovery) -> None:
        assert identity.name == "S"
        self.recovery = recovery

    def stage(self, *bodies: bytes, subject: bytes = b"a.b", now: int = 1) -> list[int]:
        return [
            int(self.log.staged.add_message(subject, 0, body + b"\r\n", now)) for body in bodies
        ]

    def limit(self, max_msgs: int, max_bytes: int, max_per_subject: int) -> None:
        """Stage other limits; they are in force once they are written."""
        staged = self.log.staged
        staged.configure(bytes(staged.document), Limits(max_msgs, max_bytes, max_per_subject))

    def write(self) -> None:
        group = self.log.take_group()
        assert group is not None
        self.disk.write_synced(int(group.handle), [group.blob], int(group.offset))

    def publish(self, *bodies: bytes, subject: bytes = b"a.b", now: int = 1) -> list[int]:
        staged = self.stage(*bodies, subject=subject, now=now)
        self.write()
        self.log.commit()
        return staged

    def reopen(self, disk: SimulatedDisk | None = None) -> StreamLog:
        """Close the store and start it again, or start it on what a crash left."""
        if disk is None:
            self.log.close()
            self.store.close()
        else:
            self.disk = disk
        self.store = self.new_store(self.disk)
        (self.log,) = self.store.open(self.hear)
        return self.log

    def segments(self) -> list[Path]:
        return sorted(path for path in self.disk.paths() if path.suffix == ".seg")


def age(log: StreamLog) -> None:
    """Give a new stream its first manifests, and remove the filler that it had instead."""
    name = log.index.segments[-1].name
    write_manifests(
        log.segments.files,
        log.segments.folder,
        log.identity,
        Stored(segments=(name,), versions=((0, 0),)),
    )
    log.segments.manifests_written()
    log.upkeep.note_segments((name,), ((0, 0),))
    log.segments.cut()


@pytest.fixture
def bench() -> Bench:
    return Bench()
