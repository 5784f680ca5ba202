"""Connections to the remotes of a server; the client module is loaded for the first one."""

from jetspark.clock import Clock
from jetspark.engine.replicate.upstream import Upstream
from jetspark.server.config.blocks.jetspark import Remote


def connect_upstream(remote: Remote, clock: Clock) -> Upstream:
    """Connect to a remote as `jetspark.replica.connect_remote` does."""
    from jetspark.replica.upstream import connect_remote

    return connect_remote(remote, clock)
