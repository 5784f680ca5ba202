"""Open batches: atomic ones with their messages, fast ones with counts."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.headers import PublishHeaders
from jetspark.headers.block import append_lines
from jetspark.headers.names import BATCH_COMMIT
from jetspark.subjects.tokens import is_literal

# The dialects of fast ingest: by headers (ADR-50), by reply subject (released servers).
BY_HEADERS: Final = 0
BY_REPLY: Final = 1

# The memory overhead of a message: three objects and their entries in lists.
MEMBER_OVERHEAD: Final[i64] = 200


def member_size(subject: bytes, block: bytes, body: bytes) -> i64:
    """Return the memory use of a message of an atomic batch."""
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
        # Its size, and how much it may have before it must ask the server for more.
        self.size: i64 = 0
        self.granted: i64 = 0
        # No message has a header that the commit has to check.
        self.plain: bool = True
        # The patterns whose last messages the commit has to know.
        self.patterns: set[bytes] = set()
        self.touched: i64 = now

    def add(
        self, headers: PublishHeaders, subject: bytes, block: bytes, body: bytes, now: i64
    ) -> None:
        """Append the next message; ``headers`` are those of its block."""
        if self.plain and (
            len(headers.msg_id) > 0
            or len(headers.rollup) > 0
            or len(headers.ttl) > 0
            or len(headers.incr) > 0
            or headers.scheduling
            or len(headers.stream_source) > 0
            or headers.expects_anything()
        ):
            self.plain = False
        if len(headers.expected_subject) > 0 and not is_literal(headers.expected_subject):
            self.patterns.add(headers.expected_subject)
        self.subjects.append(subject)
        self.blocks.append(block)
        self.bodies.append(body)
        self.last += 1
        self.touched = now
        self.size += member_size(subject, block, body)

    def grant(self, size: i64) -> None:
        """Let it use more memory."""
        self.granted += size

    def commit_with_last(self) -> None:
        """Store the last message as if it had committed the batch itself (ADR-50)."""
        self.blocks[-1] = append_lines(self.blocks[-1], BATCH_COMMIT + b": 1\r\n")


class FastBatch:
    """A batch of fast ingest: up to where it is received, durable and acknowledged."""

    def __init__(
        self,
        batch_id: bytes,
        dialect: i64,
        gap_ok: bool,
        head: bytes,
        asked: i64,
        asked_bytes: i64,
        now: i64,
    ) -> None:
        self.batch_id: bytes = batch_id
        self.dialect: i64 = dialect
        self.gap_ok: bool = gap_ok
        # The part of the reply subjects before the batch sequence, or the one reply subject.
        self.head: bytes = head
        # The requested ack interval, and the current one; in bytes if those are > 0.
        self.asked: i64 = asked
        self.asked_bytes: i64 = asked_bytes
        self.flow: i64 = 0
        self.flow_bytes: i64 = 0
        # Batch sequences: highest received, durable up to, acknowledged up to.
        self.last: i64 = 0
        self.durable: i64 = 0
        self.acked: i64 = 0
        # The same for bytes, if the flow counts them.
        self.last_bytes: i64 = 0
        self.durable_bytes: i64 = 0
        self.acked_bytes: i64 = 0
        # Stream sequences of its first and last stored message, and of the last durable one.
        self.first_seq: i64 = 0
        self.stored_seq: i64 = 0
        self.durable_seq: i64 = 0
        self.touched: i64 = now
        # Some of it is in the open group; in the one in flight; in a record of the log.
        self.listed: bool = False
        self.in_flight: bool = False
        self.recorded: bool = False
        # It was open when the server stopped; no message arrived since.
        self.resumed: bool = False
        # Its first acknowledgement, which the header dialect requires for the first message.
        self.greeted: bool = False
        self.closed: bool = False

    def resume(self, last: i64, first_seq: i64, stored_seq: i64) -> None:
        """Continue a batch that was open when the server stopped; all that it has is durable."""
        self.last = self.durable = self.acked = last
        self.first_seq = first_seq
        self.stored_seq = self.durable_seq = stored_seq
        self.resumed = self.recorded = self.greeted = True

    def move(self, head: bytes) -> None:
        """Change the reply subject of its publisher."""
        self.head = head

    def set_flow(self, flow: i64) -> None:
        """Set the ack interval: in bytes if the client counts them."""
        if self.asked_bytes > 0:
            self.flow_bytes = flow
        else:
            self.flow = flow

    def touch(self, now: i64) -> None:
        """Set when it was last used."""
        self.touched = now

    def take_resumed(self) -> bool:
        """Return whether this is its first message since the server started."""
        resumed = self.resumed
        self.resumed = False
        return resumed

    def enlist(self) -> None:
        """Note that some of it is in the open group."""
        self.listed = True

    def group_taken(self) -> None:
        """Note that its messages are in flight; the log has a record if it is open."""
        self.listed = False
        self.in_flight = True
        self.recorded = self.recorded or not self.closed

    def close(self) -> None:
        """Close it: it accepts no more messages."""
        self.closed = True

    def take_recorded(self) -> bool:
        """Return whether the log has a record of it that must be removed."""
        recorded = self.recorded
        self.recorded = False
        return recorded

    def appended(self, number: i64, stored_seq: i64, now: i64) -> None:
        """Note that the message of a batch sequence was staged."""
        self.stored_seq = stored_seq
        self.last = number
        self.touched = now

    def stored(self, number: i64, stored_seq: i64, size: i64) -> None:
        """Note that the message of a batch sequence was staged, after the full checks."""
        self.last = number
        self.last_bytes += size
        self.stored_seq = stored_seq
        if self.first_seq == 0:
            self.first_seq = stored_seq

    def bridge(self, number: i64) -> None:
        """Note that messages up to a batch sequence are missing, and the next one arrived."""
        self.last = number

    def passed(self, number: i64) -> None:
        """Note a batch sequence without a message; if nothing is in flight, it is settled."""
        self.last = number
        if not self.listed and not self.in_flight:
            self.durable = number

    def landed(self, last: i64, size: i64, seq: i64) -> None:
        """Note that its group is durable up to here."""
        self.in_flight = False
        # Sequences without a message need no disk: they are settled with those before them.
        self.durable = last if self.listed else self.last
        self.durable_bytes = size
        self.durable_seq = seq

    def fall_back(self) -> None:
        """Forget what is not durable."""
        self.listed = False
        self.in_flight = False
        self.last = self.durable
        self.last_bytes = self.durable_bytes
        self.stored_seq = self.durable_seq

    def acknowledge(self) -> bool:
        """Acknowledge what is durable if the flow requires it; return whether it does."""
        if self.flow_bytes > 0:
            if self.durable_bytes - self.acked_bytes < self.flow_bytes:
                return False
            self.acked_bytes = self.durable_bytes
            self.acked = self.durable
        else:
            steps = (self.durable - self.acked) // self.flow
            if steps < 1:
                return False
            # One ack for all of them: it covers those before it (ADR-50, lost acks).
            self.acked += steps * self.flow
        self.greeted = True
        return True

    def greet(self) -> bool:
        """Return whether the first message is still to be acknowledged (header dialect)."""
        if self.greeted or self.dialect == BY_REPLY or self.durable < 1:
            return False
        self.greeted = True
        return True

    def reply_subject(self) -> bytes:
        """Return the subject of an acknowledgement: that of the last durable message."""
        if self.dialect != BY_REPLY:
            return self.head
        op = b"0" if self.durable == 1 else b"1"
        return self.head + b"%d.%b.$FI" % (int(self.durable), op)
