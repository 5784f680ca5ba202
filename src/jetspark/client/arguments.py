"""What callers pass, checked where they pass it: the error names the argument, nothing is sent."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

T = TypeVar("T")

INT64_MAX: Final = 2**63 - 1  # what servers can count to


def whole(value: object, name: str, *, least: int = 0, most: int = INT64_MAX) -> int:
    """A whole number from ``least`` on."""
    if type(value) is int and least <= value <= most:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r}: expected a whole number, not {_kind(value)}")
    if value < least:
        raise ValueError(f"{name}={value}: expected at least {least}")
    if value > most:
        raise ValueError(f"{name}={value}: expected at most {most}")
    return value


def text(value: object, name: str) -> str:
    """Text that can be written as UTF-8; it may be empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected a text, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name}={value!r}: character {error.start} is half a character that has no bytes"
        ) from None
    return value


def texts(value: object, name: str) -> list[str]:
    """Several texts; a single one is a mistake, as its characters would be taken for them."""
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected a list of texts, such as [{value!r}]")
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name}={value!r}: expected a list of texts, not {_kind(value)}")
    return [text(one, f"{name}[{n}]") for n, one in enumerate(value)]


def function(value: T, name: str, takes: str) -> T:
    """Something that can be called; ``takes`` says with what."""
    if not callable(value):
        raise TypeError(f"{name} must be a function that takes {takes}, not {_kind(value)}")
    return value


def instance(value: object, kind: type[T], name: str) -> T:
    """An object of a class of ours."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r}: expected a jetspark.{kind.__name__}")
    return value


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which one may be meant."""
    import difflib

    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
