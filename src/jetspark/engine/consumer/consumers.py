"""The consumers of an engine: creates, updates, journals and notifies them."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from jetspark.api.advisory import ConsumerActed
from jetspark.api.base import decoder, encode
from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import Action
from jetspark.engine.advisories import Advisories
from jetspark.engine.consumer.acks import Acks
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.delivery import Delivery
from jetspark.engine.consumer.interest import Interest
from jetspark.engine.consumer.pending import Pending
from jetspark.engine.consumer.services import ConsumerServices
from jetspark.engine.consumer.start import NO_FINDINGS, Findings
from jetspark.engine.deadlines import Deadlines
from jetspark.engine.failures import Failures
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.stream import Stream
from jetspark.errors.location import where
from jetspark.errors.storage import ReadFailed, StoreReadOnly
from jetspark.store.log.engine_state import ConsumerRecords

log: logging.Logger = logging.getLogger("jetspark.engine")

# When the disk failed a journal write, it is retried this much later.
SAVE_AGAIN_NS = 1_000_000_000


class Document(msgspec.Struct):
    """The document of a consumer in the log."""

    name: str
    config: msgspec.Raw
    created_ns: int


_document = msgspec.json.Decoder(Document).decode
_config = decoder(ConsumerConfig).decode


def name_in(document: bytes) -> str:
    """Return the name of a consumer from its record; empty if it cannot be read."""
    try:
        return _document(document).name
    except msgspec.MsgspecError:
        return ""


# This many consumers write their state in one group.
SAVED_PER_GROUP: Final = 256
# Each may have hundreds of requests to end.
CLOSED_AT_ONCE: Final = 32


class Consumers:
    """The consumers of one account, by name and by deadline."""

    def __init__(
        self,
        services: ConsumerServices,
        interest: Interest,
        advisories: Advisories,
        failures: Failures,
    ) -> None:
        self._services = services
        self._interest = interest
        self._advisories = advisories
        self._failures = failures
        # By `<stream>.<consumer>`, as pull requests and acknowledgements name them.
        self.by_key: dict[bytes, Consumer] = {}
        self.acks: dict[bytes, Acks] = {}
        self.timed: Deadlines[Delivery] = Deadlines()
        # Removed consumers, until nothing refers to them any more.
        self.removed: list[Consumer] = []
        # What those had pending, which is freed some at a time.
        self._freeing: list[Pending] = []
        # Consumers that could not be adopted, and why.
        self._unadopted: list[tuple[str, str]] = []

    # Lifecycle ---------------------------------------------------------------------------------

    def add(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        now: int,
        outbox: Outbox,
        findings: Findings = NO_FINDINGS,
    ) -> Consumer:
        """Create a consumer from a prepared configuration; raises StoreReadOnly.

        It delivers nothing before it is durable; its client is answered then, too.
        """
        consumer_id = stream.log.staged.last_consumer_id + 1
        # By the clock of the stream: it is compared with the times of messages.
        created = int(stream.log.timeline.stored_time(now))
        consumer = Consumer(stream, name, config, created, consumer_id, self._services, findings)
        consumer.begin(findings)
        self._stage_document(consumer, config)
        self._attach(consumer, now)
        event = ConsumerActed(
            stream=stream.config.name, consumer=consumer.name, action=Action.CREATE
        )
        self._advisories.hold(event, stream, now, outbox)
        return consumer

    def _attach(self, consumer: Consumer, now: int) -> None:
        stream = consumer.stream
        stream.add_consumer(consumer.name, consumer, consumer.state)
        key = self._key(consumer)
        self.by_key[key] = consumer
        self.acks[key] = consumer.acks
        consumer.attached(now)
        self.timed.note(consumer.delivery)

    def _stage_document(self, consumer: Consumer, config: ConsumerConfig) -> None:
        if config.mem_storage:
            return
        document = Document(consumer.name, msgspec.Raw(encode(config)), consumer.created_ns)
        consumer.stream.log.staged.set_consumer(consumer.id, msgspec.json.encode(document))
        self._save(consumer)
        self._services.mark_dirty(consumer.stream)

    @staticmethod
    def _key(consumer: Consumer) -> bytes:
        return consumer.stream.name + b"." + consumer.name.encode()

    def update(
        self,
        stream: Stream,
        consumer: Consumer,
        config: ConsumerConfig,
        now: int,
        outbox: Outbox,
        findings: Findings = NO_FINDINGS,
    ) -> None:
        """Change the configuration of a consumer; raises StoreReadOnly."""
        before = consumer.config
        self._stage_document(consumer, config)
        consumer.configure(config, now, findings)
        consumer.groups.configured()
        self.send_events(now, outbox)
        self.timed.note(consumer.delivery)
        if before.pause_until != config.pause_until:
            self._advisories.hold(consumer.pause_event(now), stream, now, outbox)
        self._interest.changed(stream)

    def settle(self, stream: Stream, consumer: Consumer) -> None:
        """Write unsaved state of a consumer to the journal with the next group."""
        if consumer.state.unsaved and not consumer.in_memory and not stream.log.access.read_only:
            consumer.state.saved()
            self._save(consumer)
            self._services.mark_dirty(stream)

    def reset(self, stream: Stream, consumer: Consumer, seq: int, now: int) -> int:
        """Redeliver from a sequence, 0: from after the ack floor; return where that is."""
        if stream.log.access.read_only and not consumer.in_memory:
            raise StoreReadOnly(f"stream {stream.config.name!r} is read-only")
        # Acknowledged messages are removed first: the rest may be skipped, and stays in a queue.
        self._interest.acknowledged(consumer.state)
        start = consumer.reset(seq, now)
        self.settle(stream, consumer)
        self._interest.changed(stream)
        return start

    def unpin(self, consumer: Consumer, now: int, outbox: Outbox) -> None:
        """Unpin the pinned client."""
        consumer.groups.unpin("admin")
        self.send_events(now, outbox)

    def drop(self, stream: Stream, consumer: Consumer, now: int, outbox: Outbox) -> None:
        """Delete a consumer; raises StoreReadOnly."""
        if not consumer.in_memory:
            stream.log.staged.set_consumer(consumer.id, b"")
            self._services.mark_dirty(stream)
        self._detach(consumer)
        event = ConsumerActed(
            stream=stream.config.name, consumer=consumer.name, action=Action.DELETE
        )
        self._advisories.hold(event, stream, now, outbox)
        self._interest.changed(stream)

    def send_events(self, now: int, outbox: Outbox) -> None:
        """Send the queued advisories."""
        for event in self._services.take_events():
            self._advisories.send(event, now, outbox)

    def release_removed(self) -> None:
        """Break the reference cycles of consumers that were removed before this turn.

        Otherwise only a pass of the garbage collector over all objects would free them.
        """
        if not self.removed:
            self._free_some()
            return
        removed, self.removed = self.removed, []
        for consumer in removed:
            if consumer.state.listed:
                self.removed.append(consumer)
            else:
                consumer.release()
                self._freeing.append(consumer.state.pending)
        self._free_some()

    def has_removed(self) -> bool:
        """Return whether removed consumers are still to be released, or freed."""
        return bool(self.removed or self._freeing)

    def _free_some(self) -> None:
        """Free what removed consumers had: a million objects are not freed in one turn."""
        freeing = self._freeing
        while freeing and freeing[-1].free_some():
            freeing.pop()
        if freeing:
            self._services.run_queue.wake()

    def _detach(self, consumer: Consumer) -> None:
        stream = consumer.stream
        consumer.close()
        self.removed.append(consumer)
        self._services.run_queue.wake()
        self._services.run_queue.forget_unsaved(consumer.state)
        self.timed.forget()
        stream.remove_consumer(consumer.name, consumer.state)
        key = self._key(consumer)
        self.by_key.pop(key, None)
        self.acks.pop(key, None)

    def drop_all(self, stream: Stream) -> list[Consumer]:
        """Remove the consumers of a removed stream; ``close_some`` must follow.

        No one finds them any more, and they deliver nothing.
        """
        dropped: list[Consumer] = stream.take_consumers()
        for consumer in dropped:
            consumer.delivery.drop()
            key = self._key(consumer)
            self.by_key.pop(key, None)
            self.acks.pop(key, None)
        states = [consumer.state for consumer in dropped]
        stream.attached.remove_all(states)
        stream.log.index.track(bool(stream.attached.all))
        self._services.run_queue.forget_all_unsaved(states)
        return dropped

    def close_some(self, dropped: list[Consumer]) -> bool:
        """Close some of very many consumers that were dropped; True when all are closed."""
        self._services.run_queue.wake()
        for consumer in dropped[-CLOSED_AT_ONCE:]:
            consumer.close()
            self.removed.append(consumer)
            self.timed.forget()
        del dropped[-CLOSED_AT_ONCE:]
        return not dropped

    def adopt_all(self, stream: Stream, now: int) -> None:
        """Adopt the consumers in the log of a stream."""
        for consumer_id, records in stream.log.engine_state.consumers.items():
            self._adopt(stream, consumer_id, records, now)
        if stream.consumers:
            # Messages acknowledged before the crash may not have been removed.
            self._interest.changed(stream)

    def _adopt(self, stream: Stream, consumer_id: int, records: ConsumerRecords, now: int) -> None:
        name = stream.config.name
        document = records.document
        consumer: Consumer | None = None
        try:
            try:
                consumer = self.recorded(
                    stream, consumer_id, document, records.state, records.changes, now
                )
            except (msgspec.MsgspecError, ValueError) as problem:
                consumer = self.recorded(stream, consumer_id, document, b"", [], now)
                text = "Stream %r: the state of consumer %r cannot be read; it starts again: %s"
                log.error(text, name, consumer.name, problem)  # noqa: TRY400 - no traceback
                try:
                    consumer.begin()
                except ReadFailed as refused:
                    # From the first message on: redelivery is better than skipping.
                    log.error("Stream %r: %s", name, refused)  # noqa: TRY400 - no traceback
                    consumer.state.start_at(max(int(stream.log.index.first_seq), 1))
            self._attach(consumer, now)
        except Exception as problem:  # noqa: BLE001 - one consumer, not the start
            # Its records stay in the log, and all others are served. What it had not received is
            # unknown, so a stream with interest retention keeps everything.
            stream.attached.lose_one()
            label = name_in(document) or f"id {consumer_id}"
            text = "Stream %r: consumer %s cannot be served; its records are kept: %s"
            log.error(text, name, label, where(problem))  # noqa: TRY400 - no traceback
            self._unadopted.append((label, where(problem)))
            if consumer is not None:
                self._detach(consumer)

    def take_unadopted(self) -> list[tuple[str, str]]:
        """Return the consumers that could not be adopted since the last call, and why."""
        taken, self._unadopted = self._unadopted, []
        return taken

    def recorded(
        self,
        stream: Stream,
        consumer_id: int,
        document: bytes,
        state: bytes,
        changes: list[bytes],
        now: int,
    ) -> Consumer:
        """Return the consumer in a record, not adopted yet; raises if it is not a record."""
        found = _document(document)
        consumer = Consumer(
            stream,
            found.name,
            _config(found.config),
            found.created_ns,
            consumer_id,
            self._services,
        )
        consumer.journal.restore(state, changes, now)
        return consumer

    # Events of streams -------------------------------------------------------------------------

    def committed(self, stream: Stream, purges: list[bytes], now: int) -> None:
        """Handle a durable group of a stream: new consumers start, all are woken once.

        ``purges`` are the patterns of purges that became durable.
        """
        for consumer in stream.consumers.values():
            if not consumer.durable and consumer.id in stream.log.engine_state.consumers:
                consumer.became_durable(now)
                self.timed.note(consumer.delivery)
        self.note_removals(stream, purges, now)
        stream.attached.wake()

    def note_removals(self, stream: Stream, purges: list[bytes], now: int) -> None:
        """Notify the consumers of a stream of removed messages."""
        index = stream.log.index
        if not index.tracking:
            return
        attached = stream.attached
        if purges or index.recount:
            index.forget_removed()
            for state in attached.count_again():
                state.owner.recount(now)
            self._services.adjustments.add(stream, purges, now)
            self._services.run_queue.wake()
        elif len(index.removed_seqs):
            for state, seq in attached.note_removals(index):
                state.owner.on_deleted(seq, now)
            index.forget_removed()

    def failed(self, stream: Stream) -> None:
        """Undo everything staged in a stream: consumers that are not in the log do not exist."""
        for consumer in list(stream.consumers.values()):
            if consumer.in_memory:
                continue
            records = stream.log.engine_state.consumers.get(consumer.id)
            if records is None:
                self._detach(consumer)
                continue
            consumer.journal.start_again()
            self._services.run_queue.save(consumer.state, self._services.now + SAVE_AGAIN_NS)
            durable = _config(_document(records.document).config)
            if durable != consumer.config:
                consumer.configure(durable, self._services.now)
        # Those in memory use no ids: another one may have the same.
        known = {consumer.id for consumer in stream.consumers.values() if not consumer.in_memory}
        for consumer_id, records in stream.log.engine_state.consumers.items():
            if consumer_id not in known:
                # Its deletion failed.
                self._adopt(stream, consumer_id, records, self._services.now)

    def stream_changed(self, stream: Stream) -> None:
        """Adapt the consumers to a new configuration of their stream."""
        if not stream.consumers:
            return
        for consumer in stream.consumers.values():
            consumer.stream_changed()
        self._interest.changed(stream)

    def save(self, stream: Stream) -> None:
        """Stage unsaved state of a stream's consumers.

        Messages that are no longer needed are removed with it: so an acknowledgement that is
        answered when the record is durable includes the removal it causes.
        """
        if stream.config.retention != "limits":
            for state in stream.attached.all:
                if state.has_released():
                    self._interest.acknowledged(state)
        run_queue = self._services.run_queue
        if stream not in run_queue.unsaved or stream.log.access.read_only:
            return
        for state in run_queue.take_unsaved(stream, SAVED_PER_GROUP):
            consumer: Consumer = state.owner
            if not consumer.delivery.dropped and not consumer.in_memory:
                self._save(consumer)
        if stream in run_queue.unsaved:
            self._services.mark_dirty(stream)  # the others are in later groups

    def _save(self, consumer: Consumer) -> None:
        whole, body = consumer.journal.next_record(consumer.requests.last_ns)
        consumer.stream.log.staged.set_consumer_state(consumer.id, whole, body)

    def end_requests(self) -> None:
        """End waiting pull requests: the server is stopping."""
        for consumer in list(self.by_key.values()):
            consumer.requests.end_for_shutdown()

    def save_all(self) -> None:
        """Write the journal of every consumer with the next groups."""
        for state in self._services.run_queue.begin_saving():
            if state.journalled:
                self._services.mark_dirty(state.stream)

    def follow_wall(self, now: int) -> None:
        """Adjust pauses after the wall clock was set."""
        for consumer in self.by_key.values():
            if consumer.config.pause_until is not None:
                consumer.open_or_close(now)
                self._services.run_queue.add(consumer.state)
                self.timed.note(consumer.delivery)

    def next_deadline(self) -> int | None:
        """Return when ``expire`` has something to do."""
        timed = self.timed.next()
        saved = int(self._services.run_queue.save_at)
        if not saved:
            return timed
        return saved if timed is None else min(saved, timed)

    def expire(self, now: int, outbox: Outbox) -> None:
        """Do what is due."""
        self._services.reached(now)
        if 0 < self._services.run_queue.save_at <= now:
            self.save_all()
        for delivery in self.timed.due(now):
            try:
                delivery.expire(now, outbox)
                self.timed.note(delivery)
            except Exception as error:  # noqa: BLE001 - one consumer, not all
                consumer: Consumer = delivery.state.owner
                self._failures.note(f"deadlines of consumer {consumer.label()}", error)
        for consumer in self._services.take_inactive():
            if consumer.stream.log.access.read_only and not consumer.in_memory:
                consumer.stay(now)
                self.timed.note(consumer.delivery)
                continue
            self.drop(consumer.stream, consumer, now, outbox)
