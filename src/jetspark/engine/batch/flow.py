"""Flow control of fast ingest: how many messages each publisher sends before it needs an ack.

The messages a client may have in flight are a multiple of the flow it was given, so the flow is
its rate. Publishers of one stream share a total; each gets no more than it asked for. When the
disk is slow to confirm, or a lot waits for it, all of them get less, step by step, and more again
when it is fast. A publisher gets its flow with every ack, so a lost one has no consequences
(ADR-50).
"""

from typing import Final

from jetspark.engine.batch.members import FastBatch

# The total that the publishers of a stream share, in messages: the released server's value.
SHARED: Final = 500
# The same for publishers that count bytes.
SHARED_BYTES: Final = 1024 * 1024
# A commit that takes longer is slow, one that takes no longer than the second is fast. In between
# nothing changes, so that the flow does not oscillate.
SLOW_NS: Final = 25_000_000
QUICK_NS: Final = 10_000_000
# This many bytes waiting when a group is done mean that publishers are faster than the disk.
BACKLOG_BYTES: Final = 8 * 1024 * 1024
# Each step halves a publisher's flow. It never falls below an eighth: otherwise a disk that is
# always slow would be used less the slower it is.
PRESSURE_MAX: Final = 3


class FlowControl:
    """The flow of all fast batches of a stream."""

    def __init__(self) -> None:
        self.pressure: int = 0
        self._was_slow = False

    def measured(self, latency_ns: int, backlog: int) -> None:
        """Note how long a group took to be durable, and how many bytes wait after it.

        One slow group is an accident, the second one in a row is a slow disk.
        """
        slow = latency_ns > SLOW_NS or backlog > BACKLOG_BYTES
        if slow and self._was_slow:
            self.pressure = min(self.pressure + 1, PRESSURE_MAX)
        elif not slow and latency_ns <= QUICK_NS:
            self.pressure = max(self.pressure - 1, 0)
        self._was_slow = slow

    def begin(self, batch: FastBatch, publishers: int) -> None:
        """Set the first flow of a batch; if it is not the only one it starts low and increases."""
        if batch.asked_bytes:
            flow = self._share(int(batch.asked_bytes), SHARED_BYTES, publishers)
        elif publishers > 1:
            flow = 1
        else:
            flow = self._share(int(batch.asked), SHARED, 1)
        batch.set_flow(flow)

    def adapt(self, batch: FastBatch, publishers: int) -> None:
        """Move the flow of a batch a step closer to its target."""
        if batch.asked_bytes:
            allowed = self._share(int(batch.asked_bytes), SHARED_BYTES, publishers)
            batch.set_flow(_step(int(batch.flow_bytes), allowed))
        else:
            allowed = self._share(int(batch.asked), SHARED, publishers)
            batch.set_flow(_step(int(batch.flow), allowed))

    def _share(self, asked: int, shared: int, publishers: int) -> int:
        allowed = min(asked, max(shared // max(publishers, 1), 1))
        return max(allowed >> self.pressure, 1)


def _step(flow: int, allowed: int) -> int:
    if flow < allowed:
        return min(flow * 2, allowed)
    return max(flow // 2, allowed)
