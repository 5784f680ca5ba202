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
import os
import re
import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeAlias

from xxhash import xxh3_64_hexdigest

from jetspark.errors.location import where
from jetspark.errors.storage import StorageFault, StoreLocked, WrongStoreFormat
from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity
from jetspark.store.format.segment import SEGMENT_SIZE
from jetspark.store.journal.journal import FILE_SIZE as JOURNAL_SIZE
from jetspark.store.journal.journal import FOLDER as JOURNAL
from jetspark.store.journal.journal import Journal
from jetspark.store.journal.view import JournalView
from jetspark.store.log.durability import SEQUENCES_AHEAD, SYNC_PERIOD_NS
from jetspark.store.log.stream_log import CACHE_BUDGET, StreamLog
from jetspark.store.memory import MemoryFiles
from jetspark.store.recovery.own_files import FOLDER, identity_in
from jetspark.store.recovery.replay import Recovery
from jetspark.store.recovery.stream_folder import PLAIN, StreamFolder, StreamUnidentified
from jetspark.store.reserve import NAME as RESERVE
from jetspark.store.reserve import RESERVE_SIZE, Reserve
from jetspark.store.threads import no_thread, turns_of_large
from jetspark.store.upkeep.counts import UpkeepRates
from jetspark.store.upkeep.reopen import dropped_folder


def store_mark(version: int) -> bytes:
    """Return the content of ``STORE``; its checksum shows a flipped bit in the version."""
    first = b"jetspark-store %d\n" % version
    return first + b"check " + xxh3_64_hexdigest(first).encode() + b"\n"


# The journal of a store of version 2 may have groups that segments lack. A store that was stopped
# has version 1 again: earlier versions of jetspark read it.
PLAIN_MARK: Final = store_mark(1)
JOURNAL_MARK: Final = store_mark(2)
MARKS: Final = (PLAIN_MARK, JOURNAL_MARK)
# The mark of any version; what is left of an interrupted write of a mark is not one.
ANY_MARK: Final = re.compile(rb"jetspark-store [0-9]+\n(check [0-9a-f]*\n)?")


class CannotOpenStream(StorageFault):
    """Opening a stream raised an unexpected error: nothing that waiting would change."""


CannotOpen: TypeAlias = Callable[[Path, StorageFault | OSError], None]


Opened: TypeAlias = tuple[StreamLog, Recovery] | StorageFault | OSError


def in_order(
    work: Callable[[Path], Opened], folders: list[Path], at_a_time: int
) -> Generator[tuple[Path, Opened]]:
    """Open streams, some at a time; yield them in order. Close it if not all are needed.

    Each of them waits for the disk twice, and the others continue meanwhile.
    """
    if at_a_time == 1 or len(folders) == 1:
        for folder in folders:
            yield folder, work(folder)
        return
    waiting: deque[Future[Opened]] = deque()
    with ThreadPoolExecutor(at_a_time, "jetspark-open") as pool:
        try:
            try:
                waiting.extend(pool.submit(work, folder) for folder in folders)
            except RuntimeError as error:
                raise no_thread() from error
            for folder in folders:
                result = waiting[0].result()
                waiting.popleft()
                yield folder, result
        finally:
            for future in waiting:
                if not future.cancel():
                    left = future.result()
                    if not isinstance(left, Exception):
                        left[0].close()


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
        openers: int = 1,
        random_key: Callable[[], int] = lambda: secrets.randbits(64),
        journal_size: int = JOURNAL_SIZE,
    ) -> None:
        """``openers``: how many streams are opened at a time."""
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
        self._openers = openers
        self._large = turns_of_large()
        self._lock = -1
        # The level of streams without one of their own, and its period.
        self.durability = durability
        self._sync_period_ns = sync_period_ns
        self._sequences_ahead = sequences_ahead
        self.reserve: Reserve = Reserve(files, folder, reserve_size, aside)
        self.journal: Journal = Journal(
            files, folder, self._claim_journal, random_key, size=journal_size
        )
        # The groups that the last stop left in the journal, during a start.
        self._view = JournalView()
        # Whether there may be groups of streams that could not be opened earlier. Asked once per
        # start, not once per stream.
        self._may_be_kept = True
        # What was wrong with the journal, as sentences.
        self.journal_notes: list[str] = []
        self._mark = PLAIN_MARK
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
            self._read_journal()
            self._may_be_kept = self.journal.keeps_any()
            for account in self._files.list_folder(self._folder):
                if account.startswith("acct-"):
                    for log, recovery in self._open_account(self._folder / account, cannot_open):
                        logs.append(log)
                        report(log.identity, recovery)
            self._settle_journal(logs)
            self._may_be_kept = True
        except BaseException:
            for log in logs:
                log.close()
            self.close()
            raise
        return logs

    def _read_journal(self) -> None:
        """Read what the last stop left in the journal."""
        if self._mark == JOURNAL_MARK:
            self._view = self.journal.read()
            self.journal_notes = list(self._view.notes)
        elif self.journal.set_aside():
            self.journal_notes.append(
                f"{self._folder / JOURNAL} has files although STORE says that the journal was not "
                "in use: they were renamed and are not used"
            )

    def _settle_journal(self, logs: list[StreamLog]) -> None:
        """Empty the journal: what it had is in segments, on disk. Raises OSError.

        The groups of streams that are not open for writing are kept.
        """
        if self._mark != JOURNAL_MARK:
            return
        done = {
            log.identity.stream_id
            for log in logs
            if not log.access.read_only and log.segments.folder.name == _folder_name(log.identity)
        }
        left = self._view.streams.keys() - done
        self.journal.settle_start(self._view, [number for number in left if self._exists(number)])
        self._view = JournalView()

    def _exists(self, stream_id: int) -> bool:
        """Return whether a stream exists, as far as known."""
        for name in self._files.list_folder(self._folder):
            account = self._folder / name
            if name.startswith("acct-") and (
                account in self._unlisted
                or f"stream-{stream_id:016x}" in self._files.list_folder(account)
            ):
                return True
        return False

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
        # Whatever prevented opening it may prevent this.
        with suppress(Exception):
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
        streams = []
        for name in names:
            if name.startswith(("new-", "dropped-")):
                # Litter that cannot be removed now is removed later; not a reason to stop.
                with suppress(OSError):
                    if tidy:
                        self._files.remove_folder(account / name)
            elif name.startswith("stream-"):
                streams.append(account / name)
            else:
                self.foreign.append(account / name)
        with closing(in_order(self._try_open, streams, self._openers)) as opened:
            for folder, result in opened:
                yield from self._opened(folder, result, cannot_open)

    def _open_stream(
        self, folder: Path, cannot_open: CannotOpen | None
    ) -> Iterator[tuple[StreamLog, Recovery]]:
        return self._opened(folder, self._try_open(folder), cannot_open)

    def _try_open(self, folder: Path) -> Opened:
        """Open a stream, in any thread; return the error if that fails."""
        try:
            return self._open_folder(folder)
        except (StorageFault, OSError) as error:
            return error
        except MemoryError:
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), str(folder))
        except Exception as error:  # noqa: BLE001 - one stream, not the start
            # Whatever it is, it concerns the files of this stream only.
            return CannotOpenStream(f"cannot be opened: {where(error)}")

    def _opened(
        self, folder: Path, result: Opened, cannot_open: CannotOpen | None
    ) -> Iterator[tuple[StreamLog, Recovery]]:
        """Add a stream that was opened, or report why it was not."""
        if isinstance(result, Exception):
            named = FOLDER.fullmatch(folder.name) is not None
            if self._is_file(folder) or (isinstance(result, StreamUnidentified) and not named):
                self.foreign.append(folder)
                return
            if cannot_open is None:
                raise result
            cannot_open(folder, result)
            return
        log, recovery = result
        self.choose_level(log)
        if self.reserve.refused and not log.access.read_only:
            # Messages are refused until there is clearly enough space, as before this start.
            log.access.set_full(True)
            log.segments.stop_filling()
        log.note_missing(recovery.lost + recovery.unwritten)
        yield log, recovery

    def _open_folder(self, folder: Path) -> tuple[StreamLog, Recovery]:
        """Open the stream of a folder, with what the journal has of it."""
        named = FOLDER.fullmatch(folder.name)
        number = int(named[1], 16) if named is not None else 0
        # After a start, only those that it could not open have groups there.
        starting = number in self._view.streams
        kept = not starting and self._may_be_kept
        groups = self.journal.kept(number) if kept else self._view.of(number)
        stream = StreamFolder(
            self._files,
            folder,
            self._segment_size,
            self._cache_budget,
            self._rates,
            groups=groups,
            large=self._large,
        )
        log, recovery = stream.open()
        if groups.entries and not starting and not log.access.read_only:
            try:
                self.journal.forget(number)
            except OSError:
                log.close()
                raise
        return log, recovery

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
        log.durability.share(self.journal)

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
        log.durability.leave_journal()

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
            with suppress(OSError):
                self.journal.forget(log.identity.stream_id)
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

    def close(self, may_continue: Callable[[], bool] = lambda: True) -> None:
        """Unlock the store; idempotent. Logs are closed before.

        As long as ``may_continue()``, segments are synced and the journal is emptied.
        """
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
            # If this fails, the next start reads the journal.
            with suppress(OSError):
                if self.journal.close(may_continue) and self._mark == JOURNAL_MARK:
                    self._write_mark(PLAIN_MARK)
                    self.journal.remove_folder()
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
        journal = self._folder / JOURNAL
        try:
            self._lock = self._files.lock(path)
        except BlockingIOError:
            raise StoreLocked(
                f"{self._folder} is used by another jetspark server; stop it or choose another "
                "folder with store_dir="
            ) from None
        found = self._files.read_file(path)
        if found in MARKS:
            # Its writer may have been killed before it was on disk, or its sync failed: then only
            # writing it again makes it durable.
            self._write_mark(found)
            return
        if not self._is_ours(found):
            raise WrongStoreFormat(
                f"{path} contains {found[:40]!r}, expected {PLAIN_MARK[:17]!r} or "
                f"{JOURNAL_MARK[:17]!r}: not a jetspark store, or one of another version. Choose "
                "another folder with store_dir=; if you are sure that it is a jetspark store, "
                "remove this file"
            )
        if len(found) > len(PLAIN_MARK):
            self._files.truncate(self._lock, len(PLAIN_MARK))
        # If it was the mark of a store with a journal, the journal exists.
        self._write_mark(JOURNAL_MARK if self._files.list_folder(journal) else PLAIN_MARK)

    def _claim_journal(self) -> None:
        """Record durably that the journal is in use; raises OSError."""
        if self._mark != JOURNAL_MARK:
            self._write_mark(JOURNAL_MARK)

    def _write_mark(self, mark: bytes) -> None:
        self._files.write_synced(self._lock, [mark], 0)
        self._mark = mark

    def _is_ours(self, found: bytes) -> bool:
        """Return whether an incomplete mark is still ours: new, torn, or damaged."""
        if found == b"" or found.startswith(
            tuple(mark[: mark.index(b"\n") + 1] for mark in MARKS)
        ):
            return True
        if len(found) == len(PLAIN_MARK) and found.endswith(
            tuple(mark[mark.index(b"\n") + 1 :] for mark in MARKS)
        ):
            return True
        if ANY_MARK.fullmatch(found):
            return False
        # It is not another program's mark, so it is ours if everything next to it is. Streams
        # record their format in their own metadata.
        names = self._files.list_folder(self._folder)
        known = {"STORE", RESERVE, JOURNAL}
        if not all(name in known or name.startswith("acct-") for name in names):
            return False
        if len(found) <= len(PLAIN_MARK):
            return True
        # Another file under its name. A later version may write a longer mark.
        return not found.startswith(PLAIN_MARK[:15]) and self._has_segments(names)

    def _has_segments(self, names: list[str]) -> bool:
        """Return whether a folder of an account has a stream of ours."""
        files = self._files
        accounts = [self._folder / name for name in names if name.startswith("acct-")]
        streams = (account / name for account in accounts for name in files.list_folder(account))
        return any(
            file.endswith(".seg")
            for stream in streams
            if stream.name.startswith("stream-")
            for file in files.list_folder(stream)
        )

    def _account_folder(self, account: str) -> Path:
        return self._folder / f"acct-{hashlib.sha256(account.encode()).hexdigest()[:16]}"

    def _stream(self, folder: Path) -> StreamFolder:
        return StreamFolder(
            self._files, folder, self._segment_size, self._cache_budget, self._rates
        )

    def _discard(self, folder: Path) -> None:
        with suppress(OSError):
            self._files.remove_folder(folder)


def _folder_name(identity: Identity) -> str:
    return f"stream-{identity.stream_id:016x}"
