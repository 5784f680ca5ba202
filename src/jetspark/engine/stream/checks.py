"""Validation of a message before a stream accepts it: the checks and their order.

Decisions use staged state (contracts.md, Commit). A refusal that depends on such state says so,
because its reply waits like an acknowledgement does.
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
from jetspark.engine.stream.expectations import LastLooks, LongLook, expected_sequence, staged_last
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
from jetspark.store.log.stream_log import Group, StreamLog

ALLOWED: Final = b""
SUBJECT_TOO_LONG: Final = f"subject exceeds maximum of {int(SUBJECT_MAX)} bytes"
# The headers that the fast path recognises (``take_headers``).
VERSION_LINE: Final = b"NATS/1.0\r\n"
ID_NAME: Final = b"Nats-Msg-Id:"
CRLF: Final = b"\r\n"
UPPER_N: Final[i64] = 0x4E
DASH: Final[i64] = 0x2D
BLANK: Final[i64] = 0x20
CR: Final[i64] = 0x0D
LF: Final[i64] = 0x0A


# Ids that are read in one turn, for messages that can wait for the rest.
IDS_AT_ONCE: Final[i64] = 2048


class Judgement:
    """The result of the checks of one message, and what to store.

    One object serves all messages of a stream: it is valid until the next message is checked.
    """

    def __init__(self) -> None:
        self.headers: PublishHeaders = PublishHeaders()
        # Why it is refused: the body of an error; empty if it may be stored.
        self.error: bytes = ALLOWED
        # The refusal depends on state that may not be durable yet, so its answer waits for that.
        self.on_state: bool = False
        # Its headers name a batch, and the batch decides about it.
        self.batched: bool = False
        # The sequence of a message with the same id; 0: none.
        self.duplicate_of: i64 = 0
        self.block: bytes = b""
        self.body: bytes = b""  # ends with CRLF
        self.count: Value | None = None
        self.ttl: i64 = NO_TTL

    def begin(self, block: bytes, body: bytes) -> None:
        """Reset it for the next message."""
        self.error = ALLOWED
        self.on_state = False
        self.batched = False
        self.duplicate_of = 0
        self.block = block
        self.body = body
        self.count = None
        self.ttl = NO_TTL

    def decide(self, error: bytes) -> None:
        """Set why the message is refused; empty if it is not."""
        self.error = error

    def depends_on_state(self) -> None:
        """Note that the refusal depends on state that may not be durable yet."""
        self.on_state = True

    def leave_to_batch(self) -> None:
        """Note that the headers name a batch, which decides about the message."""
        self.batched = True

    def repeats(self, seq: i64) -> None:
        """Note the sequence of a message with the same id; 0: none."""
        self.duplicate_of = seq

    def set_ttl(self, ttl: i64, least: i64) -> None:
        """Set the TTL; at least ``least`` if that is positive and the message ends at all."""
        if 0 < ttl < least:
            ttl = least
            block = remove_header(self.block, TTL)
            self.block = append_lines(block, b"%b: %d\r\n" % (TTL, int(least)))
        self.ttl = ttl

    def set_total(self, number: int) -> None:
        """Replace the body by the new value of a counter."""
        self.body = b'{"val":"%b"}\r\n' % format_integer(number)

    def set_count(self, count: Value) -> None:
        """Turn the message into the new value of a counter."""
        self.count = count
        self.set_total(count.number)
        if count.sources:
            block = remove_header(self.block, COUNTER_SOURCES)
            self.block = append_lines(block, b"%b: %b\r\n" % (COUNTER_SOURCES, count.sources))

    def copy_count(self, count: Value | None) -> None:
        """Set the value of a counter that is copied as it is."""
        self.count = count

    def forget_id(self) -> None:
        """Ignore the id of the message, which has no meaning to the stream that stores it."""
        self.headers.forget_id()

    def replace_subject(self) -> None:
        """Turn the message into a rollup: a schedule replaces the previous one on its subject."""
        if len(self.headers.schedule) > 0 and len(self.headers.rollup) == 0:
            self.headers.set_rollup(b"sub")
            self.block = append_lines(self.block, ROLLUP + b": sub\r\n")


class Checks:
    """The checks of one stream, and their state between messages."""

    def __init__(self, rules: Rules, log: StreamLog, max_ids: i64) -> None:
        self.rules: Rules = rules
        self.log: StreamLog = log
        self.judged: Judgement = Judgement()
        self.window: DuplicateWindow = DuplicateWindow(rules.window, max_ids)
        self.window_loaded: bool = False
        # How far the ids were read that it has after a start; 0: not at all.
        self._load_at: i64 = 0
        self._load_failed: bool = False
        self.room: Room = Room(rules, log)
        # Consulted for each message while a limit of the account or the server may refuse it.
        self.quota: Quota | None = None
        # The last message if the disk failed to read its id, otherwise 0: see `know_last_id`.
        self.id_unread: i64 = 0
        # Id of the last message: staged, of the group in flight, durable.
        self.durable_id: bytes = self.first_id()
        self.in_flight_id: bytes = self.durable_id
        self.last_id: bytes = self.durable_id
        self.counters: Counters = Counters(log)
        self._lasts: LastLooks = LastLooks(log)

    def configure(self, rules: Rules, quota: Quota | None) -> None:
        """Apply a configuration; ``settle`` follows when it is durable."""
        self.rules = rules
        self.quota = quota
        self.room.configure(rules)

    def settle(self) -> None:
        """Forget ids by the configuration, which is durable now."""
        self.window.configure(self.rules.window)

    # Checking ----------------------------------------------------------------------------------

    def judge(
        self, subject: bytes, block: bytes, body: bytes, now: i64, in_batch: bool
    ) -> Judgement:
        """Check a message; ``in_batch``: its batch headers have no further meaning.

        If the disk fails to read what a check needs, the message is refused with that error.
        Raises LongLook, before anything has changed, if it takes several turns.
        """
        judged = self.judged
        judged.begin(block, body)
        try:
            judged.decide(self.problem(judged, subject, now, in_batch))
        except ReadFailed as problem:
            judged.decide(error_body(ErrCode.STORE_FAILED, err=problem.public))
        return judged

    def problem(self, judged: Judgement, subject: bytes, now: i64, in_batch: bool) -> bytes:
        """Return why a message is refused; empty if it is not, or if another part decides."""
        rules = self.rules
        if rules.sealed:
            return error_body(ErrCode.STREAM_SEALED)
        # Before all headers, in 2.15.1 (observed; wire.md, Publishing has it from older source).
        error = self.size_problem(subject, judged.block, judged.body)
        if len(error) > 0:
            return error
        headers = judged.headers
        if len(judged.block) > 0 and headers.read(judged.block):
            error = self.header_problem(judged, subject, now, in_batch)
            if len(error) > 0 or judged.batched or judged.duplicate_of > 0:
                return error
            if len(headers.rollup) > 0 and self.log.staged.must_gather():
                raise LongLook("what a rollup removes", self.log.gather_some)
        else:
            headers.clear()
        if rules.allow_counter:
            error = self.add_up(judged, subject)
            if len(error) == 0:
                error = self.size_problem(subject, judged.block, judged.body)
            if len(error) > 0:
                return error
        return self.last_problem(judged, subject)

    def judge_fired(self, subject: bytes, block: bytes, body: bytes) -> Judgement:
        """Check a message that a schedule sends; only limits can refuse it."""
        judged = self.read(block, body)
        # These headers are the scheduler's own here; it acts on them itself.
        judged.headers.forget_schedule()
        return self.judge_limits(judged, subject)

    def judge_copy(
        self, subject: bytes, block: bytes, body: bytes, count: Value | None
    ) -> Judgement:
        """Check a message of another stream; only limits can refuse it."""
        rules = self.rules
        judged = self.read(block, body)
        judged.copy_count(count)
        headers = judged.headers
        # These were meant for the origin, or are not allowed here.
        headers.forget_schedule()
        if not rules.allow_rollup or headers.rollup.lower() not in (b"sub", b"all"):
            headers.set_rollup(b"")
        if not rules.allow_ttl or parse_ttl(headers.ttl) == INVALID:
            headers.forget_ttl()
        return self.judge_limits(judged, subject)

    def judge_member(self, subject: bytes, block: bytes, body: bytes) -> Judgement:
        """Prepare a message for storage whose batch was validated as a whole."""
        judged = self.read(block, body)
        judged.replace_subject()
        if self.rules.allow_counter:
            self.add_up(judged, subject)
        if len(judged.headers.ttl) > 0:
            self.set_ttl(judged, parse_ttl(judged.headers.ttl))
        return judged

    def read(self, block: bytes, body: bytes) -> Judgement:
        """Parse the headers of a message, without a check."""
        judged = self.judged
        judged.begin(block, body)
        judged.headers.read(block)
        return judged

    def judge_limits(self, judged: Judgement, subject: bytes) -> Judgement:
        """Check only the limits that a message may exceed."""
        error = self.size_problem(subject, judged.block, judged.body)
        if len(error) == 0:
            error = self.last_problem(judged, subject)
        judged.decide(error)
        return judged

    def stored_without_id(self) -> None:
        """Note that a message without an id was staged."""
        self.last_id = b""

    def find_duplicate(self, msg_id: bytes, now: i64, may_wait: bool = False) -> i64:
        """Return the sequence of a message inside the window that has an id; 0: none.

        Raises ReadFailed if the ids cannot be read, and if it may wait, LongLook while they are.
        """
        if self.rules.window <= 0:
            return 0
        if not self.window_loaded:
            self.load_window(now, may_wait)
        return self.window.find(msg_id, now)

    def first_id(self) -> bytes:
        """Return the id of the last message when the stream was opened, as far as readable."""
        try:
            return self.read_id(self.log.index.last_seq)[0]
        except ReadFailed:
            self.id_unread = self.log.index.last_seq
            return b""

    def know_last_id(self) -> None:
        """Read the id of the last message if that failed before; raises ReadFailed again."""
        if self.id_unread == self.log.staged.seq:
            self.last_id = self.in_flight_id = self.durable_id = self.read_id(self.id_unread)[0]
        self.id_unread = 0

    def take_headers(self, data: bytes, hs: i64, ps: i64, now: i64) -> bool:
        """Take the headers of a message that no rule concerns and that is stored next unchanged.

        At most an id in them has a meaning to a stream. False, with nothing taken, if there is
        more to it: ``judge`` decides then.
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

    def size_problem(self, subject: bytes, block: bytes, body: bytes) -> bytes:
        """Check that the message is not larger than stream, account and server allow."""
        headers_length: i64 = len(block)
        if len(subject) > SUBJECT_MAX:
            return error_body(ErrCode.STORE_FAILED, err=SUBJECT_TOO_LONG)
        if 0 <= self.rules.max_msg_size < headers_length + len(body) - 2:
            return error_body(ErrCode.MESSAGE_TOO_LARGE)
        if headers_length > MESSAGE_HEADERS_MAX:
            return error_body(ErrCode.HEADERS_TOO_LARGE)
        quota = self.quota
        if quota is not None:
            return quota.problem(subject, int(headers_length), len(body) - 2)
        return ALLOWED

    def last_problem(self, judged: Judgement, subject: bytes) -> bytes:
        """Run the last checks: TTL and room."""
        headers = judged.headers
        if len(headers.ttl) > 0:
            ttl = parse_ttl(headers.ttl)
            if ttl == INVALID:
                return error_body(ErrCode.TTL_INVALID)
            self.set_ttl(judged, ttl)
        if len(headers.msg_id) > 0 and self.window.is_full():
            return error_body(ErrCode.INSUFFICIENT_RESOURCES)
        if self.rules.discard_new:
            problem = self.room.problem(
                subject, len(judged.block), len(judged.body) - 2, len(headers.rollup) > 0
            )
            if len(problem) > 0:
                judged.depends_on_state()
                return error_body(ErrCode.STORE_FAILED, err=problem)
        return ALLOWED

    def set_ttl(self, judged: Judgement, ttl: i64) -> None:
        """Set the TTL: a message lives at least as long as the marker that its end would leave."""
        single = self.rules.max_per_subject == 1
        judged.set_ttl(ttl, 0 if single else self.rules.marker_ttl // SECOND)

    def add_up(self, judged: Judgement, subject: bytes) -> bytes:
        """Count: the message becomes the new value of its subject."""
        if len(judged.headers.incr) == 0:
            return error_body(ErrCode.COUNTER_INCREMENT_MISSING)
        try:
            before = self.counters.current(subject)
        except CounterBroken:
            return error_body(ErrCode.COUNTER_BROKEN)
        total = before.number + parse_integer(judged.headers.incr)
        judged.set_count(Value(0, total, before.sources))
        return ALLOWED

    def header_problem(self, judged: Judgement, subject: bytes, now: i64, in_batch: bool) -> bytes:
        """Run the checks that only a message with ``Nats-`` headers can fail, up to the rollup."""
        headers = judged.headers
        rules = self.rules
        if (
            headers.batching
            and not in_batch
            and (len(headers.batch_id) > 0 or len(headers.fast_batch_id) > 0)
        ):
            judged.leave_to_batch()
            return ALLOWED
        if len(headers.incr) > 0:
            error = increment_problem(headers, rules, len(judged.body) - 2)
            if len(error) > 0:
                return error
        if len(headers.expected_stream) > 0 and headers.expected_stream != rules.name:
            return error_body(ErrCode.WRONG_STREAM)
        if len(headers.ttl) > 0 and not rules.allow_ttl:
            ttl = parse_ttl(headers.ttl)
            if ttl > 0 or ttl == NEVER:
                return error_body(ErrCode.TTL_DISABLED)
        error = self.sequence_problem(judged, subject)
        if len(error) > 0:
            return error
        if headers.scheduling:
            problem = schedule_problem(headers, rules, self.log, subject, now)
            if problem != 0:
                return error_body(problem)
            judged.replace_subject()
        if len(headers.stream_source) > 0:
            return error_body(ErrCode.SOURCE_HEADER_NOT_ALLOWED)
        if len(headers.msg_id) > 0:
            judged.repeats(self.find_duplicate(headers.msg_id, now, True))
            if judged.duplicate_of > 0:
                return ALLOWED
        if len(headers.expected_last_id) > 0 and self.id_unread > 0:
            self.know_last_id()
        if len(headers.expected_last_id) > 0 and headers.expected_last_id != self.last_id:
            judged.depends_on_state()
            last = self.last_id.decode(errors="replace")
            return error_body(ErrCode.WRONG_LAST_MSG_ID, id=last)
        if len(headers.rollup) > 0:
            return rollup_problem(headers, rules)
        return ALLOWED

    def last_of(self, subject: bytes) -> i64:
        """Return the last sequence of a subject or pattern; may raise LongLook."""
        return self._lasts.last_of(subject)

    def sequence_problem(self, judged: Judgement, subject: bytes) -> bytes:
        """Check expected last sequences, of a subject and of the stream."""
        headers = judged.headers
        actual: i64
        if len(headers.expected_subject_seq) > 0:
            if len(headers.expected_subject) > 0:
                subject = headers.expected_subject
            actual = self._lasts.last_of(subject)
            if expected_sequence(headers.expected_subject_seq) != actual:
                judged.depends_on_state()
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=int(actual))
        elif len(headers.expected_subject) > 0:
            return error_body(ErrCode.LAST_SUBJECT_SEQUENCE_MISSING)
        if len(headers.expected_last_seq) > 0:
            actual = staged_last(self.log)
            if expected_sequence(headers.expected_last_seq) != actual:
                judged.depends_on_state()
                return error_body(ErrCode.WRONG_LAST_SEQUENCE, seq=int(actual))
        return ALLOWED

    # State -------------------------------------------------------------------------------------

    def accepted(self, judged: Judgement, subject: bytes, seq: int, time_ns: i64) -> None:
        """Note that a message was staged as checked."""
        msg_id = judged.headers.msg_id
        self.last_id = msg_id
        if len(msg_id) > 0 and self.rules.window > 0:
            self.window.add(msg_id, seq, time_ns)
        if self.rules.discard_new:
            self.room.take(subject, len(judged.headers.rollup) > 0)
        count = judged.count
        if count is not None:
            self.counters.stage(subject, count, seq)

    def accepted_unkept(self, judged: Judgement, seq: int, time_ns: i64) -> None:
        """Note that a message got its sequence and is not kept."""
        msg_id = judged.headers.msg_id
        self.last_id = msg_id
        if len(msg_id) > 0:
            self.window.add(msg_id, seq, time_ns)

    def group_taken(self) -> None:
        """Note that the staged messages are in flight."""
        self.in_flight_id = self.last_id
        if self.rules.discard_new:
            self.room.group_taken()

    def applied(self, group: Group, before: i64) -> None:
        """Note that more messages of the group in flight were applied than ``before``."""
        if self.rules.discard_new:
            self.room.applied(group.entries[before : group.applied_messages])

    def committed(self, group: Group, before: i64) -> None:
        """Note that the group in flight is durable, all of it; ``before`` as in ``applied``."""
        self.durable_id = self.in_flight_id
        if self.rules.discard_new:
            if self.room.left is not None:
                self.room.applied(group.entries[before:])
            self.room.committed()
        if self.rules.allow_counter:
            self.counters.committed()

    def failed(self) -> None:
        """Forget all decisions that are not durable."""
        self.window.forget_after(self.log.index.last_seq)
        self.last_id = self.durable_id
        self.in_flight_id = self.durable_id
        self.room.failed()
        self.counters.failed()

    def rewind(self, last_id: bytes) -> None:
        """Undo a batch: forget what was staged after the last message that is left."""
        last = self.log.staged.seq
        self.last_id = last_id
        self.window.forget_after(last)
        self.counters.rewind(last)

    def load_window(self, now: i64, may_wait: bool) -> None:
        """Read the ids of the messages that are inside the window, once after a start.

        Done for the first message with an id: a stream without ids never pays for it. Raises
        ReadFailed if the disk fails: a message must not count as new because of that. Very many
        are read in steps if the caller may wait, which raises LongLook.
        """
        is_first = self._load_at == 0
        if is_first:
            start = self.log.timeline.stored_time(now - self.rules.window) + 1
            self._load_at = max(self.log.reader.first_at(start), i64(1))
        tries = is_first or self._load_failed
        self._load_failed = False
        if may_wait and (not tries or not self._load_some()):
            raise LongLook("the ids of earlier messages", self._look_up)
        while not self._load_some():
            pass

    def _look_up(self) -> bool:
        """Read some ids for messages that wait for them; True when they are to ask again."""
        try:
            return self.window_loaded or self._load_some()
        except ReadFailed:
            # The first that asks again tries again, and is refused if that fails.
            self._load_failed = True
            return True

    def _load_some(self) -> bool:
        """Read some of the ids inside the window; True when all are read."""
        index = self.log.index
        left = IDS_AT_ONCE
        seq = index.next_seq(self._load_at, b"")
        while 0 < seq <= index.last_seq:
            if left <= 0:
                return False
            left -= 1
            found, stored = self.read_id(seq)
            if len(found) > 0:
                self.window.add(found, int(seq), self.log.timeline.engine_time(stored))
            self._load_at = seq + 1
            seq = index.next_seq(seq + 1, b"")
        self.window_loaded = True
        return True

    def read_id(self, seq: i64) -> tuple[bytes, i64]:
        """Return the id of a durable message, empty if it has none or is damaged, and its time."""
        try:
            data, at = self.log.reader.locate(seq)
        except CorruptRecord:
            return b"", 0
        if len(data) == 0:
            return b"", 0
        stored = record_time(data, at)
        start = subject_end(data, at)
        end = headers_end(data, at)
        if start == end:
            return b"", stored
        found = find_value(data[start:end], MSG_ID)
        return (b"" if found is None else found), stored
