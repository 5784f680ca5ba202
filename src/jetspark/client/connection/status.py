"""The connection state of a client."""

from enum import StrEnum


class ConnectionStatus(StrEnum):
    """``Client.status``. Members compare equal to their values: ``nc.status == "connected"``."""

    CONNECTING = "connecting"  # no server was reached yet (retry_on_failed_connect)
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"  # the connection was lost and is being replaced
    DRAINING = "draining"  # drain() was called: subscriptions end, then the client closes
    CLOSED = "closed"  # by close() or drain(), or the connection was lost permanently
