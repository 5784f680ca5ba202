"""What a client is doing about its connection, in one word."""

from enum import StrEnum


class ConnectionStatus(StrEnum):
    """``Client.status``. Its members compare with their texts: ``nc.status == "connected"``."""

    CONNECTING = "connecting"  # no server was reached yet (retry_on_failed_connect)
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"  # the connection is lost and another one is looked for
    DRAINING = "draining"  # drain() was called: the subscriptions end, then it closes
    CLOSED = "closed"  # by close() or drain(), or lost for good
