"""The application: pages, their JSON requests, event streams, and the headers that protect them.

The pages are files of this package. They may load nothing from elsewhere, run no script but ours,
and cannot be framed; texts of messages are never HTML.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jetspark.dashboard.api.buckets import Buckets
from jetspark.dashboard.api.consumers import Consumers
from jetspark.dashboard.api.objects import Objects
from jetspark.dashboard.api.overview import Overview
from jetspark.dashboard.api.pipelines import Pipelines
from jetspark.dashboard.api.servers import Servers
from jetspark.dashboard.api.streams import Streams
from jetspark.dashboard.api.writes import SECRET_HEADER, Writes
from jetspark.dashboard.backlog import Backlog
from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.errors import Problem, problem_of
from jetspark.dashboard.login import Login
from jetspark.dashboard.monitoring import Monitoring
from jetspark.dashboard.sampler import Sampler
from jetspark.server.monitor.web.password import Password
from jetspark.server.monitor.web.sign_in import Sessions, SignIn
from jetspark.version import VERSION

log: logging.Logger = logging.getLogger("jetspark.dashboard")

# A request of a page must end in this time, whatever the deployment does.
REQUEST_S: Final = 15.0
# An idle event stream says this often that it is alive: a proxy would close it, and we notice
# that a browser has left.
HEARTBEAT_S: Final = 15.0
RESTART_S: Final = 5.0
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}

Answer = Callable[[Request], Awaitable[dict[str, Any]]]
Events = Callable[[Request], AsyncGenerator[dict[str, Any], None]]


class Dashboard:
    """The application over one deployment: `run` its background work, serve `app`."""

    def __init__(
        self,
        deployment: Deployment,
        monitoring: Monitoring,
        *,
        password: Password | None = None,
        is_writable: bool = False,
    ) -> None:
        self._deployment = deployment
        self._sampler = Sampler(deployment, monitoring)
        self._backlog = Backlog(deployment)
        self._writes = Writes(deployment) if is_writable else None
        self._overview = Overview(self._sampler)
        streams, buckets = Streams(deployment), Buckets(deployment)
        consumers, objects = Consumers(deployment, self._backlog), Objects(deployment)
        servers, pipelines = Servers(deployment, monitoring), Pipelines(deployment)
        sessions = Sessions()
        one = "/api/streams/{stream}"
        routes = [
            _json("/api/session", self._session),
            _json("/api/overview", self._overview.overview),
            _events("/api/live", self._overview.live, sessions),
            _json("/api/streams", streams.listed),
            _json(one, streams.detail),
            _json(f"{one}/subjects", streams.subjects),
            _json(f"{one}/messages", streams.messages),
            _events(f"{one}/tail", streams.tail, sessions),
            _json(f"{one}/messages/{{seq}}", streams.message),
            _plain(f"{one}/messages/{{seq}}/raw", streams.raw),
            _json(f"{one}/consumers", consumers.listed),
            _json(f"{one}/consumers/{{consumer}}", consumers.detail),
            _json(f"{one}/consumers/{{consumer}}/explain", consumers.explain),
            _json("/api/lag", consumers.lags),
            _json("/api/kv/{bucket}/keys", buckets.keys),
            _json("/api/kv/{bucket}/entry", buckets.entry),
            _json("/api/objects/{bucket}", objects.listed),
            _plain("/api/objects/{bucket}/download", objects.download),
            _json("/api/connections", servers.connections),
            _json("/api/store", servers.store),
            _json("/api/batches", servers.batches),
            _json("/api/copies", servers.copies),
            _json("/api/pipelines", pipelines.listed),
        ]
        writes = self._writes
        if writes is not None:
            routes += [
                _json("/api/publish", writes.publish, "POST"),
                _json("/api/kv-put", writes.put, "POST"),
                _json("/api/kv-delete", writes.delete_key, "POST"),
                _json("/api/message-delete", writes.delete_message, "POST"),
                _json("/api/purge", writes.purge, "POST"),
                _json("/api/pause", writes.pause, "POST"),
            ]
        routes += [Route(path or "/", _file(name)) for path, name in _static_files()]
        login = None if password is None else Login(password, sessions)
        if login is not None:
            routes += [
                Route("/login", login.log_in, methods=["POST"]),
                Route("/logout", login.log_out, methods=["POST"]),
            ]
        self.routes: Final = routes
        handlers = {HTTPStatus.NOT_FOUND: _not_found, HTTPStatus.METHOD_NOT_ALLOWED: _no_method}
        starlette = Starlette(routes=routes, exception_handlers=handlers)
        starlette.router.redirect_slashes = False
        self._sessions = sessions
        self.app: ASGIApp = _Protected(starlette)
        if password is not None and login is not None:
            self.app = SignIn(self.app, _Protected(login.app), password, sessions)

    async def run(self) -> None:
        """Connect, sample, and walk over all consumers on demand, until it is cancelled."""
        await self._deployment.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_lasting(self._sampler.run))
                tasks.create_task(_lasting(self._backlog.run))
        finally:
            await self._deployment.close()

    async def _session(self, request: Request) -> dict[str, Any]:
        return {
            "version": VERSION,
            "signed_in": self._sessions.admits(request.scope),
            "writable": self._writes is not None,
            "secret": self._writes.secret if self._writes is not None else "",
            "secret_header": SECRET_HEADER,
            "deployment": self._deployment.state(),
        }


async def _lasting(work: Callable[[], Awaitable[None]]) -> None:
    """Run work that must not end: after a defect it starts again, and the log has the reason."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("The dashboard failed; it tries again")
            await asyncio.sleep(RESTART_S)


class _Protected:
    """Adds the headers that protect pages to every answer, and keeps caches out of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, protected if scope["type"] == "http" else send)


def _json(path: str, answer: Answer, method: str = "GET") -> Route:
    async def serve(request: Request) -> Response:
        try:
            async with asyncio.timeout(REQUEST_S):
                found = await answer(request)
        except Exception as error:  # noqa: BLE001 - a defect is logged, and one answer
            return _failed(request, error)
        return _encoded(found)

    return Route(path, serve, methods=[method])


def _plain(path: str, answer: Callable[[Request], Awaitable[Response]]) -> Route:
    async def serve(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception as error:  # noqa: BLE001 - a defect is logged, and one answer
            return _failed(request, error)

    return Route(path, serve, methods=["GET"])


def _events(path: str, events: Events, sessions: Sessions) -> Route:
    """An event stream. A browser that does not read is waited for, then closed by the port.

    It ends with the session of the browser.
    """

    async def serve(request: Request) -> Response:
        return StreamingResponse(
            _event_texts(request, events, sessions),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return Route(path, serve, methods=["GET"])


async def _event_texts(
    request: Request, events: Events, sessions: Sessions
) -> AsyncIterator[bytes]:
    stopping: asyncio.Event = request.state.stopping
    signed_in = sessions.admits(request.scope)
    source = events(request)
    end = asyncio.create_task(_ended(stopping))
    following: asyncio.Task[dict[str, Any] | None] | None = None
    try:
        yield b"retry: 3000\n\n"
        while not stopping.is_set():
            following = following or asyncio.create_task(anext(source, None))
            waiting: set[asyncio.Task[dict[str, Any] | None]] = {following, end}
            done, _ = await asyncio.wait(
                waiting, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if signed_in and not sessions.admits(request.scope):
                return  # it signed out, or its time is over
            if not done:
                yield b": alive\n\n"
            elif following in done:
                error = following.exception()
                problem = None if error is None else problem_of(error) or _defect(request, error)
                found = following.result() if problem is None else {"problem": problem.body()}
                following = None
                if found is None:
                    return
                if position := found.get("position"):
                    yield f"id: {position}\n".encode()
                yield b"data: " + msgspec.json.encode(found) + b"\n\n"
                if problem is not None:
                    return
    finally:
        end.cancel()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await source.aclose()


async def _ended(stopping: asyncio.Event) -> None:
    await stopping.wait()


def _encoded(found: object, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(found),
        status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _failed(request: Request, error: BaseException) -> Response:
    problem = problem_of(error) or _defect(request, error)
    return _encoded(problem.body(), problem.status)


def _defect(request: Request, error: BaseException) -> Problem:
    log.error("%s failed", request.url.path, exc_info=error)
    return Problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"the dashboard failed: {type(error).__name__}",
        "This is a defect of the dashboard; its log has the details.",
    )


async def _not_found(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "no such page", "hint": "", "status": 404}, 404)


async def _no_method(_request: Request, _error: Exception) -> Response:
    text = "the dashboard is read-only here" if _request.method != "GET" else "use POST"
    return JSONResponse({"error": text, "hint": "", "status": 405}, 405)


def _static_files() -> list[tuple[str, str]]:
    """The path and name of every file of the pages."""
    found = [("/", "index.html")]
    root = files("jetspark.dashboard").joinpath("static")
    for each in root.iterdir():
        if each.is_dir():
            found += [
                (f"/{each.name}/{one.name}", f"{each.name}/{one.name}") for one in each.iterdir()
            ]
        else:
            found.append((f"/{each.name}", each.name))
    return [(path, name) for path, name in found if name.rpartition(".")[2] in _TYPES]


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("jetspark.dashboard").joinpath("static", name).read_bytes()
    media_type = _TYPES[name.rpartition(".")[2]]

    async def serve(_request: Request) -> Response:
        # Asked for again each time: a newer dashboard must not run with old scripts.
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return serve
