"""Inspection of a store that no server uses, for `jetspark doctor`.

``examine`` opens every stream, reads every record and reports what it found. Over ``OverlayFiles``
nothing on disk changes. With ``repair`` it repairs what it can: opening renews manifests and marks
torn tails, damaged bytes are copied to quarantine, index files are created again. A valid record
is never dropped: only files that can be created again are removed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from jetspark.errors.storage import StorageFault, WrongStoreFormat
from jetspark.store.committer import write
from jetspark.store.duplicate_folders import second_folders
from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity
from jetspark.store.journal.journal import FOLDER as JOURNAL
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.timeline import AHEAD_MAX_NS
from jetspark.store.recovery.replay import Recovery
from jetspark.store.retiming import Retiming
from jetspark.store.store import FileStore
from jetspark.store.upkeep.quarantine import FOLDER as QUARANTINE
from jetspark.store.upkeep.quarantine import Damage
from jetspark.store.upkeep.scrub import Scrub


class StreamFinding(msgspec.Struct, kw_only=True):
    """The findings about one stream."""

    account: str = ""
    name: str = ""
    folder: str
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    disk_bytes: int = 0
    consumers: int = 0
    # At most; includes damage that was found earlier.
    lost_messages: int = 0
    # In how many places it is unknown what was lost.
    uncounted_places: int = 0
    damage: list[Damage] = []
    # How many of these were not known before.
    new_damage: int = 0
    # The rest of an interrupted write: nothing in it was acknowledged.
    torn_bytes: int = 0
    notes: list[str] = []
    repaired: list[str] = []
    # The folder of the same stream that a server serves instead of this one.
    second_to: str = ""
    # Why it cannot be opened, or not be served.
    error: str = ""

    def note(self, note: str) -> None:
        """Add a sentence about damage."""
        self.notes.append(note)

    def failed(self, error: str) -> None:
        """Note why the stream could not be read, or not be repaired."""
        self.error = error

    def repair(self, ranges: int) -> None:
        """Note that damaged ranges are quarantined, and everything noted so far is repaired."""
        self.repaired = [f"quarantined {ranges} damaged ranges"] if ranges else []
        self.repaired += self.notes

    @property
    def healthy(self) -> bool:
        """Return whether nothing was found except what was known and in quarantine before."""
        return not (self.new_damage or self.notes or self.error or self.second_to)


class StreamClock(msgspec.Struct, kw_only=True):
    """The times of one stream compared with the system clock."""

    account: str
    name: str
    folder: str
    newest_ns: int
    # How far that is ahead of the clock; 0 if it is not.
    ahead_ns: int = 0
    # How many records got an earlier time.
    repaired: int = 0
    error: str = ""

    @property
    def ahead(self) -> bool:
        """Return whether it is further ahead than the clocks of two machines may differ."""
        return self.ahead_ns > AHEAD_MAX_NS


class SavedConsumer(msgspec.Struct, kw_only=True):
    """The saved records of a consumer that was dropped; bytes are in base64."""

    stream: str
    number: int
    document: bytes
    state: bytes
    changes: list[bytes]


class StoreInspection:
    """One store, locked during the inspection."""

    def __init__(self, files: Files, folder: Path, *, repair: bool = False, now: int = 0) -> None:
        """``now`` is the time recorded with quarantined bytes."""
        self._files = files
        self._folder = folder
        self._repair = repair
        self._now = now
        self.store: FileStore = FileStore(files, folder)
        self._recoveries: list[Recovery] = []
        self._second: dict[Path, Path] = {}
        self._unopened: list[StreamFinding] = []
        self.logs: list[StreamLog] = []

    def open(self) -> int:
        """Lock the store and open its streams; return how many bytes there are to read.

        Raises WrongStoreFormat if it is not a store, StoreLocked if it is in use, OSError.
        """
        # Creating a store would be the wrong reaction to a mistyped name.
        if "STORE" not in self._files.list_folder(self._folder):
            self.store.refuse_nats_server()
            raise WrongStoreFormat(
                f"{self._folder} is not a jetspark store: it contains no file STORE. Expected the "
                "folder that `jetspark serve -sd` was given"
            )
        self.logs = self.store.open(self._on_recovered, self._cannot_open)
        self._second = second_folders(self.logs)
        return sum(log.segments.disk_bytes for log in self.logs)

    @property
    def foreign(self) -> list[Path]:
        """Entries between the streams that do not belong to the store."""
        return self.store.foreign

    def _on_recovered(self, _identity: Identity, recovery: Recovery) -> None:
        self._recoveries.append(recovery)

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        self._unopened.append(StreamFinding(folder=str(folder), error=str(error)))

    def examine(self, advance: Callable[[int], None]) -> Iterator[StreamFinding]:
        """Inspect one stream after the other; ``advance`` is called with the bytes read."""
        if self.store.journal_notes:
            yield StreamFinding(
                folder=str(self._folder / JOURNAL), notes=list(self.store.journal_notes)
            )
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
            if self._repair:
                self._keep_house(log, found)
        except (StorageFault, OSError) as error:
            found.failed(f"cannot be read: {error}")
        found.messages, found.bytes = int(log.index.messages), int(log.index.bytes)
        found.first_seq, found.last_seq = int(log.index.first_seq), int(log.index.last_seq)
        found.disk_bytes = log.segments.disk_bytes
        found.consumers = len(log.engine_state.consumers)
        found.damage = list(log.quarantine.known.values())
        found.lost_messages = log.quarantine.lost_messages
        found.uncounted_places = log.quarantine.uncounted_places
        return found

    def _read_all(
        self, log: StreamLog, found: StreamFinding, advance: Callable[[int], None]
    ) -> None:
        """Check every record of every segment, and its index file."""
        for file in log.segments.list_files():
            task = Scrub(log, file)
            before = 0
            try:
                while not task.finished:
                    task.step()
                    advance(int(task.moved) - before)
                    before = int(task.moved)
            except OSError as error:
                # Continue with the other files.
                at = max(task.at, 0)
                found.note(f"{file.name} cannot be read from {at} on: {error}")
            task.finish(failed=not task.finished)
            if task.index_bad:
                found.note(f"{file.name}.idx failed its checksum; it can be created again")
            if task.manifest_bad:
                found.note("a manifest failed its checksum; restored from the other copy")

    def _keep_house(self, log: StreamLog, found: StreamFinding) -> None:
        """Do everything that a server's upkeep would do."""
        if log.access.read_only:
            found.failed("could not be repaired: the disk failed a write")
            return
        found.repair(len(log.quarantine.waiting))
        while log.maintain(self._now):
            pass
        if log.quarantine.refused:
            found.failed("damaged bytes could not be quarantined: the disk failed a write")

    def drop_consumer(self, log: StreamLog, number: int) -> Path:
        """Delete a consumer, durably; return the file that has its records now. Raises OSError.

        The log records it like a deletion by a client.
        """
        records = log.engine_state.consumers[number]
        kept = SavedConsumer(
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
        """Compare the times of each stream with the clock; with ``repair`` set them back.

        A log cannot be used for anything else afterwards.
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
        if self._repair and found.ahead:
            log.close()
            try:
                retiming = Retiming(self._files, log.segments.folder, identity.stream_id)
                found.repaired = retiming.set_back(now)
            except OSError as error:
                found.error = f"could not be repaired: {error}"
        return found

    def close(self) -> None:
        """Unlock the store and close all files."""
        for log in self.logs:
            log.close()
        self.store.close()
