"""The duplicate window: recent message ids of a stream (wire.md, Publishing).

Dicts for lookups, a queue in order of arrival for expiry. Ids of staged messages are in it too,
because decisions use staged state; ``forget_after`` removes them again if their group failed.
"""

from typing import Final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from jetspark.subjects.linear_hash_dict import LinearHashDict

# The queue is compacted when this many entries at its front are unused and most of it.
COMPACT_AFTER: Final[i64] = 4096
# A message forgets at most this many ids that are older than the window, which is more than it
# adds; a turn of the stream's own forgets this many. A million at once would take 60 ms.
FORGOTTEN_WITH_EACH: Final[i64] = 64
FORGOTTEN_AT_ONCE: Final[i64] = 16_384
# Ids beyond these are in a dict that grows in steps: growing beyond 175,000 entries would take 7
# ms at once, beyond 700,000 25. That dict takes a tenth longer for each message.
FIRST_MAX: Final[i64] = 131_072


class DuplicateWindow:
    """Ids and the sequences they were stored under, for the duration of the window.

    At most ``max_ids`` ids are kept: when ``is_full``, the stream refuses the next one, because
    forgetting an id early would accept a duplicate.
    """

    def __init__(self, window_ns: i64, max_ids: i64, first_max: i64 = FIRST_MAX) -> None:
        self.window: i64 = window_ns
        self.max_ids: i64 = max_ids
        self._first_max: i64 = first_max
        # By id; some of them are older than the window: their sequences are below ``_live``. No id
        # is in both; the second one is used while there are ids in it.
        self._first: dict[bytes, int] = {}
        self._others: LinearHashDict = LinearHashDict()
        self._has_others: bool = False
        self._live: i64 = 0
        self._newest_seq: i64 = 0
        # Ids in order of arrival; those before ``head`` are unused, and so many were dropped.
        self.queue: list[bytes] = []
        self.head: i64 = 0
        self._dropped: i64 = 0
        # All messages of one chunk have one time and are a run. As columns: its time, the place of
        # its first id among all that ever arrived, and its first sequence; it ends where the next
        # one starts. Those before the head are over.
        self._times: vec[i64] = vec[i64]()
        self._starts: vec[i64] = vec[i64]()
        self._seqs: vec[i64] = vec[i64]()
        self._run: i64 = 0
        # When the oldest id expires; 0 if there is none.
        self.due: i64 = 0
        self.newest: i64 = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    def _known(self, msg_id: bytes) -> i64:
        """Return the sequence of an id, however old; 0 if it is not known."""
        found: i64 = self._first.get(msg_id, 0)
        if found == 0 and self._has_others:
            other = self._others.get(msg_id)
            if other is not None:
                found = i64(int(other))
        return found

    def _set(self, msg_id: bytes, seq: int) -> None:
        """Set the sequence of an id."""
        if not self._has_others:
            if i64(len(self._first)) < self._first_max:
                self._first[msg_id] = seq
                return
            self._has_others = True
        if msg_id in self._first:
            self._first[msg_id] = seq
        else:
            self._others.set(msg_id, seq)

    def _forget(self, msg_id: bytes) -> None:
        """Forget an id."""
        if self._first.pop(msg_id, None) is None and self._has_others:
            self._others.pop(msg_id)
            self._has_others = len(self._others) > 0

    def find(self, msg_id: bytes, now: i64) -> i64:
        """Return the sequence under which an id was stored within the window; 0 if none."""
        if 0 < self.due <= now:
            self.expire(now, FORGOTTEN_WITH_EACH)
        found = self._known(msg_id)
        return found if found >= self._live else 0

    def is_full(self) -> bool:
        """Return whether there is no room for another id."""
        return i64(len(self._first) + len(self._others)) >= self.max_ids

    def add(self, msg_id: bytes, seq: int, time_ns: i64) -> None:
        """Add an id that was stored, or is about to be."""
        self._set(msg_id, seq)
        self.enqueue(msg_id, seq, time_ns)

    def enter(self, msg_id: bytes, seq: int, time_ns: i64) -> bool:
        """Add an id, unless it is known or there is no room for it; one lookup for both."""
        if 0 < self.due <= time_ns:
            self.expire(time_ns, FORGOTTEN_WITH_EACH)
        held: i64 = len(self._first)
        if self._has_others or held >= self._first_max:
            if self.is_full():
                return False
            found = self._known(msg_id)
            if found > 0 and found >= self._live:
                return False
            self._set(msg_id, seq)
        elif held >= self.max_ids:
            return False
        else:
            known = self._first.setdefault(msg_id, seq)
            if known != seq:
                if i64(known) >= self._live:
                    return False
                self._first[msg_id] = seq
        self.enqueue(msg_id, seq, time_ns)
        return True

    def enqueue(self, msg_id: bytes, seq: int, time_ns: i64) -> None:
        """Queue an id for expiry."""
        # Of a copy whose earlier ids are read when the first client publishes, they come last.
        time_ns = max(time_ns, self.newest)
        if time_ns != self.newest or self._run == i64(len(self._times)):
            self.newest = time_ns
            self._times = append(self._times, time_ns)
            self._starts = append(self._starts, self._dropped + i64(len(self.queue)))
            self._seqs = append(self._seqs, i64(seq))
            if self.due == 0:
                self.due = time_ns + self.window
        self.queue.append(msg_id)
        self._newest_seq = i64(seq)

    def configure(self, window_ns: i64) -> None:
        """Change the duration of the window."""
        self.window = window_ns
        self._live = 0
        self._set_due()

    def _set_due(self) -> None:
        is_empty = self._run == i64(len(self._times))
        self.due = 0 if is_empty else self._times[self._run] + self.window

    def expire(self, now: i64, most: i64) -> None:
        """Forget up to so many ids older than the window; the others are not found any more."""
        count: i64 = len(self._times)
        over = self._run
        while over < count and self._times[over] + self.window <= now:
            over += 1
            if over - self._run > most:
                break
        if over > self._run:
            self._live = self._first_live(now)
        while self._run < over and most > 0:
            following = self._run + 1
            last = following == count
            end = i64(len(self.queue)) if last else self._starts[following] - self._dropped
            while self.head < end and most > 0:
                most -= 1
                msg_id = self.queue[self.head]
                # An id that was stored again since is kept.
                found = self._known(msg_id)
                if 0 < found < self._live:
                    self._forget(msg_id)
                self.queue[self.head] = b""
                self.head += 1
            if self.head == end:
                self._run = following
        self._set_due()
        self._compact()

    def _first_live(self, now: i64) -> i64:
        """Return the sequence of the first id within the window; later ones are, too."""
        low = self._run
        high: i64 = len(self._times)
        while low < high:
            middle = (low + high) >> 1
            if self._times[middle] + self.window <= now:
                low = middle + 1
            else:
                high = middle
        return self._seqs[low] if low < i64(len(self._times)) else self._newest_seq + 1

    def _compact(self) -> None:
        """Drop what is unused, if that is most of it."""
        if self.head > COMPACT_AFTER and self.head * 2 > i64(len(self.queue)):
            self.queue = self.queue[int(self.head) :]
            self._dropped += self.head
            self.head = 0
        if self._run > COMPACT_AFTER and self._run * 2 > i64(len(self._times)):
            self._times = self._times[self._run :]
            self._starts = self._starts[self._run :]
            self._seqs = self._seqs[self._run :]
            self._run = 0

    def forget_after(self, seq: i64) -> None:
        """Forget the ids of messages after ``seq``: their group did not reach the disk."""
        while len(self.queue) > self.head:
            if self._known(self.queue[-1]) <= seq:
                break
            self._forget(self.queue.pop())
        self._newest_seq = min(self._newest_seq, seq)
        self._live = min(self._live, seq + 1)
        while self._run < i64(len(self._times)) and self._starts[-1] >= self._dropped + i64(
            len(self.queue)
        ):
            self._times, _ = pop(self._times)
            self._starts, _ = pop(self._starts)
            self._seqs, _ = pop(self._seqs)
            self.newest = 0
        if self._run == i64(len(self._times)):
            self.due = 0

    def free_some(self) -> bool:
        """Free some ids of a removed stream; True when none are left."""
        # The queue has them as well: without it the dicts would free very many at once.
        if len(self._others) > 0:
            self._others.free_some(FORGOTTEN_AT_ONCE)
            return False
        self._first = {}
        del self.queue[-int(FORGOTTEN_AT_ONCE) :]
        return len(self.queue) == 0
