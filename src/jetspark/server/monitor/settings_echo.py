"""The configuration of the server, as in ``/varz`` and ``/jsz``.

Defaults are those of nats-server without a configuration (wire.md, Limits and timings). Durations
are nanoseconds, except where nats-server itself writes seconds.
"""

import msgspec

from jetspark.protocol.limits import CONTROL_LINE_MAX, PAYLOAD_MAX, PENDING_MAX
from jetspark.server.config.blocks.jetspark import Limits
from jetspark.units import Nanoseconds, minutes, seconds


class WebsocketEcho(msgspec.Struct, frozen=True, kw_only=True):
    """The ``websocket`` block."""

    host: str
    port: int
    advertise: str = ""
    no_auth_user: str = ""
    jwt_cookie: str = ""
    handshake_timeout: Nanoseconds = Nanoseconds(0)
    auth_timeout: float | None = None  # seconds; None: that of the server
    no_tls: bool = False
    tls_map: bool = False
    tls_pinned_certs: tuple[str, ...] = ()
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    compression: bool = False


class ServerEcho(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings. ``port`` and ``http_port`` are the actual ones."""

    host: str
    port: int
    config_load_ns: int
    config_digest: str = ""
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_cert_not_after_ns: int = 0
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    max_connections: int = 64 * 1024
    max_subscriptions: int = 0
    ping_interval: Nanoseconds = minutes(2)
    ping_max: int = 2
    http_host: str = ""
    http_port: int = 0
    http_base_path: str = ""
    https_port: int = 0
    auth_timeout_s: float = 2.0
    max_control_line: int = CONTROL_LINE_MAX
    max_payload: int = PAYLOAD_MAX
    max_pending: int = PENDING_MAX
    tls_timeout_s: float = 2.0
    write_deadline: Nanoseconds = seconds(10)
    write_timeout: str = ""
    system_account: str = "$SYS"
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    websocket: WebsocketEcho | None = None
    # Ours: the limits of clients, and that of the unread output of all of them.
    limits: Limits = Limits()
    pending_of_all: int = 0
    input_of_all: int = 0


class LimitsEcho(msgspec.Struct, frozen=True, kw_only=True):
    """``jetstream.limits``; 0 is *not set*."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    duplicate_window: Nanoseconds = Nanoseconds(0)
    batch_inflight_per_stream: int = 0
    batch_inflight_total: int = 0
    batch_size: int = 0
    batch_timeout: Nanoseconds = Nanoseconds(0)
    default_max_consumers: int = 0


class JetStreamEcho(msgspec.Struct, frozen=True, kw_only=True):
    """The ``jetstream`` block. ``durability`` is ours: what an acknowledgement guarantees."""

    max_memory: int
    max_storage: int
    store_dir: str
    durability: str = "durable"
    sync_interval: Nanoseconds = minutes(2)
    domain: str = ""
    strict: bool = True
    limits: LimitsEcho = LimitsEcho()
