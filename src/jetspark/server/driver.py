"""Runs the engine on the event loop: requests in, outbox out, groups to the committer, one timer.

Everything is per chunk or per loop turn, never per message. A turn is scheduled when a chunk left
something for the disk or a read unfinished, so all sockets that are ready are read before the
groups of all dirty streams go to the committer together (speed.md 7).
"""

import asyncio
import logging

from jetspark.clock import Clock
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, Target
from jetspark.server.router import Router
from jetspark.store.committer import Committer

log = logging.getLogger("jetspark.server")


class EngineDriver:
    """Between one router and one engine."""

    def __init__(self, engine: Engine, router: Router, outbox: Outbox, clock: Clock) -> None:
        self.committer: Committer | None = None
        self._engine = engine
        self._router = router
        self._outbox = outbox
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        engine.outlet_for = router.outlet
        router.resolve = engine.resolve
        router.request = self._request
        router.mark_dirty = self._mark_dirty
        router.generation = engine.generation

    def _request(self, target: Target, reply: bytes, _headers: bytes, body: bytes) -> None:
        now = self._clock.now_ns()
        if target.kind == DIRECT_GET:
            assert target.stream is not None
            self._engine.direct_get(target.stream, target.subject, body, reply, now, self._outbox)
        else:
            handle(self._engine, target.subject, body, reply, now, self._outbox)
            self._router.generation = self._engine.generation
        if self._engine.work or self._engine.next_deadline() != self._timer_at:
            self._schedule_turn()

    def _mark_dirty(self, stream: Stream) -> None:
        self._engine.mark_dirty(stream)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def flush(self) -> None:
        """Deliver what the engine wants sent and write every client's output, once."""
        self._router.send_outbox()
        for client in self._router.take_dirty():
            if client.connection is not None:
                client.connection.flush()

    def _turn(self) -> None:
        self._turn_due = False
        assert self.committer is not None
        for stream, group in self._engine.take_groups():
            if isinstance(group, OSError):
                self._engine.failed(stream, group, self._outbox)
                continue
            self._in_flight += 1
            self._idle.clear()
            self.committer.submit(stream, group)
        if self._engine.advance():
            self._schedule_turn()
        self.flush()
        self._rearm()

    def report(self, stream: object, error: OSError | None) -> None:
        """The committer is done with the group of a stream."""
        assert isinstance(stream, Stream)
        self._in_flight -= 1
        if error is None:
            self._engine.committed(stream, self._outbox)
        else:
            log.error(
                "Writing stream %r failed: %s; nothing of it was acknowledged",
                stream.config.name,
                error,
            )
            self._engine.failed(stream, error, self._outbox)
        if self._engine.dirty or self._engine.work:
            self._schedule_turn()
        elif self._in_flight == 0:
            self._idle.set()
        self.flush()

    def _rearm(self) -> None:
        deadline = self._engine.next_deadline()
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline is not None:
            wait = max(0, deadline - self._clock.now_ns()) / 1e9
            self._timer = self._loop.call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = None
        self._engine.expire(self._clock.now_ns(), self._outbox)
        self.flush()
        self._rearm()

    async def settle(self) -> None:
        """Wait until everything staged is on disk and acknowledged."""
        while self._turn_due or self._in_flight or self._engine.dirty:
            self._idle.clear()
            self._schedule_turn()
            await asyncio.sleep(0)
            if self._in_flight:
                await self._idle.wait()

    def close(self) -> None:
        """Stop the timer and the committer's threads."""
        if self._timer is not None:
            self._timer.cancel()
        if self.committer is not None:
            self.committer.close()
