"""Limits of failed logins, per address and per user name at an address.

An attempt is paid for before its password is checked, so that parallel attempts count as well, and
refunded if it succeeds: a client with the right password costs nothing however often it connects.
Beyond a limit passwords are not checked at all. Otherwise the limit would not slow guessing down,
because the right guess would still be accepted. The client then gets an error after which clients
retry.

Nothing is counted for a user name alone: anyone could lock out a user from elsewhere. Unknown
names are treated like known ones, so that a limit does not reveal who exists.
"""

from typing import Final

from jetspark.clock import Clock
from jetspark.server.config.blocks.jetspark import Limits
from jetspark.units import minutes

PERIOD: Final = minutes(1)
# With more counts than this, those that have expired are removed.
COUNTS_MAX: Final = 10_000


class FailureCounts:
    """Limits the failures of each key in a period; they expire evenly, one by one.

    A key has one number: when all its failures will have expired.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._expires: dict[object, int] = {}
        self._sweep_at = COUNTS_MAX

    def is_full(self, key: object, now: int) -> bool:
        """Return whether another failure would exceed the limit."""
        if self.limit <= 0:
            return False
        return max(self._expires.get(key, 0), now) + PERIOD // self.limit > now + PERIOD

    def add(self, key: object, now: int) -> None:
        """Count a failure."""
        if self.limit <= 0:
            return
        self._expires[key] = max(self._expires.get(key, 0), now) + PERIOD // self.limit
        if len(self._expires) > self._sweep_at:
            self._expires = {key: at for key, at in self._expires.items() if at > now}
            self._sweep_at = max(COUNTS_MAX, 2 * len(self._expires))

    def take_back(self, key: object, now: int) -> None:
        """Undo one `add`."""
        if self.limit <= 0 or key not in self._expires:
            return
        self._expires[key] -= PERIOD // self.limit
        if self._expires[key] <= now:
            del self._expires[key]

    def __len__(self) -> int:
        return len(self._expires)


class LoginLimits:
    """The failed logins of one server. ``refused`` counts the attempts that were not checked."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self.refused: int = 0
        self._clock = clock
        self._by_address = FailureCounts(limits.failed_logins_per_address)
        self._by_user = FailureCounts(limits.failed_logins_per_user)

    def follow(self, limits: Limits) -> None:
        """Apply new limits; what was counted under others is forgotten."""
        if self._by_address.limit != limits.failed_logins_per_address:
            self._by_address = FailureCounts(limits.failed_logins_per_address)
        if self._by_user.limit != limits.failed_logins_per_user:
            self._by_user = FailureCounts(limits.failed_logins_per_user)

    def begin(self, address: str, user: str) -> bool:
        """Return whether a login may be checked, and count it as failed until `succeeded`."""
        now = self._clock.now_ns()
        name = _user_key(address, user)
        if self._by_address.is_full(address, now) or self._by_user.is_full(name, now):
            self.refused += 1
            return False
        self._by_address.add(address, now)
        self._by_user.add(name, now)
        return True

    def succeeded(self, address: str, user: str) -> None:
        """Undo the count of `begin`: the login succeeded, or was not checked after all."""
        now = self._clock.now_ns()
        self._by_address.take_back(address, now)
        self._by_user.take_back(_user_key(address, user), now)


def _user_key(address: str, user: str) -> tuple[str, int]:
    # A name is as long as the client likes; its hash is not.
    return address, hash(user)
