"""Services shared by the consumers of one engine: ports, clock, ids, run queue, advisories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jetspark.engine.consumer.purging import Adjustments
from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.wall import Wall

if TYPE_CHECKING:
    from jetspark.api.advisory import Event
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.ports import EnginePorts
    from jetspark.engine.stream.stream import Stream


class ConsumerServices:
    """One object for all consumers of an account."""

    def __init__(
        self,
        account: str,
        next_id: Callable[[], str],
        seed: int,
        ports: EnginePorts,
        mark_dirty: Callable[[Stream], None],
    ) -> None:
        self.account = account
        self.ports = ports
        self.mark_dirty = mark_dirty
        self.now: int = 0  # as of the last turn or deadline
        self.wall: Wall = Wall()
        self.run_queue: RunQueue = RunQueue(ports.wake)
        # The consumers that purges have not reached yet.
        self.adjustments: Adjustments = Adjustments()
        self.next_id = next_id
        self._random = seed & 0xFFFFFFFF
        # Advisories that are sent in the next turn.
        self.events: list[Event] = []
        # Consumers that were unused for too long.
        self.inactive: list[Consumer] = []
        # By deliver subject: the consumers to notify of its subscriptions.
        self.watched: dict[bytes, list[Consumer]] = {}
        self.max_payload = 1024 * 1024
        # Requests of acknowledgements (`+NXT`), handled in the next turn.
        self.pulled: list[tuple[Consumer, bytes, bytes, int]] = []

    def reached(self, now: int) -> None:
        """Set the engine time; it never decreases."""
        self.now = max(self.now, now)

    def draw(self, below: int) -> int:
        """Return a random number, to sample acknowledgements."""
        self._random = (self._random * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        return (self._random >> 8) % below

    def advise(self, event: Event) -> None:
        """Queue an advisory for the next turn."""
        self.events.append(event)
        self.run_queue.wake()

    def take_events(self) -> list[Event]:
        """Return the advisories since the last call."""
        taken, self.events = self.events, []
        return taken

    def report_inactive(self, consumer: Consumer) -> None:
        """Note that a consumer was unused for too long."""
        self.inactive.append(consumer)

    def take_inactive(self) -> list[Consumer]:
        """Return the consumers that were unused for too long."""
        taken, self.inactive = self.inactive, []
        return taken

    def pull_later(self, consumer: Consumer, body: bytes, reply: bytes, now: int) -> None:
        """Queue the pull request of an acknowledgement for the next turn."""
        self.pulled.append((consumer, body, reply, now))
        self.run_queue.wake()

    def take_pulled(self) -> list[tuple[Consumer, bytes, bytes, int]]:
        """Return the requests that came with acknowledgements."""
        taken, self.pulled = self.pulled, []
        return taken

    def watch(self, subject: bytes, consumer: Consumer) -> None:
        """Notify a consumer when subscriptions to a subject are added or removed."""
        self.watched.setdefault(subject, []).append(consumer)

    def unwatch(self, subject: bytes, consumer: Consumer) -> None:
        """Stop notifying a consumer."""
        left = [other for other in self.watched.get(subject, []) if other is not consumer]
        if left:
            self.watched[subject] = left
        else:
            self.watched.pop(subject, None)
