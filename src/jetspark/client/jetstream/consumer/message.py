"""A message delivered by a consumer, and its acknowledgement (ADR-15, "Ack Handling")."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.ack_subject import (
    DeliveryNumbers,
    MessageMetadata,
    delivery_numbers,
    parse_ack_subject,
)
from jetspark.client.message import Message
from jetspark.client.models.durations import to_wire_ns
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import NoResponders, NotJetStreamMessage
from jetspark.headers.block import decode_headers
from jetspark.headers.headers import Headers
from jetspark.headers.status import NO_RESPONDERS, parse_status

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
TERM: Final = b"+TERM"
IN_PROGRESS: Final = b"+WPI"


class AckLink:
    """How the messages of one consumer are acknowledged; shared by all of them."""

    def __init__(self, core: ClientCore, *, ignored: bool, timeout: float) -> None:
        self.core: Final = core
        # ADR-15: under ack policy "none" requests to send any kind of ack are ignored.
        self.ignored: Final = ignored
        self.timeout: Final = timeout


# Not tracked by the garbage collector, like Message: nothing reachable from a link holds messages
# once the connection is closed.
class JetStreamMessage(msgspec.Struct, eq=False, gc=False):
    """One delivered message. The field order is that of the constructor.

    ``ack``, ``nak`` and ``term`` are final: further acknowledgements are silently ignored; all are
    ignored if the consumer's ack policy is none. They are buffered like a publish; ``ack_sync``
    waits until the server has processed it.
    """

    subject: str
    data: bytes
    reply: str
    header_block: bytes
    _link: AckLink
    # Set for a push consumer, whose reader has parsed them: see numbers_of.
    _numbers: DeliveryNumbers | None = None
    _settled: bool = False

    @property
    def headers(self) -> Headers:
        """The publisher's headers; empty if the message has none."""
        return decode_headers(self.header_block) if self.header_block else Headers()

    @property
    def metadata(self) -> MessageMetadata:
        """Stream, consumer, sequences, time and pending count, parsed from the reply subject."""
        return parse_ack_subject(self.reply)

    @property
    def time(self) -> datetime:
        """When the message was stored in the stream."""
        return self.metadata.time

    @property
    def size(self) -> int:
        """Size of headers and payload in bytes."""
        return len(self.header_block) + len(self.data)

    @property
    def is_settled(self) -> bool:
        """Whether a final acknowledgement was sent."""
        return self._settled

    def ack(self) -> None:
        """Acknowledge the message: it was processed."""
        self._send(ACK, final=True)

    async def ack_sync(self, *, timeout: Timeout | None = None) -> None:
        """Acknowledge and wait until the server has processed it.

        Raises RequestTimeout if no answer arrives (the message may or may not be acknowledged),
        NoResponders if the consumer does not exist, or if the stream accepts no writes after a
        disk error.
        """
        if self._ignored():
            return
        link = self._link
        seconds = call_seconds(timeout, link.timeout)
        answer = await link.core.ask(self.reply.encode(), b"", ACK, seconds)
        if answer.status == NO_RESPONDERS:
            error = NoResponders(self.reply)
            reason = parse_status(answer.header_block)[1].decode(errors="replace")
            error.add_note(
                f"the server reported: {reason}"
                if reason
                else "the consumer was deleted: its messages can no longer be acknowledged"
            )
            raise error
        self._settled = True

    def nak(self, *, delay: float | timedelta = 0.0) -> None:
        """Redeliver the message, at once or after ``delay`` seconds."""
        body = b'-NAK {"delay":%d}' % to_wire_ns(delay, "delay") if delay else NAK
        self._send(body, final=True)

    def term(self, *, reason: str = "") -> None:
        """Never redeliver the message, although it failed; ``reason`` is shown in the advisory."""
        self._send(TERM + b" " + reason.encode() if reason else TERM, final=True)

    def in_progress(self) -> None:
        """Restart the consumer's ack_wait for this message."""
        self._send(IN_PROGRESS, final=False)

    def _send(self, body: bytes, *, final: bool) -> None:
        if self._ignored():
            return
        self._link.core.send_message(self.reply.encode(), b"", b"", body)
        if final:
            # ADR-15: marked after the publish succeeded, so that a failed one can be repeated.
            self._settled = True

    def _ignored(self) -> bool:
        if self._settled or self._link.ignored:
            return True
        if not self.reply.startswith("$JS.ACK."):
            raise NotJetStreamMessage(
                f"message on {self.subject!r} has no $JS.ACK reply subject: it cannot be "
                "acknowledged"
            )
        return False

    def __repr__(self) -> str:
        try:
            found = self.metadata
        except NotJetStreamMessage:
            origin = f"reply={self.reply!r}"
        else:
            again = f", num_delivered={found.num_delivered}" if found.num_delivered > 1 else ""
            origin = f"stream={found.stream!r}, seq={found.stream_seq}{again}"
        settled = ", settled" if self._settled else ""
        # Payloads may be large or secret: log their size only.
        return f"JetStreamMessage(subject={self.subject!r}, {origin}, size={self.size}{settled})"


def is_status(message: Message) -> bool:
    """Whether this is a status of the server, with a code in its first line."""
    return message.header_block[8:9] == b" "


def numbers_of(message: JetStreamMessage) -> DeliveryNumbers:
    """Stream sequence, consumer sequence, time in ns and pending count; parsed once."""
    return message._numbers or delivery_numbers(message.reply)  # noqa: SLF001 - of this module
