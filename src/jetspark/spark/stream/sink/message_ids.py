"""Message ids that a task makes again when Spark repeats it.

``<prefix>.<epoch>.<partition>.<digest>[.<nth equal row>]``: the stream drops what it has seen
within its duplicate window. The partition is in it because equal rows of two partitions are
two messages. A replay of the epoch may spread the rows differently: ``ledger`` settles that by the
digests, which are read back out of the ids.
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
    """Makes the ids of rows by their content, in the order in which they come."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self._seen: dict[bytes, int] = {}

    def ids(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return the id of each row."""
        seen, fresh = self._seen, dict.fromkeys(digests, 1)
        if len(fresh) == len(digests) and seen.keys().isdisjoint(fresh):
            # Rows are seldom equal. No Python step for each row: all ids are cut out of one text.
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


# What an id has after the epoch: the partition, or the commit that stored a missing copy, and the
# digest. In jetspark 0.1.0 it could also be the place of the row in its partition.
_ROW: Final = re.compile(
    rb"(?:[0-9]+|c[0-9a-f]+)\.(?P<digest>[0-9a-f]{%d})(?:\.[0-9]+)?" % (2 * DIGEST_SIZE)
)
_PLACE: Final = re.compile(rb"[0-9]+\.[0-9]+")


def digest_in(msg_id: bytes, epoch_prefix: bytes) -> bytes | None:
    """Return the digest of the row that an id of this epoch was made for; None if it has none.

    The names of two writes may begin alike: ``job.1.0.3.<digest>`` is no id of epoch 1 of ``job``
    but one of epoch 0 of ``job.1``.
    """
    found = _ROW.fullmatch(msg_id, len(epoch_prefix))
    return None if found is None else bytes.fromhex(found["digest"].decode("ascii"))


def has_place(msg_id: bytes, epoch_prefix: bytes) -> bool:
    """Say whether an id of this epoch has the place of its row instead of a digest."""
    return _PLACE.fullmatch(msg_id, len(epoch_prefix)) is not None


def epoch_in(msg_id: bytes, query_prefix: bytes) -> int | None:
    """Return the epoch of an id of this query; None when it is of another one."""
    word, _, _ = msg_id[len(query_prefix) :].partition(b".")
    epoch_prefix = query_prefix + word + b"."
    if not word.isdigit() or not (
        _ROW.fullmatch(msg_id, len(epoch_prefix)) or has_place(msg_id, epoch_prefix)
    ):
        return None
    return int(word)


def row_digests(rows: SinkRows, digest: Callable[[bytes], bytes] = xxh3_128_digest) -> list[bytes]:
    """Return a digest of each row: subject, headers, payload, and what the columns ask for.

    A cryptographic hash would cost as much as all the rest of a write; ``markers``, whose batches
    cost more anyway, asks for one.
    """
    messages = rows.messages
    lines = rows.lines or [b""] * len(messages)
    subjects = set(messages.subjects) if rows.lines is None and not any(messages.headers) else ()
    if 0 < len(subjects) <= len(messages.subjects) // 2:
        # Few subjects and nothing else: what comes before the payload is made once for each.
        starts = {
            one: b"%d 0 0 %s" % (len(one), one.encode("utf-8", "surrogateescape"))
            for one in subjects
        }
        return [
            digest(starts[subject] + payload)
            for subject, payload in zip(messages.subjects, messages.data, strict=True)
        ]
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
            messages.subjects, messages.headers, lines, messages.data, strict=True
        )
    ]


def strong_digest(data: bytes) -> bytes:
    """Return a digest for which nobody can make two inputs."""
    return blake2b(data, digest_size=DIGEST_SIZE).digest()
