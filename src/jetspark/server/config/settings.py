"""The configuration of a server: every setting with its type and its default.

Names are nats-server's, so that its documentation applies; ``jetspark`` has what only we have
(decisions.md, Server). Durations are nanoseconds, sizes bytes. Defaults are those of nats-server
2.15.1 (wire.md, Limits and timings) unless a line says otherwise.
"""

from enum import StrEnum
from typing import Final

import msgspec

from jetspark.protocol.limits import CONTROL_LINE_MAX, PAYLOAD_MAX, PENDING_MAX
from jetspark.server.config.blocks.accounts import Account
from jetspark.server.config.blocks.jetspark import Jetspark
from jetspark.server.config.blocks.jetstream import JetStream
from jetspark.server.config.blocks.mappings import SubjectMapping
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import Authorization
from jetspark.server.config.blocks.websocket import Websocket
from jetspark.server.config.language.problem import ConfigProblem
from jetspark.units import ByteCount, Nanoseconds, minutes, seconds

ANY_FREE_PORT: Final = -1
HOST_DEFAULT: Final = "0.0.0.0"  # noqa: S104  as nats-server; Server() has 127.0.0.1
PORT_DEFAULT: Final = 4222
SYSTEM_ACCOUNT: Final = "$SYS"


class WriteTimeout(StrEnum):
    """What happens to a client that cannot be written to within ``write_deadline``."""

    DEFAULT = "default"
    CLOSE = "close"
    RETRY = "retry"


# The monitoring port of a server with a dashboard and no other: nats-server's usual one.
DASHBOARD_PORT: Final = 8222


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration. Created by `load_file` and `from_command_line`.

    ``warnings`` are old spellings that nats-server accepts with a warning; ``remarks`` are other
    warnings to log at a start.
    """

    config_file: str = ""
    server_name: str = ""  # empty: the server's own id
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    client_advertise: str = ""
    no_header_support: bool = False

    max_payload: int = PAYLOAD_MAX  # -1: no limit
    max_control_line: int = CONTROL_LINE_MAX
    max_pending: ByteCount = ByteCount(PENDING_MAX)
    max_connections: int = 64 * 1024  # -1: no limit
    max_subscriptions: int = 0  # per connection; 0: no limit
    max_subscription_tokens: int = 0  # 0: no limit
    max_closed_clients: int = 10_000

    ping_interval: Nanoseconds = minutes(2)
    ping_max: int = 2
    write_deadline: Nanoseconds = seconds(10)
    write_timeout: WriteTimeout = WriteTimeout.DEFAULT
    lame_duck_duration: Nanoseconds = minutes(2)
    lame_duck_grace_period: Nanoseconds = seconds(10)

    http_host: str = HOST_DEFAULT
    http_port: int = 0  # 0: off
    https_port: int = 0
    http_base_path: str = "/"

    tls: Tls | None = None
    allow_non_tls: bool = False
    authorization: Authorization = Authorization()
    accounts: tuple[Account, ...] = ()
    no_auth_user: str = ""
    system_account: str = SYSTEM_ACCOUNT
    no_system_account: bool = False
    websocket: Websocket | None = None
    mappings: tuple[SubjectMapping, ...] = ()

    jetstream: JetStream = JetStream()
    default_js_domain: dict[str, str] = {}
    jetspark: Jetspark = Jetspark()

    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    logtime: bool = True
    logtime_utc: bool = False
    logfile: str = ""
    logfile_size_limit: ByteCount = ByteCount(0)
    logfile_max_num: int = 0
    max_traced_msg_len: int = 0  # 0: all of it
    pid_file: str = ""
    ports_file_dir: str = ""
    server_tags: tuple[str, ...] = ()
    server_metadata: dict[str, str] = {}

    digest: str = ""
    warnings: tuple[ConfigProblem, ...] = ()
    remarks: tuple[str, ...] = ()
