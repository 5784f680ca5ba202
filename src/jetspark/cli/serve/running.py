"""Runs a server in this process until a signal ends it, with log, pid file and reloads."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from jetspark.cli.serve.log import open_log, reopen_log, set_up_log
from jetspark.errors import MissingExtra
from jetspark.errors.storage import StorageFault
from jetspark.server.config.blocks.jetstream import STORE_DIR_DEFAULT
from jetspark.server.config.command_line import Exit, from_command_line
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.settings import Settings
from jetspark.server.server import Server
from jetspark.server.start_errors import in_words
from jetspark.upstreams import connect_upstream
from jetspark.version import COMPILED, NATS_VERSION, VERSION

# Interpreted, the GIL is switched only every 5 ms by default; acks would wait for that.
SWITCH_INTERVAL_S: Final = 0.0005
# A pass must be short, one over the newest objects and one over what the last two passes kept. The
# number counts new objects less freed ones: while very many clients come and go, a pass looks at
# ten times as many. With 10,000 and three passes it took 27 ms next to thirty hostile clients, in
# which a neighbour waits; with 100,000 200 ms. Full passes are as rare as with 100,000.
GC_THRESHOLD: Final = (2_000, 1, 75_000)
# A pass over this many new objects takes about four milliseconds.
MANY_OBJECTS: Final = 20_000

log: logging.Logger = logging.getLogger("jetspark.server")


def run_server(asked: Settings, flags: tuple[str, ...]) -> None:
    """Serve until a signal ends it; ``flags`` are parsed again for a reload."""
    try:
        set_up_log(asked, open_log(asked))
    except OSError as error:
        sys.exit(f"[FTL] {in_words(error)}")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # Nothing created before the server is ready is garbage, least of all large subject indexes.
    gc.disable()
    try:
        with contextlib.ExitStack() as pid_files:
            _write_pid(asked.pid_file, pid_files)
            _run(asked, flags, pid_files)
    except (ConfigRefused, MissingExtra, StorageFault, OSError, ssl.SSLError) as error:
        for line in in_words(error).splitlines():
            log.critical("%s", line)
        sys.exit(1)


def _write_pid(path: str, pid_files: contextlib.ExitStack) -> None:
    """Write the process id to a file; the end of ``pid_files`` removes it."""
    if not path:
        return
    try:
        Path(path).write_text(f"{os.getpid()}\n")
    except OSError as error:
        raise OSError(
            error.errno, f"cannot write the pid file {path}: {error.strerror}"
        ) from error
    pid_files.callback(Path(path).unlink, missing_ok=True)


def _run(settings: Settings, flags: tuple[str, ...], pid_files: contextlib.ExitStack) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(settings, flags, pid_files))
    else:
        uvloop.run(_serve(settings, flags, pid_files))


async def _serve(
    settings: Settings, flags: tuple[str, ...], pid_files: contextlib.ExitStack
) -> None:
    server = _server(settings)
    stop = asyncio.Event()
    reloads = Reloads(server, flags, pid_files)
    _on_signals(server, stop, lambda: server.run(reloads.run()))
    log.info("Starting jetspark (%s)", "compiled" if COMPILED else "interpreted")
    log.info("  Version:  %s, as nats-server %s", VERSION, NATS_VERSION)
    log.info("  Name:     %s", server.server_name)
    log.info("  ID:       %s", server.server_id)
    if not settings.jetstream.enabled:
        log.info("  %s", jetstream_off_hint(settings.jetstream.store_dir))
    for warning in [*settings.warnings, *settings.remarks]:
        log.warning("%s", warning)
    async with server:
        # Objects that exist now stay permanently; those per subject and per connection are not
        # worth a collection every 700 objects (hot-path.md, Memory). Without a full pass first,
        # which would find 150 KB of garbage and let the first clients wait for 35 ms, or for 100
        # with 1,000 streams.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        await server.code_loaded()
        gc.freeze()
        gc.enable()
        await stop.wait()
        log.info("Initiating Shutdown...")
    log.info("Server Exiting..")


def jetstream_off_hint(store_dir: str) -> str:
    """The hint if JetStream is off; ``store_dir`` may have been set without effect."""
    idle = f" (nothing is stored in {store_dir})" if store_dir != STORE_DIR_DEFAULT else ""
    return (
        f"JetStream is off{idle}: start with -js, or put 'jetstream {{}}' into the configuration, "
        "to enable streams"
    )


def _server(settings: Settings) -> Server:
    """The requested server: a replica of another, or one with its own streams."""
    server: Server
    if settings.jetspark.replica is None:
        server = Server(config=settings, upstreams=connect_upstream)
    else:
        from jetspark.replica import ReplicaServer

        server = ReplicaServer(config=settings)
    if settings.jetspark.dashboard.enabled:
        from jetspark.dashboard.embedded import add_dashboard

        add_dashboard(server)
    return server


def _on_signals(server: Server, stop: asyncio.Event, reload: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def trap(number: signal.Signals, then: Callable[[], object]) -> None:
        def trapped() -> None:
            log.info('Trapped "%s" signal', signal.strsignal(number))
            then()

        loop.add_signal_handler(number, trapped)

    trap(signal.SIGTERM, stop.set)
    trap(signal.SIGINT, stop.set)
    trap(signal.SIGHUP, reload)
    trap(signal.SIGUSR1, lambda: reopen_log(server.settings))
    trap(signal.SIGUSR2, lambda: server.run(server.enter_lame_duck_mode(stop)))


def made_many() -> bool:
    """Return whether a pass over the newest objects would take long.

    From their count objects that were freed are subtracted, also older ones; a list of them takes
    milliseconds if there are very many.
    """
    return gc.get_count()[0] > MANY_OBJECTS or len(gc.get_objects(generation=0)) > MANY_OBJECTS


class Reloads:
    """Reads the configuration again at every SIGHUP, one after the other."""

    def __init__(
        self, server: Server, flags: tuple[str, ...], pid_files: contextlib.ExitStack
    ) -> None:
        self._server = server
        self._flags = flags
        self._pid_files = pid_files
        # The settings that were read last are also applied last.
        self._running = asyncio.Lock()

    async def run(self) -> None:
        """Read the configuration and apply what can change; all of it or nothing."""
        async with self._running:
            gc.disable()
            try:
                problems = await self._reload()
            except RuntimeError as error:  # a thread cannot be started
                problems = [in_words(error)]
            finally:
                if made_many():
                    # Thousands of accounts stay permanently, like those of the start: a pass over
                    # them would stop all clients for tens of milliseconds.
                    gc.freeze()
                gc.enable()
        for problem in problems:
            log.error("Failed to reload server configuration: %s", problem)

    async def _reload(self) -> list[str]:
        # In a thread: the files may be long, and be on a slow disk.
        asked = await asyncio.to_thread(from_command_line, self._flags, os.environ)
        if not isinstance(asked, Settings):
            return asked.error.splitlines() if isinstance(asked, Exit) else [str(asked)]
        pid_file_before = self._server.settings.pid_file
        try:
            handler = open_log(asked)
            await self._server.reload(asked)
        except (ConfigRefused, MissingExtra, OSError, ssl.SSLError) as error:
            return in_words(error).splitlines()
        set_up_log(asked, handler)
        if asked.pid_file != pid_file_before:
            try:
                _write_pid(asked.pid_file, self._pid_files)
            except OSError as error:
                log.error("%s", in_words(error))  # noqa: TRY400
        log.info("Reloaded server configuration")
        return []
