"""The state of consumers, and what each of them has to do when: the compiled foundation.

``Reader`` is what one consumer knows; ``acks.py`` and ``delivery.py`` act on it. The sequences of
the wire are called as on the wire: stream sequence (``seq``), consumer sequence (``number``).
"""

from collections.abc import Callable
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.pending import Pending
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.stream import Stream

ACK_NONE: Final[i64] = 0
ACK_ALL: Final[i64] = 1
ACK_EXPLICIT: Final[i64] = 2

# A journal record is written so long after a change, if nothing else is written before.
JOURNAL_NS: Final[i64] = 50_000_000


class Waiting:
    """A pull request that waits for messages."""

    def __init__(self, reply: bytes, outlet: Outlet, batch: i64, max_bytes: i64) -> None:
        self.reply: bytes = reply
        self.outlet: Outlet = outlet
        self.left: i64 = batch
        self.bytes_left: i64 = max_bytes
        self.delivered: i64 = 0
        self.expires: i64 = 0
        self.heartbeat: i64 = 0
        self.heartbeat_at: i64 = 0
        self.no_wait: bool = False
        self.over: bool = False
        # Priority groups.
        self.pin_id: bytes = b""
        self.priority: i64 = 0
        self.min_pending: i64 = 0
        self.min_ack_pending: i64 = 0


class Agenda:
    """What the consumers of one engine have to do: deliveries now, the journal soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        # Asks for a turn of the loop.
        self.wake: Callable[[], None] = wake
        self.ready: list[Reader] = []
        self.unsaved: list[Reader] = []
        self.noted: list[Reader] = []
        self.save_at: i64 = 0
        self.scratch: BytesWriter = BytesWriter()

    def add(self, reader: "Reader") -> None:
        """A consumer may have something to send."""
        if not reader.listed:
            reader.listed = True
            self.ready.append(reader)
            self.wake()

    def note(self, reader: "Reader") -> None:
        """A consumer may have an earlier deadline."""
        self.noted.append(reader)
        self.wake()

    def save(self, reader: "Reader", now: i64) -> None:
        """The state of a consumer changed."""
        if not reader.unsaved and reader.journalled:
            reader.unsaved = True
            self.unsaved.append(reader)
            if self.save_at == 0:
                self.save_at = now + JOURNAL_NS
                self.wake()


class Reader:
    """Where one consumer is, who waits, and what is not acknowledged yet: the bare state."""

    def __init__(self, stream: Stream, agenda: Agenda, owner: Any, cursor: Cursor) -> None:
        self.stream: Stream = stream
        self.agenda: Agenda = agenda
        self.owner: Any = owner
        self.cursor: Cursor = cursor
        self.pending: Pending = Pending()
        self.scratch: BytesWriter = agenda.scratch
        self.ack_prefix: bytes = b""
        # Configuration.
        self.policy: i64 = ACK_NONE
        self.ack_wait: i64 = 0
        self.backoff: list[int] = []
        self.max_ack_pending: i64 = 0
        self.max_deliver: i64 = 0
        self.headers_only: bool = False
        self.keeps_interest: bool = False  # the stream removes what everybody acknowledged
        self.samples: bool = False
        # Sequences: the last ones delivered, and the ack floor.
        self.number: i64 = 0
        self.seq: i64 = 0
        self.floor_number: i64 = 0
        self.floor_seq: i64 = 0
        self.delivered_ns: i64 = 0
        self.acked_ns: i64 = 0
        # Messages that were delivered as often as they may be, and stay in the stream.
        self.spent: dict[int, int] = {}
        # Who gets messages: requests, or the deliver subject.
        self.waiting: list[Waiting] = []
        self.waiting_due: i64 = 0
        self.outlet: Outlet | None = None
        self.chosen: bool = False  # requests are chosen by the owner: priority groups
        self.pin_line: bytes = b""
        self.paced: bool = False
        self.resume_at: i64 = 0
        # Flow control: how much may be unconfirmed (0: no flow control), how much is, and what
        # the receiver was asked to confirm.
        self.window: i64 = 0
        self.unconfirmed: i64 = 0
        self.asked: bytes = b""
        self.asked_size: i64 = 0
        # Not now: paused, gated by min_last_seq, not durable yet.
        self.closed: bool = True
        self.gated: bool = False
        self.receiving: bool = False
        self.dropped: bool = False
        self.listed: bool = False
        self.stalled: bool = False  # the receivers have enough waiting
        self.unsaved: bool = False
        self.journalled: bool = True  # or else it ends with the process
        self.limited: bool = False
        self.looking_at: i64 = 0
        # Why the message at `looking_at` cannot be read: nothing goes past it. Empty: it can.
        self.read_error: str = ""
        # The deadline that the engine knows of, and the owner's next one; 0: none.
        self.deadline: i64 = 0
        self.alarm: i64 = 0
        # Acknowledged, and not yet looked at by the stream.
        self.released: list[int] = []

    def step(self, budget: Budget, now: i64) -> i64:
        """Send what may go now; why it ended."""
        raise NotImplementedError

    def next_deadline(self) -> i64:
        """When ``expire`` has something to do; 0 when there is nothing."""
        deadline = self.alarm
        if self.pending.count > 0:
            late = self.pending.next_deadline(self.ack_wait)
            if late > 0 and (deadline == 0 or late < deadline):
                deadline = late
        if self.waiting_due > 0 and (deadline == 0 or self.waiting_due < deadline):
            deadline = self.waiting_due
        if self.resume_at > 0 and (deadline == 0 or self.resume_at < deadline):
            deadline = self.resume_at
        return deadline

    def expire(self, now: i64, outbox: Outbox) -> None:
        """Do what is due."""
        pending = self.pending
        if pending.count > 0:
            pending.expire(now, self.ack_wait)
        self.owner.on_time(int(now), outbox)
        if pending.queued > 0:
            self.agenda.add(self)

    def removed(self, seq: i64, number: i64) -> bool:
        """A message was removed from the stream; True when it was pending here."""
        raise NotImplementedError

    def needs(self, seq: i64, number: i64) -> bool:
        """Say whether a message of the stream is still to be acknowledged here."""
        raise NotImplementedError
