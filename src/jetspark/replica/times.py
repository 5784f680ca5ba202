"""How long the link to a remote waits for what; tests have less patience."""

import msgspec


class LinkTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. ``retry_first`` doubles up to ``retry_max`` while nothing works."""

    heartbeat: float = 2.0  # the remote says so often that it is there
    alarm: float = 6.0  # without a word for so long, another consumer is made
    probe: float = 5.0  # a quiet stream is asked for so often
    retry_first: float = 2.0  # wire-facts.md 12
    retry_max: float = 120.0  # wire-facts.md 12
    request: float = 5.0  # for an answer
    connect: float = 5.0
    ping: float = 10.0  # two of these without an answer: the connection counts as lost
    reconnect_first: float = 0.2
    reconnect_max: float = 10.0
