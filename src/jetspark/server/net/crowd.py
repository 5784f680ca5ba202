"""Connections by address: when there are too many, the busiest address makes room.

One address can then fill a limit only for itself: a client at another address still gets in, and
stays.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


class Crowd(Generic[Member]):
    """Members with their addresses, each address in the order in which its members were added."""

    def __init__(self) -> None:
        self._addresses: dict[Member, str] = {}
        self._members: dict[str, dict[Member, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, member: object) -> bool:
        return member in self._addresses

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def add(self, member: Member, address: str) -> None:
        """Add a member; one that was added before becomes the newest of its address."""
        self.discard(member)
        self._addresses[member] = address
        self._members.setdefault(address, {})[member] = None

    def discard(self, member: Member) -> None:
        """Remove a member, if it is one."""
        address = self._addresses.pop(member, None)
        if address is None:
            return
        members = self._members[address]
        del members[member]
        if not members:
            del self._members[address]

    def members(self) -> list[Member]:
        """Return all of them."""
        return list(self._addresses)

    def count(self, address: str) -> int:
        """Return how many an address has."""
        return len(self._members.get(address, ()))

    def share(self, limit: int) -> int:
        """Return how many each address may have if all have the same part of a limit."""
        return limit // max(1, len(self._members))

    def busiest(self) -> str:
        """Return the address with the most members; there must be one."""
        return max(self._members, key=lambda address: len(self._members[address]))

    def oldest(self, address: str) -> Member | None:
        """Return the member of an address that was added first."""
        return next(iter(self._members.get(address, ())), None)
