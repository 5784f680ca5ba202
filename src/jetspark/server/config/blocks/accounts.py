"""``accounts``: isolated groups of users, streams and subjects."""

from typing import Any, Final

import msgspec

from jetspark.server.config.blocks.block import ANY, Field, Setting, read_block
from jetspark.server.config.blocks.mappings import SubjectMapping, read_mappings
from jetspark.server.config.blocks.permissions import read_permissions
from jetspark.server.config.blocks.sharing import Export, Import, read_exports, read_imports
from jetspark.server.config.blocks.users import User, read_users, with_default
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.nkey import ACCOUNT, public_key_problem
from jetspark.server.config.values import INT32_MAX, boolean, entries, integer, integer_in, string
from jetspark.units import ByteCount

GLOBAL_ACCOUNT: Final = "$G"
NO_LIMIT: Final = -1


class AccountJetStream(msgspec.Struct, frozen=True, kw_only=True):
    """The JetStream limits of an account; -1: no limit of its own."""

    max_memory: ByteCount = ByteCount(NO_LIMIT)
    max_store: ByteCount = ByteCount(NO_LIMIT)
    max_streams: int = NO_LIMIT
    max_consumers: int = NO_LIMIT
    max_ack_pending: int = NO_LIMIT
    memory_max_stream_bytes: ByteCount = ByteCount(NO_LIMIT)
    store_max_stream_bytes: ByteCount = ByteCount(NO_LIMIT)
    max_bytes_required: bool = False


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for the connections of an account; -1: those of the server."""

    max_connections: int = NO_LIMIT
    max_subscriptions: int = NO_LIMIT
    max_payload: int = NO_LIMIT


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One account. ``jetstream`` None: JetStream is disabled."""

    name: str
    nkey: str = ""
    users: tuple[User, ...] = ()
    jetstream: AccountJetStream | None = None
    limits: AccountLimits = AccountLimits()
    mappings: tuple[SubjectMapping, ...] = ()
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()


def read_accounts(setting: Setting) -> tuple[Account, ...]:
    """Read a block of accounts by name, or a plain list of names."""
    if isinstance(setting.node.value, list):
        return _names(setting)
    accounts: list[Account] = []
    for name, node in entries(setting).items():
        if node.used:
            continue  # a variable next to the accounts
        inner = setting._replace(name=name, path=f"{setting.path}.{ANY}", node=node)
        try:
            _check_name(inner, name)
            accounts.append(_account(inner))
        except ConfigRefused as error:
            setting.report.refused(error)
    return tuple(accounts)


def _names(setting: Setting) -> tuple[Account, ...]:
    assert isinstance(setting.node.value, list), "checked by the caller"
    accounts: dict[str, Account] = {}
    for node in setting.node.value:
        name = string(setting.element(node))
        _check_name(setting.element(node), name)
        if name in accounts:
            raise setting.element(node).refused(f"Duplicate Account Entry: {name}")
        accounts[name] = Account(name=name)
    return tuple(accounts.values())


def _check_name(setting: Setting, name: str) -> None:
    if name == GLOBAL_ACCOUNT:
        raise setting.refused(f'"{name}" is a Reserved Account')


def _account(setting: Setting) -> Account:
    if not isinstance(setting.node.value, dict):
        raise setting.wrong("a block { users, jetstream, ... } for each account")
    values: dict[str, Any] = read_block(setting, _ACCOUNT)
    permissions = values.pop("default_permissions", None)
    if permissions is not None and "users" in values:
        values["users"] = with_default(values["users"], permissions)
    return Account(name=setting.name, **values)


def _jetstream(setting: Setting) -> AccountJetStream | None:
    value = setting.node.value
    if isinstance(value, bool):
        return AccountJetStream() if value else None
    if isinstance(value, str):
        if value.lower() in {"enabled", "enable"}:
            return AccountJetStream()
        if value.lower() in {"disabled", "disable"}:
            return None
        raise setting.refused(f"Expected 'enabled' or 'disabled', got '{value}'")
    if not isinstance(value, dict):
        raise setting.wrong("true, false, enabled, disabled or a block of limits")
    return AccountJetStream(**read_block(setting, _JETSTREAM))


def _limits(setting: Setting) -> AccountLimits:
    return AccountLimits(**read_block(setting, _LIMITS))


def _nkey(setting: Setting) -> str:
    key = string(setting)
    problem = public_key_problem(key, ACCOUNT)
    if problem:
        raise setting.refused(f"Not a valid public nkey for an account: {problem}")
    return key


_COUNT: Final = integer_in(NO_LIMIT, INT32_MAX, "-1: no limit")
_LIMITS: Final = {
    "max_connections": Field(_COUNT, ("max_conn",)),
    "max_subscriptions": Field(_COUNT, ("max_subs",)),
    "max_payload": Field(_COUNT, ("max_pay",)),
}
_JETSTREAM: Final = {
    "max_memory": Field(integer, ("max_mem", "mem", "memory")),
    "max_store": Field(integer, ("max_file", "max_disk", "store", "disk")),
    "max_streams": Field(integer, ("streams",)),
    "max_consumers": Field(integer, ("consumers",)),
    "max_bytes_required": Field(boolean, ("max_stream_bytes", "max_bytes")),
    "memory_max_stream_bytes": Field(integer, ("mem_max_stream_bytes",)),
    "store_max_stream_bytes": Field(integer, ("disk_max_stream_bytes",)),
    "max_ack_pending": Field(integer),
}
_ACCOUNT: Final = {
    "nkey": Field(_nkey),
    "users": Field(read_users),
    "default_permissions": Field(read_permissions),
    "jetstream": Field(_jetstream),
    "limits": Field(_limits),
    "mappings": Field(read_mappings, ("maps",)),
    "exports": Field(read_exports),
    "imports": Field(read_imports),
}
