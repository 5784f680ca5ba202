"""The ``jetspark`` block: settings that only this server has (decisions.md, Server)."""

import re
from typing import Final

import msgspec

from jetspark.server.config.blocks.block import ANY, Field, Setting, read_block, read_whole_block
from jetspark.server.config.blocks.jetstream import AtomicLimits, Durability
from jetspark.server.config.blocks.replica import Replica, read_replica
from jetspark.server.config.blocks.tls import Tls, read_remote_tls
from jetspark.server.config.secret import Secret
from jetspark.server.config.values import (
    INT32_MAX,
    boolean,
    duration_text,
    entries,
    integer_in,
    one_of,
    secret,
    shown_url,
    size,
    split_url,
    string,
    strings,
)
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import ByteCount, Nanoseconds, format_duration, milliseconds, seconds

_REMOTE_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_EXPECTED_URL: Final = (
    f"expected a URL like nats://host:4222; known schemes are {', '.join(_REMOTE_SCHEMES)}"
)
# Clients wait five seconds for an acknowledgement by default; some wait longer.
COMMIT_DELAY_MAX: Final = seconds(10)
_REMOTE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


class FastLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of fast-ingest batches. 0: those of each dialect (decisions.md)."""

    per_stream: int = 0
    per_server: int = 0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for clients that nats-server does not have; 0: no limit.

    Failed logins are per minute. Both counts are kept by address, so that attempts from one
    address never lock out a client at another: ``failed_logins_per_user`` counts one user name at
    one address, ``failed_logins_per_address`` all names. An address is a single one of IPv4 and a
    network of 64 bits of IPv6.
    """

    connections_per_address: int = 0
    connections_per_user: int = 0
    subscriptions_per_account: int = 0
    failed_logins_per_address: int = 6_000
    failed_logins_per_user: int = 600


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory limits of the parts, in bytes. 0: the built-in default.

    ``pending`` is the output of all clients together, by default half of the memory that the
    process may use; ``max_pending`` is per client. ``input`` is what all clients together have
    sent and the server has not processed yet, by default a quarter.
    """

    pending: ByteCount = ByteCount(0)
    input: ByteCount = ByteCount(0)
    read_buffer: ByteCount = ByteCount(0)
    cache: ByteCount = ByteCount(0)
    batches: ByteCount = ByteCount(0)
    duplicates: ByteCount = ByteCount(0)
    index: ByteCount = ByteCount(0)


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """The dashboard on the monitoring port: read-only unless ``writable``.

    It connects as ``user``, with ``password`` if the configured one is a hash.
    """

    enabled: bool = False
    writable: bool = False
    user: str = ""
    password: Secret = Secret()


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """A server that our streams mirror or source from.

    ``credentials`` and ``nkey`` are paths, of a credentials file and of a file with a seed.
    ``accounts`` are those whose streams may copy from it, ``take`` those that may also remove
    messages (grants.py).
    """

    name: str
    url: tuple[str, ...]
    user: str = ""
    password: Secret = Secret()
    token: Secret = Secret()
    nkey: str = ""
    credentials: str = ""
    tls: Tls | None = None
    inbox_prefix: str = "_INBOX"
    accounts: tuple[str, ...] = ()
    take: bool | tuple[str, ...] = False

    def __repr__(self) -> str:
        # A URL may have credentials.
        return f"Remote({self.name!r}, {', '.join(map(shown_url, self.url))!r})"


class Jetspark(msgspec.Struct, frozen=True, kw_only=True):
    """The block. ``durability`` and ``atomic`` None: as in the ``jetstream`` block."""

    durability: Durability | None = None
    commit_delay: Nanoseconds = Nanoseconds(0)
    min_last_seq_wait: Nanoseconds = milliseconds(500)
    held_reads_max: int = 10_000
    atomic: AtomicLimits | None = None
    fast: FastLimits = FastLimits()
    memory: Memory = Memory()
    limits: Limits = Limits()
    monitor_token: Secret = Secret()
    monitor_hosts: tuple[str, ...] = ()
    dashboard: Dashboard = Dashboard()
    remotes: tuple[Remote, ...] = ()
    replica: Replica | None = None


def read_jetspark(setting: Setting) -> Jetspark:
    """Read the block."""
    return Jetspark(**read_block(setting, _FIELDS))


def _commit_delay(setting: Setting) -> Nanoseconds:
    delay = duration_text(setting)
    problem = commit_delay_problem(delay)
    if problem:
        raise setting.refused(problem)
    return delay


def commit_delay_problem(delay: int) -> str:
    """Return what is wrong with a commit delay; empty if nothing."""
    if 0 <= delay <= COMMIT_DELAY_MAX:
        return ""
    return (
        f"expected 0s to {format_duration(COMMIT_DELAY_MAX)}, got {format_duration(delay)}: "
        "every publisher waits that long for its acknowledgement"
    )


def _atomic(setting: Setting) -> AtomicLimits:
    return AtomicLimits(**read_block(setting, _ATOMIC))


def _fast(setting: Setting) -> FastLimits:
    return FastLimits(**read_block(setting, _FAST))


def _memory(setting: Setting) -> Memory:
    return Memory(**read_block(setting, {name: Field(size) for name in Memory.__struct_fields__}))


def _limits(setting: Setting) -> Limits:
    return Limits(**read_block(setting, _LIMITS))


def _dashboard(setting: Setting) -> Dashboard:
    if isinstance(setting.node.value, bool):
        return Dashboard(enabled=setting.node.value)
    return Dashboard(**{"enabled": True, **read_block(setting, _DASHBOARD)})


def _remotes(setting: Setting) -> tuple[Remote, ...]:
    return tuple(
        _remote(setting._replace(name=name, path=f"{setting.path}.{ANY}", node=node))
        for name, node in entries(setting).items()
    )


def _remote(setting: Setting) -> Remote:
    values = read_whole_block(setting, _REMOTE)
    if not values.get("url"):
        raise setting.refused("expected a 'url', like nats://host:4222")
    remote = Remote(name=setting.name, **values)
    problem = remote_problem(remote)
    if problem:
        raise setting.refused(problem)
    return remote


def remote_problem(remote: Remote) -> str:
    """Return what is wrong with a remote as a whole; empty if nothing."""
    if not _REMOTE_NAME.fullmatch(remote.name):
        return (
            f"'{remote.name}' cannot name a remote: expected letters, digits, - and _, because "
            "streams choose it by external.api $JS.<remote>.API"
        )
    if remote.name == "API":
        return "'API' cannot name a remote: $JS.API is this server's own"
    if not all(map(_is_url, remote.url)):
        return _EXPECTED_URL
    given = [name for name in ("user", "token", "nkey", "credentials") if getattr(remote, name)]
    if len(given) > 1:
        return f"{' and '.join(given)} were both given: a connection uses one of them"
    if bool(remote.user) != bool(remote.password):
        return "'user' and 'password' belong together"
    if not is_valid_literal(remote.inbox_prefix.encode("utf-8", "replace")):
        return f"inbox_prefix '{remote.inbox_prefix}': expected a subject without wildcards"
    return ""


def _take(setting: Setting) -> bool | tuple[str, ...]:
    if isinstance(setting.node.value, bool):
        return setting.node.value
    if not isinstance(setting.node.value, str | list):
        raise setting.wrong("true, false, or names of accounts")
    return strings(setting)


def _urls(setting: Setting) -> tuple[str, ...]:
    urls = strings(setting)
    for url in urls:
        if not _is_url(url):
            raise setting.refused(_EXPECTED_URL)
    return urls


def _is_url(url: str) -> bool:
    parts = split_url(url)
    return parts is not None and parts.scheme in _REMOTE_SCHEMES and bool(parts.hostname)


_COUNT: Final = integer_in(1, INT32_MAX)
_ATOMIC: Final = {
    "messages": Field(_COUNT),
    "per_stream": Field(_COUNT),
    "per_server": Field(_COUNT),
    "timeout": Field(duration_text),
}
_FAST: Final = {"per_stream": Field(_COUNT), "per_server": Field(_COUNT)}
_LIMITS: Final = {
    name: Field(integer_in(0, INT32_MAX, "0: no limit")) for name in Limits.__struct_fields__
}
_DASHBOARD: Final = {
    "enabled": Field(boolean),
    "writable": Field(boolean),
    "user": Field(string, ("username",)),
    "password": Field(secret, ("pass",)),
}
_REMOTE: Final = {
    "url": Field(_urls, ("urls",)),
    "user": Field(string, ("username",)),
    "password": Field(secret, ("pass",)),
    "token": Field(secret),
    "nkey": Field(string, ("nkey_seed",)),
    "credentials": Field(string, ("creds",)),
    "tls": Field(read_remote_tls),
    "inbox_prefix": Field(string),
    "accounts": Field(strings),
    "take": Field(_take),
}
_FIELDS: Final = {
    "durability": Field(one_of({level.value: level for level in Durability})),
    "commit_delay": Field(_commit_delay),
    "min_last_seq_wait": Field(duration_text),
    "held_reads_max": Field(integer_in(0, INT32_MAX)),
    "atomic": Field(_atomic),
    "fast": Field(_fast),
    "memory": Field(_memory),
    "limits": Field(_limits),
    "monitor_token": Field(secret),
    "monitor_hosts": Field(strings),
    "dashboard": Field(_dashboard),
    "remotes": Field(_remotes),
    "replica": Field(read_replica),
}
