"""Timeouts of calls: the argument, or the default of the handle."""

import math
from datetime import timedelta
from typing import Literal

# As passed by users; inside the client a timeout is a float of seconds.
Timeout = float | timedelta
"""How long a call may wait: seconds, or a ``timedelta``. None means the handle's default."""

# How long a message or value lives; "never" overrides the stream's max_age.
TimeToLive = float | timedelta | Literal["never"]


def call_seconds(timeout: Timeout | None, default: float, name: str = "timeout") -> float:
    """``timeout`` in seconds, or ``default`` for None; refuses anything else.

    Including NaN: it compares with nothing, so such a deadline would never pass.
    """
    if timeout is None:
        return default
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"{name} must be seconds or a timedelta, not {type(timeout).__name__}; None means "
            "the default"
        )
    if math.isnan(timeout):
        raise ValueError(f"{name}=nan: expected a number of seconds")
    return timeout
