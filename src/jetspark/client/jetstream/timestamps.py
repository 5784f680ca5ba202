"""Times of the API: timezone-aware datetimes."""

from datetime import UTC, datetime

from jetspark.api.base import Timestamp

# A point in time: a datetime from users, or a server's time, exact to the nanosecond.
Moment = datetime | Timestamp


def to_nanoseconds(time: Moment) -> int:
    """Nanoseconds since 1970 of a timezone-aware datetime, or of a server's time."""
    if isinstance(time, Timestamp):
        return int(time)
    if not isinstance(time, datetime):
        raise TypeError(f"{time!r}: expected a datetime with a time zone")
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone: use datetime(..., tzinfo=UTC)")
    # timestamp() is a float: its integral seconds are exact, its fraction is not.
    whole = int(time.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + time.microsecond * 1000


def from_nanoseconds(ns: int) -> datetime:
    """Nanoseconds since 1970 as UTC, truncated to microseconds."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
