"""Limits of the connections of one address, one user and one account.

The first two are ours (``jetspark { limits }``), that of an account is nats-server's
(``accounts { A { limits } }``). The server's ``max_connections`` comes before all of them.
"""

from collections import Counter
from typing import Final, NamedTuple, Protocol

from jetspark.server.auth.users import Directory, User
from jetspark.server.close_reason import CloseReason
from jetspark.server.config.blocks.jetspark import Limits

# Clients know these texts of nats-server, which has none for an address or a user.
TOO_MANY: Final = b"maximum connections exceeded"
TOO_MANY_OF_ACCOUNT: Final = b"maximum account active connections exceeded"


class Surplus(NamedTuple):
    """A connection exceeds a limit. ``detail`` is for the log, ``text`` for the client."""

    detail: str
    text: bytes = TOO_MANY
    reason: CloseReason = CloseReason.MAXIMUM_CONNECTIONS


class Connected(Protocol):
    """A connection, as its limits need it."""

    @property
    def client_id(self) -> int:
        """Later connections have higher ones."""
        ...

    @property
    def network(self) -> str:
        """Its address."""
        ...

    @property
    def user(self) -> User | None:
        """Its user, once authenticated."""
        ...


class ConnectionLimits:
    """Counts the connections of each address and user; those of an account are counted there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._addresses: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        # How many connections exceeded one of these limits.
        self.refused: int = 0

    def follow(self, limits: Limits) -> None:
        """Apply new limits to connections from now on; `surplus` finds those before."""
        self._limits = limits

    def join(self, address: str) -> Surplus | None:
        """Count a connection; `leave` must follow even if it exceeds the limit."""
        self._addresses[address] += 1
        return self._judge_address(address, self._addresses[address])

    def leave(self, address: str) -> None:
        """Remove a connection that was counted."""
        _subtract(self._addresses, address)

    def enter(self, user: User, of_account: int) -> Surplus | None:
        """Count a connection that authenticated; ``of_account`` are those of its account with it.

        `exit` must follow even if it exceeds a limit.
        """
        self._users[user.name] += 1
        return self._judge_user(user, self._users[user.name], of_account)

    def exit(self, user: User) -> None:
        """Remove a connection that authenticated, or is about to do so again."""
        _subtract(self._users, user.name)

    def recount(self, directory: Directory) -> "Recount":
        """Return a count of the connections that stay after a reload."""
        return Recount(self, directory)

    def judge(self, connected: Connected, counted: "Recount") -> Surplus | None:
        """Return why a connection may not stay besides those that were counted."""
        user, network = connected.user, connected.network
        found = self._judge_address(network, counted.addresses[network] + 1)
        if found is not None or user is None:
            return found
        account = user.account.name
        limit = counted.directory.limits_of(account).max_connections
        found = self._judge_account(account, limit, counted.accounts[account] + 1)
        return found or self._judge_name(user.name, counted.users[user.name] + 1)

    def _judge_user(self, user: User, of_user: int, of_account: int) -> Surplus | None:
        account = user.account
        return self._judge_account(
            account.name, account.limits.max_connections, of_account
        ) or self._judge_name(user.name, of_user)

    def _judge_address(self, address: str, count: int) -> Surplus | None:
        limit = self._limits.connections_per_address
        if not 0 < limit < count:
            return None
        self.refused += 1
        return Surplus(f"more than connections_per_address {limit} from {address}")

    def _judge_name(self, name: str, count: int) -> Surplus | None:
        limit = self._limits.connections_per_user
        if not name or not 0 < limit < count:
            return None  # clients without a name are no user
        self.refused += 1
        return Surplus(f"more than connections_per_user {limit} of user {name!r}")

    def _judge_account(self, name: str, limit: int, count: int) -> Surplus | None:
        if not 0 <= limit < count:
            return None
        self.refused += 1
        return Surplus(
            f"more than max_connections {limit} of account {name!r}",
            TOO_MANY_OF_ACCOUNT,
            CloseReason.MAXIMUM_ACCOUNT_CONNECTIONS,
        )


class Recount:
    """Counts all connections again, the oldest first: those that exceed a limit are the newest."""

    def __init__(self, limits: ConnectionLimits, directory: Directory) -> None:
        self._limits = limits
        self.directory: Directory = directory
        self.addresses: Counter[str] = Counter()
        self.users: Counter[str] = Counter()
        self.accounts: Counter[str] = Counter()

    def judge(self, connected: Connected) -> Surplus | None:
        """Count a connection that may stay; return why it may not."""
        found = self._limits.judge(connected, self)
        if found is not None:
            return found
        self.addresses[connected.network] += 1
        user = connected.user
        if user is not None:
            self.users[user.name] += 1
            self.accounts[user.account.name] += 1
        return None


def _subtract(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
