"""Counters of a client."""

import msgspec


class ClientStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the client was created; ``write_pending_bytes`` are waiting to be written."""

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    subscriptions: int
    requests_pending: int
    write_pending_bytes: int
    reconnects: int
