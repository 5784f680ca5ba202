"""The duplicate window: recent message ids of a stream (wire.md, Publishing).

A dict for lookups, a queue in order of arrival for expiry. Ids of staged messages are in it too,
because decisions use staged state; ``forget_after`` removes them again if their group failed.
"""

from typing import Final

from mypy_extensions import i64

# The queue is compacted when this many entries at its front are unused and most of it.
COMPACT_AFTER: Final[i64] = 4096


class DuplicateWindow:
    """Ids and the sequences they were stored under, for the duration of the window.

    At most ``max_ids`` ids are kept: when ``is_full``, the stream refuses the next one, because
    forgetting an id early would accept a duplicate.
    """

    def __init__(self, window_ns: i64, max_ids: i64) -> None:
        self.window: i64 = window_ns
        self.max_ids: i64 = max_ids
        self.sequences: dict[bytes, int] = {}
        # Ids in order of arrival; those before ``head`` are unused.
        self.queue: list[bytes] = []
        self.head: i64 = 0
        # All messages of one chunk have one time and are a run. As columns: its time, where it
        # starts in the queue, and its first sequence; it ends where the next one starts.
        self.run_times: list[int] = []
        self.run_starts: list[int] = []
        self.run_seqs: list[int] = []
        # When the oldest id expires; 0 if there is none.
        self.due: i64 = 0
        self.newest: i64 = 0

    def find(self, msg_id: bytes, now: i64) -> i64:
        """Return the sequence under which an id was stored within the window; 0 if none."""
        if 0 < self.due <= now:
            self.expire(now)
        return self.sequences.get(msg_id, 0)

    def is_full(self) -> bool:
        """Return whether there is no room for another id."""
        return len(self.sequences) >= self.max_ids

    def add(self, msg_id: bytes, seq: int, time_ns: i64) -> None:
        """Add an id that was stored, or is about to be."""
        self.sequences[msg_id] = seq
        self.enqueue(msg_id, seq, time_ns)

    def enter(self, msg_id: bytes, seq: int, time_ns: i64) -> bool:
        """Add an id, unless it is known or there is no room for it; one lookup for both."""
        if 0 < self.due <= time_ns:
            self.expire(time_ns)
        if len(self.sequences) >= self.max_ids or self.sequences.setdefault(msg_id, seq) != seq:
            return False
        self.enqueue(msg_id, seq, time_ns)
        return True

    def enqueue(self, msg_id: bytes, seq: int, time_ns: i64) -> None:
        """Queue an id for expiry."""
        if time_ns != self.newest or len(self.run_times) == 0:
            self.newest = time_ns
            self.run_times.append(int(time_ns))
            self.run_starts.append(len(self.queue))
            self.run_seqs.append(seq)
            if self.due == 0:
                self.due = time_ns + self.window
        self.queue.append(msg_id)

    def configure(self, window_ns: i64) -> None:
        """Change the duration of the window."""
        self.window = window_ns
        if len(self.run_times) > 0:
            self.due = self.run_times[0] + window_ns

    def expire(self, now: i64) -> None:
        """Forget ids older than the window."""
        runs: i64 = 0
        count: i64 = len(self.run_times)
        while runs < count and self.run_times[runs] + self.window <= now:
            runs += 1
            last = runs == count
            end: i64 = len(self.queue) if last else self.run_starts[runs]
            while self.head < end:
                msg_id = self.queue[self.head]
                # An id that was stored again since is kept: that happens after a change of the
                # window.
                if last or self.sequences.get(msg_id, 0) < self.run_seqs[runs]:
                    self.sequences.pop(msg_id, 0)
                self.queue[self.head] = b""
                self.head += 1
        del self.run_times[: int(runs)]
        del self.run_starts[: int(runs)]
        del self.run_seqs[: int(runs)]
        self.due = self.run_times[0] + self.window if len(self.run_times) > 0 else 0
        if self.head > COMPACT_AFTER and self.head * 2 > len(self.queue):
            self.queue = self.queue[int(self.head) :]
            self.run_starts = [start - int(self.head) for start in self.run_starts]
            self.head = 0

    def forget_after(self, seq: i64) -> None:
        """Forget the ids of messages after ``seq``: their group did not reach the disk."""
        while len(self.queue) > self.head and self.sequences.get(self.queue[-1], 0) > seq:
            self.sequences.pop(self.queue.pop(), 0)
        while len(self.run_times) > 0 and self.run_starts[-1] >= len(self.queue):
            self.run_times.pop()
            self.run_starts.pop()
            self.run_seqs.pop()
            self.newest = 0
        if len(self.run_times) == 0:
            self.due = 0
