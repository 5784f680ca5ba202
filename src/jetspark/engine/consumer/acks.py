"""Acknowledgements, by the sequences in their subjects, and what else ends a message's wait."""

from mypy_extensions import i64

from jetspark.engine.consumer.agenda import ACK_ALL, ACK_EXPLICIT, Reader
from jetspark.engine.consumer.pending import QUEUED, STATE


class Acks(Reader):
    """The half of a consumer that clients answer to."""

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
            self.stream.replies.hold_ack(reply)
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
        if self.spent:
            self.spent = {late: n for late, n in self.spent.items() if late > seq}
        self.floor_seq = seq
        self.floor_number = max(self.floor_number, min(number, self.number))

    def let_go(self, row: i64) -> None:
        """A message is not pending any more; the floor moves when it was the oldest."""
        pending = self.pending
        number = pending.numbers[row]
        pending.release(row)
        if pending.count == 0:
            self.floor_number = self.number
            self.floor_seq = max(self.floor_seq, self.seq)
        elif number == self.floor_number + 1:
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
        if seq >= self.cursor.next or self.cursor.is_listed(seq):
            return True
        if self.spent and int(seq) in self.spent:
            return True
        if self.policy == ACK_EXPLICIT:
            return seq > self.floor_seq and self.pending.find(seq) >= 0
        return seq > self.floor_seq

    def is_queued(self, row: i64) -> bool:
        """Say whether the message of a row is to be delivered again."""
        return self.pending.words[row] & STATE == QUEUED
