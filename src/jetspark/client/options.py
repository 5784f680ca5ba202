"""How a client connects: one struct, checked before anything is dialled."""

import ssl
from collections.abc import Callable, Sequence

import msgspec

from jetspark.client.server_pool import ServerAddress, parse_servers
from jetspark.protocol.handshake import ConnectOptions, ServerInfo
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import ByteCount, mib
from jetspark.version import VERSION

ErrorCallback = Callable[[Exception], None]
ClosedCallback = Callable[[Exception | None], None]


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``connect`` was told. Durations are seconds, as everywhere in the client API."""

    servers: tuple[ServerAddress, ...]
    name: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    tls: ssl.SSLContext | None = None
    tls_hostname: str = ""
    tls_first: bool = False
    inbox_prefix: str = "_INBOX"
    echo: bool = True
    connect_timeout: float = 2.0
    timeout: float = 5.0
    ping_interval: float = 120.0
    pings_outstanding_max: int = 2
    write_buffer_bytes: ByteCount = mib(32)
    error_callback: ErrorCallback | None = None
    closed_callback: ClosedCallback | None = None


def check_options(options: ClientOptions) -> ClientOptions:
    """Refuse what cannot work, naming the option and what it should be."""
    for name in ("connect_timeout", "timeout", "ping_interval"):
        value = getattr(options, name)
        if value <= 0:
            raise ValueError(f"{name}={value!r}: expected a number of seconds above 0")
    if options.pings_outstanding_max < 1:
        raise ValueError(
            f"pings_outstanding_max={options.pings_outstanding_max}: expected at least 1"
        )
    if options.write_buffer_bytes < 1:
        raise ValueError(
            f"write_buffer_bytes={options.write_buffer_bytes}: expected a size above 0"
        )
    if options.token and (options.user or options.password):
        raise ValueError("token and user/password were both given: a connection uses one of them")
    if bool(options.user) != bool(options.password):
        missing = "password" if options.user else "user"
        raise ValueError(f"user and password belong together: {missing} is missing")
    if not is_valid_literal(options.inbox_prefix.encode()):
        raise ValueError(
            f"inbox_prefix={options.inbox_prefix!r}: expected a subject without wildcards, "
            "blanks or empty tokens, such as '_INBOX' or 'app.inbox'"
        )
    return options


def read_servers(servers: str | Sequence[str]) -> tuple[ServerAddress, ...]:
    """The addresses behind the ``servers`` argument of ``connect``."""
    return tuple(parse_servers(servers))


def connect_options(
    options: ClientOptions, info: ServerInfo, address: ServerAddress
) -> ConnectOptions:
    """What CONNECT says to the server behind ``address``; credentials of its URL come first."""
    from_url = bool(address.user or address.token)
    return ConnectOptions(
        verbose=False,
        pedantic=False,
        tls_required=options.tls is not None or address.tls,
        user=address.user if from_url else options.user,
        password=address.password if from_url else options.password,
        auth_token=address.token if from_url else options.token,
        name=options.name,
        lang="python-jetspark",
        version=VERSION,
        protocol=1,
        echo=options.echo,
        # Without headers a server cannot say that nobody listens.
        headers=info.headers,
        no_responders=info.headers,
    )
