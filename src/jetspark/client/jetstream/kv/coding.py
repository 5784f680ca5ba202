"""Conversion of keys, filters and values to their stored form, and of stored entries back."""

from collections.abc import Sequence
from typing import Final

from jetspark.client.frames import to_bytes
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.codec import KeyCodec, PlainKeys, PlainValues, ValueCodec
from jetspark.client.jetstream.kv.config import check_filter, check_key, is_pattern
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.errors import CodecFailed
from jetspark.subjects.match import is_subset

COMPARED_MAX: Final = 200  # above this, filters are not compared with each other


class Coding:
    """The two codecs of a handle, and checks of their results."""

    def __init__(
        self, bucket: str, keys: KeyCodec | None = None, values: ValueCodec | None = None
    ) -> None:
        for name, codec in (("key_codec", keys), ("value_codec", values)):
            if codec is not None and not (hasattr(codec, "encode") and hasattr(codec, "decode")):
                raise TypeError(
                    f"{name}={codec!r}: expected an object with encode and decode, see "
                    "jetspark.KeyCodec and jetspark.ValueCodec"
                )
        self._bucket = bucket
        self._keys: KeyCodec = keys or PlainKeys()
        self._values: ValueCodec = values or PlainValues()
        self._plain_keys = keys is None
        self._opens = values is not None

    def key(self, key: str) -> str:
        """The stored form of a key; BadName if a bucket cannot have it."""
        check_text(key)
        return check_key(self._keys.encode(key))

    def pattern(self, key: str) -> str | None:
        """The stored form of a pattern; None if it is a single key."""
        check_text(key)
        if not key:
            return None
        stored = self._keys.encode_filter(key)
        return check_filter(stored) if is_pattern(stored) else None

    def lookup(self, key: str) -> str:
        """The stored form of a key, unchecked: an invalid key is not found."""
        return self._keys.encode(key)

    def open_value(self, key: str, stored: Stored) -> bytes:
        """Decode the value of an entry; CodecFailed if that fails."""
        try:
            return self._values.decode(self._bucket, key, stored.data)
        except CodecFailed:
            raise
        except Exception as error:
            raise CodecFailed(
                f"the value codec failed for key {key!r} of bucket {self._bucket!r}, revision "
                f"{stored.revision}: {error!r}"
            ) from error

    def filters(self, filters: Sequence[str]) -> tuple[str, ...]:
        """The stored form of filters; none, or an empty one, is all keys.

        Filters covered by another one are left out: a consumer accepts no overlapping filters.
        """
        stored = list(dict.fromkeys(self._filter(each) for each in filters or (">",)))
        if len(stored) == 1 or len(stored) > COMPARED_MAX:
            return tuple(stored)
        encoded = [each.encode() for each in stored]
        return tuple(
            each
            for each, inner in zip(stored, encoded, strict=True)
            if not any(inner != outer and is_subset(inner, outer) for outer in encoded)
        )

    def _filter(self, pattern: str) -> str:
        if not isinstance(pattern, str):
            raise TypeError(
                f"a filter must be str, not {type(pattern).__name__}: {pattern!r}; pass several "
                "as separate arguments: ('a', 'b.*')"
            )
        return check_filter(self._keys.encode_filter(pattern) if pattern else pattern)

    def value(self, key: str, value: bytes) -> bytes:
        """The stored form of a value."""
        return self._values.encode(self._bucket, key, to_bytes(value, "value"))

    def decode_keys(self, stored: list[str]) -> list[str]:
        """The keys of stored ones."""
        return stored if self._plain_keys else list(map(self._keys.decode, stored))

    def entry(self, stored: Stored) -> Entry:
        """The public form of a stored entry. Values left out by a watch stay empty."""
        key = self._keys.decode(stored.key)
        value = stored.data
        if self._opens and stored.operation is Operation.PUT and (value or not stored.size):
            value = self.open_value(key, stored)
        return Entry(
            bucket=self._bucket,
            key=key,
            value=value,
            revision=stored.revision,
            time_ns=stored.time_ns,
            delta=stored.delta,
            operation=stored.operation,
            marker_reason=stored.marker_reason,
            size=stored.size,
        )


def check_text(key: object) -> None:
    """Refuse a key that is no str."""
    if not isinstance(key, str):
        raise TypeError(f"a key must be str, not {type(key).__name__}: {key!r}")
