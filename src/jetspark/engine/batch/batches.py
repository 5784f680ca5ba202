"""The open batches of a stream, atomic and fast (ADR-50)."""

from collections.abc import Callable

from mypy_extensions import i64

from jetspark.api.enums import AbandonReason
from jetspark.engine.batch.atomic import AtomicBatches
from jetspark.engine.batch.fast import FastBatches
from jetspark.engine.batch.idle_timer import IdleTimer
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Judgement
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.replies import Standing
from jetspark.engine.stream.rules import Rules
from jetspark.frame import Frame


class Batches:
    """The messages that are published together.

    ``advise(batch_id, reason, now, outbox)`` reports that a batch was abandoned.
    """

    def __init__(
        self,
        ingest: Ingest,
        limits: BatchLimits,
        advise: Callable[[bytes, str, int, Outbox], None],
    ) -> None:
        self.advise: Callable[[bytes, str, int, Outbox], None] = advise
        self.timer: IdleTimer = IdleTimer(limits.idle_ns)
        self.atomic: AtomicBatches = AtomicBatches(ingest, limits, self.timer, advise)
        self.fast: FastBatches = FastBatches(ingest, limits, self.timer, advise)

    def configure(self, rules: Rules) -> None:
        """Apply a configuration; disabling a kind of batch drops the open ones."""
        self.atomic.configure(rules)
        self.fast.configure(rules)

    def append(self, subject: bytes, frame: Frame, now: i64) -> bool:
        """Append the next message of a fast batch, if it is one and needs no special handling."""
        return self.fast.appending and self.fast.append(subject, frame, now)

    def publish(
        self, judged: Judgement, subject: bytes, reply: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Handle a message whose headers name a batch; return whether there is work."""
        if len(judged.headers.batch_id) == 0:
            return self.fast.take_by_headers(judged, subject, reply, now, outbox)
        return self.atomic.publish(judged, subject, reply, now, outbox)

    def publish_fast(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Handle a message whose reply subject is one of fast ingest."""
        return self.fast.take_by_reply(subject, reply, block, body, now, outbox)

    # The disk ----------------------------------------------------------------------------------

    def note_group(self) -> None:
        """Record the progress of its batches in the open group, which is about to be taken."""
        if self.fast.advanced or self.fast.ended:
            self.fast.note_group()

    def committed(self, standings: list[Standing], latency_ns: i64, outbox: Outbox) -> None:
        """Acknowledge the batches of a durable group. -1: its latency is unknown."""
        self.fast.committed(standings, latency_ns, outbox)

    def failed(self, error: bytes, outbox: Outbox) -> None:
        """Undo everything that was staged."""
        self.fast.failed(error, outbox)

    def drop_with_stream(self) -> None:
        """Drop the batches of a deleted stream, and free their share of the limits."""
        self.atomic.drop_all()
        self.fast.release_all()

    # Time --------------------------------------------------------------------------------------

    def begin_time(self, now: i64) -> None:
        """Start at an engine time: the stream was created or adopted."""
        self.fast.begin_time(now)

    def expire(self, now: i64, outbox: Outbox) -> bool:
        """Abandon batches that were idle for too long; return whether something was staged."""
        if not 0 < self.timer.due <= now:
            return False
        abandoned = self.atomic.take_idle(now)
        idle = self.fast.take_idle(now)
        staged = False
        for batch in idle:
            staged = self.fast.close(batch) or staged
            abandoned.append(batch.batch_id)
        self.timer.expired(self.atomic.last_used() + self.fast.last_used())
        for batch_id in abandoned:
            self.advise(batch_id, AbandonReason.TIMEOUT, int(now), outbox)
        return staged
