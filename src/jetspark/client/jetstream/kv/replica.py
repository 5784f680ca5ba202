"""A copy of a bucket in memory: ``KeyValue.replica``."""

from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from jetspark.client.jetstream.kv.backend import Backend
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.entry import Entry
from jetspark.client.jetstream.local_copy import LocalCopy
from jetspark.client.required import REQUIRED, D, Required
from jetspark.client.timeouts import Timeout
from jetspark.errors import KeyNotFound

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue


class KeyValueReplica:
    """The values of a bucket, or of a part, in this process, from ``KeyValue.replica``.

    ``get`` and ``items`` send no request and never wait; they show the bucket as of ``revision``.
    Deleting or purging *messages* of the stream is not noticed, as with any watch.
    """

    def __init__(
        self, bucket: "KeyValue", backend: Backend, coding: Coding, copy: LocalCopy
    ) -> None:
        self._bucket = bucket
        self._backend = backend
        self._coding = coding
        self._copy = copy

    @property
    def revision(self) -> int:
        """The highest revision received."""
        return self._copy.revision

    @property
    def memory(self) -> int:
        """Approximate memory of the replica in bytes."""
        return self._copy.memory

    def __len__(self) -> int:
        return len(self._copy)

    @overload
    def get(self, key: str) -> Entry: ...

    @overload
    def get(self, key: str, default: D | Required) -> Entry | D: ...

    # ``default`` may be positional: a default of a keyword-only argument costs 5 % of a call.
    def get(self, key: str, default: D | Required = REQUIRED) -> Entry | D:
        """The value in this replica.

        If there is none, returns ``default`` if given, else raises KeyNotFound.
        """
        stored = self._copy.find(self._coding.lookup(key))
        if stored is None:
            if not isinstance(default, Required):
                return default
            raise KeyNotFound(self._bucket.bucket, key)
        return self._coding.entry(stored)

    def exists(self, key: str) -> bool:
        """Whether ``key`` has a value in this replica."""
        return self._copy.find(self._coding.lookup(key)) is not None

    @overload
    def value(self, key: str) -> bytes | None: ...

    @overload
    def value(self, key: str, default: D) -> bytes | D: ...

    def value(self, key: str, default: object = None) -> object:
        """Just the value, or ``default``: the fastest way to read."""
        stored = self._copy.find(self._coding.lookup(key))
        return default if stored is None else self._coding.open_value(key, stored)

    def items(self) -> dict[str, Entry]:
        """All values, at one revision."""
        entries = map(self._coding.entry, self._copy.all())
        return {entry.key: entry for entry in entries}

    async def get_at(
        self, key: str, min_last_revision: int, *, timeout: Timeout | None = None
    ) -> Entry:
        """The value at ``min_last_revision`` or later.

        Waits half of ``timeout`` for the replica to reach it, then asks the server; at once for a
        key that is not copied.
        """
        seconds = self._backend.seconds(timeout) / 2
        mine = self._copy.covers(self._coding.lookup(key))
        if mine and await self._copy.wait_for(min_last_revision, seconds):
            return self.get(key)
        return await self._bucket.get(key, min_last_revision=min_last_revision, timeout=seconds)

    async def wait_for(self, revision: int, *, timeout: Timeout | None = None) -> bool:
        """Wait until the replica has reached ``revision``; False on timeout."""
        return await self._copy.wait_for(revision, self._backend.seconds(timeout))

    async def close(self) -> None:
        """Stop following the bucket and free the memory."""
        await self._copy.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"KeyValueReplica({self._bucket.bucket!r}, revision={self.revision})"
