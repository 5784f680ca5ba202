"""Reading a file page by page if the disk fails to read some of it."""

from itertools import pairwise
from typing import Final

from jetspark.store.files import Files

PAGE: Final = 4096
CHUNK: Final = 1024 * 1024
TRIES: Final = 3


def read_pages(
    files: Files, handle: int, offset: int, length: int
) -> tuple[bytes, list[tuple[int, int]]]:
    """Read a range; return zeros for unreadable parts, and where (offset, length) they are."""
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
    """Split a range at multiples of a size: (offset, length)."""
    edges = [offset, *range((offset // size + 1) * size, end, size), end]
    return [(a, b - a) for a, b in pairwise(edges) if b > a]


def _tried(files: Files, handle: int, offset: int, length: int) -> bytes | None:
    for _ in range(TRIES):
        try:
            return files.read(handle, offset, length)
        except OSError:
            continue
    return None
