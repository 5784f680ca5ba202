"""Durations: seconds or ``timedelta`` for users, nanoseconds on the wire."""

import math
from datetime import timedelta
from typing import Any, Final, Self

from jetspark.units import Nanoseconds

SECOND_NS: Final = 1_000_000_000
INT64_MAX: Final = 2**63 - 1


class Seconds(float):
    """Seconds from a server, with its exact nanoseconds.

    A float has too few digits beyond 104 days. Sent back to a server, the value is exactly the one
    received.
    """

    __slots__ = ("ns",)
    ns: int

    def __new__(cls, ns: int) -> Self:
        """The seconds for ``ns`` nanoseconds."""
        made = super().__new__(cls, ns / SECOND_NS)
        made.ns = ns
        return made

    def __reduce__(self) -> tuple[type["Seconds"], tuple[int]]:
        return Seconds, (self.ns,)


def to_wire_ns(value: object, name: str) -> Nanoseconds:
    """The nanoseconds of seconds or a timedelta; errors call the value ``name``."""
    if isinstance(value, Seconds):
        return Nanoseconds(value.ns)
    if isinstance(value, timedelta):
        whole = value.days * 86_400 + value.seconds
        ns = whole * SECOND_NS + value.microseconds * 1000
    elif isinstance(value, int) and not isinstance(value, bool):
        ns = value * SECOND_NS
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name}={value}: expected a finite number of seconds; 0 is no limit")
        ns = round(max(min(value, 1e12), -1e12) * SECOND_NS)
    else:
        raise TypeError(f"{name}={value!r}: expected seconds (a number) or a timedelta")
    if ns < 0:
        raise ValueError(f"{name}={value}: expected seconds, 0 or more")
    if ns > INT64_MAX:
        raise ValueError(
            f"{name}={value}: longer than 292 years, which servers cannot represent; 0 means "
            "no limit"
        )
    return Nanoseconds(ns)


def from_wire_ns(ns: Any) -> float:
    """Nanoseconds from a server as seconds."""
    return Seconds(ns)
