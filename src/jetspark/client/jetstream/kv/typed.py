"""Values of one type instead of bytes: any type that msgspec knows, stored as JSON."""

# Every call has a timeout argument (design.md, "The client").

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from jetspark.client.jetstream.kv.backend import TimeToLive
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.errors import CodecFailed

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

T = TypeVar("T")


class TypedEntry(msgspec.Struct, Generic[T], frozen=True):
    """An entry with its value decoded; ``value`` is None for a deletion."""

    value: T | None
    entry: Entry

    @property
    def key(self) -> str:
        """The key."""
        return self.entry.key

    @property
    def revision(self) -> int:
        """The revision of this value."""
        return self.entry.revision

    @property
    def operation(self) -> Operation:
        """PUT, DEL or PURGE."""
        return self.entry.operation

    @property
    def created(self) -> datetime:
        """When the bucket took it."""
        return self.entry.created


class TypedKeyValue(Generic[T]):
    """A bucket whose values are of one type. Made by ``KeyValue.typed``."""

    def __init__(self, bucket: "KeyValue", kind: type[T]) -> None:
        self._bucket = bucket
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._kind = kind

    async def get(
        self,
        key: str,
        *,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: float | None = None,
    ) -> TypedEntry[T]:
        """The latest value of ``key``; KeyNotFound, or CodecFailed when it is of another type."""
        return self.decode(
            await self._bucket.get(
                key, revision=revision, min_last_revision=min_last_revision, timeout=timeout
            )
        )

    async def get_many(
        self, keys: Sequence[str], *, timeout: float | None = None
    ) -> dict[str, TypedEntry[T]]:
        """The latest values of many keys, all as of one moment."""
        found = await self._bucket.get_many(keys, timeout=timeout)
        return {key: self.decode(entry) for key, entry in found.items()}

    async def put(
        self, key: str, value: T, *, ttl: TimeToLive = None, timeout: float | None = None
    ) -> int:
        """Set ``key`` and return the revision."""
        return await self._bucket.put(key, self.encode(value), ttl=ttl, timeout=timeout)

    async def put_many(
        self, values: Mapping[str, T], *, ttl: TimeToLive = None, timeout: float | None = None
    ) -> dict[str, int]:
        """Set many keys, pipelined; returns their revisions."""
        encoded = {key: self.encode(value) for key, value in values.items()}
        return await self._bucket.put_many(encoded, ttl=ttl, timeout=timeout)

    async def create(
        self, key: str, value: T, *, ttl: TimeToLive = None, timeout: float | None = None
    ) -> int:
        """Set ``key`` only if it has no value; KeyExists otherwise."""
        return await self._bucket.create(key, self.encode(value), ttl=ttl, timeout=timeout)

    async def update(
        self,
        key: str,
        value: T,
        last: int,
        *,
        ttl: TimeToLive = None,
        timeout: float | None = None,
    ) -> int:
        """Set ``key`` only if its latest revision is ``last``; WrongLastSequence otherwise."""
        return await self._bucket.update(key, self.encode(value), last, ttl=ttl, timeout=timeout)

    async def history(self, key: str, *, timeout: float | None = None) -> list[TypedEntry[T]]:
        """All entries of ``key`` that the bucket still has, oldest first."""
        return [self.decode(entry) for entry in await self._bucket.history(key, timeout=timeout)]

    def encode(self, value: T) -> bytes:
        """The JSON of a value."""
        return self._encoder.encode(value)

    def decode(self, entry: Entry) -> TypedEntry[T]:
        """Decode the value of an entry, such as one of a watch."""
        if not entry.is_put:
            return TypedEntry(None, entry)
        try:
            return TypedEntry(self._decoder.decode(entry.value), entry)
        except msgspec.MsgspecError as error:
            raise CodecFailed(
                f"key {entry.key!r} of bucket {entry.bucket!r} does not hold a "
                f"{self._kind.__name__}: {error}"
            ) from error
