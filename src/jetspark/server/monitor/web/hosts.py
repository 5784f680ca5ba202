"""Keeps web pages from reading the monitoring port through a browser on this machine.

DNS rebinding: a web page can let the name of its own site resolve to 127.0.0.1 and then read this
port through the browser of someone on this machine: for the browser it is the site of the page.
The Host header still has the name of that site, which has a dot: no one can register a name
without one. Requests to a loopback address must therefore use an IP address, a name without a dot,
a name below ``localhost``, the name of the machine, or one of ``jetspark { monitor_hosts }``.

The page of another site may not read answers directly either, although nats-server lets it (by
CORS, and as a script): requests with an Origin must come from a page of this machine or from one
of ``monitor_hosts``, and scripts and images of a page of another site, for which browsers send no
Origin, are refused by Sec-Fetch-Site. Following a link is allowed: the page does not get the
answer.

With that list requests to other addresses are checked, too, and names without a dot must be on it.
Without it nothing is checked where a token is required, which no page knows, nor for requests to
other addresses, where a server has names that it does not know.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
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
        problem = ""
        if scope["type"] == "http" and self._is_checked(scope.get("server")):
            problem = self._problem(Headers(scope=scope))
        if not problem:
            await self._app(scope, receive, send)
            return
        response = PlainTextResponse(
            problem, 403, headers={"X-Content-Type-Options": "nosniff", "Vary": "Origin"}
        )
        await response(scope, receive, send)

    def _is_checked(self, server: tuple[str, int | None] | None) -> bool:
        return bool(self._listed) or server is None or _is_loopback(server[0])

    def _problem(self, headers: Headers) -> str:
        """Return why a request is refused; empty if it is not."""
        # Browsers always send a Host.
        host = headers.get("host")
        if host is not None and not self._admits(host):
            return (
                f"the Host header names {host[:_SHOWN]!r}, which is no known name of this server: "
                "use an IP address or localhost, or add the name to jetspark { monitor_hosts }\n"
            )
        origin = headers.get("origin")
        if origin is not None and not self._admits_origin(origin, host or ""):
            return (
                f"a page of {origin[:_SHOWN]!r} may not read this port: "
                "add its host name to jetspark { monitor_hosts }\n"
            )
        if (
            origin is None
            and headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return (
                "a page of another site may not read this port: open the address itself, or let "
                "the page use fetch, and add its host name to jetspark { monitor_hosts }\n"
            )
        return ""

    def _admits(self, host: str) -> bool:
        name = _name(host)
        if name in self._known or _is_address(name):
            return True
        if name == "localhost" or name.endswith(".localhost"):
            return True
        return not self._listed and "." not in name and ":" not in name

    def _admits_origin(self, origin: str, host: str) -> bool:
        """Return whether the page is one of this machine, or of a host that is listed."""
        try:
            found = urlsplit(origin).hostname
        except ValueError:
            return False
        if not found:
            return False  # "null": any page can have that
        name = _name(found)
        if name in self._known or name == "localhost" or name.endswith(".localhost"):
            return True
        if _is_address(name) and _is_loopback(name):
            return True
        return name == _name(host)


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
