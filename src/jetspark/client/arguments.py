"""Argument checks: the error names the argument, and nothing is sent."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

T = TypeVar("T")

INT64_MAX: Final = 2**63 - 1  # the largest integer that servers can represent


def whole(value: object, name: str, *, least: int = 0, most: int = INT64_MAX) -> int:
    """Check an integer of at least ``least`` and at most ``most``."""
    if type(value) is int and least <= value <= most:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r}: expected a int, not {_kind(value)}")
    if value < least:
        raise ValueError(f"{name}={value}: expected at least {least}")
    if value > most:
        raise ValueError(f"{name}={value}: expected at most {most}")
    return value


def text(value: object, name: str) -> str:
    """Check a string that can be encoded as UTF-8; it may be empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected a str, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name}={value!r}: character {error.start} is a lone surrogate, not valid UTF-8"
        ) from None
    return value


def texts(value: object, name: str) -> list[str]:
    """Check a list of strings; a single string is refused: its characters would be the items."""
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected a list of str, such as [{value!r}]")
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name}={value!r}: expected a list of str, not {_kind(value)}")
    return [text(one, f"{name}[{n}]") for n, one in enumerate(value)]


def function(value: T, name: str, takes: str) -> T:
    """Check something that can be called; ``takes`` describes its argument."""
    if not callable(value):
        raise TypeError(f"{name} must be a function that takes {takes}, not {_kind(value)}")
    return value


def instance(value: object, kind: type[T], name: str) -> T:
    """Check an instance of a class of ours."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r}: expected a jetspark.{kind.__name__}")
    return value


def closest(name: str, known: Iterable[str]) -> str:
    """A hint for the error about an unknown name: the closest known one."""
    import difflib

    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
