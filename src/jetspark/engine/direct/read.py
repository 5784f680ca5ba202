"""Answer direct gets from the log: one message, or a batch that goes on over several turns."""

from mypy_extensions import i64

from jetspark.engine.direct.timestamp import TimeText
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.headers.block import append_lines
from jetspark.headers.status import (
    END_OF_BATCH,
    EOB_TEXT,
    MESSAGE_NOT_FOUND_TEXT,
    NOT_FOUND,
    status_block,
)
from jetspark.store.record import (
    FIXED,
    body_end,
    headers_end,
    record_sequence,
    record_time,
    subject_end,
)


class DirectReader:
    """Builds the replies of direct gets; one for all streams of an engine."""

    def __init__(self) -> None:
        self.times: TimeText = TimeText()

    def head_lines(self, stream: Stream, data: bytes, at: i64) -> bytes:
        """The header lines every reply has (ADR-31, response format)."""
        return (
            b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
            % (
                stream.name,
                data[at + FIXED : subject_end(data, at)],
                int(record_sequence(data, at)),
                self.times.format(record_time(data, at)),
            )
        )

    def one(
        self, stream: Stream, seq: i64, no_headers: bool, proof: bytes, to: bytes, outbox: Outbox
    ) -> None:
        """Reply with the message of one sequence, or with 404. ``proof``: ADR-53's header line."""
        data, at = stream.log.locate(seq) if seq > 0 else (b"", i64(0))
        if not data:
            outbox.reply_status(to, status_block(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, proof))
            return
        body = data[headers_end(data, at) : body_end(data, at)]
        if no_headers:
            outbox.reply(to, body)
            return
        block = append_lines(
            data[subject_end(data, at) : headers_end(data, at)],
            self.head_lines(stream, data, at) + proof,
        )
        outbox.now.append((to, to, b"", block, body))


class BatchRead:
    """A batched direct get under way."""

    def __init__(
        self,
        reader: DirectReader,
        stream: Stream,
        outlet: Outlet,
        to: bytes,
        first: i64,
        pattern: bytes,
        batch: i64,
        max_bytes: i64,
        proof: bytes,
    ) -> None:
        self.reader: DirectReader = reader
        self.stream: Stream = stream
        self.outlet: Outlet = outlet
        self.to: bytes = to
        self.proof: bytes = proof
        self.mask: bytes = stream.log.index.mask_for(pattern) if pattern else b""
        self.seq: i64 = stream.log.index.next_seq(first, self.mask)
        # Messages that become durable while the batch runs are not part of it.
        self.pending: i64 = stream.log.index.count_from(self.seq, self.mask) if self.seq else 0
        self.left: i64 = batch
        self.bytes_left: i64 = max_bytes
        self.last_sent: i64 = 0

    def step(self, budget: Budget) -> bool:
        """Send as much as this turn allows; True when the batch is over."""
        index = self.stream.log.index
        while True:
            if self.outlet.gone() or self.stream.dropped:
                return True
            if self.seq == 0 or self.left == 0 or self.bytes_left <= 0 or self.pending == 0:
                self.finish()
                return True
            if self.outlet.full() or not budget.left():
                return False
            data, at = self.stream.log.locate(self.seq)
            if data:
                self.send(data, at, budget)
            self.seq = index.next_seq(self.seq + 1, self.mask)

    def send(self, data: bytes, at: i64, budget: Budget) -> None:
        """Send one message of the batch."""
        self.pending -= 1
        lines = self.reader.head_lines(self.stream, data, at)
        lines += b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (
            int(self.pending),
            int(self.last_sent),
        )
        stored = data[subject_end(data, at) : headers_end(data, at)]
        body = data[headers_end(data, at) : body_end(data, at)]
        self.outlet.write(self.to, b"", append_lines(stored, lines + self.proof), body)
        self.last_sent = self.seq
        self.left -= 1
        size: i64 = subject_end(data, at) - at - FIXED + len(stored) + len(body)
        self.bytes_left -= size
        budget.spend(size)

    def finish(self) -> None:
        """Say that the batch is over; an empty one is a 404 (wire-facts.md 8)."""
        if self.last_sent == 0:
            block = status_block(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, self.proof)
        else:
            lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (
                int(self.pending),
                int(self.last_sent),
            )
            block = status_block(END_OF_BATCH, EOB_TEXT, lines + self.proof)
        self.outlet.write(self.to, b"", block, b"")
