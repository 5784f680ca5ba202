"""Durations, sizes, times and metadata on the command line, in natscli's units.

Durations: `1h`, `1d12h`, `250ms`; also `w` (7 days), `M` (30 days) and `y` (365 days). Sizes:
`10MB`, `1GiB`, `64K`, always in 1024s, or plain bytes.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1, "us": 1_000, "\N{MICRO SIGN}s": 1_000, "ms": 1_000_000, "s": _SECOND,
    "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86_400 * _SECOND, "w": 7 * 86_400 * _SECOND,
    "M": 30 * 86_400 * _SECOND, "y": 365 * 86_400 * _SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|\N{MICRO SIGN}s|ms|[smhdwMy])", re.ASCII)
_SIZE: Final = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_INT64_MAX: Final = 2**63 - 1


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as `1d2h30m`; ValueError with what is expected."""
    if text == "0":
        return 0
    total, at = 0.0, 0
    exact = 0
    while (part := _PART.match(text, at)) is not None:
        number, unit = part.groups()
        if "." in number:
            total += float(number) * _UNITS[unit]
        else:
            exact += int(number) * _UNITS[unit]
        at = part.end()
    if not at or at != len(text):
        raise ValueError(
            f"{text!r} is no duration: expected a form like 1h30m, 250ms or 7d (units ns, us, ms, "
            "s, m, h, d, w, M, y)"
        )
    if exact + total > _INT64_MAX:
        raise ValueError(f"{text!r} is longer than 292 years, the longest duration")
    return exact + round(total)


def parse_size(text: str) -> int:
    """Bytes of a size such as `10MB`; ValueError with what is expected."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: expected a form like 1024, 64KB, 10MB or 1GiB")
    size: int = int(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ")
    if size > _INT64_MAX:
        raise ValueError(f"{text!r} does not fit 64 bits")
    return size


# Generic in newer versions of click only.
if TYPE_CHECKING:
    _Type = click.ParamType[Any, Any]
else:
    _Type = click.ParamType


class _Quantity(_Type):
    """A value with a form of its own."""


class Duration(_Quantity):
    """A duration; the value is in seconds. ``unlimited``: `-1` is accepted and means 0."""

    name = "duration"

    def __init__(self, *, unlimited: bool = False) -> None:
        self._unlimited = unlimited

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        if isinstance(value, int | float):
            return float(value)
        if self._unlimited and value == "-1":
            return 0.0
        try:
            return parse_duration(value) / _SECOND
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Seconds(Duration):
    """A duration that may be a plain number of seconds; more than 0."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
            value += "s"
        found = super().convert(value, param, ctx)
        if found <= 0:
            self.fail(f"{value!r}: expected more than 0", param, ctx)
        return found


class Size(_Quantity):
    """A size in bytes; `-1` means no limit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        if isinstance(value, int):
            return value
        if value == "-1":
            return -1
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Whole(_Quantity):
    """A whole number from ``least`` to ``most``; help shows no range of 19 digits."""

    name = "number"

    def __init__(self, least: int = 0, most: int = _INT64_MAX) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).replace(",", "").replace("_", "")
        if not re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
            self.fail(f"{value!r} is no whole number", param, ctx)
        number = int(text)
        if number < self._least:
            self.fail(f"{value!r}: expected at least {self._least}", param, ctx)
        if number > self._most:
            self.fail(f"{value!r}: expected at most {self._most}", param, ctx)
        return number


class Moment(_Quantity):
    """A time, or an age: `2026-11-15T12:00:00Z`, `2h30m`. The value is nanoseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds since 1970."""
        if isinstance(value, int):
            return value
        from jetspark.clock import SystemClock
        from jetspark.units import parse_rfc3339

        try:
            return parse_rfc3339(value)
        except ValueError:
            pass
        try:
            return SystemClock().now_ns() - parse_duration(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither a time such as 2026-11-15T12:00:00Z nor an age such as "
                "2h30m",
                param,
                ctx,
            )


class At(Moment):
    """A revision, or a time or age; the value is `("revision" | "time", number)`."""

    name = "revision|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The kind and the number."""
        if isinstance(value, tuple):
            return value
        if str(value).isdecimal():
            return "revision", SEQUENCE.convert(value, param, ctx)
        return "time", super().convert(value, param, ctx)


class Pair(_Quantity):
    """A name and a value, separated by ``separator``: metadata `k=v`, headers `K:V`."""

    def __init__(self, separator: str, name: str) -> None:
        self._separator = separator
        self.name = name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Name and value."""
        if isinstance(value, tuple):
            return value
        key, found, text = str(value).partition(self._separator)
        if not found or not key.strip():
            self.fail(
                f"{value!r}: expected a name and a value, like NAME{self._separator}VALUE",
                param,
                ctx,
            )
        return key.strip(), text.strip()


DURATION: Final = Duration()
LIMIT_DURATION: Final = Duration(unlimited=True)
SECONDS: Final = Seconds()
SIZE: Final = Size()
MOMENT: Final = Moment()
AT: Final = At()
METADATA: Final = Pair("=", "key=value")
HEADER: Final = Pair(":", "name:value")
SEQUENCE: Final = Whole(1)
COUNT: Final = Whole(0)
LIMIT: Final = Whole(-1)
REPLICAS: Final = Whole(1, 5)


def split_names(values: Iterable[str]) -> tuple[str, ...]:
    """Names separated by commas or blanks, or given one by one."""
    return tuple(one for value in values for one in re.split(r"[,\s]+", value) if one)


def show_duration(ns: int) -> str:
    """A duration for people: `1d2h3m4s`, `2m0s`, `1.25s`, `12ms`."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < _SECOND:
        for unit, name in ((1_000_000, "ms"), (1_000, "\N{MICRO SIGN}s"), (1, "ns")):
            if ns >= unit:
                return f"{sign}{_short(ns / unit)}{name}"
        return "0s"
    if ns < 60 * _SECOND:
        return f"{sign}{_short(ns / _SECOND)}s"
    seconds = round(ns / _SECOND)
    parts: list[str] = []
    for size, name in ((365 * 86_400, "y"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{name}")
    return sign + "".join(parts)


def _short(value: float) -> str:
    """At most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def show_seconds(seconds: float) -> str:
    """A duration given in seconds, for people."""
    return show_duration(round(seconds * _SECOND))


def show_time(time: datetime | None) -> str:
    """A time for people, in the zone of this machine."""
    if time is None or time.year == 1:
        return "never"
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def show_limit(value: int, shown: str = "") -> str:
    """A limit: `unlimited` if it is none."""
    return "unlimited" if value <= 0 else shown or f"{value:,}"
