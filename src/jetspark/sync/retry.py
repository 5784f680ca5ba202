"""Retries after transient errors, for all bulk operations."""

import random
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from jetspark.errors import Error

RETRY_DELAY_S: Final = 0.2
RETRY_DELAY_MAX_S: Final = 5.0
# With jitter.
RETRY_PAUSE_MAX_S: Final = 7.5

Result = TypeVar("Result")


class Retries:
    """Consecutive failures, and the pauses between attempts.

    Transient errors, and errors of the classes in ``also``, are retried ``limit`` times without a
    success in between. With ``outage_s`` transient errors are retried at least that long,
    regardless of the count: a server restart takes some time. No pause is longer than
    ``pause_max_s``. ``advice`` is added to an error that did not go away.
    """

    def __init__(
        self,
        limit: int,
        *,
        outage_s: float = 0.0,
        also: tuple[type[Error], ...] = (),
        advice: Mapping[type[Error], str] | None = None,
        pause_max_s: float = RETRY_PAUSE_MAX_S,
    ) -> None:
        self._limit = limit
        self._outage_s = outage_s
        self._since = 0.0
        self._also = also
        self._advice = advice or {}
        self._pause_max_s = pause_max_s
        self._failures = 0

    def pause(self, error: Error) -> None:
        """Wait before the next attempt; raise ``error`` if another one is useless."""
        if not error.transient and not isinstance(error, self._also):
            raise error
        now = time.monotonic()
        if not self._failures:
            self._since = now
        self._failures += 1
        outage = error.transient and now < self._since + self._outage_s
        if self._failures > self._limit and not outage:
            for kind, text in self._advice.items():
                if isinstance(error, kind):
                    error.add_note(text)
            raise error
        time.sleep(min(retry_delay(self._failures), self._pause_max_s))

    def call(self, attempt: Callable[[], Result], of: type[Error] = Error) -> Result:
        """Return the result of ``attempt``, repeated after errors of the class ``of``."""
        while True:
            try:
                return attempt()
            except of as error:
                self.pause(error)

    def restart(self) -> None:
        """Reset the count after a success."""
        self._failures = 0


def retry_delay(failures: int) -> float:
    """Return the seconds to wait after a number of failures: doubling, with jitter."""
    jitter = 0.5 + random.random()  # noqa: S311  # spreads tasks out; not for security
    # Limited, because 2.0 ** 1025 is no float.
    doubled = RETRY_DELAY_S * 2.0 ** min(failures - 1, 10)
    return min(doubled, RETRY_DELAY_MAX_S) * jitter
