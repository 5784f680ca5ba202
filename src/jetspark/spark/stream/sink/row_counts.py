"""How often each row of an epoch is stored: digests of rows, counted and packed.

An epoch may have millions of rows and every task of a replay needs the counts of all of them, so
they are stored as bytes (24 per distinct row), not as Python objects.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from sys import byteorder
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

DIGEST_SIZE: Final = 16
_DIGEST: Final = pa.binary(DIGEST_SIZE)
_SUM_MODULUS: Final = 2 ** (8 * DIGEST_SIZE) - 1


class RowCounts:
    """An immutable multiset of digests."""

    def __init__(self, digests: bytes, counts: Iterable[int]) -> None:
        """Take concatenated distinct digests in ascending order, and their counts."""
        self.digests = digests
        self.counts: array[int] = array("Q", counts)
        # The first halves as numbers: bisect finds one of a million in a microsecond.
        halves = array("Q", digests)
        if byteorder == "little":
            halves.byteswap()
        self._keys = halves[::2]

    @classmethod
    def of(cls, digests: bytes | bytearray) -> "RowCounts":
        """Count concatenated digests, in any order."""
        return _counted(digests, array("Q", [1]) * (len(digests) // DIGEST_SIZE))

    @classmethod
    def merged(cls, parts: Sequence["RowCounts"]) -> "RowCounts":
        """Return the sum of several."""
        counts = array("Q")
        for part in parts:
            counts += part.counts
        return _counted(b"".join(part.digests for part in parts), counts)

    @classmethod
    def unpacked(cls, packed: bytes) -> "RowCounts":
        """Decode the result of ``packed``."""
        size = len(packed) // (DIGEST_SIZE + 8)
        counts = array("Q", packed[size * DIGEST_SIZE :])
        if byteorder == "big":
            counts.byteswap()
        return cls(packed[: size * DIGEST_SIZE], counts)

    def packed(self) -> bytes:
        """Return the digests, then the counts in little-endian order."""
        counts = array("Q", self.counts)
        if byteorder == "big":
            counts.byteswap()
        return self.digests + counts.tobytes()

    @property
    def total(self) -> int:
        """The number of rows, including equal ones."""
        return sum(self.counts)

    def __len__(self) -> int:
        """Return the number of distinct rows."""
        return len(self._keys)

    def __getitem__(self, digest: bytes) -> int:
        """Return the count of a row; 0 if it is not included."""
        keys = self._keys
        key = int.from_bytes(digest[:8])
        at = bisect_left(keys, key)
        while at < len(keys) and keys[at] == key:
            if self.digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE] == digest:
                return self.counts[at]
            at += 1
        return 0

    def __contains__(self, digest: bytes) -> bool:
        return self[digest] > 0

    def without(self, other: "RowCounts") -> int:
        """Return the number of rows in this one but not in the other, including equal ones."""
        return self.total - sum(min(count, other[digest]) for digest, count in self.items())

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield each digest with its count."""
        for at, count in enumerate(self.counts):
            yield self.digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE], count


def _counted(digests: bytes | bytearray, counts: "array[int]") -> RowCounts:
    if not digests:
        return RowCounts(b"", ())
    size = len(digests) // DIGEST_SIZE
    column = pa.FixedSizeBinaryArray.from_buffers(_DIGEST, size, [None, pa.py_buffer(digests)])
    rows = pa.Table.from_pydict({"digest": column, "count": pa.array(counts, pa.int64())})
    summed = rows.group_by("digest").aggregate([("count", "sum")]).combine_chunks()
    order = pc.sort_indices(summed, sort_keys=[("digest", "ascending")])
    summed = summed.take(order).combine_chunks()
    distinct = summed.column("digest").chunk(0)
    at = distinct.offset * DIGEST_SIZE
    packed = distinct.buffers()[1].to_pybytes()[at : at + len(distinct) * DIGEST_SIZE]
    return RowCounts(packed, summed.column("count_sum").to_pylist())


def digest_sum(digests: Sequence[bytes], so_far: int = 0) -> int:
    """Return a checksum of rows that is independent of their order and split.

    The sum of the digests modulo 2^128 - 1. The concatenation, as one number, has the same
    remainder, and so has the sum of its halves: a few operations for thousands of rows.
    """
    number = int.from_bytes(b"".join(digests))
    bits = 8 * DIGEST_SIZE << len(digests).bit_length()
    while bits > 8 * DIGEST_SIZE:
        bits //= 2
        number = (number >> bits) + (number & ((1 << bits) - 1))
    return (so_far + number) % _SUM_MODULUS


def sum_of_sums(sums: Iterable[int]) -> int:
    """Return the checksum of the rows of several tasks together."""
    return sum(sums) % _SUM_MODULUS
