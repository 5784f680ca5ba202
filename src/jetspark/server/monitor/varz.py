"""``/varz``: the server in general (field names and order of nats-server's ``Varz``)."""

import platform
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jetspark.api.base import ApiStruct, Timestamp, shown
from jetspark.server.jetstream.remotes import RemoteState
from jetspark.server.monitor.jetstream_models import (
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
)
from jetspark.server.monitor.jetstream_usage import config_of, limits_of, server_stats, usage_of
from jetspark.server.monitor.process import ProcessUsage
from jetspark.server.monitor.settings_echo import ServerEcho, WebsocketEcho
from jetspark.server.monitor.status import Counters, JetStreamStatus, ServerStatus
from jetspark.server.monitor.traffic import total_traffic
from jetspark.server.monitor.uptime import format_uptime

PROTO: Final = 1


class Empty(ApiStruct, frozen=True, kw_only=True):
    """A part that this server does not have: cluster, gateway, leaf nodes, MQTT."""


class WebsocketVarz(ApiStruct, frozen=True, kw_only=True):
    """The listener for websockets, as configured."""

    host: str = ""
    port: int = 0
    advertise: str = ""
    no_auth_user: str = ""
    jwt_cookie: str = ""
    handshake_timeout: int = 0
    auth_timeout: float | None = None
    no_tls: bool = False
    tls_map: bool = False
    tls_pinned_certs: tuple[str, ...] = ()
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    compression: bool = False


class JetStreamVarz(ApiStruct, frozen=True, kw_only=True):
    """A summary of JetStream; empty while it is off."""

    config: JetStreamConfig | None = None
    stats: JetStreamStats | None = None
    limits: JetStreamLimits | None = None


class PerKind(ApiStruct, frozen=True, kw_only=True):
    """A number per kind of connection; this server has clients only."""

    clients: int = shown(0)
    routes: int = shown(0)
    gateways: int = shown(0)
    leafs: int = shown(0)


class ReplicaVarz(ApiStruct, frozen=True, kw_only=True):
    """A summary of a read replica: its streams are in ``/jsz`` and ``/metrics``."""

    leader: str
    leader_id: str = ""
    leader_name: str = ""
    connected: bool = shown(False)
    last_contact: Timestamp | None = None
    read_only: bool = shown(False)
    reads_answered: int = shown(0)
    reads_passed: int = shown(0)
    streams: int = shown(0)
    streams_whole: int = shown(0)
    streams_stuck: int = shown(0)
    lag: int = shown(0)


class ClientLimitsVarz(ApiStruct, frozen=True, kw_only=True):
    """The limits of clients that only we have, and how often they were reached; 0: no limit."""

    connections_per_address: int = shown(0)
    connections_per_user: int = shown(0)
    subscriptions_per_account: int = shown(0)
    failed_logins_per_address: int = shown(0)
    failed_logins_per_user: int = shown(0)
    pending: int = shown(0)
    refused_connections: int = shown(0)
    unchecked_logins: int = shown(0)
    pending_bytes: int = shown(0)
    pending_closed: int = shown(0)
    input: int = shown(0)
    input_bytes: int = shown(0)
    input_closed: int = shown(0)


class JetsparkVarz(ApiStruct, frozen=True, kw_only=True):
    """Fields that only we have (decisions.md)."""

    version: str
    compiled: bool
    python: str
    durability: str = ""
    limits: ClientLimitsVarz = shown(ClientLimitsVarz())
    remotes: tuple[RemoteState, ...] = ()
    replica: ReplicaVarz | None = None


class Varz(ApiStruct, frozen=True, kw_only=True):
    """The answer. Fields of nats-server that do not apply here are omitted.

    They are ``go``, ``git_commit``, ``gomaxprocs``, ``feature_flags`` and ``disk_io_wait_stats``.
    """

    server_id: str
    server_name: str
    version: str
    proto: int
    host: str
    port: int
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    max_connections: int
    max_subscriptions: int = 0
    ping_interval: int
    ping_max: int
    http_host: str
    http_port: int
    http_base_path: str
    https_port: int
    auth_timeout: float
    max_control_line: int
    max_payload: int
    max_pending: int
    cluster: Empty = shown(Empty())
    gateway: Empty = shown(Empty())
    leaf: Empty = shown(Empty())
    mqtt: Empty = shown(Empty())
    websocket: WebsocketVarz = shown(WebsocketVarz())
    jetstream: JetStreamVarz = shown(JetStreamVarz())
    tls_timeout: float
    write_deadline: int
    write_timeout: str = ""
    start: Timestamp
    now: Timestamp
    uptime: str
    mem: int | None = None
    cores: int
    cpu: float | None = None
    connections: int
    total_connections: int
    routes: int = shown(0)
    remotes: int = shown(0)
    leafnodes: int = shown(0)
    in_msgs: int
    in_bytes: int
    in_client_msgs: int
    in_client_bytes: int
    out_msgs: int
    out_bytes: int
    out_client_msgs: int
    out_client_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_clients: int
    subscriptions: int
    http_req_stats: dict[str, int]
    config_load_time: Timestamp
    config_digest: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None
    system_account: str = ""
    slow_consumer_stats: PerKind
    stale_connection_stats: PerKind
    tls_cert_not_after: Timestamp | None = None
    jetspark: JetsparkVarz


async def varz(view: ServerStatus, requests: Mapping[str, int], usage: ProcessUsage) -> Varz:
    """Build the answer; ``requests`` counts the requests per path."""
    identity, echo, counters = view.identity, view.echo, view.counters()
    traffic = total_traffic(account.traffic for account in view.accounts())
    jetstream = view.jetstream()
    now_ns = view.now_ns()
    return Varz(
        server_id=identity.server_id,
        server_name=identity.server_name,
        version=identity.version,
        proto=PROTO,
        start=view.date(identity.start_ns),
        now=view.date(now_ns),
        uptime=format_uptime(now_ns - identity.start_ns),
        mem=usage.mem,
        cores=usage.cores,
        cpu=usage.cpu,
        websocket=_websocket(echo.websocket),
        jetstream=await _jetstream(jetstream),
        connections=len(view.connections()),
        total_connections=counters.total_connections,
        in_msgs=traffic.in_msgs,
        in_bytes=traffic.in_bytes,
        in_client_msgs=traffic.in_msgs,
        in_client_bytes=traffic.in_bytes,
        out_msgs=traffic.out_msgs,
        out_bytes=traffic.out_bytes,
        out_client_msgs=traffic.out_msgs,
        out_client_bytes=traffic.out_bytes,
        slow_consumers=counters.slow_consumers,
        stale_connections=counters.stale_connections,
        stalled_clients=counters.stalled_clients,
        subscriptions=sum(account.sublist().subscriptions for account in view.accounts()),
        http_req_stats=dict(requests),
        slow_consumer_stats=PerKind(clients=counters.slow_consumers),
        stale_connection_stats=PerKind(clients=counters.stale_connections),
        jetspark=JetsparkVarz(
            version=identity.jetspark_version,
            compiled=identity.compiled,
            python=platform.python_version(),
            durability="" if jetstream is None else jetstream.echo.durability,
            limits=_limits(echo, counters),
            remotes=tuple(view.remotes()),
            replica=_replica(view),
        ),
        **_echoed(view),
    )


def _limits(echo: ServerEcho, counters: Counters) -> ClientLimitsVarz:
    return ClientLimitsVarz(
        **msgspec.structs.asdict(echo.limits),
        pending=echo.pending_of_all,
        refused_connections=counters.refused_connections,
        unchecked_logins=counters.unchecked_logins,
        pending_bytes=counters.unread_bytes,
        pending_closed=counters.closed_largest,
        input=echo.input_of_all,
        input_bytes=counters.kept_input_bytes,
        input_closed=counters.closed_keeping,
    )


def _replica(view: ServerStatus) -> ReplicaVarz | None:
    state = view.replica()
    if state is None:
        return None
    return ReplicaVarz(
        leader=state.leader,
        leader_id=state.leader_id,
        leader_name=state.leader_name,
        connected=state.connected,
        last_contact=view.date(state.contact_ns) if state.contact_ns else None,
        read_only=state.read_only,
        reads_answered=state.reads_answered,
        reads_passed=state.reads_passed,
        streams=len(state.streams),
        streams_whole=sum(stream.whole for stream in state.streams),
        streams_stuck=sum(bool(stream.error) for stream in state.streams),
        lag=sum(stream.lag for stream in state.streams),
    )


def _echoed(view: ServerStatus) -> dict[str, Any]:
    """Return the fields with the server's configuration."""
    echo = view.echo
    expires_ns = echo.tls_cert_not_after_ns
    return {
        "host": echo.host,
        "port": echo.port,
        "auth_required": echo.auth_required,
        "tls_required": echo.tls_required,
        "tls_verify": echo.tls_verify,
        "connect_urls": echo.connect_urls,
        "ws_connect_urls": echo.ws_connect_urls,
        "max_connections": echo.max_connections,
        "max_subscriptions": echo.max_subscriptions,
        "ping_interval": echo.ping_interval,
        "ping_max": echo.ping_max,
        "http_host": echo.http_host,
        "http_port": echo.http_port,
        "http_base_path": echo.http_base_path,
        "https_port": echo.https_port,
        "auth_timeout": echo.auth_timeout_s,
        "max_control_line": echo.max_control_line,
        "max_payload": echo.max_payload,
        "max_pending": echo.max_pending,
        "tls_timeout": echo.tls_timeout_s,
        "write_deadline": echo.write_deadline,
        "write_timeout": echo.write_timeout,
        "config_load_time": view.date(echo.config_load_ns),
        "config_digest": echo.config_digest,
        "tags": echo.tags,
        "metadata": echo.metadata or None,
        "system_account": echo.system_account,
        "tls_cert_not_after": Timestamp(expires_ns) if expires_ns else None,
    }


def _websocket(echo: WebsocketEcho | None) -> WebsocketVarz:
    if echo is None:
        return WebsocketVarz()
    return WebsocketVarz(**{name: getattr(echo, name) for name in echo.__struct_fields__})


async def _jetstream(jetstream: JetStreamStatus | None) -> JetStreamVarz:
    if jetstream is None:
        return JetStreamVarz()
    return JetStreamVarz(
        config=config_of(jetstream.echo),
        stats=server_stats(jetstream, await usage_of(jetstream)),
        limits=limits_of(jetstream.echo.limits),
    )
