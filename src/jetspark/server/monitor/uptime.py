"""Durations as in nats-server's monitoring."""

from typing import Final

from jetspark.units import format_duration

_SECOND_NS: Final = 1_000_000_000
_MICROSECOND_NS: Final = 1_000


def format_uptime(ns: int) -> str:
    """Return whole seconds as ``1y2d3h4m5s``, from the first non-zero unit on."""
    seconds = max(ns, 0) // _SECOND_NS
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    years, day = divmod(days, 365)
    if years:
        return f"{years}y{day}d{hour}h{minute}m{second}s"
    if days:
        return f"{day}d{hour}h{minute}m{second}s"
    if hours:
        return f"{hour}h{minute}m{second}s"
    return f"{minute}m{second}s" if minutes else f"{second}s"


def format_rtt(ns: int) -> str:
    """Return a round trip: below a millisecond in whole microseconds."""
    if _MICROSECOND_NS < ns < 1_000_000:
        ns -= ns % _MICROSECOND_NS
    return format_duration(ns)
