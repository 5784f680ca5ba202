"""Reads of a connection: one buffer for all of them, and the common case of a chunk.

Called by the transport for every read. With thousands of connections that send one message at a
time, this is what a message costs besides the system calls, so it is compiled (hot-path.md, Loop
and sockets). Large reads, TLS and traces are the connection's (``connection.py``).
"""

from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import i64

from jetspark.server.net.busy_poll import CHUNK_MAX, BusyPoll
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.flusher import Flusher
from jetspark.turn import Turn

# A large read is processed in pieces: the output of one piece for each receiver stays below the
# size from which malloc maps fresh pages, which cost more than everything else (bench: fan-out
# 1:10 takes 2.3 us of CPU per message with pieces of 256 KiB, 1.8 with 64, 1.5 with 48).
CHUNK: Final = 48 * 1024
# How much is read from a client when large reads have used up the turn: it only waits for another
# turn, and tens of thousands of clients may send large messages at the same time.
CROWDED_MAX: Final = 16 * 1024
# The size from which a payload that is not complete is counted.
HELD_MIN: Final[i64] = 16 * 1024


class Reading(Protocol):
    """The connection, as the reader of its chunks calls it."""

    def read_chunk(self, nbytes: int) -> None:
        """Process a read that is not plain or not small."""

    def wait_for_turn(self) -> None:
        """Continue in another turn of the loop."""

    def stall(self) -> None:
        """Pause this publisher: a receiver cannot keep up."""

    def note_input(self) -> None:
        """Count input that is kept: a payload that is not complete."""


class ChunkReader:
    """``plain`` says that chunks are parsed as they arrive: without TLS and trace."""

    def __init__(
        self,
        connection: Reading,
        client: ConnectedClient,
        buffer: "memoryview[int]",
        now_ns: Callable[[], int],
        flusher: Flusher,
        busy_poll: BusyPoll | None,
    ) -> None:
        self.plain: bool = True
        self._connection: Reading | None = connection
        self._client: ConnectedClient = client
        self._buffer: memoryview[int] = buffer
        self._small: memoryview[int] = buffer[:CROWDED_MAX]
        self._turn: Turn = client.router.turn
        self._now_ns: Callable[[], int] = now_ns
        self._flusher: Flusher = flusher
        self._busy_poll: BusyPoll | None = busy_poll
        # Bound once: it is needed for every chunk.
        self._pause: Callable[[], None] = client.pause

    def get_buffer(self, sizehint: int) -> "memoryview[int]":  # noqa: ARG002 - always the same
        """Return one buffer for all connections: a chunk is processed before the next read.

        Only a part of it if the input would just wait for another turn.
        """
        return self._small if self._turn.crowded else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse one chunk and write the resulting output."""
        connection = self._connection
        if connection is None:
            return
        size: i64 = nbytes
        if size > CHUNK_MAX or not self.plain:
            connection.read_chunk(nbytes)
            return
        client = self._client
        client.on_read(self._now_ns())
        turn = client.router.turn
        turn.begin(self._pause)
        client.parser.feed(bytes(self._buffer[:nbytes]))
        behind = self._flusher.flush(client.router)
        turn.end()
        if client.parser.held() > HELD_MIN:
            connection.note_input()
        if client.paused:
            connection.wait_for_turn()
        if behind:
            connection.stall()
        elif self._busy_poll is not None:
            self._busy_poll.on_chunk()

    def pass_through(self, plain: bool) -> None:
        """Parse chunks as they arrive, or leave all of them to the connection."""
        self.plain = plain

    def close(self) -> None:
        """Break reference cycles: nothing is read any more."""
        self._connection = None
