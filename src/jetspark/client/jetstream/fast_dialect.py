"""How a message of a fast batch says that it is one: two dialects (decisions.md, "Fast ingest").

``reply``: the reply subject ``<inbox>.<id>.<flow>.<gap>.<seq>.<op>.$FI``, which released servers
speak (2.14). ``headers``: the headers of ADR-50, with a flow in messages or bytes.
"""

from typing import Final, Literal, Protocol

from jetspark.headers.block import append_lines

Gap = Literal["fail", "ok"]

START: Final = 0
APPEND: Final = 1
EOB: Final = 3
PING: Final = 4


class Dialect(Protocol):
    """Marks messages as members of one batch."""

    @property
    def inbox(self) -> str:
        """What to subscribe to for the answers."""

    @property
    def can_ping(self) -> bool:
        """Whether the server can be asked for its last ack."""

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Reply subject and header block of a message."""


class ReplyDialect:
    """Everything stands in the reply subject; messages are stored exactly as sent."""

    def __init__(self, inbox: str, batch_id: str, flow: int, gap: Gap) -> None:
        self._inbox = inbox
        self._prefix = f"{inbox}.{batch_id}.{flow}.{gap}.".encode()

    @property
    def inbox(self) -> str:
        """All sequences and operations."""
        return f"{self._inbox}.>"

    @property
    def can_ping(self) -> bool:
        """Operation 4."""
        return True

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Write sequence and operation into the reply subject."""
        return b"%b%d.%d.$FI" % (self._prefix, seq, operation), block


class HeaderDialect:
    """ADR-50, revision 7: headers, one reply subject for the whole batch."""

    def __init__(self, inbox: str, batch_id: str, flow: str, gap: Gap) -> None:
        self._reply = inbox.encode()
        self._id = b"Nats-Fast-Batch-Id: %b\r\nNats-Batch-Sequence: " % batch_id.encode()
        self._first = b"Nats-Flow: %b\r\nNats-Batch-Gap: %b\r\n" % (flow.encode(), gap.encode())

    @property
    def inbox(self) -> str:
        """The control channel."""
        return self._reply.decode()

    @property
    def can_ping(self) -> bool:
        """The document has no such operation."""
        return False

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Add the headers of the batch."""
        lines = b"%b%d\r\n" % (self._id, seq)
        if operation == START:
            lines += self._first
        elif operation == EOB:
            lines += b"Nats-Batch-Commit: eob\r\n"
        return self._reply, append_lines(block, lines)
