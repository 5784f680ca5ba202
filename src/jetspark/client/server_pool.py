"""Which servers a client may talk to, and in which order it tries them. Pure: no I/O, no clock.

Today the pool hands out the configured servers in order and remembers why each was refused, so
that a failed connect can say everything at once.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

import msgspec

DEFAULT_PORT = 4222  # what nats-server listens on
DEFAULT_URL = "nats://127.0.0.1:4222"

_SCHEMES = ("nats", "tls")


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One server of the pool, with the credentials that its URL carried."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: str = ""
    token: str = ""

    @property
    def label(self) -> str:
        """``host:port`` without credentials: safe for logs and error messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ServerPool:
    """The servers to try, in the order given."""

    def __init__(self, servers: Sequence[ServerAddress]) -> None:
        if not servers:
            raise ValueError("no server given: pass at least one URL such as 'nats://host:4222'")
        self._servers = tuple(servers)
        self._refusals: list[tuple[ServerAddress, Exception]] = []

    def __len__(self) -> int:
        return len(self._servers)

    def candidates(self) -> Iterator[ServerAddress]:
        """Start a round: every server once, in order; earlier refusals are forgotten."""
        self._refusals.clear()
        yield from self._servers

    def refused(self, address: ServerAddress, error: Exception) -> None:
        """Remember why a server of this round was not taken."""
        self._refusals.append((address, error))

    @property
    def last_error(self) -> Exception | None:
        """The reason of the last server of the round, for ``raise ... from``."""
        return self._refusals[-1][1] if self._refusals else None

    @property
    def refusals(self) -> list[tuple[ServerAddress, Exception]]:
        """Every server of the round that was not taken, with its reason."""
        return list(self._refusals)

    def describe_refusals(self) -> str:
        """One clause per server that was tried: ``a:4222: connection refused; b:4222: ...``."""
        return "; ".join(f"{address.label}: {_reason(error)}" for address, error in self._refusals)


def parse_servers(servers: str | Sequence[str]) -> list[ServerAddress]:
    """Read one URL, a comma-separated list of them, or a sequence of either."""
    texts = [servers] if isinstance(servers, str) else list(servers)
    parts = [part.strip() for text in texts for part in text.split(",")]
    found = [parse_server(part) for part in parts if part]
    if not found:
        raise ValueError("no server given: pass at least one URL such as 'nats://host:4222'")
    return found


def parse_server(text: str) -> ServerAddress:
    """Read ``nats://``, ``tls://`` or a bare ``host[:port]``; ValueError says what is wrong."""
    scheme, separator, _ = text.partition("://")
    if separator and scheme.lower() not in _SCHEMES:
        raise ValueError(
            f"server {_hide(text)!r}: scheme {scheme!r} is not supported, use nats:// or tls://"
        )
    # urlsplit reads a bare "host:port" as scheme "host", so it always gets a full URL.
    parts = urlsplit(text if separator else f"nats://{text}")
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(
            f"server {_hide(text)!r}: the port must be a number from 1 to 65535"
        ) from error
    if port == 0:
        raise ValueError(f"server {_hide(text)!r}: the port must be a number from 1 to 65535")
    if not parts.hostname:
        raise ValueError(f"server {_hide(text)!r}: no host, expected nats://host:4222")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError(
            f"server {_hide(text)!r}: expected nats://host:port with nothing after it"
        )
    user, password, token = _credentials(parts.username, parts.password)
    return ServerAddress(
        host=parts.hostname,
        port=DEFAULT_PORT if port is None else port,
        tls=scheme.lower() == "tls" and bool(separator),
        user=user,
        password=password,
        token=token,
    )


def _credentials(username: str | None, password: str | None) -> tuple[str, str, str]:
    # nats:// URLs carry a token as a user name without a password.
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
