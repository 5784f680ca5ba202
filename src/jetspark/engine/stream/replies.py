"""Replies that wait for a group to be durable, and go out or are taken back with it.

A reply that stands on a decision waits for that decision (docs/internals/contracts.md). It is
held with the group that carries it: ``open`` while the group fills, ``in_flight`` while it is on
its way to the disk.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.engine.batch.members import FastBatch
from jetspark.engine.outbox import Entry, Outbox
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.store.log.stream_log import StreamLog

# A reply to a request: to whom, what, and what it becomes when an error takes its place.
Answer = tuple[bytes, bytes, Callable[[bytes], bytes]]
# How far a fast batch has come in a group: batch, last sequence, bytes, stream sequence.
Standing = tuple[FastBatch, int, int, int]

ACK_NOT_STORED: Final = status_block(NO_RESPONDERS, b"Acknowledgement Could Not Be Stored")


class GroupReplies:
    """What goes out when one group is durable: acknowledgements as two columns, other replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.sequences: list[int] = []
        # Replies that stand on the group: when it fails, they say so instead.
        self.entries: list[Entry] = []
        # Replies of `$JS.API` requests, which have errors of their own shape.
        self.answers: list[Answer] = []
        # Messages that exist only if the group does: when it fails, they never were.
        self.messages: list[Entry] = []
        # Fast batches that go on in the group: how far, in messages and bytes, and where.
        self.batches: list[Standing] = []
        # Who asked for an answer to an acknowledgement: an empty one, or silence when it fails.
        self.acks: list[bytes] = []
        # The patterns of purges; consumers are notified when they are durable.
        self.purges: list[bytes] = []


class Replies:
    """The replies of one stream."""

    def __init__(self, log: StreamLog, json_name: bytes) -> None:
        self.log: StreamLog = log
        self.json_name: bytes = json_name
        self.ack_head: bytes = b'{"stream":' + json_name + b',"seq":'
        self.open: GroupReplies = GroupReplies()
        self.in_flight: GroupReplies = GroupReplies()
        # The last sequence that the group on its way carries.
        self.in_flight_seq: i64 = 0

    # Holding -----------------------------------------------------------------------------------

    def acknowledge(self, reply: bytes, seq: i64) -> None:
        """Acknowledge a message that was staged last, once it is durable."""
        held = self.open
        held.replies.append(reply)
        held.sequences.append(int(seq))

    def acknowledge_with(self, reply: bytes, body: bytes) -> None:
        """Acknowledge what was staged last with a body of its own."""
        self.open.entries.append((reply, reply, b"", b"", body))

    def acknowledge_duplicate(self, reply: bytes, seq: i64, outbox: Outbox) -> None:
        """Answer with the sequence of the first copy, once that copy is durable."""
        if len(reply) == 0:
            return
        # Released servers have the blank, too.
        body = self.ack_head + b'%d,"duplicate": true}' % int(seq)
        entry = (reply, reply, b"", b"", body)
        if seq <= self.log.index.last_seq:
            outbox.now.append(entry)
        elif seq <= self.in_flight_seq:
            self.in_flight.entries.append(entry)
        else:
            self.open.entries.append(entry)

    def refuse(self, reply: bytes, error: bytes, on_state: bool, outbox: Outbox) -> None:
        """Answer a publish with an error: at once, or when the state it stands on is durable."""
        if len(reply) == 0:
            return
        entry = (reply, reply, b"", b"", self.failure(error))
        if on_state:
            self.hold_newest(entry, outbox)
        else:
            outbox.now.append(entry)

    def failure(self, error: bytes) -> bytes:
        """The body of a failed publish: released servers have the zero sequence, too."""
        return b'{"error":%s,"stream":%s,"seq":0}' % (error, self.json_name)

    def newest(self) -> GroupReplies | None:
        """What goes out when all that is staged is durable; None when it is durable already."""
        staged = self.log.staged
        if staged.position == self.log.index.position:
            return None
        if staged.in_flight is not None and staged.in_flight.last_position == staged.position:
            return self.in_flight
        return self.open

    def hold_newest(self, entry: Entry, outbox: Outbox) -> None:
        """Send a reply when all that is staged is durable; at once when nothing is."""
        held = self.newest()
        if held is None:
            outbox.now.append(entry)
        else:
            held.entries.append(entry)

    def hold_answer(self, answer: Answer, outbox: Outbox) -> None:
        """Answer a request when all that is staged is durable; at once when nothing is."""
        held = self.newest()
        if held is None:
            outbox.reply(answer[0], answer[1])
        else:
            held.answers.append(answer)

    def hold_ack(self, reply: bytes) -> None:
        """Answer an acknowledgement when the journal record that the next group gets is durable.

        The consumer is in the journal's list, so there is such a record.
        """
        self.open.acks.append(reply)

    def hold_message(self, entry: Entry) -> bool:
        """Publish a message when all that is staged is durable; False when nothing is.

        When the disk refuses, the message never was.
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
        """Notify consumers of a purge that was staged, once it is durable."""
        self.open.purges.append(pattern)

    def hold_standing(self, standing: Standing) -> None:
        """Acknowledge messages of a fast batch when the group that fills is durable."""
        self.open.batches.append(standing)

    def mark(self) -> tuple[int, int]:
        """How much of what a message brings along waits now, for ``rewind``."""
        return len(self.open.messages), len(self.open.purges)

    def rewind(self, mark: tuple[int, int]) -> None:
        """A batch was taken back: what its messages brought along since a mark never was."""
        del self.open.messages[mark[0] :]
        del self.open.purges[mark[1] :]

    # Groups ------------------------------------------------------------------------------------

    def group_taken(self) -> None:
        """What fills goes to the disk."""
        self.in_flight = self.open
        self.open = GroupReplies()
        self.in_flight_seq = self.log.staged.seq

    def committed(self, outbox: Outbox) -> GroupReplies:
        """The group on its way is durable: its replies go out. What else it brought."""
        held = self.in_flight
        self.in_flight = GroupReplies()
        if held.replies:
            outbox.acknowledge(self.ack_head, held.replies, held.sequences)
        outbox.now.extend(held.entries)
        for answer in held.answers:
            outbox.reply(answer[0], answer[1])
        for to in held.acks:
            outbox.now.append((to, to, b"", b"", b""))
        return held

    def refuse_all(self, error: bytes, outbox: Outbox) -> None:
        """Answer everything that waits with an error: what it stands on will never be durable."""
        body = self.failure(error)
        self.refuse_acks(outbox)
        for held in (self.in_flight, self.open):
            for to in held.replies:
                outbox.now.append((to, to, b"", b"", body))
            for entry in held.entries:
                outbox.now.append((entry[0], entry[1], entry[2], b"", body))
            for answer in held.answers:
                outbox.reply(answer[0], answer[2](error))
        self.in_flight = GroupReplies()
        self.open = GroupReplies()

    def answer_acks(self, outbox: Outbox) -> None:
        """There is no group to wait for: confirm acknowledgements, or refuse them.

        Those of consumers in memory leave no record, so there is nothing to wait for.
        """
        if not self.open.acks:
            return
        if self.log.access.read_only:
            self.refuse_acks(outbox)
        elif self.log.staged.position == self.log.index.position:
            for to in self.open.acks:
                outbox.now.append((to, to, b"", b"", b""))
            self.open.acks = []

    def refuse_acks(self, outbox: Outbox) -> None:
        """Tell clients that wait for it that no acknowledgement of theirs is stored now.

        With 503 and no body: clients take any other answer for a confirmation.
        """
        for held in (self.in_flight, self.open):
            for to in held.acks:
                outbox.reply_status(to, ACK_NOT_STORED)
            held.acks = []
