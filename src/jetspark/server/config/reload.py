"""SIGHUP: the differences between two settings, and which a running server can apply.

Settings that may change are those of nats-server's ``reload``; a refused change leaves the whole
server unchanged. Our own settings follow the same idea: numbers that are looked up when needed may
change, what was decided at the start may not.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from jetspark.server.config.blocks.accounts import Account
from jetspark.server.config.blocks.jetstream import JetStream
from jetspark.server.config.checks import all_users
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import ANY_FREE_PORT, Settings

_RESTART: Final = "it is read at the start only; restart the server to change it"
_REDACTED: Final = "[REDACTED]"


class Change(msgspec.Struct, frozen=True):
    """A setting that differs. ``old`` and ``new`` are for people: without secrets."""

    name: str
    old: str
    new: str


class Refusal(msgspec.Struct, frozen=True):
    """A setting that cannot change while the server runs, and why."""

    name: str
    reason: str


class Reload(msgspec.Struct, frozen=True):
    """The effect of a reload. It may be applied only if nothing was refused."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]


# Settings that nats-server applies while running.
RELOADABLE: Final = frozenset({
    "authorization",
    "client_advertise",
    "debug",
    "logfile",
    "logtime",
    "logtime_utc",
    "mappings",
    "max_connections",
    "max_control_line",
    "max_payload",
    "max_traced_msg_len",
    "pid_file",
    "ping_interval",
    "ping_max",
    "ports_file_dir",
    "server_metadata",
    "server_tags",
    "trace",
    "trace_headers",
    "trace_verbose",
    "write_deadline",
})  # fmt: skip
_OURS_RELOADABLE: Final = frozenset({
    "commit_delay",
    "min_last_seq_wait",
    "held_reads_max",
    "fast",
    "limits",
})  # fmt: skip
_TLS_RELOADABLE: Final = frozenset({
    "cert_file",
    "key_file",
    "ca_file",
    "certs",
    "verify",
    "insecure",
    "handshake_first",
    "fallback_delay",
    "timeout",
    "pinned_certs",
    "cipher_suites",
    "allow_insecure_cipher_suites",
    "curve_preferences",
    "min_version",
})  # fmt: skip
# These say where the settings come from, not what they are.
_ORIGIN: Final = frozenset({"config_file", "digest", "warnings", "remarks"})


def plan_reload(old: Settings, new: Settings) -> Reload:
    """Compare the settings of a running server with new ones."""
    changes: list[Change] = []
    refusals: list[Refusal] = []
    for name, before, after in _differences(old, new):
        if name in _ORIGIN:
            continue
        if name == "port" and after == ANY_FREE_PORT:
            continue  # any free port: the current one is kept
        changes.append(Change(name, _shown(before), _shown(after)))
        refusals.extend(_refusals(name, before, after, new))
    return Reload(tuple(changes), tuple(refusals))


def _differences(old: msgspec.Struct, new: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    for name in old.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield name, before, after


def _refusals(name: str, before: Any, after: Any, new: Settings) -> Iterator[Refusal]:
    if name in RELOADABLE:
        return
    rule = _RULES.get(name)
    if rule is None:
        yield Refusal(name, _RESTART)
    else:
        yield from rule(before, after, new)


def _tls(before: Any, after: Any, _new: Settings) -> Iterator[Refusal]:
    """Check TLS: certificates may be replaced, and TLS enabled or disabled."""
    if before is None or after is None:
        return
    for name, _, _ in _differences(before, after):
        if name not in _TLS_RELOADABLE:
            yield Refusal(f"tls.{name}", _RESTART)


def _websocket(before: Any, after: Any, _new: Settings) -> Iterator[Refusal]:
    if before is None or after is None:
        yield Refusal("websocket", _RESTART)
        return
    for name, _, _ in _differences(before, after):
        if name != "tls":
            yield Refusal(f"websocket.{name}", _RESTART)


def _jetstream(before: JetStream, after: JetStream, _new: Settings) -> Iterator[Refusal]:
    """Check JetStream: while it is enabled, its limits may grow."""
    if before.enabled != after.enabled:
        yield Refusal("jetstream", "it can only be enabled or disabled at the start; restart")
    if not before.enabled or not after.enabled:
        return
    for name, old, new in _differences(before, after):
        if name not in {"max_mem", "max_file"}:
            yield Refusal(f"jetstream.{name}", _RESTART)
        elif old < 0 or new < 0:
            yield Refusal(
                f"jetstream.{name}",
                "a limit cannot change between the machine's resources and a number; restart",
            )
        elif new < old:
            yield Refusal(
                f"jetstream.{name}", "a limit can only grow while streams are open; restart"
            )


def _jetspark(before: Any, after: Any, _new: Settings) -> Iterator[Refusal]:
    for name, old, new in _differences(before, after):
        if name == "memory":
            for part, _, _ in _differences(old, new):
                if part != "pending":
                    yield Refusal(f"jetspark.memory.{part}", _RESTART)
        elif name not in _OURS_RELOADABLE:
            yield Refusal(f"jetspark.{name}", _RESTART)


def _accounts(
    before: tuple[Account, ...], after: tuple[Account, ...], new: Settings
) -> Iterator[Refusal]:
    """Check accounts: they may be added and removed; others keep JetStream enabled or disabled."""
    had = {account.name: account.jetstream is not None for account in before}
    for account in after:
        has = account.jetstream is not None
        if new.jetstream.enabled and had.get(account.name, has) != has:
            yield Refusal(
                f"accounts.{account.name}.jetstream",
                "JetStream of an account can only be enabled or disabled at the start; restart",
            )


def _no_auth_user(before: Any, after: Any, new: Settings) -> Iterator[Refusal]:
    """Check that it is only removed together with its user: its clients would lose it."""
    names = {user.name for user in all_users(new)}
    if after or before in names:
        yield Refusal("no_auth_user", "it can only be removed, together with the user it names")


def _shown(value: Any) -> str:
    """Return a value for people. Users, tokens and similar are only named."""
    if isinstance(value, Secret):
        return _REDACTED if value else "none"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, msgspec.Struct | tuple | dict):
        return "(a block)"
    return str(value)


_RULES: Final[dict[str, Callable[[Any, Any, Settings], Iterator[Refusal]]]] = {
    "accounts": _accounts,
    "tls": _tls,
    "websocket": _websocket,
    "jetstream": _jetstream,
    "jetspark": _jetspark,
    "no_auth_user": _no_auth_user,
}
