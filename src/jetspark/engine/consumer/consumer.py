"""One consumer: its configuration, its lifecycle, and everything that is not per message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.api.advisory import ConsumerPaused
from jetspark.api.base import ZERO_TIME, Timestamp
from jetspark.api.consumer import ConsumerConfig, ConsumerInfo, SequenceInfo
from jetspark.api.enums import AckPolicy, PriorityPolicy, ReplayPolicy
from jetspark.engine.consumer.ack_words import AckWords
from jetspark.engine.consumer.acks import Acks
from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.delivery import Delivery
from jetspark.engine.consumer.groups import Groups
from jetspark.engine.consumer.journal import Journal
from jetspark.engine.consumer.pull import Requests
from jetspark.engine.consumer.push import FLOW_WINDOW_FIRST, Push, RateLimit
from jetspark.engine.consumer.read_errors import ReadErrors
from jetspark.engine.consumer.start import NO_FINDINGS, Findings, begin
from jetspark.engine.consumer.state import ACK_ALL, ACK_EXPLICIT, ACK_NONE, ConsumerState
from jetspark.engine.consumer.statuses import heartbeat_block
from jetspark.errors.storage import ReadFailed
from jetspark.units import Nanoseconds, bounded

if TYPE_CHECKING:
    from jetspark.engine.consumer.services import ConsumerServices
    from jetspark.engine.outbox import Outbox
    from jetspark.engine.stream.stream import Stream

_POLICIES: Final = {
    AckPolicy.NONE: ACK_NONE,
    AckPolicy.ALL: ACK_ALL,
    AckPolicy.EXPLICIT: ACK_EXPLICIT,
}


class Consumer:
    """A consumer of one stream.

    ``state`` is its position, ``journal`` records that; ``delivery`` sends messages and ``acks``
    handles acknowledgements, with ``ack_words`` and ``read_errors`` for the rare cases;
    ``requests``, ``push`` and ``groups`` determine the receivers.
    """

    def __init__(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        created_ns: int,
        consumer_id: int,
        services: ConsumerServices,
        findings: Findings = NO_FINDINGS,
    ) -> None:
        self.stream = stream
        self.config: ConsumerConfig = config
        self.name = name
        self.created_ns = created_ns
        self.id = consumer_id
        self.services = services
        # Whether it is durable; until then nothing is delivered.
        self.durable: bool = False
        # The configuration from which the filters of the cursor were made.
        self._filtered = (config.filter_subject, config.filter_subjects)
        filters = filters_of(config) if findings.filters is None else findings.filters
        cursor = Cursor(stream.log.index, filters, findings.patterns)
        self.state: ConsumerState = ConsumerState(
            stream, services.run_queue, self, cursor, not config.mem_storage
        )
        ack_prefix = b"$JS.ACK.%b.%b." % (stream.name, self.name.encode())
        self.delivery: Delivery = Delivery(self.state, ack_prefix)
        self.acks: Acks = Acks(self.state)
        self.journal: Journal = Journal(self.state, services.wall)
        self.ack_words: AckWords = AckWords(self)
        self.read_errors: ReadErrors = ReadErrors(self)
        self.requests: Requests = Requests(self)
        self.push: Push = Push(self)
        self.groups: Groups = Groups(self)
        self.rate_limit: RateLimit = RateLimit()
        # Since when inactivity counts, unless it was used later.
        self.idle_since: int = 0

    # Lifecycle ---------------------------------------------------------------------------------

    @property
    def in_memory(self) -> bool:
        """Whether the log does not record it: the consumer ends with the process."""
        return self.config.mem_storage

    def label(self) -> str:
        """Return a name for log lines."""
        return f"{self.stream.config.name} > {self.name}"

    def begin(self, findings: Findings = NO_FINDINGS) -> None:
        """Start where the deliver policy says; parts of that may have been searched before."""
        self.state.gate(self.config.min_last_seq > self.stream.log.index.last_seq)
        begin(self.state, self.config, findings)

    def attached(self, now: int) -> None:
        """Attach it to its stream."""
        self.durable = self.in_memory or self.id in self.stream.log.engine_state.consumers
        # Clients could not show that they exist while the server was down.
        self.idle_since = now
        self.configure(self.config, now)

    def configure(
        self, config: ConsumerConfig, now: int, findings: Findings = NO_FINDINGS
    ) -> None:
        """Apply a configuration."""
        self.config = config
        # There may be very many: they are not parsed again for a comparison.
        filtered = (config.filter_subject, config.filter_subjects)
        if filtered != self._filtered:
            self._filtered = filtered
            filters = filters_of(config) if findings.filters is None else findings.filters
            if filters != self.state.cursor.filters:
                self.state.cursor.set_filters(filters, findings.patterns)
                self.state.cursor.recount()
        self.stream_changed()
        self.delivery.configure(
            bounded(config.ack_wait),
            [bounded(wait) for wait in config.backoff],
            0 if config.ack_policy == AckPolicy.NONE else max(config.max_ack_pending, 0),
            max(config.max_deliver, 0),
            config.headers_only,
            config.priority_policy != PriorityPolicy.NONE,
            FLOW_WINDOW_FIRST if config.flow_control else 0,
        )
        self.acks.configure(self.ack_words.configure(config.sample_freq))
        self._set_pace(now)
        self.push.configure(config.deliver_subject, now)
        self.open_or_close(now)
        self.services.run_queue.add(self.state)

    def stream_changed(self) -> None:
        """Adapt to a change of the stream's retention."""
        keeps_interest = self.stream.config.retention != "limits"
        self.state.configure(_POLICIES[self.config.ack_policy], keeps_interest)

    def _set_pace(self, now: int) -> None:
        config = self.config
        limit = self.rate_limit
        burst = self.stream.config.max_msg_size
        limit.limit(config.rate_limit_bps, burst if burst > 0 else self.services.max_payload, now)
        if config.replay_policy == ReplayPolicy.ORIGINAL:
            limit.replay(int(self.stream.log.index.last_seq))
        self.delivery.set_pace(limit.rate > 0 or limit.replay_to > 0)

    def became_durable(self, now: int) -> None:
        """Start delivering: the consumer is durable."""
        if not self.durable:
            self.durable = True
            self.open_or_close(now)
            self.push.look(now)
            self.services.run_queue.add(self.state)

    def bound(self) -> bool:
        """Return whether the deliver subject has a subscriber."""
        return self.delivery.outlet is not None

    def start_seq_by_time(self) -> int:
        """Return the sequence of the configured start time."""
        return int(self.stream.log.reader.first_at(self.config.opt_start_time or 0))

    def pause_event(self, now: int) -> ConsumerPaused:
        """Return the advisory about the start or end of a pause."""
        return ConsumerPaused(
            stream=self.stream.config.name,
            consumer=self.name,
            paused=self.is_paused(now),
            pause_until=self.config.pause_until or ZERO_TIME,
        )

    def is_paused(self, now: int) -> bool:
        """Return whether deliveries are paused until a time in the future."""
        until = self.config.pause_until
        return until is not None and until > self.services.wall.at(now)

    def catch_up(self, now: int) -> None:
        """Adjust it to purges that have not reached it yet: it is used."""
        if self.services.adjustments.by_stream:
            self.services.adjustments.reach(self, now)

    def recount(self, now: int) -> None:
        """Recount everything: many messages were removed at once."""
        if self.state.recount():
            self.services.run_queue.save(self.state, now)
        self.services.run_queue.add(self.state)

    def on_deleted(self, seq: int, now: int) -> None:
        """Handle the removal of a message that was pending here."""
        self.ack_words.on_deleted(seq, now)

    def is_open(self, now: int) -> bool:
        """Return whether messages may be delivered; opens the ``min_last_seq`` gate if due."""
        self.open_or_close(now)
        return not self.delivery.closed

    def open_or_close(self, now: int) -> None:
        """Determine whether messages may be delivered."""
        delivery = self.delivery
        if delivery.state.gated and self.stream.log.index.last_seq >= self.config.min_last_seq:
            self._open_gate(now)
        delivery.open_or_close(not self.durable or self.state.gated or self.is_paused(now))
        self.rearm()

    def _open_gate(self, now: int) -> None:
        """Open the gate, as the stream is new enough: what is newest is decided now (ADR-53)."""
        delivery = self.delivery
        if delivery.state.consumer_seq == 0:
            start = delivery.state.cursor.next
            try:
                begin(self.state, self.config)
            except ReadFailed as problem:
                self.read_errors.stop_at(problem, now)
                return
            if self.config.deliver_policy == "new":
                self.state.start_at(start)
        self.state.gate(False)

    def rearm(self) -> None:
        """Compute the next time at which something is due without a message."""
        config = self.config
        due = [self.push.heartbeat_at, self.groups.pinned_until]
        if config.pause_until is not None and self.delivery.closed:
            due.append(max(self.services.wall.engine_time(config.pause_until), 1))
        if config.inactive_threshold > 0:
            due.append(self._inactive_at())
        self.delivery.set_alarm(min((at for at in due if at > 0), default=0))

    def _inactive_at(self) -> int:
        threshold = bounded(self.config.inactive_threshold)
        if self.config.deliver_subject:
            unbound = self.push.unbound_ns
            return max(unbound, self.idle_since) + threshold if unbound else 0
        last = max(self.requests.last_ns, int(self.state.delivered_ns), self.idle_since)
        return last + threshold

    def stay(self, now: int) -> None:
        """Restart the inactivity timer: it cannot be removed now."""
        self.idle_since = now
        self.rearm()

    def on_time(self, now: int, _outbox: Outbox) -> None:
        """Do what is due."""
        delivery = self.delivery
        if 0 < delivery.resume_at <= now:
            delivery.resume(0)
            self.services.run_queue.add(delivery.state)
        if delivery.waiting_due:
            self.requests.on_time(now)
        self.push.on_time(now)
        self.groups.on_time(now)
        if self.config.inactive_threshold > 0 and 0 < self._inactive_at() <= now:
            self.requests.drop_ended(now)
            if delivery.waiting:
                self.idle_since = now
            elif not self.is_paused(now) or self.config.deliver_subject:
                self.services.report_inactive(self)
            else:
                self.idle_since = now
        was_closed = delivery.closed
        self.open_or_close(now)
        if was_closed and not delivery.closed:
            self.services.run_queue.add(delivery.state)

    def reset(self, seq: int, now: int) -> int:
        """Redeliver from a sequence, 0: from the ack floor; return where that is."""
        state = self.state
        start = max(seq or int(state.floor_seq) + 1, 1)
        state.reset(start, self.stream.config.retention == "workqueue")
        self.journal.start_again()
        self.services.run_queue.save(state, now)
        self.services.run_queue.add(state)
        return start

    def close(self) -> None:
        """Close the deleted consumer: end waiting requests."""
        self.delivery.drop()
        self.requests.end_all()
        self.push.stop()

    def release(self) -> None:
        """Release the parts that refer back to it; it is no longer used."""
        self.state.disown()
        del self.requests, self.push, self.groups, self.ack_words, self.read_errors

    # Messages ----------------------------------------------------------------------------------

    def pull(self, body: bytes, reply: bytes, now: int, outbox: Outbox) -> None:
        """Handle a pull request."""
        self.catch_up(now)
        self.requests.pull(body, reply, now, outbox)

    def pace(self, size: int, time: int, now: int) -> bool:
        """Return whether the next message has to wait."""
        stored = int(self.stream.log.timeline.engine_time(time))
        at = self.rate_limit.delay(size, stored, int(self.delivery.looking_at), now)
        self.delivery.resume(at)
        return at > 0

    def heartbeat(self, more: bytes = b"") -> bytes:
        """Return the status with the position of the consumer."""
        delivery = self.delivery
        cursor = delivery.state.cursor
        seq = int(cursor.next) - 1
        if cursor.listed_at < len(cursor.listed):
            seq = int(delivery.state.seq)
        elif cursor.count_some() and cursor.catch_up() <= 0:
            seq = max(seq, int(cursor.index.last_seq))
        return heartbeat_block(int(delivery.state.consumer_seq), seq, more)

    # Information -------------------------------------------------------------------------------

    def info(self, now: int) -> ConsumerInfo:
        """Return its info, without the fields that the server adds."""
        delivery = self.delivery
        self.catch_up(now)
        self.open_or_close(now)
        self.read_errors.check_readable()
        if not self.config.deliver_subject:
            self.requests.drop_ended(now)
        redelivered = int(delivery.state.pending.redelivered) + len(delivery.state.spent)
        paused = self.is_paused(now)
        wall = self.services.wall
        remaining = (self.config.pause_until or 0) - wall.at(now) if paused else 0
        return ConsumerInfo(
            stream_name=self.stream.config.name,
            name=self.name,
            created=Timestamp(self.created_ns),
            config=self.config,
            delivered=SequenceInfo(
                consumer_seq=int(delivery.state.consumer_seq),
                stream_seq=int(delivery.state.seq),
                last_active=self._date(int(delivery.state.delivered_ns)),
            ),
            ack_floor=SequenceInfo(
                consumer_seq=int(delivery.state.floor_consumer_seq),
                stream_seq=int(delivery.state.floor_seq),
                last_active=self._date(int(delivery.state.acked_ns)),
            ),
            num_ack_pending=int(delivery.state.pending.count),
            # Without redeliveries the number would be misleading (released servers).
            num_redelivered=0 if self.config.max_deliver == 1 else redelivered,
            num_waiting=len(delivery.waiting),
            num_pending=max(int(delivery.state.cursor.catch_up()), 0),
            push_bound=delivery.outlet is not None,
            paused=paused,
            pause_remaining=Nanoseconds(remaining),
            ts=Timestamp(wall.at(now)),
            priority_groups=self.groups.states(),
            stopped=delivery.read_error,
        )

    def _date(self, time_ns: int) -> Timestamp | None:
        """Return the date of an engine time; None if it never happened."""
        return Timestamp(self.services.wall.at(time_ns)) if time_ns else None


def filters_of(config: ConsumerConfig) -> list[bytes]:
    """Return the filters of a consumer; a full wildcard counts as none."""
    filters = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    if ">" in filters:
        return []
    return [pattern.encode() for pattern in filters]
