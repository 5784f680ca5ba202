"""The hot half of a consumer: messages out, acknowledgements in, without an object for either.

``step`` sends what may go now, within the turn's budget, to the requests that wait or to the
deliver subject; what it cannot decide by itself (statuses, priority groups, pacing, flow control)
it asks its ``owner`` for, which is ``consumer.py``. The sequences of the wire are called as on the
wire: stream sequence (``seq``) and consumer sequence (``number``).
"""

from collections.abc import Callable
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import Cursor
from jetspark.engine.consumer.pending import QUEUED, STATE, Pending
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.headers.block import append_lines
from jetspark.headers.numbers import write_number
from jetspark.store.index import StreamIndex
from jetspark.store.record import FIXED, body_end, headers_end, record_time, subject_end

ACK_NONE: Final[i64] = 0
ACK_ALL: Final[i64] = 1
ACK_EXPLICIT: Final[i64] = 2

# Why a step ended.
IDLE: Final[i64] = 0  # nothing to send, or nobody to send it to
MORE: Final[i64] = 1  # the turn is over, not the work
FULL: Final[i64] = 2  # the receiver has as much waiting as it should
LIMITED: Final[i64] = 3  # max_ack_pending
PACED: Final[i64] = 4  # not before a time

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

    def __init__(self) -> None:
        self.ready: list[Delivery] = []
        self.unsaved: list[Delivery] = []
        self.noted: list[Delivery] = []
        self.save_at: i64 = 0
        # Set by the driver: a turn of the loop is wanted.
        self.wake: Callable[[], None] = no_driver

    def add(self, delivery: "Delivery") -> None:
        """A consumer may have something to send."""
        if not delivery.listed:
            delivery.listed = True
            self.ready.append(delivery)
            self.wake()

    def note(self, delivery: "Delivery") -> None:
        """A consumer may have an earlier deadline."""
        self.noted.append(delivery)
        self.wake()

    def save(self, delivery: "Delivery", now: i64) -> None:
        """The state of a consumer changed."""
        if not delivery.unsaved:
            delivery.unsaved = True
            self.unsaved.append(delivery)
            if self.save_at == 0:
                self.save_at = now + JOURNAL_NS
                self.wake()


class Readers:
    """The consumers of one stream, as the stream's changes are told to them."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda: Agenda = agenda
        self.all: list[Delivery] = []
        # Those that have somebody to send to, or had until lately.
        self.receiving: list[Delivery] = []

    def receive(self, delivery: "Delivery") -> None:
        """A consumer has somebody to send to."""
        if not delivery.receiving:
            delivery.receiving = True
            self.receiving.append(delivery)
        self.agenda.add(delivery)

    def wake(self) -> None:
        """The stream has more than before: told once per group."""
        idle = False
        for delivery in self.receiving:
            if delivery.outlet is not None or len(delivery.waiting) > 0:
                self.agenda.add(delivery)
            else:
                delivery.receiving = False
                idle = True
        if idle:
            self.receiving = [delivery for delivery in self.receiving if delivery.receiving]

    def note_removals(self, index: StreamIndex) -> "list[tuple[Delivery, int]]":
        """Tell everybody which messages are gone; who waits for an acknowledgement of which."""
        pending: list[tuple[Delivery, int]] = []
        seqs = index.removed_seqs
        numbers = index.removed_subjects
        count: i64 = len(seqs)
        highest: i64 = 0
        i: i64 = 0
        while i < count:
            highest = max(highest, seqs[i])
            i += 1
        for delivery in self.all:
            if delivery.floor_seq >= highest and len(delivery.spent) == 0:
                continue
            i = 0
            while i < count:
                if delivery.removed(seqs[i], numbers[i]):
                    pending.append((delivery, int(seqs[i])))
                i += 1
        return pending


class Delivery:
    """Where one consumer is, who waits, and what is not acknowledged yet."""

    def __init__(self, stream: Stream, agenda: Agenda, owner: Any, cursor: Cursor) -> None:
        self.stream: Stream = stream
        self.agenda: Agenda = agenda
        self.owner: Any = owner
        self.cursor: Cursor = cursor
        self.pending: Pending = Pending()
        self.scratch: BytesWriter = BytesWriter()
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
        self.unsaved: bool = False
        self.limited: bool = False
        self.looking_at: i64 = 0
        # The deadline that the engine knows of, and the owner's next one; 0: none.
        self.deadline: i64 = 0
        self.alarm: i64 = 0
        # Acknowledged, and not yet looked at by the stream.
        self.released: list[int] = []

    # Messages out ------------------------------------------------------------------------------

    def step(self, budget: Budget, now: i64) -> i64:
        """Send what may go now; why it ended."""
        self.cursor.catch_up()
        self.limited = False
        before = self.number
        reason = self.run(budget, now)
        if self.number != before:
            self.delivered_ns = now
            self.pending.end_run(now)
            self.agenda.save(self, now)
        self.limited = reason == LIMITED
        return reason

    def run(self, budget: Budget, now: i64) -> i64:
        """Send messages until something stops it."""
        pending = self.pending
        cursor = self.cursor
        log = self.stream.log
        while True:
            if self.closed or (self.outlet is None and len(self.waiting) == 0):
                return IDLE
            if not budget.left():
                return MORE
            row: i64 = -1
            if pending.queued > 0:
                row = self.next_again()
            if row >= 0:
                seq = pending.seqs[row]
            elif 0 < self.max_ack_pending <= pending.count:
                return LIMITED
            else:
                seq = cursor.peek()
                if seq == 0:
                    return IDLE
            self.looking_at = seq
            data, at = log.locate(seq)
            if not data:
                self.skip(seq, row)
                continue
            reason = self.send(data, at, seq, row, budget, now)
            if reason >= 0:
                return reason

    def next_again(self) -> i64:
        """The row that is delivered again next; -1 for none. Those delivered too often go."""
        pending = self.pending
        while True:
            row = pending.first_queued()
            if row < 0 or self.max_deliver <= 0 or pending.deliveries(row) < self.max_deliver:
                return row
            seq = pending.seqs[row]
            deliveries = pending.deliveries(row)
            self.spent[int(seq)] = int(deliveries)
            self.let_go(row)
            self.owner.on_spent(int(seq), int(deliveries))

    def send(self, data: bytes, at: i64, seq: i64, row: i64, budget: Budget, now: i64) -> i64:
        """Send one message; -1, or why it was not sent."""
        cursor = self.cursor
        pending = self.pending
        deliveries: i64 = 1
        left = cursor.left
        if row >= 0:
            deliveries = pending.deliveries(row) + 1
        else:
            left -= 1
        number = self.number + 1
        time = record_time(data, at)
        middle = subject_end(data, at)
        end = headers_end(data, at)
        subject = data[at + FIXED : middle]
        reply = self.ack_subject(deliveries, seq, number, time, left)
        headers = data[middle:end]
        body = data[end : body_end(data, at)]
        if self.headers_only:
            headers = append_lines(headers, b"Nats-Msg-Size: %d\r\n" % len(body))
            body = b""
        size: i64 = len(subject) + len(reply) + len(headers) + len(body)
        outlet = self.outlet
        request: Waiting | None = None
        if outlet is None:
            request = (
                self.owner.choose(int(size), int(now)) if self.chosen else self.pick(size, now)
            )
            if request is None:
                return FULL if self.waiting and not self.chosen else IDLE
            outlet = request.outlet
            if self.pin_line:
                headers = append_lines(headers, self.pin_line)
        elif outlet.full():
            return FULL
        elif 0 < self.window < self.unconfirmed:
            return IDLE  # until the receiver confirms
        if self.paced and self.owner.pace(int(size), int(time), int(now)):
            return PACED
        outlet.write(subject, reply, headers, body)
        self.number = number
        budget.spend(size)
        if row >= 0:
            pending.again(row, now + self.wait_after(deliveries))
        else:
            cursor.advance(seq)
            self.seq = max(self.seq, seq)
            if self.policy == ACK_NONE:
                self.floor_number = number
                self.floor_seq = seq
                if self.keeps_interest:
                    self.released.append(int(seq))
            else:
                pending.add(seq, number, 1)
        if request is not None:
            self.served(request, size, now)
        elif self.window > 0:
            self.unconfirmed += size
            if not self.asked:
                if self.unconfirmed * 2 > self.window:
                    self.owner.ask_to_confirm()
            elif self.unconfirmed - self.asked_size >= self.window:
                self.asked_size += size
        return -1

    def wait_after(self, deliveries: i64) -> i64:
        """How long a message that was delivered so often may take."""
        if not self.backoff:
            return self.ack_wait
        return self.backoff[min(int(deliveries), len(self.backoff)) - 1]

    def pick(self, size: i64, now: i64) -> Waiting | None:
        """The request that gets the next message; requests that are over go on the way."""
        waiting = self.waiting
        tried: i64 = 0
        while waiting and tried < i64(len(waiting)):
            request = waiting[0]
            if request.outlet.gone() or 0 < request.expires <= now:
                self.owner.end_request(request, b"", int(now))
            elif 0 < request.bytes_left < size:
                self.owner.end_too_small(request)
            elif request.outlet.full():
                waiting.append(waiting.pop(0))
                tried += 1
            else:
                return request
        return None

    def served(self, request: Waiting, size: i64, now: i64) -> None:
        """A request got a message; the next one's turn comes."""
        request.delivered += 1
        request.left -= 1
        if request.bytes_left > 0:
            request.bytes_left -= size
            if request.bytes_left == 0:
                request.left = 0
        if request.left <= 0:
            self.owner.end_served(request)
            return
        if request.heartbeat > 0:
            request.heartbeat_at = now + request.heartbeat
        if not self.chosen and len(self.waiting) > 1:
            self.waiting.append(self.waiting.pop(0))

    def ack_subject(self, deliveries: i64, seq: i64, number: i64, time: i64, left: i64) -> bytes:
        """The reply subject of a message, nine tokens (wire-facts.md 7)."""
        out = self.scratch
        out.truncate(0)
        out.write(self.ack_prefix)
        write_number(out, deliveries)
        out.write(b".")
        write_number(out, seq)
        out.write(b".")
        write_number(out, number)
        out.write(b".")
        write_number(out, time)
        out.write(b".")
        write_number(out, max(left, i64(0)))
        return out.getvalue()

    def skip(self, seq: i64, row: i64) -> None:
        """A message that was to be sent cannot be: it is gone, or cannot be read."""
        if row >= 0:
            self.let_go(row)
        else:
            self.cursor.advance(seq)

    # Acknowledgements in -----------------------------------------------------------------------

    def on_ack(
        self, seq: i64, number: i64, data: bytes, ps: i64, pe: i64, reply: bytes, now: i64
    ) -> None:
        """An acknowledgement, by what its subject says and its payload."""
        if seq <= 0 or seq > self.seq:
            return  # of something never delivered: silence (wire-facts.md 7)
        if pe > ps and data[ps:pe] != b"+ACK" and data[ps:pe] != b"+OK":
            self.owner.on_ack_text(int(seq), int(number), data[ps:pe], reply, int(now))
            return
        self.acknowledge(seq, number, now, True)
        if reply:
            self.stream.hold_ack(reply)
            self.agenda.save(self, now)
            self.owner.flush_soon()

    def acknowledge(self, seq: i64, number: i64, now: i64, sample: bool) -> None:
        """A message, and with ack all those before it, needs no more deliveries."""
        pending = self.pending
        was_limited = self.limited
        if self.policy == ACK_ALL:
            self.acknowledge_all(seq, number)
        else:
            row = pending.find(seq)
            if row < 0:
                if self.spent and int(seq) in self.spent:
                    del self.spent[int(seq)]
                    self.agenda.save(self, now)
                    if self.keeps_interest:
                        self.released.append(int(seq))
                        self.agenda.add(self)
                return
            if sample and self.samples:
                self.owner.sample(int(row), int(now))
            self.let_go(row)
            if self.keeps_interest:
                self.released.append(int(seq))
                self.agenda.add(self)
        self.acked_ns = now
        if not self.unsaved:
            self.agenda.save(self, now)
        if was_limited:
            self.limited = False
            self.agenda.add(self)

    def acknowledge_all(self, seq: i64, number: i64) -> None:
        """Everything up to a message is acknowledged."""
        if seq <= self.floor_seq or number <= self.floor_number:
            return
        pending = self.pending
        while pending.head < i64(len(pending.seqs)) and pending.seqs[pending.head] <= seq:
            gone = pending.seqs[pending.head]
            pending.release(pending.head)
            if self.keeps_interest:
                self.released.append(int(gone))
                self.agenda.add(self)
        self.floor_seq = seq
        self.floor_number = max(self.floor_number, min(number, self.number))

    def let_go(self, row: i64) -> None:
        """A message is not pending any more; the floor moves when it was the oldest."""
        pending = self.pending
        if not pending.release(row):
            return
        if pending.count == 0:
            self.floor_number = self.number
            self.floor_seq = max(self.floor_seq, self.seq)
        else:
            self.floor_number = pending.numbers[pending.head] - 1
            self.floor_seq = max(self.floor_seq, pending.seqs[pending.head] - 1)

    # What happens to the stream ----------------------------------------------------------------

    def removed(self, seq: i64, number: i64) -> bool:
        """A message was removed from the stream; True when it was pending here."""
        self.cursor.removed(seq, number)
        if seq > self.seq or seq <= self.floor_seq:
            if self.spent:
                self.spent.pop(int(seq), None)
            return False
        if self.spent:
            self.spent.pop(int(seq), None)
        return self.pending.find(seq) >= 0

    def needs(self, seq: i64, number: i64) -> bool:
        """Say whether a message of the stream is still to be acknowledged here."""
        if not self.cursor.wants(number):
            return False
        if seq > self.seq and not (seq < self.cursor.next):
            return True
        if self.spent and int(seq) in self.spent:
            return True
        if self.policy == ACK_EXPLICIT:
            return seq > self.floor_seq and self.pending.find(seq) >= 0
        return seq > self.floor_seq

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

    def is_queued(self, row: i64) -> bool:
        """Say whether the message of a row is to be delivered again."""
        return self.pending.words[row] & STATE == QUEUED


def no_driver() -> None:
    """An engine without a driver, as in tests: nobody waits for a turn."""
