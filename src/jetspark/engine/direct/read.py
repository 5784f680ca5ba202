"""Answers direct gets from the log: one message, or a run of them over several turns."""

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import SEARCHING, Cursor
from jetspark.engine.direct.pages import Page
from jetspark.engine.direct.timestamp import TimeText
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.block import append_lines
from jetspark.headers.numbers import write_number
from jetspark.headers.status import (
    END_OF_BATCH,
    EOB_TEXT,
    MESSAGE_NOT_FOUND_TEXT,
    NO_RESPONDERS,
    NOT_FOUND,
    SERVER_ERROR,
    status_block,
)
from jetspark.store.format.record import (
    FIXED,
    LARGE,
    body_end,
    headers_end,
    record_sequence,
    record_time,
    subject_end,
)
from jetspark.store.log.long_read import LongRead
from jetspark.store.log.pattern_search import UNKNOWN, LastSearch, NextSearch

# A record that the disk returned damaged; its neighbours are served.
UNREADABLE_TEXT: Final = b"Message Could Not Be Read"

_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_BLANK: Final = 0x20
_COMMA: Final = 0x2C
_COLON: Final = 0x3A
_ZERO: Final = 0x30
_NINE: Final = 0x39
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D
_DELETE: Final = 0x7F
_DIGITS_MAX: Final = 18  # any number with this many digits fits 64 signed bits


class Selection:
    """The few selections that nearly every request uses, parsed without a JSON parser."""

    def __init__(self) -> None:
        self.seq: i64 = 0
        self.last_by: bytes = b""
        self.next_by: bytes = b""

    def parse(self, body: bytes) -> bool:
        """Parse ``{"seq":N}``, ``{"last_by_subj":"S"}``, ``{"next_by_subj":"S"[,"seq":N]}``.

        False for everything else, valid or not: the slow parser decides.
        """
        self.seq = 0
        self.last_by = b""
        self.next_by = b""
        end: i64 = len(body)
        if end < 9 or body[0] != _OPEN or body[end - 1] != _CLOSE:
            return False
        at: i64 = 1
        while True:
            if body[at : at + 6] == b'"seq":':
                at = self.number(body, at + 6)
            elif body[at : at + 16] == b'"last_by_subj":"' and not self.last_by:
                stop = simple_text_end(body, at + 16)
                if stop < 0:
                    return False
                self.last_by = body[at + 16 : stop]
                at = stop + 1
            elif body[at : at + 16] == b'"next_by_subj":"' and not self.next_by:
                stop = simple_text_end(body, at + 16)
                if stop < 0:
                    return False
                self.next_by = body[at + 16 : stop]
                at = stop + 1
            else:
                return False
            if at == end - 1:
                break
            if at <= 0 or at >= end or body[at] != _COMMA:
                return False
            at += 1
        if self.last_by:
            return self.seq == 0 and not self.next_by
        return self.seq > 0 or len(self.next_by) > 0

    def number(self, body: bytes, at: i64) -> i64:
        """Parse a plain positive number into ``seq``; return its end, -1 if there is none."""
        start = at
        end: i64 = len(body)
        value: i64 = 0
        while at < end and _ZERO <= body[at] <= _NINE:
            value = value * 10 + body[at] - _ZERO
            at += 1
        if at == start or at - start > _DIGITS_MAX or body[start] == _ZERO or self.seq != 0:
            return -1
        self.seq = value
        return at


def simple_text_end(body: bytes, at: i64) -> i64:
    """Return the end of a JSON string of printable ASCII without escapes; -2 for any other."""
    end: i64 = len(body)
    start = at
    while at < end:
        char: i64 = body[at]
        if char == _QUOTE:
            return at if at > start else -2
        if char == _BACKSLASH or char <= _BLANK or char >= _DELETE:
            return -2
        at += 1
    return -2


class DirectReader:
    """Builds the replies of direct gets; one for all streams of an engine."""

    def __init__(self) -> None:
        self.times: TimeText = TimeText()
        self.selection: Selection = Selection()
        self.out: BytesWriter = BytesWriter()
        # The first lines of a reply, cached for the stream that was read last.
        self.name: bytes = b""
        self.head: bytes = b""

    def quick(
        self, stream: Stream, appended: bytes, body: bytes, to: bytes, outbox: Outbox
    ) -> bool:
        """Answer a request of one of the common forms; False: it is another one, or takes long."""
        index = stream.log.index
        wanted = self.selection
        seq: i64
        if appended:
            if body:
                return False
            seq = index.quick_last(appended)
        elif not wanted.parse(body):
            return False
        elif wanted.last_by:
            seq = index.quick_last(wanted.last_by)
        elif wanted.next_by:
            seq = index.quick_next(max(wanted.seq, i64(1)), wanted.next_by)
        else:
            seq = wanted.seq
        if seq == UNKNOWN:
            return False
        return self.one(stream, seq, False, b"", to, outbox)

    def begin(self, stream: Stream, data: bytes, at: i64) -> BytesWriter:
        """Write the headers of a reply, the user's and those of every reply (ADR-31).

        More lines may follow; ``end_block`` ends it.
        """
        if stream.name is not self.name:
            self.name = stream.name
            self.head = b"Nats-Stream: " + stream.name + b"\r\nNats-Subject: "
        out = self.out
        out.truncate(0)
        middle = subject_end(data, at)
        end = headers_end(data, at)
        if end == middle:
            out.write(b"NATS/1.0\r\n")
        else:
            out.write(append_lines(data[middle:end], b"")[:-2])
        out.write(self.head)
        out.write(data[at + FIXED : middle])
        out.write(b"\r\nNats-Sequence: ")
        write_number(out, record_sequence(data, at))
        out.write(b"\r\nNats-Time-Stamp: ")
        self.times.write(out, record_time(data, at))
        out.write(b"\r\n")
        return out

    def one(
        self, stream: Stream, seq: i64, no_headers: bool, proof: bytes, to: bytes, outbox: Outbox
    ) -> bool:
        """Reply with the message of one sequence, or with 404. ``proof``: ADR-53's header line.

        False: it takes too long to read here (``OneRead``).
        """
        try:
            data, at = stream.log.reader.locate_in_turn(seq) if seq > 0 else (b"", i64(0))
        except LongRead:
            return False
        except (CorruptRecord, ReadFailed):
            outbox.reply_status(to, status_block(SERVER_ERROR, UNREADABLE_TEXT, proof))
            return True
        if not data:
            outbox.reply_status(to, status_block(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, proof))
            return True
        end = headers_end(data, at)
        stop = body_end(data, at)
        block = bare_block(proof) if no_headers else end_block(self.begin(stream, data, at), proof)
        if stop - end < LARGE:
            outbox.send((to, to, b"", block, data[end:stop]))
        else:
            outbox.reply_part(to, block, data, end, stop)
        return True


def end_block(out: BytesWriter, lines: bytes) -> bytes:
    """End a block of headers with these lines."""
    out.write(lines)
    out.write(b"\r\n")
    return out.getvalue()


def bare_block(proof: bytes) -> bytes:
    """Return the block of a reply without headers: only the proof, if any."""
    return b"NATS/1.0\r\n" + proof + b"\r\n" if proof else b""


class Run:
    """Several messages for one request, sent as fast as the receiver accepts them."""

    def __init__(
        self,
        reader: DirectReader,
        stream: Stream,
        outlet: Outlet,
        to: bytes,
        max_bytes: i64,
        proof: bytes,
        no_headers: bool,
    ) -> None:
        self.reader: DirectReader = reader
        self.stream: Stream = stream
        self.outlet: Outlet = outlet
        self.to: bytes = to
        self.proof: bytes = proof
        self.no_headers: bool = no_headers
        self.pending: i64 = 0
        self.bytes_left: i64 = max_bytes
        self.last_sent: i64 = 0
        # The large message that was read in the background for this run.
        self.was_read: LongRead | None = None

    def note_read(self, read: LongRead) -> None:
        """Note that a large message was read: the next step continues with it."""
        self.was_read = read

    def take_read(self) -> LongRead | None:
        """Return the large message that was read in the background, once."""
        read = self.was_read
        self.was_read = None
        return read

    def step(self, budget: Budget) -> bool:
        """Send as much as this turn allows; True when the run is over.

        Raises LongRead or LongEncoding, and is called again when that was done.
        """
        raise NotImplementedError

    def send(self, data: bytes, at: i64, budget: Budget) -> None:
        """Send one message of the run."""
        self.pending -= 1
        end = headers_end(data, at)
        stop = body_end(data, at)
        if self.no_headers:
            block = bare_block(self.proof)
        else:
            out = self.reader.begin(self.stream, data, at)
            self.write_counts(out)
            block = end_block(out, self.proof)
        if stop - end < LARGE:
            self.outlet.write(self.to, b"", block, data[end:stop])
        else:
            self.outlet.write_part(self.to, b"", block, data, end, stop)
        self.last_sent = record_sequence(data, at)
        size: i64 = stop - at - FIXED
        self.bytes_left -= size
        budget.spend(size)

    def is_wanted(self) -> bool:
        """Return whether the receiver is connected and the stream exists."""
        return not (self.stream.dropped or self.outlet.gone())

    def is_lost(self) -> bool:
        """Return whether the receiver disconnected, or the stream was deleted (answered here)."""
        if self.outlet.gone():
            return True
        if self.stream.dropped:
            self.status(NO_RESPONDERS, b"", b"")  # as if it were requested now
        return self.stream.dropped

    def write_counts(self, out: BytesWriter) -> None:
        """Write how many messages are left after this one, and the sequence sent before it."""
        out.write(b"Nats-Num-Pending: ")
        write_number(out, self.pending)
        out.write(b"\r\nNats-Last-Sequence: ")
        write_number(out, self.last_sent)
        out.write(b"\r\n")

    def status(self, code: int, text: bytes, lines: bytes) -> None:
        """End the run with a status."""
        self.outlet.write(self.to, b"", status_block(code, text, lines), b"")


class OneRead(Run):
    """A read of one message that takes more than a turn.

    It is searched for in steps unless its ``seq`` is known. A direct get, or with ``body_of`` a
    STREAM.MSG.GET: that returns the reply for a sequence, and ``dropped`` is the reply if the
    stream is deleted.
    """

    def __init__(
        self,
        reader: DirectReader,
        stream: Stream,
        outlet: Outlet,
        to: bytes,
        proof: bytes,
        last: LastSearch | None,
        next_: NextSearch | None,
        body_of: Callable[[int], bytes] | None = None,
        dropped: bytes = b"",
        *,
        no_headers: bool = False,
        seq: int = UNKNOWN,
    ) -> None:
        super().__init__(reader, stream, outlet, to, 0, proof, no_headers)
        self._seq: i64 = seq
        self._body_of: Callable[[int], bytes] | None = body_of
        self._dropped: bytes = dropped
        self._last: LastSearch | None = last
        self._next: NextSearch | None = next_

    def step(self, budget: Budget) -> bool:
        """Search as far as this turn allows; True when the message was sent."""
        if self.stream.dropped and self._dropped:
            self.outlet.write(self.to, b"", b"", self._dropped)
            return True
        if self.is_lost():
            return True
        if self._seq == UNKNOWN:
            self._seq = self.search()
        if self._seq == UNKNOWN:
            budget.exhaust()
            return False
        self.found(self._seq, budget)
        return True

    def search(self) -> i64:
        """Return the message, 0 if there is none, UNKNOWN: the search continues."""
        if self._next is not None:
            return self._next.step()
        last = self._last
        if last is None:
            return 0
        return last.last if last.step() else UNKNOWN

    def found(self, seq: i64, budget: Budget) -> None:
        """Send the message of a sequence, or that there is none."""
        body_of = self._body_of
        if body_of is not None:
            body = body_of(int(seq))
            if len(body) < LARGE:
                self.outlet.write(self.to, b"", b"", body)
            else:
                self.outlet.write_part(self.to, b"", b"", body, 0, len(body))
            budget.spend(len(body))
            return
        data, at = self.stream.log.reader.locate_in_turn(seq) if seq > 0 else (b"", i64(0))
        if data:
            self.send(data, at, budget)
        else:
            self.status(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, self.proof)

    def write_counts(self, out: BytesWriter) -> None:
        """Write nothing: it is no part of a run."""


class BatchRead(Run):
    """A batched direct get in progress."""

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
        no_headers: bool,
    ) -> None:
        super().__init__(reader, stream, outlet, to, max_bytes, proof, no_headers)
        index = stream.log.index
        # With a pattern: where the batch is, once its messages are counted.
        self.page: Page | None = None
        self.counted: bool = False
        # Messages that become durable while the batch runs are not part of it: ``pending``.
        self.seq: i64 = 0
        if len(pattern) > 0:
            self.page = stream.pages.take(pattern, first)
        else:
            self.seq = index.next_seq(first, b"")
            self.pending: i64 = index.count_from(self.seq, b"") if self.seq else i64(0)
        self.batch: i64 = batch
        self.left: i64 = batch

    def step(self, budget: Budget) -> bool:
        """Send as much as this turn allows; True when the batch is over."""
        if not self.counted and not self.count(budget):
            return self.is_lost()
        page = self.page
        index = self.stream.log.index
        while True:
            if self.is_lost():
                return True
            if self.seq == 0 or self.left <= 0 or self.bytes_left <= 0 or self.pending == 0:
                self.finish()
                return True
            if self.outlet.full() or not budget.left():
                return False
            if page is not None and self.seq == SEARCHING:
                self.find_next(page.cursor)
                if self.seq == SEARCHING:
                    budget.exhaust()
                    return False
                continue
            data, at = self.stream.log.reader.locate_in_turn(self.seq)
            if data:
                self.send(data, at, budget)
                self.left -= 1
            if page is None:
                self.seq = index.next_seq(self.seq + 1, b"")
            else:
                page.cursor.advance(self.seq)
                self.find_next(page.cursor)

    def count(self, budget: Budget) -> bool:
        """Count what matches, as far as this turn allows; True when that is known."""
        page = self.page
        if page is not None:
            if not page.cursor.count_some():
                budget.exhaust()
                return False
            self.pending = page.cursor.catch_up()
            self.find_next(page.cursor)
        self.counted = True
        return True

    def find_next(self, cursor: Cursor) -> None:
        """Find the next message; 0 if none is left, SEARCHING if that takes more than a turn."""
        self.seq = cursor.peek() if self.pending > 0 else 0

    def finish(self) -> None:
        """Send the end of the batch; an empty one is a 404 (wire.md, Direct get)."""
        if self.seq == 0:
            self.pending = 0  # the rest may have been deleted meanwhile
        if self.page is not None:
            self.stream.pages.keep(self.page)
        if self.last_sent == 0 and self.batch > 0:
            self.status(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, self.proof)
        else:
            lines = BytesWriter()
            self.write_counts(lines)
            lines.write(self.proof)
            self.status(END_OF_BATCH, EOB_TEXT, lines.getvalue())
