"""Read a file of which the disk refuses some pages: the others are worth having.

Not compiled: it is asked once per segment and start, and goes by pages only after an error.
"""

from itertools import pairwise
from typing import Final

from jetspark.store.files import Files

PAGE: Final = 4096
CHUNK: Final = 1024 * 1024
TRIES: Final = 3


def read_pages(
    files: Files, handle: int, offset: int, length: int
) -> tuple[bytes, list[tuple[int, int]]]:
    """Read a range; with zeros for what cannot be read, and where (offset, length) that is."""
    whole = _tried(files, handle, offset, length)
    if whole is not None:
        return whole, []
    pieces: list[bytes] = []
    unread: list[tuple[int, int]] = []
    end = offset + length
    for chunk in _steps(offset, end, CHUNK):
        content = _tried(files, handle, *chunk)
        if content is not None:
            pieces.append(content)
            continue
        for at, size in _steps(chunk[0], chunk[0] + chunk[1], PAGE):
            content = _tried(files, handle, at, size)
            if content is None:
                content = bytes(size)
                if unread and sum(unread[-1]) == at:
                    unread[-1] = (unread[-1][0], unread[-1][1] + size)
                else:
                    unread.append((at, size))
            pieces.append(content)
    return b"".join(pieces), unread


def _steps(offset: int, end: int, size: int) -> list[tuple[int, int]]:
    """Cut a range where multiples of a size are: (offset, length)."""
    edges = [offset, *range((offset // size + 1) * size, end, size), end]
    return [(a, b - a) for a, b in pairwise(edges) if b > a]


def _tried(files: Files, handle: int, offset: int, length: int) -> bytes | None:
    for _ in range(TRIES):
        try:
            return files.read(handle, offset, length)
        except OSError:
            continue
    return None
