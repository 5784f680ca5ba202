"""Questions to the monitoring port of a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol
from urllib.parse import urlsplit


class Monitored(Protocol):
    """A server with a monitoring port."""

    @property
    def monitor_url(self) -> str:
        """Where monitoring is; empty when it is off."""


async def text(server: Monitored, path: str) -> tuple[int, str]:
    """Status and body of any answer."""
    address = urlsplit(server.monitor_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


async def get(server: Monitored, path: str) -> Any:
    """The answer, which must be a good one in JSON."""
    status, body = await text(server, path)
    assert status == 200, body
    return json.loads(body)


async def sample(server: Monitored, metric: str, *labels: str) -> float | None:
    """The value of the one series of ``/metrics`` that has these labels; None without one."""
    _, body = await text(server, "/metrics")
    found = [
        line.rpartition(" ")[2]
        for line in body.splitlines()
        if line.startswith((f"{metric}{{", f"{metric} ")) and all(each in line for each in labels)
    ]
    assert len(found) <= 1, found
    return float(found[0]) if found else None
