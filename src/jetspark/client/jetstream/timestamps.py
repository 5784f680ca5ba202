"""Times as users see them: datetimes that know their zone, or nanoseconds since 1970."""

from datetime import UTC, datetime


def to_nanoseconds(time: datetime | int) -> int:
    """Nanoseconds since 1970 of a datetime that knows its zone, or of such a number itself."""
    if isinstance(time, int):
        return time
    if not isinstance(time, datetime):
        raise TypeError(
            f"{time!r}: expected a datetime with a time zone, or an int: nanoseconds since 1970"
        )
    if time.tzinfo is None:
        raise ValueError(
            f"{time!r} has no time zone: use datetime(..., tzinfo=UTC) or nanoseconds since 1970"
        )
    # timestamp() is a float: its whole seconds are exact, its fraction is not.
    whole = int(time.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + time.microsecond * 1000


def from_nanoseconds(ns: int) -> datetime:
    """Nanoseconds since 1970 as UTC, cut to microseconds."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
