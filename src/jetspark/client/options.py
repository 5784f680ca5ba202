"""Connection options: one struct, checked before dialling."""

import math
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from jetspark.client.connection.server_pool import ServerAddress
from jetspark.client.connection.tls import TlsFiles
from jetspark.protocol.handshake import ServerInfo
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import mib

NO_PICKLE: Final = (
    "a connection cannot be pickled: pickle client_options(...) and call connect_with(options) in "
    "the other process"
)

PUBLISH_ASYNC_MAX: Final = 4000  # the default of nats.go
# As in nats.go: a stream does not respond while its leader is being elected.
PUBLISH_RETRIES: Final = 2

# Plain or coroutine functions.
ErrorCallback = Callable[[Exception], Awaitable[None] | None]
ClosedCallback = Callable[[Exception | None], Awaitable[None] | None]
ServerCallback = Callable[[ServerInfo], Awaitable[None] | None]
DiscoveredCallback = Callable[[tuple[str, ...]], Awaitable[None] | None]


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options of ``connect``; ``ConnectArguments`` documents the fields.

    Durations are seconds, as everywhere in the client API. Can be pickled unless ``tls`` is an SSL
    context, if the callbacks are module-level functions.
    """

    servers: tuple[ServerAddress, ...]
    name: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    nkey_seed: str = ""
    nkey: str = ""
    credentials: str | os.PathLike[str] = ""
    jwt_callback: Callable[[], str] | None = None
    signature_callback: Callable[[bytes], bytes] | None = None
    tls: ssl.SSLContext | TlsFiles | bool | None = None
    tls_hostname: str = ""
    tls_first: bool = False
    websocket_headers: dict[str, str] | None = None
    inbox_prefix: str = "_INBOX"
    jetstream_domain: str = ""
    jetstream_prefix: str = ""
    echo: bool = True
    connect_timeout: float = 2.0
    timeout: float = 5.0
    ping_interval: float = 120.0
    pings_outstanding_max: int = 2
    allow_reconnect: bool = True
    max_reconnects: int = 60
    reconnect_wait: float = 0.1
    reconnect_wait_max: float = 5.0
    reconnect_jitter: float = 0.1
    retry_on_failed_connect: bool = False
    randomize: bool = False
    ignore_discovered: bool = False
    write_buffer_bytes: int = mib(32)
    reconnect_buffer_bytes: int = mib(8)
    error_callback: ErrorCallback | None = None
    disconnected_callback: ErrorCallback | None = None
    reconnected_callback: ServerCallback | None = None
    closed_callback: ClosedCallback | None = None
    lame_duck_callback: ServerCallback | None = None
    discovered_callback: DiscoveredCallback | None = None

    def __repr__(self) -> str:
        # Passwords, tokens and seeds stay out of logs.
        labels = ", ".join(address.label for address in self.servers)
        return f"ClientOptions(servers={labels!r}, name={self.name!r})"


# For each field type, the accepted Python types and their description.
_KINDS: Final[dict[Any, tuple[Any, str]]] = {
    str: (str, "str"),
    bool: (bool, "True or False"),
    int: (int, "an int"),
    float: ((int, float), "a number of seconds"),
}


def check_options(options: ClientOptions) -> ClientOptions:
    """Refuse options that cannot work: the error names the option and what is expected."""
    _check_types(options)
    _check_times(options)
    _check_sizes(options)
    _check_tls(options)
    _check_user(options)
    if not is_valid_literal(options.inbox_prefix.encode("utf-8", "replace")):
        raise ValueError(
            f"inbox_prefix={options.inbox_prefix!r}: expected a subject without wildcards, "
            "spaces or empty tokens, such as '_INBOX' or 'app.inbox'"
        )
    return options


def _check_types(options: ClientOptions) -> None:
    for field in msgspec.structs.fields(ClientOptions):
        value = getattr(options, field.name)
        if field.name.endswith("_callback"):
            if value is not None and not callable(value):
                raise TypeError(f"{field.name} must be a function, not {type(value).__name__}")
            continue
        if field.type not in _KINDS:
            continue
        expected, words = _KINDS[field.type]
        # In Python a bool is an int, but it is not a valid number here.
        if not isinstance(value, expected) or (isinstance(value, bool) and field.type is not bool):
            # Not the value: it may be a secret.
            raise TypeError(f"{field.name} must be {words}, not {type(value).__name__}")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{field.name}=nan: expected a number of seconds")


def _check_times(options: ClientOptions) -> None:
    for name in ("connect_timeout", "timeout", "ping_interval"):
        value = getattr(options, name)
        if value <= 0:
            raise ValueError(f"{name}={value!r}: expected a number of seconds above 0")
    if options.reconnect_wait <= 0 or options.reconnect_jitter < 0:
        raise ValueError(
            f"reconnect_wait={options.reconnect_wait}, reconnect_jitter="
            f"{options.reconnect_jitter}: expected seconds; reconnect_wait must be above 0"
        )
    if options.reconnect_wait_max < options.reconnect_wait:
        raise ValueError(
            f"reconnect_wait_max={options.reconnect_wait_max}: expected at least "
            f"reconnect_wait={options.reconnect_wait}"
        )


def _check_sizes(options: ClientOptions) -> None:
    if options.pings_outstanding_max < 1:
        raise ValueError(
            f"pings_outstanding_max={options.pings_outstanding_max}: expected at least 1"
        )
    if options.write_buffer_bytes < 1:
        raise ValueError(
            f"write_buffer_bytes={options.write_buffer_bytes}: expected a size above 0"
        )
    if options.reconnect_buffer_bytes < 0:
        raise ValueError(
            f"reconnect_buffer_bytes={options.reconnect_buffer_bytes}: expected a size, or 0 to "
            "refuse publishes without a connection"
        )
    if options.max_reconnects < -1:
        raise ValueError(
            f"max_reconnects={options.max_reconnects}: expected a number of attempts per server, "
            "or -1 for no limit"
        )
    if options.retry_on_failed_connect and not options.allow_reconnect:
        raise ValueError("retry_on_failed_connect requires allow_reconnect=True")


def _check_tls(options: ClientOptions) -> None:
    tls = options.tls
    if tls is not None and not isinstance(tls, ssl.SSLContext | TlsFiles | bool):
        raise TypeError(
            f"tls must be True, TlsFiles or an ssl.SSLContext, not {type(tls).__name__}; for "
            "files use TlsFiles(ca_file=...)"
        )
    if tls is False and options.tls_first:
        raise ValueError("tls_first=True requires TLS, but tls=False disables it")
    if options.tls or options.tls_first:
        for address in options.servers:
            if address.websocket and not address.tls:
                raise ValueError(
                    f"ws://{address.label} is not encrypted, but TLS was requested: use wss://"
                )


def _check_user(options: ClientOptions) -> None:
    given = [
        name
        for name, value in (
            ("user", options.user),
            ("token", options.token),
            ("nkey_seed", options.nkey_seed),
            ("credentials", options.credentials),
            ("signature_callback", options.signature_callback),
        )
        if value
    ]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} were both given: use only one of them")
    if bool(options.user) != bool(options.password):
        missing = "password" if options.user else "user"
        raise ValueError(f"user and password must be given together: {missing} is missing")
