"""Delivery of messages, without an object per message.

``step`` sends what may be sent now, within the turn's budget, to waiting requests or to the
deliver subject; for rare decisions (statuses, priority groups, pacing, flow control) it calls its
``owner``, which is ``consumer.py``.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.consumer.cursor import SEARCHING
from jetspark.engine.consumer.pending import UNSEEN
from jetspark.engine.consumer.state import ConsumerState
from jetspark.engine.outbox import Budget, Outbox, Outlet
from jetspark.headers.block import append_lines
from jetspark.headers.numbers import write_number
from jetspark.store.format.record import (
    FIXED,
    LARGE,
    body_end,
    headers_end,
    record_time,
    subject_end,
)

# Why a step ended.
IDLE: Final[i64] = 0  # nothing to send, or no receiver
MORE: Final[i64] = 1  # the turn is over and there is more
FULL: Final[i64] = 2  # the receiver's buffer is full
LIMITED: Final[i64] = 3  # max_ack_pending
PACED: Final[i64] = 4  # not before a certain time

# What an advisory about a message that is given up costs, in subjects compared.
GIVE_UP_UNITS: Final[i64] = 128


class Waiting:
    """A waiting pull request."""

    def __init__(
        self,
        reply: bytes,
        outlet: Outlet,
        batch: i64,
        max_bytes: i64,
        no_wait: bool,
        expires: i64,
        heartbeat: i64,
        now: i64,
    ) -> None:
        self.reply: bytes = reply
        self.outlet: Outlet = outlet
        # Without a batch, or with one below 1, a request gets one message; its statuses count down
        # from the value it sent, as in nats-server.
        self.left: i64 = max(batch, i64(1))
        self.pending: i64 = batch
        self.bytes_left: i64 = max_bytes
        self.delivered: i64 = 0
        self.expires: i64 = expires
        # Its heartbeat interval, and when the next one is due; 0: never.
        self.heartbeat: i64 = heartbeat
        self.heartbeat_at: i64 = now + heartbeat if heartbeat > 0 else 0
        self.no_wait: bool = no_wait
        self.over: bool = False
        # Priority groups.
        self.pin_id: bytes = b""
        self.priority: i64 = 0
        self.min_pending: i64 = 0
        self.min_ack_pending: i64 = 0

    def prefer(self, pin_id: bytes, priority: i64, min_pending: i64, min_ack_pending: i64) -> None:
        """Set the fields of the request for a priority group."""
        self.pin_id = pin_id
        self.priority = priority
        self.min_pending = min_pending
        self.min_ack_pending = min_ack_pending

    def pin(self, pin_id: bytes) -> None:
        """Note that its client is pinned."""
        self.pin_id = pin_id

    def served(self, size: i64, now: i64) -> bool:
        """Count a message it got; True when the request is complete."""
        self.delivered += 1
        self.left -= 1
        if self.bytes_left > 0:
            self.bytes_left -= size
            if self.bytes_left == 0:
                self.left = 0
        if self.left <= 0:
            return True
        self.beat(now)
        return False

    def beat(self, now: i64) -> None:
        """Restart its heartbeat interval: something was sent to it."""
        if self.heartbeat > 0:
            self.heartbeat_at = now + self.heartbeat

    def end(self) -> None:
        """End the request."""
        self.over = True


class Delivery:
    """Sends the messages of one consumer to its receivers."""

    def __init__(self, state: ConsumerState, ack_prefix: bytes) -> None:
        self.state: ConsumerState = state
        self.scratch: BytesWriter = state.run_queue.scratch
        self.ack_prefix: bytes = ack_prefix
        # Configuration.
        self.ack_wait: i64 = 0
        self.backoff: list[int] = []
        self.max_ack_pending: i64 = 0
        self.max_deliver: i64 = 0
        self.headers_only: bool = False
        # The receivers: requests, or the deliver subject.
        self.waiting: list[Waiting] = []
        self.waiting_due: i64 = 0
        self.outlet: Outlet | None = None
        self.chosen: bool = False  # the owner chooses the request: priority groups
        self.pin_line: bytes = b""
        self.paced: bool = False
        self.resume_at: i64 = 0
        # Flow control: how much may be unconfirmed (0: no flow control), how much is, and the
        # pending flow-control request.
        self.window: i64 = 0
        self.unconfirmed: i64 = 0
        self.asked: bytes = b""
        self.asked_size: i64 = 0
        # Closed: paused, gated by min_last_seq, not durable yet.
        self.closed: bool = True
        self.dropped: bool = False
        self.receiving: bool = False  # the stream wakes it
        self.stalled: bool = False  # the receivers' buffers are full
        self.looking_at: i64 = 0
        # Why the message at `looking_at` cannot be read: it blocks the others. Empty: it can.
        self.read_error: str = ""
        # That message is large and is read in the background: nothing is delivered before it.
        self.reading: bool = False
        # The queued deadline, and the owner's next one; 0: none.
        self.deadline: i64 = 0
        self.alarm: i64 = 0

    def enlist_receiving(self) -> bool:
        """Note that the stream wakes it: it has a receiver; False if it does already."""
        if self.receiving:
            return False
        self.receiving = True
        return True

    def stop_receiving(self) -> None:
        """Note that the stream wakes it no more: it has no receiver."""
        self.receiving = False

    def stall(self) -> None:
        """Note that the receivers' buffers are full."""
        self.stalled = True

    def unstall(self) -> None:
        """Note that the receivers have room again."""
        self.stalled = False

    def queue_deadline(self, deadline: i64) -> None:
        """Set the queued deadline; 0: none."""
        self.deadline = deadline

    def configure(
        self,
        ack_wait: i64,
        backoff: list[int],
        max_ack_pending: i64,
        max_deliver: i64,
        headers_only: bool,
        chosen: bool,
        window: i64,
    ) -> None:
        """Apply a configuration; ``window`` is the initial flow-control window, 0: none.

        A window that has grown since is kept.
        """
        self.ack_wait = ack_wait
        self.backoff = backoff
        self.max_ack_pending = max_ack_pending
        self.max_deliver = max_deliver
        self.headers_only = headers_only
        self.chosen = chosen
        if window == 0 or self.window == 0:
            self.window = window

    def open_or_close(self, closed: bool) -> None:
        """Set whether messages may be delivered."""
        self.closed = closed

    def drop(self) -> None:
        """Stop: the consumer is deleted."""
        self.dropped = True
        self.closed = True

    def pin(self, line: bytes) -> None:
        """Send this header line with every message: the id of the pinned client. Empty: none."""
        self.pin_line = line

    # Time --------------------------------------------------------------------------------------

    def set_alarm(self, at: i64) -> None:
        """Set the owner's next deadline; 0: none."""
        self.alarm = at

    def set_pace(self, paced: bool) -> None:
        """Set whether the owner is asked for each message when it may be sent."""
        self.paced = paced

    def resume(self, at: i64) -> None:
        """Continue at a time; 0: whenever there is something to send."""
        self.resume_at = at

    def queue_request(self, request: Waiting, place: i64) -> None:
        """Insert a request among those that wait."""
        self.waiting.insert(int(place), request)

    def move_back(self) -> None:
        """Serve the first request after the others."""
        self.waiting.append(self.waiting.pop(0))

    def remove_request(self, request: Waiting) -> None:
        """Remove a request from those that wait."""
        self.waiting.remove(request)

    def waits_until(self, due: i64) -> None:
        """Note a deadline of a waiting request; 0: none."""
        if due > 0 and (self.waiting_due == 0 or due < self.waiting_due):
            self.waiting_due = due

    def requests_due(self, due: i64) -> None:
        """Set the earliest deadline of all waiting requests; 0: none."""
        self.waiting_due = due

    def stop_at_error(self, reason: str, until: i64) -> None:
        """Stop at the next message, which cannot be read; retry at a time."""
        self.read_error = reason
        self.resume_at = until

    def read_later(self, reading: bool) -> None:
        """Set whether the next message is being read in the background."""
        self.reading = reading

    def clear_error(self) -> None:
        """Continue: the message that could not be read was read, or removed."""
        self.read_error = ""

    def next_deadline(self) -> i64:
        """Return when ``expire`` has something to do; 0 if nothing."""
        deadline = self.alarm
        pending = self.state.pending
        if pending.count > 0:
            late = pending.next_deadline(self.ack_wait)
            if late > 0 and (deadline == 0 or late < deadline):
                deadline = late
        if self.waiting_due > 0 and (deadline == 0 or self.waiting_due < deadline):
            deadline = self.waiting_due
        if self.resume_at > 0 and (deadline == 0 or self.resume_at < deadline):
            deadline = self.resume_at
        return deadline

    def expire(self, now: i64, outbox: Outbox) -> None:
        """Do what is due."""
        state = self.state
        pending = state.pending
        if pending.count > 0:
            pending.expire(now, self.ack_wait)
        state.owner.on_time(int(now), outbox)
        if pending.queued > 0:
            state.run_queue.add(state)

    # Sending -----------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """Return whether the buffers of all receivers are full."""
        if self.outlet is not None:
            return self.outlet.full()
        for request in self.waiting:
            if not request.outlet.full():
                return False
        return len(self.waiting) > 0

    def bind(self, outlet: Outlet | None) -> None:
        """Deliver to the subscribers of the deliver subject, or to none."""
        self.outlet = outlet

    def ask(self, question: bytes) -> None:
        """Note that the receiver was asked to confirm what it got so far (flow control)."""
        self.asked = question
        self.asked_size = self.unconfirmed

    def confirm(self, window_max: i64) -> None:
        """Note that the receiver has got everything up to the flow-control request."""
        self.window = min(self.window * 2, window_max)
        self.unconfirmed = max(self.unconfirmed - self.asked_size, i64(0))
        self.asked = b""
        self.asked_size = 0

    def has_receiver(self) -> bool:
        """Return whether there is a receiver."""
        return self.outlet is not None or len(self.waiting) > 0

    def step(self, budget: Budget, now: i64) -> i64:
        """Send what may be sent now; return why it ended."""
        state = self.state
        if not state.cursor.count_some():
            budget.exhaust()  # counts as much as a turn of deliveries
            return MORE
        # Very many consumers may have a few thousand rows to count each.
        budget.spend_search(state.cursor.uncounted())
        state.cursor.catch_up()
        state.begin_run()
        before = state.consumer_seq
        try:
            reason = self.run(budget, now)
        finally:  # a record that cannot be read does not undo earlier sends
            if state.consumer_seq != before:
                state.end_run(now)
        state.stopped_by_limit(reason == LIMITED)
        return reason

    def run(self, budget: Budget, now: i64) -> i64:
        """Send messages until something stops it."""
        state = self.state
        pending = state.pending
        cursor = state.cursor
        log = state.stream.log
        while True:
            if self.closed or not self.has_receiver():
                return IDLE
            if not budget.left():
                return MORE
            row: i64 = -1
            if pending.queued > 0:
                row = self.next_again(now, budget)
                if row == UNSEEN:
                    budget.exhaust()
                    return MORE
            if row >= 0:
                seq = pending.seqs[row]
            elif 0 < self.max_ack_pending <= pending.count:
                return LIMITED
            else:
                seq = cursor.peek()
                if seq == SEARCHING:
                    budget.exhaust()
                    return MORE
                if seq == 0:
                    cursor.pass_counted()
                    return IDLE
            self.looking_at = seq
            data, at = log.reader.locate_in_turn(seq)
            if len(data) == 0:
                state.skip(seq, row)
                continue
            reason = self.send(data, at, seq, row, budget, now)
            if reason >= 0:
                return reason

    def next_again(self, now: i64, budget: Budget) -> i64:
        """Return the row to redeliver next; -1 for none, UNSEEN if that takes another turn.

        Drops those delivered too often.
        """
        state = self.state
        pending = state.pending
        while True:
            row = pending.first_queued()
            if row < 0 or self.max_deliver <= 0 or pending.deliveries(row) < self.max_deliver:
                return row
            if not budget.left():
                return UNSEEN
            budget.spend_search(GIVE_UP_UNITS)
            seq = pending.seqs[row]
            deliveries = pending.deliveries(row)
            state.give_up(row)
            state.run_queue.save(state, now)
            state.owner.ack_words.on_spent(int(seq), int(deliveries))

    def send(self, data: bytes, at: i64, seq: i64, row: i64, budget: Budget, now: i64) -> i64:
        """Send one message; return -1, or why it was not sent."""
        state = self.state
        cursor = state.cursor
        pending = state.pending
        deliveries: i64 = 1
        left = cursor.left
        if row >= 0:
            deliveries = pending.deliveries(row) + 1
        else:
            left -= 1
        consumer_seq = state.consumer_seq + 1
        time = record_time(data, at)
        middle = subject_end(data, at)
        end = headers_end(data, at)
        subject = data[at + FIXED : middle]
        reply = self.ack_subject(deliveries, seq, consumer_seq, time, left)
        headers = data[middle:end]
        stop = body_end(data, at)
        if self.headers_only:
            headers = append_lines(headers, b"Nats-Msg-Size: %d\r\n" % int(stop - end))
            stop = end
        size: i64 = len(subject) + len(reply) + len(headers) + stop - end
        outlet = self.outlet
        request: Waiting | None = None
        if outlet is None:
            request = (
                state.owner.groups.choose(int(size), int(now))
                if self.chosen
                else self.pick(size, now)
            )
            if request is None:
                return FULL if self.is_full() else IDLE
            outlet = request.outlet
            if self.pin_line:
                headers = append_lines(headers, self.pin_line)
        elif outlet.full():
            return FULL
        elif 0 < self.window < self.unconfirmed:
            return IDLE  # until the receiver confirms
        if self.paced and state.owner.pace(int(size), int(time), int(now)):
            return PACED
        if stop - end < LARGE:
            outlet.write(subject, reply, headers, data[end:stop])
        else:
            outlet.write_part(subject, reply, headers, data, end, stop)
        budget.spend(size)
        if row >= 0:
            state.redelivered(row, consumer_seq, now + self.wait_after(deliveries))
        else:
            state.delivered(seq, consumer_seq)
        if request is not None:
            self.served(request, size, now)
        elif self.window > 0:
            self.unconfirmed += size
            if not self.asked:
                if self.unconfirmed * 2 > self.window:
                    state.owner.push.ask_to_confirm()
            elif self.unconfirmed - self.asked_size >= self.window:
                self.asked_size += size
        return -1

    def wait_after(self, deliveries: i64) -> i64:
        """Return the ack wait of a message that was delivered this often."""
        if not self.backoff:
            return self.ack_wait
        return self.backoff[min(int(deliveries), len(self.backoff)) - 1]

    def pick(self, size: i64, now: i64) -> Waiting | None:
        """Return the request that gets the next message; ends finished requests on the way."""
        state = self.state
        waiting = self.waiting
        tried: i64 = 0
        while waiting and tried < i64(len(waiting)):
            request = waiting[0]
            if request.outlet.gone() or 0 < request.expires <= now:
                state.owner.requests.end_expired(request)
            elif 0 < request.bytes_left < size:
                state.owner.requests.end_too_small(request)
            elif request.outlet.full():
                self.move_back()
                tried += 1
            else:
                return request
        return None

    def served(self, request: Waiting, size: i64, now: i64) -> None:
        """Count a message for a request; continue with the next request."""
        if request.served(size, now):
            self.state.owner.requests.end_served(request)
            return
        if not self.chosen and len(self.waiting) > 1:
            self.move_back()

    def ack_subject(
        self, deliveries: i64, seq: i64, consumer_seq: i64, time: i64, left: i64
    ) -> bytes:
        """Return the reply subject of a message, nine tokens (wire.md, Consumers)."""
        out = self.scratch
        out.truncate(0)
        out.write(self.ack_prefix)
        write_number(out, deliveries)
        out.write(b".")
        write_number(out, seq)
        out.write(b".")
        write_number(out, consumer_seq)
        out.write(b".")
        write_number(out, time)
        out.write(b".")
        write_number(out, max(left, i64(0)))
        return out.getvalue()
