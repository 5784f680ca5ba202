"""Replies that wait for a group to be durable, and are sent or undone with it.

A reply that depends on a decision waits for that decision (docs/internals/contracts.md). It is
held with the group that contains it: ``open`` for the open group, ``in_flight`` for the one in
flight.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.engine.batch.members import FastBatch
from jetspark.engine.outbox import Entry, Outbox
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.store.log.stream_log import StreamLog

# The body of a reply, or what returns it: a description of the stream as it is then.
Body = bytes | Callable[[], bytes]
# A reply to a request: its subject, its body, and what it becomes if the group fails.
Answer = tuple[bytes, Body, Callable[[bytes], bytes]]
# The progress of a fast batch in a group: batch, last sequence, bytes, stream sequence.
Standing = tuple[FastBatch, int, int, int]

# So many replies of a kind are sent in one turn: acknowledgements of messages, ready answers, and
# answers of requests, which may describe a stream.
ACKS_PER_TURN: Final = 8_192
ENTRIES_PER_TURN: Final = 1_024
ANSWERS_PER_TURN: Final = 256

ACK_NOT_STORED: Final = status_block(NO_RESPONDERS, b"Acknowledgement Could Not Be Stored")


def said(body: Body) -> bytes:
    """Return the body of a reply that is sent now."""
    return body if isinstance(body, bytes) else body()


class GroupReplies:
    """What is sent when one group is durable: acknowledgements as two columns, other replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.sequences: list[int] = []
        # Replies that depend on the group: if it fails, they become errors.
        self.entries: list[Entry] = []
        # Replies of `$JS.API` requests, which have their own form of errors.
        self.answers: list[Answer] = []
        # Messages that exist only if the group does: if it fails, they are dropped.
        self.messages: list[Entry] = []
        # Fast batches that continue in the group: their progress in messages and bytes, and where.
        self.batches: list[Standing] = []
        # Reply subjects of acknowledgements: an empty answer, or none if the group fails.
        self.acks: list[bytes] = []
        # The patterns of purges; consumers are notified when they are durable.
        self.purges: list[bytes] = []

    def has_only_acks(self) -> bool:
        """Return whether nothing but acknowledgements of messages is held."""
        return not (
            self.entries
            or self.answers
            or self.messages
            or self.batches
            or self.acks
            or self.purges
        )

    def takes_turns(self) -> bool:
        """Return whether these are more replies than are sent in one turn."""
        return (
            len(self.replies) > ACKS_PER_TURN
            or len(self.entries) > ENTRIES_PER_TURN
            or len(self.answers) > ANSWERS_PER_TURN
            or len(self.acks) > ENTRIES_PER_TURN
            or len(self.messages) > ANSWERS_PER_TURN
        )

    def take_some(self) -> "GroupReplies":
        """Take out as many as are sent in one turn, in order: of one kind."""
        some = GroupReplies()
        if self.replies:
            some.replies = self.replies[:ACKS_PER_TURN]
            some.sequences = self.sequences[:ACKS_PER_TURN]
            del self.replies[:ACKS_PER_TURN]
            del self.sequences[:ACKS_PER_TURN]
        elif self.entries:
            some.entries = self.entries[:ENTRIES_PER_TURN]
            del self.entries[:ENTRIES_PER_TURN]
        elif self.answers:
            some.answers = self.answers[:ANSWERS_PER_TURN]
            del self.answers[:ANSWERS_PER_TURN]
        elif self.acks:
            some.acks = self.acks[:ENTRIES_PER_TURN]
            del self.acks[:ENTRIES_PER_TURN]
        else:
            some.messages = self.messages[:ANSWERS_PER_TURN]
            del self.messages[:ANSWERS_PER_TURN]
        return some

    def take_up_to(self, most: int) -> "GroupReplies":
        """Take out up to so many replies, of any kind."""
        some = GroupReplies()
        some.acks = self.acks[:most]
        self.acks = self.acks[most:]
        left = most - len(some.acks)
        some.replies = self.replies[:left]
        self.replies = self.replies[left:]
        left -= len(some.replies)
        some.entries = self.entries[:left]
        self.entries = self.entries[left:]
        left -= len(some.entries)
        some.answers = self.answers[:left]
        self.answers = self.answers[left:]
        return some

    def is_over(self) -> bool:
        """Return whether no reply is left, apart from messages."""
        return not (self.replies or self.entries or self.answers or self.acks)


class Replies:
    """The replies of one stream."""

    def __init__(self, log: StreamLog, json_name: bytes) -> None:
        self.log: StreamLog = log
        self.json_name: bytes = json_name
        self.ack_head: bytes = b'{"stream":' + json_name + b',"seq":'
        self.open: GroupReplies = GroupReplies()
        self.in_flight: GroupReplies = GroupReplies()
        # The last sequence in the group in flight.
        self.in_flight_seq: i64 = 0
        # What waited for groups that failed, with its error.
        self.refused: list[tuple[GroupReplies, bytes]] = []

    # Holding -----------------------------------------------------------------------------------

    def acknowledge(self, reply: bytes, seq: i64) -> None:
        """Acknowledge the message that was staged last, once it is durable."""
        held = self.open
        held.replies.append(reply)
        held.sequences.append(int(seq))

    def acknowledge_with(self, reply: bytes, body: bytes) -> None:
        """Acknowledge the message that was staged last with a body of its own."""
        self.open.entries.append((reply, reply, b"", b"", body))

    def acknowledge_duplicate(self, reply: bytes, seq: i64, outbox: Outbox) -> None:
        """Answer with the sequence of the first copy, once that copy is durable."""
        if len(reply) == 0:
            return
        # Released servers have the blank, too.
        body = self.ack_head + b'%d,"duplicate": true}' % int(seq)
        entry = (reply, reply, b"", b"", body)
        if seq <= self.log.index.last_seq:
            outbox.send(entry)
        elif seq <= self.in_flight_seq:
            self.in_flight.entries.append(entry)
        else:
            self.open.entries.append(entry)

    def refuse(self, reply: bytes, error: bytes, on_state: bool, outbox: Outbox) -> None:
        """Answer a publish with an error: now, or when the state it depends on is durable."""
        if len(reply) == 0:
            return
        entry = (reply, reply, b"", b"", self.failure(error))
        if on_state:
            self.hold_newest(entry, outbox)
        else:
            outbox.send(entry)

    def failure(self, error: bytes) -> bytes:
        """Return the body of a failed publish: released servers have the zero sequence, too."""
        return b'{"error":%s,"stream":%s,"seq":0}' % (error, self.json_name)

    def newest(self) -> GroupReplies | None:
        """Return what is sent when everything staged is durable; None if nothing is staged."""
        staged = self.log.staged
        if staged.position == self.log.index.position:
            return None
        if staged.in_flight is not None and staged.in_flight.last_position == staged.position:
            return self.in_flight
        return self.open

    def hold_newest(self, entry: Entry, outbox: Outbox) -> None:
        """Send a reply when everything staged is durable; now if nothing is."""
        held = self.newest()
        if held is None:
            outbox.send(entry)
        else:
            held.entries.append(entry)

    def hold_answer(self, answer: Answer, outbox: Outbox) -> None:
        """Answer a request when everything staged is durable; now if nothing is."""
        held = self.newest()
        if held is None:
            outbox.reply(answer[0], said(answer[1]))
        else:
            held.answers.append(answer)

    def hold_ack(self, reply: bytes) -> None:
        """Answer an acknowledgement when the journal record of the next group is durable.

        The consumer is in the journal's list, so there will be such a record.
        """
        self.open.acks.append(reply)

    def hold_message(self, entry: Entry) -> bool:
        """Publish a message when everything staged is durable; False if nothing is.

        If the disk fails, the message is dropped.
        """
        held = self.newest()
        if held is None:
            return False
        held.messages.append(entry)
        return True

    def hold_republished(self, entry: Entry) -> None:
        """Publish a message with the one that was staged last."""
        self.open.messages.append(entry)

    def hold_purge(self, pattern: bytes) -> None:
        """Notify consumers of a staged purge, once it is durable."""
        self.open.purges.append(pattern)

    def hold_standing(self, standing: Standing) -> None:
        """Acknowledge messages of a fast batch when the open group is durable."""
        self.open.batches.append(standing)

    def mark(self) -> tuple[int, int]:
        """Return the counts of what waits now, for ``rewind``."""
        return len(self.open.messages), len(self.open.purges)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Undo a batch: drop what its messages added since a mark."""
        del self.open.messages[mark[0] :]
        del self.open.purges[mark[1] :]

    # Groups ------------------------------------------------------------------------------------

    def group_taken(self) -> None:
        """Note that the open group is in flight."""
        # Without a group in flight nothing is held for it: eight lists are used again.
        empty = self.in_flight
        self.in_flight = self.open
        self.open = empty
        self.in_flight_seq = self.log.staged.seq

    def takes_turns(self) -> bool:
        """Return whether the replies of the group in flight are sent in several turns."""
        return self.in_flight.takes_turns()

    def send_some(self, outbox: Outbox) -> list[Entry] | None:
        """Send some replies of the group in flight, which was applied.

        Returns the messages to publish, which come last; None: ``committed`` sends the rest.
        """
        if not self.in_flight.takes_turns():
            return None
        some = self.in_flight.take_some()
        self.send(some, outbox)
        return some.messages

    def send(self, held: GroupReplies, outbox: Outbox) -> None:
        """Send replies that waited for the disk."""
        if held.replies:
            outbox.acknowledge(self.ack_head, held.replies, held.sequences)
        outbox.send_all(held.entries)
        for answer in held.answers:
            outbox.reply(answer[0], said(answer[1]))
        for to in held.acks:
            outbox.send((to, to, b"", b"", b""))

    def committed(self, outbox: Outbox) -> GroupReplies:
        """Send the replies of the group in flight, which is durable; return the rest of it."""
        held = self.in_flight
        if held.has_only_acks():
            # Most groups: with many streams per turn a new object for each costs more than its
            # acknowledgements.
            replies, sequences = held.replies, held.sequences
            if replies:
                held.replies = []
                held.sequences = []
                outbox.acknowledge(self.ack_head, replies, sequences)
            return held
        self.in_flight = GroupReplies()
        self.send(held, outbox)
        return held

    def refuse_all(self, error: bytes, outbox: Outbox) -> bool:
        """Answer everything that waits with an error: what it depends on will never be durable.

        False: ``refuse_some`` answers the rest.
        """
        self.refused.append((self.in_flight, error))
        self.refused.append((self.open, error))
        self.in_flight = GroupReplies()
        self.open = GroupReplies()
        return self.refuse_some(outbox)

    def refuse_some(self, outbox: Outbox) -> bool:
        """Answer some of what waited with its error, in one turn; True if that was all."""
        left = ENTRIES_PER_TURN
        while self.refused:
            held, error = self.refused[0]
            if held.is_over():
                self.refused.pop(0)
                continue
            if left <= 0:
                return False
            left -= self.refuse_group(held, error, outbox, left)
        return True

    def refuse_group(self, held: GroupReplies, error: bytes, outbox: Outbox, most: int) -> int:
        """Answer up to so many that waited with an error; return how many."""
        some = held.take_up_to(most)
        body = self.failure(error)
        for to in some.acks:
            outbox.reply_status(to, ACK_NOT_STORED)
        for to in some.replies:
            outbox.send((to, to, b"", b"", body))
        for entry in some.entries:
            outbox.send((entry[0], entry[1], entry[2], b"", body))
        for answer in some.answers:
            outbox.reply(answer[0], answer[2](error))
        return len(some.acks) + len(some.replies) + len(some.entries) + len(some.answers)

    def answer_acks(self, outbox: Outbox) -> None:
        """Confirm acknowledgements, or refuse them: there is no group to wait for.

        Those of consumers in memory leave no record, so there is nothing to wait for.
        """
        if not self.open.acks:
            return
        if self.log.access.read_only:
            self.refuse_acks(outbox)
        elif self.log.staged.position == self.log.index.position:
            for to in self.open.acks:
                outbox.send((to, to, b"", b"", b""))
            self.open.acks = []

    def refuse_acks(self, outbox: Outbox) -> None:
        """Inform waiting clients that their acknowledgements cannot be stored now.

        With 503 and no body: clients treat any other answer as a confirmation.
        """
        for held in (self.in_flight, self.open):
            for to in held.acks:
                outbox.reply_status(to, ACK_NOT_STORED)
            held.acks = []
