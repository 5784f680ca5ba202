"""Connections that a worker process keeps from task to task.

Spark reuses its Python workers, so a module-level cache saves the dial and the hand-shake. One
task at a time has a connection: it is taken out, checked with a PING, and put back only when
everything went well. What a fork inherited is refused by ``jetspark.sync`` before a byte is sent,
so the PING sorts that out too.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from jetspark import sync
from jetspark.errors import ConnectFailed, Error
from jetspark.spark.connection_advice import ConnectionRefused, advice_for
from jetspark.spark.connection_settings import Connection

# More than one only when a worker serves queries on several servers by turns; the oldest goes.
IDLE_MAX: Final = 4

# A query that has been running, and a task, waits so long for a server that does not answer: it
# restarts, or a cluster elects a leader. Spark runs the tasks of ``local[n]`` once: what a task
# does not wait for ends the query.
OUTAGE_S: Final = 60.0

# A kept connection whose server does not answer a PING within this is given up for a new one.
PING_TIMEOUT_S: Final = 2.0


class CredentialsMissing(Error):
    """The credentials that the options name are not on this machine."""


class ConnectionCache:
    """Idle connections of this process, by how they were made."""

    def __init__(self, connect: Callable[[Connection], sync.Client]) -> None:
        self._connect = connect
        self._idle: list[tuple[Connection, sync.Client]] = []

    @contextlib.contextmanager
    def borrow(self, settings: Connection) -> Iterator[sync.Client]:
        """Lend a connection that answers; it is closed when the block ends with any exception."""
        client = self._take(settings) or self._connect(settings)
        try:
            yield client
        except BaseException:
            _close(client)
            raise
        self._keep(settings, client)

    def close(self) -> None:
        """Close every idle connection."""
        while self._idle:
            _close(self._idle.pop()[1])

    def _take(self, settings: Connection) -> sync.Client | None:
        for index, (key, client) in enumerate(self._idle):
            if key == settings:
                del self._idle[index]
                return client if _answers(client) else None
        return None

    def _keep(self, settings: Connection, client: sync.Client) -> None:
        self._idle.append((settings, client))
        if len(self._idle) > IDLE_MAX:
            _close(self._idle.pop(0)[1])


def connect(settings: Connection) -> sync.Client:
    """Open a connection with what the options said; errors name the options to look at."""
    try:
        return _connect(settings)
    except ConnectFailed as error:
        advice = advice_for(error, settings)
        if not advice:
            raise
        kind = ConnectionRefused if error.transient else type(error)
        raise kind(f"{error}: {advice}") from error


def _connect(settings: Connection) -> sync.Client:
    with _credentials(settings) as credentials:
        return sync.connect(
            settings.servers,
            name=settings.name,
            user=settings.user,
            password=settings.password,
            token=settings.token,
            nkey_seed=settings.nkey_seed,
            credentials=credentials,
            tls=settings.tls,
            inbox_prefix=settings.inbox_prefix,
            # A task that loses its connection notices at once and borrows another (`_answers`).
            allow_reconnect=False,
        )


def jetstream_of(
    client: sync.Client, settings: Connection, *, timeout: float | None = None
) -> sync.JetStream:
    """Return the JetStream of the domain or prefix that the options name."""
    return client.jetstream(domain=settings.domain, prefix=settings.api_prefix, timeout=timeout)


@contextlib.contextmanager
def _credentials(settings: Connection) -> Iterator[str]:
    """Lend the path of the credentials file; empty when there is none."""
    if settings.credentials_env:
        held = os.environ.get(settings.credentials_env, "")
        if not held:
            raise CredentialsMissing(
                f"credentialsEnv: the variable {settings.credentials_env!r} is not set in process "
                f"{os.getpid()}: set it for the driver and with spark.executorEnv."
                f"{settings.credentials_env}"
            )
        if "-----BEGIN" not in held:
            yield held
            return
        # The client reads files; this one is private and gone as soon as it was read.
        with tempfile.NamedTemporaryFile("w", suffix=".creds") as file:
            file.write(held)
            file.flush()
            yield file.name
        return
    path = settings.credentials_file
    if path and not Path(path).exists():
        path = _distributed(path)
    yield path


def _distributed(name: str) -> str:
    """Find a file that ``SparkContext.addFile`` brought to this worker."""
    from pyspark import SparkFiles

    with contextlib.suppress(Exception):  # outside of a worker there is no such directory
        found = Path(SparkFiles.get(Path(name).name))
        if found.exists():
            return str(found)
    raise CredentialsMissing(
        f"credentialsFile: there is no file {name!r} here, nor one that "
        "SparkContext.addFile brought"
    )


def _answers(client: sync.Client) -> bool:
    try:
        client.flush(timeout=PING_TIMEOUT_S)
    except Error:
        _close(client)
        return False
    return True


def _close(client: sync.Client) -> None:
    # It is given up because it went wrong; that it cannot even be closed adds nothing.
    with contextlib.suppress(Error, OSError):
        client.close()


CONNECTIONS: Final = ConnectionCache(connect)
