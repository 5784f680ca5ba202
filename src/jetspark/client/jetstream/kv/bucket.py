"""A key-value bucket (ADR-8): get, put, create, update, delete, purge, watch, and more."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Final, Self, overload

from jetspark.client.arguments import text, texts, whole
from jetspark.client.callbacks.chunk import check_callback
from jetspark.client.jetstream.kv.backend import (
    Backend,
    WatchPlan,
    to_time_to_live,
)
from jetspark.client.jetstream.kv.codec import KeyCodec, ValueCodec
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.creation import create_key
from jetspark.client.jetstream.kv.entry import BucketStatus, Entry, Operation, about_key
from jetspark.client.jetstream.kv.housekeeping import OLDER_THAN, purge_deletes
from jetspark.client.jetstream.kv.listing import (
    initial_pages,
    key_pages,
    stored_keys,
    value_pages,
)
from jetspark.client.jetstream.kv.lock import Election, Lock
from jetspark.client.jetstream.kv.members import Members
from jetspark.client.jetstream.kv.replica import KeyValueReplica
from jetspark.client.jetstream.kv.transaction import Transaction
from jetspark.client.jetstream.kv.typed import T, TypedKeyValue
from jetspark.client.jetstream.kv.watch import EntryCallback, Watcher, Watches
from jetspark.client.jetstream.local_copy import MEMORY_MAX, LocalCopy
from jetspark.client.jetstream.timestamps import Moment, to_nanoseconds
from jetspark.client.models.base import to_wire
from jetspark.client.opening import opens
from jetspark.client.pager import Pager
from jetspark.client.required import REQUIRED, D, Required
from jetspark.client.timeouts import Timeout, TimeToLive, call_seconds
from jetspark.errors import ApiError, KeyNotFound, ReadOnly

LOCK_TTL: Final = 10.0


class KeyValue:
    """A handle to one bucket, from ``JetStream.key_value`` or ``create_key_value``."""

    def __init__(
        self,
        backend: Backend,
        *,
        key_codec: KeyCodec | None = None,
        value_codec: ValueCodec | None = None,
        read_only: bool = False,
    ) -> None:
        self._backend = backend
        self._codecs = (key_codec, value_codec)
        self._coding = Coding(backend.bucket, key_codec, value_codec)
        self._read_only = read_only
        self._watches = Watches(backend, self._coding)

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self._backend.bucket

    @property
    def is_read_only(self) -> bool:
        """Whether writing through this handle raises ReadOnly."""
        return self._read_only

    # Reading.

    @overload
    async def get(
        self,
        key: str,
        *,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Entry: ...

    @overload
    async def get(
        self,
        key: str,
        *,
        default: D | Required,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Entry | D: ...

    async def get(
        self,
        key: str,
        *,
        default: D | Required = REQUIRED,
        revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Entry | D:
        """Get the latest value of ``key``, or that of a ``revision``.

        With ``min_last_revision`` the answer comes from a copy that has reached that revision
        (ADR-53). If there is no value, or it was deleted, returns ``default`` if given, else
        raises KeyNotFound. Raises MinLastSequence if the revision was not reached in time.
        """
        if revision != 0:
            whole(revision, "revision")
        if min_last_revision != 0:
            whole(min_last_revision, "min_last_revision")
        stored = await self._backend.get(
            self._coding.key(key),
            revision=revision,
            min_last_revision=min_last_revision,
            timeout=timeout,
        )
        if stored is None or stored.operation is not Operation.PUT:
            if not isinstance(default, Required):
                return default
            error = KeyNotFound(self.bucket, key, 0 if stored is None else stored.revision)
            if revision and stored is None:
                error.add_note(f"{revision} is not a revision of this key")
            raise error
        return self._coding.entry(stored)

    async def exists(
        self, key: str, *, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> bool:
        """Whether ``key`` has a value."""
        found = await self.get(
            key, default=None, min_last_revision=min_last_revision, timeout=timeout
        )
        return found is not None

    async def get_many(
        self,
        keys: Sequence[str],
        *,
        at_revision: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> dict[str, Entry]:
        """Get the latest values of many keys, at one point in time, without keys that have none.

        The time is now, or ``at_revision`` if the bucket's history reaches back to it;
        MinLastSequence if the bucket has not reached it.
        """
        whole(at_revision, "at_revision")
        whole(min_last_revision, "min_last_revision")
        encoded = [self._coding.key(key) for key in texts(keys, "keys")]
        if not encoded:
            return {}
        pages = self._backend.get_many(
            encoded,
            at_revision=at_revision,
            at_time_ns=None,
            # A copy that lags would silently return less, or nothing.
            min_last_revision=max(min_last_revision, at_revision),
            timeout=timeout,
        )
        found = Pager(value_pages(self._coding, pages))
        return {entry.key: entry async for entry in found}

    def snapshot(
        self,
        *filters: str,
        at_revision: int = 0,
        at_time: Moment | None = None,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> Pager[Entry]:
        """Iterate over the values of all keys (or those that match) at one point in time.

        Now, or ``at_revision``, or ``at_time`` (a datetime with time zone), if the bucket's
        history reaches back to it. MinLastSequence if the bucket has not reached ``at_revision``.
        """
        if at_revision and at_time is not None:
            raise ValueError("at_revision and at_time are mutually exclusive: give one of them")
        whole(at_revision, "at_revision")
        whole(min_last_revision, "min_last_revision")
        at_time_ns = None if at_time is None else to_nanoseconds(at_time)
        pages = self._backend.get_many(
            self._coding.filters(filters),
            at_revision=at_revision,
            at_time_ns=at_time_ns,
            min_last_revision=max(min_last_revision, at_revision),
            timeout=timeout,
        )
        return Pager(value_pages(self._coding, pages))

    async def history(
        self, key: str, *, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> list[Entry]:
        """List all stored entries of ``key`` (wildcards allowed), oldest first.

        Includes deletions. Empty if there are none.
        """
        pattern = self._coding.pattern(key) or self._coding.key(key)
        plan = WatchPlan(filters=(pattern,), start="all", min_last_revision=min_last_revision)
        entries: list[Entry] = []
        async for page in initial_pages(self._backend, plan, timeout):
            entries.extend(self._coding.entry(stored) for stored in page)
        return entries

    def keys(
        self, *filters: str, min_last_revision: int = 0, timeout: Timeout | None = None
    ) -> Pager[str]:
        """Iterate over the keys that have a value, all or those that match one of ``filters``.

        ``timeout`` limits the wait for each part of them.
        """
        plan = WatchPlan(
            filters=self._coding.filters(filters),
            meta_only=True,
            min_last_revision=min_last_revision,
        )
        return Pager(key_pages(self._backend, self._coding, plan, timeout))

    @opens
    async def watch(
        self,
        *filters: str,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        resume_from: int = 0,
        min_last_revision: int = 0,
        callback: EntryCallback | None = None,
        timeout: Timeout | None = None,
    ) -> Watcher[Entry]:
        """Follow keys: first their latest values, then every change.

        ``filters`` are keys or patterns; none, or ``>``, is the whole bucket. ``include_history``
        starts with all stored values, ``updates_only`` with none, ``resume_from`` with that
        revision. ``ignore_deletes`` leaves out deletions, ``meta_only`` the values. A ``callback``
        gets the entries that ``async for`` would yield. ``timeout`` limits the start only.
        """
        check_callback(callback)
        feed = await self._watches.start(
            filters,
            self._coding.entry,
            include_history=include_history,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            updates_only=updates_only,
            resume_from=resume_from,
            min_last_revision=min_last_revision,
            timeout=timeout,
        )
        if callback is not None:
            feed.call(callback, self._backend.report)
        return self._watches.watcher(feed)

    async def status(self, *, timeout: Timeout | None = None) -> BucketStatus:
        """Counts and configuration of the bucket; BucketNotFound if it does not exist."""
        return await self._backend.status(timeout=timeout)

    # Writing.

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Set ``key`` and return the revision; ``ttl`` is its time to live in seconds."""
        return await self._write(key, value, Operation.PUT, None, ttl, timeout)

    async def put_many(
        self,
        values: Mapping[str, bytes],
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> dict[str, int]:
        """Set many keys, pipelined; returns their revisions.

        Not all or nothing (``transaction`` is): if some were refused, the first refusal is raised
        after all answers arrived.
        """
        self._check_writable()
        if not isinstance(values, Mapping):
            raise TypeError(f"values={values!r}: expected a mapping of keys to bytes")
        entries = [
            (self._coding.key(key), self._coding.value(key, value))
            for key, value in values.items()
        ]
        lives = to_time_to_live(ttl)
        revisions = await self._backend.put_many(entries, Operation.PUT, lives, timeout)
        return dict(zip(values, revisions, strict=True))

    async def create(
        self,
        key: str,
        value: bytes,
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Set ``key`` only if it has no value (never set, deleted or purged).

        Raises KeyExists with the current revision.
        """
        self._check_writable()
        stored = self._coding.key(key), self._coding.value(key, value)
        try:
            return await create_key(self._backend, key, stored, to_time_to_live(ttl), timeout)
        except ApiError as error:
            error.about = about_key(self.bucket, key)
            raise

    async def update(
        self,
        key: str,
        value: bytes,
        last: int,
        *,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Set ``key`` only if its latest revision is ``last``; WrongLastSequence otherwise."""
        if last is None:
            raise TypeError("last=None: update requires a revision; put does not")
        return await self._write(key, value, Operation.PUT, last, ttl, timeout)

    async def delete(
        self, key: str, *, last: int | None = None, timeout: Timeout | None = None
    ) -> int:
        """Delete ``key`` (wildcards allowed), keeping its history; returns the marker's revision.

        With ``last`` only if that is its latest revision; WrongLastSequence otherwise. For a
        pattern, returns the highest revision, 0 if no key matched.
        """
        return await self._remove(key, Operation.DEL, last, None, timeout)

    async def purge(
        self,
        key: str,
        *,
        last: int | None = None,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Delete ``key`` (wildcards allowed) and its history; a marker stays, for ``ttl``.

        Returns the marker's revision; for a pattern the highest one, 0 if no key matched.
        """
        return await self._remove(key, Operation.PURGE, last, ttl, timeout)

    async def purge_deletes(
        self, *, older_than: float | timedelta = OLDER_THAN, timeout: Timeout | None = None
    ) -> int:
        """Remove deletion markers, and what is left of their keys.

        Markers younger than ``older_than`` seconds stay, so that watchers notice the deletion.
        Returns the number of removed markers.
        """
        self._check_writable()
        return await purge_deletes(self._backend, older_than, timeout)

    def transaction(self, *, timeout: Timeout | None = None) -> Transaction:
        """Write several keys together or not at all; use it with ``async with``."""
        self._check_writable()
        return Transaction(self, self._backend, self._coding, timeout)

    # Built on the calls above: locks, presence, types, replicas.

    def lock(self, key: str, *, owner: str = "", ttl: float | timedelta = LOCK_TTL) -> Lock:
        """A distributed lock; use it with ``async with``. ``token`` is for fencing."""
        self._check_writable()
        self._coding.key(key)
        text(owner, "owner")
        return Lock(self, self._backend, key, owner, call_seconds(ttl, LOCK_TTL, "ttl"))

    def elect(self, key: str, candidate: str, *, ttl: float | timedelta = LOCK_TTL) -> Election:
        """Take part in the election of one leader among the candidates for ``key``."""
        self._check_writable()
        self._coding.key(key)
        text(candidate, "candidate")
        lives = call_seconds(ttl, LOCK_TTL, "ttl")
        return Election(self, self._backend, self._watches, key, candidate, lives)

    def members(self, group: str, *, ttl: float | timedelta = LOCK_TTL) -> Members:
        """The members of ``group``, which announce themselves every few seconds."""
        return Members(self, self._watches, group, call_seconds(ttl, LOCK_TTL, "ttl"))

    def typed(self, kind: type[T]) -> TypedKeyValue[T]:
        """The same bucket with values of one type, stored as JSON."""
        return TypedKeyValue(self, self._watches, self._coding, kind)

    @opens
    async def replica(
        self, *filters: str, max_bytes: int = MEMORY_MAX, timeout: Timeout | None = None
    ) -> KeyValueReplica:
        """Keep a copy of the values in memory, updated; returns when it is complete.

        ``timeout`` limits the wait for each part. Above ``max_bytes`` it stops: reading then
        raises BufferFull.
        """
        whole(max_bytes, "max_bytes", least=1)
        plan = WatchPlan(filters=self._coding.filters(filters), same_stream=True)
        status = await self._backend.status(timeout=timeout)
        source = self._backend.watch(plan)
        label = f"bucket {self._backend.bucket!r}"
        copy = LocalCopy(
            source,
            label,
            filters=plan.filters,
            max_bytes=max_bytes,
            ttl_ns=to_wire(status.config).ttl,
            server_time_ns=to_wire(status.info).ts if status.info is not None else 0,
        )
        await copy.start(self._backend.seconds(timeout))
        return KeyValueReplica(self, self._backend, self._coding, copy)

    # The handle and the bucket.

    async def destroy(self, *, timeout: Timeout | None = None) -> None:
        """Remove the bucket and all data; the handle cannot be used afterwards."""
        self._check_writable()
        await self.close()
        await self._backend.destroy(timeout=timeout)

    def read_only(self) -> "KeyValue":
        """A handle to the same bucket that refuses writes."""
        keys, values = self._codecs
        return KeyValue(self._backend, key_codec=keys, value_codec=values, read_only=True)

    async def close(self) -> None:
        """End the watches of this handle; the bucket stays."""
        await self._watches.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Private parts.

    async def _write(
        self,
        key: str,
        value: bytes,
        operation: Operation,
        expected: int | None,
        ttl: TimeToLive | None,
        timeout: Timeout | None,
    ) -> int:
        self._check_writable()
        if expected is not None:
            whole(expected, "last")
        data = self._coding.value(key, value) if operation is Operation.PUT else b""
        stored = self._coding.key(key)
        try:
            return await self._backend.put(
                stored, data, operation, expected, to_time_to_live(ttl), timeout
            )
        except ApiError as error:
            # The key as the caller wrote it: a backend knows only the encoded key.
            error.about = about_key(self.bucket, key)
            raise

    async def _remove(
        self,
        key: str,
        operation: Operation,
        last: int | None,
        ttl: TimeToLive | None,
        timeout: Timeout | None,
    ) -> int:
        pattern = self._coding.pattern(key)
        if pattern is None:
            return await self._write(key, b"", operation, last, ttl, timeout)
        self._check_writable()
        if last is not None:
            raise ValueError(
                f"last={last} applies to one key, but {key!r} is a pattern: omit it, or name a key"
            )
        found = await stored_keys(self._backend, (pattern,), timeout)
        entries = [(each, b"") for each in found]
        lives = to_time_to_live(ttl)
        return max(await self._backend.put_many(entries, operation, lives, timeout), default=0)

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnly(
                f"this handle to bucket {self.bucket!r} is read-only: open the bucket without "
                "read_only, or do not use read_only()"
            )

    def __repr__(self) -> str:
        return f"KeyValue({self.bucket!r})"
