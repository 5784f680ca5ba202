"""The run queue: which consumers have something to do, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

if TYPE_CHECKING:
    from jetspark.engine.consumer.delivery import Delivery
    from jetspark.engine.consumer.state import ConsumerState

# A journal record is written this long after a change, if nothing else is written before.
JOURNAL_NS: Final[i64] = 50_000_000


class RunQueue:
    """The consumers of one engine with deliveries now or journal records soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        # Requests a turn of the loop.
        self.wake: Callable[[], None] = wake
        self.ready: list[ConsumerState] = []
        # By stream: each of very many streams takes its own.
        self.unsaved: dict[object, list[ConsumerState]] = {}
        self.noted: list[Delivery] = []
        self.save_at: i64 = 0
        self.scratch: BytesWriter = BytesWriter()

    def add(self, state: ConsumerState) -> None:
        """Queue a consumer that may have something to send."""
        if state.enlist():
            self.ready.append(state)
            self.wake()

    def add_first(self, state: ConsumerState) -> None:
        """Queue a consumer before the others: what it waited for was done."""
        if state.enlist():
            self.ready.insert(0, state)
        self.wake()

    def requeue(self, state: ConsumerState) -> None:
        """Queue a consumer with more to send than its turn allowed; the loop has another turn."""
        if state.enlist():
            self.ready.append(state)

    def note(self, delivery: Delivery) -> None:
        """Note that a consumer may have an earlier deadline."""
        self.noted.append(delivery)
        self.wake()

    def save(self, state: ConsumerState, now: i64) -> None:
        """Note that the state of a consumer changed."""
        if state.enlist_unsaved():
            others = self.unsaved.get(state.stream)
            if others is None:
                self.unsaved[state.stream] = [state]
            else:
                others.append(state)
            if self.save_at == 0:
                self.save_at = now + JOURNAL_NS
                self.wake()

    def take_unsaved(self, stream: object, most: int) -> list[ConsumerState]:
        """Return some of the consumers of a stream with unsaved state."""
        unsaved = self.unsaved.pop(stream, [])
        if len(unsaved) > most:
            self.unsaved[stream] = unsaved[most:]
        # The others were saved already, for an answer.
        taken = [state for state in unsaved[:most] if state.saved()]
        if not self.unsaved:
            self.save_at = 0
        return taken

    def begin_saving(self) -> list[ConsumerState]:
        """Start writing the journal; return of which consumers."""
        self.save_at = 0
        return [state for states in self.unsaved.values() for state in states]

    def take_ready(self) -> list[ConsumerState]:
        """Return the consumers that may have something to send; each is listed until its turn."""
        taken = self.ready
        self.ready = []
        return taken

    def put_back(self, states: list[ConsumerState]) -> None:
        """Put back those that had no turn: they come first in the next one."""
        self.ready = states + self.ready

    def take_noted(self) -> list[Delivery]:
        """Return those that may have an earlier deadline."""
        taken = self.noted
        self.noted = []
        return taken

    def forget_unsaved(self, state: ConsumerState) -> None:
        """Forget a deleted consumer."""
        # Also one that was saved for an answer: it is still listed.
        if state.stream in self.unsaved:
            self.forget_all_unsaved([state])

    def forget_all_unsaved(self, states: list[ConsumerState]) -> None:
        """Forget many deleted consumers."""
        streams: dict[object, None] = {}
        for state in states:
            state.saved()
            streams[state.stream] = None
        for stream in streams:
            left = [state for state in self.unsaved.get(stream, []) if state.unsaved]
            if left:
                self.unsaved[stream] = left
            else:
                self.unsaved.pop(stream, None)
