"""Repeating schedules in cron's notation: second, minute, hour, day, month, day of the week.

Implements the notation that nats-server 2.15 documents and accepts: lists, ranges, steps, names of
months and days, ``*`` and ``?``. A day must match day and day of the week if one of them is a
star, and either of them if both are given.
"""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

YEARS_AHEAD: Final = 5  # a schedule must fire within five years
SECOND: Final = 1_000_000_000

SHORTHANDS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_DAYS: Final = {
    name: n for n, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}
_BOUNDS: Final = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


class Cron:
    """A parsed pattern; raises ValueError with the reason if it is invalid."""

    def __init__(self, pattern: str) -> None:
        fields = SHORTHANDS.get(pattern, pattern).split()
        if len(fields) != len(_BOUNDS):
            raise ValueError(f"expected {len(_BOUNDS)} fields, got {len(fields)}")
        sets = []
        stars = []
        for text, (low, high), names in zip(
            fields, _BOUNDS, ({}, {}, {}, {}, _MONTHS, _DAYS), strict=True
        ):
            values, star = _field(text, low, high, names)
            sets.append(values)
            stars.append(star)
        self._seconds, self._minutes, self._hours = (sorted(s) for s in sets[:3])
        self._days, self._months, self._weekdays = sets[3:]
        self._either = not (stars[3] or stars[5])

    def following(self, after_ns: int, zone: tzinfo = UTC) -> int:
        """Return the first time after ``after_ns`` that matches; ValueError if it is too far."""
        start = datetime.fromtimestamp(after_ns // SECOND, zone) + timedelta(seconds=1)
        day = start.date()
        end = day.replace(year=day.year + YEARS_AHEAD, month=12, day=31)
        while day <= end:
            if day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._matches(day):
                found = self._within(day, after_ns // SECOND, zone)
                if found:
                    return found
            day += timedelta(days=1)
        raise ValueError(f"the pattern does not match any time within {YEARS_AHEAD} years")

    def _matches(self, day: date) -> bool:
        by_day = day.day in self._days
        by_weekday = day.isoweekday() % 7 in self._weekdays
        return by_day or by_weekday if self._either else by_day and by_weekday

    def _within(self, day: date, after: int, zone: tzinfo) -> int:
        """Return the first time of a day later than ``after``, in seconds; 0: none."""
        for hour in self._hours:
            if _time_of(day, hour, 59, 59, zone) <= after:
                continue
            for minute in self._minutes:
                last = _time_of(day, hour, minute, 59, zone)
                # Not second by second: an hour has thousands, and each takes microseconds.
                if last <= after or not _exists(last, hour, zone):
                    continue
                for second in self._seconds:
                    found = _time_of(day, hour, minute, second, zone)
                    if found > after and _exists(found, hour, zone):
                        return found * SECOND
        return 0


def _time_of(day: date, hour: int, minute: int, second: int, zone: tzinfo) -> int:
    return int(datetime.combine(day, time(hour, minute, second), zone).timestamp())


def _exists(seconds: int, hour: int, zone: tzinfo) -> bool:
    """Return whether a time is in its hour: one skipped by daylight saving is not."""
    return datetime.fromtimestamp(seconds, zone).hour == hour


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    values: set[int] = set()
    star = False
    for part in text.split(","):
        if part:
            some, is_star = _range(part, low, high, names)
            values |= some
            star = star or is_star
    return values, star


def _range(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    bounds, slash, step_text = text.partition("/")
    first, hyphen, last = bounds.partition("-")
    star = first in {"*", "?"}
    start = low if star else _number(first, names)
    end = high if star else (_number(last, names) if hyphen else start)
    step = 1
    if slash:
        step = _number(step_text, {})
        if not hyphen:
            end = high
    if start < low or end > high or start > end or step == 0:
        raise ValueError(f"{text!r} is not within {low} to {high}")
    return set(range(start, end + 1, step)), star and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not (text.isascii() and text.removeprefix("+").isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
