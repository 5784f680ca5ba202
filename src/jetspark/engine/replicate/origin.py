"""The origin of a copy: a stream of the same account, or one of a remote server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from xxhash import xxh3_64_intdigest

from jetspark.api.enums import Retention
from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.long_work import LongCut
from jetspark.engine.replicate.copy_interest import CopyInterest
from jetspark.engine.replicate.upstream import Chunk, Feed, Newest
from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.ids import short_id
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.log.long_read import LONG_READ

# A message of an origin: sequence, time, subject, headers, body. The body ends with CRLF, as in
# records; a large one is empty, and in pieces that no one has to copy. A plain tuple: there is
# one for each copied message.
Row = tuple[int, int, bytes, bytes, bytes, list[bytes]]
_WHOLE: Final[list[bytes]] = []


class Origin(Protocol):
    """A stream as one copy reads it. ``ident`` distinguishes it from others with its name."""

    @property
    def ident(self) -> bytes:
        """Its identity; empty while the stream does not exist, or is unknown."""

    @property
    def error(self) -> bytes:
        """Why it cannot be reached, as the body of an error."""

    @property
    def diverged(self) -> bool:
        """Whether it has other messages under sequences that were copied."""

    def begin(self, position: int, start_time_ns: int, newest: Newest) -> int:
        """Read what follows a sequence, or from a time on if that is not 0.

        Returns the sequence after which it really reads, as far as known.
        """

    def after(self, position: int) -> Row | None:
        """Return the next message after a sequence that was read; None if there is none now.

        Raises LongRead, LongCut, ReadFailed.
        """

    def looked_at(self) -> int:
        """Return up to which sequence nothing is left, when ``after`` found nothing."""

    def lag(self, shown: int, unshown: int) -> int:
        """Return how many messages are still to be copied.

        ``shown`` is the last sequence whose copy is durable, ``unshown`` how many were copied
        after it.
        """

    def contact_ns(self, now: int) -> int:
        """Return when anything was last received from it; 0: never."""

    def stored(self, position: int) -> None:
        """Note that everything up to a sequence is durable in the copy."""

    def close(self, *, for_good: bool) -> None:
        """Stop reading."""


class LocalOrigin:
    """A stream of the same account."""

    error: Final = b""
    diverged: Final = False

    def __init__(
        self, stream: Stream, filters: list[bytes], released: Callable[[Stream], None]
    ) -> None:
        self.stream = stream
        self.interest: CopyInterest | None = None
        self._filters = filters
        self._released = released
        self._cursor = Cursor(stream.log.index, filters)
        # The last large body that was needed.
        self._cut: LongCut | None = None
        self.ident: Final = short_id(stream.log.identity.stream_id).encode()

    def begin(self, position: int, start_time_ns: int, newest: Newest) -> int:  # noqa: ARG002
        """Read what follows a sequence, or from a time on."""
        if start_time_ns:
            return int(self.stream.log.reader.first_at(start_time_ns)) - 1
        return position

    def after(self, position: int) -> Row | None:
        """Return the next message after a sequence."""
        while True:
            seq = int(self._cursor.find(position + 1))
            if seq == 0:
                return None
            try:
                data, at = self.stream.log.reader.locate_in_turn(seq)
            except CorruptRecord:
                # It is lost and the origin reports it itself (quarantine): nothing to copy.
                position = seq
                continue
            start, head, end = subject_end(data, at), headers_end(data, at), body_end(data, at)
            time_ns = int(record_time(data, at))
            block = data[start:head] if head > start else b""
            subject = data[at + FIXED : start]
            if end - head < LONG_READ:
                return seq, time_ns, subject, block, data[head : end + 2], _WHOLE
            return seq, time_ns, subject, block, b"", self._pieces(seq, data, int(head), int(end))

    def _pieces(self, seq: int, data: bytes, start: int, end: int) -> list[bytes]:
        """Return a large body in pieces; raises LongCut until it was cut, ReadFailed."""
        cut = self._cut
        if cut is None or cut.seq != seq or cut.problem:
            self._cut = LongCut(seq, data, start, end + 2)
            if cut is not None and cut.seq == seq:
                raise ReadFailed(seq, cut.problem)
            raise self._cut
        if not cut.pieces:
            raise cut
        return cut.pieces

    def looked_at(self) -> int:
        """Return up to which sequence nothing is left."""
        return int(self.stream.log.index.last_seq)

    def lag(self, shown: int, _unshown: int) -> int:
        """Return how many messages are still to be copied."""
        return int(self._cursor.count(shown + 1, self.stream.log.index.last_seq))

    def contact_ns(self, now: int) -> int:
        """Return now: a stream of the same server is always reachable."""
        return now

    def keep(self, run_queue: RunQueue) -> None:
        """Make the stream keep what is not copied yet, if it would remove it."""
        lasting = self.stream.config.retention == Retention.LIMITS
        if lasting and self.interest is not None:
            self.interest.end()
            self.interest = None
        elif not lasting and self.interest is None:
            self.interest = CopyInterest(self.stream, self._filters, run_queue)

    def stored(self, position: int) -> None:
        """Note that everything up to a sequence is durable in the copy."""
        if self.interest is not None and self.interest.stored(position):
            self._released(self.stream)

    def close(self, *, for_good: bool) -> None:  # noqa: ARG002 - nothing is kept either way
        """Stop reading."""
        if self.interest is not None:
            self.interest.end()
            self.interest = None


class RemoteOrigin:
    """A stream of another server, read through a feed.

    Rows that the copy could not accept yet wait here, so that a copy that stalls in the middle of
    a chunk continues there.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._chunk: Chunk | None = None
        self._at = 0
        self._through = 0

    @property
    def ident(self) -> bytes:
        """Its identity: when the stream was created; a server reports nothing better."""
        origin = self._feed.origin
        if origin is None:
            return b""
        known = b"%b %d" % (origin.config.name.encode(), origin.created_ns)
        return short_id(xxh3_64_intdigest(known)).encode()

    @property
    def error(self) -> bytes:
        """Why it cannot be reached."""
        return self._feed.error

    @property
    def diverged(self) -> bool:
        """Whether it has other messages under sequences that were copied."""
        return self._feed.diverged

    def begin(self, position: int, start_time_ns: int, newest: Newest) -> int:
        """Read what follows a sequence, or from a time on."""
        self._chunk = None
        self._through = position
        self._feed.start(position + 1, start_time_ns, newest)
        return position

    def after(self, position: int) -> Row | None:
        """Return the next received message after a sequence."""
        while True:
            chunk = self._chunk
            if chunk is None:
                chunk = self._chunk = self._feed.take()
                self._at = 0
                if chunk is None:
                    return None
            sequences = chunk.sequences
            at = self._at
            # What was copied before is never copied again, even if it is sent twice.
            while at < len(sequences) and sequences[at] <= position:
                at += 1
            self._at = at
            if at < len(sequences):
                body, pieces = chunk.payloads[at], _WHOLE
                if len(body) < LONG_READ:
                    body += b"\r\n"
                else:
                    body, pieces = b"", [body, b"\r\n"]
                subject, headers = chunk.subjects[at], chunk.headers[at]
                return sequences[at], chunk.times[at], subject, headers, body, pieces
            self._through = max(self._through, chunk.through)
            self._chunk = None

    def looked_at(self) -> int:
        """Return up to which sequence nothing is left."""
        return self._through

    def lag(self, _shown: int, unshown: int) -> int:
        """Return how many messages are still to be copied."""
        waiting = len(self._chunk) - self._at if self._chunk is not None else 0
        return self._feed.lag + waiting + unshown

    def contact_ns(self, _now: int) -> int:
        """Return when anything was last received from it."""
        return self._feed.contact_ns

    def stored(self, position: int) -> None:
        """Note that everything up to a sequence is durable in the copy."""
        self._feed.stored(position)

    def close(self, *, for_good: bool) -> None:
        """Stop reading."""
        self._feed.close(for_good=for_good)
