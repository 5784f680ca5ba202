"""The monitoring application: maps paths to answers.

Endpoints are coroutines, because a plain function would start a worker thread that stays.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from jetspark.server.monitor import connz, healthz, jsz, storez, subsz
from jetspark.server.monitor.accountz import accountz, accstatz
from jetspark.server.monitor.arguments import Arguments, BadArgument
from jetspark.server.monitor.metrics import options as metrics_options
from jetspark.server.monitor.metrics.exposition import CONTENT_TYPE, Exposition
from jetspark.server.monitor.metrics.scrape import metrics
from jetspark.server.monitor.process import ProcessMeter
from jetspark.server.monitor.status import ServerStatus
from jetspark.server.monitor.topology import gatewayz, leafz, routez
from jetspark.server.monitor.varz import varz
from jetspark.server.monitor.web.answer import Answers, not_found, refusal
from jetspark.server.monitor.web.base_path import checked_base
from jetspark.server.monitor.web.guard import Guard
from jetspark.server.monitor.web.hosts import HostCheck
from jetspark.server.monitor.web.index import index

Endpoint = Callable[[Arguments], Awaitable[object]]

# We have no scripts, and the page may not be framed.
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


class Endpoints:
    """The endpoints over one view; counts the requests of each path."""

    def __init__(self, view: ServerStatus, answers: Answers, meter: ProcessMeter) -> None:
        self.requests: dict[str, int] = {}
        self._view = view
        self._answers = answers
        self._meter = meter

    def routes(self, base: str) -> list[Route]:
        """Return a route per endpoint."""
        plain: dict[str, Endpoint] = {
            "/varz": self._varz,
            "/connz": self._connz,
            "/subsz": self._subsz,
            "/subscriptionsz": self._subsz,
            "/routez": self._routez,
            "/leafz": self._leafz,
            "/gatewayz": self._gatewayz,
            "/accountz": self._accountz,
            "/accstatz": self._accstatz,
            "/jsz": self._jsz,
            "/storez": self._storez,
        }
        routes = [Route(base + path, self._as_json(path, make)) for path, make in plain.items()]
        for path, serve in (
            ("/healthz", self._healthz),
            ("/readyz", self._readyz),
            ("/metrics", self._metrics),
        ):
            routes.append(Route(base + path, serve))
        return routes

    def count(self, path: str) -> None:
        """Count a request."""
        self.requests[path] = self.requests.get(path, 0) + 1

    def _as_json(self, path: str, make: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        counted = "/subsz" if path == "/subscriptionsz" else path

        async def serve(request: Request) -> Response:
            self.count(counted)
            arguments = Arguments(request.url.query)
            try:
                model = await make(arguments)
            except BadArgument as error:
                return refusal(str(error))
            return self._answers.json(model, callback=arguments.text("callback"))

        return serve

    async def _varz(self, _arguments: Arguments) -> object:
        usage = self._meter.sample(self._view.now_ns())
        return await varz(self._view, self.requests, usage)

    async def _connz(self, arguments: Arguments) -> object:
        return await connz.connz(self._view, connz.read_options(arguments))

    async def _subsz(self, arguments: Arguments) -> object:
        return await subsz.subsz(self._view, subsz.read_options(arguments))

    async def _routez(self, arguments: Arguments) -> object:
        if arguments.text("subs").lower() != "detail":
            arguments.flag("subs")  # checked, although there is nothing to list
        return routez(self._view)

    async def _leafz(self, arguments: Arguments) -> object:
        arguments.flag("subs")
        return leafz(self._view)

    async def _gatewayz(self, arguments: Arguments) -> object:
        if arguments.text("subs").lower() != "detail":
            arguments.flag("subs")
        arguments.flag("accs")
        return gatewayz(self._view)

    async def _accountz(self, arguments: Arguments) -> object:
        return accountz(self._view, arguments.text("acc"))

    async def _accstatz(self, arguments: Arguments) -> object:
        return accstatz(self._view, unused=arguments.flag("unused"))

    async def _jsz(self, arguments: Arguments) -> object:
        return await jsz.jsz(self._view, jsz.read_options(arguments))

    async def _storez(self, arguments: Arguments) -> object:
        return await storez.storez(self._view, storez.read_options(arguments))

    async def _healthz(self, request: Request) -> Response:
        self.count("/healthz")
        arguments = Arguments(request.url.query)
        try:
            options = healthz.read_options(arguments)
        except BadArgument as error:
            return refusal(str(error))
        code, model = await healthz.healthz(self._view, options)
        callback = arguments.text("callback")
        return self._answers.json(model, callback=callback, status=code, indent=False)

    async def _readyz(self, _request: Request) -> Response:
        self.count("/readyz")
        code, model = healthz.readyz(self._view)
        return self._answers.json(model, status=code, indent=False)

    async def _metrics(self, request: Request) -> Response:
        self.count("/metrics")
        try:
            options = metrics_options.read_options(Arguments(request.url.query))
        except BadArgument as error:
            return refusal(str(error))
        usage = self._meter.sample(self._view.now_ns())
        found = await metrics(self._view, self.requests, usage, options)
        return StreamingResponse(_pieces(found), headers={"Content-Type": CONTENT_TYPE})


async def _pieces(found: Exposition) -> AsyncIterator[str]:
    """Write metric by metric: a server with many consumers has tens of megabytes."""
    for part in found.parts():
        if part:
            yield part
            await asyncio.sleep(0)


def create_app(
    view: ServerStatus,
    *,
    token: str = "",
    hosts: tuple[str, ...] = (),
    base_path: str = "/",
    mounts: Mapping[str, ASGIApp] | None = None,
    meter: ProcessMeter | None = None,
) -> ASGIApp:
    """Build the application.

    With ``token``, everything requires it but mounts that ask for a password themselves
    (`SignIn`). ``hosts`` are the names that requests may use for this server (`HostCheck`).
    ``base_path`` is the prefix of every path (``http_base_path``). ``mounts`` are other
    applications by path, such as
    ``{"/dashboard": app}``. Raises ValueError for a path that cannot be served.
    """
    base = checked_base(base_path)
    endpoints = Endpoints(view, Answers(is_guarded=bool(token)), meter or ProcessMeter())
    mounted = dict(mounts or {})
    taken = {route.path for route in endpoints.routes(base)}
    routes: list[BaseRoute] = list(endpoints.routes(base))

    async def root(_request: Request) -> Response:
        endpoints.count("/")
        return HTMLResponse(index(view.identity, base, mounted), headers=_PAGE_HEADERS)

    routes.append(Route(base or "/", root))
    for path, app in mounted.items():
        routes += _mount(base, path, app, taken)
    starlette = Starlette(routes=routes, exception_handlers={HTTPStatus.NOT_FOUND: _not_found})
    # nats-server answers 404 for a path with a trailing slash.
    starlette.router.redirect_slashes = False
    asking = tuple(base + path for path, app in mounted.items() if _asks_password(app))
    guarded = Guard(starlette, token, asking) if token else starlette
    return HostCheck(guarded, hosts) if hosts or not token else guarded


def _asks_password(app: ASGIApp) -> bool:
    """Whether a mounted application asks for a password itself."""
    return bool(getattr(app, "asks_password", False))


async def _not_found(_request: Request, _error: Exception) -> Response:
    return not_found()


def _mount(base: str, path: str, app: ASGIApp, taken: set[str]) -> list[BaseRoute]:
    whole = base + path.rstrip("/")
    if not path.startswith("/") or whole == base or whole in taken:
        raise ValueError(
            f"bad mount {path!r}: expected a path such as /dashboard that is not an endpoint's"
        )

    async def add_slash(_request: Request) -> Response:
        return RedirectResponse(whole + "/")

    return [Route(whole, add_slash), Mount(whole, app)]
