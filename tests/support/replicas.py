"""Leaders and read replicas in the loop of a test, impatient ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.cluster import Cluster
from tests.support.servers import ServerProcess
from tests.support.waiting import until

import jetspark
from jetspark import JetStream
from jetspark.client.client import Client
from jetspark.client.header_input import header_block
from jetspark.client.message import Message
from jetspark.replica import ReplicaServer
from jetspark.replica.times import LinkTimes, ReplicaTimes

FAST = ReplicaTimes(
    poll=0.2,
    bridge=LinkTimes(connect=1.0, request=1.0, ping=0.3, reconnect_first=0.02, reconnect_max=0.1),
    copying=LinkTimes(
        heartbeat=0.3, alarm=1.0, probe=0.3, retry_first=0.05, retry_max=0.3, request=1.0,
        connect=1.0, ping=0.5, reconnect_first=0.02, reconnect_max=0.1,
    ),
)  # fmt: skip
# One that takes a slow machine for what it is, not for a leader that is down.
PATIENT = ReplicaTimes(
    poll=0.2,
    bridge=LinkTimes(
        connect=20.0, request=20.0, ping=60.0, reconnect_first=0.02, reconnect_max=0.1
    ),
    copying=LinkTimes(
        heartbeat=10.0, alarm=60.0, probe=0.3, retry_first=0.05, retry_max=0.3, request=20.0,
        connect=20.0, ping=60.0, reconnect_first=0.02, reconnect_max=0.1,
    ),
)  # fmt: skip
WAIT = "100ms"


def replica_of(*urls: str, streams: list[str] | None = None, **arguments: Any) -> ReplicaServer:
    """A replica that notices everything soon."""
    arguments.setdefault("min_last_seq_wait", WAIT)
    arguments.setdefault("times", FAST)
    return ReplicaServer(urls, streams=streams or ["KV_*"], **arguments)


class Pair(NamedTuple):
    """A leader, a replica of it, and a client of each."""

    leader: jetspark.Server
    replica: ReplicaServer
    at_leader: Client
    at_replica: Client

    @property
    def js(self) -> JetStream:
        """The leader's streams."""
        return self.at_leader.jetstream()


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[Pair]:
    """A leader, and a replica with these options."""
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url, **options) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as at_replica,
    ):
        yield Pair(leader, replica, at_leader, at_replica)


async def copied(replica: ReplicaServer, name: str, last: int) -> None:
    """Wait until a stream is copied up to a sequence and may be read."""

    def there() -> bool:
        assert replica._parts is not None
        followed = replica._parts.reconciler.find(name)
        if followed is None or not followed.whole:
            return False
        stream = followed.find(name)
        return stream is not None and stream.log.index.last_seq >= last

    await until(there)


def _nothing(now: int) -> bool:  # noqa: ARG001
    return False


class Stall:
    """Keeps a replica's copies from continuing, as a slow disk or network would."""

    def __init__(self, replica: ReplicaServer) -> None:
        assert replica.default_account.driver is not None
        self._engine = replica.default_account.driver.engine
        self._advance = self._engine.copies.advance

    def begin(self) -> None:
        """Copy nothing from now on."""
        self._engine.copies.advance = _nothing  # type: ignore[method-assign]

    def end(self) -> None:
        """Continue."""
        self._engine.copies.advance = self._advance  # type: ignore[method-assign]
        for stream in self._engine.streams.values():
            self._engine.copies.changed(stream)
        self._engine.consumer_services.run_queue.wake()


async def ask(
    client: Client, subject: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> Message:
    """The first reply, a status too."""
    core = client._core
    block = header_block(headers) if headers else b""
    return await core.ask(subject.encode(), block, body, 5.0)


async def ask_many(client: Client, subject: str, body: bytes) -> list[tuple[bytes, bytes]]:
    """All replies up to the first status: header blocks and payloads."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    client.publish(subject, body, reply=inbox)
    replies = []
    while True:
        reply = await subscription.next(timeout=5)
        replies.append((reply.header_block, reply.data))
        if not reply.data and reply.status:
            break
    await subscription.unsubscribe()
    return replies


@asynccontextmanager
async def leading(kind: str, folder: Path) -> AsyncIterator[list[str]]:
    """A leader of a kind, by its URLs."""
    if kind == "jetspark":
        async with jetspark.Server() as server:
            yield [server.client_url]
    elif kind == "cluster":
        with closing(Cluster(folder)) as cluster:
            await cluster.wait_ready()
            yield cluster.urls
    else:
        running = ServerProcess(kind, folder, "-js")
        try:
            yield [running.url]
        finally:
            running.kill()
