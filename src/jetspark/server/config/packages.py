"""Packages of extras that settings need: checked before a start, by ``-t``, and by a reload."""

from typing import Final

from jetspark.errors.extras import WEBSOCKET, check_extra
from jetspark.protocol.nkeys import EXTRA as NKEYS
from jetspark.server.config.settings import Settings

MONITORING: Final = ("server", "monitoring needs")


def check_packages(settings: Settings) -> None:
    """Raise `MissingExtra` for a package that a server with these settings would need later."""
    if settings.http_port or settings.https_port:
        # /connz shows the certificates of clients.
        verified = ("cryptography",) if settings.tls and settings.tls.verify else ()
        check_extra(*MONITORING, "starlette", "uvicorn", *verified)
    remotes = settings.jetspark.remotes
    if any(remote.nkey or remote.credentials for remote in remotes):
        check_extra(*NKEYS, "cryptography")
    if any(url.lower().startswith(("ws:", "wss:")) for remote in remotes for url in remote.url):
        check_extra(*WEBSOCKET, "websockets")
