"""Open batches: atomic ones with their messages, fast ones with counts."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.headers import PublishHeaders

# The dialects of fast ingest: by headers (ADR-50), by reply subject (released servers).
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

    def add(
        self, headers: PublishHeaders, subject: bytes, block: bytes, body: bytes, now: i64
    ) -> None:
        """Take the next message; ``headers`` are what its block says."""
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
        self.subjects.append(subject)
        self.blocks.append(block)
        self.bodies.append(body)
        self.last += 1
        self.touched = now
        self.size += member_size(subject, block, body)

    def grant(self, size: i64) -> None:
        """Let it hold more."""
        self.granted += size


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
        self.in_flight: bool = False
        self.recorded: bool = False
        # It was open when the server stopped; nothing was heard of it since.
        self.resumed: bool = False
        # Its first acknowledgement, which the header dialect owes to the first message.
        self.greeted: bool = False
        self.closed: bool = False

    def move(self, head: bytes) -> None:
        """Its publisher listens somewhere else from now on."""
        self.head = head

    def set_flow(self, flow: i64) -> None:
        """Acknowledge so often from now on: in bytes if the client counts them."""
        if self.asked_bytes > 0:
            self.flow_bytes = flow
        else:
            self.flow = flow

    def touch(self, now: i64) -> None:
        """It was used at a time."""
        self.touched = now

    def take_resumed(self) -> bool:
        """Say whether this is the first that is heard of it since the server started."""
        resumed = self.resumed
        self.resumed = False
        return resumed

    def enlist(self) -> None:
        """Some of it is in the group that fills."""
        self.listed = True

    def group_taken(self) -> None:
        """What was in the group that fills is on its way; the log has a record if it is open."""
        self.listed = False
        self.in_flight = True
        self.recorded = self.recorded or not self.closed

    def close(self) -> None:
        """It takes no more messages."""
        self.closed = True

    def take_recorded(self) -> bool:
        """Say whether the log has a record of it that is to be taken back."""
        recorded = self.recorded
        self.recorded = False
        return recorded

    def appended(self, number: i64, stored_seq: i64, now: i64) -> None:
        """The message of a batch sequence was staged."""
        self.stored_seq = stored_seq
        self.last = number
        self.touched = now

    def stored(self, number: i64, stored_seq: i64, size: i64) -> None:
        """The message of a batch sequence was staged, after a closer look at it."""
        self.last = number
        self.last_bytes += size
        self.stored_seq = stored_seq
        if self.first_seq == 0:
            self.first_seq = stored_seq

    def bridge(self, number: i64) -> None:
        """Messages up to a batch sequence are missing, and the one after it came."""
        self.last = number

    def passed(self, number: i64) -> None:
        """A batch sequence has no message; when nothing is on its way, it is settled."""
        self.last = number
        if not self.listed and not self.in_flight:
            self.durable = number

    def landed(self, last: i64, size: i64, seq: i64) -> None:
        """The group that carried it up to here is durable."""
        self.in_flight = False
        # Sequences without a message need no disk: they are settled with those before them.
        self.durable = last if self.listed else self.last
        self.durable_bytes = size
        self.durable_seq = seq

    def fall_back(self) -> None:
        """What is not durable is gone."""
        self.listed = False
        self.in_flight = False
        self.last = self.durable
        self.last_bytes = self.durable_bytes
        self.stored_seq = self.durable_seq

    def acknowledge(self) -> bool:
        """Acknowledge what is durable if the flow says so; say whether it does."""
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
        """Header dialect: the first message is acknowledged whatever the flow is."""
        if self.greeted or self.dialect == BY_REPLY or self.durable < 1:
            return False
        self.greeted = True
        return True

    def reply_subject(self) -> bytes:
        """Where an acknowledgement goes: the reply subject of the last durable message."""
        if self.dialect != BY_REPLY:
            return self.head
        op = b"0" if self.durable == 1 else b"1"
        return self.head + b"%d.%b.$FI" % (int(self.durable), op)
