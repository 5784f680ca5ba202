"""Lame duck mode: let clients go elsewhere before the server stops (SIGUSR2).

No new connections; those that are there are told by an INFO with ``ldm``, have a grace period,
and are then closed one by one over the rest of the duration, so that another server is not met by
all of them at once.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from jetspark.server.close_reason import CloseReason

if TYPE_CHECKING:
    from jetspark.server.server import Server

log = logging.getLogger("jetspark.server")


async def quack(server: "Server", stop: asyncio.Event) -> None:
    """Empty the server, then let it stop."""
    if server.lame_duck:
        return
    log.info("Entering lame duck mode, stop accepting new clients")
    server.lame_duck = True
    server.stop_listening()
    for connection in server.connections:
        session = connection.session
        if session.connected and session.options.protocol >= 1:
            connection.client.receiver.queue(session.info())
    server.flush()
    settings = server.settings
    grace_s = settings.lame_duck_grace_period / 1e9
    spread_s = max(0.0, settings.lame_duck_duration / 1e9 - grace_s)
    if server.connections:
        await asyncio.sleep(grace_s)
    remaining = list(server.connections)
    if remaining:
        log.info("Closing existing clients")
    pause_s = spread_s / len(remaining) if remaining else 0.0
    for connection in remaining:
        if connection in server.connections:
            connection.close(CloseReason.SERVER_SHUTDOWN)
            # At most a second, as nats-server: nobody gains by a longer wait.
            await asyncio.sleep(min(pause_s, 1.0))
    stop.set()
