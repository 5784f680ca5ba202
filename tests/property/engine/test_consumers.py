"""A consumer behaves as a naive model of one: lists, dicts and scans (wire.md, Consumers).

Crashes come in two kinds: after a journal record, where nothing but times may change, and before
one, where messages may be delivered again and nothing may be lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.engine.consumer.conftest import MS, SECOND, World, Written, sequences

from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.pending import GONE
from jetspark.subjects.match import matches

SUBJECTS = (b"s.a", b"s.b", b"s.c.d", b"s.c.e")
FILTERS = ((), ("s.a",), ("s.c.*",), ("s.a", "s.c.>"), ("s.none",))
ACK_WAIT = 10 * SECOND


@dataclass
class Row:
    """A message that waits for its acknowledgement; without a deadline it is queued."""

    number: int
    deliveries: int
    deadline: int | None


@dataclass
class Model:
    """Where a consumer should be."""

    filters: tuple[str, ...]
    max_ack_pending: int
    max_deliver: int
    messages: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    next: int = 1
    number: int = 0
    seq: int = 0
    floor: tuple[int, int] = (0, 0)
    pending: dict[int, Row] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    spent: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    delivered_at: int = 0

    def wants(self, subject: bytes) -> bool:
        return not self.filters or any(matches(subject, f.encode()) for f in self.filters)

    def left(self) -> int:
        return sum(seq >= self.next and self.wants(s) for seq, s in self.messages.items())

    def deliver(self, count: int, now: int) -> list[tuple[int, int, int, int]]:
        """What a request gets: sequence, deliveries, consumer sequence, pending after it."""
        sent: list[tuple[int, int, int, int]] = []
        while len(sent) < count:
            one = self._again(now) or self._new(now)
            if one is None:
                break
            sent.append(one)
        return sent

    def _again(self, now: int) -> tuple[int, int, int, int] | None:
        while self.queue:
            seq = self.queue.pop(0)
            row = self.pending[seq]
            if self.max_deliver and row.deliveries >= self.max_deliver:
                del self.pending[seq]
                self.spent.add(seq)
                continue
            row.deliveries += 1
            row.deadline = now + ACK_WAIT
            self.number += 1
            self.delivered_at = now
            return seq, row.deliveries, self.number, self.left()
        return None

    def _new(self, now: int) -> tuple[int, int, int, int] | None:
        if self.max_ack_pending and len(self.pending) >= self.max_ack_pending:
            return None
        found = [q for q, s in sorted(self.messages.items()) if q >= self.next and self.wants(s)]
        if not found:
            self.next = max(self.next, self.last + 1)
            return None
        seq = found[0]
        self.next = seq + 1
        self.number += 1
        self.seq = seq
        self.delivered_at = now
        self.pending[seq] = Row(self.number, 1, now + ACK_WAIT)
        return seq, 1, self.number, len(found) - 1

    def remove_pending(self, seq: int) -> None:
        row = self.pending.pop(seq, None)
        if row is None:
            self.spent.discard(seq)
            return
        if seq in self.queue:
            self.queue.remove(seq)
        if not self.pending:
            self.floor = (self.number, max(self.floor[1], self.seq))
        elif row.number == self.floor[0] + 1:
            seqs = sorted(self.pending)
            self.floor = (self.pending[seqs[0]].number - 1, max(self.floor[1], seqs[0] - 1))

    def requeue(self, seq: int) -> None:
        row = self.pending[seq]
        if row.deadline is not None:
            row.deadline = None
            self.queue.append(seq)

    def pass_time(self, start: int, end: int) -> None:
        """Deadlines one after the other, those of one point in time by their sequences."""
        while True:
            due = sorted(
                (row.deadline, seq)
                for seq, row in self.pending.items()
                if row.deadline is not None and row.deadline <= end
            )
            if not due:
                return
            moment = max(due[0][0], start)
            for _, seq in sorted((seq, seq) for deadline, seq in due if deadline <= moment):
                self.requeue(seq)


class ConsumerMachine(RuleBasedStateMachine):
    """One pull consumer with explicit acknowledgements."""

    @initialize(
        filters=st.sampled_from(FILTERS),
        max_ack_pending=st.sampled_from((0, 3)),
        max_deliver=st.sampled_from((0, 2)),
        before=st.lists(st.sampled_from(SUBJECTS), max_size=6),
    )
    def begin(
        self,
        filters: tuple[str, ...],
        max_ack_pending: int,
        max_deliver: int,
        before: list[bytes],
    ) -> None:
        self.world = World()
        self.stream = self.world.stream()
        self.model = Model(filters, max_ack_pending, max_deliver)
        self.publish(before)
        self.consumer = self.world.consumer(
            self.stream,
            filter_subjects=filters,
            ack_wait=ACK_WAIT,
            max_ack_pending=max_ack_pending or -1,
            max_deliver=max_deliver or -1,
        )
        self.replies: dict[int, bytes] = {}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()

    @rule(subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=4))
    def publish(self, subjects: list[bytes]) -> None:
        self.world.publish(self.stream, *subjects)
        self.world.turn()
        for subject in subjects:
            self.model.last += 1
            self.model.messages[self.model.last] = subject

    @rule(count=st.integers(1, 5))
    def pull(self, count: int) -> None:
        room = self.model.max_ack_pending
        expected = self.model.deliver(count, self.world.now)

        # A short time instead of no_wait: at max_ack_pending such a request is not answered.
        self.world.pull(b'{"batch":%d,"expires":1000000}' % count)
        got = [message for message in self.world.got() if message[1]]
        self.pass_time(2 * MS)
        self.world.got()

        assert [told(message) for message in got] == expected
        for message in got:
            self.replies[sequences([message])[0]] = message[1]
        assert not room or len(self.model.pending) <= room

    @precondition(lambda self: self.replies)
    @rule(pick=st.integers(0, 99), word=st.sampled_from((b"", b"+ACK", b"+TERM", b"+OK")))
    def ack(self, pick: int, word: bytes) -> None:
        seq = sorted(self.replies)[pick % len(self.replies)]

        self.world.ack(self.replies[seq], word)

        self.model.remove_pending(seq)
        self.model.acked.add(seq)

    @precondition(lambda self: self.replies)
    @rule(pick=st.integers(0, 99), delay=st.sampled_from((None, 1, 4)))
    def nak(self, pick: int, delay: int | None) -> None:
        seq = sorted(self.replies)[pick % len(self.replies)]
        row = self.model.pending.get(seq)
        behind = int(self.replies[seq].split(b".")[6]) <= self.model.floor[0]

        self.world.ack(self.replies[seq], b"-NAK" if delay is None else b"-NAK %ds" % delay)

        if row is None or behind:
            return
        if delay is None:
            self.model.requeue(seq)
        else:
            if row.deadline is None:
                self.model.queue.remove(seq)
            row.deadline = self.world.now + delay * SECOND

    @precondition(lambda self: self.replies)
    @rule(pick=st.integers(0, 99))
    def work_in_progress(self, pick: int) -> None:
        seq = sorted(self.replies)[pick % len(self.replies)]

        self.world.ack(self.replies[seq], b"+WPI")

        row = self.model.pending.get(seq)
        if row is not None and row.deadline is not None:
            row.deadline = self.world.now + ACK_WAIT

    @precondition(lambda self: self.model.messages)
    @rule(pick=st.integers(0, 99))
    def delete(self, pick: int) -> None:
        seq = sorted(self.model.messages)[pick % len(self.model.messages)]

        self.stream.log.staged.delete(seq)
        self.world.engine.mark_dirty(self.stream)
        self.world.turn()

        del self.model.messages[seq]
        if seq in self.model.pending:
            self.model.remove_pending(seq)
        self.model.spent.discard(seq)

    @rule(milliseconds=st.sampled_from((1, 60, 1_000, 4_000, 11_000)))
    def wait(self, milliseconds: int) -> None:
        self.pass_time(milliseconds * MS)

    def pass_time(self, nanoseconds: int) -> None:
        before = self.world.now
        self.world.pass_time(nanoseconds)
        self.model.pass_time(before, self.world.now)

    @rule()
    def crash_behind_the_journal(self) -> None:
        self.world.engine.consumers.save_all()
        self.world.commit()
        self._crash()

        for seq in self.model.queue:
            self.model.pending[seq].deadline = 0
        self.model.queue.clear()
        for row in self.model.pending.values():
            row.deadline = self.model.delivered_at + ACK_WAIT
        if not self.model.pending and not self.model.spent:
            self.model.floor = (self.model.number, max(self.model.floor[1], self.model.seq))
        self.pass_time(1)  # deadlines that passed while the server was away are kept first thing

    @rule()
    def crash_before_the_journal(self) -> None:
        """What was not written may come again; what no one acknowledged does not get lost."""
        self._crash()
        state = self.consumer.state
        pending = state.pending
        rows = {
            int(pending.seqs[row]): Row(
                int(pending.consumer_seqs[row]), int(pending.deliveries(row)), 0
            )
            for row in range(int(pending.head), len(pending.seqs))
            if pending.words[row] != GONE
        }
        for seq, subject in self.model.messages.items():
            if self.model.wants(subject) and seq not in self.model.acked:
                known = seq in rows or seq >= state.cursor.next or seq in state.spent
                assert known, f"message {seq} is lost"
                assert seq > state.floor_seq or seq in state.spent or seq in rows
        self.model.next = int(state.cursor.next)
        self.model.number = int(state.consumer_seq)
        self.model.seq = int(state.seq)
        self.model.floor = (int(state.floor_consumer_seq), int(state.floor_seq))
        self.model.delivered_at = int(state.delivered_ns)
        self.model.spent = set(state.spent)
        self.model.queue.clear()
        self.model.pending = rows
        for row in rows.values():
            row.deadline = self.model.delivered_at + ACK_WAIT
        self.model.acked -= set(rows)
        self.pass_time(1)

    def _crash(self) -> None:
        self.world.crash()
        self.stream = self.world.engine.streams["S"]
        found = self.stream.consumers["c"]
        assert isinstance(found, Consumer)
        self.consumer = found
        self.replies = {seq: r for seq, r in self.replies.items() if seq in self.model.messages}

    @invariant()
    def info_says_what_the_model_says(self) -> None:
        if not hasattr(self, "consumer"):
            return
        info = self.world.info(self.consumer)
        model = self.model

        assert info.num_pending == model.left()
        assert info.num_ack_pending == len(model.pending)
        assert info.delivered.consumer_seq == model.number
        assert info.delivered.stream_seq == model.seq
        assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == model.floor
        again = sum(row.deliveries > 1 for row in model.pending.values())
        assert info.num_redelivered == again + len(model.spent)


def told(message: Written) -> tuple[int, int, int, int]:
    """What the reply subject of a message says."""
    words = message[1].split(b".")
    return int(words[5]), int(words[4]), int(words[6]), int(words[8])


TestConsumers = ConsumerMachine.TestCase
TestConsumers.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def played() -> ConsumerMachine:
    """A consumer whose three messages, delivered once, all wait for redelivery."""
    state = ConsumerMachine()
    state.begin(max_deliver=2, filters=(), max_ack_pending=0, before=[b"s.a"] * 3)
    state.pull(count=3)
    state.wait(milliseconds=11_000)
    return state


def test_a_queued_message_that_is_delayed_goes_to_the_end_of_the_queue() -> None:
    state = played()
    state.nak(delay=4, pick=0)
    state.wait(milliseconds=4_000)
    state.pull(count=1)
    state.info_says_what_the_model_says()
    state.pull(count=2)
    state.teardown()


def test_a_message_that_was_given_up_stays_given_up_after_a_crash() -> None:
    state = played()
    state.pull(count=3)
    state.wait(milliseconds=11_000)
    state.pull(count=3)  # nothing is left to deliver
    state.info_says_what_the_model_says()
    state.crash_behind_the_journal()
    state.info_says_what_the_model_says()
    state.teardown()
