"""The ``websocket`` block: checked, and refused (``not_yet.py``)."""

from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.blocks.tls import Tls, read_tls
from jetspark.server.config.blocks.users import Authorization, read_simple_authorization
from jetspark.server.config.values import (
    Address,
    boolean,
    duration,
    duration_or_whole_seconds,
    listen,
    port,
    split_url,
    string,
    strings,
    texts,
)
from jetspark.units import Nanoseconds, seconds

_OWN_HEADERS: Final = frozenset({
    "host",
    "content-length",
    "connection",
    "upgrade",
    "nats-no-masking",
})  # fmt: skip
_OWN_PREFIX: Final = "sec-websocket-"


class Websocket(msgspec.Struct, frozen=True, kw_only=True):
    """A ``websocket`` block. ``ping_interval`` 0: that of the server."""

    host: str = "0.0.0.0"  # noqa: S104  as nats-server
    port: int = 0
    advertise: str = ""
    no_tls: bool = False
    tls: Tls | None = None
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    handshake_timeout: Nanoseconds = seconds(2)
    compression: bool = False
    authorization: Authorization = Authorization()
    no_auth_user: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    headers: dict[str, str] = {}
    ping_interval: Nanoseconds = Nanoseconds(0)


def read_websocket(setting: Setting) -> Websocket:
    """Read the block."""
    values = read_whole_block(setting, _FIELDS)
    address: Address | None = values.pop("listen", None)
    if address is not None:
        if "port" in values or (address.host and "host" in values):
            raise setting.refused("'listen' says host and port already; leave the others out")
        values["port"] = address.port
        values["host"] = address.host or values.get("host", "")
    values = {name: value for name, value in values.items() if name != "host" or value}
    websocket = Websocket(**values)
    if not websocket.port:
        # nats-server accepts such a block and opens nothing.
        raise setting.refused("expected a 'port' or 'listen'; -1 takes any free port")
    if websocket.tls is None and not websocket.no_tls:
        raise setting.refused("websocket requires TLS configuration: 'tls', or 'no_tls: true'")
    return websocket


def _origins(setting: Setting) -> tuple[str, ...]:
    origins = strings(setting)
    for origin in origins:
        parts = split_url(origin)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.netloc:
            raise setting.refused(
                f"'{origin}' is not an origin; expected a form like https://host:port"
            )
    return origins


def _headers(setting: Setting) -> dict[str, str]:
    headers = texts(setting)
    for name in headers:
        if name.lower() in _OWN_HEADERS or name.lower().startswith(_OWN_PREFIX):
            raise setting.refused(f'invalid header "{name}": the server sets it itself')
    return headers


_FIELDS: Final = {
    "listen": Field(listen),
    "host": Field(string, ("net",)),
    "port": Field(port),
    "advertise": Field(string),
    "no_tls": Field(boolean),
    "tls": Field(read_tls),
    "same_origin": Field(boolean),
    "allowed_origins": Field(
        _origins, ("allowed_origin", "allow_origins", "allow_origin", "origins", "origin")
    ),
    "handshake_timeout": Field(duration_or_whole_seconds),
    "compression": Field(boolean, ("compress",)),
    "authorization": Field(read_simple_authorization, ("authentication",)),
    "no_auth_user": Field(string),
    "user_cookie": Field(string),
    "pass_cookie": Field(string),
    "token_cookie": Field(string),
    "headers": Field(_headers),
    "ping_interval": Field(duration),
}
