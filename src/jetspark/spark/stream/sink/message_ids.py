"""Message ids that are the same when Spark repeats a task.

``<prefix>.<epoch>.<partition>.<digest>[.<nth equal row>]``: the stream drops duplicates within its
duplicate window. The partition is part of it because equal rows of two partitions are two
messages. A replay of the epoch may distribute the rows differently: ``ledger`` settles that by the
digests, which are read back from the ids.
"""

import re
from binascii import hexlify
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from xxhash import xxh3_128_digest

from jetspark.spark.stream.sink.row_counts import DIGEST_SIZE
from jetspark.spark.stream.sink.rows import SinkRows


class WriteTask(NamedTuple):
    """The identity of a task's write: the same whenever Spark repeats it."""

    prefix: str
    """The name of the query, or the batch job; empty if ids are not generated here."""
    epoch: int
    partition: int
    query: str = ""
    """The id in Spark's checkpoint; empty in a batch."""

    @property
    def id_prefix(self) -> str:
        """The prefix of all ids of the task."""
        return f"{self.epoch_prefix}{self.partition}."

    @property
    def epoch_prefix(self) -> str:
        """The prefix of all ids of the epoch."""
        return f"{self.prefix}.{self.epoch}."


class IdMaker:
    """Generates the ids of rows from their content, in order."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self._seen: dict[bytes, int] = {}

    def ids(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return the id of each row."""
        seen, fresh = self._seen, dict.fromkeys(digests, 1)
        if len(fresh) == len(digests) and seen.keys().isdisjoint(fresh):
            # Rows are rarely equal. No Python step per row: all ids are slices of one string.
            seen.update(fresh)
            return self._plain(digests)
        made: list[bytes] = []
        for key, plain in zip(digests, self._plain(digests), strict=True):
            nth = seen.get(key, 0)
            seen[key] = nth + 1
            made.append(b"%s.%d" % (plain, nth) if nth else plain)
        return made

    def _plain(self, digests: Sequence[bytes]) -> list[bytes]:
        if not digests:
            return []
        text = hexlify(b"".join(digests), "\n", DIGEST_SIZE)
        return (self._prefix + text.replace(b"\n", b"\n" + self._prefix)).split(b"\n")


# The part of an id after the epoch: the partition, or the commit that stored a missing copy, and
# the digest. In jetspark 0.1.0 it could also be the index of the row in its partition.
_ROW: Final = re.compile(
    rb"(?:[0-9]+|c[0-9a-f]+)\.(?P<digest>[0-9a-f]{%d})(?:\.[0-9]+)?" % (2 * DIGEST_SIZE)
)
_PLACE: Final = re.compile(rb"[0-9]+\.[0-9]+")


def digest_in(msg_id: bytes, epoch_prefix: bytes) -> bytes | None:
    """Return the digest of the row from an id of this epoch; None if it has none.

    The names of two writes may have the same prefix: ``job.1.0.3.<digest>`` is not an id of epoch
    1 of ``job`` but of epoch 0 of ``job.1``.
    """
    found = _ROW.fullmatch(msg_id, len(epoch_prefix))
    return None if found is None else bytes.fromhex(found["digest"].decode("ascii"))


def has_place(msg_id: bytes, epoch_prefix: bytes) -> bool:
    """Whether an id of this epoch has the index of its row instead of a digest."""
    return _PLACE.fullmatch(msg_id, len(epoch_prefix)) is not None


def epoch_in(msg_id: bytes, query_prefix: bytes) -> int | None:
    """Return the epoch of an id of this query; None if it belongs to another."""
    word, _, _ = msg_id[len(query_prefix) :].partition(b".")
    epoch_prefix = query_prefix + word + b"."
    if not word.isdigit() or not (
        _ROW.fullmatch(msg_id, len(epoch_prefix)) or has_place(msg_id, epoch_prefix)
    ):
        return None
    return int(word)


def row_digests(rows: SinkRows, digest: Callable[[bytes], bytes] = xxh3_128_digest) -> list[bytes]:
    """Return a digest of each row: subject, headers, payload, and header lines from columns.

    A cryptographic hash would cost as much as the rest of a write; ``markers``, whose batches cost
    more anyway, uses one.
    """
    messages = rows.messages
    lines = rows.lines or [b""] * len(messages)
    subjects = set(messages.subjects) if rows.lines is None and not any(messages.headers) else ()
    if 0 < len(subjects) <= len(messages.subjects) // 2:
        # Few subjects and nothing else: the part before the payload is created once for each.
        starts = {
            one: b"%d 0 0 %s" % (len(one), one.encode("utf-8", "surrogateescape"))
            for one in subjects
        }
        return [
            digest(starts[subject] + payload)
            for subject, payload in zip(messages.subjects, messages.data, strict=True)
        ]
    return [
        # The lengths distinguish 'a' + 'bc' from 'ab' + 'c'.
        digest(
            b"%d %d %d " % (len(subject), len(block), len(line))
            + subject.encode("utf-8", "surrogateescape")
            + block
            + line
            + payload
        )
        for subject, block, line, payload in zip(
            messages.subjects, messages.headers, lines, messages.data, strict=True
        )
    ]


def strong_digest(data: bytes) -> bytes:
    """Return a collision-resistant digest."""
    return blake2b(data, digest_size=DIGEST_SIZE).digest()
