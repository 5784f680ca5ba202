"""Connections that a worker process keeps between tasks.

Spark reuses its Python workers, so a module-level cache saves the dial and the handshake. One task
at a time uses a connection: it is taken out, checked with a PING, and put back only if no error
occurred. ``jetspark.sync`` refuses a connection inherited by a fork before a byte is sent, so the
PING detects that too.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from jetspark import sync
from jetspark.client.connection.shown import looks_secret
from jetspark.errors import ConnectFailed, Error
from jetspark.spark.connection_advice import ConnectionRefused, advice_for
from jetspark.spark.connection_settings import Connection

# More than one only if a worker alternates between servers; the oldest is closed.
IDLE_MAX: Final = 4

# How long a running query, and a task, waits for a server that does not answer: it restarts, or a
# cluster elects a leader. Spark runs the tasks of ``local[n]`` once: an error that a task does not
# wait out ends the query.
OUTAGE_S: Final = 60.0

# A cached connection whose server does not answer a PING within this time is replaced.
PING_TIMEOUT_S: Final = 2.0


# A name that a shell accepts; anything else may be the credentials themselves.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CredentialsMissing(Error):
    """The credentials named by the options do not exist on this machine."""


class ConnectionCache:
    """Idle connections of this process, by their settings."""

    def __init__(self, connect: Callable[[Connection], sync.Client]) -> None:
        self._connect = connect
        self._idle: list[tuple[Connection, sync.Client]] = []

    @contextlib.contextmanager
    def borrow(self, settings: Connection) -> Iterator[sync.Client]:
        """Lend a working connection; it is closed if the block raises any exception."""
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
    """Open a connection with the options; errors name the options to check."""
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
    """Return the JetStream context of the domain or prefix in the options."""
    return client.jetstream(domain=settings.domain, prefix=settings.api_prefix, timeout=timeout)


@contextlib.contextmanager
def _credentials(settings: Connection) -> Iterator[str]:
    """Lend the path of the credentials file; empty if there is none."""
    if settings.credentials_env:
        held = os.environ.get(settings.credentials_env, "")
        if not held and not _is_variable(settings.credentials_env):
            raise CredentialsMissing(
                "credentialsEnv (not shown) is no name of a variable: expected the name of the "
                "environment variable that holds the credentials, or their path"
            )
        if not held:
            raise CredentialsMissing(
                f"credentialsEnv: the variable {settings.credentials_env!r} is not set in process "
                f"{os.getpid()}: set it for the driver and with spark.executorEnv."
                f"{settings.credentials_env}"
            )
        if "-----BEGIN" not in held:
            yield held
            return
        # The client reads files; this one is private and deleted as soon as it was read.
        with tempfile.NamedTemporaryFile("w", suffix=".creds") as file:
            file.write(held)
            file.flush()
            yield file.name
        return
    path = settings.credentials_file
    if path and not _exists(path):
        path = _distributed(path)
    yield path


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # The error repeats the path: credentials are longer than the name of a file can be.
        return False


def _is_variable(name: str) -> bool:
    return bool(_VARIABLE.fullmatch(name)) and not looks_secret(name)


def _distributed(name: str) -> str:
    """Find a file distributed to this worker by ``SparkContext.addFile``."""
    from pyspark import SparkFiles

    with contextlib.suppress(Exception):  # this directory exists in workers only
        found = Path(SparkFiles.get(Path(name).name))
        if found.exists():
            return str(found)
    if looks_secret(name):
        # Not shown: errors are in logs and in Spark's UI.
        raise CredentialsMissing(
            "credentialsFile has the credentials themselves: expected the path of their file; "
            "for credentials in an environment variable set credentialsEnv to its name"
        )
    raise CredentialsMissing(
        f"credentialsFile: the file {name!r} does not exist here, and none of that name was "
        "distributed with SparkContext.addFile"
    )


def _answers(client: sync.Client) -> bool:
    try:
        client.flush(timeout=PING_TIMEOUT_S)
    except Error:
        _close(client)
        return False
    return True


def _close(client: sync.Client) -> None:
    # It is closed after an error; a failure to close it adds nothing.
    with contextlib.suppress(Error, OSError):
        client.close()


CONNECTIONS: Final = ConnectionCache(connect)
