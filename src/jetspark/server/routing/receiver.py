"""The receiving side of a client: its output, its subscriptions, and its counts.

Output is collected here while a chunk is processed, and written by the driver once, at its end.
"""

from collections.abc import Callable
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.protocol.limits import PENDING_MAX
from jetspark.server.auth.permissions import Permissions


class Traffic:
    """Traffic counts for monitoring, per server, per account and per client."""

    def __init__(self) -> None:
        self.in_msgs: i64 = 0
        self.in_bytes: i64 = 0
        self.out_msgs: i64 = 0
        self.out_bytes: i64 = 0


class Pending:
    """The receivers that have output, each once."""

    def __init__(self) -> None:
        self.receivers: list[Receiver] = []

    def flush(self) -> bool:
        """Write the output of all of them; True if a client cannot keep up."""
        taken = self.receivers
        if len(taken) == 0:
            return False
        self.receivers = []
        behind = False
        for receiver in taken:
            try:
                if receiver.flush():
                    behind = True
            except Exception as error:  # noqa: BLE001 - one connection
                receiver.connection.fail(error)
        return behind


# A part keeps the data that it is a part of alive if that is at most this many times as large.
_KEPT_PER_PART: Final[i64] = 2


class Receiver:
    """The receiving side of one client."""

    def __init__(self, pending: Pending) -> None:
        self.out: BytesWriter = BytesWriter()
        # Output before that, with the payloads of large messages, which are not copied.
        self.parts: list[bytes | memoryview] = []
        self.parts_size: i64 = 0
        self.traffic: Traffic = Traffic()
        self.echo: bool = True
        self.headers: bool = False
        # The transport's buffer is full: runs of messages wait, everything else is still sent.
        self.paused: bool = False
        self.permissions: Permissions | None = None
        # Whether each message must be checked before it is delivered.
        self.guarded: bool = False
        # The driver's own object for this connection.
        self.connection: Any = None
        # Where output goes while nothing else has to be done with it (TLS, trace, closing);
        # None: the connection does it.
        self.transport: Any = None
        # How many bytes were given to the transport.
        self.given: i64 = 0
        # More output than this is not kept: one message for very many subscriptions of one client
        # may exceed its limit before the chunk is finished.
        self.out_max: i64 = PENDING_MAX
        self.overflowed: bool = False
        # Whether the driver already knows that there is output.
        self.listed: bool = False
        self._pending: Pending = pending

    def attach(self, connection: Any, out_max: i64) -> None:
        """Set the driver's object for this connection, and how much output is kept for it."""
        self.connection = connection
        self.out_max = out_max

    def detach(self) -> None:
        """Break the reference cycle with the driver's object: the connection ended."""
        self.connection = None

    def write_to(self, transport: Any) -> None:
        """Write output to the transport directly; None: the connection does it."""
        self.transport = transport

    def negotiate(self, echo: bool, headers: bool) -> None:
        """Apply the options of CONNECT."""
        self.echo = echo
        self.headers = headers

    def guard(self, permissions: Permissions | None) -> None:
        """Set the permissions of deliveries; None allows everything."""
        self.permissions = permissions
        self.guarded = permissions is not None

    def wake(self) -> None:
        """Let the driver flush this receiver at the end of the chunk."""
        if not self.listed:
            self.listed = True
            self._pending.receivers.append(self)

    def queue(self, data: bytes) -> None:
        """Queue protocol bytes."""
        self.out.write(data)
        if not self.listed:
            self.wake()

    def is_full(self) -> bool:
        """Return whether the transport takes no more; a write changes that."""
        return self.paused

    def pause(self) -> None:
        """Hold runs of messages: the transport takes no more."""
        self.paused = True

    def resume(self) -> None:
        """Allow runs of messages again: the transport has taken the waiting output."""
        self.paused = False

    def count_given(self, size: i64) -> None:
        """Count output that the connection gave to the transport."""
        self.given += size

    def flush(self) -> bool:
        """Write the output in one call; True if the client cannot keep up."""
        transport = self.transport
        if transport is None or self.paused or self.overflowed or self.parts_size > 0:
            return bool(self.connection.flush())
        data = self.out.getvalue()
        self.out = BytesWriter()
        self.listed = False
        if len(data) > 0 and not transport.is_closing():
            self.given += len(data)
            transport.write(data)
            if self.is_full():
                # By this write: the connection sees how much waits for the client.
                return bool(self.connection.flush())
        return False

    def write_large(self, data: bytes, start: i64, stop: i64) -> None:
        """Append a large part of ``data`` to the output, without a copy if it is most of it.

        A small part would keep memory that is not counted as output of the client.
        """
        head = self.out.getvalue()
        self.out = BytesWriter()
        self.parts.append(head)
        if (stop - start) * _KEPT_PER_PART < len(data):
            self.parts.append(data[start:stop])
        else:
            self.parts.append(memoryview(data)[start:stop])
        self.parts_size += len(head) + stop - start

    def size(self) -> i64:
        """Return the size of the output."""
        return self.parts_size + len(self.out)

    def overflow(self) -> None:
        """Drop the output: it exceeds the limit of the client, and is not sent."""
        self.out = BytesWriter()
        self.parts = []
        self.parts_size = 0
        self.overflowed = True
        self.wake()

    def end(self) -> None:
        """Stop: the connection is closing, and nothing more is queued for it."""
        self.overflowed = True
        self.guarded = True

    def take_parts(self) -> list[bytes | memoryview]:
        """Return large payloads and what was queued before them; ``take_output`` has the rest."""
        parts = self.parts
        self.parts = []
        self.parts_size = 0
        return parts

    def take_output(self) -> bytes:
        """Return what was queued since the last call."""
        data = self.out.getvalue()
        self.out = BytesWriter()
        self.listed = False
        return data


class Subscription:
    """One SUB of one client."""

    def __init__(self, receiver: Receiver, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.receiver: Receiver = receiver
        self.subject: bytes = subject
        self.queue: bytes = queue
        self.sid: bytes = sid
        self.delivered: i64 = 0
        self.max_msgs: i64 = 0
        self.closed: bool = False
        # Called when the last requested message was delivered.
        self.on_done: Callable[[Subscription], None] | None = None

    def end_after(self, max_msgs: i64, on_done: "Callable[[Subscription], None]") -> None:
        """Call ``on_done`` once ``max_msgs`` messages were delivered since SUB."""
        self.max_msgs = max_msgs
        self.on_done = on_done

    def close(self) -> None:
        """Note that it has ended."""
        self.closed = True

    def count(self) -> None:
        """Count a delivery; end it if that was the last message requested."""
        self.delivered += 1
        if self.max_msgs > 0:
            self.check_done()

    def check_done(self) -> None:
        """End it if the last requested message was delivered."""
        done = self.on_done
        if done is not None and self.delivered >= self.max_msgs and not self.closed:
            done(self)
