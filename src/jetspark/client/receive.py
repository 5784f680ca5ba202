"""The receive path: from frames to pending queues. Compiled, and without asyncio.

The parser calls :class:`Receiver` once per message with its frame in the chunk; the receiver
finds the sink of the subscription, and the sink slices only what it keeps. Nothing is scheduled
per message: sinks with a waiting reader ask to be woken, and the driver wakes each once, after the
whole chunk was parsed. Control operations are kept for the driver as well.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from jetspark.client.message import Message, Publisher
from jetspark.frame import Frame
from jetspark.protocol.client_parser import ClientOps

# Kinds of control operations.
INFO: Final = 0
PING: Final = 1
PONG: Final = 2
ERR: Final = 3
VIOLATION: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)  # page collectors of the tests are interpreted
class Sink:
    """The destination of one subscription's messages."""

    def deliver(self, frame: Frame) -> None:
        """Process one message; the frame is reused after the call."""

    def wake(self) -> None:
        """Called after the chunk if the sink asked for it (``Receiver.wake_later``)."""


class Receiver(ClientOps):
    """Passes every message to the sink of its subscription; keeps control operations for later."""

    def __init__(self) -> None:
        self.sinks: dict[int, Sink] = {}
        # Those to wake after the chunk.
        self.woken: list[Sink] = []
        self.messages: i64 = 0
        self.bytes: i64 = 0
        # Control operations of the chunk, in order; the driver handles them after it.
        self.control: list[tuple[int, bytes]] = []

    def add(self, sid: int, sink: Sink) -> None:
        """Deliver the messages of a subscription to ``sink`` from now on."""
        self.sinks[sid] = sink

    def remove(self, sid: int) -> None:
        """Drop further messages of a subscription."""
        self.sinks.pop(sid, None)

    def wake_later(self, sink: Sink) -> None:
        """Wake a sink after the chunk."""
        self.woken.append(sink)

    def take_woken(self) -> list[Sink]:
        """Return the sinks to wake after a chunk."""
        woken = self.woken
        self.woken = []
        return woken

    def take_control(self) -> list[tuple[int, bytes]]:
        """Return the control operations of a chunk."""
        control = self.control
        self.control = []
        return control

    def on_msg(self, frame: Frame) -> None:
        """Deliver to the subscription; messages of unknown subscriptions are dropped."""
        self.messages += 1
        self.bytes += frame.pe - frame.hs
        sink = self.sinks.get(int(frame.sid))
        if sink is not None:
            sink.deliver(frame)

    def on_info(self, body: bytes) -> None:
        """Keep the JSON of an INFO line."""
        self.control.append((INFO, body))

    def on_ping(self) -> None:
        """Keep a PING, which the driver has to answer."""
        self.control.append((PING, b""))

    def on_pong(self) -> None:
        """Keep a PONG, which resolves the oldest flush."""
        self.control.append((PONG, b""))

    def on_err(self, text: bytes) -> None:
        """Keep the text of an -ERR."""
        self.control.append((ERR, text))

    def on_violation(self, text: bytes) -> None:
        """The server violated the protocol: the driver closes the connection."""
        self.control.append((VIOLATION, text))


class MessageQueue(Sink):
    """Pending messages of one subscription, bounded by count and by bytes.

    Messages that do not fit are dropped and counted; the owner is notified once per overflow.
    """

    def __init__(
        self,
        receiver: Receiver,
        publisher: Publisher,
        messages_max: i64,
        bytes_max: i64,
        on_wake: Callable[[], None],
    ) -> None:
        self._receiver = receiver
        self._publisher = publisher
        self._on_wake = on_wake
        self.messages: deque[Message] = deque()
        self.messages_max: i64 = messages_max
        self.bytes_max: i64 = bytes_max
        self.bytes: i64 = 0
        self.delivered: i64 = 0
        self.dropped: i64 = 0
        # Deliveries after which the subscription ends; 0 is never.
        self.delivered_max: i64 = 0
        self.waiting: bool = False
        self.overflowing: bool = False

    def deliver(self, frame: Frame) -> None:
        """Append the message, or drop it if a limit is reached."""
        size: i64 = frame.pe - frame.hs
        self.delivered += 1
        if len(self.messages) >= self.messages_max or self.bytes + size > self.bytes_max:
            self.dropped += 1
            if not self.overflowing:
                self.overflowing = True
                self._receiver.wake_later(self)
        else:
            self.bytes += size
            self.messages.append(read_message(frame, self._publisher))
        if self.waiting or self.delivered == self.delivered_max:
            self.waiting = False
            self._receiver.wake_later(self)

    def take(self) -> Message:
        """Remove and return the oldest pending message; there must be one."""
        message = self.messages.popleft()
        self.bytes -= len(message.header_block) + len(message.data)
        if self.overflowing:
            # Half empty again: the next drop is a new overflow, to be reported again.
            self.overflowing = (
                len(self.messages) * 2 >= self.messages_max or self.bytes * 2 >= self.bytes_max
            )
        return message

    def take_many(self, count: i64) -> list[Message]:
        """Remove and return up to ``count`` pending messages, oldest first."""
        if len(self.messages) <= count:
            taken = list(self.messages)
            self.messages.clear()
            self.bytes = 0
            self.overflowing = False
            return taken
        return [self.take() for _ in range(count)]

    def put(self, messages: list[Message]) -> None:
        """Append messages that were received for another reader; no limit applies to them."""
        self.messages.extend(messages)
        self.bytes += sum(message.size for message in messages)

    def end_after(self, delivered_max: i64) -> None:
        """Wake the owner once this many messages were delivered: the subscription ends then."""
        self.delivered_max = delivered_max

    def wake_on_delivery(self) -> None:
        """Wake the owner when the next message is delivered: a reader waits."""
        self.waiting = True

    def wake(self) -> None:
        """Notify the owner."""
        self._on_wake()


def read_message(frame: Frame, publisher: Publisher) -> Message:
    """Build a message from a frame."""
    return Message(
        str(frame.subject(), "utf-8", "surrogateescape"),
        frame.payload(),
        str(frame.reply(), "utf-8", "surrogateescape") if frame.re > frame.rs else "",
        frame.headers() if frame.ps > frame.hs else b"",
        publisher,
    )
