"""Writes the output of a chunk or a turn: of the engine's outbox, and of all receivers."""

from collections.abc import Callable

from jetspark.server.routing.receiver import Pending
from jetspark.server.routing.router import Router


class Flusher:
    """``fan_out`` is called when messages of a router wait for the following turns."""

    def __init__(self, pending: Pending, fan_out: Callable[[Router], None]) -> None:
        self._pending: Pending = pending
        self._fan_out: Callable[[Router], None] = fan_out

    def flush(self, router: Router | None) -> bool:
        """Write what was queued; True if a client cannot keep up."""
        if router is not None:
            router.send_outbox()
            if router.flushed():
                self._fan_out(router)
        return self._pending.flush()
