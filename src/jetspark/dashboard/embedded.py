"""The dashboard in a server's own process, at `/dashboard/` of its monitoring port.

It is a client of the server like any other, over a loopback connection as a configured user: what
it may see and do are that user's permissions, and the server's fairness between clients holds for
it, too.
"""

import asyncio
import logging
import ssl
from typing import Final

from starlette.types import Receive, Scope, Send

from jetspark.client.connect_arguments import ConnectArguments
from jetspark.dashboard.app import Dashboard
from jetspark.dashboard.deployment import Deployment, Target
from jetspark.dashboard.monitoring import MonitorAddress, Monitoring
from jetspark.server.config.checks import all_users
from jetspark.server.config.settings import Settings
from jetspark.server.monitor.web.password import Password
from jetspark.server.monitor.web.sign_in import SignIn
from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")

PATH: Final = "/dashboard"


class ServerDashboard:
    """The dashboard of a running server, as an application of its monitoring port.

    A reload may change the user that it connects as, and so who may look: then another dashboard
    takes its place at the next request, and everyone signs in again.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._settings = server.settings
        self._dashboard = self._made()
        self._replaced = asyncio.Event()

    @property
    def asks_password(self) -> bool:
        """Whether it asks for a password itself."""
        return isinstance(self._dashboard.app, SignIn)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        settings = self._server.settings
        if settings is not self._settings:
            before, self._settings = self._settings, settings
            if _credentials(settings) != _credentials(before):
                self._dashboard = self._made()
                self._replaced.set()
        await self._dashboard.app(scope, receive, send)

    async def run(self) -> None:
        """Run the current dashboard."""
        base = self._settings.http_base_path.rstrip("/")
        log.info("Dashboard: %s%s%s/", self._server.monitor_url, base, PATH)
        while True:
            running = asyncio.create_task(self._dashboard.run())
            replaced = asyncio.create_task(self._replaced.wait())
            try:
                await asyncio.wait({running, replaced}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    await running
                    return
            finally:
                running.cancel()
                replaced.cancel()
                await asyncio.gather(running, replaced, return_exceptions=True)
            self._replaced.clear()

    def _made(self) -> Dashboard:
        server, settings = self._server, self._settings
        return Dashboard(
            Deployment(lambda: Target(url=server.client_url, arguments=_identity(settings))),
            Monitoring(self._monitor),
            password=_password(settings),
            is_writable=settings.jetspark.dashboard.writable,
        )

    def _monitor(self) -> MonitorAddress | None:
        server, settings = self._server, self._settings
        if not server.monitor_url:
            return None
        token = settings.jetspark.monitor_token.value
        base = settings.http_base_path.rstrip("/")
        return MonitorAddress(url=server.monitor_url + base, token=token, trusts_any=True)


def add_dashboard(server: Server) -> None:
    """Serve the dashboard of a server that has not been started yet."""
    dashboard = ServerDashboard(server)
    server.mount(PATH, dashboard, dashboard.run)


def _credentials(settings: Settings) -> tuple[object, ...]:
    """What the connection and the sign-in of the dashboard depend on."""
    identity = _identity(settings)
    return settings.tls, identity.get("user"), identity.get("password"), identity.get("token")


def _password(settings: Settings) -> Password | None:
    """What a browser needs: the token of the port, else the credentials of the dashboard's user.

    Who may not connect to the server may not look at its messages either.
    """
    token = settings.jetspark.monitor_token.value
    identity = _identity(settings)
    secret = token or identity.get("password") or identity.get("token")
    if not isinstance(secret, str) or not secret:
        return None
    return Password(secret, "" if token else str(identity.get("user", "")))


def _identity(settings: Settings) -> ConnectArguments:
    """How to connect: as the configured user, else as the only one there is."""
    wanted, authorization = settings.jetspark.dashboard, settings.authorization
    arguments: ConnectArguments = {}
    if settings.tls is not None:
        # The connection does not leave this process: there is nothing to verify.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if settings.tls.verify:
            context.load_cert_chain(settings.tls.cert_file, settings.tls.key_file)
        arguments["tls"] = context
    user = wanted.user or authorization.user
    if user:
        known = {each.user: each.password for each in all_users(settings)}
        password = wanted.password or known.get(user) or authorization.password
        arguments["user"], arguments["password"] = user, password.value
    elif authorization.token:
        arguments["token"] = (wanted.password or authorization.token).value
    return arguments
