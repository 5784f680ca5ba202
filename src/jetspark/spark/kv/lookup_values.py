"""The values of a bucket that a Python worker has looked up, for ``kv_lookup``.

A worker keeps the values that it looked up. Before it uses them again it asks the leader
for the state of the bucket: if sequences and number of messages are the same, nothing was written,
deleted or has expired, and the values are current; else they are read again, from a copy that has
reached the leader's last sequence (ADR-53).
"""

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from jetspark import sync
from jetspark.client.jetstream.kv.config import stream_name
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.kv.jetstream_backend import prefixes
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import Error, StreamNotFound
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import jetstream_of
from jetspark.spark.stream.range_reader import with_retries
from jetspark.subjects.tokens import key_problem
from jetspark.sync.bulk import last_columns

# Keys read together: each request has up to 1,000.
KEYS_AT_ONCE: Final = 5_000
# A worker that keeps more than this starts again: a bucket may be larger than its memory.
KEPT_BYTES: Final = 256 * 1024 * 1024
# What an entry takes in addition to its key and value, about.
_ENTRY_BYTES: Final = 300
_BUCKETS_KEPT: Final = 16

RESULT: Final = "struct<value: binary, revision: bigint, timestamp: timestamp>"
_ARROW: Final = (
    pa.field("value", pa.binary()),
    pa.field("revision", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
)


class LookupFailed(Error):
    """A lookup that cannot work; the text says what to change."""


class LookupPlan(msgspec.Struct, frozen=True):
    """What a worker needs; pickled to the tasks."""

    connection: Connection
    bucket: str
    max_staleness_s: float


class Entry(NamedTuple):
    """The value of a key."""

    value: bytes
    revision: int
    time_ns: int


class BucketState(NamedTuple):
    """If two of a bucket are equal, it has the same contents."""

    created: int
    first_seq: int
    last_seq: int
    messages: int

    @classmethod
    def of(cls, info: StreamInfo) -> "BucketState":
        """Return the state in an answer of the leader."""
        state = info.state
        return cls(int(to_wire(info).created), state.first_seq, state.last_seq, state.messages)


class BucketLookup:
    """The values that this process has looked up in one bucket."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan
        self._state: BucketState | None = None
        self._prefix = ""
        self._checked_at = 0.0
        self._kept: dict[str, Entry | None] = {}
        self._kept_bytes = 0

    def look_up(self, keys: pa.Array) -> pa.Array:
        """Return a struct for each key; NULL where the bucket has no value."""
        if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
            raise LookupFailed(
                f"kv_lookup: the keys of bucket {self._plan.bucket!r} are {keys.type}: a key is a "
                "string, so cast the column"
            )
        wanted: list[str | None] = keys.to_pylist()
        distinct = {key for key in wanted if key is not None}
        # A key that cannot exist has no value; one with a wildcard would match others.
        distinct = {key for key in distinct if key_problem(key) is None}
        if self._needs_request(distinct):
            with_retries(self._plan.connection, lambda client: self._refresh(client, distinct))
        found = [self._kept.get(key) if key is not None else None for key in wanted]
        return pa.StructArray.from_arrays(
            [
                pa.array([None if one is None else one.value for one in found], pa.binary()),
                pa.array([None if one is None else one.revision for one in found], pa.int64()),
                pa.array(
                    [None if one is None else one.time_ns // 1000 for one in found], pa.int64()
                ).cast(_ARROW[2].type),
            ],
            fields=_ARROW,
            mask=pa.array([one is None for one in found], pa.bool_()),
        )

    def _needs_request(self, keys: set[str]) -> bool:
        outdated = time.monotonic() >= self._checked_at + self._plan.max_staleness_s
        return self._state is None or outdated or not keys <= self._kept.keys()

    def _refresh(self, client: sync.Client, keys: set[str]) -> None:
        """Make the kept values of ``keys`` current."""
        plan, now = self._plan, time.monotonic()
        try:
            stream = jetstream_of(client, plan.connection).stream(stream_name(plan.bucket))
        except StreamNotFound:
            raise LookupFailed(
                f"kv_lookup: bucket {plan.bucket!r} does not exist on "
                f"{plan.connection.display_servers}: create it, or correct the name"
            ) from None
        # The handle comes with an answer of the leader.
        info = stream.cached_info
        state = BucketState.of(info)
        if state != self._state:
            self._forget()
            self._state, self._prefix = state, prefixes(to_wire(info), "$JS.API")[0]
        elif self._kept_bytes > KEPT_BYTES:
            self._forget()
        self._checked_at = now
        missing = [key for key in keys if key not in self._kept]
        for start in range(0, len(missing), KEYS_AT_ONCE):
            self._read(stream, missing[start : start + KEYS_AT_ONCE], state.last_seq)

    def _read(self, stream: sync.Stream, keys: Sequence[str], last_seq: int) -> None:
        """Read the newest values of keys from a copy that has reached ``last_seq``."""
        chunk = last_columns(
            stream, [self._prefix + key for key in keys], up_to_seq=0, min_last_seq=last_seq
        )
        self._kept.update(dict.fromkeys(keys))
        for subject, value, revision, time_ns, block in zip(
            chunk.subjects, chunk.data, chunk.sequences, chunk.times, chunk.headers, strict=True
        ):
            if not block or read_operation(block)[0] is Operation.PUT:
                self._kept[subject[len(self._prefix) :]] = Entry(value, revision, time_ns)
                self._kept_bytes += len(value)
        self._kept_bytes += sum(map(len, keys)) + _ENTRY_BYTES * len(keys)

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0


@lru_cache(_BUCKETS_KEPT)
def lookup_of(plan: LookupPlan) -> BucketLookup:
    """Return what this process has looked up by a plan."""
    return BucketLookup(plan)
