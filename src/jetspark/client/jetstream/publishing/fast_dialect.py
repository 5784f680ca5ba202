"""The two dialects that mark a message as part of a fast batch.

``reply``: the reply subject ``<inbox>.<id>.<flow>.<gap>.<seq>.<op>.$FI``, which released servers
support (2.14). ``headers``: the headers of ADR-50, with a flow in messages or bytes.
"""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from jetspark.errors import PayloadTooLarge
from jetspark.headers.block import append_lines
from jetspark.protocol.encoder import encode_hpub

Gap = Literal["fail", "ok"]

START: Final = 0
APPEND: Final = 1
EOB: Final = 3
PING: Final = 4

FRAMES_SIZE: Final = 256 * 1024  # bytes encoded before they are passed to the connection


class Dialect(Protocol):
    """Marks messages as members of one batch."""

    @property
    def inbox(self) -> str:
        """The subject to subscribe to for the answers."""

    @property
    def can_ping(self) -> bool:
        """Whether the server can be asked for its last ack."""

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Reply subject and header block of a message."""

    def frames(
        self,
        seq: int,
        subjects: Sequence[bytes],
        blocks: Sequence[bytes],
        payloads: Sequence[bytes],
        size_max: int,
    ) -> list[bytes]:
        """Messages after the first, starting at ``seq``, as frames of about ``FRAMES_SIZE`` bytes.

        Raises PayloadTooLarge for a message that exceeds ``size_max`` with its headers.
        """


class ReplyDialect:
    """Everything is in the reply subject; messages are stored exactly as sent."""

    def __init__(self, inbox: str, batch_id: str, flow: int, gap: Gap) -> None:
        self._inbox = inbox
        self._prefix = f"{inbox}.{batch_id}.{flow}.{gap}.".encode()

    @property
    def inbox(self) -> str:
        """All sequences and operations."""
        return f"{self._inbox}.>"

    @property
    def can_ping(self) -> bool:
        """Yes: operation 4."""
        return True

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Write sequence and operation into the reply subject."""
        return b"%b%d.%d.$FI" % (self._prefix, seq, operation), block

    def frames(
        self,
        seq: int,
        subjects: Sequence[bytes],
        blocks: Sequence[bytes],
        payloads: Sequence[bytes],
        size_max: int,
    ) -> list[bytes]:
        """Encoded in one loop: this is the cost per row of ``extend``."""
        frames: list[bytes] = []
        prefix, total = self._prefix, 0
        for subject, block, payload in zip(subjects, blocks, payloads, strict=True):
            size = len(block) + len(payload)
            if size > size_max:
                raise PayloadTooLarge(size, size_max)
            if block:
                frames.append(
                    b"HPUB %b %b%d.1.$FI %d %d\r\n%b%b\r\n"
                    % (subject, prefix, seq, len(block), size, block, payload)
                )
            else:
                frames.append(
                    b"PUB %b %b%d.1.$FI %d\r\n%b\r\n" % (subject, prefix, seq, size, payload)
                )
            seq += 1
            total += size
            if total > FRAMES_SIZE:
                break
        return frames


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
        """No: the ADR has no such operation."""
        return False

    def mark(self, seq: int, operation: int, block: bytes) -> tuple[bytes, bytes]:
        """Add the headers of the batch."""
        lines = b"%b%d\r\n" % (self._id, seq)
        if operation == START:
            lines += self._first
        elif operation == EOB:
            lines += b"Nats-Batch-Commit: eob\r\n"
        return self._reply, append_lines(block, lines)

    def frames(
        self,
        seq: int,
        subjects: Sequence[bytes],
        blocks: Sequence[bytes],
        payloads: Sequence[bytes],
        size_max: int,
    ) -> list[bytes]:
        """Each frame has the headers of the batch."""
        frames: list[bytes] = []
        total = 0
        for subject, block, payload in zip(subjects, blocks, payloads, strict=True):
            reply, marked = self.mark(seq + len(frames), APPEND, block)
            size = len(marked) + len(payload)
            if size > size_max:
                raise PayloadTooLarge(size, size_max)
            frames.append(encode_hpub(subject, reply, marked, payload))
            total += size
            if total > FRAMES_SIZE:
                break
        return frames


def make_dialect(
    kind: Literal["reply", "headers"],
    inbox: str,
    batch_id: str,
    flow: int,
    flow_bytes: int,
    gap: Gap,
) -> Dialect:
    """The dialect of a batch; ValueError if it is unknown."""
    if gap not in {"fail", "ok"}:
        raise ValueError(f'gap={gap!r}: expected "fail" or "ok"')
    if kind == "headers":
        return HeaderDialect(inbox, batch_id, f"{flow_bytes}B" if flow_bytes else str(flow), gap)
    if kind != "reply":
        raise ValueError(f'dialect={kind!r}: expected "reply" or "headers"')
    if flow_bytes:
        raise ValueError('flow_bytes requires dialect="headers": released servers count messages')
    return ReplyDialect(inbox, batch_id, flow, gap)
