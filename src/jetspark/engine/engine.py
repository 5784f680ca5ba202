"""The engine: the streams of an account, their requests, and what waits for disk or time.

The driver resolves subjects to targets, hands in messages and requests with ``now``, takes the
groups of dirty streams once per loop turn, and reports what became of them. ``next_deadline`` and
``expire`` stand in for timers, ``work`` for reads that need more than one turn.
"""

import errno
from collections.abc import Callable

import msgspec

from jetspark.api.base import encode
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import StreamConfig
from jetspark.engine.direct.gate import Gate, HeldRead
from jetspark.engine.direct.read import BatchRead, DirectReader
from jetspark.engine.direct.request import parse_request
from jetspark.engine.limits import (
    DIRECT_GET_BYTES_MAX,
    HELD_READS_MAX,
    MIN_LAST_SEQ_WAIT_NS,
    READ_BYTES_PER_TURN,
    READ_RECORDS_PER_TURN,
)
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.config import decode_config
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, PUBLISH, REQUEST, Target
from jetspark.headers.names import MIN_LAST_SEQUENCE
from jetspark.headers.status import (
    MIN_LAST_SEQUENCE_TEXT,
    PRECONDITION_FAILED,
    status_block,
)
from jetspark.store.log import Group, StreamLog
from jetspark.store.manifest import Identity
from jetspark.store.store import FileStore
from jetspark.subjects.match import overlaps
from jetspark.subjects.sublist import Sublist

API_PREFIX = b"$JS.API."
DIRECT_PREFIX = b"$JS.API.DIRECT.GET."


class Engine:
    """JetStream for one account."""

    def __init__(
        self,
        store: FileStore,
        *,
        account: str,
        random_id: Callable[[], int],
        min_last_seq_wait_ns: int = MIN_LAST_SEQ_WAIT_NS,
        held_reads_max: int = HELD_READS_MAX,
    ) -> None:
        self.streams: dict[str, Stream] = {}
        self.generation = 0
        self.dirty: list[Stream] = []
        self.work: list[BatchRead] = []
        # Set by the driver: finds the one receiver of a reply subject, or None.
        self.outlet_for: Callable[[bytes], Outlet | None] = lambda _subject: None
        self._store = store
        self._account = account
        self._random_id = random_id
        self._subjects = Sublist()
        self._reader = DirectReader()
        self._gate = Gate(min_last_seq_wait_ns, held_reads_max)

    # Streams -----------------------------------------------------------------------------------

    def adopt(self, log: StreamLog) -> None:
        """Take over a stream that was recovered from the store."""
        config = decode_config(bytes(log.identity.config))
        self._add(Stream(config, log.identity.created_ns, log))

    def create_stream(self, config: StreamConfig, now: int) -> Stream:
        """Make a stream, durably, from a prepared configuration."""
        identity = Identity(
            stream_id=self._random_id(),
            account=self._account,
            name=config.name,
            created_ns=now,
            config=msgspec.Raw(encode(config)),
        )
        stream = Stream(config, now, self._store.create(identity))
        self._add(stream)
        return stream

    def drop_stream(self, stream: Stream) -> None:
        """Remove a stream and all its messages, durably."""
        for subject in stream.config.subjects:
            self._subjects.remove(subject.encode(), b"", stream)
        del self.streams[stream.config.name]
        stream.dropped = True
        self.generation += 1
        self._store.drop(stream.log)

    def overlapping(self, config: StreamConfig) -> Stream | None:
        """Another stream that wants some of the subjects."""
        for stream in self.streams.values():
            for theirs in stream.config.subjects:
                if any(overlaps(theirs.encode(), ours.encode()) for ours in config.subjects):
                    return stream
        return None

    def _add(self, stream: Stream) -> None:
        self.streams[stream.config.name] = stream
        for subject in stream.config.subjects:
            self._subjects.insert(subject.encode(), b"", stream)
        self.generation += 1

    # Messages ----------------------------------------------------------------------------------

    def resolve(self, subject: bytes) -> Target | None:
        """What the engine does with a subject, if anything; good until ``generation`` moves."""
        if subject.startswith(DIRECT_PREFIX):
            name, _, appended = subject[len(DIRECT_PREFIX) :].partition(b".")
            stream = self.streams.get(name.decode(errors="replace"))
            if stream is None or not stream.allow_direct:
                return None
            return Target(DIRECT_GET, stream, appended)
        if subject.startswith(API_PREFIX):
            return Target(REQUEST, None, subject[len(API_PREFIX) :])
        found = self._subjects.match(subject).plain
        if not found:
            return None
        wanting = found[0]
        assert isinstance(wanting, Stream)
        return Target(PUBLISH, wanting, b"")

    def wants_inboxes(self) -> bool:
        """Say whether a stream has subjects that begin with an underscore, as inboxes do."""
        return any(
            subject[0] in "_*>"
            for stream in self.streams.values()
            for subject in stream.config.subjects
        )

    def mark_dirty(self, stream: Stream) -> None:
        """A stream has staged something that the committer should get."""
        if not stream.dirty:
            stream.dirty = True
            self.dirty.append(stream)

    def direct_get(
        self, stream: Stream, appended: bytes, body: bytes, reply: bytes, now: int, outbox: Outbox
    ) -> None:
        """Answer a direct get, now or when its stream is new enough."""
        if not reply:
            return
        request = parse_request(body, appended.decode(errors="replace"))
        if isinstance(request, bytes):
            outbox.reply_status(reply, request)
        elif request.min_last_seq <= stream.log.index.last_seq:
            self._read(stream, request, reply, outbox)
        elif not self._gate.hold(stream, request, reply, now):
            self._refuse_stale(HeldRead(stream, request, reply, now), outbox)

    def _read(self, stream: Stream, request: MsgGetRequest, reply: bytes, outbox: Outbox) -> None:
        index = stream.log.index
        proof = proof_line(stream) if request.min_last_seq else b""
        if request.last_by_subj:
            seq = index.last_match(request.last_by_subj.encode())
            self._reader.one(stream, seq, request.no_hdr, proof, reply, outbox)
            return
        first = request.seq
        if request.start_time is not None:
            first = stream.log.first_at(request.start_time)
        pattern = request.next_by_subj.encode()
        if request.batch <= 0:
            if pattern or request.start_time is not None:
                first = index.next_seq(max(first, 1), index.mask_for(pattern) if pattern else b"")
            self._reader.one(stream, first, request.no_hdr, proof, reply, outbox)
            return
        outlet = self.outlet_for(reply)
        if outlet is None:
            return
        batch = BatchRead(
            self._reader,
            stream,
            outlet,
            reply,
            max(first, 1),
            pattern,
            request.batch,
            request.max_bytes if request.max_bytes > 0 else DIRECT_GET_BYTES_MAX,
            proof,
        )
        self.work.append(batch)

    def _refuse_stale(self, held: HeldRead, outbox: Outbox) -> None:
        block = status_block(PRECONDITION_FAILED, MIN_LAST_SEQUENCE_TEXT, proof_line(held.stream))
        outbox.reply_status(held.reply, block)

    def advance(self) -> bool:
        """Go on with the reads under way, within one turn's budget; True while some remain."""
        if not self.work:
            return False
        budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
        # Rotated, so that one large read does not stop the others.
        turn, self.work = self.work, []
        for done, batch in enumerate(turn):
            if not budget.left():
                self.work = turn[done:] + self.work
                break
            if not batch.step(budget):
                self.work.append(batch)
        return bool(self.work)

    # Commit ------------------------------------------------------------------------------------

    def take_groups(self) -> list[tuple[Stream, Group | OSError]]:
        """The next group of each dirty stream that has none on its way; or why there is none."""
        groups: list[tuple[Stream, Group | OSError]] = []
        waiting = []
        for stream in self.dirty:
            if stream.log.in_flight is not None:
                waiting.append(stream)
                continue
            stream.dirty = False
            try:
                group = stream.take_group()
            except OSError as error:
                groups.append((stream, error))
                continue
            if group is not None:
                groups.append((stream, group))
        self.dirty = waiting
        return groups

    def committed(self, stream: Stream, outbox: Outbox) -> None:
        """The group of a stream is durable: its replies go out and held reads are looked at."""
        if stream.dropped:
            return
        stream.committed(outbox)
        for held in self._gate.released(stream):
            self._read(stream, held.request, held.reply, outbox)

    def failed(self, stream: Stream, error: OSError, outbox: Outbox) -> None:
        """The group of a stream could not be written."""
        if not stream.dropped:
            stream.failed(error.errno in {errno.ENOSPC, errno.EDQUOT}, outbox)

    # Time --------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When ``expire`` has something to do."""
        return self._gate.next_deadline()

    def expire(self, now: int, outbox: Outbox) -> None:
        """Do what is due."""
        for held in self._gate.expired(now):
            self._refuse_stale(held, outbox)

    def close(self) -> None:
        """Close the files of all streams."""
        for stream in self.streams.values():
            stream.log.close()


def proof_line(stream: Stream) -> bytes:
    """The header that proves how far the copy that answers is (decisions.md, ADR-53)."""
    return b"%b: %d\r\n" % (MIN_LAST_SEQUENCE, stream.log.index.last_seq)
