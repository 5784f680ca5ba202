"""The consumers of an engine: made, changed, told what happens, and given their turn."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jetspark.api.advisory import ConsumerActed
from jetspark.api.base import decoder, encode
from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import Action
from jetspark.engine.advisories import Advisories
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.delivery import ACK_NONE, FULL, IDLE, MORE, Delivery, Readers
from jetspark.engine.consumer.hub import Hub
from jetspark.engine.deadlines import Deadlines
from jetspark.engine.direct.gets import Gets
from jetspark.engine.direct.request import LEVEL_TOO_LOW, needs_newer
from jetspark.engine.limits import READ_BYTES_PER_TURN, READ_RECORDS_PER_TURN
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.errors.storage import CorruptRecord, StoreReadOnly


class Document(msgspec.Struct):
    """What the log says of a consumer."""

    config: msgspec.Raw
    created_ns: int


_document = msgspec.json.Decoder(Document).decode
_config = decoder(ConsumerConfig).decode


class Consumers(Gets):
    """The part of an engine that delivers."""

    advisories: Advisories
    mark_dirty: Callable[[Stream], None]

    def __init__(self, wait_ns: int, held_max: int, next_id: Callable[[], str], seed: int) -> None:
        super().__init__(wait_ns, held_max)
        self.hub = Hub(next_id, seed)
        self.hub.outlet_for = self._outlet
        self.hub.push_outlet_for = self._push_outlet
        self.hub.mark_dirty = self._mark_dirty
        self.hub.pulls = self._pull_again
        # By `<stream>.<consumer>`, as pull requests and acknowledgements name them.
        self.deliveries: dict[bytes, Delivery] = {}
        # Set by the driver: finds whoever listens on a deliver subject, as a member of a group.
        self.push_outlet_for: Callable[[bytes, bytes], Outlet | None] = lambda _s, _g: None
        # Those whose receivers have enough waiting.
        self.stalled: list[Delivery] = []
        self._pulled: list[tuple[Consumer, bytes, bytes, int]] = []
        self._timed: Deadlines[Delivery] = Deadlines()

    # The driver sets some of these later, so they are looked up when they are called.

    def _outlet(self, subject: bytes) -> Outlet | None:
        return self.outlet_for(subject)

    def _push_outlet(self, subject: bytes, group: bytes) -> Outlet | None:
        return self.push_outlet_for(subject, group)

    def _mark_dirty(self, stream: Stream) -> None:
        self.mark_dirty(stream)

    # Life --------------------------------------------------------------------------------------

    def readers_of(self, stream: Stream) -> Readers:
        """Whoever is to be told what happens in a stream."""
        if stream.readers is None:
            stream.readers = Readers(self.hub.agenda)
        readers = stream.readers
        assert isinstance(readers, Readers)
        return readers

    def add_consumer(
        self, stream: Stream, config: ConsumerConfig, now: int, outbox: Outbox
    ) -> Consumer:
        """Make a consumer from a prepared configuration; raises StoreReadOnly.

        It delivers nothing before it is durable; whoever asked for it is answered then, too.
        """
        number = stream.log.consumer_number + 1
        consumer = Consumer(stream, config, now, number, self.hub, self.readers_of(stream))
        consumer.begin()
        self._stage_document(consumer)
        self._attach(consumer, now)
        event = ConsumerActed(
            stream=stream.config.name, consumer=consumer.name, action=Action.CREATE
        )
        self.advisories.hold(event, stream, now, outbox)
        return consumer

    def _attach(self, consumer: Consumer, now: int) -> None:
        stream = consumer.stream
        stream.consumers[consumer.name] = consumer
        consumer.readers.all.append(consumer.delivery)
        stream.log.index.tracking = True
        self.deliveries[self._key(consumer)] = consumer.delivery
        consumer.durable = consumer.in_memory or consumer.number in stream.log.consumers
        consumer.configure(consumer.config, now)
        self._timed.note(consumer.delivery)

    def _stage_document(self, consumer: Consumer) -> None:
        if consumer.in_memory:
            return
        document = Document(msgspec.Raw(encode(consumer.config)), consumer.created_ns)
        log = consumer.stream.log
        log.stage_consumer(consumer.number, msgspec.json.encode(document))
        whole, body = consumer.journal.next_record(consumer.requests.last_ns)
        log.stage_consumer_state(consumer.number, whole, body)
        self.mark_dirty(consumer.stream)

    @staticmethod
    def _key(consumer: Consumer) -> bytes:
        return consumer.stream.name + b"." + consumer.name.encode()

    def update_consumer(
        self, stream: Stream, consumer: Consumer, config: ConsumerConfig, now: int
    ) -> None:
        """Decide that a consumer has another configuration; raises StoreReadOnly."""
        before = consumer.config
        consumer.config = config
        try:
            self._stage_document(consumer)
        except StoreReadOnly:
            consumer.config = before
            raise
        consumer.configure(config, now)
        self._timed.note(consumer.delivery)
        self.look_for_interest(stream, now)

    def drop_consumer(self, stream: Stream, consumer: Consumer, now: int, outbox: Outbox) -> None:
        """Decide that a consumer is no more; raises StoreReadOnly."""
        if not consumer.in_memory:
            stream.log.stage_consumer(consumer.number, b"")
            self.mark_dirty(stream)
        self._detach(consumer)
        event = ConsumerActed(
            stream=stream.config.name, consumer=consumer.name, action=Action.DELETE
        )
        self.advisories.hold(event, stream, now, outbox)
        self.look_for_interest(stream, now)

    def _detach(self, consumer: Consumer) -> None:
        stream = consumer.stream
        consumer.close()
        stream.consumers.pop(consumer.name, None)
        self.deliveries.pop(self._key(consumer), None)
        readers = consumer.readers
        readers.all = [other for other in readers.all if other is not consumer.delivery]
        readers.receiving = [d for d in readers.receiving if d is not consumer.delivery]
        stream.log.index.tracking = bool(readers.all)

    def drop_consumers(self, stream: Stream) -> None:
        """A stream is removed, and with it whoever reads it."""
        for consumer in list(stream.consumers.values()):
            self._detach(consumer)

    def adopt_consumers(self, stream: Stream) -> None:
        """Take over the consumers that the log of a stream knows."""
        for number, records in stream.log.consumers.items():
            document = _document(records.document)
            config = _config(document.config)
            consumer = Consumer(
                stream, config, document.created_ns, number, self.hub, self.readers_of(stream)
            )
            active = consumer.journal.restore(records.state, records.changes)
            consumer.idle_since = max(active, document.created_ns)
            self._attach(consumer, consumer.idle_since)

    def look_for_interest(self, stream: Stream, now: int) -> None:
        """Interest in messages changed: the stream may keep too many."""

    # Messages ----------------------------------------------------------------------------------

    def pull(
        self, key: bytes, headers: bytes, body: bytes, reply: bytes, now: int, outbox: Outbox
    ) -> bool:
        """Take a pull request for ``<stream>.<consumer>``; False when there is no such one."""
        delivery = self.deliveries.get(key)
        if delivery is None:
            return False
        if headers and needs_newer(headers):
            outbox.reply_status(reply, LEVEL_TOO_LOW)
            return True
        delivery.owner.pull(body, reply, now, outbox)
        self._timed.note(delivery)
        return True

    def _pull_again(self, consumer: Consumer, body: bytes, reply: bytes, now: int) -> None:
        """An acknowledgement asks for more, too."""
        self._pulled.append((consumer, body, reply, now))
        self.hub.agenda.wake()

    def on_ack(self, key: bytes, subject: bytes, body: bytes, reply: bytes, now: int) -> bool:
        """Take an acknowledgement by its whole subject; for drivers that are in no hurry."""
        delivery = self.deliveries.get(key)
        if delivery is None or delivery.policy == ACK_NONE:
            return False
        numbers = subject.split(b".")[4:]
        delivery.on_ack(int(numbers[1]), int(numbers[2]), body, 0, len(body), reply, now)
        return True

    def confirmed(self, key: bytes, subject: bytes) -> None:
        """A receiver confirms what flow control asked it."""
        delivery = self.deliveries.get(key)
        if delivery is not None:
            delivery.owner.push.on_confirmed(subject)

    def interest_changed(self, subject: bytes, now: int) -> None:
        """Subscriptions to a deliver subject came or went."""
        for consumer in self.hub.watched.get(subject, []):
            consumer.push.look(now)
            self._timed.note(consumer.delivery)

    # Turns -------------------------------------------------------------------------------------

    def advance(self, now: int = 0, outbox: Outbox | None = None) -> bool:
        """Go on with reads and deliveries, within one turn's budget; True while some remain.

        Without time and outbox only the reads go on.
        """
        budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
        self.advance_reads(budget)
        if outbox is not None:
            for consumer, body, reply, asked in self._take_pulled():
                consumer.pull(body, reply, asked, outbox)
            self._deliver(budget, now)
            self._tell(now, outbox)
        return bool(self.work or self.hub.agenda.ready)

    def _take_pulled(self) -> list[tuple[Consumer, bytes, bytes, int]]:
        taken, self._pulled = self._pulled, []
        return taken

    def _deliver(self, budget: Budget, now: int) -> None:
        agenda = self.hub.agenda
        turn, agenda.ready = agenda.ready, []
        for done, delivery in enumerate(turn):
            if not budget.left():
                agenda.ready = turn[done:] + agenda.ready
                break
            delivery.listed = False
            if not delivery.dropped:
                self._step(delivery, budget, now)
        for delivery in agenda.noted:
            self._timed.note(delivery)
        agenda.noted = []

    def _step(self, delivery: Delivery, budget: Budget, now: int) -> None:
        consumer: Consumer = delivery.owner
        if delivery.gated:
            consumer.open_or_close(now)
        try:
            reason = delivery.step(budget, now)
        except CorruptRecord:
            consumer.skip_unreadable()
            reason = MORE
        if reason == MORE:
            delivery.listed = True
            self.hub.agenda.ready.append(delivery)
        elif reason == FULL:
            self.stalled.append(delivery)
        elif reason == IDLE and delivery.waiting:
            consumer.requests.end_of_messages()
        if delivery.released:
            self.look_at_released(delivery, now)
        self._timed.note(delivery)

    def look_at_released(self, delivery: Delivery, now: int) -> None:
        """Messages were acknowledged in a stream that keeps only what somebody needs."""
        delivery.released = []

    def unstall(self) -> bool:
        """Go on with those whose receivers have room again; False when there are none."""
        found = False
        left = []
        for delivery in self.stalled:
            if delivery.dropped:
                continue
            if is_full(delivery):
                left.append(delivery)
            else:
                self.hub.agenda.add(delivery)
                found = True
        self.stalled = left
        return found

    def _tell(self, now: int, outbox: Outbox) -> None:
        events, self.hub.events = self.hub.events, []
        for event in events:
            self.advisories.send(event, now, outbox)

    # What happens to streams -------------------------------------------------------------------

    def consumers_committed(self, stream: Stream, now: int) -> None:
        """The group of a stream is durable: consumers made in it begin, all are told once."""
        for consumer in stream.consumers.values():
            if not consumer.durable and consumer.number in stream.log.consumers:
                consumer.became_durable(now)
                self._timed.note(consumer.delivery)
        self.note_removals(stream, now)
        if stream.readers is not None:
            stream.readers.wake()

    def note_removals(self, stream: Stream, now: int) -> None:
        """Tell the consumers of a stream which messages are gone."""
        index = stream.log.index
        if not index.tracking:
            return
        readers = self.readers_of(stream)
        if index.recount:
            index.forget_removed()
            for delivery in readers.all:
                delivery.owner.recount(now)
        elif len(index.removed_seqs):
            for delivery, seq in readers.note_removals(index):
                delivery.owner.on_deleted(seq, now)
            index.forget_removed()

    def consumers_failed(self, stream: Stream) -> None:
        """Nothing that was staged in a stream is there: what the log does not know never was."""
        for consumer in list(stream.consumers.values()):
            if consumer.in_memory:
                continue
            records = stream.log.consumers.get(consumer.number)
            if records is None:
                self._detach(consumer)
                continue
            consumer.journal.start_again()
            durable = _config(_document(records.document).config)
            if durable != consumer.config:
                consumer.configure(durable, int(stream.log.index.last_time))

    def save_consumers(self, stream: Stream) -> None:
        """Stage what the journal does not know yet of a stream's consumers."""
        agenda = self.hub.agenda
        if not agenda.unsaved or stream.log.read_only:
            return
        left = []
        for delivery in agenda.unsaved:
            if delivery.stream is not stream:
                left.append(delivery)
                continue
            delivery.unsaved = False
            consumer: Consumer = delivery.owner
            if delivery.dropped or consumer.in_memory:
                continue
            whole, body = consumer.journal.next_record(consumer.requests.last_ns)
            stream.log.stage_consumer_state(consumer.number, whole, body)
        agenda.unsaved = left
        if not left:
            agenda.save_at = 0

    def save_all(self) -> None:
        """Have the journal of every consumer written with the next groups."""
        self.hub.agenda.save_at = 0
        for delivery in self.hub.agenda.unsaved:
            if not delivery.owner.in_memory:
                self.mark_dirty(delivery.stream)

    def consumer_deadline(self) -> int | None:
        """When ``expire_consumers`` has something to do."""
        timed = self._timed.next()
        saved = int(self.hub.agenda.save_at)
        if not saved:
            return timed
        return saved if timed is None else min(saved, timed)

    def expire_consumers(self, now: int, outbox: Outbox) -> None:
        """Do what is due."""
        if 0 < self.hub.agenda.save_at <= now:
            self.save_all()
        for delivery in self._timed.due(now):
            delivery.expire(now, outbox)
            self._timed.note(delivery)
        inactive, self.hub.inactive = self.hub.inactive, []
        for consumer in inactive:
            if consumer.stream.log.read_only and not consumer.in_memory:
                continue
            self.drop_consumer(consumer.stream, consumer, now, outbox)


def is_full(delivery: Delivery) -> bool:
    """Say whether all receivers of a consumer have enough waiting."""
    if delivery.outlet is not None:
        return delivery.outlet.full()
    return all(request.outlet.full() for request in delivery.waiting)
