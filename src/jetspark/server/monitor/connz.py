"""``/connz``: connections, open and closed (nats-server's ``Connz``)."""

import base64
import binascii
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from jetspark.api.base import ApiStruct, Timestamp, encode, shown
from jetspark.server.monitor.arguments import Arguments, BadArgument
from jetspark.server.monitor.connection_view import (
    ConnectionDetails,
    ConnectionView,
    PeerCertificate,
)
from jetspark.server.monitor.status import ServerStatus
from jetspark.server.monitor.subscriptions import SubscriptionDetail, detail_of
from jetspark.server.monitor.uptime import format_rtt, format_uptime
from jetspark.server.pacing import paced

LIMIT_DEFAULT: Final = 1024
SUBSCRIPTIONS_PER_TURN: Final = 1024
GLOBAL_ACCOUNT: Final = "$G"


class State(StrEnum):
    """The requested connections."""

    OPEN = "open"
    CLOSED = "closed"
    ALL = "all"


class ConnzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request."""

    sort: str = "cid"
    auth: bool = False
    subs: bool = False
    subs_detail: bool = False
    offset: int = 0
    limit: int = LIMIT_DEFAULT
    cid: int = 0
    state: State = State.OPEN
    user: str = ""
    account: str = ""
    mqtt_client: str = ""


class PeerCertInfo(ApiStruct, frozen=True, kw_only=True):
    """A client certificate."""

    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class ConnectionInfo(ApiStruct, frozen=True, kw_only=True):
    """One connection."""

    cid: int
    kind: str = ""
    type: str = ""
    ip: str
    port: int
    start: Timestamp
    last_activity: Timestamp
    stop: Timestamp | None = None
    reason: str = ""
    rtt: str = ""
    uptime: str
    idle: str
    pending_bytes: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    stalls: int = 0
    subscriptions: int
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher_suite: str = ""
    tls_peer_certs: tuple[PeerCertInfo, ...] = ()
    tls_first: bool = False
    authorized_user: str = ""
    account: str = ""
    subscriptions_list: tuple[str, ...] = ()
    subscriptions_list_detail: tuple[SubscriptionDetail, ...] = ()
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: tuple[str, ...] = ()


class Connz(ApiStruct, frozen=True, kw_only=True):
    """The answer: each `ConnectionInfo`, or null if the account does not exist."""

    server_id: str
    now: Timestamp
    num_connections: int = shown(0)
    total: int = shown(0)
    offset: int
    limit: int
    connections: tuple[msgspec.Raw, ...] | None = shown(None)


class _Row:
    """A connection to be listed; ``stop_ns`` is 0 while it is open."""

    __slots__ = ("connection", "reason", "stop_ns")

    def __init__(self, connection: ConnectionView, stop_ns: int = 0, reason: str = "") -> None:
        self.connection = connection
        self.stop_ns = stop_ns
        self.reason = reason


# The sort key of each order, and whether it is descending. nats-server's order by uptime starts
# with the newest, unlike all its other numeric orders.
_ORDERS: Final[dict[str, tuple[Callable[[_Row, int], int | str], bool]]] = {
    "cid": (lambda row, _now: row.connection.cid, False),
    "start": (lambda row, _now: row.connection.cid, False),
    "subs": (lambda row, _now: row.connection.subscription_count, True),
    "pending": (lambda row, _now: row.connection.pending_bytes, True),
    "msgs_to": (lambda row, _now: row.connection.traffic.out_msgs, True),
    "msgs_from": (lambda row, _now: row.connection.traffic.in_msgs, True),
    "bytes_to": (lambda row, _now: row.connection.traffic.out_bytes, True),
    "bytes_from": (lambda row, _now: row.connection.traffic.in_bytes, True),
    "last": (lambda row, _now: row.connection.last_ns, True),
    "idle": (lambda row, now: now - row.connection.last_ns, True),
    "uptime": (lambda row, now: (row.stop_ns or now) - row.connection.start_ns, False),
    "stop": (lambda row, _now: row.stop_ns, True),
    "reason": (lambda row, _now: row.reason, False),
    "rtt": (lambda row, _now: row.connection.rtt_ns, True),
}


def read_options(arguments: Arguments) -> ConnzOptions:
    """Read the arguments, in nats-server's order. Raises BadArgument."""
    auth = arguments.flag("auth")
    subs_detail = arguments.text("subs").lower() == "detail"
    subs = not subs_detail and arguments.flag("subs")
    offset = arguments.integer("offset")
    limit = arguments.integer("limit")
    cid = arguments.unsigned("cid")
    state = _read_state(arguments.text("state"))
    sort = arguments.text("sort") or "cid"
    if sort not in _ORDERS:
        raise BadArgument(f"invalid sorting option: {sort}")
    if sort in {"stop", "reason"} and state is not State.CLOSED:
        raise BadArgument(f"sort by {sort} only valid on closed connections")
    return ConnzOptions(
        sort=sort,
        auth=auth,
        subs=subs,
        subs_detail=subs_detail,
        offset=max(offset, 0),
        limit=1 if cid else (limit if limit > 0 else LIMIT_DEFAULT),
        cid=cid,
        state=state,
        user=arguments.text("user"),
        account=arguments.text("acc"),
        mqtt_client=arguments.text("mqtt_client"),
    )


async def connz(view: ServerStatus, options: ConnzOptions) -> Connz:
    """Build the answer. Only the requested page is encoded."""
    now_ns = view.now_ns()
    names = {account.name for account in view.accounts()}
    if options.account and options.account not in names:
        # nats-server answers this with an empty id and null, before any other check.
        return Connz(
            server_id="", now=view.date(now_ns), offset=options.offset, limit=options.limit
        )
    open_rows = [] if options.state is State.CLOSED else await _open_rows(view, options)
    closed_rows = [] if options.state is State.OPEN else _closed_rows(view, options)
    total = len(open_rows) + len(closed_rows)
    if options.cid:
        rows = [row for row in (*open_rows, *closed_rows) if row.connection.cid == options.cid]
    else:
        rows = [row async for row in paced((*open_rows, *closed_rows)) if _wanted(row, options)]
    key, descending = _ORDERS[options.sort]
    rows.sort(key=lambda row: key(row, now_ns), reverse=descending)
    page = rows[options.offset : options.offset + options.limit]
    # Encoded one by one: a long page does not block the loop at the end.
    connections = tuple(
        [msgspec.Raw(encode(await _info(view, row, options, now_ns))) async for row in paced(page)]
    )
    return Connz(
        server_id=view.identity.server_id,
        now=view.date(now_ns),
        num_connections=len(connections),
        total=total,
        offset=options.offset,
        limit=options.limit,
        connections=connections,
    )


def _read_state(text: str) -> State:
    match text.lower():
        case "" | "open":
            return State.OPEN
        case "closed":
            return State.CLOSED
        case "any" | "all":
            return State.ALL
        case _:
            raise BadArgument(f"Error decoding state for {text}")


async def _open_rows(view: ServerStatus, options: ConnzOptions) -> list[_Row]:
    return [
        _Row(connection)
        async for connection in paced(view.connections())
        if not options.account or connection.account == options.account
    ]


def _closed_rows(view: ServerStatus, options: ConnzOptions) -> list[_Row]:
    return [
        _Row(connection, connection.stop_ns, connection.reason)
        for connection in view.closed()
        if not options.account or connection.account == options.account
    ]


def _wanted(row: _Row, options: ConnzOptions) -> bool:
    if options.mqtt_client:
        return False  # MQTT is not supported
    return not options.user or row.connection.details().user == options.user


async def _info(
    view: ServerStatus, row: _Row, options: ConnzOptions, now_ns: int
) -> ConnectionInfo:
    connection = row.connection
    details, traffic = connection.details(), connection.traffic
    until_ns = row.stop_ns or now_ns
    if not connection.rtt_ns and not row.stop_ns and details.lang:
        # As nats-server: a PING now, so that the next answer has a value.
        connection.request_rtt()
    return ConnectionInfo(
        cid=connection.cid,
        kind=details.kind,
        type=details.type,
        ip=details.ip,
        port=details.port,
        start=view.date(connection.start_ns),
        last_activity=view.date(connection.last_ns),
        stop=view.date(row.stop_ns) if row.stop_ns else None,
        reason=row.reason,
        rtt=format_rtt(connection.rtt_ns),
        uptime=format_uptime(until_ns - connection.start_ns),
        idle=format_uptime(until_ns - connection.last_ns),
        pending_bytes=connection.pending_bytes,
        in_msgs=traffic.in_msgs,
        out_msgs=traffic.out_msgs,
        in_bytes=traffic.in_bytes,
        out_bytes=traffic.out_bytes,
        stalls=connection.stalls,
        subscriptions=connection.subscription_count,
        name=details.name,
        lang=details.lang,
        version=details.version,
        **_tls(details, auth=options.auth),
        **await _subscriptions(row, options),
        **(_authorization(details, is_open=not row.stop_ns) if options.auth else {}),
    )


def _tls(details: ConnectionDetails, *, auth: bool) -> dict[str, Any]:
    tls = details.tls
    if tls is None:
        return {}
    return {
        "tls_version": tls.version,
        "tls_cipher_suite": tls.cipher_suite,
        "tls_first": tls.first,
        "tls_peer_certs": tuple(_peer(each) for each in tls.peer_certs) if auth else (),
    }


def _peer(certificate: PeerCertificate) -> PeerCertInfo:
    return PeerCertInfo(
        subject=certificate.subject,
        spki_sha256=certificate.spki_sha256,
        cert_sha256=certificate.cert_sha256,
    )


async def _subscriptions(row: _Row, options: ConnzOptions) -> dict[str, Any]:
    connection = row.connection
    if options.subs_detail:
        # Closed ones include their account, as in nats-server: they are listed for all accounts.
        account = connection.account if row.stop_ns else ""
        tag = connection.details().name_tag
        details = [
            detail_of(each, connection.cid, account, tag)
            async for each in paced(connection.subscriptions(), SUBSCRIPTIONS_PER_TURN)
        ]
        return {"subscriptions_list_detail": tuple(details)}
    if options.subs:
        subjects = [
            each.subject.decode(errors="replace")
            async for each in paced(connection.subscriptions(), SUBSCRIPTIONS_PER_TURN)
        ]
        return {"subscriptions_list": tuple(subjects)}
    return {}


def _authorization(details: ConnectionDetails, *, is_open: bool) -> dict[str, Any]:
    is_global = details.account == GLOBAL_ACCOUNT
    tag = details.name_tag or details.account
    return {
        "authorized_user": details.user,
        "account": "" if is_global else details.account,
        "jwt": "" if is_bearer(details.jwt) else details.jwt,
        "issuer_key": details.issuer_key,
        # nats-server omits it for closed connections of the global account.
        "name_tag": tag if is_open or not is_global else "",
        "tags": details.tags,
    }


class _UserClaims(msgspec.Struct):
    """The part of a user JWT that says whether it is a bearer token."""

    bearer_token: bool = False


class _Claims(msgspec.Struct):
    """The part of a JWT that is used here."""

    nats: _UserClaims = msgspec.field(default_factory=_UserClaims)


def is_bearer(jwt: str) -> bool:
    """Return whether a JWT alone authenticates; nats-server shows a JWT that it cannot decode."""
    parts = jwt.split(".")
    if len(parts) != 3:
        return False
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(body, type=_Claims).nats.bearer_token
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return False
