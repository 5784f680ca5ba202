"""The folder of a store: creates, opens and drops its streams.

::

        STORE                          format version and checksum; locked while a process uses it
        reserve                        space for essential writes when the disk is full
        acct-<hex>/stream-<hex>/       ids, never names: no name becomes a path
            manifest.a manifest.b
            <first-seq>-<position>.seg and, in the background, .seg.idx (index_file.py)

A stream is created in a folder called ``new-...`` and renamed once it is complete, and dropped by
renaming it to ``dropped-...`` first: a crash in between leaves only litter, which the next start
removes.
"""

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from xxhash import xxh3_64_hexdigest

from jetspark.errors.storage import StorageFault, StoreLocked, WrongStoreFormat
from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity
from jetspark.store.format.segment import SEGMENT_SIZE
from jetspark.store.log.durability import SEQUENCES_AHEAD, SYNC_PERIOD_NS
from jetspark.store.log.stream_log import CACHE_BUDGET, StreamLog
from jetspark.store.memory import MemoryFiles
from jetspark.store.recovery.own_files import FOLDER, identity_in
from jetspark.store.recovery.replay import Recovery
from jetspark.store.recovery.stream_folder import PLAIN, StreamFolder, StreamUnidentified
from jetspark.store.reserve import NAME as RESERVE
from jetspark.store.reserve import RESERVE_SIZE, Reserve
from jetspark.store.upkeep.counts import UpkeepRates
from jetspark.store.upkeep.reopen import dropped_folder

MARK: Final = b"jetspark-store 1\n"
# After the mark: the checksum ensures that a flipped bit is not read as another version.
CHECK: Final = b"check " + xxh3_64_hexdigest(MARK).encode() + b"\n"

CannotOpen: TypeAlias = Callable[[Path, StorageFault | OSError], None]


def at_once(work: Callable[[], None]) -> None:
    """Run something here and now: for stores without a loop."""
    work()


class FileStore:
    """All streams below one folder."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        segment_size: int = SEGMENT_SIZE,
        cache_budget: int = CACHE_BUDGET,
        durability: str = "durable",
        sync_period_ns: int = SYNC_PERIOD_NS,
        sequences_ahead: int = SEQUENCES_AHEAD,
        reserve_size: int = RESERVE_SIZE,
        rates: UpkeepRates = PLAIN,
        aside: Callable[[Callable[[], None]], None] = at_once,
    ) -> None:
        self._files = files
        self._folder = folder
        self._segment_size = segment_size
        # Folders of streams whose creation failed, and could not be undone, by account and name of
        # the stream.
        self._half_made: dict[tuple[str, str], Path] = {}
        # Folders of streams whose removal failed, and could not be undone, by the name under which
        # a start would remove them.
        self._half_dropped: dict[Path, Path] = {}
        self._cache_budget = cache_budget
        self._rates = rates
        self._lock = -1
        # The level of streams without one of their own, and its period.
        self.durability = durability
        self._sync_period_ns = sync_period_ns
        self._sequences_ahead = sequences_ahead
        self.reserve: Reserve = Reserve(files, folder, reserve_size, aside)
        # Folders of removed streams that the disk failed to remove.
        self._unremoved: set[Path] = set()
        # Entries among the streams that do not belong to the store: left alone, and reported.
        self.foreign: list[Path] = []
        # Folders of accounts that could not be listed: their streams are unknown.
        self._unlisted: set[Path] = set()

    def open(
        self,
        report: Callable[[Identity, Recovery], None],
        cannot_open: CannotOpen | None = None,
    ) -> list[StreamLog]:
        """Lock the store and recover every stream in it; ``report`` is called for each one.

        Raises StoreLocked, WrongStoreFormat, or the error of opening a stream; then nothing stays
        open or locked. With ``cannot_open``, that is called with a stream that cannot be opened,
        and the others are opened.
        """
        self.refuse_nats_server()
        self._files.make_folder(self._folder)
        logs: list[StreamLog] = []
        try:
            self._claim()
            # A start that was killed may have left names that are not durable yet.
            with suppress(PermissionError):
                self._files.sync_folder(self._folder.parent)
            self._files.sync_folder(self._folder)
            self.reserve.make()
            for account in self._files.list_folder(self._folder):
                if account.startswith("acct-"):
                    for log, recovery in self._open_account(self._folder / account, cannot_open):
                        logs.append(log)
                        report(log.identity, recovery)
        except BaseException:
            for log in logs:
                log.close()
            self.close()
            raise
        return logs

    def open_again(
        self, folder: Path, cannot_open: CannotOpen
    ) -> list[tuple[StreamLog, Recovery]]:
        """Retry what was reported to ``cannot_open`` at the start: a stream, or an account.

        After an account, call ``listed`` once the names of its streams are known.
        """
        if folder not in self._unlisted:
            return list(self._open_stream(folder, cannot_open))
        return list(self._open_account(folder, cannot_open, tidy=False))

    def identity_in(self, folder: Path) -> Identity | None:
        """Return whose folder it is, as far as that can be read."""
        with suppress(OSError, StorageFault):
            return identity_in(self._files, folder)
        return None

    def listed(self, account: Path) -> None:
        """Allow creating streams in an account whose folder has finally been listed."""
        self._unlisted.discard(account)

    def _open_account(
        self, account: Path, cannot_open: CannotOpen | None, *, tidy: bool = True
    ) -> Iterator[tuple[StreamLog, Recovery]]:
        """Open the streams of an account; ``tidy`` if none is created or removed meanwhile."""
        try:
            # First, so that nothing is removed from a folder whose new name could still be lost.
            self._files.sync_folder(account)
            names = self._files.list_folder(account)
        except OSError as error:
            if self._is_file(account):
                self.foreign.append(account)
                return
            if cannot_open is None:
                raise
            self._unlisted.add(account)
            cannot_open(account, error)
            return
        if not names and self._is_file(account):
            self.foreign.append(account)
        for name in names:
            if name.startswith(("new-", "dropped-")):
                # Litter that cannot be removed now is removed later; not a reason to stop.
                with suppress(OSError):
                    if tidy:
                        self._files.remove_folder(account / name)
            elif name.startswith("stream-"):
                yield from self._open_stream(account / name, cannot_open)
            else:
                self.foreign.append(account / name)

    def _open_stream(
        self, folder: Path, cannot_open: CannotOpen | None
    ) -> Iterator[tuple[StreamLog, Recovery]]:
        try:
            log, recovery = self._stream(folder).open()
        except (StorageFault, OSError) as error:
            named = FOLDER.fullmatch(folder.name) is not None
            if self._is_file(folder) or (isinstance(error, StreamUnidentified) and not named):
                self.foreign.append(folder)
                return
            if cannot_open is None:
                raise
            cannot_open(folder, error)
            return
        self.choose_level(log)
        if self.reserve.refused and not log.access.read_only:
            # Messages are refused until there is clearly enough space, as before this start.
            log.access.set_full(True)
            log.segments.stop_filling()
        log.note_missing(recovery.lost + recovery.unwritten)
        yield log, recovery

    def _is_file(self, path: Path) -> bool:
        """Return whether a path that should be a folder is a file."""
        try:
            self._files.close(self._files.open(path))
        except OSError:
            return False
        return True

    def create(self, identity: Identity) -> StreamLog:
        """Create a new, empty stream durably: it survives a power failure.

        Raises OSError if the disk fails; then the stream does not exist.
        """
        account = self._account_folder(identity.account)
        if account in self._unlisted:
            # It may contain a stream of the same name.
            raise OSError(errno.EAGAIN, "the streams of this account could not be listed yet")
        self._remove_half_made(identity.account, identity.name)
        final = account / f"stream-{identity.stream_id:016x}"
        folder = account / f"new-{identity.stream_id:016x}"
        try:
            log = self._stream(folder).create(identity)
        except OSError:
            self._discard(folder)
            raise
        try:
            self._files.rename(folder, final)
        except OSError:
            log.close()
            # The rename may have happened although it was not confirmed.
            self._discard(folder)
            self._half_made[identity.account, identity.name] = final
            with suppress(OSError):
                self._remove_half_made(identity.account, identity.name)
            raise
        log.segments.move(final)
        self.choose_level(log)
        return log

    def _remove_half_made(self, account: str, name: str) -> None:
        """Remove the folder of a stream of this name whose creation failed; raises OSError.

        The next start would open it, in addition to or instead of one that is created now.
        """
        folder = self._half_made.get((account, name))
        if folder is None:
            return
        dropped = dropped_folder(folder)
        names = self._files.list_folder(folder.parent)
        if folder.name in names:
            # One step for all of its files; no start opens a folder with that name.
            self._files.rename(folder, dropped)
        else:
            # Removed, but perhaps not durably.
            self._files.sync_folder(folder.parent)
        del self._half_made[account, name]
        self._discard(dropped)

    def choose_level(self, log: StreamLog, level: str = "") -> None:
        """Set the durability level of a stream: the requested one, or the store's default."""
        if log.segments.in_memory:
            return
        level = level or self.durability
        period = self._sync_period_ns if level == "interval" else SYNC_PERIOD_NS
        log.durability.choose(level, period, self._sequences_ahead)

    def create_in_memory(self, identity: Identity) -> StreamLog:
        """Create a new, empty stream that is lost with the process."""
        path = Path("/stream")
        return StreamFolder(MemoryFiles(), path, self._segment_size, 0, in_memory=True).create(
            identity
        )

    def drop(self, log: StreamLog) -> None:
        """Remove a stream and all its data.

        Raises OSError if the disk fails; then the stream is unchanged.
        """
        self.mark_dropped(log)
        # Nothing of it has to be written to disk any more.
        log.access.stop()
        log.close()
        self.remove_dropped(log)

    def mark_dropped(self, log: StreamLog) -> None:
        """Record durably that a stream is deleted: no start opens it. ``remove_dropped`` follows.

        Raises OSError if the disk fails; then the stream is unchanged, or has failed.
        """
        if log.segments.in_memory:
            return
        dropped = dropped_folder(log.segments.folder)
        try:
            self._files.rename(log.segments.folder, dropped)
        except OSError:
            self._undo_mark(log, dropped)
            raise
        self._half_dropped.pop(dropped, None)
        log.segments.move(dropped)

    def _undo_mark(self, log: StreamLog, dropped: Path) -> None:
        """Undo a rename that may not be durable."""
        try:
            self._files.rename(dropped, log.segments.folder)
        except FileNotFoundError:
            pass  # it was never renamed
        except OSError:
            # The next start may consider the stream removed: nothing is accepted until it has been
            # opened again (``reopen.py``), or ``close`` has restored its name.
            self._half_dropped[dropped] = log.segments.folder
            log.access.fail()

    def discard(self, log: StreamLog) -> None:
        """Remove a stream that was never visible.

        If it cannot be removed now it keeps its mark, and the next start discards it.
        """
        with suppress(OSError):
            self.drop(log)
        log.close()

    def sweep(self, log: StreamLog) -> None:
        """Mark and remove the folder of a closed log; raises OSError."""
        self.mark_dropped(log)
        self.remove_dropped(log)

    def remove_dropped(self, log: StreamLog) -> None:
        """Remove the folder of a dropped log that was closed; if that fails it is litter.

        The next start removes it, or ``retry_removals`` when its space is needed.
        """
        if not log.segments.in_memory:
            try:
                self._files.remove_folder(log.segments.folder)
            except OSError:
                self._unremoved.add(log.segments.folder)

    def retry_removals(self) -> None:
        """Try again to remove what ``remove_dropped`` could not; blocks on the disk."""
        for folder in list(self._unremoved):
            with suppress(OSError):
                if self._files.list_folder(folder):
                    self._files.remove_folder(folder)
                self._unremoved.discard(folder)

    def close(self) -> None:
        """Unlock the store; idempotent. Logs are closed separately."""
        for account, name in list(self._half_made):
            with suppress(OSError):
                self._remove_half_made(account, name)
        for dropped, folder in self._half_dropped.items():
            # Its removal was answered with an error: the next start must find it. Opening it again
            # may have done this already.
            with suppress(OSError):
                if dropped.name in self._files.list_folder(dropped.parent):
                    self._files.rename(dropped, folder)
        self._half_dropped.clear()
        if self._lock >= 0:
            handle, self._lock = self._lock, -1
            self._files.close(handle)

    # The store itself --------------------------------------------------------------------------

    def refuse_nats_server(self) -> None:
        """Raise WrongStoreFormat if the folder contains a nats-server store."""
        names = self._files.list_folder(self._folder)
        if "STORE" in names:
            return
        # What nats-server creates below its store_dir, seen from there or from one folder inside.
        inside = (self._files.list_folder(self._folder / name) for name in names)
        if "jetstream" in names or any("streams" in children for children in inside):
            raise WrongStoreFormat(
                f"{self._folder} contains a nats-server store, which jetspark cannot read: choose "
                "another folder with store_dir=, and copy the streams with a client"
            )

    def _claim(self) -> None:
        path = self._folder / "STORE"
        try:
            self._lock = self._files.lock(path)
        except BlockingIOError:
            raise StoreLocked(
                f"{self._folder} is used by another jetspark server; stop it or choose another "
                "folder with store_dir="
            ) from None
        found = self._files.read_file(path)
        if found == MARK + CHECK:
            # Its writer may have been killed before it was on disk.
            self._files.sync(self._lock)
            return
        if not self._is_ours(found):
            raise WrongStoreFormat(
                f"{path} contains {found[:40]!r}, expected {MARK!r}: not a jetspark store, "
                "or one of another version"
            )
        self._files.write_synced(self._lock, [MARK + CHECK], 0)

    def _is_ours(self, found: bytes) -> bool:
        """Return whether an incomplete mark is still ours: new, torn, or damaged."""
        if found == b"" or found.startswith(MARK):
            return True
        if len(found) == len(MARK + CHECK) and found.endswith(CHECK):
            return True
        if found.startswith(b"jetspark-store ") and found.endswith(b"\n"):
            return False
        # It is not another program's mark, so it is ours if everything next to it is. Streams
        # record their format in their own metadata.
        names = self._files.list_folder(self._folder)
        ours = all(name in {"STORE", RESERVE} or name.startswith("acct-") for name in names)
        return ours and len(found) <= len(MARK + CHECK)

    def _account_folder(self, account: str) -> Path:
        return self._folder / f"acct-{hashlib.sha256(account.encode()).hexdigest()[:16]}"

    def _stream(self, folder: Path) -> StreamFolder:
        return StreamFolder(
            self._files, folder, self._segment_size, self._cache_budget, self._rates
        )

    def _discard(self, folder: Path) -> None:
        with suppress(OSError):
            self._files.remove_folder(folder)
