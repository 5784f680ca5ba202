"""Units: nanoseconds and bytes as types, and their text forms.

Times are integer nanoseconds since 1970 and RFC 3339 on the wire (wire.md, API requests),
durations are integer nanoseconds and Go's syntax (``1m30s``) in configurations, sizes are integer
bytes and ``64MB`` in configurations.
"""

import re
from datetime import date
from functools import lru_cache
from typing import Final, NewType

Nanoseconds = NewType("Nanoseconds", int)
ByteCount = NewType("ByteCount", int)

ZERO_TIME_TEXT: Final = "0001-01-01T00:00:00Z"
"""The JSON form of a time that is not set (wire.md, API requests)."""

ZERO_TIME_NS: Final = -62_135_596_800_000_000_000
"""The same as nanoseconds since 1970. It does not fit 64 bits."""

LONGEST: Final = 2**61
"""The longest supported wait, 73 years: the current time plus this fits 64 bits."""

LATEST: Final = 2**63 - 1
"""The last time that fits 64 bits of nanoseconds, in the year 2262."""

_SECOND: Final = 1_000_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY_SECONDS: Final = 86_400
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_INT64_MAX: Final = 2**63 - 1

_RFC3339: Final = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:T(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?P<offset>Z|[+-]\d\d:\d\d)"
    r"| (?P<go_time>\d\d:\d\d:\d\d)(?:\.(?P<go_fraction>\d+))? (?P<go_offset>[+-]\d{4}) \S+)",
    re.ASCII,
)
_USUAL: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)\.(\d{1,9})Z", re.ASCII
)
_DURATION_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]*)", re.ASCII)
_DURATION_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,  # Go accepts both letters
    "ms": 1_000_000,
    "s": _SECOND,
    "m": _MINUTE,
    "h": _HOUR,
}
_SHOWN_MAX: Final = 100
_DURATION_MAX: Final = 1000  # a header may have 64 KB, and each part takes a microsecond
_DIGITS_MAX: Final = 40  # more than any number that fits 64 bits has
_FRACTION_DIGITS: Final = 18  # an hour has 13 before the nanosecond
_SIZE: Final = re.compile(r"(-?\d+)\s*([A-Za-z]*)", re.ASCII)
_SIZE_LETTERS: Final = "kmgtpe"
_STORAGE_SIZE: Final = re.compile(r"([+-]?\d+)([KMGT])", re.ASCII)


def seconds(value: float) -> Nanoseconds:
    """Return ``value`` seconds."""
    return _scaled(value, _SECOND)


def milliseconds(value: float) -> Nanoseconds:
    """Return ``value`` milliseconds."""
    return _scaled(value, 1_000_000)


def minutes(value: float) -> Nanoseconds:
    """Return ``value`` minutes."""
    return _scaled(value, _MINUTE)


def hours(value: float) -> Nanoseconds:
    """Return ``value`` hours."""
    return _scaled(value, _HOUR)


def kib(value: int) -> ByteCount:
    """Return ``value`` times 1024 bytes."""
    return ByteCount(value << 10)


def mib(value: int) -> ByteCount:
    """Return ``value`` times 1024 ** 2 bytes."""
    return ByteCount(value << 20)


def gib(value: int) -> ByteCount:
    """Return ``value`` times 1024 ** 3 bytes."""
    return ByteCount(value << 30)


def bounded(duration: int) -> int:
    """Return a duration, or the longest one whose sum with a time of today fits 64 bits.

    Configurations keep what the user wrote; call this before adding it to a time.
    """
    return max(-LONGEST, min(duration, LONGEST))


@lru_cache(maxsize=8)
def _day_seconds(day: str) -> int | None:
    """Return the seconds from 1970 to the beginning of a day; None if the day does not exist."""
    try:
        ordinal = date.fromisoformat(day).toordinal()
    except ValueError:
        return None
    return (ordinal - _EPOCH_ORDINAL) * _DAY_SECONDS


def format_rfc3339(ns: int) -> str:
    """Return a time as UTC RFC 3339: up to nine digits, trailing zeros trimmed, ``Z``.

    Raises ``ValueError`` outside the years 1 to 9999.
    """
    whole, fraction = divmod(ns, _SECOND)
    days, second = divmod(whole, _DAY_SECONDS)
    ordinal = _EPOCH_ORDINAL + days
    if not 1 <= ordinal <= date.max.toordinal():
        raise ValueError(f"time {ns} ns is outside the years 1 to 9999")
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    text = f"{date.fromordinal(ordinal).isoformat()}T{hour:02}:{minute:02}:{second:02}"
    if fraction:
        text += f".{fraction:09}".rstrip("0")
    return text + "Z"


def parse_rfc3339(text: str) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 time with any offset.

    Also reads Go's own form ``2022-08-06 00:29:27.587861324 +0000 UTC``, which older servers send.
    Digits beyond nanoseconds are dropped. Raises ``ValueError`` with the reason.
    """
    usual = _USUAL.fullmatch(text)
    day_starts = _day_seconds(usual[1]) if usual is not None else None
    if usual is not None and day_starts is not None:
        # The form that current servers send with every stored message.
        _, hours_text, minutes_text, seconds_text, digits = usual.groups()
        whole = day_starts + int(hours_text) * 3600 + int(minutes_text) * 60 + int(seconds_text)
        return whole * _SECOND + int(digits.ljust(9, "0"))
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(
            f"bad time {_shown(text)}: expected a form like 2006-01-02T15:04:05.999999999Z"
        )
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError as error:
        raise ValueError(f"bad time {_shown(text)}: {error}") from None
    hour, minute, second = (int(part) for part in (found["time"] or found["go_time"]).split(":"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"bad time {_shown(text)}: the latest time of a day is 23:59:59")
    whole = (day.toordinal() - _EPOCH_ORDINAL) * _DAY_SECONDS
    whole += hour * 3600 + minute * 60 + second
    whole -= _offset_seconds(text, found["offset"] or found["go_offset"])
    fraction = found["fraction"] or found["go_fraction"] or ""
    return whole * _SECOND + int(fraction[:9].ljust(9, "0"))


def parse_duration(text: str) -> Nanoseconds:
    """Return the nanoseconds of a duration in Go's syntax: ``300ms``, ``-1.5h``, ``2h45m``, ``0``.

    Raises ``ValueError`` with the reason; also when it does not fit 64 bits.
    """
    rest = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if rest == "0":
        return Nanoseconds(0)
    if not rest:
        raise ValueError(f"bad duration {_shown(text)}: expected a form like 1h30m or 250ms")
    if len(rest) > _DURATION_MAX:
        raise ValueError(f"bad duration {_shown(text)}: it has {len(text)} characters")
    total = 0
    at = 0
    while at < len(rest):
        part = _DURATION_PART.match(rest, at)
        whole, fraction, unit = part.groups() if part else ("", "", "")
        total += _duration_part(text, whole, fraction or "", unit)
        at = part.end() if part else len(rest)
    if text.startswith("-"):
        total = -total
    if not -_INT64_MAX - 1 <= total <= _INT64_MAX:
        raise ValueError(f"bad duration {_shown(text)}: it is longer than 292 years (64 bits)")
    return Nanoseconds(total)


def format_duration(ns: int) -> str:
    """Return a duration in Go's syntax, in the largest units that fit: ``1h0m0s``, ``1.5ms``."""
    if ns == 0:
        return "0s"
    sign = "-" if ns < 0 else ""
    size = abs(ns)
    for unit, name in ((1_000, "ns"), (1_000_000, "\N{MICRO SIGN}s"), (_SECOND, "ms")):
        if size < unit:
            return f"{sign}{_decimal(size, unit // 1_000)}{name}"
    minute, rest = divmod(size, _MINUTE)
    hour, minute = divmod(minute, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if hour:
        return f"{sign}{hour}h{minute}m{text}"
    return f"{sign}{minute}m{text}" if minute else sign + text


def parse_int64(text: str) -> int | None:
    """Return a decimal number that fits 64 signed bits; None for anything else, however long."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    # Python converts only a few thousand digits at once, and counts leading zeros.
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= 19 else LATEST + 2
    if text.startswith("-"):
        number = -number
    return number if -LATEST - 1 <= number <= LATEST else None


def parse_size(text: str) -> ByteCount:
    """Return the bytes of a size as nats-server's configuration spells it, in any case.

    ``K M G T P E`` alone count in thousands; followed by ``B``, ``i`` or ``iB`` (``64MB``,
    ``64Mi``, ``64MiB``) in 1024s. Negative numbers are allowed: they mean "no limit" there.
    Raises ``ValueError`` with the reason.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"bad size {_shown(text)}: expected a number and a unit, like 64MB or 1GiB"
        )
    number, unit = _whole(found[1]), found[2].lower()
    if unit:
        power = _SIZE_LETTERS.find(unit[0]) + 1
        if power == 0 or unit[1:] not in ("", "b", "i", "ib"):
            raise ValueError(
                f"bad size {_shown(text)}: unknown unit {_shown(found[2])}; expected K, M, G, T, "
                "P or E, alone (thousands) or followed by B, i or iB (1024s)"
            )
        number *= (1024 if unit[1:] else 1000) ** power
    return _checked_size(text, number)


def parse_storage_size(text: str) -> ByteCount:
    """Return the bytes of a *quoted* size of the ``jetstream`` block: ``"1G"`` counts in 1024s.

    nats-server reads ``max_mem: 1G`` as a thousand million bytes and ``max_mem: "1G"`` as 1 GiB;
    there the unit is one of K, M, G, T and must be present. Raises ``ValueError`` with the reason.
    """
    found = _STORAGE_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"bad size {_shown(text)}: expected a number and one of K, M, G, T; "
            "without the quotes also 64MB or 1GiB"
        )
    return _checked_size(text, _whole(found[1]) * 1024 ** ("KMGT".index(found[2]) + 1))


def format_bytes(count: int) -> str:
    """Return a size for people: ``0 B``, ``1.5 KiB``, ``64 MiB``."""
    size = abs(count)
    if size < 1024:
        return f"{count} B"
    power = min((size.bit_length() - 1) // 10, 6)
    # 1023.95 and more would be shown as "1024.0": use the next unit.
    if power < 6 and size * 20 >= (2 * 1024 * 10 - 1) << (10 * power):
        power += 1
    value = f"{size / (1 << (10 * power)):.1f}".removesuffix(".0")
    sign = "-" if count < 0 else ""
    return f"{sign}{value} {'KMGTPE'[power - 1]}iB"


def _scaled(value: float, unit: int) -> Nanoseconds:
    if isinstance(value, int):
        return Nanoseconds(value * unit)
    try:
        return Nanoseconds(round(value * unit))
    except (OverflowError, ValueError):
        raise ValueError(f"bad duration {value!r}: expected a finite number") from None


def _offset_seconds(text: str, offset: str) -> int:
    if offset == "Z":
        return 0
    hour, minute = int(offset[1:3]), int(offset[-2:])
    if hour > 23 or minute > 59:
        raise ValueError(f"bad time {_shown(text)}: offset {offset} is outside -23:59 to +23:59")
    size = hour * 3600 + minute * 60
    return -size if offset[0] == "-" else size


def _duration_part(text: str, whole: str, fraction: str, unit: str) -> int:
    """Return one number with its unit, truncated to nanoseconds."""
    if not whole and not fraction:
        raise ValueError(f"bad duration {_shown(text)}: expected a number before {_shown(unit)}")
    scale = _DURATION_UNITS.get(unit)
    if scale is None:
        was = f"unknown unit {_shown(unit)}" if unit else "a number without unit"
        raise ValueError(f"bad duration {_shown(text)}: {was}; expected ns, us, ms, s, m or h")
    part = _whole(whole or "0") * scale
    if fraction:
        fraction = fraction[:_FRACTION_DIGITS]
        part += int(fraction) * scale // 10 ** len(fraction)
    return part


def _whole(digits: str) -> int:
    """Return a whole number; a value far beyond 64 bits if it has very many digits.

    Python refuses to convert thousands of digits, with an unhelpful message.
    """
    short = digits.lstrip("+-0")[:_DIGITS_MAX] or "0"
    return -int(short) if digits.startswith("-") else int(short)


def _decimal(value: int, unit: int) -> str:
    """Return ``value / unit`` exactly, without trailing zeros; ``unit`` is a power of ten."""
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}}".rstrip("0")


def _shown(text: str) -> str:
    """Return a text as errors quote it, shortened if it is very long."""
    return repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}..."


def _checked_size(text: str, number: int) -> ByteCount:
    if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
        raise ValueError(f"bad size {_shown(text)}: it does not fit 64 bits")
    return ByteCount(number)
