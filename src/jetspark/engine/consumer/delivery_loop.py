"""Requests to consumers, and the turns in which they deliver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from jetspark.engine.consumer.delivery import FULL, IDLE, MORE, PACED, Delivery
from jetspark.engine.consumer.state import ACK_NONE, ConsumerState
from jetspark.engine.direct.request import LEVEL_TOO_LOW, needs_newer
from jetspark.engine.failures import failure_answer
from jetspark.engine.outbox import Budget, Outbox
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.status import CONFLICT, CONSUMER_DELETED_TEXT, status_block
from jetspark.store.log.long_read import LongRead

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.consumer.consumers import Consumers
    from jetspark.engine.consumer.interest import Interest
    from jetspark.engine.consumer.services import ConsumerServices
    from jetspark.engine.failures import Failures
    from jetspark.engine.long_work import LongWork, Work


# This many consumers per turn check their deliver subject for subscribers.
LOOKS_PER_TURN: Final = 128


class DeliveryLoop:
    """Handles requests and acknowledgements, and gives every consumer its turn to deliver."""

    def __init__(
        self,
        services: ConsumerServices,
        consumers: Consumers,
        interest: Interest,
        failures: Failures,
        long_work: LongWork,
    ) -> None:
        self._long_work = long_work
        self._services = services
        self._consumers = consumers
        self._interest = interest
        self._failures = failures
        # Those whose receivers' buffers are full.
        self.stalled: list[Delivery] = []
        # By deliver subject: those of very many consumers that still have to check for
        # subscribers.
        self._looks: dict[bytes, list[Consumer]] = {}

    # Messages ----------------------------------------------------------------------------------

    def pull(
        self, key: bytes, headers: bytes, body: bytes, reply: bytes, now: int, outbox: Outbox
    ) -> bool:
        """Handle a pull request for ``<stream>.<consumer>``; False if it does not exist."""
        consumer = self._consumers.by_key.get(key)
        if consumer is None:
            return False
        if headers and needs_newer(headers):
            outbox.reply_status(reply, LEVEL_TOO_LOW)
            return True
        consumer.pull(body, reply, now, outbox)
        self._consumers.timed.note(consumer.delivery)
        return True

    def on_ack(self, key: bytes, subject: bytes, body: bytes, reply: bytes, now: int) -> bool:
        """Handle an acknowledgement by its whole subject; for drivers that need no speed."""
        acks = self._consumers.acks.get(key)
        if acks is None or acks.state.policy == ACK_NONE:
            return False
        numbers = subject.split(b".")[4:]
        acks.on_ack(int(numbers[1]), int(numbers[2]), body, reply, now)
        return True

    def confirmed(self, key: bytes, subject: bytes) -> None:
        """Handle the answer of a receiver to flow control."""
        consumer = self._consumers.by_key.get(key)
        if consumer is not None:
            consumer.push.on_confirmed(subject)

    def interest_changed(self, subject: bytes, now: int) -> None:
        """Handle added or removed subscriptions to a deliver subject."""
        watching = self._services.watched.get(subject, [])
        if len(watching) > LOOKS_PER_TURN:
            # Those of an earlier change check again, in the same order.
            self._looks[subject] = list(watching)
            self._services.run_queue.wake()
            return
        for consumer in watching:
            self._look(consumer, now)

    def _look(self, consumer: Consumer, now: int) -> None:
        consumer.push.look(now)
        self._consumers.timed.note(consumer.delivery)

    def _look_some(self, now: int) -> None:
        """Let some of very many consumers check their deliver subject for subscribers."""
        for subject, watching in list(self._looks.items())[:1]:
            for consumer in watching[:LOOKS_PER_TURN]:
                if not consumer.delivery.dropped:
                    self._look(consumer, now)
            del watching[:LOOKS_PER_TURN], self._looks[subject]
            if watching:
                self._looks[subject] = watching  # after the others

    # Turns -------------------------------------------------------------------------------------

    def advance(self, budget: Budget, now: int, outbox: Outbox) -> None:
        """Continue deliveries, within one turn's budget."""
        for consumer, body, reply, asked in self._services.take_pulled():
            if consumer.delivery.dropped:
                outbox.reply_status(reply, status_block(CONFLICT, CONSUMER_DELETED_TEXT))
                continue
            try:
                consumer.pull(body, reply, asked, outbox)
            except Exception as error:  # noqa: BLE001 - one request
                self._failures.note(f"a request of consumer {consumer.label()}", error)
                failure_answer(reply, None, error, outbox)
        self._look_some(now)
        self._services.adjustments.step(now)
        self._deliver(budget, now)
        self._consumers.send_events(now, outbox)
        self._consumers.release_removed()

    def has_turn(self) -> bool:
        """Return whether there is anything to do: for a lone publisher there is not."""
        run_queue, services = self._services.run_queue, self._services
        if run_queue.ready or run_queue.noted or services.pulled:
            return True
        if services.adjustments.by_stream:
            return True
        return bool(services.events or self._looks or self._consumers.has_removed())

    def can_deliver(self) -> bool:
        """Return whether consumers can send more now."""
        services = self._services
        return bool(services.run_queue.ready or self._looks or services.adjustments.by_stream)

    def _deliver(self, budget: Budget, now: int) -> None:
        run_queue = self._services.run_queue
        turn = run_queue.take_ready()
        for done, state in enumerate(turn):
            if not budget.left():
                run_queue.put_back(turn[done:])
                break
            state.begin_turn()
            consumer: Consumer = state.owner
            if consumer.delivery.dropped:
                continue
            work = state.stream.log.index.turn
            before = int(work.left)
            try:
                self._step(state, consumer, budget, now)
            except Exception as error:  # noqa: BLE001 - one consumer, not all
                # Retried when there is something new for it; the others continue.
                self._failures.note(f"deliveries of consumer {consumer.label()}", error)
            # Searches for its subjects and its receivers.
            spent = before - int(work.left)
            if spent > 0:
                budget.spend_search(2 * spent)
        for delivery in run_queue.take_noted():
            self._consumers.timed.note(delivery)

    def _step(self, state: ConsumerState, consumer: Consumer, budget: Budget, now: int) -> None:
        delivery = consumer.delivery
        consumer.catch_up(now)
        if delivery.reading:
            return
        if delivery.read_error and now < delivery.resume_at:
            consumer.requests.end_unread()
            return
        if state.gated:
            consumer.open_or_close(now)
        try:
            reason = delivery.step(budget, now)
            if delivery.read_error:
                consumer.read_errors.check_readable()
        except LongRead as read:
            delivery.read_later(True)
            self._long_work.wait(read, partial(self._was_read, state, delivery))
            reason = PACED
        except ReadFailed as problem:
            consumer.read_errors.stop_at(problem, now)
            reason = PACED
        except CorruptRecord:
            consumer.read_errors.skip_unreadable()
            reason = MORE
        if reason == MORE:
            self._services.run_queue.requeue(state)
        elif reason == FULL and not delivery.stalled:
            delivery.stall()
            self.stalled.append(delivery)
        elif reason == IDLE and delivery.waiting:
            consumer.requests.end_of_messages()
        if state.has_released():
            self._interest.acknowledged(state)
        self._consumers.timed.note(delivery)

    def _was_read(self, state: ConsumerState, delivery: Delivery, _work: Work) -> None:
        """Continue a consumer whose next message was read in the background."""
        delivery.read_later(False)
        if not delivery.dropped:
            self._services.run_queue.add_first(state)

    def unstall(self) -> bool:
        """Continue those whose receivers have room again; False if there are none."""
        found = False
        left = []
        for delivery in self.stalled:
            if delivery.dropped:
                continue
            if not delivery.has_receiver() or delivery.is_full():
                left.append(delivery)
            else:
                delivery.unstall()
                self._services.run_queue.add(delivery.state)
                found = True
        self.stalled = left
        return found
