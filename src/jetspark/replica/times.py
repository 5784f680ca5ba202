"""Timeouts of the link to a remote; tests use shorter ones."""

import msgspec


class LinkTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. ``retry_first`` doubles up to ``retry_max`` while connecting fails."""

    heartbeat: float = 2.0  # the heartbeat interval of the consumer
    alarm: float = 6.0  # without a message for this long, another consumer is created
    probe: float = 5.0  # how often an idle stream is checked
    retry_first: float = 2.0  # wire.md, Mirrors and sources
    retry_max: float = 120.0  # wire.md, Mirrors and sources
    request: float = 5.0  # for an answer
    connect: float = 5.0
    ping: float = 10.0  # two of these without an answer: the connection counts as lost
    reconnect_first: float = 0.2
    reconnect_max: float = 10.0


class ReplicaTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts of a read replica.

    ``poll`` is how often the leader's list of streams is read without a cause; ``bridge`` is for
    the connection of clients' traffic, ``copying`` for the one that copies.
    """

    poll: float = 2.0
    bridge: LinkTimes = LinkTimes(connect=2.0, ping=2.0, reconnect_first=0.1, reconnect_max=2.0)
    copying: LinkTimes = LinkTimes(ping=2.0, retry_first=0.2, retry_max=2.0, reconnect_max=2.0)


DEFAULT_TIMES = ReplicaTimes()
