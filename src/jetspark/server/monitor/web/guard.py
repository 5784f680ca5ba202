"""The token that protects the monitoring port (``jetspark.monitor_token``).

nats-server's monitoring is open to anyone who can reach the port. With a token every path requires
it, mounted applications too: as a bearer token, or as the password of basic authentication with
any user, which browsers and old tools support.
"""

import base64
import binascii
import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_CHALLENGES: Final = (
    (b"www-authenticate", b'Bearer realm="jetspark"'),
    (b"www-authenticate", b'Basic realm="jetspark", charset="UTF-8"'),
)


class Guard:
    """Passes requests with the token to ``app`` and answers 401 to all others."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        if not token:
            raise ValueError("a monitoring token must not be empty; leave it out to have none")
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http" and self._admits(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no token"})
            return
        response = PlainTextResponse(
            "this monitoring port needs its token: send it as a bearer token "
            "or as the password of basic authentication\n",
            401,
        )
        response.raw_headers.extend(_CHALLENGES)
        await response(scope, receive, send)

    def _admits(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        if len(given) != 1:
            return False
        scheme, _, rest = given[0].strip().partition(" ")
        match scheme.lower():
            case "bearer":
                presented = rest.strip().encode("latin-1")
            case "basic":
                presented = _password(rest.strip())
            case _:
                return False
        # Constant time.
        return hmac.compare_digest(presented, self._token)


def _password(encoded: str) -> bytes:
    """Return the password of basic credentials; empty, which is not a token, if there is none."""
    try:
        both = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return both.partition(b":")[2]
