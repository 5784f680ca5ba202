"""Acknowledgements other than a plain ack, and their advisories and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.api.advisory import AckMetric, MaxDeliveries, MessageNaked, MessageTerminated
from jetspark.api.consumer import decode_nak_options
from jetspark.units import bounded, parse_duration

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer

# The reason reported for a message that was removed before it was acknowledged.
DELETED_REASON: Final = "unacknowledged message was deleted"


class AckWords:
    """How one consumer handles ``-NAK``, ``+WPI``, ``+TERM``, ``+NXT``, and what it reports."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._state = consumer.state
        self._services = consumer.services
        self._sample_percent = 0

    def configure(self, sample_frequency: str) -> bool:
        """Set how many acknowledgements are reported; return whether any are."""
        self._sample_percent = sampling(sample_frequency)
        return self._sample_percent > 0

    def flush_soon(self) -> None:
        """Write the journal soon: a client waits for it."""
        self._services.mark_dirty(self._state.stream)
        self._services.run_queue.wake()

    def on_undelivered(self, text: bytes, reply: bytes, now: int) -> None:
        """Handle an acknowledgement of a message that was never delivered, as nats-server does.

        It has no effect: one that would end the message is not answered, the others are.
        """
        if text.startswith(b"+NXT"):
            self._services.pull_later(self._consumer, text[4:], reply, now)
        elif reply and text not in (b"", b"+ACK", b"+OK") and not text.startswith(b"+TERM"):
            self._answer(reply, now)

    def _answer(self, reply: bytes, now: int) -> None:
        """Answer an acknowledgement once its effect is on disk."""
        self._state.stream.replies.hold_ack(reply)
        self._services.run_queue.save(self._state, now)
        self.flush_soon()

    def on_text(self, seq: int, consumer_seq: int, text: bytes, reply: bytes, now: int) -> None:
        """Handle an acknowledgement with a text."""
        state = self._state
        delivery = self._consumer.delivery
        row = int(state.pending.find(seq))
        if text.startswith(b"+NXT"):
            self._consumer.acks.acknowledge(seq, consumer_seq, now, True)
            self._services.pull_later(self._consumer, text[4:], reply, now)
            return
        if text.startswith(b"-NAK"):
            if row >= 0 and consumer_seq > state.floor_consumer_seq:
                self._nak(row, seq, consumer_seq, text[4:].strip(), now)
        elif text == b"+WPI":
            if row >= 0 and not state.pending.is_queued(row):
                deliveries = state.pending.deliveries(row)
                state.pending.put_off(row, now + delivery.wait_after(deliveries))
        elif text.startswith(b"+TERM"):
            deliveries = int(state.pending.deliveries(row)) if row >= 0 else 1
            self._consumer.acks.acknowledge(seq, consumer_seq, now, False)
            reason = text[5:].strip().decode(errors="replace")
            self.terminated(seq, consumer_seq, deliveries, reason)
        if reply and (seq > 0 or text.startswith(b"+TERM")):
            self._answer(reply, now)
        self._services.run_queue.note(delivery)

    def _nak(self, row: int, seq: int, consumer_seq: int, argument: bytes, now: int) -> None:
        pending = self._state.pending
        self._services.advise(
            MessageNaked(
                stream=self._state.stream.config.name,
                consumer=self._consumer.name,
                consumer_seq=consumer_seq,
                stream_seq=seq,
                deliveries=int(pending.deliveries(row)),
            )
        )
        delay = nak_delay(argument)
        if delay is None:
            pending.requeue(row)
        else:
            pending.put_off(row, now + bounded(max(delay, 0)))
        self._services.run_queue.add(self._state)

    def terminated(self, seq: int, consumer_seq: int, deliveries: int, reason: str) -> None:
        """Report that a message is not delivered again."""
        self._services.advise(
            MessageTerminated(
                stream=self._state.stream.config.name,
                consumer=self._consumer.name,
                consumer_seq=consumer_seq,
                stream_seq=seq,
                deliveries=deliveries,
                reason=reason,
            )
        )

    def on_deleted(self, seq: int, now: int) -> None:
        """Handle the removal of a message that was pending here."""
        state = self._state
        row = int(state.pending.find(seq))
        if row < 0:
            return
        consumer_seq = int(state.pending.consumer_seqs[row])
        deliveries = int(state.pending.deliveries(row))
        state.remove_pending(row)
        state.acknowledged(now)
        self._services.run_queue.add(state)
        self.terminated(seq, consumer_seq, deliveries, DELETED_REASON)

    def on_spent(self, seq: int, deliveries: int) -> None:
        """Report a message that was delivered max_deliver times."""
        self._services.advise(
            MaxDeliveries(
                stream=self._state.stream.config.name,
                consumer=self._consumer.name,
                stream_seq=seq,
                deliveries=deliveries,
            )
        )

    def sample(self, row: int, now: int) -> None:
        """Report a sample of the acknowledgements."""
        if self._services.draw(100) >= self._sample_percent:
            return
        pending = self._state.pending
        seq = int(pending.seqs[row])
        deliveries = pending.deliveries(row)
        sent = int(pending.time_of(row))
        if not sent:
            sent = pending.moved.get(seq, now) - int(
                self._consumer.delivery.wait_after(deliveries)
            )
        self._services.advise(
            AckMetric(
                stream=self._state.stream.config.name,
                consumer=self._consumer.name,
                consumer_seq=int(pending.consumer_seqs[row]),
                stream_seq=seq,
                ack_time=max(now - sent, 0),
                deliveries=int(deliveries),
            )
        )


def sampling(frequency: str) -> int:
    """Return the percentage of acknowledgements to report."""
    text = frequency.strip().removesuffix("%")
    if not (text.isascii() and text.isdigit()):
        return 0
    return 100 if len(text) > 18 else min(int(text), 100)


def nak_delay(argument: bytes) -> int | None:
    """Return the redelivery delay of a NAK; None: no delay. Unreadable arguments count as none."""
    if not argument:
        return None
    try:
        if argument.startswith(b"{"):
            return decode_nak_options(argument).delay
        return parse_duration(argument.decode())
    except (msgspec.MsgspecError, ValueError):
        return None
