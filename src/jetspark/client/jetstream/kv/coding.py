"""How a handle's keys, filters and values become stored ones, and stored entries its own."""

from collections.abc import Sequence
from typing import Final

from jetspark.client.frames import to_bytes
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.codec import KeyCodec, PlainKeys, PlainValues, ValueCodec
from jetspark.client.jetstream.kv.config import check_filter, check_key
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.subjects.match import is_subset

COMPARED_MAX: Final = 200  # filters that are compared with each other


class Coding:
    """The two codecs of a handle, and the checks of what they produce."""

    def __init__(
        self, bucket: str, keys: KeyCodec | None = None, values: ValueCodec | None = None
    ) -> None:
        self._bucket = bucket
        self._keys: KeyCodec = keys or PlainKeys()
        self._values: ValueCodec = values or PlainValues()

    def key(self, key: str) -> str:
        """The stored form of a key; BadName when a bucket cannot have it."""
        return check_key(self._keys.encode(key))

    def lookup(self, key: str) -> str:
        """The stored form of a key, unchecked: what a bucket cannot have is not found."""
        return self._keys.encode(key)

    def open_value(self, key: str, stored: Stored) -> bytes:
        """The value of an entry that is one."""
        return self._values.decode(self._bucket, key, stored.data)

    def filters(self, filters: Sequence[str]) -> tuple[str, ...]:
        """The stored form of filters; none, or an empty one, is all keys.

        Those that another one covers are left out: a consumer takes none that overlap.
        """
        stored = [
            check_filter(self._keys.encode_filter(each) if each else each)
            for each in dict.fromkeys(filters or (">",))
        ]
        if len(stored) == 1 or len(stored) > COMPARED_MAX:
            return tuple(stored)
        encoded = [each.encode() for each in stored]
        return tuple(
            each
            for each, inner in zip(stored, encoded, strict=True)
            if not any(inner != outer and is_subset(inner, outer) for outer in encoded)
        )

    def value(self, key: str, value: bytes) -> bytes:
        """The stored form of a value."""
        return self._values.encode(self._bucket, key, to_bytes(value))

    def decode_key(self, stored: str) -> str:
        """The key of a stored one."""
        return self._keys.decode(stored)

    def entry(self, stored: Stored) -> Entry:
        """What users see of a stored entry. Values that a watch left out stay empty."""
        key = self._keys.decode(stored.key)
        value = stored.data
        if stored.operation is Operation.PUT and (value or not stored.size):
            value = self._values.decode(self._bucket, key, value)
        return Entry(
            bucket=self._bucket,
            key=key,
            value=value,
            revision=stored.revision,
            created_ns=stored.time_ns,
            delta=stored.delta,
            operation=stored.operation,
            marker_reason=stored.marker_reason,
            size=stored.size,
        )
