"""Recognises records of later segments in an earlier one, where a copied file may have put them.

A record with the first sequence of the next segment, or a later one, does not belong there:
accepting it would skip everything in between. It is left out only if a later segment has it as
well, because it may have been acknowledged: a segment that was lost, and put back after the stream
had continued without it, starts before records of its predecessor.

A rewritten segment (``upkeep/compaction.py``) lacks what was removed: it counts as having every
record up to the end of the run that it replaces.
"""

from bisect import bisect_right
from pathlib import Path
from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.store.files import Files
from jetspark.store.format.record import (
    CONFIGURATION,
    DELETE_RANGE,
    FIXED,
    MESSAGE,
    PURGE,
    SEGMENT_DROP,
    SKIP,
    Codec,
    record_kind,
    record_sequence,
)
from jetspark.store.log.segment_files import head_of
from jetspark.store.recovery.findings import MAGIC_BYTES
from jetspark.store.recovery.overlong import length_to_read
from jetspark.store.recovery.pages import read_pages

NO_END: Final = 2**63 - 1


class Contents:
    """The records of one segment."""

    def __init__(self, *, is_rewritten: bool = False) -> None:
        self._is_rewritten = is_rewritten
        # A sequence is used once. Other records that name the same one may differ.
        self._sequences: set[int] = set()
        self._others: set[bytes] = set()
        # The last sequence that any of them states.
        self._last = 0

    def add(self, data: bytes, at: i64, length: i64) -> None:
        """Add a valid record."""
        self._last = max(self._last, int(stated_sequence(data, at)))
        if record_kind(data, at) == MESSAGE:
            self._sequences.add(int(record_sequence(data, at)))
        else:
            self._others.add(data[at : at + length])

    def have(self, data: bytes, at: i64, length: i64) -> bool:
        """Return whether the segment has a valid record of its sequences, or had it."""
        if self._is_rewritten and stated_sequence(data, at) <= self._last:
            return True
        if record_kind(data, at) == MESSAGE:
            return int(record_sequence(data, at)) in self._sequences
        return data[at : at + length] in self._others


class LaterSegments:
    """The segments after one. They are read only if a record seems to belong to one of them."""

    def __init__(
        self, files: Files, folder: Path, stream_id: int, begins: list[tuple[int, str]]
    ) -> None:
        """``begins``: the first sequences and the names of the segments, in order."""
        self._files = files
        self._folder = folder
        self._stream_id = stream_id
        self._begins = begins
        self._contents: dict[str, Contents] = {}
        # Where the first of them starts.
        self.until: i64 = begins[0][0] if begins else NO_END

    def have(self, data: bytes, at: i64, length: i64) -> bool:
        """Return whether one of them has the valid record at ``at``."""
        seq = int(stated_sequence(data, at))
        n = bisect_right(self._begins, seq + 1, key=_first)
        while n > 0:
            n -= 1
            begin, name = self._begins[n]
            if name not in self._contents:
                self._contents[name] = self._read(name)
            if self._contents[name].have(data, at, length):
                return True
            if begin <= seq:
                break
        return False

    def _read(self, name: str) -> "Contents":
        codec = Codec(self._stream_id)
        try:
            handle = self._files.open(self._folder / name)
        except OSError:
            return Contents()
        try:
            head = head_of(self._files, handle)
            size = length_to_read(self._files, handle, name, codec)
            data, _ = read_pages(self._files, handle, 0, size)
        except OSError:
            return Contents()
        finally:
            self._files.close(handle)
        found = Contents(is_rewritten=head is not None and head[0].generation > 0)
        at = data.find(MAGIC_BYTES)
        while at >= 0:
            length = codec.examine(data, at)
            if length > 0:
                found.add(data, at, length)
            at = data.find(MAGIC_BYTES, at + max(int(length), 1))
        return found


def _first(begin: tuple[int, str]) -> int:
    return begin[0]


def stated_sequence(data: bytes, at: i64) -> i64:
    """Return the sequence of a valid record, or the last one before it or in it that it names."""
    kind = record_kind(data, at)
    if kind == MESSAGE:
        return record_sequence(data, at)
    if kind == SKIP:
        return read_i64_le(data, at + FIXED + 8)
    return read_i64_le(data, at + FIXED) if is_anchored(kind) else 0


def is_anchored(kind: i64) -> bool:
    """Return whether a record names the last sequence before it: it fits nowhere else."""
    return DELETE_RANGE <= kind <= PURGE or SEGMENT_DROP <= kind <= CONFIGURATION
