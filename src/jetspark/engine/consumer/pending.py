"""Delivered and unacknowledged messages of a consumer, as columns (hot-path.md, Rules).

One row per message, in order of first delivery, so sequences and consumer sequences both increase
along the rows and a row is found by binary search. A row is *live* while its ack wait runs with
the run it was delivered in, *moved* if it has a deadline of its own, and *queued* if it is to be
redelivered. Rows before the first one still pending are below the ack floor and are dropped.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import StreamIndex

GONE: Final[i64] = 0
LIVE: Final[i64] = 1
MOVED: Final[i64] = 2
QUEUED: Final[i64] = 3
STATE: Final[i64] = 3
ONCE: Final[i64] = 4  # deliveries are counted in the bits above the state

# Rows before the head are freed when there are this many, and as many as after it.
TRIM_MIN: Final[i64] = 1024
# This many messages whose ack wait is over are queued in one turn.
EXPIRED_AT_ONCE: Final[i64] = 8192
# This many of a removed consumer are freed in one turn.
FREED_AT_ONCE: Final = 32_768
# Most of a long queue was acknowledged meanwhile: who is first is known in a later turn.
UNSEEN: Final[i64] = -2


# MessagePack: the largest number in one byte, in four, and the longest array with a short head.
_FIXED_MAX: Final[i64] = 127
_INT_MAX: Final[i64] = 0xFFFF_FFFF
_ARRAY_FIXED_MAX: Final[i64] = 15
_HALF: Final[i64] = 0x8000_0000
# More rows than this are written as runs: a record of a million rows as two arrays takes 50 ms.
ROWS_MAX: Final[i64] = 8192
# The longest number of a run has 63 bits.
_SHIFT_MAX: Final[i64] = 56
# A longer run is no run: it would fill the memory of a server that reads it.
MESSAGES_MAX: Final[i64] = 1 << 28


class PackedArray:
    """An array of integers in MessagePack; none is negative."""

    def __init__(self) -> None:
        self._count: i64 = 0
        self._items: BytesWriter = BytesWriter()

    def add(self, number: i64) -> None:
        """Append a number."""
        items = self._items
        self._count += 1
        if number <= _FIXED_MAX:
            items.append(u8(number))
        elif number <= _INT_MAX:
            items.append(0xCE)
            if number >= _HALF:
                write_i32_be(items, i32(number - _INT_MAX - 1))
            else:
                write_i32_be(items, i32(number))
        else:
            items.append(0xCF)
            write_i64_be(items, number)

    def packed(self) -> bytes:
        """Return the array."""
        head = BytesWriter()
        if self._count <= _ARRAY_FIXED_MAX:
            head.append(u8(0x90 + self._count))
        else:
            head.append(0xDD)
            write_i32_be(head, i32(self._count))
        return head.getvalue() + self._items.getvalue()


class RunWriter:
    """Writes rows as runs of consecutive messages (disk-format.md, Records).

    A run has consecutive sequences, consecutive consumer sequences and one delivery count. It is
    three numbers, of seven bits per byte, the lowest first: how many sequences and how many
    consumer sequences are between the run before and this one, and twice the messages that follow
    its first one, plus one if its delivery count is not 1 and follows as a fourth number.
    """

    def __init__(self) -> None:
        self._out: BytesWriter = BytesWriter()
        # The row that would continue the run, and where the one before it ended.
        self._seq: i64 = 0
        self._consumer_seq: i64 = 0
        self._first: i64 = 0
        self._consumer_first: i64 = 0
        self._end: i64 = 0
        self._consumer_end: i64 = 0
        self._deliveries: i64 = 0

    def add(self, seq: i64, consumer_seq: i64, deliveries: i64) -> None:
        """Append a row; both sequences increase."""
        if (
            seq == self._seq
            and consumer_seq == self._consumer_seq
            and deliveries == self._deliveries
        ):
            self._seq += 1
            self._consumer_seq += 1
            return
        self.end_run()
        self._first = seq
        self._consumer_first = consumer_seq
        self._seq = seq + 1
        self._consumer_seq = consumer_seq + 1
        self._deliveries = deliveries

    def end_run(self) -> None:
        """Write the run in progress, if any."""
        if self._deliveries == 0:
            return
        more = (self._seq - self._first - 1) * 2
        gap = self._first - self._end
        consumer_gap = self._consumer_first - self._consumer_end
        self._end = self._seq
        self._consumer_end = self._consumer_seq
        out = self._out
        if self._deliveries == 1 and gap <= 127 and consumer_gap <= 127 and more <= 127:
            out.append(u8(gap))
            out.append(u8(consumer_gap))
            out.append(u8(more))
            return
        self._number(gap)
        self._number(consumer_gap)
        if self._deliveries == 1:
            self._number(more)
        else:
            self._number(more + 1)
            self._number(self._deliveries)

    def _number(self, number: i64) -> None:
        while number > _FIXED_MAX:
            self._out.append(u8((number & 127) | 128))
            number >>= 7
        self._out.append(u8(number))

    def written(self) -> bytes:
        """Return all runs."""
        self.end_run()
        self._deliveries = 0
        return self._out.getvalue()


class RunReader:
    """Reads what a ``RunWriter`` wrote. Raises ValueError for other bytes."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes = data
        self._at: i64 = 0

    def read_into(self, pending: Pending) -> None:
        """Add all rows."""
        seq: i64 = 0
        consumer_seq: i64 = 0
        end: i64 = len(self._data)
        while self._at < end:
            seq += self._number()
            consumer_seq += self._number()
            more = self._number()
            deliveries: i64 = self._number() if more & 1 else 1
            more >>= 1
            if more > MESSAGES_MAX or deliveries < 1:
                raise ValueError("a run of pending messages is implausible")
            while more >= 0:
                pending.put(seq, consumer_seq, deliveries)
                seq += 1
                consumer_seq += 1
                more -= 1

    def _number(self) -> i64:
        number: i64 = 0
        shift: i64 = 0
        end: i64 = len(self._data)
        while self._at < end:
            byte: i64 = self._data[self._at]
            self._at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > _SHIFT_MAX:
                break
        raise ValueError("a run of pending messages ends within a number, or has a long one")


class Pending:
    """Messages that wait for their acknowledgement."""

    def __init__(self) -> None:
        self.seqs: vec[i64] = vec[i64]()
        self.consumer_seqs: vec[i64] = vec[i64]()  # the consumer sequence of the first delivery
        self.words: vec[i64] = vec[i64]()  # delivery count and state
        self.head: i64 = 0
        self.trimmed: i64 = 0  # rows freed; a row's index plus this never changes
        self.count: i64 = 0
        self.redelivered: i64 = 0
        self.queued: i64 = 0
        self.queue: deque[int] = deque()
        # How many entries of a message in the queue no longer count: it left the queue meanwhile.
        self.stale: dict[int, int] = {}
        # (place after the last row, when): rows delivered together.
        self.runs: deque[tuple[int, int]] = deque()
        self.run_end: i64 = 0
        self.expired_to: i64 = 0  # rows before this place are in no run any more
        self.moved: dict[int, int] = {}
        self.heap: list[tuple[int, int]] = []
        # For the journal: rows before this place are in it, and changes of some of them.
        self.saved_to: i64 = 0
        self.acked: vec[i64] = vec[i64]()
        self.recounted: dict[int, int] = {}

    def find(self, seq: i64) -> i64:
        """Return the row of a pending message; -1 if it is not pending."""
        low = self.head
        high: i64 = len(self.seqs)
        if low >= high:
            return -1
        guess = low + seq - self.seqs[low]
        if low <= guess < high and self.seqs[guess] == seq:
            low = guess
        else:
            while low < high:
                middle = (low + high) >> 1
                if self.seqs[middle] < seq:
                    low = middle + 1
                else:
                    high = middle
            if low >= i64(len(self.seqs)) or self.seqs[low] != seq:
                return -1
        return low if self.words[low] != GONE else -1

    def add(self, seq: i64, consumer_seq: i64, deliveries: i64) -> None:
        """Add a message that was delivered for the first time, or is known to have been."""
        self.seqs = append(self.seqs, seq)
        self.consumer_seqs = append(self.consumer_seqs, consumer_seq)
        self.words = append(self.words, deliveries * ONCE + LIVE)
        self.count += 1
        if deliveries > 1:
            self.redelivered += 1

    def end_run(self, now: i64) -> None:
        """Set the delivery time of the rows added since the last run."""
        end = self.trimmed + i64(len(self.seqs))
        if end > self.run_end:
            self.run_end = end
            self.runs.append((int(end), int(now)))

    def deliveries(self, row: i64) -> i64:
        """Return how often the message of a row was delivered."""
        return self.words[row] >> 2

    # The journal -------------------------------------------------------------------------------

    def rows_to_write(self, *, whole: bool) -> i64:
        """Return how many rows ``packed_rows`` visits."""
        row = self.head
        if not whole:
            row = max(row, self.saved_to - self.trimmed)
        return i64(len(self.seqs)) - row

    def packed_runs(self, *, whole: bool) -> bytes:
        """Return the pending messages, or those that the journal lacks, as runs."""
        row = self.head
        if not whole:
            row = max(row, self.saved_to - self.trimmed)
        writer = RunWriter()
        end: i64 = len(self.seqs)
        while row < end:
            word = self.words[row]
            if word != GONE:
                writer.add(self.seqs[row], self.consumer_seqs[row], word >> 2)
            row += 1
        return writer.written()

    def put(self, seq: i64, consumer_seq: i64, deliveries: i64) -> None:
        """Add a message from the journal, in order; one that exists is replaced."""
        end: i64 = len(self.seqs)
        if end == 0 or seq > self.seqs[end - 1]:
            self.add(seq, consumer_seq, deliveries)
            return
        row = self.find(seq)
        if row >= 0:
            self.consumer_seqs[row] = consumer_seq
            return
        # Never seen: a row in between.
        later = Pending()
        row = 0
        while row < end:
            if seq > 0 and self.seqs[row] > seq:
                later.add(seq, consumer_seq, deliveries)
                seq = 0
            if self.words[row] != GONE:
                later.add(self.seqs[row], self.consumer_seqs[row], self.deliveries(row))
            row += 1
        self.seqs = later.seqs
        self.consumer_seqs = later.consumer_seqs
        self.words = later.words
        self.count = later.count

    def recount(self, seq: i64, deliveries: i64) -> None:
        """Set the delivery count of a message from the journal, if it is pending."""
        row = self.find(seq)
        if row >= 0:
            self.words[row] = deliveries * ONCE + LIVE

    def drop(self, seq: i64) -> None:
        """Remove a message that is not pending any more in the journal."""
        row = self.find(seq)
        if row >= 0:
            self.words[row] = GONE
            self.count -= 1

    def packed_rows(self, *, whole: bool) -> tuple[bytes, bytes]:
        """Return the sequences of all pending messages, or of those that the journal lacks.

        Sequences and consumer sequences, as MessagePack arrays: a list of a million integers
        takes far longer to make.
        """
        row = self.head
        if not whole:
            row = max(row, self.saved_to - self.trimmed)
        seqs = PackedArray()
        consumer_seqs = PackedArray()
        end: i64 = len(self.seqs)
        while row < end:
            if self.words[row] != GONE:
                seqs.add(self.seqs[row])
                consumer_seqs.add(self.consumer_seqs[row])
            row += 1
        return seqs.packed(), consumer_seqs.packed()

    def list_counts(self) -> dict[int, int]:
        """Return the delivery counts above one."""
        counts: dict[int, int] = {}
        row = self.head
        end: i64 = len(self.seqs)
        while row < end:
            # Rows of messages that are no longer pending have none.
            if self.words[row] >= 2 * ONCE:
                counts[int(self.seqs[row])] = int(self.deliveries(row))
            row += 1
        return counts

    def packed_acked(self, floor: i64) -> bytes:
        """Return which messages in the journal are no longer pending, above the ack floor."""
        found = PackedArray()
        i: i64 = 0
        end: i64 = len(self.acked)
        while i < end:
            if self.acked[i] > floor:
                found.add(self.acked[i])
            i += 1
        return found.packed()

    def saved(self) -> None:
        """Note that the journal has everything."""
        self.saved_to = self.trimmed + len(self.seqs)
        self.acked = vec[i64]()
        self.recounted = {}

    def is_queued(self, row: i64) -> bool:
        """Return whether the message of a row is to be redelivered."""
        return self.words[row] & STATE == QUEUED

    def time_of(self, row: i64) -> i64:
        """Return when the run of a row was delivered; 0 if it is in no run any more."""
        place = self.trimmed + row
        if self.words[row] & STATE == LIVE:
            for end, time in self.runs:
                if place < end:
                    return time
        return 0

    def release(self, row: i64) -> bool:
        """Release an acknowledged or terminated message; True if it was the oldest."""
        self.take_out(row)
        if row != self.head:
            return False
        self.move_head(row + 1)
        return True

    def take_out(self, row: i64) -> None:
        """Take out a row; and note that for the journal if it has the row."""
        self.forget(row)
        if self.trimmed + row < self.saved_to:
            self.acked = append(self.acked, self.seqs[row])

    def forget(self, row: i64) -> None:
        """Stop counting a row."""
        word = self.words[row]
        state = word & STATE
        if state == QUEUED:
            self.queued -= 1
        elif state == MOVED:
            self.moved.pop(int(self.seqs[row]), None)
        if word >= 2 * ONCE:
            self.redelivered -= 1
        self.words[row] = GONE
        self.count -= 1

    def move_head(self, row: i64) -> None:
        """Continue with the first row from here on that is left."""
        end: i64 = len(self.words)
        while row < end and self.words[row] == GONE:
            row += 1
        self.head = row
        if row == end or (row >= TRIM_MIN and row * 2 >= end):
            self.trim()

    def rows_up_to(self, seq: i64) -> i64:
        """Return how many rows a release up to a message visits."""
        low = self.head
        high: i64 = len(self.seqs)
        while low < high:
            middle = (low + high) >> 1
            if self.seqs[middle] <= seq:
                low = middle + 1
            else:
                high = middle
        return low - self.head

    def release_rows(self, count: i64) -> None:
        """Release the oldest rows: everything up to a message was acknowledged.

        The journal needs none of them: they are below the ack floor. Nearly all were delivered
        once, and a million of those take a few milliseconds.
        """
        row = self.head
        stop = row + count
        once: i64 = 0
        while row < stop:
            word = self.words[row]
            if word == ONCE + LIVE:
                once += 1
                self.words[row] = GONE
            elif word != GONE:
                self.forget(row)
            row += 1
        self.count -= once
        self.move_head(row)

    def release_missing(self, index: StreamIndex) -> i64:
        """Release all messages that the stream has not any more.

        Returns the highest consumer sequence of them; 0 if there are none.
        """
        highest: i64 = 0
        row = self.head
        end: i64 = len(self.words)
        columns: Columns | None = None
        first: i64 = 0
        after: i64 = 0
        while row < end:
            seq = self.seqs[row]
            if self.words[row] == GONE:
                row += 1
                continue
            if seq < first or seq >= after:
                columns = index.segment_of(seq)
                if columns is not None:
                    first = columns.base
                    after = first + i64(len(columns.offsets))
            if columns is None or columns.offsets[seq - first] == NOWHERE:
                self.take_out(row)
                highest = self.consumer_seqs[row]
            row += 1
        self.move_head(self.head)
        return highest

    def trim(self) -> None:
        """Free the rows before the head."""
        head = self.head
        self.trimmed += head
        self.seqs = self.seqs[head:]
        self.consumer_seqs = self.consumer_seqs[head:]
        self.words = self.words[head:]
        self.head = 0

    # Redelivery --------------------------------------------------------------------------------

    def put_off(self, row: i64, deadline: i64) -> None:
        """Give a message an ack deadline of its own."""
        if self.words[row] & STATE == QUEUED:
            seq = int(self.seqs[row])
            self.stale[seq] = self.stale.get(seq, 0) + 1
        self.move(row, deadline)

    def move(self, row: i64, deadline: i64) -> None:
        """Give a message an ack deadline of its own; it is not in the queue any more."""
        seq = int(self.seqs[row])
        word = self.words[row]
        if word & STATE == QUEUED:
            self.queued -= 1
        self.words[row] = word - (word & STATE) + MOVED
        self.moved[seq] = int(deadline)
        heappush(self.heap, (int(deadline), seq))

    def requeue(self, row: i64) -> None:
        """Queue a message for redelivery, after those queued already."""
        word = self.words[row]
        state = word & STATE
        if state == QUEUED:
            return
        seq = int(self.seqs[row])
        if state == MOVED:
            self.moved.pop(seq, None)
        self.words[row] = word - state + QUEUED
        self.queued += 1
        self.queue.append(seq)

    def first_queued(self) -> i64:
        """Return the row to redeliver first; -1 if none, UNSEEN if that takes another turn."""
        visited: i64 = 0
        while self.queue:
            if visited == EXPIRED_AT_ONCE:
                return UNSEEN
            visited += 1
            seq = self.queue[0]
            stale = self.stale.pop(seq, 0) if len(self.stale) > 0 else 0
            if stale == 0:
                row = self.find(seq)
                if row >= 0 and self.words[row] & STATE == QUEUED:
                    return row
            elif stale > 1:
                self.stale[seq] = stale - 1
            self.queue.popleft()
        return -1

    def again(self, row: i64, deadline: i64) -> None:
        """Note that the first queued message was redelivered."""
        self.queue.popleft()
        word = self.words[row] + ONCE
        if word < 3 * ONCE:
            self.redelivered += 1
        self.words[row] = word
        self.recounted[int(self.seqs[row])] = int(word >> 2)
        self.move(row, deadline)

    def expire(self, now: i64, wait: i64) -> None:
        """Queue messages whose ack wait is over, oldest first; of very many some.

        ``next_deadline`` is over then, so that the others are queued in the next turn: after a
        restart the ack waits of a million messages end together.
        """
        late: list[int] = []
        visited: i64 = 0
        while self.runs and self.runs[0][1] + wait <= now and visited < EXPIRED_AT_ONCE:
            end: i64 = self.runs[0][0] - self.trimmed
            row = max(self.expired_to - self.trimmed, self.head)
            stop = min(end, row + EXPIRED_AT_ONCE - visited)
            visited += max(stop - row, i64(0))
            while row < stop:
                if self.words[row] & STATE == LIVE:
                    late.append(int(self.seqs[row]))
                row += 1
            self.expired_to = max(self.expired_to, self.trimmed + max(stop, i64(0)))
            if stop == end:
                self.runs.popleft()
        while self.heap and self.heap[0][0] <= now and visited < EXPIRED_AT_ONCE:
            visited += 1
            deadline, seq = heappop(self.heap)
            if self.moved.get(seq, 0) == deadline:
                late.append(seq)
        late.sort()
        for seq in late:
            row = self.find(seq)
            if row >= 0:
                self.requeue(row)

    def free_some(self) -> bool:
        """Free some of what the pending messages of a removed consumer have; True when done."""
        self.runs.clear()
        if self.moved:
            # The keys and deadlines are in the heap as well.
            self.moved = {}
            return False
        del self.heap[-FREED_AT_ONCE:]
        if len(self.queue) > FREED_AT_ONCE:
            for _ in range(FREED_AT_ONCE):
                self.queue.pop()
            return False
        self.queue.clear()
        return len(self.heap) == 0

    def next_deadline(self, wait: i64) -> i64:
        """Return when ``expire`` may have something to do; 0 if nothing."""
        while self.runs and self.runs[0][0] <= self.trimmed + self.head:
            self.runs.popleft()
        while self.heap and self.moved.get(self.heap[0][1], 0) != self.heap[0][0]:
            heappop(self.heap)
        deadline: i64 = 0
        if self.runs:
            deadline = self.runs[0][1] + wait
        if self.heap:
            own: i64 = self.heap[0][0]
            if deadline == 0 or own < deadline:
                deadline = own
        return deadline
