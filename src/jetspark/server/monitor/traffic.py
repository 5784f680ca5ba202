"""Traffic added up over accounts, when somebody asks."""

from collections.abc import Iterable

import msgspec

from jetspark.server.monitor.account_view import AccountView, TrafficView


class Traffic(msgspec.Struct, kw_only=True):
    """Messages and bytes, seen from the server."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def add(self, other: TrafficView) -> None:
        """Add what another one counted."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


def server_traffic(accounts: Iterable[AccountView]) -> Traffic:
    """Return what went through the server: through its accounts."""
    whole = Traffic()
    for account in accounts:
        whole.add(account.traffic)
    return whole
