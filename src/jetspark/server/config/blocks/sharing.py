"""``exports`` and ``imports`` of accounts: checked, and refused (``not_yet.py``)."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.values import (
    INT32_MAX,
    boolean,
    duration_text,
    each,
    integer,
    integer_in,
    one_of,
    string,
    strings,
)
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject
from jetspark.units import Nanoseconds, minutes, parse_int64

SAMPLING_MAX: Final = 100


class Shared(StrEnum):
    """What is shared: a stream of messages, or a service."""

    STREAM = "stream"
    SERVICE = "service"


class ResponseType(StrEnum):
    """How a service answers."""

    SINGLETON = "singleton"
    STREAM = "stream"
    CHUNKED = "chunked"


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Where the latency of a service is reported. ``sampling`` in percent; 0: by header."""

    subject: str
    sampling: int = SAMPLING_MAX


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """An export of an account, to the named accounts (none: to all)."""

    kind: Shared
    subject: str
    accounts: tuple[str, ...] = ()
    response_type: ResponseType = ResponseType.SINGLETON
    response_threshold: Nanoseconds = minutes(2)
    account_token_position: int = 0
    latency: Latency | None = None
    allow_trace: bool = False


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """An import from another account, under its own name or ``to`` / ``prefix``."""

    kind: Shared
    account: str
    subject: str
    to: str = ""
    prefix: str = ""
    share: bool = False
    allow_trace: bool = False


def read_exports(setting: Setting) -> tuple[Export, ...]:
    """Read the exports of an account."""
    return each(setting, _export)


def read_imports(setting: Setting) -> tuple[Import, ...]:
    """Read the imports of an account."""
    imports: tuple[Import, ...] = each(setting, _import)
    services = [(found.account, found.to) for found in imports if found.kind is Shared.SERVICE]
    for account, to in services:
        if services.count((account, to)) > 1:
            raise setting.refused(f'Duplicate service import subject "{to}" of "{account}"')
    return imports


def _export(setting: Setting) -> Export:
    values = read_whole_block(setting, _EXPORT)
    kind, subject = _kind(setting, values)
    if kind is Shared.STREAM:
        services_only = {"response_type", "response_threshold", "latency", "allow_trace"}
        for name in sorted(services_only.intersection(values)):
            raise setting.refused(f"Detected '{name}' on non-service")
    if not is_valid_subject(subject.encode()):
        raise setting.refused(f'subject "{subject}" is not a valid subject')
    position = values.get("account_token_position", 0)
    if position and subject.split(".")[position - 1 : position] != ["*"]:
        raise setting.refused(
            f"'account_token_position' {position} is no '*' of the subject \"{subject}\""
        )
    return Export(kind=kind, subject=subject, **values)


def _import(setting: Setting) -> Import:
    values = read_whole_block(setting, _IMPORT)
    kind, source = _kind(setting, values)
    if values.get("to") and values.get("prefix"):
        raise setting.refused("an import can not have a 'prefix' and a 'to' property")
    if kind is Shared.SERVICE:
        if "allow_trace" in values:
            raise setting.refused("Detected 'allow_trace' on a non-stream")
        values["to"] = values.get("to") or source["subject"]
    return Import(kind=kind, **source, **values)


def _kind(setting: Setting, values: dict[str, Any]) -> tuple[Shared, Any]:
    """Remove ``stream`` or ``service`` from ``values`` and return it."""
    found = [kind for kind in Shared if kind.value in values]
    if len(found) != 1:
        raise setting.refused("expected 'stream' or 'service', one of them")
    return found[0], values.pop(found[0].value)


def _source(setting: Setting) -> dict[str, str]:
    values = read_whole_block(setting, {"account": Field(string), "subject": Field(string)})
    if not values.get("account") or not values.get("subject"):
        raise setting.refused("Expect an account name and a subject")
    if not is_valid_subject(values["subject"].encode()):
        raise setting.refused(f'subject "{values["subject"]}" is not a valid subject')
    return values


def _latency(setting: Setting) -> Latency:
    if isinstance(setting.node.value, str):
        return Latency(subject=_literal(setting))
    values = read_whole_block(setting, {"sampling": Field(_sampling), "subject": Field(_literal)})
    if "subject" not in values:
        raise setting.refused("Latency subject required, but missing")
    return Latency(**values)


def _literal(setting: Setting) -> str:
    subject = string(setting)
    if not is_valid_literal(subject.encode()):
        raise setting.refused(f'"{subject}" is not a subject to publish to')
    return subject


def _subject(setting: Setting) -> str:
    subject = string(setting)
    if subject and not is_valid_subject(subject.encode()):
        raise setting.refused(f'"{subject}" is not a valid subject')
    return subject


def _sampling(setting: Setting) -> int:
    value = setting.node.value
    if isinstance(value, str):
        word = value.strip().lower()
        if word == "headers":
            return 0
        found = parse_int64(word.removesuffix("%"))
        number = -1 if found is None else found
    else:
        number = integer(setting)
    if not 1 <= number <= SAMPLING_MAX:
        raise setting.wrong('a percentage from 1 to 100, or "headers"')
    return number


_RESPONSE_TYPES: Final = {
    "single": ResponseType.SINGLETON,
    "singleton": ResponseType.SINGLETON,
    "stream": ResponseType.STREAM,
    "chunk": ResponseType.CHUNKED,
    "chunked": ResponseType.CHUNKED,
}
_EXPORT: Final = {
    "stream": Field(string),
    "service": Field(string),
    "accounts": Field(strings),
    "response_type": Field(one_of(_RESPONSE_TYPES), ("response",)),
    "response_threshold": Field(
        duration_text, ("threshold", "response_max_time", "response_time")
    ),
    "account_token_position": Field(integer_in(0, INT32_MAX)),
    "latency": Field(_latency),
    "allow_trace": Field(boolean),
}
_IMPORT: Final = {
    "stream": Field(_source),
    "service": Field(_source),
    "to": Field(_subject),
    "prefix": Field(string),
    "share": Field(boolean),
    "allow_trace": Field(boolean),
}
