"""How a handle's keys, filters and values become stored ones, and stored entries its own."""

from collections.abc import Sequence
from typing import Final

from jetspark.client.frames import to_bytes
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.codec import KeyCodec, PlainKeys, PlainValues, ValueCodec
from jetspark.client.jetstream.kv.config import check_filter, check_key, is_pattern
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.errors import CodecFailed
from jetspark.subjects.match import is_subset

COMPARED_MAX: Final = 200  # filters that are compared with each other


class Coding:
    """The two codecs of a handle, and the checks of what they produce."""

    def __init__(
        self, bucket: str, keys: KeyCodec | None = None, values: ValueCodec | None = None
    ) -> None:
        for name, codec in (("key_codec", keys), ("value_codec", values)):
            if codec is not None and not (hasattr(codec, "encode") and hasattr(codec, "decode")):
                raise TypeError(
                    f"{name}={codec!r}: expected an object with encode and decode, as "
                    "jetspark.KeyCodec and jetspark.ValueCodec describe them"
                )
        self._bucket = bucket
        self._keys: KeyCodec = keys or PlainKeys()
        self._values: ValueCodec = values or PlainValues()
        self._plain_keys = keys is None
        self._opens = values is not None

    def key(self, key: str) -> str:
        """The stored form of a key; BadName when a bucket cannot have it."""
        check_text(key)
        return check_key(self._keys.encode(key))

    def pattern(self, key: str) -> str | None:
        """The stored form of what has wildcards; None when it names one key."""
        check_text(key)
        if not key:
            return None
        stored = self._keys.encode_filter(key)
        return check_filter(stored) if is_pattern(stored) else None

    def lookup(self, key: str) -> str:
        """The stored form of a key, unchecked: what a bucket cannot have is not found."""
        return self._keys.encode(key)

    def open_value(self, key: str, stored: Stored) -> bytes:
        """The value of an entry that is one; CodecFailed when it cannot be decoded."""
        try:
            return self._values.decode(self._bucket, key, stored.data)
        except CodecFailed:
            raise
        except Exception as error:
            raise CodecFailed(
                f"the value codec failed at key {key!r} of bucket {self._bucket!r}, revision "
                f"{stored.revision}: {error!r}"
            ) from error

    def filters(self, filters: Sequence[str]) -> tuple[str, ...]:
        """The stored form of filters; none, or an empty one, is all keys.

        Those that another one covers are left out: a consumer takes none that overlap.
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
                f"a filter must be str, not {type(pattern).__name__}: {pattern!r}; several are "
                "arguments of their own: ('a', 'b.*')"
            )
        return check_filter(self._keys.encode_filter(pattern) if pattern else pattern)

    def value(self, key: str, value: bytes) -> bytes:
        """The stored form of a value."""
        return self._values.encode(self._bucket, key, to_bytes(value, "value"))

    def decode_keys(self, stored: list[str]) -> list[str]:
        """The keys of stored ones."""
        return stored if self._plain_keys else list(map(self._keys.decode, stored))

    def entry(self, stored: Stored) -> Entry:
        """What users see of a stored entry. Values that a watch left out stay empty."""
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
    """Refuse what is no text with a message that says so."""
    if not isinstance(key, str):
        raise TypeError(f"a key must be str, not {type(key).__name__}: {key!r}")
