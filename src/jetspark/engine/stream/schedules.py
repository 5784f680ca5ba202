"""Scheduled messages: validation of their headers, and when they are due (wire.md, Publishing)."""

from datetime import UTC, tzinfo
from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.cron import Cron
from jetspark.engine.stream.expectations import staged_last_of
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.rules import Rules
from jetspark.engine.stream.ttl import INVALID, parse_ttl
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.block import (
    append_lines,
    find_value,
    remove_header,
    remove_headers_starting,
)
from jetspark.headers.names import (
    EXPECTED_PREFIX,
    MSG_ID,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULER,
    TTL,
)
from jetspark.store.format.record import FIXED, body_end, headers_end, subject_end
from jetspark.store.log.stream_log import StreamLog
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import LATEST, bounded, format_rfc3339, parse_duration, parse_rfc3339

SECOND: Final = 1_000_000_000
PURGE: Final = b"purge"
ROLLUP_SUBJECT: Final = b"sub"


class Due:
    """When a schedule fires next, by the wall clock, and whether it repeats.

    ``dated``: it fires at a date, even if the clock is set meanwhile; the others fire after a
    time.
    """

    def __init__(self, time_ns: int, *, repeats: bool, dated: bool) -> None:
        self.time_ns: int = time_ns
        self.repeats: bool = repeats
        self.dated: bool = dated


def due(pattern: bytes, zone_name: bytes | None, after_ns: int, now: int) -> Due:
    """Return when a pattern fires for the first time after ``after_ns``, or raise ValueError.

    If it would have fired more than once meanwhile, it fires once: it skips ahead of ``now``.
    """
    text = pattern.decode(errors="replace")
    for prefix in ("@at ", "@every "):
        if text.startswith(prefix) and zone_name is not None:
            raise ValueError(f"{prefix.strip()} takes no time zone")
    if text.startswith("@at "):
        if " " in text[4:]:
            raise ValueError(f"{text[4:]!r} is not a time of RFC 3339")
        # A time before 1970 is due at once, one beyond 64 bits is due at their end.
        return Due(max(1, min(parse_rfc3339(text[4:]), LATEST)), repeats=False, dated=True)
    if text.startswith("@every "):
        every = bounded(parse_duration(text[7:]))
        if every < SECOND:
            raise ValueError("the shortest interval of a schedule is one second")
        following = rounded(after_ns) + every
        if following < now:
            following = rounded(now) + every
        return Due(following, repeats=True, dated=False)
    cron = Cron(text)
    zone = time_zone(zone_name)
    found = cron.following(after_ns, zone)
    if found < now:
        found = cron.following(rounded(now), zone)
    return Due(found, repeats=True, dated=True)


def rounded(time_ns: int) -> int:
    """Return the nearest whole second."""
    return (time_ns + SECOND // 2) // SECOND * SECOND


def time_zone(name: bytes | None) -> tzinfo:
    """Return the time zone of a name; ValueError if it is unknown."""
    if name is None:
        return UTC
    try:
        from zoneinfo import ZoneInfo  # reads the configuration of Python's build: 230 KB

        return ZoneInfo(name.decode())
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is not a known time zone") from error


def schedule_problem(
    headers: PublishHeaders, rules: Rules, log: StreamLog, subject: bytes, now: i64
) -> int:
    """Return the error code for the schedule headers of a publish; 0 if they are valid."""
    problem = _pattern_problem(headers, int(now))
    if problem != 0:
        return problem if rules.allow_schedules else ErrCode.SCHEDULES_DISABLED
    if headers.schedule:
        if not rules.allow_schedules:
            return ErrCode.SCHEDULES_DISABLED
        problem = _terms_problem(headers, rules, subject)
        if problem != 0:
            return problem
    return _end_problem(headers, rules, log, subject)


def _pattern_problem(headers: PublishHeaders, now: int) -> int:
    zone = headers.time_zone if headers.has_time_zone else None
    try:
        if headers.has_time_zone and not headers.time_zone:
            return ErrCode.SCHEDULE_TIME_ZONE_INVALID
        time_zone(zone)
    except ValueError:
        return ErrCode.SCHEDULE_TIME_ZONE_INVALID
    if not headers.schedule:
        return 0
    try:
        due(headers.schedule, zone, now, now)
    except ValueError:
        return ErrCode.SCHEDULE_PATTERN_INVALID
    return 0


def _terms_problem(headers: PublishHeaders, rules: Rules, subject: bytes) -> int:
    """Check a schedule apart from its pattern, in nats-server's order."""
    target = headers.schedule_target
    source = headers.schedule_source
    if headers.schedule_ttl and parse_ttl(headers.schedule_ttl) == INVALID:
        return ErrCode.SCHEDULE_TTL_INVALID
    if headers.schedule_rollup and headers.schedule_rollup != ROLLUP_SUBJECT:
        return ErrCode.SCHEDULE_ROLLUP_INVALID
    if headers.schedule_ttl and not rules.allow_ttl:
        return ErrCode.TTL_DISABLED
    if not is_valid_literal(target) or target == subject:
        return ErrCode.SCHEDULE_TARGET_INVALID
    if source and (source in {target, subject} or not is_valid_literal(source)):
        return ErrCode.SCHEDULE_SOURCE_INVALID
    if not _is_ours(rules, target):
        return ErrCode.SCHEDULE_TARGET_INVALID
    if source and not _is_ours(rules, source):
        return ErrCode.SCHEDULE_SOURCE_INVALID
    if headers.rollup and headers.rollup.lower() != ROLLUP_SUBJECT:
        return ErrCode.SCHEDULE_ROLLUP_INVALID
    return 0


def _end_problem(headers: PublishHeaders, rules: Rules, log: StreamLog, subject: bytes) -> int:
    """Check that a client ends a schedule, and does nothing else that the scheduler does."""
    scheduler = headers.scheduler
    if not headers.schedule_next:
        return ErrCode.SCHEDULE_SCHEDULER_INVALID if scheduler else 0
    if headers.schedule_next != PURGE or scheduler == subject or not is_valid_literal(scheduler):
        return ErrCode.SCHEDULE_SCHEDULER_INVALID
    if not rules.allow_schedules:
        return ErrCode.SCHEDULES_DISABLED
    last = staged_last_of(log, scheduler)
    if last > 0 and not has_schedule(log, last):
        return ErrCode.SCHEDULE_SCHEDULER_INVALID
    return 0


class Fired:
    """A message that a schedule sends, and when the schedule fires again (None: it is over)."""

    def __init__(
        self,
        target: bytes,
        block: bytes,
        body: bytes,
        scheduler: bytes,
        following: Due | None,
    ) -> None:
        self.target: bytes = target
        self.block: bytes = block
        self.body: bytes = body
        self.scheduler: bytes = scheduler
        self.following: Due | None = following


def fired(log: StreamLog, seq: i64, now: int) -> Fired | None:
    """Return what the schedule with this sequence sends; None if it was deleted or is invalid.

    ``now`` is the date and time.
    """
    found = _read(log, seq)
    if found is None:
        return None
    scheduler, block, body = found
    headers = PublishHeaders()
    headers.read(block)
    if not headers.schedule or not headers.schedule_target:
        return None
    try:
        coming = due(
            headers.schedule, headers.time_zone if headers.has_time_zone else None, now, now
        )
    except ValueError:
        return None
    if headers.schedule_source:
        # The last message of another subject is sent, or else the schedule's own.
        source = _read(log, log.index.last_match(headers.schedule_source))
        if source is not None:
            _, block, body = source
    block = remove_headers_starting(block, SCHEDULE)
    block = remove_headers_starting(block, EXPECTED_PREFIX)
    for name in (MSG_ID, TTL, ROLLUP):
        block = remove_header(block, name)
    following = format_rfc3339(coming.time_ns).encode() if coming.repeats else PURGE
    lines = b"%b: %b\r\n%b: %b\r\n" % (SCHEDULER, scheduler, SCHEDULE_NEXT, following)
    if headers.schedule_ttl:
        lines += b"%b: %b\r\n" % (TTL, headers.schedule_ttl)
    if headers.schedule_rollup:
        lines += b"%b: %b\r\n" % (ROLLUP, headers.schedule_rollup)
    return Fired(
        headers.schedule_target,
        append_lines(block, lines),
        body,
        scheduler,
        coming if coming.repeats else None,
    )


def first_due(headers: PublishHeaders, stored_ns: int, now: int) -> Due | None:
    """Return when the schedule of these headers fires first; None if never.

    Both times are dates.
    """
    try:
        return due(
            headers.schedule, headers.time_zone if headers.has_time_zone else None, stored_ns, now
        )
    except ValueError:
        return None


def _read(log: StreamLog, seq: i64) -> tuple[bytes, bytes, bytes] | None:
    """Return subject, headers and body (with its CRLF) of a durable message."""
    try:
        data, at = log.reader.locate(seq)
    except CorruptRecord:
        return None
    if len(data) == 0:
        return None
    start, head = subject_end(data, at), headers_end(data, at)
    return data[at + FIXED : start], data[start:head], data[head : body_end(data, at) + 2]


def has_schedule(log: StreamLog, seq: i64) -> bool:
    """Return whether a message is a schedule; one that is not readable yet counts as one."""
    if seq > log.index.last_seq:
        return True
    found = _read(log, seq)
    return found is not None and bool(find_value(found[1], SCHEDULE))


def _is_ours(rules: Rules, subject: bytes) -> bool:
    return any(matches(subject, pattern) for pattern in rules.subjects)
