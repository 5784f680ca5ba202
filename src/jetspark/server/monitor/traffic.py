"""Traffic, summed over accounts on demand."""

from collections.abc import Iterable
from typing import Protocol

import msgspec


class TrafficView(Protocol):
    """Messages and bytes, from the server's view: ``in`` is what clients published.

    Bytes count as in nats-server: headers and payload, without subject and line ends.
    ``server.routing.receiver.Traffic`` implements it.
    """

    @property
    def in_msgs(self) -> int:
        """Messages published."""
        ...

    @property
    def in_bytes(self) -> int:
        """Bytes in them."""
        ...

    @property
    def out_msgs(self) -> int:
        """Messages delivered."""
        ...

    @property
    def out_bytes(self) -> int:
        """Bytes in them."""
        ...


class Traffic(msgspec.Struct, kw_only=True):
    """Messages and bytes, from the server's view."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def add(self, other: TrafficView) -> None:
        """Add the counts of another one."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


def total_traffic(parts: Iterable[TrafficView]) -> Traffic:
    """Sum the traffic of the accounts of a server."""
    whole = Traffic()
    for part in parts:
        whole.add(part)
    return whole
