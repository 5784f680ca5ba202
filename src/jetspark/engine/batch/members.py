"""Open batches as plain state: atomic ones with their messages, fast ones with counts."""

from typing import Final

from mypy_extensions import i64

# The dialects of fast ingest (decisions.md): by headers (ADR-50), by reply subject (released).
BY_HEADERS: Final = 0
BY_REPLY: Final = 1

# What a message costs in memory besides its bytes: three objects and their places in lists.
MEMBER_OVERHEAD: Final[i64] = 200


def member_size(subject: bytes, block: bytes, body: bytes) -> i64:
    """What a message of an atomic batch takes in memory."""
    return len(subject) + len(block) + len(body) + MEMBER_OVERHEAD


class AtomicBatch:
    """An atomic batch: its messages, in three columns, until the commit decides on them."""

    def __init__(self, batch_id: bytes, messages_max: i64, now: i64) -> None:
        self.batch_id: bytes = batch_id
        self.messages_max: i64 = messages_max
        self.last: i64 = 0
        self.subjects: list[bytes] = []
        self.blocks: list[bytes] = []
        self.bodies: list[bytes] = []
        # What it holds, and what it may hold until the server was asked for more.
        self.size: i64 = 0
        self.granted: i64 = 0
        # No message has a header that the commit has to look at.
        self.plain: bool = True
        self.touched: i64 = now


class FastBatch:
    """A batch of fast ingest: how far it is received, durable and acknowledged."""

    def __init__(self, batch_id: bytes, dialect: i64, gap_ok: bool, now: i64) -> None:
        self.batch_id: bytes = batch_id
        self.dialect: i64 = dialect
        self.gap_ok: bool = gap_ok
        # What the reply subjects have before the batch sequence, or the one reply subject.
        self.head: bytes = b""
        # How often the client wants an ack, and how often it gets one; in bytes if those are > 0.
        self.asked: i64 = 0
        self.asked_bytes: i64 = 0
        self.flow: i64 = 0
        self.flow_bytes: i64 = 0
        # Batch sequences: highest received, durable up to, acknowledged up to.
        self.last: i64 = 0
        self.durable: i64 = 0
        self.acked: i64 = 0
        # The same for bytes, where the flow counts them.
        self.last_bytes: i64 = 0
        self.durable_bytes: i64 = 0
        self.acked_bytes: i64 = 0
        # Stream sequences of its first and last stored message, and of the last durable one.
        self.first_seq: i64 = 0
        self.stored_seq: i64 = 0
        self.durable_seq: i64 = 0
        self.touched: i64 = now
        # Some of it is in the group that fills; in the one on its way; in a record of the log.
        self.listed: bool = False
        self.flying: bool = False
        self.recorded: bool = False
        # It was open when the server stopped; nothing was heard of it since.
        self.resumed: bool = False
        # Its first acknowledgement, which the header dialect owes to the first message.
        self.greeted: bool = False
        self.closed: bool = False
