"""Checks the Host header against DNS rebinding.

A web page can let the name of its own site resolve to 127.0.0.1 and then read this port through
the browser of someone on this machine: for the browser it is the site of the page. The Host header
still has the name of that site, which has a dot: no one can register a name without one. Requests
to a loopback address must therefore use an IP address, a name without a dot, a name below
``localhost``, the name of the machine, or one of ``jetspark { monitor_hosts }``.

With that list requests to other addresses are checked, too, and names without a dot must be on it.
Without it nothing is checked where a token is required, which no page knows, nor for requests to
other addresses, where a server has names that it does not know.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_SHOWN: Final = 100


class HostCheck:
    """Passes requests that name this machine to ``app`` and answers 403 to all others."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._listed = frozenset(_name(host) for host in hosts)
        self._known = self._listed | {_name(socket.gethostname())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        host = _host(scope)
        if scope["type"] != "http" or host is None or self._admits(host, scope.get("server")):
            await self._app(scope, receive, send)
            return
        response = PlainTextResponse(
            f"the Host header names {host[:_SHOWN]!r}, which is no known name of this server: use "
            "an IP address or localhost, or add the name to jetspark { monitor_hosts }\n",
            403,
            headers={"X-Content-Type-Options": "nosniff"},
        )
        await response(scope, receive, send)

    def _admits(self, host: str, server: tuple[str, int | None] | None) -> bool:
        if not self._listed and server is not None and not _is_loopback(server[0]):
            return True
        name = _name(host)
        if name in self._known or _is_address(name):
            return True
        if name == "localhost" or name.endswith(".localhost"):
            return True
        return not self._listed and "." not in name and ":" not in name


def _host(scope: Scope) -> str | None:
    """Return the Host header; None if there is none: browsers always send one."""
    for name, value in scope.get("headers", ()):
        if name == b"host":
            text: str = value.decode("latin-1")
            return text
    return None


def _name(host: str) -> str:
    """Return a host without its port, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return host.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)
