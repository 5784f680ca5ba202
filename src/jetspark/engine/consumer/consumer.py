"""One consumer: its configuration, its life, and everything that is not done per message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.api.advisory import AckMetric, MaxDeliveries, MessageNaked, MessageTerminated
from jetspark.api.base import Timestamp
from jetspark.api.consumer import (
    ConsumerConfig,
    ConsumerInfo,
    SequenceInfo,
    decode_nak_options,
)
from jetspark.api.enums import AckPolicy, PriorityPolicy, ReplayPolicy
from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.delivery import (
    ACK_ALL,
    ACK_EXPLICIT,
    ACK_NONE,
    Delivery,
    Readers,
    Waiting,
)
from jetspark.engine.consumer.groups import Groups
from jetspark.engine.consumer.journal import Journal
from jetspark.engine.consumer.pull import Requests
from jetspark.engine.consumer.push import FLOW_WINDOW_FIRST, Pace, Push
from jetspark.engine.consumer.start import begin, place
from jetspark.engine.consumer.statuses import heartbeat_block
from jetspark.units import Nanoseconds, parse_duration

if TYPE_CHECKING:
    from jetspark.engine.consumer.hub import Hub
    from jetspark.engine.outbox import Outbox
    from jetspark.engine.stream.stream import Stream

_POLICIES: Final = {
    AckPolicy.NONE: ACK_NONE,
    AckPolicy.ALL: ACK_ALL,
    AckPolicy.EXPLICIT: ACK_EXPLICIT,
}
# What a message that left the stream before it was acknowledged is reported with.
DELETED_REASON: Final = "unacknowledged message was deleted"
UNREADABLE_REASON: Final = "message could not be read"


class Consumer:
    """A consumer of one stream. ``delivery`` is its hot half."""

    def __init__(
        self,
        stream: Stream,
        config: ConsumerConfig,
        created_ns: int,
        number: int,
        hub: Hub,
        readers: Readers,
    ) -> None:
        self.stream = stream
        self.config = config
        self.name = config.name or config.durable_name
        self.created_ns = created_ns
        self.number = number
        self.hub = hub
        self.readers = readers
        # Whether the log knows it; until then nothing is delivered.
        self.durable = False
        cursor = Cursor(stream.log.index, filters_of(config))
        self.delivery = Delivery(stream, hub.agenda, self, cursor)
        self.delivery.ack_prefix = b"$JS.ACK.%b.%b." % (stream.name, self.name.encode())
        self.journal = Journal(self.delivery)
        self.requests = Requests(self)
        self.push = Push(self)
        self.groups = Groups(self)
        self.pace_keeper = Pace()
        self.idle_since = created_ns
        self.requests.last_ns = created_ns

    # Life --------------------------------------------------------------------------------------

    @property
    def in_memory(self) -> bool:
        """Whether the log is told nothing: the consumer ends with the process."""
        return self.config.mem_storage

    def begin(self) -> None:
        """Start where the deliver policy says."""
        self.delivery.gated = self.config.min_last_seq > self.stream.log.index.last_seq
        begin(self.delivery, self.config)

    def configure(self, config: ConsumerConfig, now: int) -> None:
        """Go by this configuration from now on."""
        delivery = self.delivery
        self.config = config
        filters = filters_of(config)
        if filters != delivery.cursor.filters:
            delivery.cursor.set_filters(filters)
            delivery.cursor.recount()
        delivery.policy = _POLICIES[config.ack_policy]
        delivery.ack_wait = config.ack_wait
        delivery.backoff = [int(wait) for wait in config.backoff]
        delivery.max_ack_pending = max(config.max_ack_pending, 0)
        if delivery.policy == ACK_NONE:
            delivery.max_ack_pending = 0
        delivery.max_deliver = max(config.max_deliver, 0)
        delivery.headers_only = config.headers_only
        delivery.keeps_interest = self.stream.config.retention != "limits"
        delivery.samples = sampling(config.sample_freq) > 0
        delivery.chosen = config.priority_policy != PriorityPolicy.NONE
        if not config.flow_control:
            delivery.window = 0
        elif delivery.window == 0:
            delivery.window = FLOW_WINDOW_FIRST
        self._set_pace(now)
        self.push.configure(config.deliver_subject, now)
        self.open_or_close(now)
        self.hub.agenda.add(delivery)

    def _set_pace(self, now: int) -> None:
        config = self.config
        pace = self.pace_keeper
        burst = self.stream.config.max_msg_size
        pace.limit(config.rate_limit_bps, burst if burst > 0 else self.hub.max_payload, now)
        if config.replay_policy == ReplayPolicy.ORIGINAL and pace.replay_to == 0:
            pace.replay_to = int(self.stream.log.index.last_seq)
        self.delivery.paced = pace.rate > 0 or pace.replay_to > 0

    def became_durable(self, now: int) -> None:
        """The log has it: messages may go out."""
        if not self.durable:
            self.durable = True
            self.open_or_close(now)
            self.push.look(now)
            self.hub.agenda.add(self.delivery)

    def is_paused(self, now: int) -> bool:
        """Say whether nothing is delivered until a time that is still to come."""
        return self.config.pause_until is not None and self.config.pause_until > now

    def is_open(self, now: int) -> bool:
        """Say whether messages may go out; opens the gate of ``min_last_seq`` when it is time."""
        self.open_or_close(now)
        return not self.delivery.closed

    def open_or_close(self, now: int) -> None:
        """Work out whether messages may go out."""
        delivery = self.delivery
        if delivery.gated and self.stream.log.index.last_seq >= self.config.min_last_seq:
            delivery.gated = False
            if delivery.number == 0:
                # What is newest is decided when the copy is new enough (ADR-53).
                start = delivery.cursor.next
                begin(delivery, self.config)
                if self.config.deliver_policy == "new":
                    place(delivery, int(start))
                    delivery.cursor.recount()
        delivery.closed = not self.durable or delivery.gated or self.is_paused(now)
        self.rearm()

    def rearm(self) -> None:
        """Find the next time that something is due which no message brings about."""
        config = self.config
        due = [self.push.heartbeat_at, self.groups.pinned_until]
        if config.pause_until is not None and self.delivery.closed:
            due.append(config.pause_until)
        if config.inactive_threshold > 0:
            due.append(self._inactive_at())
        self.delivery.alarm = min((at for at in due if at > 0), default=0)

    def _inactive_at(self) -> int:
        threshold = self.config.inactive_threshold
        if self.config.deliver_subject:
            return self.push.unbound_ns + threshold if self.push.unbound_ns else 0
        last = max(self.requests.last_ns, int(self.delivery.delivered_ns), self.idle_since)
        return last + threshold

    def on_time(self, now: int, _outbox: Outbox) -> None:
        """Do what is due."""
        delivery = self.delivery
        if 0 < delivery.resume_at <= now:
            delivery.resume_at = 0
            self.hub.agenda.add(delivery)
        if delivery.waiting_due:
            self.requests.on_time(now)
        self.push.on_time(now)
        self.groups.on_time(now)
        if self.config.inactive_threshold > 0 and 0 < self._inactive_at() <= now:
            self.requests.drop_gone(now)
            if delivery.waiting:
                self.idle_since = now
            elif not self.is_paused(now) or self.config.deliver_subject:
                self.hub.inactive.append(self)
            else:
                self.idle_since = now
        was_closed = delivery.closed
        self.open_or_close(now)
        if was_closed and not delivery.closed:
            self.hub.agenda.add(delivery)

    def reset(self, seq: int, now: int) -> int:
        """Deliver again from a sequence, 0: from the ack floor; where that is."""
        delivery = self.delivery
        start = seq or int(delivery.floor_seq) + 1
        delivery.pending = type(delivery.pending)()
        delivery.spent = {}
        delivery.cursor.listed = delivery.cursor.listed[0:0]
        delivery.cursor.listed_at = 0
        place(delivery, max(start, 1))
        delivery.cursor.recount()
        self.journal.start_again()
        self.hub.agenda.save(delivery, now)
        self.hub.agenda.add(delivery)
        return max(start, 1)

    def close(self) -> None:
        """The consumer is deleted: whoever waits is told."""
        self.delivery.dropped = True
        self.delivery.closed = True
        self.requests.end_all()
        self.push.stop()

    # Messages ----------------------------------------------------------------------------------

    def pull(self, body: bytes, reply: bytes, now: int, outbox: Outbox) -> None:
        """Take a pull request."""
        self.requests.pull(body, reply, now, outbox)

    def end_request(self, request: Waiting, _block: bytes, _now: int) -> None:
        """A request is over because of its time, or because nobody listens."""
        self.requests.end_expired(request)

    def end_too_small(self, request: Waiting) -> None:
        """A request has no room for the next message."""
        self.requests.end_too_small(request)

    def end_served(self, request: Waiting) -> None:
        """A request has all it asked for."""
        self.requests.end_served(request)

    def choose(self, size: int, now: int) -> Waiting | None:
        """The request that gets the next message, by priority."""
        return self.groups.choose(size, now)

    def ask_to_confirm(self) -> None:
        """Enough is out: flow control."""
        self.push.ask_to_confirm()

    def pace(self, size: int, time: int, now: int) -> bool:
        """Say whether the next message has to wait."""
        at = self.pace_keeper.delay(size, time, int(self.delivery.looking_at), now)
        self.delivery.resume_at = at
        return at > 0

    def heartbeat(self, more: bytes = b"") -> bytes:
        """The status that says where the consumer is."""
        delivery = self.delivery
        cursor = delivery.cursor
        seq = int(cursor.next) - 1
        if cursor.listed_at < len(cursor.listed):
            seq = int(delivery.seq)
        elif cursor.catch_up() <= 0:
            seq = max(seq, int(cursor.index.last_seq))
        return heartbeat_block(int(delivery.number), seq, more)

    def flush_soon(self) -> None:
        """Somebody waits for the journal."""
        self.hub.mark_dirty(self.stream)
        self.hub.agenda.wake()

    def skip_unreadable(self) -> None:
        """The message to be sent cannot be read: it is passed over, and that is told."""
        delivery = self.delivery
        seq = delivery.looking_at
        row = delivery.pending.find(seq)
        deliveries = int(delivery.pending.deliveries(row)) if row >= 0 else 0
        delivery.skip(seq, row)
        self._terminated(int(seq), int(delivery.number), deliveries, UNREADABLE_REASON)

    # Acknowledgements --------------------------------------------------------------------------

    def on_ack_text(self, seq: int, number: int, text: bytes, reply: bytes, now: int) -> None:
        """An acknowledgement that says more than yes."""
        delivery = self.delivery
        row = int(delivery.pending.find(seq))
        if text.startswith(b"+NXT"):
            delivery.acknowledge(seq, number, now, True)
            self.hub.pulls(self, text[4:], reply, now)
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
            self.stream.hold_ack(reply)
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
            delivery.pending.put_off(row, now + delay)
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

    def on_deleted(self, seq: int, now: int) -> None:
        """A message that was pending here left the stream."""
        delivery = self.delivery
        row = int(delivery.pending.find(seq))
        if row < 0:
            return
        number = int(delivery.pending.numbers[row])
        deliveries = int(delivery.pending.deliveries(row))
        delivery.let_go(row)
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
        if self.hub.draw(100) >= sampling(self.config.sample_freq):
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

    # What people ask ---------------------------------------------------------------------------

    def info(self, now: int) -> ConsumerInfo:
        """Everything about the consumer, without what the server adds to its answers."""
        delivery = self.delivery
        self.open_or_close(now)
        if not self.config.deliver_subject:
            self.requests.drop_gone(now)
        redelivered = int(delivery.pending.redelivered) + len(delivery.spent)
        paused = self.is_paused(now)
        remaining = (self.config.pause_until or 0) - now if paused else 0
        return ConsumerInfo(
            stream_name=self.stream.config.name,
            name=self.name,
            created=Timestamp(self.created_ns),
            config=self.config,
            delivered=SequenceInfo(
                consumer_seq=int(delivery.number),
                stream_seq=int(delivery.seq),
                last_active=moment(int(delivery.delivered_ns)),
            ),
            ack_floor=SequenceInfo(
                consumer_seq=int(delivery.floor_number),
                stream_seq=int(delivery.floor_seq),
                last_active=moment(int(delivery.acked_ns)),
            ),
            num_ack_pending=int(delivery.pending.count),
            # Without redeliveries the number would only confuse (released servers).
            num_redelivered=0 if self.config.max_deliver == 1 else redelivered,
            num_waiting=len(delivery.waiting),
            num_pending=max(int(delivery.cursor.catch_up()), 0),
            push_bound=delivery.outlet is not None,
            paused=paused,
            pause_remaining=Nanoseconds(remaining),
            ts=Timestamp(now),
            priority_groups=self.groups.states(),
        )


def moment(ns: int) -> Timestamp | None:
    """A time, or none when it never was."""
    return Timestamp(ns) if ns else None


def filters_of(config: ConsumerConfig) -> list[bytes]:
    """The filters of a consumer; a full wildcard is none."""
    filters = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    if ">" in filters:
        return []
    return [pattern.encode() for pattern in filters]


def sampling(frequency: str) -> int:
    """How many of a hundred acknowledgements are reported."""
    text = frequency.strip().removesuffix("%")
    return min(int(text), 100) if text.isdigit() else 0


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
