"""Segments that are far longer than possible: how much of them to read.

A damaged file system may report gigabytes for a file, which are a hole or zeros. Reading all of
that into memory would kill the server, or block all other streams. So a file of such a length is
first searched for records in small pieces, skipping its holes.

Not compiled: no file of a store is like that unless something went wrong.
"""

from typing import Final

from jetspark.errors.storage import CorruptRecord
from jetspark.store.files import Files
from jetspark.store.format.record import FIXED, Codec
from jetspark.store.recovery.findings import MAGIC_BYTES

# Segments have 32 MiB; those with a few very large messages have more.
LENGTH_MAX: Final = 256 * 1024 * 1024
# How much is read in search of a record before giving up.
SEARCH_MAX: Final = 1024 * 1024 * 1024
PIECE: Final = 1024 * 1024
# How much is kept after the last record: enough to see what kind of bytes follows it.
SPARE: Final = 64 * 1024


def length_to_read(files: Files, handle: int, name: str, codec: Codec) -> int:
    """Return how much of a segment to read at a start; all of it unless it is overlong.

    Raises CorruptRecord if there is more than can be searched, OSError.
    """
    size = files.size(handle)
    if size <= LENGTH_MAX:
        return size
    return min(size, _Search(files, handle, name, codec, size).end() + SPARE)


class _Search:
    """Searches a long file for the end of its last record, in pieces."""

    def __init__(self, files: Files, handle: int, name: str, codec: Codec, size: int) -> None:
        self._files = files
        self._handle = handle
        self._name = name
        self._codec = codec
        self._size = size
        # Where the last record ends, and how much was read since.
        self._end = 0
        self._read = 0

    def end(self) -> int:
        """Return the end of the last record with a valid frame word."""
        at = 0
        while at < self._size:
            at = self._files.next_data(self._handle, at)
            if self._read > SEARCH_MAX:
                raise CorruptRecord(
                    self._name,
                    self._end,
                    f"the segment has {self._size} bytes, and the {self._read} bytes after this "
                    "place that were searched contain no record; the stream is not served. "
                    f"Truncate the file there (`truncate -s {self._end}` on a copy) or move its "
                    "folder out of the store",
                )
            at = self._search(at)
        return self._end

    def _search(self, at: int) -> int:
        """Search the piece that starts there; return where the next one starts."""
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
        # A record may start in the last bytes of a piece.
        return at + len(piece) - int(FIXED)
