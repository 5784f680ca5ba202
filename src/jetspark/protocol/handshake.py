"""INFO and CONNECT: models and JSON (wire.md, Core protocol).

The decoders match Go's JSON reader, which the released server uses: the case of keys is ignored,
null means absent, invalid UTF-8 becomes U+FFFD. Fields that nats-server or nats.go always write
have a default factory, which msgspec never omits; the others are left out when they have their
default.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import field

_Model = TypeVar("_Model")
# Go reads it into 64 bits and refuses values that do not fit.
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class JetsparkInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a jetspark server reports about itself in INFO (decisions.md).

    ``path`` is for replicas: their own id, that of their leader, and so on to the last.
    """

    version: str = field(default_factory=str)
    min_last_seq: bool = field(default_factory=bool)
    fast_header_dialect: bool = field(default_factory=bool)
    path: tuple[str, ...] = ()


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """INFO, in the order nats-server writes it."""

    server_id: str = field(default_factory=str)
    server_name: str = field(default_factory=str)
    version: str = field(default_factory=str)
    proto: int = field(default_factory=int)
    git_commit: str = field(default_factory=str)
    go: str = field(default_factory=str)
    host: str = field(default_factory=str)
    port: int = field(default_factory=int)
    headers: bool = field(default_factory=bool)
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = field(default_factory=int)
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""
    jetspark: JetsparkInfo | None = None


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CONNECT; the defaults are what nats-server assumes before a client has sent it."""

    verbose: bool = field(default_factory=lambda: True)
    pedantic: bool = field(default_factory=lambda: True)
    tls_required: bool = field(default_factory=bool)
    auth_token: str = ""
    user: str = ""
    password: str = field(default="", name="pass")
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    name: str = field(default_factory=str)
    lang: str = field(default_factory=str)
    version: str = field(default_factory=str)
    protocol: _Int64 = field(default_factory=int)
    echo: bool = field(default_factory=lambda: True)
    headers: bool = field(default_factory=bool)
    no_responders: bool = field(default_factory=bool)
    # Old clients could name or create an account; nats-server refuses both as an authorization
    # violation.
    account: str = ""
    new_account: bool = False

    def __repr__(self) -> str:
        """Leave out credentials: this text is logged."""
        return f"ConnectOptions(name={self.name!r}, lang={self.lang!r}, version={self.version!r})"


# The options of a new connection.
DEFAULT_OPTIONS = ConnectOptions()


def decode_info(body: bytes) -> ServerInfo:
    """Return the model of an INFO body; ValueError says what is wrong with it."""
    return _convert(_decode_object(body, "INFO"), ServerInfo, "INFO")


def decode_connect(body: bytes, base: ConnectOptions = DEFAULT_OPTIONS) -> ConnectOptions:
    """Return ``base`` updated by a CONNECT body; ValueError says what is wrong with it.

    A second CONNECT changes only what it names, as in nats-server: decode it over the first.
    """
    fields = _to_builtins(base) | _decode_object(body, "CONNECT")
    return _convert(fields, ConnectOptions, "CONNECT")


def info_problem(body: bytes) -> str:
    """Return why an INFO body cannot be read, or an empty text."""
    try:
        decode_info(body)
    except ValueError as error:
        return str(error)
    return ""


def info_json(info: ServerInfo) -> bytes:
    """Return the JSON text of INFO."""
    return msgspec.json.encode(info)


def connect_json(options: ConnectOptions) -> bytes:
    """Return the JSON text of CONNECT."""
    return msgspec.json.encode(options)


def _to_builtins(options: ConnectOptions) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(options)
    return fields


def _decode_object(body: bytes, what: str) -> dict[str, Any]:
    """Return the fields of a JSON object with lower-case names and without nulls."""
    try:
        value = msgspec.json.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{what} must be followed by one JSON object: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        found = type(value).__name__
        raise ValueError(f"{what} must be followed by one JSON object, not by a {found}")  # noqa: TRY004 - the bytes are wrong, not the call
    return {key.lower(): item for key, item in value.items() if item is not None}


def _convert(fields: dict[str, Any], model: type[_Model], what: str) -> _Model:
    try:
        return msgspec.convert(fields, model)
    except msgspec.ValidationError as error:
        raise ValueError(f"{what} has a field of the wrong type: {error}") from error
