"""One stream being copied into another, some messages at a time.

A copy reads what is durable in its origin and stages it, as any publish is staged, so readers of
the copy see it when it is on disk there too. It is woken once per commit of its origin. What the
stream that gets the copies cannot take now (limits, quota, a full disk) is tried again later: a
copy never goes past a message that it has not stored.
"""

from typing import Final

from librt.random import Random

from jetspark.api.base import ApiErrorBody, decoder
from jetspark.api.enums import Retention
from jetspark.api.stream import StreamSource, StreamSourceInfo
from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.outbox import Budget
from jetspark.engine.stream.stream import Stream
from jetspark.engine.stream.ttl import INVALID, NO_TTL, parse_ttl
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.block import has_nats_headers, remove_headers_starting
from jetspark.headers.names import EXPECTED_PREFIX, FAST_BATCH_ID, FLOW
from jetspark.store.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.subjects.transform import SubjectTransform

# More than this is not staged ahead of the disk.
AHEAD_MAX: Final = 8 * 1024 * 1024
RETRY_NS: Final = 2_000_000_000  # wire-facts.md 12
# Expectations and batches were for the origin (ADR-50, wire-facts.md 12).
_NOT_COPIED: Final = (EXPECTED_PREFIX, b"Nats-Batch-", FAST_BATCH_ID + b":", FLOW + b":")
_error_decoder = decoder(ApiErrorBody)

# Why a step ended.
DONE: Final = 0
MORE: Final = 1
STALLED: Final = 2


class Copy:
    """What mirrors and sources have in common. ``origin`` is None while there is no such stream.

    ``position`` is the last sequence of the origin that was looked at; what it was worth is
    staged.
    """

    def __init__(self, stream: Stream, source: StreamSource) -> None:
        self.stream = stream
        self.source = source
        self.origin: Stream | None = None
        self.position = -1  # not found out yet
        self.listed = False
        self.retry_at = 0
        self.over = False
        self.error = b""
        # What answers show: as far as everything is durable; and what is on its way there.
        self._shown = (0, 0)
        self._on_the_way: list[tuple[int, int, int]] = []
        # Where the last step was staged; one like this that went before may be on its way too.
        self._staged = int(stream.log.staged_position)
        self._contact_ns = 0
        self._cursor: Cursor | None = None
        pairs = [(t.src.encode() or b">", t.dest.encode()) for t in source.subject_transforms]
        only = [source.filter_subject.encode()] if source.filter_subject else []
        self.filters = [src for src, _ in pairs] or only
        # Spreads messages of a transform that does so, the same way at every start.
        below = Random(stream.log.identity.stream_id & 0x7FFFFFFFFFFFFFFF).randrange
        self._transforms = [SubjectTransform(src, dest, below) for src, dest in pairs if dest]

    @property
    def is_whole(self) -> bool:
        """Say whether every message is copied under its own subject."""
        return not self.filters and self.stream.rules.transform is None

    def meet(self, origin: Stream | None) -> None:
        """The stream that is copied is there, or there no more."""
        if origin is not self.origin:
            self.origin = origin
            self._cursor = None

    def advance(self, budget: Budget, now: int) -> int:
        """Copy some messages: DONE, MORE to do, or STALLED until later."""
        origin = self.origin
        if origin is None:
            self.error = error_body(ErrCode.STREAM_NOT_FOUND)
            return DONE
        self._contact_ns = now
        if origin.config.retention != Retention.LIMITS:
            self.error = error_body(ErrCode.STREAM_INVALID_CONFIG, err=no_retention(origin))
            return DONE
        log = self.stream.log
        if log.read_only or log.full or self.stream.rules.sealed:
            return DONE if self.stream.rules.sealed else STALLED
        if self._staged > (log.in_flight.last_position if log.in_flight else log.durable_position):
            return STALLED  # until the group with the step before is on its way
        self.error = b""
        if self.position < 0 and not self.find_position(origin, budget):
            return MORE
        # One step of a copy per group, and all of it or nothing: a power cut may keep the end of
        # a group and lose its middle, and the copy would go on behind messages it does not have.
        staged = log.staged_position
        log.begin_batch()
        try:
            result = self._copy(origin, budget, now)
            self.conclude()
        except BaseException:
            log.abort_batch()
            self.failed()
            raise
        log.end_batch()
        if log.staged_position > staged:
            self._staged = int(log.staged_position)
        return result

    def _copy(self, origin: Stream, budget: Budget, now: int) -> int:
        log = self.stream.log
        cursor = self.cursor(origin)
        while True:
            seq = int(cursor.find(self.position + 1))
            if seq == 0:
                self.position = max(self.position, int(origin.log.index.last_seq))
                self.at_end(origin)
                return DONE
            if not budget.left():
                return MORE
            if log.filling_bytes + log.flying_bytes > AHEAD_MAX:
                return STALLED
            if not self._copy_one(origin, seq, budget, now):
                return STALLED
            self.position = seq

    def _copy_one(self, origin: Stream, seq: int, budget: Budget, now: int) -> bool:
        """Stage one message; False when the stream cannot take it now."""
        try:
            data, at = origin.log.locate(seq)
        except CorruptRecord:
            # The origin has lost it and says so itself (quarantine); there is nothing to copy.
            budget.spend(1)
            return True
        start, head, end = subject_end(data, at), headers_end(data, at), body_end(data, at)
        budget.spend(end - at)
        subject = data[at + FIXED : start]
        block = stripped(data[start:head])
        block = self.labelled(block, origin, seq, subject)
        renamed = self.renamed(subject)
        if not self._admit(renamed, block, data[head : end + 2]):
            return False
        self.prepare(seq)
        if not self.is_duplicate(now):
            self.stream.store(renamed, b"", self.time_for(int(record_time(data, at)), now))
        return True

    def _admit(self, subject: bytes, block: bytes, body: bytes) -> bool:
        """Have the stream's checks look at a message; only limits can refuse it."""
        checks = self.stream.checks
        rules = self.stream.rules
        headers = checks.headers
        checks.block, checks.body = block, body
        checks.count = None
        checks.duplicate_of = 0
        checks.ttl = NO_TTL
        headers.read(block)
        # What these asked for was for the origin, or is not allowed here (wire-facts.md 12).
        headers.scheduling = False
        if not rules.allow_rollup or headers.rollup.lower() not in {b"sub", b"all"}:
            headers.rollup = b""
        if not rules.allow_ttl or parse_ttl(headers.ttl) == INVALID:
            headers.ttl = b""
        self.error = checks.judge_sizes(subject) or checks.judge_end(subject)
        return not self.error

    def renamed(self, subject: bytes) -> bytes:
        """The subject in the stream: by the copy's transforms, then by the stream's own."""
        for transform in self._transforms:
            mapped = transform.apply(subject)
            if mapped is not None:
                subject = mapped
                break
        own = self.stream.rules.transform
        mapped = own.apply(subject) if own is not None else None
        return subject if mapped is None else mapped

    def cursor(self, origin: Stream) -> Cursor:
        """Where messages of the origin that are copied are found."""
        if self._cursor is None:
            self._cursor = Cursor(origin.log.index, self.filters)
        return self._cursor

    def starting_position(self, origin: Stream) -> int:
        """Before which message of the origin a copy that has nothing yet begins."""
        source = self.source
        if source.opt_start_seq > 0:
            return source.opt_start_seq - 1
        if source.opt_start_time is not None:
            return int(origin.log.first_at(int(source.opt_start_time))) - 1
        return 0

    def note_staged(self) -> None:
        """A step is over: what it staged is shown when it is durable."""
        if self.position >= 0:
            staged = int(self.stream.log.staged_position)
            self._on_the_way.append((staged, self.position, self.stored_position()))
            self.landed()

    def landed(self) -> None:
        """Something became durable in the stream."""
        durable = self.stream.log.durable_position
        while self._on_the_way and self._on_the_way[0][0] <= durable:
            _, position, stored = self._on_the_way.pop(0)
            self._shown = position, stored

    def info(self, now: int) -> StreamSourceInfo:
        """How far it has come."""
        source = self.source
        origin = self.origin
        known = self._contact_ns > 0
        # A stream of the same server is always heard of.
        heard = self._contact_ns if origin is None or self.error else now
        lag = 0
        position, stored = self._shown
        if origin is not None and known:
            lag = int(self.cursor(origin).count(position + 1, origin.log.index.last_seq))
        return StreamSourceInfo(
            name=source.name,
            lag=lag,
            seq=stored,
            active=max(now - heard, 0) if known else -1,
            error=_error_decoder.decode(self.error) if self.error else None,
            filter_subject=source.filter_subject,
            subject_transforms=source.subject_transforms,
        )

    # What differs ------------------------------------------------------------------------------

    def find_position(self, origin: Stream, budget: Budget) -> bool:
        """Find out how far the copy had come; False when that takes another turn."""
        raise NotImplementedError

    def failed(self) -> None:
        """What was staged is forgotten."""
        self.position = -1
        self._staged = 0
        self._on_the_way = []

    def labelled(self, block: bytes, _origin: Stream, _seq: int, _subject: bytes) -> bytes:
        """The headers as they are stored."""
        return block

    def prepare(self, _seq: int) -> None:
        """Something of this sequence of the origin is about to be staged."""

    def at_end(self, _origin: Stream) -> None:
        """Everything that the origin has was looked at."""

    def is_duplicate(self, _now: int) -> bool:
        """Say whether the stream has the message that was just admitted, by its id."""
        self.stream.checks.headers.msg_id = b""
        return False

    def conclude(self) -> None:
        """The step is over; what is staged now goes with it."""

    def time_for(self, _stored_ns: int, now: int) -> int:
        """When the copy is said to have been stored."""
        return now

    def stored_position(self) -> int:
        """The sequence of the last message of the origin that was stored; 0: not of interest."""
        return 0


def stripped(block: bytes) -> bytes:
    """Headers without those that were for the origin."""
    if block and has_nats_headers(block):
        for start in _NOT_COPIED:
            block = remove_headers_starting(block, start)
    return block


def no_retention(origin: Stream) -> str:
    """Why a stream cannot be copied."""
    return (
        f"stream {origin.config.name} has {origin.config.retention.value} retention, and this "
        "version of jetspark copies streams with limits retention only"
    )
