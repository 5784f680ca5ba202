"""Entries and the status of a bucket (ADR-8, "Data Types")."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from jetspark.client.jetstream.kv.config import KeyValueConfig
from jetspark.client.jetstream.pages import parse_count
from jetspark.client.jetstream.timestamps import from_nanoseconds
from jetspark.client.models.stream import StreamInfo
from jetspark.client.reprs import shown_bytes
from jetspark.errors import NotSupported
from jetspark.headers.block import find_value
from jetspark.headers.names import KV_OPERATION, MARKER_REASON, MSG_SIZE


class Operation(StrEnum):
    """The operation of an entry."""

    PUT = "PUT"
    DEL = "DEL"
    PURGE = "PURGE"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A value, or a deletion marker, at one revision.

    ``time`` is when the bucket stored it, ``time_ns`` the same in ns since 1970. ``delta`` is the
    distance from the latest requested value: 0 is the latest. ``marker_reason`` is set if a limit
    of the server removed the value: ``MaxAge``, ``Purge`` or ``Remove``. ``size`` is the size of
    the stored value, even if a watch left the value out.
    """

    bucket: str
    key: str
    value: bytes
    revision: int
    time_ns: int
    delta: int = 0
    operation: Operation = Operation.PUT
    marker_reason: str = ""
    size: int = 0

    @property
    def time(self) -> datetime:
        """``time_ns`` as UTC, truncated to microseconds."""
        return from_nanoseconds(self.time_ns)

    @property
    def is_put(self) -> bool:
        """Whether it is a value, not a deletion marker."""
        return self.operation is Operation.PUT

    def __repr__(self) -> str:
        what = shown_bytes(self.value) if self.is_put else self.operation.value
        reason = f", marker_reason={self.marker_reason!r}" if self.marker_reason else ""
        return (
            f"Entry({self.key!r}, {what}, bucket={self.bucket!r}, revision={self.revision}, "
            f"time='{self.time:%Y-%m-%d %H:%M:%S.%f}'{reason})"
        )


# ADR-8 1.1, limit markers.
_MARKERS: Final = {
    b"MaxAge": Operation.PURGE,
    b"Purge": Operation.PURGE,
    b"Remove": Operation.DEL,
}


_ONLY_SIZE: Final = b"NATS/1.0\r\nNats-Msg-Size: "


def read_operation(block: bytes) -> tuple[Operation, str]:
    """Operation and marker reason of a stored message; most have no headers at all.

    ADR-8: any ``KV-Operation`` that is not unset means that the data has been deleted.
    """
    if not block:
        return Operation.PUT, ""
    named = find_value(block, KV_OPERATION)
    if named is not None and named != b"PUT":
        return (Operation.PURGE if named == b"PURGE" else Operation.DEL), ""
    reason = find_value(block, MARKER_REASON)
    if reason is not None:
        return _MARKERS.get(reason, Operation.DEL), reason.decode("utf-8", "replace")
    return Operation.PUT, ""


def about_key(bucket: str, key: str) -> str:
    """The key, for error messages."""
    return f"key {key!r} of bucket {bucket!r}"


def read_size(block: bytes, data: bytes) -> int:
    """The size of the stored value; a headers-only consumer sends it in a header."""
    if data or not block:
        return len(data)
    return max(parse_count(find_value(block, MSG_SIZE)), 0)


def read_block(block: bytes, data: bytes) -> tuple[Operation, str, int]:
    """Operation, marker reason and size; values of a listing have only the size."""
    if not data and block.startswith(_ONLY_SIZE):
        size = block[len(_ONLY_SIZE) : -4]
        if size.isdigit():
            return Operation.PUT, "", int(size)
    operation, reason = read_operation(block)
    return operation, reason, read_size(block, data)


class BucketStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a bucket as a whole (ADR-8, "Status").

    ``values`` counts all stored values, including history and deletion markers. ``backing_store``
    is the kind of backend; ``info`` exists only for JetStream.
    """

    bucket: str
    values: int
    bytes: int
    config: KeyValueConfig
    backing_store: str
    info: StreamInfo | None = None

    @property
    def stream_info(self) -> StreamInfo:
        """The stream of the bucket; NotSupported if it is not stored in one."""
        if self.info is None:
            raise NotSupported(
                f"bucket {self.bucket!r} is stored in {self.backing_store}, not in a stream"
            )
        return self.info

    @property
    def history(self) -> int:
        """Values kept per key."""
        return self.config.history

    @property
    def ttl(self) -> float:
        """How long values are kept, in seconds; 0 is forever."""
        return self.config.ttl

    @property
    def is_read_only(self) -> bool:
        """Whether it is a mirror, whose values are written to its origin."""
        return self.config.mirror is not None
