"""A message as a subscriber or requester receives it."""

from typing import Protocol

import msgspec

from jetspark.client.header_input import HeaderInput
from jetspark.errors import InvalidState
from jetspark.headers.block import decode_headers
from jetspark.headers.headers import Headers
from jetspark.headers.status import parse_status


class Publisher(Protocol):
    """The part of the client that a message needs for its reply."""

    def publish(self, subject: str, payload: bytes = b"", *, headers: HeaderInput = None) -> None:
        """Queue a message for the server."""


# Not tracked by the garbage collector, which would traverse all pending messages repeatedly: a
# message refers to its client, but nothing that a closed client holds refers to messages.
class Message(msgspec.Struct, eq=False, gc=False):
    """One message. ``headers`` are decoded on access.

    The field order is that of the constructor, which the receive path calls by position.
    """

    subject: str
    data: bytes
    reply: str = ""
    header_block: bytes = b""
    _publisher: Publisher | None = None

    @property
    def headers(self) -> Headers:
        """The headers; empty if the message has none."""
        return decode_headers(self.header_block) if self.header_block else Headers()

    @property
    def status(self) -> int:
        """Status code of a server response (100, 404, 503, ...); 0 for an ordinary message."""
        return parse_status(self.header_block)[0] if self.header_block else 0

    @property
    def size(self) -> int:
        """Size of headers and payload in bytes: what counts towards ``pending_bytes``."""
        return len(self.header_block) + len(self.data)

    def respond(self, data: bytes = b"", *, headers: HeaderInput = None) -> None:
        """Publish ``data`` to the reply subject; InvalidState if the message has none."""
        if not self.reply:
            raise InvalidState(
                f"message on {self.subject!r} has no reply subject: it was not sent as a request"
            )
        if self._publisher is None:
            raise InvalidState(
                "this message did not come from a connection, so it cannot be answered"
            )
        self._publisher.publish(self.reply, data, headers=headers)

    def __repr__(self) -> str:
        # Payloads may be large or secret: log their size only.
        return f"Message(subject={self.subject!r}, reply={self.reply!r}, size={self.size})"
