"""A store that nobody uses, looked at as a whole: for `jetspark doctor`.

``examine`` opens every stream, reads every record and says what it found. Over ``OverlayFiles``
nothing on disk changes. With ``mend`` what can be mended is: opening renews manifests and marks
torn tails, damaged bytes are copied aside, index files are made again. A good record is never
left out: the only things that go are copies that can be made again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from jetspark.errors.storage import StorageFault, WrongStoreFormat
from jetspark.store.committer import write
from jetspark.store.doubles import second_folders
from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.timeline import AHEAD_MAX_NS
from jetspark.store.recovery.replay import Recovery
from jetspark.store.retiming import Retiming
from jetspark.store.store import FileStore
from jetspark.store.upkeep.quarantine import FOLDER as QUARANTINE
from jetspark.store.upkeep.quarantine import Damage
from jetspark.store.upkeep.scrub import Scrub


class StreamFinding(msgspec.Struct, kw_only=True):
    """What was found of one stream."""

    account: str = ""
    name: str = ""
    folder: str
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    disk_bytes: int = 0
    consumers: int = 0
    # At most; those of damage that was found earlier too.
    lost_messages: int = 0
    damage: list[Damage] = []
    # How many of these were not known before.
    new_damage: int = 0
    # The rest of an interrupted write: nothing in it was acknowledged.
    torn_bytes: int = 0
    notes: list[str] = []
    mended: list[str] = []
    # The folder of the same stream that a server serves instead of this one.
    second_to: str = ""
    # Why it cannot be opened.
    error: str = ""

    @property
    def healthy(self) -> bool:
        """Say whether nothing was found that was not known and copied aside before."""
        return not (self.new_damage or self.notes or self.error or self.second_to)


class StreamClock(msgspec.Struct, kw_only=True):
    """How the times of one stream stand to the clock of the machine."""

    account: str
    name: str
    folder: str
    newest_ns: int
    # How far that is ahead of the clock; 0 when it is not.
    ahead_ns: int = 0
    # How many records got an earlier time.
    mended: int = 0
    error: str = ""

    @property
    def ahead(self) -> bool:
        """Say whether it is further ahead than clocks of machines differ."""
        return self.ahead_ns > AHEAD_MAX_NS


class ConsumerAside(msgspec.Struct, kw_only=True):
    """What is kept of a consumer that was dropped; bytes are in base64."""

    stream: str
    number: int
    document: bytes
    state: bytes
    changes: list[bytes]


class StoreInspection:
    """One store, locked while it is looked at."""

    def __init__(self, files: Files, folder: Path, *, mend: bool = False, now: int = 0) -> None:
        """``now`` dates what is copied aside."""
        self._files = files
        self._folder = folder
        self._mend = mend
        self._now = now
        self.store: FileStore = FileStore(files, folder)
        self._recoveries: list[Recovery] = []
        self._second: dict[Path, Path] = {}
        self._unopened: list[StreamFinding] = []
        self.logs: list[StreamLog] = []

    def open(self) -> int:
        """Lock the store and open its streams; how many bytes there are to read.

        Raises WrongStoreFormat when it is none, StoreLocked when somebody uses it, OSError.
        """
        # Making one would be the wrong answer to a mistyped name.
        if "STORE" not in self._files.list_folder(self._folder):
            self.store.refuse_nats_server()
            raise WrongStoreFormat(
                f"{self._folder} is no jetspark store: there is no file STORE in it. Expected is "
                "the folder that `jetspark serve -sd` was given"
            )
        self.logs = self.store.open(self._hear, self._cannot_open)
        self._second = second_folders(self.logs)
        return sum(log.segments.disk_bytes for log in self.logs)

    @property
    def foreign(self) -> list[Path]:
        """What lies between the streams and is none."""
        return self.store.foreign

    def _hear(self, _identity: Identity, recovery: Recovery) -> None:
        self._recoveries.append(recovery)

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        self._unopened.append(StreamFinding(folder=str(folder), error=str(error)))

    def examine(self, advance: Callable[[int], None]) -> Iterator[StreamFinding]:
        """Look at one stream after the other; ``advance`` hears how many bytes were read."""
        yield from self._unopened
        for log, recovery in zip(self.logs, self._recoveries, strict=True):
            yield self._examine(log, recovery, advance)

    def _examine(
        self, log: StreamLog, recovery: Recovery, advance: Callable[[int], None]
    ) -> StreamFinding:
        found = StreamFinding(folder=str(log.segments.folder), torn_bytes=int(recovery.torn_bytes))
        found.account, found.name = log.identity.account, log.identity.name
        found.notes = list(recovery.notes)
        found.second_to = str(self._second.get(log.segments.folder, ""))
        log.upkeep.tick(self._now)
        try:
            self._read_all(log, found, advance)
            found.new_damage = len(log.quarantine.waiting)
            if self._mend:
                self._keep_house(log, found)
        except (StorageFault, OSError) as error:
            found.error = f"cannot be read: {error}"
        found.messages, found.bytes = int(log.index.messages), int(log.index.bytes)
        found.first_seq, found.last_seq = int(log.index.first_seq), int(log.index.last_seq)
        found.disk_bytes = log.segments.disk_bytes
        found.consumers = len(log.engine_state.consumers)
        found.damage = list(log.quarantine.known.values())
        found.lost_messages = log.quarantine.lost_messages
        return found

    def _read_all(
        self, log: StreamLog, found: StreamFinding, advance: Callable[[int], None]
    ) -> None:
        """Check every record of every segment, and what lies beside it."""
        for file in log.segments.list_files():
            task = Scrub(log, file)
            before = 0
            try:
                while not task.finished:
                    task.step()
                    advance(int(task.moved) - before)
                    before = int(task.moved)
            except OSError as error:
                # The other files are worth looking at.
                at = max(task.at, 0)
                found.notes.append(f"{file.name} cannot be read from {at} on: {error}")
            task.finish(failed=not task.finished)
            if task.index_bad:
                found.notes.append(f"{file.name}.idx did not check; it can be made again")
            if task.manifest_bad:
                found.notes.append("a manifest did not check; it was written from the other copy")

    def _keep_house(self, log: StreamLog, found: StreamFinding) -> None:
        """Do what housekeeping of a server would do, all of it."""
        if log.access.read_only:
            found.error = "could not be mended: the disk refused a write"
            return
        found.mended = [f"copied aside {len(log.quarantine.waiting)} damaged ranges"]
        if not log.quarantine.waiting:
            found.mended = []
        found.mended += found.notes
        while log.maintain(self._now):
            pass
        if log.quarantine.refused:
            found.error = "damaged bytes could not be copied aside: the disk refused"

    def drop_consumer(self, log: StreamLog, number: int) -> Path:
        """Delete a consumer, durably; the file that has its records from now on. Raises OSError.

        The log takes it as it takes a deletion by a client.
        """
        records = log.engine_state.consumers[number]
        kept = ConsumerAside(
            stream=log.identity.name,
            number=number,
            document=records.document,
            state=records.state,
            changes=records.changes,
        )
        aside = log.segments.folder / QUARANTINE / f"consumer-{number}.json"
        self._files.make_folder(aside.parent)
        self._files.replace(aside, msgspec.json.format(msgspec.json.encode(kept)))
        log.staged.set_consumer(number, b"")
        group = log.take_group()
        assert group is not None, "something was staged"
        error = write(self._files, group)
        if error is not None:
            raise error
        log.commit()
        return aside

    def clocks(self, now: int) -> list[StreamClock]:
        """Compare the times of each stream with the clock; with ``mend`` set them back.

        A log is not good for anything else afterwards.
        """
        return [self._clock_of(log, now) for log in self.logs]

    def _clock_of(self, log: StreamLog, now: int) -> StreamClock:
        identity = log.identity
        newest = int(log.staged.time)
        found = StreamClock(
            account=identity.account,
            name=identity.name,
            folder=str(log.segments.folder),
            newest_ns=newest,
            ahead_ns=max(newest - now, 0),
        )
        if self._mend and found.ahead:
            log.close()
            try:
                retiming = Retiming(self._files, log.segments.folder, identity.stream_id)
                found.mended = retiming.set_back(now)
            except OSError as error:
                found.error = f"could not be mended: {error}"
        return found

    def close(self) -> None:
        """Give everything back."""
        for log in self.logs:
            log.close()
        self.store.close()
