"""A password of the monitoring port or the dashboard, and how often it may be guessed.

An address that guesses wrong too often waits, whichever way the password is presented. While it
waits, nothing it sends is compared, so that more guesses teach nothing. Sessions that were opened
before are not affected (`SignIn`).
"""

import base64
import binascii
import hmac
import math
import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers

from jetspark.server.net.listening import network_of, peer_ip

# Wrong passwords of one address: this many at once, then one more each time the pause is over.
GUESSES: Final = 10
PAUSE_S: Final = 6.0
# Addresses that are remembered; the one that guessed longest ago is forgotten first.
_REMEMBERED: Final = 10_000


class TooManyGuesses(Exception):
    """An address guessed wrong too often; ``seconds`` is how long it has to wait."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong passwords: wait {seconds} seconds, then try again")
        self.seconds: Final = seconds


class Password:
    """What must be presented: a secret, and with ``user`` the name of that user, too."""

    def __init__(
        self, secret: str, user: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not secret:
            raise ValueError("a monitoring token must not be empty; leave it out to have none")
        self.has_user: Final = bool(user)
        self._secret = secret.encode()
        self._user = user.encode()
        self._guesses = _Guesses(clock)

    def admits(self, headers: Headers, client: tuple[str, int] | None) -> bool:
        """Whether a request has it, as a bearer token or by basic authentication.

        Raises TooManyGuesses.
        """
        given = headers.getlist("authorization")
        if len(given) != 1:
            return False
        scheme, _, rest = given[0].strip().partition(" ")
        match scheme.lower():
            case "bearer":
                user, secret = b"", rest.strip().encode("latin-1")
            case "basic":
                user, secret = _basic(rest.strip())
            case _:
                return False
        return self._compare(user, secret, client)

    def matches(self, user: str, secret: str, client: tuple[str, int] | None) -> bool:
        """Whether a person typed it; raises TooManyGuesses."""
        return self._compare(user.encode(), secret.encode(), client)

    def _compare(self, user: bytes, secret: bytes, client: tuple[str, int] | None) -> bool:
        network = network_of(peer_ip(client[0])) if client is not None else ""
        self._guesses.check(network)
        # In constant time, and both of them whatever the first one says.
        is_user = hmac.compare_digest(user, self._user) or not self.has_user
        is_right = hmac.compare_digest(secret, self._secret) and is_user
        if not is_right:
            self._guesses.add(network)
        return is_right


class _Guesses:
    """Counts wrong passwords by address; each is forgotten after a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # When the last wrong password of an address will be forgotten.
        self._until: dict[str, float] = {}

    def check(self, network: str) -> None:
        """Raise TooManyGuesses if an address has used up its guesses."""
        ahead = self._until.get(network, 0.0) - self._clock()
        if ahead > (GUESSES - 1) * PAUSE_S:
            raise TooManyGuesses(math.ceil(ahead - (GUESSES - 1) * PAUSE_S))

    def add(self, network: str) -> None:
        """Count a wrong password."""
        until = max(self._until.pop(network, 0.0), self._clock())
        self._until[network] = until + PAUSE_S
        while len(self._until) > _REMEMBERED:
            del self._until[next(iter(self._until))]


def _basic(encoded: str) -> tuple[bytes, bytes]:
    """User and password of basic credentials; empty if there are none."""
    try:
        both = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    user, _, secret = both.partition(b":")
    return user, secret
