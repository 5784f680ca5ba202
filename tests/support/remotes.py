"""Servers that copy streams of others, for tests; and what a stream holds, to compare."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

from jetspark import Client, Server
from jetspark.clock import Clock
from jetspark.replica import connect_remote
from jetspark.replica.times import LinkTimes
from jetspark.replica.upstream import RemoteUpstream
from jetspark.server.config.blocks.jetspark import Remote

QUICK = LinkTimes(
    heartbeat=0.2, alarm=0.6, probe=0.2, retry_first=0.05, retry_max=0.2, request=1.0, connect=1.0,
    ping=0.3, reconnect_first=0.02, reconnect_max=0.1,
)  # fmt: skip
HUB = {"api": "$JS.hub.API"}

Row = tuple[int, int, str, bytes, bytes]


def quick(remote: Remote, clock: Clock) -> RemoteUpstream:
    """A link that is in a hurry."""
    return connect_remote(remote, clock, QUICK)


def copying(url: str, store: Path | None = None) -> Server:
    """A server with a remote named ``hub``, from which it may take messages."""
    return Server(remotes={"hub": {"url": url, "take": True}}, upstreams=quick, store_dir=store)


async def api(nc: Client, verb: str, body: object = None) -> dict[str, Any]:
    """The answer to a ``$JS.API`` request, whatever it is."""
    payload = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await nc.request(f"$JS.API.{verb}", payload)).data)
    return answer


async def make(nc: Client, name: str, **config: Any) -> None:
    """Make a stream that answers direct gets."""
    answer = await api(nc, f"STREAM.CREATE.{name}", {"name": name, "allow_direct": True, **config})
    assert "error" not in answer, answer


async def info(nc: Client, name: str) -> dict[str, Any]:
    """STREAM.INFO."""
    return await api(nc, f"STREAM.INFO.{name}")


async def fill(nc: Client, count: int, subject: str = "a.{}", first: int = 0) -> None:
    """Publish messages, with headers now and then, and wait for all acknowledgements."""
    js = nc.jetstream()
    stream = subject[0].upper()  # stream A has the subjects a.>
    waiting = []
    for n in range(first, first + count):
        headers = {"X": str(n), "Nats-Expected-Stream": stream} if n % 7 == 0 else None
        waiting.append(await js.publish_async(subject.format(n % 5), b"%d" % n, headers=headers))
    await asyncio.gather(*waiting)


async def rows(nc: Client, name: str) -> list[Row]:
    """Everything that a stream holds: sequence, time, subject, headers, payload."""
    stream = await nc.jetstream().stream(name)
    found: list[Row] = []
    async for chunk in stream.scan(1):
        found += zip(
            chunk.sequences, chunk.times, chunk.subjects, chunk.headers, chunk.data,
            strict=True,
        )  # fmt: skip
    return found


def as_copied(found: list[Row]) -> list[Row]:
    """Rows of an origin as a mirror has them: without what was said to the origin alone."""
    cleaned = []
    for seq, time, subject, block, payload in found:
        lines = [line for line in block.split(b"\r\n") if b"Nats-Expected-" not in line]
        kept = b"\r\n".join(lines)
        cleaned.append((seq, time, subject, b"" if kept == b"NATS/1.0\r\n\r\n" else kept, payload))
    return cleaned


async def info_until(
    nc: Client, name: str, reached: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE_S
) -> dict[str, Any]:
    """Wait until what STREAM.INFO says satisfies a test."""
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await info(nc, name)
                if "state" in found and reached(found):
                    return found
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{name} does not get there: {found}") from None


async def caught_up(nc: Client, name: str, last_seq: int) -> dict[str, Any]:
    """Wait until a mirror is as far as its origin."""
    return await info_until(nc, name, lambda found: found["state"]["last_seq"] >= last_seq)
