"""Query arguments, parsed and refused exactly as nats-server does.

nats-server parses them with Go's ``strconv`` and shows its errors, so the texts are Go's.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from jetspark.server.quoting import quote

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DIGITS: Final = frozenset("0123456789")
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1


class BadArgument(Exception):
    """An invalid argument; the text is the body of a 400."""


class Arguments:
    """The arguments of one request; the first of duplicates counts, as in Go."""

    def __init__(self, query: str) -> None:
        pairs: Iterable[tuple[str, str]] = parse_qsl(query, keep_blank_values=True)
        self._values: dict[str, str] = {}
        for name, value in pairs:
            self._values.setdefault(name, value)

    def text(self, name: str) -> str:
        """Return an argument unchanged; empty if it is missing."""
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean; False if it is missing. Raises BadArgument."""
        value = self.text(name)
        if not value or value in _FALSE:
            return False
        if value in _TRUE:
            return True
        raise BadArgument(
            f"Error decoding boolean for '{name}': "
            f"strconv.ParseBool: parsing {quote(value)}: invalid syntax"
        )

    def integer(self, name: str) -> int:
        """Return an integer with or without sign; 0 if it is missing. Raises BadArgument."""
        value = self.text(name)
        if not value:
            return 0
        digits = value[1:] if value[0] in "+-" else value
        what = f"Error decoding int for '{name}': strconv.Atoi: parsing {quote(value)}: "
        return _number(value, digits, -_INT64_MAX - 1, _INT64_MAX, what)

    def unsigned(self, name: str) -> int:
        """Return an integer without sign; 0 if it is missing. Raises BadArgument."""
        value = self.text(name)
        if not value:
            return 0
        what = f"Error decoding uint64 for '{name}': strconv.ParseUint: parsing {quote(value)}: "
        return _number(value, value, 0, _UINT64_MAX, what)


def _number(value: str, digits: str, low: int, high: int, what: str) -> int:
    if not digits or not _DIGITS.issuperset(digits):
        raise BadArgument(what + "invalid syntax")
    # Longer ones are always out of range; Python refuses to convert very long ones.
    significant = digits.lstrip("0")
    if len(significant) > 20:
        raise BadArgument(what + "value out of range")
    number = int(significant or "0")
    if value[0] == "-":
        number = -number
    if not low <= number <= high:
        raise BadArgument(what + "value out of range")
    return number
