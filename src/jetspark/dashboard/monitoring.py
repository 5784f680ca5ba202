"""The monitoring documents of a server (`/varz`, `/connz` ...), over HTTP.

A deployment may have none that can be reached: then pages say what is missing, and how to get it.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from jetspark.dashboard.errors import Unavailable

DEFAULT_PORT: Final = 8222
TIMEOUT_S: Final = 4.0
ANSWER_MAX: Final = 16 * 1024 * 1024
HINT: Final = (
    "Start the dashboard with --monitor http://HOST:8222, the monitoring port of the server: "
    "nats-server opens it with -m 8222, jetspark with `jetspark serve -m 8222`."
)


class MonitorAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A monitoring port. ``trusts_any`` is for the port of this very process."""

    url: str
    token: str = ""
    trusts_any: bool = False

    @property
    def shown(self) -> str:
        """The address without a password, for people."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Monitoring:
    """Asks the monitoring port of a server; ``find`` returns None while none is known."""

    def __init__(self, find: Callable[[], MonitorAddress | None]) -> None:
        self._find = find

    @property
    def url(self) -> str:
        """The address, for people; empty if there is none."""
        found = self._find()
        return found.shown if found is not None else ""

    async def document(self, name: str, query: Mapping[str, object] | None = None) -> Any:
        """Fetch a document such as `varz`; raises Unavailable."""
        found = self._find()
        if found is None:
            raise Unavailable("no monitoring port is known", HINT)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, body = await fetch(found, f"/{name}", query or {})
        except (OSError, TimeoutError, EOFError) as error:
            text = str(error) or "it does not answer in time"
            raise Unavailable(f"{found.shown}: {text}", HINT) from error
        # A server that is not healthy says so with a status.
        if status != 200 and name != "healthz":
            if status == 404:
                raise Unavailable(
                    f"this server has no /{name}", "Only a jetspark server reports this."
                )
            raise Unavailable(f"{found.shown}/{name} answers {status}", HINT)
        try:
            return msgspec.json.decode(body)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"{found.shown}/{name} answers something else: {error}") from error


async def fetch(
    address: MonitorAddress, path: str, query: Mapping[str, object]
) -> tuple[int, bytes]:
    """GET over HTTP/1.0, which has no chunks; raises OSError or EOFError."""
    parts = urlsplit(address.url)
    secure: ssl.SSLContext | None = None
    if parts.scheme == "https":
        secure = ssl.create_default_context()
        if address.trusts_any:
            secure.check_hostname = False
            secure.verify_mode = ssl.CERT_NONE
    port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure)
    try:
        target = parts.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        lines = [f"GET {target} HTTP/1.0", f"Host: {parts.netloc.rpartition('@')[2]}"]
        token = address.token or parts.password or ""
        if token:
            secret = base64.b64encode(f"{parts.username or 'dashboard'}:{token}".encode()).decode()
            lines.append(f"Authorization: Basic {secret}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        body = bytearray()
        while chunk := await reader.read(256 * 1024):
            body += chunk
            if len(body) > ANSWER_MAX:
                raise OSError(f"the answer is larger than {ANSWER_MAX} bytes")
        return status, bytes(body)
    except (asyncio.LimitOverrunError, ValueError, IndexError) as error:
        raise OSError(f"the answer is no HTTP: {error}") from error
    finally:
        writer.close()


async def discover(host: str, server_id: str) -> MonitorAddress | None:
    """The default monitoring port of a host, if it belongs to the server with this id."""
    shown = f"[{host}]" if ":" in host else host
    address = MonitorAddress(url=f"http://{shown}:{DEFAULT_PORT}")
    try:
        async with asyncio.timeout(1.0):
            status, body = await fetch(address, "/varz", {})
        found = msgspec.json.decode(body)
    except (OSError, TimeoutError, EOFError, msgspec.MsgspecError):
        return None
    same = status == 200 and isinstance(found, dict) and found.get("server_id") == server_id
    return address if same else None
