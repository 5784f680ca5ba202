"""Asks people for a password with a page, and programs with a status.

A browser that has signed in has a cookie that scripts cannot read and that pages of other sites
cannot use for anything but following a link. Programs send the password with every request, as for
the rest of the monitoring port.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jetspark.server.monitor.web.password import Password, TooManyGuesses

# A working day; after that a person signs in again.
SESSION_S: Final = 12 * 3600.0
_SESSIONS_MAX: Final = 1000


class Sessions:
    """The browsers that have signed in, in memory: a restart signs everyone out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By the digest, so that how long a search takes says nothing about a secret.
        self._ends: dict[bytes, float] = {}

    def open(self, scope: Scope) -> str:
        """Open one, and return the header that gives it to the browser."""
        secret = secrets.token_urlsafe(32)
        self._ends[_digest(secret)] = self._clock() + SESSION_S
        while len(self._ends) > _SESSIONS_MAX:
            del self._ends[next(iter(self._ends))]
        return _cookie(scope, secret)

    def close(self, scope: Scope) -> str:
        """Close the one of a request, and return the header that removes it from the browser."""
        self._ends.pop(_digest(_presented(scope)), None)
        return _cookie(scope, "") + "; Max-Age=0"

    def admits(self, scope: Scope) -> bool:
        """Whether a request has an open one."""
        presented = _presented(scope)
        return bool(presented) and self._ends.get(_digest(presented), 0.0) > self._clock()


class SignIn:
    """Passes requests of a session or with the password to ``app``, all others to ``login``.

    The login page opens sessions with ``sessions`` and ``password``; it shows nothing else.
    """

    # The guard of the monitoring port leaves its requests to it.
    asks_password: Final = True

    def __init__(
        self, app: ASGIApp, login: ASGIApp, password: Password, sessions: Sessions
    ) -> None:
        self._app = app
        self._login = login
        self._password = password
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._login(scope, receive, send)
            return
        try:
            is_admitted = self._sessions.admits(scope) or self._password.admits(
                Headers(scope=scope), scope.get("client")
            )
        except TooManyGuesses as error:
            body = {"error": str(error), "hint": "", "status": 429}
            waits = {"Retry-After": str(error.seconds), "Cache-Control": "no-store"}
            await JSONResponse(body, 429, headers=waits)(scope, receive, send)
            return
        await (self._app if is_admitted else self._login)(scope, receive, send)


def _name(scope: Scope) -> str:
    """The name of the cookie: browsers send those of a host to all of its ports."""
    server = scope.get("server")
    return f"jetspark-{server[1] if server else 0}"


def _presented(scope: Scope) -> str:
    # By hand: the parser of the standard library stops at a malformed cookie of another program.
    for text in Headers(scope=scope).getlist("cookie"):
        for pair in text.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == _name(scope):
                return value
    return ""


def _cookie(scope: Scope, secret: str) -> str:
    # Without a path it is valid for the folder of the request, also with a proxy that maps
    # paths. Lax: a link in a chat opens the page without another password.
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{_name(scope)}={secret}; HttpOnly; SameSite=Lax{secure}"


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
