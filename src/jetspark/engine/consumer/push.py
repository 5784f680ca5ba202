"""Push delivery: interest in the deliver subject, flow control, heartbeats, rate limit.

Nothing is sent without interest. Flow control asks the receiver to confirm when half the window is
unconfirmed; until it answers, heartbeats say so (wire.md, Consumers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.headers.names import CONSUMER_STALLED
from jetspark.headers.status import CONTROL, FLOW_CONTROL_TEXT, status_block
from jetspark.units import bounded

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer

FLOW_WINDOW_MAX: Final = 32 * 1024 * 1024
FLOW_WINDOW_FIRST: Final = FLOW_WINDOW_MAX // 16


class Push:
    """The receiving end of a push consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.subject: bytes = b""
        self.heartbeat_at: int = 0
        # Since when there is no subscriber; 0 while there is one.
        self.unbound_ns: int = 0

    def configure(self, subject: str, now: int) -> None:
        """Set the deliver subject; an empty one means a pull consumer."""
        wanted = subject.encode()
        if wanted == self.subject:
            return
        services = self._consumer.services
        moved = bool(self.subject)
        if moved:
            services.unwatch(self.subject, self._consumer)
        self.subject = wanted
        self._consumer.delivery.bind(None)
        self.unbound_ns = now
        if wanted:
            services.watch(wanted, self._consumer)
        # The new subscriber gets what is still unacknowledged.
        pending = self._consumer.state.pending
        for row in range(int(pending.head), len(pending.seqs)):
            if moved and pending.words[row]:
                pending.requeue(row)
        self.look(now)

    def look(self, now: int) -> None:
        """Check whether there is a subscriber."""
        consumer = self._consumer
        delivery = consumer.delivery
        if not self.subject:
            delivery.bind(None)
            return
        outlet = consumer.services.ports.push_outlet(
            self.subject, consumer.config.deliver_group.encode()
        )
        was_bound = delivery.outlet is not None
        delivery.bind(outlet)
        if outlet is None:
            if was_bound:
                self.unbound_ns = now
                self.heartbeat_at = 0
                consumer.rearm()
            return
        self.unbound_ns = 0
        if not was_bound:
            self._begin(now)
        consumer.stream.attached.receive(delivery)

    def _begin(self, now: int) -> None:
        consumer = self._consumer
        if consumer.config.idle_heartbeat > 0:
            self.heartbeat_at = now + bounded(consumer.config.idle_heartbeat)
        consumer.rearm()

    def stop(self) -> None:
        """Stop: the consumer is deleted."""
        if self.subject:
            self._consumer.services.unwatch(self.subject, self._consumer)
        self._consumer.delivery.bind(None)

    def on_time(self, now: int) -> None:
        """Send the heartbeat that is due."""
        delivery = self._consumer.delivery
        if not 0 < self.heartbeat_at <= now or delivery.outlet is None:
            return
        interval = bounded(self._consumer.config.idle_heartbeat)
        last = int(delivery.state.delivered_ns)
        if last + interval > now:
            self.heartbeat_at = last + interval
            return
        self.heartbeat_at = now + interval
        more = b"%b: %b\r\n" % (CONSUMER_STALLED, delivery.asked) if delivery.asked else b""
        delivery.outlet.write(self.subject, b"", self._consumer.heartbeat(more), b"")

    # Flow control ------------------------------------------------------------------------------

    def ask_to_confirm(self) -> None:
        """Send a flow-control request: half of the window is unconfirmed."""
        consumer = self._consumer
        delivery = consumer.delivery
        if delivery.outlet is None:
            return
        question = b"$JS.FC.%b.%b.%b" % (
            consumer.stream.name,
            consumer.name.encode(),
            consumer.services.next_id()[-4:].encode(),
        )
        delivery.ask(question)
        block = status_block(CONTROL, FLOW_CONTROL_TEXT)
        delivery.outlet.write(self.subject, question, block, b"")

    def on_confirmed(self, subject: bytes) -> None:
        """Handle the answer to a flow-control request: the receiver is up to date."""
        delivery = self._consumer.delivery
        if not delivery.asked or subject != delivery.asked:
            return
        delivery.confirm(FLOW_WINDOW_MAX)
        self._consumer.services.run_queue.add(delivery.state)


class RateLimit:
    """Limits the rate: to a number of bytes per second, or to the original rate."""

    def __init__(self) -> None:
        self.rate: float = 0.0  # bytes per nanosecond; 0 is no limit
        self.burst: int = 0
        self.tokens: float = 0.0
        self.tokens_ns: int = 0
        # Replay: up to this sequence messages keep their original distance in time.
        self.replay_to: int = 0
        self.last_time: int = 0
        self.last_sent_ns: int = 0
        # The delayed message, by its time, and until when.
        self.waiting_for: int = 0
        self.ready_at: int = 0

    def limit(self, bits_per_second: int, burst: int, now: int) -> None:
        """Set the rate limit."""
        self.rate = bits_per_second // 8 / 1e9
        self.burst = burst
        self.tokens = float(burst)
        self.tokens_ns = now

    def replay(self, last: int) -> None:
        """Replay at the original rate, up to the current last message."""
        if self.replay_to == 0:
            self.replay_to = last

    def delay(self, size: int, time: int, seq: int, now: int) -> int:
        """Return until when a message has to wait; 0 if it may be sent, and is then counted."""
        if self.waiting_for != seq:
            self.waiting_for = seq
            self.ready_at = max(self._replayed(time, seq), self._limited(size, now))
        if self.ready_at > now:
            return self.ready_at
        self.waiting_for = 0
        self.last_time = time
        self.last_sent_ns = now
        return 0

    def _replayed(self, time: int, seq: int) -> int:
        if seq > self.replay_to or self.last_time == 0:
            return 0
        gap = time - self.last_time
        return self.last_sent_ns + gap if gap > 1_000_000 else 0

    def _limited(self, size: int, now: int) -> int:
        if self.rate <= 0:
            return 0
        refill = (now - self.tokens_ns) * self.rate
        self.tokens = min(self.tokens + refill, float(self.burst))
        self.tokens_ns = now
        self.tokens -= size
        if self.tokens >= 0:
            return 0
        return now + int(-self.tokens / self.rate)
