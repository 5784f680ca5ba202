"""A cache of the most recently written blobs: the newest messages are read without the disk.

No object per message: the cache keeps what was handed to the disk, group by group, under a byte
budget; a record is found by its offset in the log.
"""

from bisect import bisect_right

from mypy_extensions import i64


class BlobCache:
    """Recent blobs by their log-wide offset, oldest evicted first."""

    def __init__(self, budget: i64) -> None:
        self.budget: i64 = budget
        self.size: i64 = 0
        self.starts: list[int] = []
        self.blobs: list[bytes] = []
        self.blob: bytes = b""
        self.blob_start: i64 = 0
        # Where the oldest blob starts: a replay of older records need not search.
        self.oldest: i64 = 0

    def add(self, start: i64, blob: bytes) -> None:
        """Keep a blob that was written at ``start``; blobs arrive in ascending order."""
        self.starts.append(int(start))
        self.blobs.append(blob)
        self.size += len(blob)
        # Down to three quarters at once: removing from the front of a list moves everything after
        # it.
        if self.size > self.budget:
            dropped: i64 = 0
            while self.size * 4 > self.budget * 3 and dropped < len(self.blobs) - 1:
                self.size -= len(self.blobs[dropped])
                dropped += 1
            del self.starts[: int(dropped)]
            del self.blobs[: int(dropped)]
        self.oldest = self.starts[0]

    def find(self, where: i64) -> tuple[bytes, i64]:
        """Return the blob that contains this offset, and the place in it; ``b""`` if none does."""
        if self.blob_start <= where < self.blob_start + len(self.blob):
            return self.blob, where - self.blob_start
        if where < self.oldest:
            return b"", i64(0)
        i: i64 = bisect_right(self.starts, int(where)) - 1
        if i < 0:
            return b"", i64(0)
        start: i64 = self.starts[i]
        blob = self.blobs[i]
        if where >= start + len(blob):
            return b"", i64(0)
        self.blob = blob
        self.blob_start = start
        return blob, where - start
