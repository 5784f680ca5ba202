"""How long the link to a remote waits for what; tests have less patience."""

import msgspec


class LinkTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. ``retry_first`` doubles up to ``retry_max`` while nothing works."""

    heartbeat: float = 2.0  # the remote says so often that it is there
    alarm: float = 6.0  # without a word for so long, another consumer is made
    probe: float = 5.0  # a quiet stream is asked for so often
    retry_first: float = 2.0  # wire.md, Mirrors and sources
    retry_max: float = 120.0  # wire.md, Mirrors and sources
    request: float = 5.0  # for an answer
    connect: float = 5.0
    ping: float = 10.0  # two of these without an answer: the connection counts as lost
    reconnect_first: float = 0.2
    reconnect_max: float = 10.0


class ReplicaTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a read replica is.

    ``poll`` is how often the leader's list of streams is read without a reason; ``bridge`` is for
    the connection that carries clients' traffic, ``copying`` for the one that copies.
    """

    poll: float = 2.0
    bridge: LinkTimes = LinkTimes(connect=2.0, ping=2.0, reconnect_first=0.1, reconnect_max=2.0)
    copying: LinkTimes = LinkTimes(ping=2.0, retry_first=0.2, retry_max=2.0, reconnect_max=2.0)


DEFAULT_TIMES = ReplicaTimes()
