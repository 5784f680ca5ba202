"""Values of one type instead of bytes: any type that msgspec supports, stored as JSON."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, is_typeddict, overload

import msgspec

from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.jetstream.kv.watch import Watcher, Watches
from jetspark.client.jetstream.timestamps import Moment
from jetspark.client.opening import opens
from jetspark.client.pager import Pager
from jetspark.client.required import REQUIRED, D, Required
from jetspark.client.timeouts import Timeout, TimeToLive
from jetspark.errors import CodecFailed

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

PAGE_SIZE: Final = 256

T = TypeVar("T")


class TypedEntry(msgspec.Struct, Generic[T], frozen=True):
    """An entry with its decoded value.

    Where deletions are included (``history``, ``watch``) it is a ``TypedEntry[T | None]``, and
    their ``value`` is None.
    """

    value: T
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
    def time(self) -> datetime:
        """When the bucket stored it."""
        return self.entry.time


class TypedKeyValue(Generic[T]):
    """A bucket whose values have one type, from ``KeyValue.typed``."""

    def __init__(
        self, bucket: "KeyValue", watches: Watches, coding: Coding, kind: type[T]
    ) -> None:
        self._bucket = bucket
        self._watches = watches
        self._coding = coding
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._kind = kind

    @overload
    async def get(
        self,
        key: str,
        *,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> TypedEntry[T]: ...

    @overload
    async def get(
        self,
        key: str,
        *,
        default: D | Required,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> TypedEntry[T] | D: ...

    async def get(
        self,
        key: str,
        *,
        default: D | Required = REQUIRED,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> TypedEntry[T] | D:
        """Get the latest value of ``key``; without one, ``default`` if given, else KeyNotFound.

        CodecFailed if it has another type.
        """
        entry = await self._bucket.get(
            key,
            default=default,
            revision=revision,
            min_last_revision=min_last_revision,
            timeout=timeout,
        )
        if isinstance(entry, Entry):
            return TypedEntry(self._value(entry), entry)
        return entry

    async def exists(
        self, key: str, *, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> bool:
        """Whether ``key`` has a value, of any type."""
        return await self._bucket.exists(key, min_last_revision=min_last_revision, timeout=timeout)

    async def get_many(
        self,
        keys: Sequence[str],
        *,
        at_revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> dict[str, TypedEntry[T]]:
        """Get the latest values of many keys, at one point in time; see ``KeyValue.get_many``."""
        found = await self._bucket.get_many(
            keys, at_revision=at_revision, min_last_revision=min_last_revision, timeout=timeout
        )
        return {key: TypedEntry(self._value(entry), entry) for key, entry in found.items()}

    async def put(
        self, key: str, value: T, *, ttl: TimeToLive | None = None, timeout: Timeout | None = None
    ) -> int:
        """Set ``key`` and return the revision."""
        return await self._bucket.put(key, self.encode(value), ttl=ttl, timeout=timeout)

    async def put_many(
        self,
        values: Mapping[str, T],
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> dict[str, int]:
        """Set many keys, pipelined; returns their revisions."""
        encoded = {key: self.encode(value) for key, value in values.items()}
        return await self._bucket.put_many(encoded, ttl=ttl, timeout=timeout)

    async def create(
        self, key: str, value: T, *, ttl: TimeToLive | None = None, timeout: Timeout | None = None
    ) -> int:
        """Set ``key`` only if it has no value; KeyExists otherwise."""
        return await self._bucket.create(key, self.encode(value), ttl=ttl, timeout=timeout)

    async def update(
        self,
        key: str,
        value: T,
        last: int,
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Set ``key`` only if its latest revision is ``last``; WrongLastSequence otherwise."""
        return await self._bucket.update(key, self.encode(value), last, ttl=ttl, timeout=timeout)

    async def delete(
        self, key: str, *, last: int | None = None, timeout: Timeout | None = None
    ) -> int:
        """Delete ``key`` (wildcards allowed), keeping its history; the marker's revision."""
        return await self._bucket.delete(key, last=last, timeout=timeout)

    async def purge(
        self,
        key: str,
        *,
        last: int | None = None,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Delete ``key`` (wildcards allowed) and its history; the marker's revision."""
        return await self._bucket.purge(key, last=last, ttl=ttl, timeout=timeout)

    async def history(
        self, key: str, *, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> list[TypedEntry[T | None]]:
        """List all stored entries of ``key``, oldest first."""
        found = await self._bucket.history(
            key, min_last_revision=min_last_revision, timeout=timeout
        )
        return [self.decode(entry) for entry in found]

    def keys(
        self, *filters: str, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> Pager[str]:
        """Iterate over the keys that have a value, all or those that match."""
        return self._bucket.keys(*filters, min_last_revision=min_last_revision, timeout=timeout)

    def snapshot(
        self,
        *filters: str,
        at_revision: int = 0,
        at_time: Moment | None = None,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Pager[TypedEntry[T]]:
        """Iterate over the values of all keys (or those that match) at one point in time."""
        entries = self._bucket.snapshot(
            *filters,
            at_revision=at_revision,
            at_time=at_time,
            min_last_revision=min_last_revision,
            timeout=timeout,
        )
        return Pager(self._decoded(entries))

    @opens
    async def watch(
        self,
        *filters: str,
        include_history: bool = False,
        ignore_deletes: bool = False,
        updates_only: bool = False,
        resume_from: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Watcher[TypedEntry[T | None]]:
        """Follow keys: first their latest values, then every change."""
        feed = await self._watches.start(
            filters,
            self._decode_stored,
            include_history=include_history,
            ignore_deletes=ignore_deletes,
            updates_only=updates_only,
            resume_from=resume_from,
            min_last_revision=min_last_revision,
            timeout=timeout,
        )
        return self._watches.watcher(feed)

    def encode(self, value: T) -> bytes:
        """The JSON of a value; TypeError if it is not of the bucket's type."""
        kind: Any = self._kind  # it may also be an alias, such as list[int]
        if (
            isinstance(kind, type)
            and not is_typeddict(kind)
            and not isinstance(value, kind)
            and not (kind is float and isinstance(value, int))
        ):
            raise TypeError(
                f"value={value!r}: expected a {kind.__name__}, the type given to typed()"
            )
        return self._encoder.encode(value)

    def decode(self, entry: Entry) -> TypedEntry[T | None]:
        """Decode the value of an entry, such as one from a watch."""
        return TypedEntry(self._value(entry) if entry.is_put else None, entry)

    def _decode_stored(self, stored: Stored) -> TypedEntry[T | None]:
        return self.decode(self._coding.entry(stored))

    def _value(self, entry: Entry) -> T:
        try:
            value: T = self._decoder.decode(entry.value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CodecFailed(
                f"key {entry.key!r} of bucket {entry.bucket!r} does not hold a "
                f"{getattr(self._kind, '__name__', self._kind)}: {error}"
            ) from error
        return value

    async def _decoded(self, entries: Pager[Entry]) -> AsyncGenerator[list[TypedEntry[T]], None]:
        while page := await entries.next_chunk(PAGE_SIZE):
            yield [TypedEntry(self._value(entry), entry) for entry in page]

    def __repr__(self) -> str:
        return (
            f"TypedKeyValue({self._bucket.bucket!r}, "
            f"{getattr(self._kind, '__name__', self._kind)})"
        )
