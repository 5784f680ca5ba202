"""A source: messages of another stream with new sequences, labelled with their origin.

The progress of a source is in a record of the log, written with every step, so that a purge of the
stream does not restart the source. Without one, as in a restored stream, it is in the label of the
last message that the source stored.
"""

from xxhash import xxh3_128_hexdigest

from jetspark.api.stream import StreamSource
from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.copy import NOT_FOUND, Copy
from jetspark.engine.replicate.origin import Origin
from jetspark.engine.stream.checks import Judgement
from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.block import append_lines, find_value, remove_header
from jetspark.headers.names import STREAM_SOURCE
from jetspark.ids import name_hash
from jetspark.store.format.record import headers_end, subject_end


class Source(Copy):
    """One of the streams that a stream copies messages from."""

    records_progress = True

    def __init__(self, stream: Stream, source: StreamSource) -> None:
        super().__init__(stream, source)
        dests = [t.dest.encode() or b">" for t in source.subject_transforms]
        # As in released servers: filters and destinations, each joined by form feeds.
        self._which = b"%b %b" % (b"\f".join(self.filters) or b">", b"\f".join(dests) or b">")
        # Streams of one name may be on several servers: labels distinguish them as released
        # servers do.
        where = f":{name_hash(source.external.api)}" if source.external is not None else ""
        self.label: bytes = f"{source.name}{where}".encode()
        self._key = xxh3_128_hexdigest(self.label + b" " + self._which).encode()
        # Where to search for a label next, downwards.
        self._search = -1
        # The last message of the origin that was stored, and the one recorded in the log.
        self._stored = 0
        self._recorded = 0

    def conclude(self) -> None:
        """Record the progress in the log."""
        if self._stored != self._recorded:
            self._recorded = self._stored
            self.stream.log.staged.set_source(self._key, b"%d %b" % (self._stored, self.ident))

    def find_position(self, origin: Origin, budget: Budget) -> int:
        """Determine the progress of the copy; NOT_FOUND if that takes another turn."""
        log = self.stream.log
        known = log.staged.engine_state.sources.get(self._key)
        ident = b""
        if known is not None:
            stored, ident = known.split(b" ")
            self._stored = int(stored)
            self._search = 0
        elif self._search < 0:
            self._stored = 0
            self._search = int(log.index.last_seq)
        while self._search >= max(log.index.first_seq, 1):
            if not budget.left():
                return NOT_FOUND
            label = self._label_of(self._search)
            budget.spend(len(label) + 1)
            self._search -= 1
            words = label.split(b" ")
            if len(words) >= 5 and words[0] == self.label and b" ".join(words[2:4]) == self._which:
                self._stored = int(words[1])
                ident = words[5] if len(words) > 5 else b""
                break
        self._search = -1
        if ident != origin.ident:
            self._stored = 0  # nothing was copied of this one
        self._recorded = self._stored
        return self._stored

    def _label_of(self, seq: int) -> bytes:
        log = self.stream.log
        try:
            data, at = log.reader.locate_in_turn(seq)
        except CorruptRecord:
            return b""
        if not data:
            return b""
        return (
            find_value(data[subject_end(data, at) : headers_end(data, at)], STREAM_SOURCE) or b""
        )

    def lose_position(self) -> None:
        """Determine the progress of the copy again."""
        super().lose_position()
        self._search = -1

    def labelled(self, block: bytes, seq: int, subject: bytes) -> bytes:
        """Return the headers with the label of the origin."""
        if block:
            block = remove_header(block, STREAM_SOURCE)
        label = b"%b: %b %d %b %b %b\r\n" % (
            STREAM_SOURCE, self.label, seq, self._which, subject, self.ident
        )  # fmt: skip
        return append_lines(block, label)

    def prepare(self, seq: int) -> None:
        """Prepare to stage something of this sequence of the origin."""
        self._stored = seq

    def is_duplicate(self, judged: Judgement, now: int) -> bool:
        """Return whether the stream has a message with this id, from any origin or its own.

        As in nats-server if a stream with sources has a window; by default it has none.
        """
        msg_id = judged.headers.msg_id
        if not msg_id or self.stream.rules.window <= 0:
            return super().is_duplicate(judged, now)
        return self.stream.checks.find_duplicate(msg_id, now) > 0

    def stored_position(self) -> int:
        """Return the last message of the origin that was stored."""
        return self._stored
