"""Connections that a worker process keeps from task to task (spark.md 1.3 and 6.1).

Spark reuses its Python workers, so a module-level cache saves the dial and the hand-shake. One
task at a time has a connection: it is taken out, checked with a PING, and put back only when
everything went well. What a fork inherited is refused by ``jetspark.sync`` before a byte is sent,
so the PING sorts that out too.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from jetspark import sync
from jetspark.errors import Error
from jetspark.spark.options import Connection

# More than one only when a worker serves queries on several servers by turns; the oldest goes.
IDLE_MAX: Final = 4

# A kept connection whose server does not answer a PING within this is given up for a new one.
PING_TIMEOUT_S: Final = 2.0


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
    """Open a connection with what the options said."""
    return sync.connect(
        settings.servers,
        name=settings.name,
        user=settings.user,
        password=settings.password,
        token=settings.token,
        # A task that loses its connection is told at once and borrows another (`_answers`).
        allow_reconnect=False,
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
