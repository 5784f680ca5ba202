"""What a client gets: its output, its subscriptions, and what was counted on the way.

Output is collected here while a chunk is worked on and written by the driver once, at its end.
"""

from collections.abc import Callable
from typing import Any

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.protocol.limits import PENDING_MAX
from jetspark.server.auth.permissions import Permissions


class Traffic:
    """What went through: counted for monitoring, per server, per account and per client."""

    def __init__(self) -> None:
        self.in_msgs: i64 = 0
        self.in_bytes: i64 = 0
        self.out_msgs: i64 = 0
        self.out_bytes: i64 = 0


class Pending:
    """The receivers that have output, each once."""

    def __init__(self) -> None:
        self.receivers: list[Receiver] = []

    def take(self) -> "list[Receiver]":
        """Hand them out and begin with none."""
        taken = self.receivers
        self.receivers = []
        return taken


class Receiver:
    """What one client gets."""

    def __init__(self, pending: Pending) -> None:
        self.out: BytesWriter = BytesWriter()
        # Output before that, with the payloads of large messages, which are not copied.
        self.parts: list[bytes] = []
        self.parts_size: i64 = 0
        self.traffic: Traffic = Traffic()
        self.echo: bool = True
        self.headers: bool = False
        # The transport's buffer is full: runs of messages wait, everything else still goes.
        self.paused: bool = False
        self.permissions: Permissions | None = None
        # Whether each message must be looked at before it may go there.
        self.guarded: bool = False
        # The driver's own object for this connection.
        self.connection: Any = None
        # More output than this is not kept: one message for very many subscriptions of one client
        # is more than it may have waiting before the chunk is at its end.
        self.out_max: i64 = PENDING_MAX
        self.overflowed: bool = False
        # Whether the driver knows already that there is output.
        self.listed: bool = False
        self._pending: Pending = pending

    def guard(self, permissions: Permissions | None) -> None:
        """Let it have only what these permissions allow; None allows everything."""
        self.permissions = permissions
        self.guarded = permissions is not None

    def wake(self) -> None:
        """Have the driver look at this receiver at the end of the chunk."""
        if not self.listed:
            self.listed = True
            self._pending.receivers.append(self)

    def queue(self, data: bytes) -> None:
        """Queue protocol bytes."""
        self.out.write(data)
        if not self.listed:
            self.wake()

    def write_large(self, payload: bytes) -> None:
        """Put a large payload after the output, as it is."""
        head = self.out.getvalue()
        self.out = BytesWriter()
        self.parts.append(head)
        self.parts.append(payload)
        self.parts_size += len(head) + len(payload)

    def size(self) -> i64:
        """How much output there is."""
        return self.parts_size + len(self.out)

    def overflow(self) -> None:
        """Forget the output: it is more than the client may have waiting, and is not sent."""
        self.out = BytesWriter()
        self.parts = []
        self.parts_size = 0
        self.overflowed = True
        self.wake()

    def end(self) -> None:
        """The connection ends: nothing more is kept for it, and nobody is a receiver there."""
        self.overflowed = True
        self.guarded = True

    def take_parts(self) -> list[bytes]:
        """What was queued before large payloads, and these; ``take_output`` has the rest."""
        parts = self.parts
        self.parts = []
        self.parts_size = 0
        return parts

    def take_output(self) -> bytes:
        """What was queued since the last time."""
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
        # Called when the last message it asked for was delivered.
        self.on_done: Callable[[Subscription], None] | None = None

    def check_done(self) -> None:
        """End it when the last message it asked for was delivered."""
        done = self.on_done
        if done is not None and self.delivered >= self.max_msgs and not self.closed:
            done(self)
