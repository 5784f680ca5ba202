"""What waits to be written: gathered per loop turn, bounded, fed by any thread."""

import asyncio
import threading
from typing import Final

from jetspark.errors import BufferFull

WRITE_CHUNK_SIZE: Final = 128 * 1024  # a tight publish loop writes when this much has gathered


class Outgoing:
    """Frames on their way to a transport: everything of one loop turn is written at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size_max: int, label: str) -> None:
        self._loop = loop
        self._size_max = size_max
        self._label = label
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._paused = False
        # Frames of other threads wait here until the loop takes them.
        self._foreign: list[bytes] = []
        self._foreign_size = 0
        self._foreign_lock = threading.Lock()
        self.bytes_out = 0

    @property
    def size(self) -> int:
        """Bytes that wait, those inside the transport included."""
        waiting = self._size + self._foreign_size
        if self._transport is not None:
            waiting += self._transport.get_write_buffer_size()
        return waiting

    def set_transport(self, transport: asyncio.Transport | None) -> None:
        """Where the bytes go; None when the connection is gone."""
        self._transport = transport

    def send(self, frame: bytes) -> None:
        """Queue a message.

        Raises BufferFull when the transport is paused and the limit is reached.
        """
        self._size += len(frame)
        if self._size >= WRITE_CHUNK_SIZE:
            if not self._paused:
                self._parts.append(frame)
                self.write()
                return
            if self._size > self._size_max:
                self._size -= len(frame)
                raise self._full()
        self._parts.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def send_control(self, frame: bytes) -> None:
        """Queue PING, PONG, SUB and the like, which no limit applies to."""
        self._size += len(frame)
        self._parts.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def send_from_thread(self, frame: bytes) -> None:
        """Queue a message from a thread other than the loop's; order per thread is kept."""
        with self._foreign_lock:
            size = self._foreign_size + len(frame)
            if self._size + size > self._size_max:
                raise self._full()
            self._foreign.append(frame)
            first, self._foreign_size = not self._foreign_size, size
        if first:
            self._loop.call_soon_threadsafe(self._take_foreign)

    def pause(self) -> None:
        """The transport has enough: keep further frames here."""
        self._paused = True

    def resume(self) -> None:
        """The transport has room again."""
        self._paused = False
        self.write()

    def write(self) -> None:
        """Give everything to the transport, unless it is paused or gone."""
        transport = self._transport
        if not self._parts or self._paused or transport is None:
            return
        # Joined: asyncio since 3.12 sends each small buffer of writelines apart (clients.md 3).
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
        return BufferFull(
            f"{self._size} bytes wait to be written to {self._label} "
            f"(write_buffer_bytes={self._size_max}): the server reads more slowly than this "
            "client publishes; await flush() from time to time"
        )
