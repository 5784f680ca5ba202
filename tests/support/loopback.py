"""Servers on this machine, several at a time."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from typing import Any

import jetspark


class Servers(AsyncExitStack):
    """Servers that run until the block ends."""

    async def url(self, **arguments: Any) -> str:
        """Start one and say where it is."""
        server = await self.enter_async_context(jetspark.Server(**arguments))
        return server.client_url


def has_ipv6() -> bool:
    """Say whether the machine has `::1`."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
