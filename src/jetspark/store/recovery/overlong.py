"""Segments that are far longer than a segment gets: how much of them is worth reading.

A damaged file system may say that a file has gigabytes, which are a hole or zeros. Reading all of
that into memory would end the server, or keep all other streams waiting. So a file of such a
length is searched for records in small pieces first, past its holes.

Not compiled: no file of a store is like that unless something went wrong.
"""

from typing import Final

from jetspark.errors.storage import CorruptRecord
from jetspark.store.files import Files
from jetspark.store.format.record import FIXED, Codec
from jetspark.store.recovery.findings import MAGIC_BYTES

# Segments have 32 MiB; those of a few messages that are very large have more.
LENGTH_MAX: Final = 256 * 1024 * 1024
# How much is read in search of a record before that is given up.
SEARCH_MAX: Final = 1024 * 1024 * 1024
PIECE: Final = 1024 * 1024
# What is kept after the last record: enough to see what kind of bytes follows it.
SPARE: Final = 64 * 1024


def length_to_read(files: Files, handle: int, name: str, codec: Codec, longest: int) -> int:
    """Up to where a segment is read at a start; less than its length only if it is overlong.

    Raises CorruptRecord when there is more than can be searched, OSError.
    """
    size = files.size(handle)
    if size <= longest:
        return size
    return min(size, _Search(files, handle, name, codec, size).end() + SPARE)


class _Search:
    """Looks for the end of the last record of a long file, in pieces."""

    def __init__(self, files: Files, handle: int, name: str, codec: Codec, size: int) -> None:
        self._files = files
        self._handle = handle
        self._name = name
        self._codec = codec
        self._size = size
        # Where the last record ends, and what was read since.
        self._end = 0
        self._read = 0

    def end(self) -> int:
        """Where the last record ends whose frame word holds."""
        at = 0
        while at < self._size:
            at = self._files.next_data(self._handle, at)
            if self._read > SEARCH_MAX:
                raise CorruptRecord(
                    self._name,
                    self._end,
                    f"the segment has {self._size} bytes, and the {self._read} after this place "
                    "that were searched hold no record; the stream is not served. Cut the file "
                    f"there (`truncate -s {self._end}` on a copy) or move its folder away",
                )
            at = self._search(at)
        return self._end

    def _search(self, at: int) -> int:
        """Search the piece that begins there; where the next one does."""
        piece = self._files.read(self._handle, at, PIECE)
        self._read += len(piece)
        position = piece.find(MAGIC_BYTES)
        while position >= 0 and position + int(FIXED) <= len(piece):
            length = int(self._codec.framed_length(piece, position))
            if length > 0:
                self._end = at + position + length
                self._read = 0
                if position + length >= len(piece):
                    return self._end
            position = piece.find(MAGIC_BYTES, position + max(length, 1))
        if not piece or at + len(piece) >= self._size:
            return self._size
        # A record may begin in the last bytes of a piece.
        return at + len(piece) - int(FIXED)
