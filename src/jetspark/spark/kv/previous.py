"""The previous values of the keys in a change feed, as far as their history is kept."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark import sync
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.spark.connections import jetstream_of
from jetspark.spark.stream.options import SourceOptions
from jetspark.spark.stream.range_reader import with_retries
from jetspark.sync.bulk import last_columns

# Keys read together: each request has up to 1,000.
KEYS_AT_ONCE: Final = 5_000


class Previous(NamedTuple):
    """The revision of a key before a change."""

    revision: int
    value: bytes | None
    """None: the key was deleted."""


class PreviousRevisions:
    """Follows the changes of one partition, in order."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._last: dict[str, Previous | None] = {}
        """By subject, the last change so far; None: before the partition there is none."""

    def of(self, chunk: MessageColumns) -> list[Previous | None]:
        """Return what precedes each change of the next chunk; None: unknown, or nothing."""
        new = [one for one in dict.fromkeys(chunk.subjects) if one not in self._last]
        # The chunk has everything from its first sequence on: what precedes it is older.
        before = chunk.sequences[0] - 1 if len(chunk) else 0
        self._last.update(dict.fromkeys(new))
        if before:
            for start in range(0, len(new), KEYS_AT_ONCE):
                self._read(new[start : start + KEYS_AT_ONCE], before)
        found: list[Previous | None] = []
        for subject, revision, value, block in zip(
            chunk.subjects, chunk.sequences, chunk.data, chunk.headers, strict=True
        ):
            found.append(self._last[subject])
            self._last[subject] = _revision(revision, value, block)
        return found

    def _read(self, subjects: Sequence[str], before: int) -> None:
        """Read the last revisions of keys at a sequence that are still kept."""

        def read(client: sync.Client) -> MessageColumns:
            jetstream = jetstream_of(client, self._options.connection)
            stream = jetstream.stream(self._options.stream)
            return last_columns(stream, subjects, up_to_seq=before, min_last_seq=before)

        chunk = with_retries(self._options.connection, read)
        for subject, revision, value, block in zip(
            chunk.subjects, chunk.sequences, chunk.data, chunk.headers, strict=True
        ):
            self._last[subject] = _revision(revision, value, block)


def _revision(revision: int, value: bytes, block: bytes) -> Previous:
    put = not block or read_operation(block)[0] is Operation.PUT
    return Previous(revision, value if put else None)
