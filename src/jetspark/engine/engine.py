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
from jetspark.engine.direct import message_get
from jetspark.engine.direct.gate import Gate
from jetspark.engine.direct.multi import MultiRead
from jetspark.engine.direct.read import BatchRead, DirectReader, Run
from jetspark.engine.direct.request import LEVEL_TOO_LOW, needs_newer, parse_request
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
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.names import MIN_LAST_SEQUENCE
from jetspark.headers.status import (
    MIN_LAST_SEQUENCE_TEXT,
    NO_RESULTS_TEXT,
    NOT_FOUND,
    PRECONDITION_FAILED,
    SERVER_ERROR,
    status_block,
)
from jetspark.store.log import Group, StreamLog
from jetspark.store.manifest import Identity, write_manifests
from jetspark.store.store import FileStore
from jetspark.subjects.match import overlaps
from jetspark.subjects.sublist import Sublist

API_PREFIX = b"$JS.API."
DIRECT_PREFIX = b"$JS.API.DIRECT.GET."
# A record that the disk gave back damaged; its neighbours are served (reliability.md 2).
UNREADABLE_TEXT = b"Message Could Not Be Read"
UNREADABLE = status_block(SERVER_ERROR, UNREADABLE_TEXT)


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
        self.work: list[Run] = []
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

    def update_stream(self, stream: Stream, config: StreamConfig) -> None:
        """Give a stream another configuration, durably; raises OSError when the disk refuses."""
        log = stream.log
        identity = msgspec.structs.replace(log.identity, config=msgspec.Raw(encode(config)))
        write_manifests(log.files, log.folder, identity)
        log.identity = identity
        for subject in stream.config.subjects:
            self._subjects.remove(subject.encode(), b"", stream)
        stream.config = config
        stream.allow_direct = config.allow_direct
        for subject in config.subjects:
            self._subjects.insert(subject.encode(), b"", stream)
        self.generation += 1

    def find(self, name: str) -> StreamConfig | None:
        """The configuration of a stream of the account."""
        stream = self.streams.get(name)
        return None if stream is None else stream.config

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
            if stream.config.name == config.name:
                continue
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
        self,
        stream: Stream,
        appended: bytes,
        body: bytes,
        reply: bytes,
        now: int,
        outbox: Outbox,
        headers: bytes = b"",
    ) -> None:
        """Answer a direct get, now or when its stream is new enough."""
        if not reply:
            return
        if headers and needs_newer(headers):
            outbox.reply_status(reply, LEVEL_TOO_LOW)
            return
        try:
            if self._reader.quick(stream, appended, body, reply, outbox):
                return
        except CorruptRecord:
            outbox.reply_status(reply, UNREADABLE)
            return
        request = parse_request(body, appended.decode(errors="replace"))
        if isinstance(request, bytes):
            outbox.reply_status(reply, request)
        elif request.min_last_seq <= stream.log.index.last_seq:
            self._read(stream, request, reply, outbox)
        elif not self._gate.hold(stream, request, reply, now, direct=True):
            self._refuse_stale(stream, request, reply, outbox, direct=True)

    def message_get(
        self, stream: Stream, request: MsgGetRequest, reply: bytes, now: int, outbox: Outbox
    ) -> bytes | None:
        """Answer STREAM.MSG.GET; None when it has to wait for its stream."""
        if request.min_last_seq <= stream.log.index.last_seq:
            return message_get.answer(stream, request)
        if not self._gate.hold(stream, request, reply, now, direct=False):
            self._refuse_stale(stream, request, reply, outbox, direct=False)
        return None

    def _read(self, stream: Stream, request: MsgGetRequest, reply: bytes, outbox: Outbox) -> None:
        proof = proof_line(stream) if request.min_last_seq else b""
        if request.multi_last:
            self._read_multi(stream, request, reply, proof, outbox)
        elif request.batch == 0:
            try:
                seq = message_get.selected(stream, request)
                self._reader.one(stream, seq, request.no_hdr, proof, reply, outbox)
            except CorruptRecord:
                outbox.reply_status(reply, UNREADABLE)
        elif (outlet := self.outlet_for(reply)) is not None:
            first = request.seq
            if request.start_time is not None:
                first = stream.log.first_at(request.start_time)
            batch = BatchRead(
                self._reader,
                stream,
                outlet,
                reply,
                max(first, 1),
                request.next_by_subj.encode(),
                request.batch,
                request.max_bytes or DIRECT_GET_BYTES_MAX,
                proof,
            )
            batch.no_headers = request.no_hdr
            self.work.append(batch)

    def _read_multi(
        self, stream: Stream, request: MsgGetRequest, reply: bytes, proof: bytes, outbox: Outbox
    ) -> None:
        index = stream.log.index
        up_to = request.up_to_seq or index.last_seq
        if request.up_to_time is not None:
            # Inclusive (ADR-31, decisions.md): up to the last one that is not newer.
            up_to = stream.log.first_at(request.up_to_time + 1) - 1
            if up_to < max(index.first_seq, 1):
                outbox.reply_status(reply, status_block(NOT_FOUND, NO_RESULTS_TEXT, proof))
                return
        outlet = self.outlet_for(reply)
        if outlet is not None:
            multi = MultiRead(
                self._reader,
                stream,
                outlet,
                reply,
                request.seq,
                [pattern.encode() for pattern in request.multi_last],
                up_to,
                request.batch,
                request.max_bytes or DIRECT_GET_BYTES_MAX,
                proof,
            )
            self.work.append(multi)

    def _refuse_stale(
        self,
        stream: Stream,
        request: MsgGetRequest,
        reply: bytes,
        outbox: Outbox,
        *,
        direct: bool,
    ) -> None:
        if direct:
            block = status_block(PRECONDITION_FAILED, MIN_LAST_SEQUENCE_TEXT, proof_line(stream))
            outbox.reply_status(reply, block)
        else:
            error = error_body(ErrCode.MIN_LAST_SEQUENCE)
            outbox.reply(reply, message_get.refused(stream, request, error))

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
            try:
                if not batch.step(budget):
                    self.work.append(batch)
            except CorruptRecord:
                batch.status(SERVER_ERROR, UNREADABLE_TEXT, batch.proof)
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
            stream.log.commit()  # gives the file back that the group was written to
            return
        stream.committed(outbox)
        for held in self._gate.released(stream):
            if held.direct:
                self._read(stream, held.request, held.reply, outbox)
            else:
                outbox.reply(held.reply, message_get.answer(stream, held.request))

    def failed(self, stream: Stream, error: OSError, outbox: Outbox) -> None:
        """The group of a stream could not be written."""
        no_space = error.errno in {errno.ENOSPC, errno.EDQUOT}
        if stream.dropped:
            stream.log.fail(no_space)
        else:
            stream.failed(no_space, outbox)

    # Time --------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When ``expire`` has something to do."""
        return self._gate.next_deadline()

    def expire(self, now: int, outbox: Outbox) -> None:
        """Do what is due."""
        for held in self._gate.expired(now):
            self._refuse_stale(
                held.stream, held.request, held.reply, outbox, direct=held.direct
            )

    def close(self) -> None:
        """Close the files of all streams."""
        for stream in self.streams.values():
            stream.log.close()


def proof_line(stream: Stream) -> bytes:
    """The header that proves how far the copy that answers is (decisions.md, ADR-53)."""
    return b"%b: %d\r\n" % (MIN_LAST_SEQUENCE, stream.log.index.last_seq)
