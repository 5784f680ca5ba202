"""The servers that a client may connect to, and their order. Pure: no I/O, no clock.

The pool records why each server was not used, so that a failed connect reports all reasons at
once, and it drops servers that failed too often.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from jetspark.errors import AuthorizationFailed

DEFAULT_PORT = 4222  # the default port of nats-server
DEFAULT_URL = "nats://127.0.0.1:4222"
AUTH_FAILURES_MAX: Final = 2  # as in nats.go: a second refusal is final

_PORTS = {"nats": DEFAULT_PORT, "tls": DEFAULT_PORT, "ws": 80, "wss": 443}


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One server of the pool, with the credentials of its URL."""

    host: str
    port: int
    tls: bool = False
    websocket: bool = False
    # Path and query of a WebSocket URL, for proxies that route by it.
    path: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    # The name to verify the certificate against; empty for ``host``. Discovered servers are
    # announced by address, while the certificate has the name that the user dialled.
    tls_name: str = ""

    @property
    def label(self) -> str:
        """``host:port`` without credentials: safe for logs and error messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        # Passwords and tokens stay out of logs.
        return f"ServerAddress({self.label!r}, tls={self.tls}, websocket={self.websocket})"


class _Entry:
    """A server of the pool and its failures."""

    __slots__ = ("address", "auth_failures", "discovered", "failures", "last_error")

    def __init__(self, address: ServerAddress, *, discovered: bool) -> None:
        self.address = address
        self.discovered = discovered
        self.failures = 0
        self.auth_failures = 0
        self.last_error: Exception | None = None


class ServerPool:
    """The servers to try: configured and discovered ones.

    The order is the given one, then discovered servers; a lost server moves to the end. A server
    is dropped (only while reconnecting, ``drop_hopeless``) if it failed more than
    ``max_reconnects`` times in a row or refused the credentials twice in a row.
    """

    def __init__(
        self,
        servers: Sequence[ServerAddress],
        *,
        max_reconnects: int = -1,
        shuffle: Callable[[list[ServerAddress]], None] | None = None,
    ) -> None:
        if not servers:
            raise ValueError("no server given: pass at least one URL such as 'nats://host:4222'")
        addresses = list(dict.fromkeys(servers))
        if shuffle is not None:
            shuffle(addresses)
        self._entries = [_Entry(address, discovered=False) for address in addresses]
        self._max_reconnects = max_reconnects
        # Whether to retry a server that refuses the credentials: they may change there.
        self._forgives: bool = False
        self._refusals: list[tuple[ServerAddress, Exception]] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def addresses(self) -> list[ServerAddress]:
        """The servers in their current order."""
        return [entry.address for entry in self._entries]

    def retry_refusals(self) -> None:
        """Keep servers that refuse the credentials: they may change there."""
        self._forgives = True

    def candidates(self) -> Iterator[ServerAddress]:
        """Start a round: every server once, in order; clears earlier refusals."""
        self._refusals.clear()
        yield from self.addresses

    def refused(self, address: ServerAddress, error: Exception) -> None:
        """Record why a server of this round was not used."""
        self._refusals.append((address, error))
        entry = self._find(address)
        if entry is not None:
            entry.failures += 1
            denied = isinstance(error, AuthorizationFailed)
            entry.auth_failures = entry.auth_failures + 1 if denied else 0
            entry.last_error = error

    def connected(self, address: ServerAddress) -> None:
        """A server accepted the connection: clear its failures."""
        entry = self._find(address)
        if entry is not None:
            entry.failures = entry.auth_failures = 0

    def lost(self, address: ServerAddress) -> None:
        """The connection to a server broke: move it to the end."""
        entry = self._find(address)
        if entry is not None:
            self._entries.remove(entry)
            self._entries.append(entry)

    def drop_hopeless(self) -> bool:
        """Drop servers that failed too often; False if none is left."""
        limit = self._max_reconnects
        self._entries = [
            entry
            for entry in self._entries
            if (self._forgives or entry.auth_failures < AUTH_FAILURES_MAX)
            and (limit < 0 or entry.failures <= limit)
        ]
        return bool(self._entries)

    def discover(
        self,
        urls: Sequence[str],
        current: ServerAddress,
        shuffle: Callable[[list[ServerAddress]], None],
    ) -> tuple[str, ...]:
        """Add the ``connect_urls`` of an INFO; returns the new labels.

        Servers of one cluster have the same users and certificates, so the credentials and TLS
        name of ``current`` apply to them too. Discovered servers that the cluster no longer
        announces are removed.
        """
        announced = [address for url in urls if (address := _sibling(url, current)) is not None]
        labels = {address.label for address in announced}
        self._entries = [
            entry
            for entry in self._entries
            if not entry.discovered or entry.address == current or entry.address.label in labels
        ]
        known = {entry.address.label for entry in self._entries}
        new = [address for address in announced if address.label not in known]
        shuffle(new)
        self._entries += [_Entry(address, discovered=True) for address in new]
        return tuple(address.label for address in new)

    @property
    def last_error(self) -> Exception | None:
        """The error of the last server of the round, for ``raise ... from``."""
        return self._refusals[-1][1] if self._refusals else None

    @property
    def refusals(self) -> list[tuple[ServerAddress, Exception]]:
        """Every server of the round that was not used, with the reason."""
        return list(self._refusals)

    def describe_refusals(self) -> str:
        """One clause per attempted server: ``a:4222: connection refused; b:4222: ...``."""
        return "; ".join(f"{address.label}: {_reason(error)}" for address, error in self._refusals)

    def _find(self, address: ServerAddress) -> _Entry | None:
        return next((entry for entry in self._entries if entry.address == address), None)


class Backoff:
    """The pause before the next round over the pool: doubling, bounded, with jitter."""

    def __init__(
        self, first: float, longest: float, jitter: float, uniform: Callable[[float, float], float]
    ) -> None:
        self._wait = first
        self._longest = longest
        self._jitter = jitter
        self._uniform = uniform

    def next(self) -> float:
        """Seconds to wait now; the next pause is twice as long."""
        wait = min(self._wait, self._longest)
        self._wait = wait * 2
        return wait + self._uniform(0.0, self._jitter)


def parse_servers(servers: str | Sequence[str]) -> list[ServerAddress]:
    """Parse one URL, a comma-separated list of them, or a sequence of either."""
    found = [address for text in _texts(servers) for address in _parse_list(text)]
    if not found:
        raise ValueError("no server given: pass at least one URL such as 'nats://host:4222'")
    return found


def _texts(servers: object) -> list[object]:
    if isinstance(servers, str):
        return [servers]
    if isinstance(servers, bytes) or not isinstance(servers, Iterable):
        raise TypeError(f"servers must be a URL or a list of URLs, not {type(servers).__name__}")
    return list(servers)


def _parse_list(text: object) -> list[ServerAddress]:
    """Parse URLs separated by commas."""
    if not isinstance(text, str):
        raise TypeError(f"a server must be a URL (str), not {type(text).__name__}: {text!r}")
    parts = [part.strip() for part in text.split(",")]
    # A comma inside a password splits it, and then no part may be shown.
    cut = next((part for part in parts if _is_cut(part)), None)
    if cut is not None and "@" in text:
        raise ValueError(
            "commas separate servers: write a comma in a user name or password as %2C"
        )
    return [parse_server(part) for part in parts if part]


def _is_cut(part: str) -> bool:
    """Whether this looks like ``nats://user:pass`` without its ``@host``."""
    rest = part.partition("://")[2] or part
    _, colon, port = rest.rpartition(":")
    return bool(colon) and "@" not in rest and "]" not in rest and not port.strip("/").isdigit()


def parse_server(text: str) -> ServerAddress:
    """Parse ``nats://``, ``tls://``, ``ws://``, ``wss://`` or a bare ``host[:port]``.

    Raises ValueError if it is invalid.
    """
    head, separator, _ = text.partition("://")
    scheme = head.lower() if separator else "nats"
    if scheme not in _PORTS:
        raise ValueError(
            f"server {_hide(text)!r}: scheme {head!r} is not supported, use nats:// or tls://, "
            "or ws:// or wss:// for WebSocket"
        )
    # urlsplit reads a bare "host:port" as scheme "host", so it always gets a full URL.
    try:
        parts = urlsplit(text if separator else f"nats://{text}")
    except ValueError as error:
        raise ValueError(
            f"server {_hide(text)!r}: {error}; expected nats://host:4222 or nats://[::1]:4222"
        ) from None
    try:
        port = parts.port
    except ValueError:
        # Without the cause: it repeats what is taken for the port, which may be a part of the
        # password, if that has a slash.
        raise ValueError(
            f"server {_hide(text)!r}: the port must be a number from 1 to 65535; an IPv6 address "
            "must be in brackets; write /, ? and # in a password as %2F, %3F and %23"
        ) from None
    if port == 0:
        raise ValueError(f"server {_hide(text)!r}: the port must be a number from 1 to 65535")
    if not parts.hostname or any(char.isspace() for char in parts.hostname):
        raise ValueError(f"server {_hide(text)!r}: no host, expected nats://host:4222")
    websocket = scheme in {"ws", "wss"}
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if parts.fragment or (path not in {"", "/"} and not websocket):
        raise ValueError(
            f"server {_hide(text)!r}: expected nats://host:port with nothing after it"
        )
    user, password, token = _credentials(parts.username, parts.password)
    return ServerAddress(
        host=parts.hostname,
        port=_PORTS[scheme] if port is None else port,
        tls=scheme in {"tls", "wss"},
        websocket=websocket,
        path=path if websocket else "",
        user=user,
        password=password,
        token=token,
    )


def _sibling(url: str, current: ServerAddress) -> ServerAddress | None:
    """The address of another server of the same cluster; None if it cannot be parsed."""
    try:
        announced = parse_server(url)
    except ValueError:
        return None
    tls_name = (current.tls_name or current.host) if _is_ip(announced.host) else ""
    return msgspec.structs.replace(
        current,
        host=announced.host,
        port=announced.port,
        tls_name="" if _is_ip(tls_name) or not tls_name else tls_name,
    )


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _credentials(username: str | None, password: str | None) -> tuple[str, str, str]:
    # nats:// URLs have a token as the user name, without a password.
    if username is None:
        return "", "", ""
    if password is None:
        return "", "", unquote(username)
    return unquote(username), unquote(password), ""


def _hide(text: str) -> str:
    """The URL without its credentials, for error messages."""
    head, separator, rest = text.partition("://")
    if not separator:
        head, rest = "", text
    _, at, host = rest.rpartition("@")
    return f"{head}{separator}***@{host}" if at else text


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text.rstrip(".")
