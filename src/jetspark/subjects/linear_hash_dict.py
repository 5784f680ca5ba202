"""A dict for very many entries that grows in small steps.

A dict that is full moves all of its entries at once: with 350,000 entries that takes 12 ms, with
1,400,000 50 ms, and a client may subscribe that often. This one consists of dicts of some thousand
entries, by hash, and divides one of them at a time (linear hashing): a part after every
``PART_SIZE`` insertions, so that a step moves at most a few thousand entries.
"""

from typing import Any, Final

from mypy_extensions import i64

PART_SIZE: Final[i64] = 2_048


class LinearHashDict:
    """Values by key, of up to ``PART_SIZE`` entries in order of insertion."""

    def __init__(self) -> None:
        self._parts: list[dict[bytes, Any]] = [{}]
        # The only part, which is all there is of most: the hottest readers look into it without
        # a call. None: the dict was divided.
        self.whole: dict[bytes, Any] | None = self._parts[0]
        self._count: i64 = 0
        # Parts up to this one have been divided in this round, by one bit more of the hash.
        self._divided: i64 = 0
        # The bits of the hash by which the others are chosen.
        self._mask: i64 = 0

    def __len__(self) -> int:
        return int(self._count)

    def get(self, key: bytes) -> Any:
        """Return the value of a key; None if it does not exist."""
        whole = self.whole
        return whole.get(key) if whole is not None else self._part(key).get(key)

    def __contains__(self, key: bytes) -> bool:
        whole = self.whole
        return key in whole if whole is not None else key in self._part(key)

    def set(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""
        whole = self.whole
        part = whole if whole is not None else self._part(key)
        before = len(part)
        part[key] = value
        if len(part) > before:
            self._count += 1
            if self._count > PART_SIZE * i64(len(self._parts)):
                self._divide()

    def pop(self, key: bytes) -> Any:
        """Remove a key; return its value, None if it does not exist."""
        whole = self.whole
        part = whole if whole is not None else self._part(key)
        value = part.pop(key, None)
        if value is not None:
            self._count -= 1
            if self._count == 0 and self.whole is None:
                self._parts = [{}]
                self.whole = self._parts[0]
                self._divided = self._mask = 0
        return value

    def values(self) -> list[Any]:
        """Return all values."""
        found: list[Any] = []
        for part in self._parts:
            found.extend(part.values())
        return found

    def some(self, count: i64) -> list[Any]:
        """Return at most ``count`` values."""
        found: list[Any] = []
        for part in self._parts:
            for value in part.values():
                if len(found) >= count:
                    return found
                found.append(value)
        return found

    def free_some(self, count: i64) -> None:
        """Remove at least ``count`` entries, or all, of a dict that is not needed any more.

        Nothing else may be done with it afterwards.
        """
        while count > 0 and len(self._parts) > 0:
            part = self._parts.pop()
            self.whole = None
            self._count -= len(part)
            count -= len(part)

    def _part(self, key: bytes) -> dict[bytes, Any]:
        number = i64(hash(key))
        place = number & self._mask
        if place < self._divided:
            place = number & (2 * self._mask + 1)
        return self._parts[place]

    def _divide(self) -> None:
        """Divide the next part: some of its entries move to a new one."""
        bit = self._mask + 1
        stays: dict[bytes, Any] = {}
        moves: dict[bytes, Any] = {}
        for key, value in self._parts[self._divided].items():
            if i64(hash(key)) & bit:
                moves[key] = value
            else:
                stays[key] = value
        self._parts[self._divided] = stays
        self._parts.append(moves)
        self.whole = None
        self._divided += 1
        if self._divided == bit:
            self._mask = 2 * self._mask + 1
            self._divided = 0
