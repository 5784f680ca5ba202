"""The dashboard in a server's own process, at `/dashboard/` of its monitoring port.

It is a client of the server like any other, over a loopback connection as a configured user: what
it may see and do are that user's permissions, and the server's fairness between clients holds for
it, too.
"""

import logging
import ssl
from typing import Final

from jetspark.client.connect_arguments import ConnectArguments
from jetspark.dashboard.app import Dashboard
from jetspark.dashboard.deployment import Deployment, Target
from jetspark.dashboard.monitoring import MonitorAddress, Monitoring
from jetspark.server.config.checks import all_users
from jetspark.server.config.settings import Settings
from jetspark.server.monitor.web.password import Password
from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")

PATH: Final = "/dashboard"


def add_dashboard(server: Server) -> None:
    """Serve the dashboard of a server that has not been started yet."""
    settings = server.settings
    base = settings.http_base_path.rstrip("/")

    def monitor() -> MonitorAddress | None:
        if not server.monitor_url:
            return None
        token = settings.jetspark.monitor_token.value
        return MonitorAddress(url=server.monitor_url + base, token=token, trusts_any=True)

    dashboard = Dashboard(
        Deployment(lambda: Target(url=server.client_url, arguments=_identity(settings))),
        Monitoring(monitor),
        password=_password(settings),
        is_writable=settings.jetspark.dashboard.writable,
    )

    async def run() -> None:
        log.info("Dashboard: %s%s%s/", server.monitor_url, base, PATH)
        await dashboard.run()

    server.mounts[PATH] = dashboard.app
    server.background.append(run)


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
