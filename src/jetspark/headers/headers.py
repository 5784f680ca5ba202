"""``Headers``: the headers of one message in the public API.

This module is not compiled: users pickle, copy and subclass these objects
(contracts.md, Compiled and interpreted).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TypeVar, overload

_D = TypeVar("_D")


class Headers:
    """Ordered headers, where a name may have several values. Names are case-sensitive.

    ``headers["A"]`` and ``get("A")`` return the *last* value, because a server adds its own
    headers after the user's; ``get_all`` returns all of them. ``len`` and iteration include a name
    once per value.
    """

    __slots__ = ("_pairs",)

    def __init__(
        self,
        headers: "Headers | Mapping[str, str | Iterable[str]] | Iterable[tuple[str, str]]" = (),
    ) -> None:
        self._pairs: list[tuple[str, str]]
        if isinstance(headers, Headers):
            self._pairs = list(headers.items())
        elif isinstance(headers, Mapping):
            self._pairs = []
            for name, value in headers.items():
                if isinstance(value, str):
                    self._pairs.append((name, value))
                else:
                    self._pairs += [(name, one) for one in value]
        else:
            self._pairs = [(name, value) for name, value in headers]

    @overload
    def get(self, name: str) -> str | None: ...

    @overload
    def get(self, name: str, default: _D) -> str | _D: ...

    def get(self, name: str, default: object = None) -> object:
        """Return the last value of ``name``, or ``default``."""
        for key, value in reversed(self._pairs):
            if key == name:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        """Return every value of ``name`` in order; an empty list if there is none."""
        return [value for key, value in self._pairs if key == name]

    def items(self) -> list[tuple[str, str]]:
        """Return the pairs of name and value in order; a name appears once per value."""
        return list(self._pairs)

    def keys(self) -> list[str]:
        """Return the names in order; a name appears once per value."""
        return [name for name, _ in self._pairs]

    def add(self, name: str, value: str) -> None:
        """Append a value; earlier values of ``name`` are kept."""
        self._pairs.append((name, value))

    def __setitem__(self, name: str, value: str) -> None:
        """Set ``name`` to this one value; an existing name keeps its position."""
        for index, (key, _) in enumerate(self._pairs):
            if key == name:
                rest = [pair for pair in self._pairs[index + 1 :] if pair[0] != name]
                self._pairs[index:] = [(name, value), *rest]
                return
        self._pairs.append((name, value))

    def __delitem__(self, name: str) -> None:
        """Remove every value of ``name``; ``KeyError`` if there is none."""
        kept = [pair for pair in self._pairs if pair[0] != name]
        if len(kept) == len(self._pairs):
            raise KeyError(name)
        self._pairs = kept

    def __getitem__(self, name: str) -> str:
        """Return the last value of ``name``; ``KeyError`` if there is none."""
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._pairs == other._pairs

    # Mutable, so not hashable.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"
