"""What the consumers of one engine share with each other and with the world around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.wall import Wall

if TYPE_CHECKING:
    from jetspark.api.advisory import Event
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.ports import EnginePorts
    from jetspark.engine.stream.stream import Stream


class ConsumerServices:
    """One for all consumers of an account."""

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
        self.next_id = next_id
        self._random = seed & 0xFFFFFFFF
        # Advisories that go out with the next turn.
        self.events: list[Event] = []
        # Consumers that nobody used for too long.
        self.inactive: list[Consumer] = []
        # By deliver subject: the consumers that want to know of subscriptions to it.
        self.watched: dict[bytes, list[Consumer]] = {}
        self.max_payload = 1024 * 1024
        # Acknowledgements that ask for more (`+NXT`): requests that the next turn takes.
        self.pulled: list[tuple[Consumer, bytes, bytes, int]] = []

    def reached(self, now: int) -> None:
        """The engine has come to a time; time does not go back."""
        self.now = max(self.now, now)

    def draw(self, below: int) -> int:
        """A number of no importance: which acknowledgements are sampled."""
        self._random = (self._random * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        return (self._random >> 8) % below

    def advise(self, event: Event) -> None:
        """Have an advisory sent with the next turn."""
        self.events.append(event)
        self.run_queue.wake()

    def take_events(self) -> list[Event]:
        """The advisories that came up since this was asked last."""
        taken, self.events = self.events, []
        return taken

    def take_inactive(self) -> list[Consumer]:
        """The consumers that nobody used for too long."""
        taken, self.inactive = self.inactive, []
        return taken

    def pull_later(self, consumer: Consumer, body: bytes, reply: bytes, now: int) -> None:
        """Take a pull request with the next turn: an acknowledgement asked for more."""
        self.pulled.append((consumer, body, reply, now))
        self.run_queue.wake()

    def take_pulled(self) -> list[tuple[Consumer, bytes, bytes, int]]:
        """The requests that came with acknowledgements."""
        taken, self.pulled = self.pulled, []
        return taken

    def watch(self, subject: bytes, consumer: Consumer) -> None:
        """Let a consumer know when subscriptions to a subject come or go."""
        self.watched.setdefault(subject, []).append(consumer)

    def unwatch(self, subject: bytes, consumer: Consumer) -> None:
        """A consumer does not want to know any more."""
        left = [other for other in self.watched.get(subject, []) if other is not consumer]
        if left:
            self.watched[subject] = left
        else:
            self.watched.pop(subject, None)
