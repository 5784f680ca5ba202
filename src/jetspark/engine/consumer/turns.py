"""What clients ask of consumers, and the turns in which messages go out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.engine.consumer.agenda import ACK_NONE, Reader
from jetspark.engine.consumer.config import NO_CEILINGS, Ceilings
from jetspark.engine.consumer.delivery import FULL, IDLE, MORE, PACED, Delivery
from jetspark.engine.consumer.hub import Hub
from jetspark.engine.deadlines import Deadlines
from jetspark.engine.direct.gate import HeldReads
from jetspark.engine.direct.gets import Gets
from jetspark.engine.direct.request import LEVEL_TOO_LOW, needs_newer
from jetspark.engine.failures import failure_answer
from jetspark.engine.limits import READ_BYTES_PER_TURN, READ_RECORDS_PER_TURN
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.errors.storage import CorruptRecord, ReadFailed

if TYPE_CHECKING:
    from jetspark.engine.advisories import Advisories
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.failures import Failures
    from jetspark.engine.stream.stream import Stream


# So many consumers look in one turn whether somebody listens on their deliver subject.
LOOKS_PER_TURN: Final = 128


class Turns(Gets):
    """The part of an engine that gives every consumer its turn."""

    advisories: Advisories
    mark_dirty: Callable[[Stream], None]
    failures: Failures

    def __init__(
        self,
        wait_ns: int,
        held_reads: HeldReads,
        account: str,
        next_id: Callable[[], str],
        seed: int,
    ) -> None:
        super().__init__(wait_ns, held_reads)
        self.hub = Hub(account, next_id, seed)
        self.ceilings: Ceilings = NO_CEILINGS
        self.hub.outlet_for = self._outlet
        self.hub.push_outlet_for = self._push_outlet
        self.hub.mark_dirty = self._mark_dirty
        self.hub.pulls = self._pull_again
        # By `<stream>.<consumer>`, as pull requests and acknowledgements name them.
        self.deliveries: dict[bytes, Delivery] = {}
        # Set by the driver: finds whoever listens on a deliver subject, as a member of a group.
        self.push_outlet_for: Callable[[bytes, bytes], Outlet | None] = lambda _s, _g: None
        # Those whose receivers have enough waiting.
        self.stalled: list[Reader] = []
        # Consumers that could not be taken over, and why.
        self._unadopted: list[tuple[str, str]] = []
        self._pulled: list[tuple[Reader, bytes, bytes, int]] = []
        # Consumers that were removed, until nothing leads to them any more.
        self.removed: list[Consumer] = []
        # By deliver subject: those of very many consumers that are still to look who listens.
        self._looks: dict[bytes, list[Consumer]] = {}
        self.timed: Deadlines[Reader] = Deadlines()
        # Streams whose interest changed, and from where on they are looked through.
        self.sweeps: dict[Stream, int] = {}

    # The driver sets some of these later, so they are looked up when they are called.

    def _outlet(self, subject: bytes) -> Outlet | None:
        return self.outlet_for(subject)

    def _push_outlet(self, subject: bytes, group: bytes) -> Outlet | None:
        return self.push_outlet_for(subject, group)

    def _mark_dirty(self, stream: Stream) -> None:
        self.mark_dirty(stream)

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
        self.timed.note(delivery)
        return True

    def _pull_again(self, delivery: Reader, body: bytes, reply: bytes, now: int) -> None:
        """An acknowledgement asks for more, too."""
        self._pulled.append((delivery, body, reply, now))
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
        watching = self.hub.watched.get(subject, [])
        if len(watching) > LOOKS_PER_TURN:
            # Those of an earlier change are looked at again, in the same place.
            self._looks[subject] = list(watching)
            self.hub.agenda.wake()
            return
        for consumer in watching:
            self._look(consumer, now)

    def _look(self, consumer: Consumer, now: int) -> None:
        consumer.push.look(now)
        self.timed.note(consumer.delivery)

    def _look_some(self, now: int) -> None:
        """Have some of very many consumers look for subscriptions to their deliver subject."""
        for subject, watching in list(self._looks.items())[:1]:
            for consumer in watching[:LOOKS_PER_TURN]:
                if not consumer.delivery.dropped:
                    self._look(consumer, now)
            del watching[:LOOKS_PER_TURN], self._looks[subject]
            if watching:
                self._looks[subject] = watching  # behind the others

    # Turns -------------------------------------------------------------------------------------

    def advance(self, now: int = 0, outbox: Outbox | None = None) -> bool:
        """Go on with reads and deliveries, within one turn's budget; True while some remain.

        Without time and outbox only the reads go on.
        """
        self.hub.now = max(self.hub.now, now)
        if not self._has_turn():
            return False
        budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
        self.advance_reads(budget)
        if outbox is not None:
            for delivery, body, reply, asked in self._take_pulled():
                try:
                    delivery.owner.pull(body, reply, asked, outbox)
                except Exception as error:  # noqa: BLE001 - one request
                    self.failures.note(f"a request of consumer {named(delivery)}", error)
                    failure_answer(reply, None, error, outbox)
            self._look_some(now)
            self._deliver(budget, now)
            self.tell(now, outbox)
            if self.removed:
                self._release_removed()
        return self.sweep() or bool(self.work or self.hub.agenda.ready or self._looks)

    def _has_turn(self) -> bool:
        """Say whether there is anything to do: for a lone publisher there is not."""
        agenda, hub = self.hub.agenda, self.hub
        if self.work or agenda.ready or agenda.noted or self._pulled:
            return True
        return bool(hub.events or self.sweeps or self._looks or self.removed)

    def _release_removed(self) -> None:
        """Whatever led to consumers that were removed before this turn is done with them.

        They would be garbage that only a pass over all objects finds.
        """
        removed, self.removed = self.removed, []
        for consumer in removed:
            if consumer.delivery.listed:
                self.removed.append(consumer)
            else:
                consumer.release()

    def _take_pulled(self) -> list[tuple[Reader, bytes, bytes, int]]:
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
            if delivery.dropped:
                continue
            try:
                self._step(delivery, budget, now)
            except Exception as error:  # noqa: BLE001 - one consumer, not all
                # Tried again when there is something new for it; the others go on.
                self.failures.note(f"deliveries of consumer {named(delivery)}", error)
        for delivery in agenda.noted:
            self.timed.note(delivery)
        agenda.noted = []

    def _step(self, delivery: Reader, budget: Budget, now: int) -> None:
        consumer: Consumer = delivery.owner
        if delivery.read_error and now < delivery.resume_at:
            consumer.refuse_waiting()
            return
        if delivery.gated:
            consumer.open_or_close(now)
        try:
            reason = delivery.step(budget, now)
            if delivery.read_error:
                consumer.look_whether_read()
        except ReadFailed as problem:
            consumer.stop_at(problem, now)
            reason = PACED
        except CorruptRecord:
            consumer.skip_unreadable()
            reason = MORE
        if reason == MORE:
            delivery.listed = True
            self.hub.agenda.ready.append(delivery)
        elif reason == FULL and not delivery.stalled:
            delivery.stalled = True
            self.stalled.append(delivery)
        elif reason == IDLE and delivery.waiting:
            consumer.requests.end_of_messages()
        if delivery.released:
            self.look_at_released(delivery, now)
        self.timed.note(delivery)

    def look_at_released(self, delivery: Reader, now: int) -> None:
        """Messages were acknowledged in a stream that keeps only what somebody needs."""
        raise NotImplementedError

    def sweep(self) -> bool:
        """Look through streams whose interest changed; True while some remain."""
        raise NotImplementedError

    def unstall(self) -> bool:
        """Go on with those whose receivers have room again; False when there are none."""
        found = False
        runs, self.stalled_runs = self.stalled_runs, []
        for run in runs:
            (self.stalled_runs if run.outlet.full() else self.work).append(run)
        found = len(self.stalled_runs) < len(runs)
        left = []
        for delivery in self.stalled:
            if delivery.dropped:
                continue
            if is_full(delivery):
                left.append(delivery)
            else:
                delivery.stalled = False
                self.hub.agenda.add(delivery)
                found = True
        self.stalled = left
        return found

    def tell(self, now: int, outbox: Outbox) -> None:
        """Send the advisories that came up."""
        events, self.hub.events = self.hub.events, []
        for event in events:
            self.advisories.send(event, now, outbox)


def named(delivery: Reader) -> str:
    """A consumer, for a line in the log."""
    consumer: Consumer = delivery.owner
    return f"{consumer.stream.config.name} > {consumer.name}"


def is_full(delivery: Reader) -> bool:
    """Say whether all receivers of a consumer have enough waiting."""
    if delivery.outlet is not None:
        return delivery.outlet.full()
    return all(request.outlet.full() for request in delivery.waiting)
