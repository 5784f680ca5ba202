"""Filters that Spark hands to a batch read, turned into less to read (spark.md 6.2).

Comparisons of ``seq`` and ``timestamp`` become a range, ``subject`` an exact filter or a prefix
that ends at a token. What is not met exactly by what is read is left to Spark as well.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from jetspark.spark.planner import SequenceRange
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject

MICROSECOND_NS: Final = 1_000
SUBJECTS_MAX: Final = 16  # each is a scan of its own; beyond that Spark filters better
_FIRST: Final = 0
_END: Final = 2**63


class Pushed(msgspec.Struct, frozen=True):
    """What the filters leave to read: half open ranges, and subjects (none: no matter which)."""

    first: int = _FIRST
    end: int = _END
    since_ns: int | None = None
    until_ns: int | None = None
    """The first nanosecond that is too late."""
    subjects: tuple[str, ...] = ()

    def clamp(self, whole: SequenceRange) -> SequenceRange:
        """Return the part of a range that the comparisons of ``seq`` leave."""
        first = max(whole.first, self.first)
        return SequenceRange(first, max(first, min(whole.end, self.end)))


def push(filters: Sequence[Filter], *, with_subjects: bool) -> tuple[Pushed, list[Filter]]:
    """Return what to read, and the filters that Spark still has to apply.

    ``with_subjects``: the read has no subject filter of its own yet.
    """
    pushed, left = Pushed(), list[Filter]()
    for one in filters:
        narrowed = _narrow(pushed, one, with_subjects=with_subjects and not pushed.subjects)
        if narrowed is None:
            left.append(one)
            continue
        pushed, exact = narrowed
        if not exact:
            left.append(one)
    return pushed, left


def _narrow(pushed: Pushed, one: Filter, *, with_subjects: bool) -> tuple[Pushed, bool] | None:
    """Return what is left to read with one more filter, and whether that is exactly it."""
    if isinstance(one, IsNotNull):
        # No column is ever NULL; of others Spark knows.
        return (pushed, True) if len(one.attribute) == 1 else None
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0].lower() if len(path) == 1 else ""
    if name == "seq":
        return _by_seq(pushed, one)
    if name == "timestamp":
        return _by_time(pushed, one)
    if name == "subject" and with_subjects:
        return _by_subject(pushed, one)
    return None


def _by_seq(pushed: Pushed, one: Filter) -> tuple[Pushed, bool] | None:
    first, end = _FIRST, _END
    match one:
        case EqualTo(value=int(value)):
            first, end = value, value + 1
        case GreaterThan(value=int(value)):
            first = value + 1
        case GreaterThanOrEqual(value=int(value)):
            first = value
        case LessThan(value=int(value)):
            end = value
        case LessThanOrEqual(value=int(value)):
            end = value + 1
        case _:
            return None
    first, end = max(pushed.first, first), max(0, min(pushed.end, end))
    return msgspec.structs.replace(pushed, first=first, end=end), True


def _by_time(pushed: Pushed, one: Filter) -> tuple[Pushed, bool] | None:
    """Spark's times are microseconds, rounded down, so that a bound may let some more in."""
    value = getattr(one, "value", None)
    if not isinstance(value, datetime):
        return None
    at = _nanoseconds(value)
    since, until = pushed.since_ns, pushed.until_ns
    if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        since = at if since is None else max(since, at)
    if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
        late = at + MICROSECOND_NS
        until = late if until is None else min(until, late)
    return msgspec.structs.replace(pushed, since_ns=since, until_ns=until), False


def _by_subject(pushed: Pushed, one: Filter) -> tuple[Pushed, bool] | None:
    match one:
        case EqualTo(value=str(value)) if is_valid_literal(value.encode()):
            return msgspec.structs.replace(pushed, subjects=(value,)), True
        case In(value=values) if 0 < len(values) <= SUBJECTS_MAX:
            unique = tuple(dict.fromkeys(values))
            literal = all(
                isinstance(one, str) and is_valid_literal(one.encode()) for one in unique
            )
            return (msgspec.structs.replace(pushed, subjects=unique), True) if literal else None
        case StringStartsWith(value=str(value)) if value.endswith("."):
            pattern = f"{value}>"
            literal = is_valid_literal(value[:-1].encode())
            if literal and is_valid_subject(pattern.encode()):
                return msgspec.structs.replace(pushed, subjects=(pattern,)), True
    return None


def _nanoseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.astimezone()
    since = aware.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = since.days * 86_400 + since.seconds
    return (whole * 1_000_000 + since.microseconds) * MICROSECOND_NS
