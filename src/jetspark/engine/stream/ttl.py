"""The value of ``Nats-TTL``: the lifetime of a message."""

from typing import Final

from mypy_extensions import i64

from jetspark.units import parse_duration

NO_TTL: Final[i64] = 0
NEVER: Final[i64] = -1
INVALID: Final[i64] = -2

SECOND: Final = 1_000_000_000
# A later end does not fit 64 bits of nanoseconds: it is as good as never.
SECONDS_MAX: Final = 9_000_000_000


def parse_ttl(value: bytes) -> i64:
    """Return whole seconds, NEVER, NO_TTL for a zero without a unit, or INVALID.

    A duration in Go's syntax is truncated to whole seconds and must be at least one; a bare number
    is seconds.
    """
    text = value.decode(errors="replace")
    if text.lower() == "never":
        return NEVER
    try:
        duration = parse_duration(text)
    except ValueError:
        if not value.isdigit():
            return INVALID
        digits = value.lstrip(b"0")
        return min(int(digits or b"0"), SECONDS_MAX) if len(digits) <= 18 else SECONDS_MAX
    if duration < SECOND:
        return INVALID
    return duration // SECOND
