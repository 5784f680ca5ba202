"""Frames waiting to be written: batched per loop turn, bounded, fed from any thread.

The buffer outlives connections: without one, messages wait for the next, up to a separate limit.
Frames passed to a transport that breaks are lost (core NATS delivers at most once); only whole
frames wait here, so a new connection never starts in the middle of one.
"""

import asyncio
import os
import threading
from typing import Final, Protocol

from jetspark.errors import BufferFull, ConnectionClosed

WRITE_CHUNK_SIZE: Final = 128 * 1024  # a tight publish loop writes when this much is buffered

_MESSAGES: Final = (b"PUB ", b"HPUB ")


class WriteTransport(Protocol):
    """The part of an asyncio transport used for writing; WebSocket framing implements it too."""

    def write(self, data: bytes) -> None:
        """Send, or buffer for sending."""

    def get_write_buffer_size(self) -> int:
        """Bytes buffered for sending."""


class Outgoing:
    """Frames waiting for a transport: those of one loop turn are written together."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, size_max: int, detached_size_max: int
    ) -> None:
        self._loop = loop
        self._size_max = size_max
        self._detached_size_max = detached_size_max
        # The current limit, and the size from which ``send`` checks it.
        self._limit = detached_size_max
        self._check_size = min(WRITE_CHUNK_SIZE, detached_size_max)
        self._label = ""
        self._transport: WriteTransport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._paused = True
        # Frames of other threads wait here until the loop fetches them.
        self._foreign: list[bytes] = []
        self._foreign_size = 0
        self._foreign_lock = threading.Lock()
        self._pid = os.getpid()
        self.bytes_out: int = 0
        self.messages_from_threads: int = 0

    @property
    def size(self) -> int:
        """Bytes waiting, including those in the transport."""
        waiting = self._size + self._foreign_size
        if self._transport is not None:
            waiting += self._transport.get_write_buffer_size()
        return waiting

    def attach(self, transport: WriteTransport, label: str, first: list[bytes]) -> None:
        """Start writing to a new connection: ``first``, then everything that waits."""
        self._transport = transport
        self._label = label
        self._limit = self._size_max
        self._check_size = min(WRITE_CHUNK_SIZE, self._size_max)
        self._paused = False
        self._parts[:0] = first
        self._size += sum(map(len, first))
        self.write()

    def detach(self) -> None:
        """The connection was lost: keep the messages, drop frames meant for it only."""
        self._transport = None
        self._limit = self._detached_size_max
        self._check_size = min(WRITE_CHUNK_SIZE, self._detached_size_max)
        self._paused = True
        self._parts = [frame for frame in self._parts if frame.startswith(_MESSAGES)]
        self._size = sum(map(len, self._parts))

    def clear(self) -> int:
        """Drop everything that waits and return its size. Called when the client closes."""
        lost = self._size + self._foreign_size
        self._parts.clear()
        self._size = 0
        return lost

    def send(self, frame: bytes) -> None:
        """Queue a message.

        Raises BufferFull if the transport is paused or missing and the limit is reached.
        """
        self._size += len(frame)
        if self._size >= self._check_size:
            if not self._paused:
                self._parts.append(frame)
                self.write()
                return
            if self._size > self._limit:
                self._size -= len(frame)
                raise self._full()
        self._parts.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def send_at_once(self, frame: bytes) -> None:
        """Write a message now, unless others wait before it: the caller waits for its answer.

        Waiting for the end of the turn would batch nothing, and adds 3 us to a request.
        """
        transport = self._transport
        if self._parts or self._paused or transport is None:
            self.send(frame)
            return
        self.bytes_out += len(frame)
        transport.write(frame)

    def send_many(self, frames: list[bytes]) -> None:
        """Queue all messages, or raise BufferFull and queue none."""
        size = self._size + sum(map(len, frames))
        if self._paused and size > self._limit:
            raise self._full()
        self._size = size
        self._parts += frames
        if size >= self._check_size and not self._paused:
            self.write()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def send_turn(self, frames: list[bytes]) -> None:
        """Write messages now, after those that wait; the caller enforces a limit."""
        self._parts += frames
        self._size += sum(map(len, frames))
        self.write()

    def send_control(self, frame: bytes) -> None:
        """Queue PING, PONG, SUB and the like, regardless of the limit.

        Without a connection they are dropped: a new one starts with the current subscriptions.
        """
        if self._transport is None:
            return
        self._size += len(frame)
        self._parts.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def send_from_thread(self, frame: bytes) -> None:
        """Queue a message from a thread other than the loop's; order per thread is kept."""
        if os.getpid() != self._pid:
            # A fork has no running loop: nothing would ever send the frame.
            raise ConnectionClosed(
                f"this client was opened in process {self._pid} and cannot be used in its fork "
                f"{os.getpid()}: connect again in the new process"
            )
        with self._foreign_lock:
            size = self._foreign_size + len(frame)
            if self._size + size > self._limit:
                raise self._full()
            self._foreign.append(frame)
            self.messages_from_threads += 1
            first, self._foreign_size = not self._foreign_size, size
        if first:
            self._loop.call_soon_threadsafe(self._take_foreign)

    def pause(self) -> None:
        """The transport's buffer is full: hold back further frames."""
        self._paused = True

    def resume(self) -> None:
        """The transport has room again."""
        if self._transport is not None:
            self._paused = False
            self.write()

    def write(self) -> None:
        """Pass everything to the transport, unless it is paused or missing."""
        transport = self._transport
        if not self._parts or self._paused or transport is None:
            return
        # Joined: asyncio since 3.12 sends each small buffer of writelines separately.
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self.bytes_out += len(data)
        transport.write(data)

    def _write_scheduled(self) -> None:
        self._scheduled = False
        self.write()

    def _take_foreign(self) -> None:
        with self._foreign_lock:
            frames, self._foreign = self._foreign, []
            self._size += self._foreign_size
            self._foreign_size = 0
        self._parts.extend(frames)
        self.write()

    def _full(self) -> BufferFull:
        if self._transport is None:
            return BufferFull(
                f"{self._size} bytes are waiting for a connection "
                f"(reconnect_buffer_bytes={self._limit}): no server is connected now; publish "
                "again after the reconnect"
            )
        return BufferFull(
            f"{self._size} bytes are waiting to be written to {self._label} "
            f"(write_buffer_bytes={self._limit}): the server reads more slowly than this "
            "client publishes; await flush() now and then"
        )
