"""Copies of streams of other servers: remote mirrors and sources, read replicas.

``jetspark.Server(remotes={"hub": {"url": "nats://hub:4222"}})`` can mirror and source streams of
the server named ``hub`` (docs/mirrors.md).
``ReplicaServer("nats://leader:4222", streams=["KV_*"])`` answers reads for another server and
forwards everything else to it (docs/replicas.md).
"""

from jetspark.replica.server import ReplicaServer
from jetspark.replica.upstream import connect_remote

__all__ = ["ReplicaServer", "connect_remote"]
