"""JetStream behind the accounts: one store and one committer, an engine for each account."""

import asyncio
import logging
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from jetspark.clock import Clock
from jetspark.engine.engine import Engine
from jetspark.engine.stream.stream import Stream
from jetspark.server.accounts import Account
from jetspark.server.driver import EngineDriver
from jetspark.server.router import Router
from jetspark.store.committer import Housekeeper, ThreadCommitter
from jetspark.store.files import OsFiles
from jetspark.store.manifest import Identity
from jetspark.store.recovery import Recovery
from jetspark.store.store import FileStore

log = logging.getLogger("jetspark.server")


class JetStreamRuntime:
    """The streams of all accounts. ``folder`` None is a private one that is removed at the end."""

    def __init__(self, folder: Path | None, clock: Clock, leader: str = "") -> None:
        self._leader = leader
        self._private = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="jetspark-"))
        self._clock = clock
        self._files = OsFiles()
        self._store = FileStore(self._files, self.folder)
        self._drivers: list[EngineDriver] = []
        self._committer = ThreadCommitter(
            self._files,
            self._report,
            asyncio.get_running_loop().call_soon_threadsafe,
            clock.monotonic_ns,
        )
        self._housekeeper = Housekeeper(asyncio.get_running_loop().call_soon_threadsafe)

    def open(self, accounts: Iterable[Account], flush: Callable[[Router], object]) -> None:
        """Recover every stream and give each account its engine."""
        if self._private:
            log.info("Streams are kept in %s and removed when the server stops", self.folder)
        else:
            log.info("Streams are kept in %s", self.folder)
        drivers = {account.name: self.serve(account, flush) for account in accounts}
        for stream_log in self._store.open(report_recovery):
            owner = drivers.get(stream_log.identity.account)
            if owner is None:
                log.warning(
                    "Stream %r belongs to account %r, which is not configured: it stays on disk",
                    stream_log.identity.name,
                    stream_log.identity.account,
                )
                stream_log.close()
            else:
                owner.engine.adopt(stream_log)
        for driver in self._drivers:
            driver.follow_streams()
            driver.keep_house()

    def serve(self, account: Account, flush: Callable[[Router], object]) -> EngineDriver:
        """Give an account an engine."""
        engine = Engine(
            self._store,
            account=account.name,
            random_id=lambda: secrets.randbits(64),
            leader=self._leader,
        )
        driver = EngineDriver(
            engine,
            account.router,
            account.outbox,
            self._clock,
            self._committer,
            flush,
            self._housekeeper,
        )
        account.driver = driver
        self._drivers.append(driver)
        return driver

    def _report(self, owner: object, error: OSError | None) -> None:
        assert isinstance(owner, tuple)
        driver, stream = owner
        assert isinstance(driver, EngineDriver)
        assert isinstance(stream, Stream)
        driver.report(stream, error)

    async def settle(self) -> None:
        """Put everything staged on disk and acknowledge it."""
        for driver in self._drivers:
            await driver.settle()

    async def close(self) -> None:
        """Put everything staged on disk, then close the store."""
        await self.settle()
        self._housekeeper.close()
        for driver in self._drivers:
            driver.close()
        self._committer.close()
        self._store.close()
        if self._private:
            shutil.rmtree(self.folder, ignore_errors=True)


def report_recovery(identity: Identity, recovery: Recovery) -> None:
    """Say what opening a stream found."""
    log.info("Recovered stream %r: %d records", identity.name, recovery.records)
    if recovery.torn_bytes:
        log.warning(
            "Stream %r: %d bytes behind the last whole record were cut off; "
            "they were never acknowledged",
            identity.name,
            recovery.torn_bytes,
        )
    for place in recovery.damaged:
        log.error(
            "Stream %r: %d bytes at offset %d of the log do not check and are skipped%s",
            identity.name,
            place[1],
            place[0],
            "; they may be the rest of a write that was never acknowledged"
            if place in recovery.doubtful
            else "",
        )
    for first, last in recovery.lost:
        log.error("Stream %r: messages %d to %d may be lost", identity.name, first, last)
    for note in recovery.notes:
        log.warning("Stream %r: %s", identity.name, note)
