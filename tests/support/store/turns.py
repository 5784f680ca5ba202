"""A store with several streams whose groups share writes, for tests of the journal."""

from collections.abc import Callable, Iterable

from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import ROOT, messages

from jetspark.errors.storage import StorageFault
from jetspark.store.committer import write, write_turn
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.sharing import write_unsynced
from jetspark.store.store import FileStore

SIZE = 8192 + 8192


class Streams:
    """Streams of one store by name, and short words for what tests do with them."""

    def __init__(self, disk: SimulatedDisk | None = None, *, journal_size: int = SIZE) -> None:
        self.disk = disk or SimulatedDisk()
        self._journal_size = journal_size
        self._keys = iter(range(1, 1 << 30))
        self.unopened: list[object] = []
        self.recoveries: dict[str, Recovery] = {}
        self.store = FileStore(
            self.disk,
            ROOT,
            segment_size=6000,
            reserve_size=0,
            journal_size=journal_size,
            random_key=lambda: next(self._keys),
        )
        self.logs: dict[str, StreamLog] = {
            log.identity.name: log for log in self.store.open(self._recovered, self.cannot_open)
        }

    def _recovered(self, identity: Identity, recovery: Recovery) -> None:
        self.recoveries[identity.name] = recovery

    def cannot_open(self, folder: object, _error: StorageFault | OSError) -> None:
        """Note a stream that could not be opened."""
        self.unopened.append(folder)

    def create(self, *names: str) -> None:
        """Create streams."""
        for _ in range(2):
            self.store.journal.prepare()
        for name in names:
            self.create_one(name, 0x1000 + len(self.logs))

    def create_one(self, name: str, stream_id: int) -> None:
        """Create a stream with this id."""
        identity = Identity(stream_id=stream_id, account="A", name=name, created_ns=1)
        self.logs[name] = self.store.create(identity)

    def turn(self, body: bytes, names: Iterable[str] = ()) -> list[OSError | None]:
        """Publish one message to each stream, through the journal; report each group."""
        journal = self.store.journal
        if journal.wants_file:
            journal.prepare()
        chosen = []
        groups = []
        for log in [self.logs[name] for name in names or self.logs]:
            log.staged.add_message(b"a.b", 0, body + b"\r\n", 1)
            group = log.take_group()
            assert group is not None
            if not group.may_share:  # it starts a segment
                assert write(self.disk, group) is None
                log.commit()
                continue
            chosen.append(log)
            group.share(True)
            assert write_unsynced(self.disk, group)
            groups.append(group)
        if not groups:
            return []
        assert journal.takes(len(groups), sum(int(group.size) for group in groups))
        errors = write_turn(self.disk, journal, groups)
        for log, error in zip(chosen, errors, strict=True):
            if error is None:
                log.commit()
            else:
                log.fail(no_space=False)
        return errors

    def publish(self, name: str, body: bytes) -> None:
        """Publish one message to one stream, with a synced write of its own."""
        log = self.logs[name]
        log.staged.add_message(b"a.b", 0, body + b"\r\n", 1)
        group = log.take_group()
        assert group is not None
        assert write(self.disk, group) is None
        log.commit()

    def bodies(self) -> dict[str, list[bytes]]:
        """Return what readers see of each stream."""
        return {
            name: [message.body for message in messages(log).values()]
            for name, log in sorted(self.logs.items())
        }

    def started(self, disk: SimulatedDisk | None = None) -> "Streams":
        """Return the same streams after a start on this disk; without one, after a stop."""
        if disk is None:
            self.close()
            disk = self.disk
        return Streams(disk, journal_size=self._journal_size)

    def close(self, may_continue: Callable[[], bool] = lambda: True) -> None:
        """Stop."""
        for log in self.logs.values():
            log.close()
        self.store.close(may_continue)
