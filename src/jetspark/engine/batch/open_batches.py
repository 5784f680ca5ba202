"""The parts that atomic and fast batches of a stream share."""

from collections.abc import Callable

from jetspark.engine.batch.idle_timer import IdleTimer
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Checks
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.replies import Replies
from jetspark.engine.stream.rules import Rules
from jetspark.store.log.stream_log import StreamLog


class OpenBatches:
    """The open batches of one kind.

    ``advise(batch_id, reason, now, outbox)`` reports that a batch was abandoned.
    """

    def __init__(
        self,
        ingest: Ingest,
        limits: BatchLimits,
        timer: IdleTimer,
        advise: Callable[[bytes, str, int, Outbox], None],
    ) -> None:
        self.ingest: Ingest = ingest
        self.rules: Rules = ingest.rules
        self.log: StreamLog = ingest.log
        self.checks: Checks = ingest.checks
        self.replies: Replies = ingest.replies
        self.limits: BatchLimits = limits
        self.timer: IdleTimer = timer
        self.advise: Callable[[bytes, str, int, Outbox], None] = advise
