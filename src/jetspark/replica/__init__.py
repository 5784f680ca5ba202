"""Copies of streams that live on other servers: remote mirrors and sources, read replicas.

``jetspark.Server(remotes={"hub": {"url": "nats://hub:4222"}}, upstreams=connect_remote)`` can
mirror and source streams of the server named ``hub`` (docs/mirrors.md).
"""

from jetspark.replica.upstream import connect_remote

__all__ = ["connect_remote"]
