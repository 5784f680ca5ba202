"""What acknowledgements say besides yes, and what is told of them: advisories and metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.api.advisory import AckMetric, MaxDeliveries, MessageNaked, MessageTerminated
from jetspark.api.consumer import decode_nak_options
from jetspark.units import bounded, parse_duration

if TYPE_CHECKING:
    from jetspark.engine.consumer.delivery import Delivery
    from jetspark.engine.consumer.hub import Hub
    from jetspark.engine.consumer.pull import Requests
    from jetspark.engine.stream.stream import Stream
    from jetspark.errors.storage import ReadFailed

# What a message that left the stream before it was acknowledged is reported with.
DELETED_REASON: Final = "unacknowledged message was deleted"
UNREADABLE_REASON: Final = "message could not be read"
# A message that the disk refuses to read is asked for again so much later.
READ_RETRY_NS: Final = 1_000_000_000

log = logging.getLogger("jetspark.engine")


class Verdicts:
    """The part of a consumer that knows the words of acknowledgements."""

    stream: Stream
    name: str
    hub: Hub
    delivery: Delivery
    requests: Requests
    sample_percent: int
    # The message that the disk refused to read, while that stops the consumer.
    stopped_at: int = 0

    def flush_soon(self) -> None:
        """Somebody waits for the journal."""
        self.hub.mark_dirty(self.stream)
        self.hub.agenda.wake()

    def on_ack_text(self, seq: int, number: int, text: bytes, reply: bytes, now: int) -> None:
        """An acknowledgement that says more than yes."""
        delivery = self.delivery
        row = int(delivery.pending.find(seq))
        if text.startswith(b"+NXT"):
            delivery.acknowledge(seq, number, now, True)
            self.hub.pull_later(self.delivery, text[4:], reply, now)
            return
        if text.startswith(b"-NAK"):
            if row >= 0 and number > delivery.floor_number:
                self._nak(row, seq, number, text[4:].strip(), now)
        elif text == b"+WPI":
            if row >= 0 and not delivery.is_queued(row):
                deliveries = delivery.pending.deliveries(row)
                delivery.pending.put_off(row, now + delivery.wait_after(deliveries))
        elif text.startswith(b"+TERM"):
            deliveries = int(delivery.pending.deliveries(row)) if row >= 0 else 1
            delivery.acknowledge(seq, number, now, False)
            reason = text[5:].strip().decode(errors="replace")
            self._terminated(seq, number, deliveries, reason)
        if reply:
            self.stream.replies.hold_ack(reply)
            self.hub.agenda.save(delivery, now)
            self.flush_soon()
        self.hub.agenda.note(delivery)

    def _nak(self, row: int, seq: int, number: int, argument: bytes, now: int) -> None:
        delivery = self.delivery
        self.hub.tell(
            MessageNaked(
                stream=self.stream.config.name,
                consumer=self.name,
                consumer_seq=number,
                stream_seq=seq,
                deliveries=int(delivery.pending.deliveries(row)),
            )
        )
        delay = nak_delay(argument)
        if delay is None:
            delivery.pending.requeue(row)
        else:
            delivery.pending.put_off(row, now + bounded(max(delay, 0)))
        self.hub.agenda.add(delivery)

    def _terminated(self, seq: int, number: int, deliveries: int, reason: str) -> None:
        self.hub.tell(
            MessageTerminated(
                stream=self.stream.config.name,
                consumer=self.name,
                consumer_seq=number,
                stream_seq=seq,
                deliveries=deliveries,
                reason=reason,
            )
        )

    def stop_at(self, problem: ReadFailed, now: int) -> None:
        """The disk refuses to read the next message: wait there, say so, and try again."""
        delivery = self.delivery
        if not delivery.read_error:
            log.error(
                "Stream %r: consumer %r stops at %s", self.stream.config.name, self.name, problem
            )
        self.stopped_at = problem.seq
        delivery.read_error = problem.public
        delivery.resume_at = now + READ_RETRY_NS
        self.refuse_waiting()

    def refuse_waiting(self) -> None:
        """Tell the requests that do not wait that there are messages, and why none comes."""
        self.requests.end_unread()

    def look_whether_read(self) -> None:
        """Go on when the message that stopped the consumer was read, or is gone."""
        delivery = self.delivery
        if not delivery.read_error or delivery.gated:
            return
        refused = self.stopped_at in self.stream.log.refused_reads
        if refused and delivery.cursor.is_there(self.stopped_at):
            return
        delivery.read_error = ""
        log.info("Stream %r: consumer %r goes on", self.stream.config.name, self.name)

    def skip_unreadable(self) -> None:
        """The message to be sent is damaged: it is passed over, and that is told."""
        delivery = self.delivery
        seq = delivery.looking_at
        row = delivery.pending.find(seq)
        deliveries = int(delivery.pending.deliveries(row)) if row >= 0 else 0
        delivery.skip(seq, row)
        self._terminated(int(seq), int(delivery.number), deliveries, UNREADABLE_REASON)

    def on_deleted(self, seq: int, now: int) -> None:
        """A message that was pending here left the stream."""
        delivery = self.delivery
        row = int(delivery.pending.find(seq))
        if row < 0:
            return
        number = int(delivery.pending.numbers[row])
        deliveries = int(delivery.pending.deliveries(row))
        delivery.let_go(row)
        delivery.acked_ns = now
        self.hub.agenda.save(delivery, now)
        self.hub.agenda.add(delivery)
        self._terminated(seq, number, deliveries, DELETED_REASON)

    def recount(self, now: int) -> None:
        """So much left the stream at once that everything is looked at again."""
        delivery = self.delivery
        pending = delivery.pending
        delivery.cursor.recount()
        gone = [
            int(pending.seqs[row])
            for row in range(int(pending.head), len(pending.seqs))
            if not delivery.cursor.is_there(pending.seqs[row])
        ]
        for seq in gone:
            row = int(pending.find(seq))
            if row >= 0:
                delivery.let_go(row)
        delivery.spent = {
            seq: count for seq, count in delivery.spent.items() if delivery.cursor.is_there(seq)
        }
        if gone:
            self.hub.agenda.save(delivery, now)
        self.hub.agenda.add(delivery)

    def on_spent(self, seq: int, deliveries: int) -> None:
        """A message was delivered as often as it may be."""
        self.hub.tell(
            MaxDeliveries(
                stream=self.stream.config.name,
                consumer=self.name,
                stream_seq=seq,
                deliveries=deliveries,
            )
        )

    def sample(self, row: int, now: int) -> None:
        """Report some of the acknowledgements."""
        if self.hub.draw(100) >= self.sample_percent:
            return
        pending = self.delivery.pending
        seq = int(pending.seqs[row])
        deliveries = pending.deliveries(row)
        sent = int(pending.time_of(row))
        if not sent:
            sent = pending.moved.get(seq, now) - int(self.delivery.wait_after(deliveries))
        self.hub.tell(
            AckMetric(
                stream=self.stream.config.name,
                consumer=self.name,
                consumer_seq=int(pending.numbers[row]),
                stream_seq=seq,
                ack_time=max(now - sent, 0),
                deliveries=int(deliveries),
            )
        )


def sampling(frequency: str) -> int:
    """How many of a hundred acknowledgements are reported."""
    text = frequency.strip().removesuffix("%")
    if not (text.isascii() and text.isdigit()):
        return 0
    return 100 if len(text) > 18 else min(int(text), 100)


def nak_delay(argument: bytes) -> int | None:
    """How long a refused message waits; None: not at all. What cannot be read counts as none."""
    if not argument:
        return None
    try:
        if argument.startswith(b"{"):
            return decode_nak_options(argument).delay
        return parse_duration(argument.decode())
    except (msgspec.MsgspecError, ValueError):
        return None
