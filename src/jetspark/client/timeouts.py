"""The timeout of a call: its own, or the default of the handle it was made on."""

import math
from datetime import timedelta
from typing import Literal

# What is still to be looked up; inside the client a timeout that was is a float of seconds.
Timeout = float | timedelta
"""How long a call may wait: seconds, or a ``timedelta``. None is the default of the handle."""

# How long a message or value lives; "never" is for ever, whatever the stream says.
TimeToLive = float | timedelta | Literal["never"]


def call_seconds(timeout: Timeout | None, default: float, name: str = "timeout") -> float:
    """``timeout``, or ``default`` for None; what is no number of seconds is refused.

    NaN above all: it compares with nothing, so a deadline made of it would never come.
    """
    if timeout is None:
        return default
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"{name} must be seconds or a timedelta, not {type(timeout).__name__}; None is "
            "the default"
        )
    if math.isnan(timeout):
        raise ValueError(f"{name}=nan: expected a number of seconds")
    return timeout
