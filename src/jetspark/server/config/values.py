"""Readers for single values: numbers, texts, durations, sizes, addresses, lists."""

import re
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from jetspark.server.config.blocks.block import Reader, Setting
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.language.tree import Node
from jetspark.server.config.secret import Secret
from jetspark.units import (
    ByteCount,
    Nanoseconds,
    parse_duration,
    parse_int64,
    parse_storage_size,
    seconds,
)

PORT_MAX: Final = 65_535
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_SCHEME: Final = re.compile(r"[a-z]+://", re.ASCII)
_PORT: Final = re.compile(r"[+-]?\d+", re.ASCII)


class Address(msgspec.Struct, frozen=True):
    """``host:port``; the host may be empty."""

    host: str
    port: int


def boolean(setting: Setting) -> bool:
    """Read true or false."""
    if not isinstance(setting.node.value, bool):
        raise setting.wrong("true or false")
    return setting.node.value


def string(setting: Setting) -> str:
    """Read a string."""
    value = setting.node.value if isinstance(setting.node.value, str) else setting.node.text
    if not value and not isinstance(setting.node.value, str):
        raise setting.wrong("a string (put it in quotes)")
    return value


def secret(setting: Setting) -> Secret:
    """Read a string that no message may repeat."""
    if not isinstance(setting.node.value, str) and not setting.node.text:
        raise setting.refused("expected a string; put the value in quotes")
    return Secret(string(setting))


def integer(setting: Setting) -> int:
    """Read an integer."""
    if isinstance(setting.node.value, bool) or not isinstance(setting.node.value, int):
        raise setting.wrong("an integer")
    return setting.node.value


def integer_in(low: int, high: int, meaning: str = "") -> Reader:
    """Return a reader of integers from ``low`` to ``high``."""

    def read(setting: Setting) -> int:
        number = integer(setting)
        if not low <= number <= high:
            also = f" ({meaning})" if meaning else ""
            raise setting.refused(f"{number} is not between {low} and {high}{also}")
        return number

    return read


def limit(setting: Setting) -> int:
    """Read a number where 0 and less mean no limit; they become 0."""
    return max(integer(setting), 0)


def or_default(reader: Reader) -> Reader:
    """Return a reader for which 0 or an empty string means the default, as in nats-server."""

    def read(setting: Setting) -> Any:
        value = reader(setting)
        return value if value not in {0, ""} else msgspec.UNSET

    return read


def port(setting: Setting) -> int:
    """Read a port; -1 means any free one."""
    number: int = integer_in(-1, PORT_MAX, "-1 takes any free port")(setting)
    return number


def listen(setting: Setting) -> Address:
    """Read a port, or ``host:port``."""
    value = setting.node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return Address("", port(setting))
    if not isinstance(value, str):
        raise setting.wrong("a port or host:port")
    return parse_address(setting, value)


def parse_address(setting: Setting, text: str) -> Address:
    """Split ``host:port`` or ``[::1]:port``."""
    host, colon, number = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or not colon:
        raise setting.refused(
            f'could not parse address string "{text}"; expected host:port or [::1]:port'
        )
    value = parse_int64(number) if _PORT.fullmatch(number) else None
    if value is None or not -1 <= value <= PORT_MAX:
        raise setting.refused(f'could not parse port "{number}"; expected -1 to {PORT_MAX}')
    return Address(host, value)


def duration_text(setting: Setting) -> Nanoseconds:
    """Read a duration that must have a unit: ``"2m"``, ``30s``, ``"1.5h"``."""
    value = setting.node.text or setting.node.value
    if not isinstance(value, str):
        raise setting.wrong('a duration with a unit, in quotes, like "30s" or "2m"')
    try:
        duration = parse_duration(value)
    except ValueError as error:
        raise setting.refused(str(error)) from None
    if duration < 0:
        raise setting.refused(f"expected a duration that is not negative, got {value}")
    return duration


def duration(setting: Setting) -> Nanoseconds:
    """Read a duration; a bare number is seconds, which nats-server accepts with a warning."""
    value = setting.node.value
    if isinstance(value, bool) or not isinstance(value, int):
        return duration_text(setting)
    if value < 0:
        raise setting.refused(f"expected a duration that is not negative, got {value}")
    setting.report.warn(
        setting.node.place,
        f"'{setting.name}' should be a duration with a unit, in quotes; {value} was taken as "
        f'seconds: write "{value}s"',
    )
    return _within(setting, value)


def duration_or_seconds(setting: Setting) -> Nanoseconds:
    """Read a duration, or a number of seconds, with or without a fraction."""
    value = setting.node.value
    if isinstance(value, str):
        return duration_text(setting)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise setting.wrong("a number of seconds or a duration")
    if value < 0:
        raise setting.refused(f"expected a duration that is not negative, got {value}")
    return _within(setting, value)


def _within(setting: Setting, value: float) -> Nanoseconds:
    """Return seconds as nanoseconds, if they fit 64 bits."""
    if value > INT64_MAX // 1_000_000_000:
        raise setting.refused(f"{value} seconds are longer than 292 years (64 bits)")
    return seconds(value)


def duration_or_whole_seconds(setting: Setting) -> Nanoseconds:
    """Read a duration, or an integer number of seconds."""
    if isinstance(setting.node.value, float):
        raise setting.wrong("a whole number of seconds or a duration")
    return duration_or_seconds(setting)


def size(setting: Setting) -> ByteCount:
    """Read a number of bytes: ``1048576``, ``64MB``, without quotes."""
    number = integer(setting)
    if number < 0:
        raise setting.refused(f"expected a size that is not negative, got {number}")
    return ByteCount(number)


def storage_size(setting: Setting) -> ByteCount:
    """Read a size of the ``jetstream`` block, where quoted ones are allowed: ``"1G"``."""
    value = setting.node.value
    if value == "":
        return ByteCount(0)
    if isinstance(value, str):
        try:
            return parse_storage_size(value)
        except ValueError as error:
            raise setting.refused(str(error)) from None
    return ByteCount(integer(setting))


def strings(setting: Setting) -> tuple[str, ...]:
    """Read a string or a list of strings."""
    if isinstance(setting.node.value, str):
        return (setting.node.value,)
    return tuple(string(setting.element(node)) for node in elements(setting))


def shown_url(text: str) -> str:
    """Return a URL for logs and errors: without user, password or token."""
    before, at, host = text.rpartition("@")
    if not at:
        return text
    scheme = _SCHEME.match(before)
    return f"{scheme[0] if scheme is not None else ''}***@{host}"


def split_url(text: str) -> SplitResult | None:
    """Return the parts of a URL; None if it is invalid, such as an unclosed bracket."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # parsed on access
    except ValueError:
        return None
    return parts


def elements(setting: Setting) -> list[Node]:
    """Return the elements of a list."""
    if not isinstance(setting.node.value, list):
        raise setting.wrong("a list [ ... ]")
    return setting.node.value


def each(setting: Setting, read: Reader) -> tuple[Any, ...]:
    """Read every element of a list, so that one run reports all problems in it."""
    made: list[Any] = []
    nodes = elements(setting)
    for node in nodes:
        try:
            made.append(read(setting.element(node)))
        except ConfigRefused as error:
            setting.report.refused(error)
    if len(made) < len(nodes):
        raise ConfigRefused(())  # they are in the report
    return tuple(made)


def entries(setting: Setting) -> dict[str, Node]:
    """Return the entries of a block whose keys are names that the user chose."""
    if not isinstance(setting.node.value, dict):
        raise setting.wrong("a block { ... }")
    return setting.node.value


def texts(setting: Setting) -> dict[str, str]:
    """Read a block of names and strings."""
    return {
        name: string(setting._replace(name=name, node=node))
        for name, node in entries(setting).items()
    }


def one_of(words: dict[str, Any]) -> Reader:
    """Return a reader of one word of a list, ignoring its case."""

    def read(setting: Setting) -> Any:
        word = string(setting).lower()
        if word not in words:
            raise setting.refused(f"expected one of {', '.join(words)}, got '{word}'")
        return words[word]

    return read
