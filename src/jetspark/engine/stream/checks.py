"""What a message must pass before a stream takes it: the checks and their order (wire-facts.md 6).

Decisions use staged state (contracts.md 1). A refusal that stands on such state says so, because
its reply waits like an acknowledgement does.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.limits import MESSAGE_HEADERS_MAX
from jetspark.engine.stream.counters import (
    CounterBroken,
    Counters,
    Value,
    format_integer,
    parse_integer,
)
from jetspark.engine.stream.dedupe import DuplicateWindow
from jetspark.engine.stream.expectations import expected_sequence, staged_last, staged_last_of
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.quota import Quota
from jetspark.engine.stream.rare_headers import increment_problem, rollup_problem
from jetspark.engine.stream.room import Room
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.schedules import schedule_problem
from jetspark.engine.stream.ttl import INVALID, NEVER, NO_TTL, SECOND, parse_ttl
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.block import append_lines, find_value, remove_header
from jetspark.headers.names import COUNTER_SOURCES, MSG_ID, ROLLUP, TTL
from jetspark.store.format.record import SUBJECT_MAX, headers_end, record_time, subject_end
from jetspark.store.log.stream_log import StreamLog

ALLOWED: Final = b""
SUBJECT_TOO_LONG: Final = f"subject exceeds maximum of {int(SUBJECT_MAX)} bytes"
# What the short way looks for in headers (``take_headers``).
VERSION_LINE: Final = b"NATS/1.0\r\n"
ID_NAME: Final = b"Nats-Msg-Id:"
CRLF: Final = b"\r\n"
UPPER_N: Final[i64] = 0x4E
DASH: Final[i64] = 0x2D
BLANK: Final[i64] = 0x20
CR: Final[i64] = 0x0D
LF: Final[i64] = 0x0A
# Not an error: the message belongs to a batch, and the batch decides (engine/batch).
BATCHED: Final = b"batched"


class Checks:
    """The checks of one stream, with what they have to remember between messages."""

    def __init__(self, rules: Rules, log: StreamLog, max_ids: i64) -> None:
        self.rules: Rules = rules
        self.log: StreamLog = log
        self.headers: PublishHeaders = PublishHeaders()
        self.window: DuplicateWindow = DuplicateWindow(rules.window, max_ids)
        self.window_loaded: bool = False
        self.room: Room = Room(rules, log)
        # Asked for each message while a limit of the account or the server may refuse it.
        self.quota: Quota | None = None
        self.read_time: i64 = 0
        # Id of the last message: as decisions see it, of the group on its way, as on disk.
        # The last message when the disk refused to read its id, 0 otherwise: see `know_last_id`.
        self.id_unread: i64 = 0
        self.durable_id: bytes = self.first_id()
        self.flying_id: bytes = self.durable_id
        self.last_id: bytes = self.durable_id
        self.counters: Counters = Counters(log)
        # About the message judged last: what it is to be stored as, and why it is not.
        self.block: bytes = b""
        self.body: bytes = b""
        self.count: Value | None = None
        self.ttl: i64 = NO_TTL
        self.duplicate_of: i64 = 0
        self.on_state: bool = False
        # The message is one of a batch already: its batch headers say nothing more.
        self.in_batch: bool = False

    def configure(self, rules: Rules) -> None:
        """Go by another configuration from now on."""
        self.rules = rules
        self.room.rules = rules
        self.window.configure(rules.window)

    def judge(self, subject: bytes, block: bytes, body: bytes, now: i64) -> bytes:
        """Return ALLOWED, BATCHED, or the body of the error; a duplicate sets ``duplicate_of``.

        ``body`` ends with CRLF. What is to be stored stands in ``self.block`` and ``self.body``.
        ``on_state`` says whether a refusal stands on state that may not be durable yet.
        """
        rules = self.rules
        self.block = block
        self.body = body
        self.count = None
        self.duplicate_of = 0
        self.on_state = False
        self.ttl = NO_TTL
        if rules.sealed:
            return error_body(ErrCode.STREAM_SEALED)
        # Before all headers, in 2.15.1 (observed; wire-facts.md 6 has it from older source).
        error = self.judge_sizes(subject)
        if len(error) > 0:
            return error
        headers = self.headers
        if len(block) > 0 and headers.read(block):
            error = self.judge_headers(subject, len(body) - 2, now)
            if len(error) > 0 or self.duplicate_of > 0:
                return error
        else:
            headers.clear()
        if rules.allow_counter:
            error = self.add_up(subject)
            if len(error) == 0:
                error = self.judge_sizes(subject)
            if len(error) > 0:
                return error
        return self.judge_end(subject)

    def judge_or_refuse(self, subject: bytes, block: bytes, body: bytes, now: i64) -> bytes:
        """Judge; what cannot be judged because the disk refuses to read is refused with that."""
        try:
            return self.judge(subject, block, body, now)
        except ReadFailed as problem:
            return error_body(ErrCode.STORE_FAILED, err=problem.public)

    def first_id(self) -> bytes:
        """The id of the last message when the stream was opened, as far as it can be read."""
        try:
            return self.read_id(self.log.index.last_seq)
        except ReadFailed:
            self.id_unread = self.log.index.last_seq
            return b""

    def know_last_id(self) -> None:
        """Read the id of the last message when that failed before; raises ReadFailed again."""
        if self.id_unread == self.log.staged.seq:
            self.last_id = self.flying_id = self.durable_id = self.read_id(self.id_unread)
        self.id_unread = 0

    def take_headers(self, data: bytes, hs: i64, ps: i64, now: i64) -> bool:
        """Take the headers of a message that no rule concerns and that is stored next as it came.

        At most an id in them means something to a stream. False, with nothing taken, when that
        is not all there is to it: ``judge`` decides then.
        """
        at = hs + len(VERSION_LINE)
        end = ps - 2
        if ps - hs > MESSAGE_HEADERS_MAX or end <= at or data[hs:at] != VERSION_LINE:
            return False
        first: i64 = 0
        last: i64 = 0
        while at < end:
            # `Nats-`, or nearly so, which costs nothing but the detour.
            named = data[at] == UPPER_N and data[at + 4] == DASH
            if named:
                first = at + len(ID_NAME)
                if last > 0 or data[at:first] != ID_NAME:
                    return False
                while data[first] == BLANK:
                    first += 1
            while at < end and (data[at] != CR or data[at + 1] != LF):
                at += 1
            if named:
                last = at
            at += 2
        if at != end or data[end:ps] != CRLF or (last > 0 and first >= last):
            return False
        msg_id = data[first:last]
        if last > 0 and not (
            self.window_loaded
            and self.rules.window > 0
            and self.window.enter(msg_id, int(self.log.staged.seq + 1), now)
        ):
            return False
        self.last_id = msg_id
        return True

    def judge_sizes(self, subject: bytes) -> bytes:
        """What is about to be stored is not larger than stream, account and server allow."""
        headers_length: i64 = len(self.block)
        if len(subject) > SUBJECT_MAX:
            return error_body(ErrCode.STORE_FAILED, err=SUBJECT_TOO_LONG)
        if 0 <= self.rules.max_msg_size < headers_length + len(self.body) - 2:
            return error_body(ErrCode.MESSAGE_TOO_LARGE)
        if headers_length > MESSAGE_HEADERS_MAX:
            return error_body(ErrCode.HEADERS_TOO_LARGE)
        quota = self.quota
        if quota is not None:
            return quota.problem(subject, int(headers_length), len(self.body) - 2)
        return ALLOWED

    def judge_end(self, subject: bytes) -> bytes:
        """The last checks: TTL and room."""
        headers = self.headers
        if len(headers.ttl) > 0:
            self.ttl = parse_ttl(headers.ttl)
            if self.ttl == INVALID:
                return error_body(ErrCode.TTL_INVALID)
            self.lengthen()
        if len(headers.msg_id) > 0 and self.window.is_full():
            return error_body(ErrCode.INSUFFICIENT_RESOURCES)
        if self.rules.discard_new:
            problem = self.room.problem(
                subject, len(self.block), len(self.body) - 2, len(headers.rollup) > 0
            )
            if len(problem) > 0:
                self.on_state = True
                return error_body(ErrCode.STORE_FAILED, err=problem)
        return ALLOWED

    def judge_fired(self, subject: bytes, block: bytes, body: bytes) -> bool:
        """Say whether a message that a schedule sends may be stored; only limits can refuse it."""
        self.block = block
        self.body = body
        self.count = None
        self.duplicate_of = 0
        self.ttl = NO_TTL
        headers = self.headers
        headers.read(block)
        # These headers are the scheduler's own here; it acts on them itself.
        headers.scheduling = False
        return len(self.judge_sizes(subject)) == 0 and len(self.judge_end(subject)) == 0

    def lengthen(self) -> None:
        """A message lives at least as long as the marker that its end would leave."""
        least = self.rules.marker_ttl // SECOND
        if 0 < self.ttl < least and self.rules.max_per_subject != 1:
            self.ttl = least
            block = remove_header(self.block, TTL)
            self.block = append_lines(block, b"%b: %d\r\n" % (TTL, int(least)))

    def add_up(self, subject: bytes) -> bytes:
        """Counters: the message becomes the new value of its subject."""
        if len(self.headers.incr) == 0:
            return error_body(ErrCode.COUNTER_INCREMENT_MISSING)
        try:
            before = self.counters.current(subject)
        except CounterBroken:
            return error_body(ErrCode.COUNTER_BROKEN)
        self.count = Value(0, before.number + parse_integer(self.headers.incr), before.sources)
        self.body = b'{"val":"%b"}\r\n' % format_integer(self.count.number)
        if before.sources:
            block = remove_header(self.block, COUNTER_SOURCES)
            self.block = append_lines(block, b"%b: %b\r\n" % (COUNTER_SOURCES, before.sources))
        return ALLOWED

    def judge_headers(self, subject: bytes, body_length: i64, now: i64) -> bytes:
        """The checks that only a message with ``Nats-`` headers can fail, up to the rollup."""
        headers = self.headers
        rules = self.rules
        if (
            headers.batching
            and not self.in_batch
            and (len(headers.batch_id) > 0 or len(headers.fast_batch_id) > 0)
        ):
            return BATCHED
        if len(headers.incr) > 0:
            error = increment_problem(headers, rules, int(body_length))
            if len(error) > 0:
                return error
        if len(headers.expected_stream) > 0 and headers.expected_stream != rules.name:
            return error_body(ErrCode.WRONG_STREAM)
        if len(headers.ttl) > 0 and not rules.allow_ttl:
            ttl = parse_ttl(headers.ttl)
            if ttl > 0 or ttl == NEVER:
                return error_body(ErrCode.TTL_DISABLED)
        error = self.judge_sequences(subject)
        if len(error) > 0:
            return error
        if headers.scheduling:
            problem = schedule_problem(headers, rules, self.log, subject, now)
            if problem != 0:
                return error_body(problem)
            if len(headers.schedule) > 0 and len(headers.rollup) == 0:
                # A schedule replaces the one before it on its subject.
                headers.rollup = b"sub"
                self.block = append_lines(self.block, ROLLUP + b": sub\r\n")
        if len(headers.stream_source) > 0:
            return error_body(ErrCode.SOURCE_HEADER_NOT_ALLOWED)
        if len(headers.msg_id) > 0 and rules.window > 0:
            if not self.window_loaded:
                self.load_window(now)
            self.duplicate_of = self.window.find(headers.msg_id, now)
            if self.duplicate_of > 0:
                return ALLOWED
        if len(headers.expected_last_id) > 0 and self.id_unread > 0:
            self.know_last_id()
        if len(headers.expected_last_id) > 0 and headers.expected_last_id != self.last_id:
            self.on_state = True
            last = self.last_id.decode(errors="replace")
            return error_body(ErrCode.WRONG_LAST_MSG_ID, id=last)
        if len(headers.rollup) > 0:
            return rollup_problem(headers, rules)
        return ALLOWED

    def judge_sequences(self, subject: bytes) -> bytes:
        """Expected last sequences, of a subject and of the stream."""
        headers = self.headers
        actual: i64
        if len(headers.expected_subject_seq) > 0:
            if len(headers.expected_subject) > 0:
                subject = headers.expected_subject
            actual = staged_last_of(self.log, subject)
            if expected_sequence(headers.expected_subject_seq) != actual:
                self.on_state = True
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=int(actual))
        elif len(headers.expected_subject) > 0:
            return error_body(ErrCode.LAST_SUBJECT_SEQUENCE_MISSING)
        if len(headers.expected_last_seq) > 0:
            actual = staged_last(self.log)
            if expected_sequence(headers.expected_last_seq) != actual:
                self.on_state = True
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=int(actual))
        return ALLOWED

    # What is remembered ------------------------------------------------------------------------

    def accepted(self, subject: bytes, seq: int, time_ns: i64) -> None:
        """The message judged last was staged."""
        msg_id = self.headers.msg_id
        self.last_id = msg_id
        if len(msg_id) > 0 and self.rules.window > 0:
            self.window.add(msg_id, seq, time_ns)
        if self.rules.discard_new:
            self.room.take(subject, len(self.headers.rollup) > 0)
        count = self.count
        if count is not None:
            count.seq = seq
            self.counters.stage(subject, count)

    def group_taken(self) -> None:
        """What was staged goes to the disk."""
        self.flying_id = self.last_id
        if self.rules.discard_new:
            self.room.group_taken()

    def committed(self) -> None:
        """The group on its way is durable."""
        self.durable_id = self.flying_id
        if self.rules.discard_new:
            self.room.committed()
        if self.rules.allow_counter:
            self.counters.committed()

    def failed(self) -> None:
        """Forget all decisions that were not durable."""
        self.window.forget_after(self.log.index.last_seq)
        self.last_id = self.durable_id
        self.flying_id = self.durable_id
        self.room.failed()
        self.counters.failed()

    def load_window(self, now: i64) -> None:
        """Read the ids of the messages that are inside the window, once after a start.

        Done for the first message with an id: a stream without ids never pays for it. Raises
        ReadFailed when the disk refuses: a message must not pass for new because of that.
        """
        index = self.log.index
        timeline = self.log.timeline
        known: list[tuple[bytes, int, int]] = []
        seq = self.log.reader.first_at(timeline.stored_time(now - self.rules.window) + 1)
        while 0 < seq <= index.last_seq:
            found = self.read_id(seq)
            if len(found) > 0:
                known.append((found, int(seq), int(timeline.engine_time(self.read_time))))
            seq = index.next_seq(seq + 1, b"")
        for found, number, time in known:
            self.window.add(found, number, time)
        self.window_loaded = True

    def read_id(self, seq: i64) -> bytes:
        """The id of a durable message; empty when it has none or is damaged.

        ``read_time`` is when it was stored.
        """
        try:
            data, at = self.log.reader.locate(seq)
        except CorruptRecord:
            return b""
        if len(data) == 0:
            return b""
        self.read_time = record_time(data, at)
        start = subject_end(data, at)
        end = headers_end(data, at)
        if start == end:
            return b""
        found = find_value(data[start:end], MSG_ID)
        return b"" if found is None else found
