"""The duplicate window: which message ids a stream has seen lately (wire-facts.md 6).

A dict answers, a queue in the order of arrival tells what is due. Ids of messages that are only
staged are in it too, because decisions use staged state; ``forget_after`` takes them out again
when their group failed.
"""

from typing import Final

from mypy_extensions import i64

# The queue is cut when this many entries at its front are used up and they are most of it.
COMPACT_AFTER: Final[i64] = 4096


class DuplicateWindow:
    """Ids and the sequences they were stored under, for as long as the window is.

    More than ``max_ids`` ids are never held: ``is_full`` says so, and the stream refuses the next
    one, because forgetting an id early would let a duplicate in.
    """

    def __init__(self, window_ns: i64, max_ids: i64) -> None:
        self.window: i64 = window_ns
        self.max_ids: i64 = max_ids
        self.sequences: dict[bytes, int] = {}
        # Ids and sequences in order of arrival; those before ``head`` are used up.
        self.queue: list[bytes] = []
        self.queue_seqs: list[int] = []
        self.head: i64 = 0
        # All messages of one chunk have one time: (time, end of its run in the queue) as columns.
        self.run_times: list[int] = []
        self.run_ends: list[int] = []
        # When the oldest id is due; 0 when there is none.
        self.due: i64 = 0
        self.newest: i64 = 0

    def find(self, msg_id: bytes, now: i64) -> i64:
        """The sequence under which an id was stored within the window; 0 when there is none."""
        if 0 < self.due <= now:
            self.expire(now)
        found = self.sequences.get(msg_id)
        if found is None:
            return 0
        return found

    def is_full(self) -> bool:
        """Say whether another id would be one too many."""
        return len(self.sequences) >= self.max_ids

    def add(self, msg_id: bytes, seq: int, time_ns: i64) -> None:
        """An id was stored, or is about to be."""
        self.sequences[msg_id] = seq
        self.queue.append(msg_id)
        self.queue_seqs.append(seq)
        if time_ns != self.newest or len(self.run_ends) == 0:
            self.newest = time_ns
            self.run_times.append(int(time_ns))
            self.run_ends.append(0)
            if self.due == 0:
                self.due = time_ns + self.window
        self.run_ends[-1] = len(self.queue)

    def configure(self, window_ns: i64) -> None:
        """Ids are remembered for another time from now on."""
        self.window = window_ns
        if len(self.run_times) > 0:
            self.due = self.run_times[0] + window_ns

    def expire(self, now: i64) -> None:
        """Forget what is older than the window."""
        runs: i64 = 0
        count: i64 = len(self.run_times)
        while runs < count and self.run_times[runs] + self.window <= now:
            end: i64 = self.run_ends[runs]
            while self.head < end:
                self.drop(self.head)
                self.queue[self.head] = b""
                self.head += 1
            runs += 1
        del self.run_times[: int(runs)]
        del self.run_ends[: int(runs)]
        self.due = self.run_times[0] + self.window if len(self.run_times) > 0 else 0
        if self.head > COMPACT_AFTER and self.head * 2 > len(self.queue):
            self.compact()

    def compact(self) -> None:
        """Give back the used up front of the queue."""
        self.queue = self.queue[int(self.head) :]
        self.queue_seqs = self.queue_seqs[int(self.head) :]
        self.run_ends = [end - int(self.head) for end in self.run_ends]
        self.head = 0

    def forget_after(self, seq: i64) -> None:
        """Forget the ids of messages behind ``seq``: their group did not reach the disk."""
        end: i64 = len(self.queue)
        while end > self.head and self.queue_seqs[end - 1] > seq:
            end -= 1
            self.drop(end)
        del self.queue[int(end) :]
        del self.queue_seqs[int(end) :]
        while len(self.run_ends) > 0 and self.run_ends[-1] > end:
            runs: i64 = len(self.run_ends)
            before: i64 = self.run_ends[-2] if runs > 1 else self.head
            if before < end:
                self.run_ends[-1] = int(end)
            else:
                self.run_ends.pop()
                self.run_times.pop()
        if len(self.run_times) == 0:
            self.due = 0

    def drop(self, at: i64) -> None:
        """Forget the id at a place of the queue, unless it was stored again since."""
        msg_id = self.queue[at]
        found = self.sequences.get(msg_id)
        if found is not None and found == self.queue_seqs[at]:
            del self.sequences[msg_id]
