"""Where an exception was raised, in one line."""

from __future__ import annotations

import traceback
from typing import Final

__all__ = ["where"]

# How much of the traceback the line shows.
_FRAMES: Final = 4
_ERROR_MAX: Final = 200


def where(error: BaseException) -> str:
    """Return an error and the innermost frames of its traceback, in one line."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    path = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    text = " ".join(str(error)[:_ERROR_MAX].split())
    return f"{type(error).__name__}: {text} ({path})"
