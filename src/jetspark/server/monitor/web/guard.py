"""The token that protects the monitoring port (``jetspark.monitor_token``).

nats-server's monitoring is open to anyone who can reach the port. With a token every path requires
it: as a bearer token, or as the password of basic authentication with any user, which browsers and
old tools support. Only applications that ask for a password themselves (`SignIn`) are passed by.
"""

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jetspark.server.monitor.web.password import Password, TooManyGuesses

_CHALLENGES: Final = (
    (b"www-authenticate", b'Bearer realm="jetspark"'),
    (b"www-authenticate", b'Basic realm="jetspark", charset="UTF-8"'),
)


class Guard:
    """Passes requests with the token to ``app`` and answers 401 to all others.

    ``passed_by`` are the paths of applications that ask for a password themselves.
    """

    def __init__(self, app: ASGIApp, token: str, passed_by: tuple[str, ...] = ()) -> None:
        self._app = app
        self._password = Password(token)
        self._passed_by = passed_by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no token"})
            return
        try:
            is_admitted = self._is_passed_by(scope["path"]) or self._password.admits(
                Headers(scope=scope), scope.get("client")
            )
        except TooManyGuesses as error:
            waits = {"Retry-After": str(error.seconds)}
            await PlainTextResponse(f"{error}\n", 429, headers=waits)(scope, receive, send)
            return
        if is_admitted:
            await self._app(scope, receive, send)
            return
        response = PlainTextResponse(
            "this monitoring port needs its token: send it as a bearer token "
            "or as the password of basic authentication\n",
            401,
        )
        response.raw_headers.extend(_CHALLENGES)
        await response(scope, receive, send)

    def _is_passed_by(self, path: str) -> bool:
        return any(path == each or path.startswith(f"{each}/") for each in self._passed_by)
