"""Message ids that a replay by Spark makes again (spark.md 6.3).

``<prefix>.<epoch>.<partition>.<row key>``: the stream drops what it has seen within its duplicate
window. The partition is in it because equal rows of two partitions are two messages.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from xxhash import xxh3_128_digest

from jetspark.spark.sink_options import IdSource
from jetspark.spark.sink_rows import Rows

DIGEST_SIZE: Final = 16


class WriteTask(NamedTuple):
    """Which part of which write a task is: the same again whenever Spark repeats it."""

    prefix: str
    """Names the query, or the batch job; empty when ids are not made here."""
    epoch: int
    partition: int
    query: str = ""
    """The id that Spark keeps in the checkpoint; empty in a batch."""

    @property
    def id_prefix(self) -> str:
        """What all ids of the task begin with."""
        return f"{self.epoch_prefix}{self.partition}."

    @property
    def epoch_prefix(self) -> str:
        """What all ids of the epoch begin with."""
        return f"{self.prefix}.{self.epoch}."


class IdMaker:
    """Makes the ids of one task's rows, in the order in which they come."""

    def __init__(self, source: IdSource, task: WriteTask) -> None:
        self._source = source
        self._prefix = task.id_prefix
        self._seen: dict[bytes, int] = {}
        self._rows = 0

    def ids(self, rows: Rows) -> list[str]:
        """Return the id of each row."""
        if self._source is IdSource.COLUMN:
            assert rows.msg_ids is not None
            return rows.msg_ids
        prefix = self._prefix
        if self._source is IdSource.POSITION:
            first = self._rows
            self._rows += len(rows.subjects)
            return [f"{prefix}{number}" for number in range(first, self._rows)]
        seen, made = self._seen, list[str]()
        for key in row_digests(rows):
            nth = seen.get(key, 0)
            seen[key] = nth + 1
            made.append(f"{prefix}{key.hex()}.{nth}" if nth else f"{prefix}{key.hex()}")
        return made


def row_digests(rows: Rows, digest: Callable[[bytes], bytes] = xxh3_128_digest) -> list[bytes]:
    """Return a digest of each row: subject, headers, payload, and what the columns ask for.

    Ids tell rows apart within one task of one epoch only, and equal digests are counted there, so
    that no row is lost to another with the same digest. The cryptographic hash that ``markers``
    asks for, whose batches follow the order of digests, would cost as much as all the rest.
    """
    lines = rows.lines or [b""] * len(rows.subjects)
    return [
        # The lengths keep 'a' + 'bc' apart from 'ab' + 'c'.
        digest(
            b"%d %d %d " % (len(subject), len(block), len(line))
            + subject.encode("utf-8", "surrogateescape")
            + block
            + line
            + payload
        )
        for subject, block, line, payload in zip(
            rows.subjects, rows.headers, lines, rows.payloads, strict=True
        )
    ]


def strong_digest(data: bytes) -> bytes:
    """Return a digest for which nobody can make two inputs."""
    return blake2b(data, digest_size=DIGEST_SIZE).digest()
