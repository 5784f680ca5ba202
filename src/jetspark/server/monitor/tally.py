"""The few numbers that are counted for monitoring alone: per event, never per message.

The server keeps one `Tally` and hands it to its view. It costs a few integers and the list of
closed connections, so it is kept whether a monitoring port is open or not: the port can be opened
later, and system requests ask for the same.
"""

from jetspark.server.monitor.closed import CLOSED_MAX, ClosedConnections


class ApiTally:
    """``$JS.API`` requests of one account, counted where they are dispatched."""

    __slots__ = ("errors", "total")

    def __init__(self) -> None:
        self.total = 0
        self.errors = 0

    def add(self, *, failed: bool) -> None:
        """Count a request; ``failed``: it was answered with an error."""
        self.total += 1
        self.errors += failed


class Tally:
    """What the server counts for monitoring."""

    def __init__(self, closed_max: int = CLOSED_MAX) -> None:
        self.stale_connections = 0
        self.stalled_clients = 0
        self.closed = ClosedConnections(closed_max)
        self.api: dict[str, ApiTally] = {}

    def api_of(self, account: str) -> ApiTally:
        """Return the requests of an account."""
        return self.api.setdefault(account, ApiTally())
