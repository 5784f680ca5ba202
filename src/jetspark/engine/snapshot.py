"""STREAM.SNAPSHOT: a stream as an archive, in chunks that the receiver acknowledges.

The receiver has a window: while more than that is unacknowledged, nothing is read, so a slow
receiver costs one part of the archive and no more. Messages that become durable after the start
are not included; messages removed meanwhile may be missing.

Chunks are sent once the deliver subject itself is subscribed to. Tools use a reply inbox for it,
which a wildcard of theirs matches before they listen for chunks, so a wildcard alone starts a
snapshot only after two seconds, as in nats-server.
"""

from typing import Final

from jetspark.api.advisory import ClientInfo, SnapshotComplete
from jetspark.api.base import Timestamp
from jetspark.api.stream import SnapshotRequest, StreamConfig, StreamState
from jetspark.engine.archive import ArchiveWriter, ConsumerLine
from jetspark.engine.outbox import Budget, Outbox
from jetspark.engine.s2 import FRAME_MAX, MAGIC, frame
from jetspark.engine.stream.stream import Stream
from jetspark.engine.wall import Wall
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.status import status_block
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end

ACK_PREFIX: Final = b"$JS.SNAPSHOT.ACK."
CHUNK: Final = 128 * 1024  # these six are nats-server's
CHUNK_MIN: Final = 1024
CHUNK_MAX: Final = 1024 * 1024
WINDOW: Final = 8 * 1024 * 1024
WINDOW_MIN: Final = 1024
WINDOW_MAX: Final = 32 * 1024 * 1024
INTEREST_WAIT_NS: Final = 2_000_000_000
INTEREST_POLL_NS: Final = 20_000_000
FLOW_WAIT_NS: Final = 5_000_000_000
DONE: Final = status_block(204, b"")
NO_INTEREST: Final = status_block(408, b"No Interest")
NO_FLOW: Final = status_block(408, b"No Flow Response")


class Snapshot:
    """A snapshot in progress."""

    def __init__(
        self,
        stream: Stream,
        request: SnapshotRequest,
        config: StreamConfig,
        state: StreamState,
        snapshot_id: str,
        client: ClientInfo | None,
        now: int,
        wall: Wall,
    ) -> None:
        self.stream = stream
        self.deliver: bytes = request.deliver_subject.encode()
        self.chunk: int = clamped(request.chunk_size or CHUNK, CHUNK_MIN, CHUNK_MAX)
        window = clamped(request.window_size or WINDOW, WINDOW_MIN, WINDOW_MAX)
        self.window: int = max(window, self.chunk)
        self.id: bytes = snapshot_id.encode()
        self.deadline: int = now + INTEREST_POLL_NS
        self.over: bool = False
        self._client = client
        self._started = now
        self._wall = wall
        self._next = int(stream.log.index.next_seq(1, b""))
        self._last = int(stream.log.index.last_seq)
        self._consumers = None if request.no_consumers else consumer_lines(stream)
        self._archive = ArchiveWriter()
        # Bytes of the archive that are not framed yet, and those that are.
        self._plain = bytearray(self._archive.head(config, state))
        self._waiting = bytearray(MAGIC)
        self._written = False
        self._sent = 0
        self._owed: dict[int, int] = {}
        self._flowing = False
        # The next message is large and is read in the background.
        self._reading = False

    # Flow --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start sending chunks: there is a subscriber."""
        self._flowing = True
        self.deadline = 0

    @property
    def may_send(self) -> bool:
        """Whether another chunk fits into the window."""
        owed = sum(self._owed.values())
        fits = owed + self.chunk <= self.window
        return self._flowing and not self.over and not self._reading and fits

    def read_later(self, reading: bool) -> None:
        """Set whether the next message is being read in the background."""
        self._reading = reading

    def acknowledged(self, number: int, now: int) -> None:
        """Note that the receiver has a chunk."""
        self._owed.pop(number, None)
        self.deadline = now + FLOW_WAIT_NS if self._owed else 0

    def expire(
        self, now: int, subscribed: bool, listens: bool, outbox: Outbox
    ) -> SnapshotComplete | None:
        """Handle the deadline: no subscriber, or the receiver stopped responding.

        ``subscribed``: to the deliver subject itself; ``listens``: at least by a wildcard.
        """
        if self._flowing:
            return self.end(NO_FLOW, now, outbox)
        late = now >= self._started + INTEREST_WAIT_NS
        if subscribed or (late and listens):
            self.start()
            return None
        if late:
            return self.end(NO_INTEREST, now, outbox)
        self.deadline = now + INTEREST_POLL_NS
        return None

    # Chunks ------------------------------------------------------------------------------------

    def step(self, budget: Budget, now: int, outbox: Outbox) -> SnapshotComplete | None:
        """Send as much as window and budget allow; return the advisory at the end.

        Raises LongRead if the next message is large: it is read in the background.
        """
        while self.may_send:
            if self.stream.dropped:
                return self.end(status_block(500, b"stream was deleted"), now, outbox)
            try:
                if not self._fill(budget):
                    return None
            except (CorruptRecord, ReadFailed) as problem:
                text = problem.public.encode()
                return self.end(status_block(500, text.replace(b"\r\n", b" ")), now, outbox)
            if len(self._waiting) < self.chunk:
                if self._waiting:
                    rest = bytes(self._waiting)
                    outbox.send((self.deliver, self.deliver, b"", b"", rest))
                return self.end(DONE, now, outbox)
            self._send(now, outbox)
        return None

    def _fill(self, budget: Budget) -> bool:
        """Read until there is a chunk, or the end; False if the turn's budget is used up."""
        while len(self._waiting) < self.chunk:
            if not budget.left():
                return False
            if self._plain:
                # In pieces: the checksum of a large message takes longer than a turn may.
                piece = bytes(self._plain[:FRAME_MAX])
                del self._plain[:FRAME_MAX]
                budget.spend(len(piece))
                self._waiting += frame(piece)
            elif self._written:
                break
            elif self._next == 0 or self._next > self._last:
                self._plain += self._archive.finish(self._consumers, self._last)
                self._written = True
            else:
                self._read(budget)
        return True

    def _read(self, budget: Budget) -> None:
        """Add the next message to the archive."""
        log = self.stream.log
        data, at = log.reader.locate_in_turn(self._next)
        if data:
            subject, headers = subject_end(data, at), headers_end(data, at)
            end = body_end(data, at)
            budget.spend(0)  # its bytes are counted when they are framed
            self._plain += self._archive.message(
                self._next,
                int(record_time(data, at)),
                data[at + FIXED : subject],
                data[subject:headers],
                data[headers:end],
            )
        self._next = int(log.index.next_seq(self._next + 1, b""))

    def _send(self, now: int, outbox: Outbox) -> None:
        piece = bytes(self._waiting[: self.chunk])
        del self._waiting[: self.chunk]
        self._sent += 1
        self._owed[self._sent] = len(piece)
        reply = b"%b%b.%b.%d.%d" % (
            ACK_PREFIX,
            self.stream.name,
            self.id,
            len(piece),
            self._sent,
        )
        outbox.send((self.deliver, self.deliver, reply, b"", piece))
        if self.deadline == 0:
            self.deadline = now + FLOW_WAIT_NS

    def end(self, status: bytes, now: int, outbox: Outbox) -> SnapshotComplete:
        """End it: notify the receiver, and return the advisory."""
        self.over = True
        self.deadline = 0
        self._plain.clear()
        self._waiting.clear()
        outbox.send((self.deliver, self.deliver, b"", status, b""))
        return SnapshotComplete(
            stream=self.stream.config.name,
            start=Timestamp(self._wall.at(self._started)),
            end=Timestamp(self._wall.at(now)),
            client=self._client,
        )


def consumer_lines(stream: Stream) -> list[ConsumerLine]:
    """Return the durable consumers of a stream."""
    return [
        ConsumerLine(number, records.document, records.state, list(records.changes))
        for number, records in sorted(stream.log.engine_state.consumers.items())
    ]


def clamped(value: int, least: int, most: int) -> int:
    """Return the value, limited to the bounds."""
    return max(least, min(value, most))
