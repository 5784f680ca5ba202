"""JetStream of all accounts: one store and one committer, an engine for each account."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from jetspark.api.account import AccountLimits
from jetspark.api.enums import Storage
from jetspark.clock import Clock
from jetspark.engine.batch.limits import STAGED_BYTES, BatchLimits
from jetspark.engine.commits import by_owner
from jetspark.engine.direct.gate import HeldReads
from jetspark.engine.engine import Engine
from jetspark.engine.failures import Failures
from jetspark.engine.ports import EnginePorts
from jetspark.engine.replicate.adoption import copies_first
from jetspark.engine.restore import is_marked
from jetspark.engine.settings import EngineSettings
from jetspark.engine.stream.stream import Stream
from jetspark.engine.usage import NO_LIMIT, AccountUsage, ServerUsage
from jetspark.errors.location import where
from jetspark.errors.storage import ReadFailed, StorageFault, UnknownRecordKind, WrongStoreFormat
from jetspark.server.accounts import Account
from jetspark.server.config.blocks.accounts import AccountJetStream
from jetspark.server.config.settings import Settings
from jetspark.server.jetstream.account_turns import AccountTurns
from jetspark.server.jetstream.budgets import BudgetLog, DiskBudget, budget, memory_budget
from jetspark.server.jetstream.driver import EngineDriver
from jetspark.server.jetstream.remotes import Remotes
from jetspark.server.jetstream.unopened import UnopenedStreams
from jetspark.server.routing.router import Router
from jetspark.server.start_errors import cannot_open_store
from jetspark.store.commit_counts import CommitCounts
from jetspark.store.committer import Housekeeper, ThreadCommitter
from jetspark.store.duplicate_folders import is_original, key_of
from jetspark.store.files import Files, OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.journal.checkpointer import Checkpointer
from jetspark.store.journal.journal import Journal
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.timeline import AHEAD_MAX_NS
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore
from jetspark.store.threads import OPENERS, DiskThreads
from jetspark.units import Nanoseconds, bounded, format_duration

log: logging.Logger = logging.getLogger("jetspark.server")

# A start logs a line for each of this many streams. Problems are always logged.
LISTED_MAX: Final = 100
# How long a stop records the state of each stream.
NOTES_MAX_NS: Final = 1_000_000_000
# How long a stop syncs segments, so that the next start need not read the journal.
RELEASE_MAX_NS: Final = 2_000_000_000


def private_folder() -> str:
    """Create a folder for a store without a configured one; removed with the server."""
    from tempfile import mkdtemp  # with all that copies and compresses files: 600 KB

    return mkdtemp(prefix="jetspark-")


class JetStreamRuntime:
    """The streams of all accounts.

    Without a ``store_dir`` they are in a private folder that is removed at the end.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        leader: str = "",
        remotes: Remotes | None = None,
        failures: Failures | None = None,
        files: Files | None = None,
    ) -> None:
        self._remotes = remotes
        self._failures = failures or Failures()
        folder = settings.jetstream.store_dir
        self._leader = leader
        self._private = not folder
        self.folder: Path = Path(folder or private_folder())
        self._settings = engine_settings(settings)
        self._batch_limits = batch_limits(settings)
        self.usage: ServerUsage = ServerUsage(
            budget(settings.jetstream.max_mem, memory_budget()),
            budget(settings.jetstream.max_file, NO_LIMIT),
        )
        self._held_reads = HeldReads(settings.jetspark.held_reads_max)
        self._clock = clock
        self._files: Files = files or OsFiles()
        hand_back = asyncio.get_running_loop().call_soon_threadsafe
        with ExitStack() as started:
            self._start(settings, hand_back, started)
            # Ends the threads; idempotent.
            self._threads_end = started.pop_all()
        self._commit_delay = settings.jetspark.commit_delay
        self._drivers: dict[str, EngineDriver] = {}
        self._turns = AccountTurns(clock, asyncio.get_running_loop().call_soon)
        self._disk_budget: DiskBudget | None = None
        self.unopened: UnopenedStreams = UnopenedStreams(
            self._store, self._threads, self._take_over, self._keep_name
        )
        # Account, stream and name of consumers that could not be adopted, and why.
        self.unadopted: list[tuple[str, str, str, str]] = []

    def _start(
        self,
        settings: Settings,
        hand_back: Callable[[Callable[[], None]], object],
        started: ExitStack,
    ) -> None:
        """Start the threads and create the store that uses them; raises OSError."""
        self._threads = DiskThreads(hand_back)
        started.callback(self._threads.close)
        self._store = FileStore(
            self._files,
            self.folder,
            aside=self._threads.run,
            durability=settings.jetstream.durability.value,
            sync_period_ns=bounded(settings.jetstream.sync_interval),
            openers=OPENERS,
        )
        self._store.reserve.watch(self._look_for_space)
        self.counts: CommitCounts = CommitCounts()
        self._checkpointer = Checkpointer(self._store.journal, hand_back)
        started.callback(self._checkpointer.close)
        self._committer = ThreadCommitter(
            self._files,
            self._report,
            hand_back,
            self._clock.monotonic_ns,
            counts=self.counts,
            make_room=self._store.reserve.remove,
            journal=self._store.journal,
            checkpointer=self._checkpointer,
            report_turn=self._report_turn,
        )
        started.callback(self._committer.close)
        self._housekeeper = Housekeeper(hand_back, self._clock.monotonic_ns)
        started.callback(self._housekeeper.close)

    def open(
        self,
        accounts: Iterable[tuple[Account, AccountJetStream]],
        flush: Callable[[Router], object],
    ) -> None:
        """Recover every stream and give each account its engine."""
        if self._private:
            log.info("Streams are kept in %s and removed when the server stops", self.folder)
        else:
            log.info("Streams are kept in %s", self.folder)
        for account, granted in accounts:
            self.serve(account, granted, flush)
        try:
            recovered = Recovered()
            logs = self._store.open(recovered.report, self._cannot_open)
        except OSError as error:
            self._threads_end.close()
            raise cannot_open_store(self.folder, error) from error
        except StorageFault:
            self._threads_end.close()
            raise
        recovered.sum_up()
        # A user may have copied the folder of a stream under another name: that is not a stream.
        originals = {key_of(stream_log) for stream_log in logs if is_original(stream_log)}
        for stream_log in copies_first(logs):
            self._serve_recovered(stream_log, originals)
        for note in self._store.journal_notes:
            log.error("The journal: %s", note)
        for path in self._store.foreign:
            log.warning("%s does not belong to a jetspark store; ignored, move it away", path)
        for driver in self._drivers.values():
            # A second folder of a stream that is served does not prevent that.
            driver.engine.release_served_names()
        budget_log = BudgetLog(self.usage, self._clock)
        if self.usage.limits[Storage.FILE] == NO_LIMIT:
            self._disk_budget = DiskBudget(self.usage, self.folder, budget_log)
            self.usage.watch(self._disk_budget.changed)
        else:
            self.usage.watch(budget_log.changed)
        for driver in self._drivers.values():
            driver.follow_streams()

    def _serve_recovered(self, stream_log: StreamLog, originals: set[tuple[str, str]]) -> None:
        """Let the account of a stream serve it, unless another folder has that stream."""
        identity = stream_log.identity
        owner = self._drivers.get(identity.account)
        if owner is None:
            log.warning(
                "Stream %r belongs to account %r, which is not configured: it stays on disk "
                "and is not served; configure the account to serve it",
                identity.name,
                identity.account,
            )
            stream_log.close()
            return
        copied = not is_original(stream_log)
        problem = ""
        if identity.name in owner.engine.streams or (copied and key_of(stream_log) in originals):
            problem = "a stream of this name is served"
        elif copied and identity.name in owner.engine.unserved:
            # It may be older: sequences that the original assigned would be assigned again.
            problem = "it is a copy, and the folder of the stream itself could not be opened"
        if problem:
            log.error(
                "There are two folders of stream %r: %s is not served (%s); move it away, or "
                "export it with jetspark doctor",
                identity.name,
                stream_log.segments.folder,
                problem,
            )
            self.unopened.add(stream_log.segments.folder, f"{problem}; move it away")
            stream_log.close()
        else:
            self._adopt(owner.engine, stream_log)

    def _take_over(self, stream_log: StreamLog, recovery: Recovery) -> None:
        """Serve a stream that could not be opened at the start and can be now."""
        identity = stream_log.identity
        report_recovery(identity, recovery)
        owner = self._drivers.get(identity.account)
        if is_marked(bytes(identity.config)):
            # It was never visible: it was being restored when the previous server stopped.
            self._threads.run(partial(self._store.discard, stream_log))
            return
        obstacle = owner.engine.obstacle_to(stream_log) if owner is not None else ""
        if obstacle:
            log.error("Stream %r can be opened but not served: %s", identity.name, obstacle)
            self.unopened.add(stream_log.segments.folder, obstacle, again=True)
            stream_log.close()
            return
        self._serve_recovered(stream_log, set())
        if owner is not None and identity.name in owner.engine.streams:
            log.info("Stream %r has been opened and is served now", identity.name)
            owner.engine.release_served_names()
            owner.follow_streams()

    def _adopt(self, engine: Engine, stream_log: StreamLog) -> None:
        """Let an account serve a stream; one that it cannot serve stays on disk, reported."""
        name = stream_log.identity.name
        try:
            if not engine.adopt(stream_log, self._clock.now_ns()):
                text = "Stream %r was being restored at the last stop: removed; restore it again"
                log.warning(text, name)
        except Exception as error:  # noqa: BLE001 - one stream, not the start
            # Whatever the error, it concerns this stream only.
            log.error(  # noqa: TRY400 - one line, not a traceback
                "Stream %r cannot be served, the others are; its files stay in %s: %s",
                name,
                stream_log.segments.folder,
                where(error),
            )
            passing = isinstance(error, OSError | ReadFailed)
            self.unopened.add(
                stream_log.segments.folder, f"cannot be served: {where(error)}", again=passing
            )
            engine.reserve_name(name)
            stream_log.close()
        stream = engine.streams.get(name)
        if stream is not None and stream.ahead() > AHEAD_MAX_NS:
            log.warning(
                "Stream %r has times that are %s ahead of the system clock; ages and TTLs count "
                "elapsed time. If the clock is right: stop the server, then run "
                "`jetspark doctor clock %s`",
                name,
                format_duration(stream.ahead() // 10**9 * 10**9),
                self.folder,
            )
        for consumer, problem in engine.consumers.take_unadopted():
            self.unadopted.append((engine.account, name, consumer, problem))

    @property
    def drivers(self) -> Iterable[EngineDriver]:
        """The drivers of all accounts."""
        return self._drivers.values()

    @property
    def journal(self) -> Journal:
        """The journal of the store."""
        return self._store.journal

    @property
    def journal_notes(self) -> list[str]:
        """What the start found wrong with the journal, as sentences."""
        return self._store.journal_notes

    @property
    def foreign(self) -> list[Path]:
        """Entries between the streams on disk that do not belong to the store."""
        return self._store.foreign

    def keep_house(self) -> None:
        """Start upkeep of every stream, once there are clients: it would only delay a start."""
        for driver in self._drivers.values():
            driver.keep_house()
        self.unopened.try_again()

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        """Report a stream that cannot be opened, and serve the others.

        What another version wrote stops the start: nothing is wrong with it.
        """
        if isinstance(error, WrongStoreFormat | UnknownRecordKind):
            raise error
        log.error(
            "The stream in %s cannot be opened, the others are served; it is retried: %s",
            folder,
            error,
        )
        self.unopened.refuse(folder, error, self._store.identity_in(folder))

    def _keep_name(self, identity: Identity) -> None:
        """Reserve the name of a stream that is not served."""
        driver = self._drivers.get(identity.account)
        if driver is not None and identity.name not in driver.engine.streams:
            driver.engine.reserve_name(identity.name)

    def serve(
        self, account: Account, granted: AccountJetStream, flush: Callable[[Router], object]
    ) -> EngineDriver:
        """Give an account an engine."""
        driver = EngineDriver(
            partial(self._make_engine, account, granted),
            account.router,
            self._clock,
            self._turns,
            self._committer,
            flush,
            self._housekeeper,
            self.counts,
            self._threads,
            self._store.reserve,
            self._commit_delay,
        )
        account.serve(driver)
        self._drivers[account.name] = driver
        return driver

    def _make_engine(
        self, account: Account, granted: AccountJetStream, ports: EnginePorts
    ) -> Engine:
        return Engine(
            self._store,
            account=account.name,
            random_id=lambda: secrets.randbits(64),
            ports=ports,
            leader=self._leader,
            settings=self._settings,
            batch_limits=self._batch_limits,
            held_reads=self._held_reads,
            usage=AccountUsage(account_limits(granted), self.usage),
            upstreams=self._remotes.of(account.name) if self._remotes is not None else None,
            failures=self._failures,
            turn=account.router.turn,
        )

    def change(self, settings: Settings) -> None:
        """Apply the settings that may change while streams are open (config/reload.py).

        `change_driver` of every account must follow.
        """
        self._settings = engine_settings(settings)
        self._batch_limits = batch_limits(settings)
        self._held_reads.limit(settings.jetspark.held_reads_max)
        self._commit_delay = settings.jetspark.commit_delay
        for storage, size in (
            (Storage.MEMORY, settings.jetstream.max_mem),
            (Storage.FILE, settings.jetstream.max_file),
        ):
            if size >= 0:
                self.usage.set_limit(storage, size)
                if storage == Storage.FILE and self._disk_budget is not None:
                    self._disk_budget.end()

    def change_driver(self, driver: EngineDriver, granted: Mapping[str, AccountJetStream]) -> None:
        """Apply the settings that have changed to an account."""
        driver.engine.change_settings(self._settings)
        driver.delay_commits(self._commit_delay)
        limits = granted.get(driver.engine.account)
        if limits is not None:
            driver.engine.change_limits(account_limits(limits))

    def _report(self, owner: object, error: OSError | None) -> None:
        assert isinstance(owner, tuple)
        driver, stream = owner
        assert isinstance(driver, EngineDriver)
        assert isinstance(stream, Stream)
        driver.report(stream, error)

    def _report_turn(self, reports: list[tuple[object, OSError | None]]) -> None:
        """Pass the reports of a frame to the accounts of its streams."""
        for driver, reported in by_owner(reports).items():
            assert isinstance(driver, EngineDriver)
            driver.report_turn(reported)

    def _look_for_space(self) -> None:
        """Make every account free what it can: the disk is full."""
        for driver in self._drivers.values():
            driver.look_for_space()
        self._threads.run(self._store.retry_removals)
        self._threads.run(self._store.journal.shrink)

    def refuse_messages(self) -> None:
        """Refuse messages until the disk has space, as after a write that found it full."""
        for driver in self._drivers.values():
            driver.engine.find_disk_full()
            driver.wake()

    def end_requests(self) -> None:
        """End waiting pull requests: the server is stopping."""
        for driver in self._drivers.values():
            driver.engine.consumers.end_requests()

    async def settle(self) -> None:
        """Write everything staged to disk and acknowledge it."""
        for driver in self._drivers.values():
            await driver.settle()

    async def close(self) -> None:
        """Write everything staged to disk, then close the store."""
        await self.settle()
        if self._disk_budget is not None:
            self._disk_budget.end()
        self._housekeeper.close()
        self.unopened.close()
        # With many streams and slow syncs the rest is left out: manifests are then half a minute
        # old. A private store is never opened again.
        until = 0 if self._private else self._clock.monotonic_ns() + NOTES_MAX_NS
        for driver in self._drivers.values():
            driver.close(until)
        self._threads_end.close()
        # The last results of the threads are handed back in the next turn.
        await asyncio.sleep(0)
        # The rest is read by the next start.
        until = 0 if self._private else self._clock.monotonic_ns() + RELEASE_MAX_NS
        self._store.close(lambda: self._clock.monotonic_ns() < until)
        if self._private:
            from shutil import rmtree

            rmtree(self.folder, ignore_errors=True)


def batch_limits(settings: Settings) -> BatchLimits:
    """Return the limits of batches, for all accounts together; our own block takes precedence."""
    atomic = settings.jetspark.atomic or settings.jetstream.limits.batch
    fast = settings.jetspark.fast
    return BatchLimits(
        atomic_messages=atomic.messages,
        atomic_per_stream=atomic.per_stream,
        atomic_per_server=atomic.per_server,
        fast_per_stream=fast.per_stream,
        fast_per_server=fast.per_server,
        idle_ns=bounded(atomic.timeout),
        staged_bytes=settings.jetspark.memory.batches or STAGED_BYTES,
    )


def engine_settings(settings: Settings) -> EngineSettings:
    """Return the part of the configuration that engines need."""
    limits = settings.jetstream.limits
    return EngineSettings(
        min_last_seq_wait=Nanoseconds(bounded(settings.jetspark.min_last_seq_wait)),
        duplicate_window_max=limits.duplicate_window,
        max_ack_pending=max(limits.max_ack_pending, 0),
        max_request_batch=max(limits.max_request_batch, 0),
    )


def account_limits(granted: AccountJetStream) -> AccountLimits:
    """Return the limits of an account, with the field names of ``$JS.API.INFO``."""
    return AccountLimits(
        max_memory=granted.max_memory,
        max_storage=granted.max_store,
        max_streams=granted.max_streams,
        max_consumers=granted.max_consumers,
        max_ack_pending=granted.max_ack_pending,
        memory_max_stream_bytes=granted.memory_max_stream_bytes,
        storage_max_stream_bytes=granted.store_max_stream_bytes,
        max_bytes_required=granted.max_bytes_required,
    )


class Recovered:
    """Logs the streams that a start opened: a line for each of the first ones, and a sum.

    A line takes as long as a sixth of opening a small stream.
    """

    def __init__(self) -> None:
        self._streams = 0
        self._records = 0

    def report(self, identity: Identity, recovery: Recovery) -> None:
        """Log what opening a stream found."""
        self._streams += 1
        self._records += int(recovery.records)
        level = logging.INFO if self._streams <= LISTED_MAX else logging.DEBUG
        report_recovery(identity, recovery, level)

    def sum_up(self) -> None:
        """Log how many there were, if not all of them were listed."""
        if self._streams > LISTED_MAX:
            log.info("Recovered %d streams: %d records", self._streams, self._records)


def report_recovery(identity: Identity, recovery: Recovery, level: int = logging.INFO) -> None:
    """Log what opening a stream found."""
    log.log(level, "Recovered stream %r: %d records", identity.name, recovery.records)
    if recovery.torn_bytes:
        log.warning(
            "Stream %r: %d bytes after the last complete record were truncated; "
            "they were never acknowledged",
            identity.name,
            recovery.torn_bytes,
        )
    for place in recovery.damaged:
        doubtful = place in recovery.doubtful
        log.log(
            logging.WARNING if doubtful else logging.ERROR,
            "Stream %r: %d bytes at offset %d of the log are damaged and skipped%s",
            identity.name,
            place[1],
            place[0],
            "; they are the rest of an interrupted write, or of one that was damaged since"
            if doubtful
            else "",
        )
    for first, last in recovery.lost:
        log.error("Stream %r: messages %d to %d may be lost", identity.name, first, last)
    for note in recovery.notes:
        log.warning("Stream %r: %s", identity.name, note)
