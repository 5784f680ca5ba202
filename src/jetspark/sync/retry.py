"""Trying again what failed for the moment: one way for all that works in bulk."""

import random
import time
from collections.abc import Mapping
from typing import Final

from jetspark.errors import Error

RETRY_DELAY_S: Final = 0.2


class Retries:
    """Failures in a row, and the pauses between tries.

    What is transient is tried again, and errors of the classes in ``also``: ``limit`` times
    without a success in between. ``advice`` is added to an error that did not go away.
    """

    def __init__(
        self,
        limit: int,
        *,
        also: tuple[type[Error], ...] = (),
        advice: Mapping[type[Error], str] | None = None,
    ) -> None:
        self._limit = limit
        self._also = also
        self._advice = advice or {}
        self._failures = 0

    def pause(self, error: Error) -> None:
        """Wait before the next try; raise ``error`` when another one is of no use."""
        if not error.transient and not isinstance(error, self._also):
            raise error
        self._failures += 1
        if self._failures > self._limit:
            for kind, text in self._advice.items():
                if isinstance(error, kind):
                    error.add_note(text)
            raise error
        time.sleep(retry_delay(self._failures))

    def restart(self) -> None:
        """Something went well: count from the beginning."""
        self._failures = 0


def retry_delay(failures: int) -> float:
    """Return the seconds to wait after so many failures: doubling, with jitter."""
    jitter = 0.5 + random.random()  # noqa: S311  # spreads tasks out; nothing secret about it
    return RETRY_DELAY_S * 2.0 ** (failures - 1) * jitter
