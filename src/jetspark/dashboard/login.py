"""The login page, and the requests that open and close a session."""

from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jetspark.dashboard.errors import BadInput, Problem, problem_of
from jetspark.dashboard.own_pages import read_body
from jetspark.server.monitor.web.password import Password, TooManyGuesses
from jetspark.server.monitor.web.sign_in import Sessions

BODY_MAX: Final = 8192
# What the page needs; everything else of the dashboard requires the password.
_FILES: Final = {
    "/login.js": "text/javascript; charset=utf-8",
    "/style.css": "text/css; charset=utf-8",
    "/icon.svg": "image/svg+xml",
}
# Of browsers, only a challenge for basic authentication would open their own dialog.
_NO_STORE: Final = {"Cache-Control": "no-store"}
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="jetspark"', **_NO_STORE}


class Login:
    """What the dashboard shows to those who have not signed in."""

    def __init__(self, password: Password, sessions: Sessions) -> None:
        self._password = password
        self._sessions = sessions
        asks = "user" if password.has_user else "password"
        page = _content("/login.html").replace(
            b'data-asks="password"', f'data-asks="{asks}"'.encode()
        )

        async def show(_request: Request) -> Response:
            # No answer that a cache keeps: after the password the same address has the pages.
            return Response(page, 401, _CHALLENGE, media_type="text/html; charset=utf-8")

        routes = [
            Route("/", show, methods=["GET"]),
            Route("/login", self.log_in, methods=["POST"]),
            *(Route(path, _file(path, kind), methods=["GET"]) for path, kind in _FILES.items()),
        ]
        handlers = {404: _refused, 405: _refused}
        self.app: Final = Starlette(routes=routes, exception_handlers=handlers)
        self.app.router.redirect_slashes = False

    async def log_in(self, request: Request) -> Response:
        """Open a session for the password of a person."""
        try:
            fields = await read_body(request, BODY_MAX)
            user, secret = fields.get("user", ""), fields.get("password")
            if not isinstance(user, str) or not isinstance(secret, str):
                raise BadInput("expected user and password as texts")
            is_right = self._password.matches(user, secret, request.scope.get("client"))
        except TooManyGuesses as error:
            return _answer(429, str(error), {"Retry-After": str(error.seconds)})
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return _answer(problem.status, problem.text)
        if not is_right:
            what = "The user name or the password" if self._password.has_user else "The password"
            return _answer(401, f"{what} is wrong.")
        return _answer(200, "", {"Set-Cookie": self._sessions.open(request.scope)})

    async def log_out(self, request: Request) -> Response:
        """Close the session of a browser."""
        try:
            await read_body(request, BODY_MAX)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return _answer(problem.status, problem.text)
        return _answer(200, "", {"Set-Cookie": self._sessions.close(request.scope)})


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    body: dict[str, Any] = Problem(status, text).body() if text else {}
    return JSONResponse(body, status, headers={**_NO_STORE, **(headers or {})})


async def _refused(_request: Request, _error: Exception) -> Response:
    body = Problem(401, "sign in first", "Programs send the password as a bearer token.").body()
    return JSONResponse(body, 401, headers=_CHALLENGE)


def _content(path: str) -> bytes:
    return files("jetspark.dashboard").joinpath("static", path[1:]).read_bytes()


def _file(path: str, kind: str) -> Any:
    content = _content(path)

    async def serve(_request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return serve
