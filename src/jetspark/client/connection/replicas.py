"""Discovery of read replicas, the nearest first (ADR-8, replica discovery).

Replicas answer as the NATS service ``jetspark-replica``; the distance of one is the time that a
connection to it takes.
"""

import asyncio
import contextlib
from typing import Final

import msgspec

from jetspark.client.connection.server_pool import parse_servers
from jetspark.client.core import ClientCore
from jetspark.client.requests import ManyReplies
from jetspark.client.unreadable import UNREADABLE
from jetspark.clock import SystemClock

SUBJECT: Final = b"$SRV.PING.jetspark-replica"
# Their number is unknown: without another answer for this long, the list is complete.
STALL_SECONDS: Final = 0.2


class ReplicaAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that can be connected to. ``seconds`` is the time that a connection takes.

    ``streams`` are the streams that it serves; ``read_only``: it refuses writes.
    """

    url: str
    name: str
    streams: tuple[str, ...]
    read_only: bool
    seconds: float


class _Metadata(msgspec.Struct, frozen=True):
    url: str = ""
    server_name: str = ""
    streams: str = ""
    read_only: str = "false"


class _Ping(msgspec.Struct, frozen=True):
    id: str = ""
    metadata: _Metadata = _Metadata()


_decoder: Final = msgspec.json.Decoder(_Ping)


async def find_replicas(core: ClientCore, stream: str, seconds: float) -> list[ReplicaAddress]:
    """Ask all replicas, and measure the distance of those with ``stream`` (empty: any)."""
    sink = ManyReplies(core.loop, core)
    core.send_request(sink, SUBJECT, b"", b"", seconds)
    found: dict[str, _Metadata] = {}
    try:
        while await sink.wait(STALL_SECONDS):
            for reply in sink.take():
                with contextlib.suppress(*UNREADABLE):
                    said = _decoder.decode(reply.data)
                    found[said.id] = said.metadata
    finally:
        core.drop_request(sink)
    chosen = [
        metadata
        for metadata in found.values()
        if metadata.url and (not stream or stream in metadata.streams.split(","))
    ]
    tried = await asyncio.gather(*(_distance(each.url, seconds) for each in chosen))
    replicas = [
        ReplicaAddress(
            url=metadata.url,
            name=metadata.server_name,
            streams=tuple(filter(None, metadata.streams.split(","))),
            read_only=metadata.read_only == "true",
            seconds=distance,
        )
        for metadata, distance in zip(chosen, tried, strict=True)
        if distance is not None
    ]
    return sorted(replicas, key=lambda replica: replica.seconds)


async def _distance(url: str, seconds: float) -> float | None:
    """The time that a connection takes; None if it fails."""
    try:
        address = parse_servers(url)[0]
        clock = SystemClock()  # the time of a uvloop is rounded to milliseconds
        started = clock.monotonic_ns()
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(address.host, address.port)
        taken = (clock.monotonic_ns() - started) / 1e9
        writer.close()
    except (OSError, ValueError, TimeoutError):
        return None
    return taken
