"""Times in the options of a read, and the time zone of those without one.

``2026-11-15 12:00:00`` is in the session's time zone, as everywhere in Spark. The process that
plans a read knows neither the zone nor its changes: ``register`` puts the zone into an environment
variable, and the tasks, which do see the session's settings, verify that it is still the same. If
the zone is unknown, a time without one is refused: a guess could read the wrong rows.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from jetspark.errors import Error
from jetspark.spark.option_reader import DIGITS, shortened
from jetspark.units import parse_rfc3339

ZONE_VARIABLE: Final = "JETSPARK_SESSION_ZONE"
ZONE_SETTING: Final = "spark.sql.session.timeZone"

# The range of times in a stream, in nanoseconds since 1970: the years 1677 to 2262.
TIME_MIN: Final = -(2**63)
TIME_MAX: Final = 2**63 - 1
# The last millisecond of the year 9999.
MILLISECONDS_MAX: Final = 253_402_300_799_999

_LOCAL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII)


class ZoneChanged(Error):
    """The session's time zone differs from the one used to parse times."""


class SessionZone(NamedTuple):
    """The session's time zone when the formats were registered."""

    name: str
    default: str
    """The zone of a session without a setting: that of the JVM."""

    def text(self) -> str:
        """Return the value for an environment variable."""
        return f"{self.name},{self.default}"


def session_zone(environ: Mapping[str, str]) -> SessionZone | None:
    """Return the zone that the driver set for this process; None: unknown."""
    name, comma, default = environ.get(ZONE_VARIABLE, "").partition(",")
    return SessionZone(name, default) if comma else None


class TimeOptions:
    """Parses times and records the zone used for those without one."""

    def __init__(self, zone: SessionZone | None) -> None:
        self._zone = zone
        self.assumed: SessionZone | None = None
        """The zone that was used; None: every time had its own."""

    def parse(self, text: str) -> int:
        """Return nanoseconds since 1970.

        Accepts RFC 3339, milliseconds since 1970 as in Spark's Kafka source, and a date or a time
        without a zone. A time outside the range of a stream is moved to that limit.
        """
        if DIGITS.fullmatch(text):
            digits = text.lstrip("0")
            if len(digits) > 15 or int(digits or "0") > MILLISECONDS_MAX:
                raise ValueError(f"{shortened(text)} milliseconds is after the year 9999")
            return min(int(digits or "0") * 1_000_000, TIME_MAX)
        local = _LOCAL.fullmatch(text)
        try:
            exact = parse_rfc3339(text) if local is None else self._local(local)
        except ValueError as error:
            if isinstance(error, _ZoneUnknown):
                raise
            raise ValueError(
                f"{shortened(text)} is not a time like 2026-11-15T12:00:00Z, a time in the "
                "session's time zone like 2026-11-15 12:00:00, a date like 2026-11-15, or "
                "milliseconds since 1970"
            ) from None
        return max(TIME_MIN, min(exact, TIME_MAX))

    def _local(self, found: re.Match[str]) -> int:
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        nanoseconds = int((found[7] or "").ljust(9, "0"))
        instant = datetime(year, month, day, hour, minute, second, tzinfo=self._zone_of(found[0]))
        self.assumed = self._zone
        try:
            since = instant - datetime(1970, 1, 1, tzinfo=UTC)
        except OverflowError:
            raise ValueError("out of range") from None
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + nanoseconds

    def _zone_of(self, text: str) -> tzinfo:
        zone = None if self._zone is None else _tzinfo(self._zone.name)
        if zone is None:
            known = "unknown here" if self._zone is None else f"{self._zone.name!r}, unknown"
            raise _ZoneUnknown(
                f"{text!r} has no time zone, and that of the session is {known}: append Z for "
                "UTC or an offset as in 2026-11-15T12:00:00+01:00"
            )
        return zone


def check_zone(assumed: SessionZone, current: str | None) -> None:
    """Raise ``ZoneChanged`` unless the session's zone is still the same, now ``current``.

    Spark passes the setting to tasks if it was set; None is the JVM's zone.
    """
    now = assumed.default if current is None else current
    if now != assumed.name:
        raise ZoneChanged(
            f"times without a time zone were parsed in {assumed.name!r}, but "
            f"{ZONE_SETTING} is now {now!r}: append Z or an offset to the times of the "
            "options, or call jetspark.spark.register(spark) after changing the time zone and "
            "load again. A streaming query needs a new checkpoint"
        )


class _ZoneUnknown(ValueError):
    """A time without a zone while the session's is unknown."""


def _tzinfo(name: str) -> tzinfo | None:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        size = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-size if offset[1] == "-" else size) if size < timedelta(days=1) else None
    try:
        return UTC if name in {"Z", "UTC"} else ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None
