"""The hot half of a consumer: messages out, without an object for each.

``step`` sends what may go now, within the turn's budget, to the requests that wait or to the
deliver subject; what it cannot decide by itself (statuses, priority groups, pacing, flow control)
it asks its ``owner`` for, which is ``consumer.py``.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.consumer.acks import Acks
from jetspark.engine.consumer.agenda import ACK_NONE, Waiting
from jetspark.engine.consumer.cursor import SEARCHING
from jetspark.engine.outbox import Budget
from jetspark.headers.block import append_lines
from jetspark.headers.numbers import write_number
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end

# Why a step ended.
IDLE: Final[i64] = 0  # nothing to send, or nobody to send it to
MORE: Final[i64] = 1  # the turn is over, not the work
FULL: Final[i64] = 2  # the receiver has as much waiting as it should
LIMITED: Final[i64] = 3  # max_ack_pending
PACED: Final[i64] = 4  # not before a time


class Delivery(Acks):
    """Where one consumer is, who waits, and what is not acknowledged yet."""

    def step(self, budget: Budget, now: i64) -> i64:
        """Send what may go now; why it ended."""
        if not self.cursor.count_some():
            budget.records = 0  # as much work as a turn of deliveries
            return MORE
        self.cursor.catch_up()
        self.limited = False
        before = self.number
        try:
            reason = self.run(budget, now)
        finally:  # a record that cannot be read does not undo what was sent before it
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
                if seq == SEARCHING:
                    budget.records = 0
                    return MORE
                if seq == 0:
                    cursor.next = max(cursor.next, cursor.counted_to + 1)
                    return IDLE
            self.looking_at = seq
            data, at = log.reader.locate(seq)
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
            pending.release(row)  # nobody acknowledged it: the floor stays
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
                return FULL if self.waiting and self.owner.all_full() else IDLE
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
