"""Copies one stream into another, some messages at a time.

A copy reads what is durable in its origin and stages it, like any publish, so readers of the copy
see it when it is on disk there too. It is woken once per commit of its origin. What its stream
cannot accept now (limits, quota, a full disk) is retried later: a copy never skips a message that
it has not stored.
"""

import logging
from typing import Final

from librt.random import Random
from xxhash import xxh3_64_intdigest

from jetspark.api.base import ApiErrorBody, decoder, encode
from jetspark.api.stream import StreamSource, StreamSourceInfo
from jetspark.engine.limits import MESSAGE_HEADERS_MAX
from jetspark.engine.long_work import LongCut
from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.counting import counted
from jetspark.engine.replicate.origin import Origin, Row
from jetspark.engine.replicate.upstream import NOTHING, Newest
from jetspark.engine.stream.checks import Judgement
from jetspark.engine.stream.counters import CounterBroken
from jetspark.engine.stream.stream import Stream
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import ReadFailed
from jetspark.headers.block import has_nats_headers, remove_headers_starting
from jetspark.headers.names import EXPECTED_PREFIX, FAST_BATCH_ID, FLOW
from jetspark.ids import short_id
from jetspark.store.format.record import FIXED, SUBJECT_MAX
from jetspark.store.log.long_read import LongRead
from jetspark.subjects.transform import SubjectTransform

# No more than this is staged ahead of the disk.
AHEAD_MAX: Final = 8 * 1024 * 1024
RETRY_NS: Final = 2_000_000_000  # wire.md, Mirrors and sources
# Expectations and batches were meant for the origin (ADR-50, wire.md, Mirrors and sources).
_NOT_COPIED: Final = (EXPECTED_PREFIX, b"Nats-Batch-", FAST_BATCH_ID + b":", FLOW + b":")
logger: logging.Logger = logging.getLogger("jetspark.engine")
_error_decoder = decoder(ApiErrorBody)

# Why a step ended.
DONE: Final = 0
MORE: Final = 1
STALLED: Final = 2
READING: Final = 3  # until a large message was read in the background

# A position that is not known yet.
NOT_FOUND: Final = -1


class CannotCopy(Exception):
    """The next message cannot be copied, and will not be able to be later."""


class Copy:
    """The base of mirrors and sources. ``origin`` is None while the stream does not exist.

    ``position`` is the last sequence of the origin that was read; its messages, if wanted, are
    staged.
    """

    # Whether a step with messages ends with a record of the progress.
    records_progress: bool = False

    def __init__(self, stream: Stream, source: StreamSource) -> None:
        self.stream = stream
        self.source = source
        self.origin: Origin | None = None
        self.position: int = NOT_FOUND
        self.retry_at: int = 0
        self.over: bool = False
        self.error: bytes = b""
        # The disk failed to read: nothing is read before this time.
        self._read_again_at = 0
        self._stopped = False
        # The large message that it waits for.
        self._long_work: LongRead | LongCut | None = None
        # Why its remote cannot be reached, as the body of an error.
        self.unreachable: bytes = b""
        # The name of the origin in headers.
        self.label: bytes = source.name.encode()
        # The identity of the stream that is being read.
        self.ident: bytes = b""
        # What answers show: as far as everything is durable; and what is in flight.
        self._shown = (0, 0)
        self._shown_of = b""  # the stream that it refers to
        self._in_flight: list[tuple[int, int, int, int, bytes]] = []
        self._copied = 0  # messages of the current step
        # Where the last step was staged; an earlier one may be in flight too.
        self._staged = int(stream.log.staged.position)
        # When anything was last received from the origin; 0: never.
        self._contact_ns = 0
        pairs = [(t.src.encode() or b">", t.dest.encode()) for t in source.subject_transforms]
        only = [source.filter_subject.encode()] if source.filter_subject else []
        self.filters: list[bytes] = [src for src, _ in pairs] or only
        # Distributes messages of a random transform, in the same way at every start.
        below = Random(stream.log.identity.stream_id & 0x7FFFFFFFFFFFFFFF).randrange
        self._transforms = [SubjectTransform(src, dest, below) for src, dest in pairs if dest]

    @property
    def is_whole(self) -> bool:
        """Return whether every message is copied under its own subject."""
        return not self.filters and self.stream.rules.transform is None

    @property
    def reader_name(self) -> str:
        """Return a name that no other copy has, here or elsewhere; it never changes."""
        known = b"%d %b" % (self.stream.log.identity.stream_id, encode(self.source))
        return f"{self.stream.config.name}_{short_id(xxh3_64_intdigest(known))}"

    def retry_later(self, now: int) -> None:
        """Set when it is tried again after it stalled."""
        self.retry_at = now + RETRY_NS

    def cannot_reach(self, error: bytes) -> None:
        """Set why its remote cannot be reached, as the body of an error."""
        self.unreachable = error

    def end(self) -> None:
        """Note that it is not wanted any more."""
        self.over = True

    def set_origin(self, origin: Origin | None) -> None:
        """Set the origin, or None if the stream does not exist any more."""
        self.origin = origin

    def advance(self, budget: Budget, now: int) -> int:
        """Copy some messages: DONE, MORE to do, STALLED until later, or READING."""
        origin = self.origin
        if now < self._read_again_at:
            return STALLED
        self.error = b""
        if origin is None:
            self.error = self.unreachable or error_body(ErrCode.STREAM_NOT_FOUND)
            return DONE
        self._contact_ns = origin.contact_ns(now) or self._contact_ns
        if not origin.ident:
            return DONE
        log = self.stream.log
        if log.access.read_only or log.access.full or self.stream.rules.sealed:
            return DONE if self.stream.rules.sealed else STALLED
        in_flight = log.staged.in_flight
        if self._staged > (in_flight.last_position if in_flight else log.index.position):
            return STALLED  # until the group with the previous step is in flight
        try:
            found = (self.position >= 0 and origin.ident == self.ident) or self._find(
                origin, budget
            )
        except LongRead as read:
            return self._wait_for(read)
        except ReadFailed as problem:
            return self._cannot_read(problem, now)
        except CannotCopy as problem:
            self.lose_position()
            return self._stop(str(problem), ErrCode.STREAM_GENERAL, now)
        if not found:
            return MORE
        # One step of a copy per group, and all or nothing: a power failure may keep the end of a
        # group and lose its middle, and the copy would continue after messages it does not have.
        staged = log.staged.position
        log.staged.begin_batch()
        try:
            result = self._copy(origin, budget, now)
            self.conclude()
        except BaseException:
            log.staged.abort_batch()
            # Steps before it are in flight unchanged: only the position is unknown.
            self.lose_position()
            raise
        log.staged.end_batch()
        if log.staged.position > staged:
            self._staged = int(log.staged.position)
        if self._stopped and self._read_again_at <= now:
            self._stopped = False
            logger.info(
                "Stream %r: copying stream %r continues", self.stream.config.name, self.source.name
            )
        return result

    def _find(self, origin: Origin, budget: Budget) -> bool:
        """Determine from where to continue reading; False if that takes another turn."""
        position = self.find_position(origin, budget)
        if position == NOT_FOUND:
            return False
        self.position = position
        # Another stream of that name has nothing of what was copied before.
        newest = NOTHING if self.ident else self.newest()
        self.ident = origin.ident
        self.position = origin.begin(*self.start_of_reading(), newest)
        self.position_found()
        return True

    def _copy(self, origin: Origin, budget: Budget, now: int) -> int:
        log = self.stream.log
        # Whether a message without relevant headers is stored unchanged, without checks.
        short = self.stream.rules.open and not self._transforms
        while True:
            try:
                row = origin.after(self.position)
            except (LongRead, LongCut) as work:
                return self._wait_for(work)
            except ReadFailed as problem:
                return self._cannot_read(problem, now)
            if row is None:
                self.position = max(self.position, origin.looked_at())
                try:
                    self.at_end()
                except CannotCopy as problem:
                    return self._stop(str(problem), ErrCode.STREAM_GENERAL, now)
                return DONE
            if not budget.left():
                return MORE
            if log.staged.open_bytes + log.staged.in_flight_bytes > AHEAD_MAX:
                return STALLED
            seq, _, subject, headers, body, pieces = row
            size = len(body) + sum(map(len, pieces)) if pieces else len(body)
            budget.spend(FIXED + len(subject) + len(headers) + size)
            try:
                taken = (
                    short and not (headers and has_nats_headers(headers)) and self._store(row, now)
                ) or self._copy_one(row, now)
            except ReadFailed as problem:
                return self._cannot_read(problem, now)
            except CannotCopy as problem:
                return self._stop(str(problem), ErrCode.STREAM_GENERAL, now)
            if not taken:
                return STALLED
            self.position = seq
            self._copied += 1
            if pieces:
                return MORE  # it is the last message of its step

    def _wait_for(self, work: LongRead | LongCut) -> int:
        """Wait for a large message, which is read in the background."""
        self._long_work = work
        return READING

    def take_long_work(self) -> LongRead | LongCut | None:
        """Return what it waits for, once."""
        work, self._long_work = self._long_work, None
        return work

    def _cannot_read(self, problem: ReadFailed, now: int) -> int:
        """Wait at the next message, which the disk fails to read: log it, and retry."""
        return self._stop(problem.public, ErrCode.STORE_FAILED, now, detail=str(problem))

    def _stop(self, problem: str, code: ErrCode, now: int, detail: str = "") -> int:
        """Wait at the next message: show why, log it once, and retry."""
        if not self._stopped:
            logger.error(
                "Stream %r: copying stream %r stops: %s",
                self.stream.config.name, self.source.name, detail or problem,
            )  # fmt: skip
        self._stopped = True
        self._read_again_at = now + RETRY_NS
        self.error = error_body(code, err=problem)
        return STALLED

    def step_failed(self, error: Exception) -> None:
        """Show an unexpected error, which is in the log."""
        problem = f"internal error, see the log of the server: {type(error).__name__}: {error}"
        self.error = error_body(ErrCode.STREAM_GENERAL, err=problem)

    def _store(self, row: Row, now: int) -> bool:
        """Stage a message that needs no checks; False: it is too large for that."""
        seq, time_ns, subject, headers, body, pieces = row
        block = self.labelled(headers, seq, subject)
        if len(block) > MESSAGE_HEADERS_MAX or len(subject) > SUBJECT_MAX:
            return False
        self.prepare(seq)
        time = self.time_for(time_ns, now)
        staged = self.stream.log.staged
        if pieces:
            if not self.records_progress:
                staged.next_is_last()
            staged.add_message(subject, len(block), block, time, b"", pieces)
        else:
            staged.add_message(subject, len(block), block + body if block else body, time)
        self.stream.checks.stored_without_id()
        return True

    def _copy_one(self, row: Row, now: int) -> bool:
        """Stage one message; False if the stream cannot accept it now."""
        seq, time_ns, subject, headers, body, pieces = row
        if pieces:
            body = b"".join(pieces)
            row = seq, time_ns, subject, headers, body, []
        block = self.labelled(stripped(headers), seq, subject)
        renamed = self.renamed(subject)
        value = None
        if self.stream.rules.allow_counter:
            try:
                sum_up = counted(self.stream.checks.counters, self.label, row, block, renamed)
            except CounterBroken:
                self.error = error_body(ErrCode.COUNTER_BROKEN)
                return False
            if sum_up is None:
                return True
            value, block, body = sum_up
        # Only limits can refuse it.
        judged = self.stream.checks.judge_copy(renamed, block, body, value)
        self.error = judged.error
        if self.error:
            return False
        self.prepare(seq)
        if not self.is_duplicate(judged, now):
            self.stream.ingest.store(judged, renamed, b"", self.time_for(time_ns, now))
        return True

    def renamed(self, subject: bytes) -> bytes:
        """Return the subject in the stream: by the copy's transforms, then by the stream's own."""
        for transform in self._transforms:
            mapped = transform.apply(subject)
            if mapped is not None:
                subject = mapped
                break
        own = self.stream.rules.transform
        mapped = own.apply(subject) if own is not None else None
        return subject if mapped is None else mapped

    def newest(self) -> Newest:
        """Return the newest message that it has of its origin, if known."""
        return NOTHING

    def start_of_reading(self) -> tuple[int, int]:
        """Return after which sequence to start, or from which time on."""
        source = self.source
        if self.position > 0:
            return self.position, 0
        if source.opt_start_seq > 0:
            return source.opt_start_seq - 1, 0
        return 0, int(source.opt_start_time) if source.opt_start_time is not None else 0

    def note_staged(self) -> None:
        """End a step: what it staged is shown when it is durable."""
        if self.position >= 0:
            staged = int(self.stream.log.staged.position)
            stored = self.stored_position()
            self._in_flight.append((staged, self.position, stored, self._copied, self.ident))
            self._copied = 0
            self.landed()

    def report_stored(self) -> None:
        """Report its progress to the origin; never to one that was created again meanwhile."""
        if self.origin is not None and self.origin.ident == self._shown_of:
            self.origin.stored(self._shown[0])

    def landed(self) -> None:
        """Note that something became durable in the stream."""
        durable = self.stream.log.index.position
        shown = self._shown, self._shown_of
        while self._in_flight and self._in_flight[0][0] <= durable:
            _, position, stored, _, self._shown_of = self._in_flight.pop(0)
            self._shown = position, stored
        if (self._shown, self._shown_of) != shown:
            self.report_stored()

    def info(self, now: int) -> StreamSourceInfo:
        """Return its progress."""
        source = self.source
        origin = self.origin
        error = self.error or (origin.error if origin is not None else b"")
        lag = 0
        contact = self._contact_ns
        position, stored = self._shown
        if origin is not None and contact:
            lag = origin.lag(position, sum(each[3] for each in self._in_flight))
            contact = contact if self.error else origin.contact_ns(now)
        return StreamSourceInfo(
            name=source.name,
            external=source.external,
            lag=lag,
            seq=stored,
            active=max(now - contact, 0) if contact else -1,
            error=_error_decoder.decode(error) if error else None,
            filter_subject=source.filter_subject,
            subject_transforms=source.subject_transforms,
        )

    # For subclasses ----------------------------------------------------------------------------

    def find_position(self, origin: Origin, budget: Budget) -> int:
        """Determine the progress of the copy; NOT_FOUND if that takes another turn."""
        raise NotImplementedError

    def position_found(self) -> None:
        """Called once the position is known that reading starts at."""

    def lose_position(self) -> None:
        """Determine the progress of the copy again, from what is staged."""
        self.position = NOT_FOUND
        self._copied = 0

    def failed(self) -> None:
        """Forget what was staged."""
        self.lose_position()
        self._staged = 0
        self._in_flight = []

    def labelled(self, block: bytes, _seq: int, _subject: bytes) -> bytes:
        """Return the headers to store."""
        return block

    def prepare(self, _seq: int) -> None:
        """Prepare to stage something of this sequence of the origin."""

    def at_end(self) -> None:
        """Note that everything in the origin was read."""

    def is_duplicate(self, judged: Judgement, _now: int) -> bool:
        """Return whether the stream already has the message that was just checked, by its id."""
        judged.forget_id()
        return False

    def conclude(self) -> None:
        """End the step; what is staged now is part of it."""

    def time_for(self, _stored_ns: int, now: int) -> int:
        """Return the engine time at which the copy counts as stored."""
        return now

    def stored_position(self) -> int:
        """Return the last sequence of the origin that was stored; 0: not relevant."""
        return 0


def stripped(block: bytes) -> bytes:
    """Return headers without those that were meant for the origin."""
    if block and has_nats_headers(block):
        for start in _NOT_COPIED:
            block = remove_headers_starting(block, start)
    return block
