"""The calls of ``KeyValue`` that are built on the others: locks, presence, types, replicas."""

# Every call has a timeout argument (design.md, "The client").

from typing import TYPE_CHECKING, Final, cast

from jetspark.client.jetstream.kv.backend import Backend, WatchPlan
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.lock import Election, Lock
from jetspark.client.jetstream.kv.members import Members
from jetspark.client.jetstream.kv.replica import KeyValueReplica
from jetspark.client.jetstream.kv.typed import T, TypedKeyValue
from jetspark.client.jetstream.local_copy import MEMORY_MAX, LocalCopy

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

LOCK_TTL: Final = 10.0


class CoordinationCalls:
    """Part of ``KeyValue``."""

    _backend: Backend
    _coding: Coding

    def lock(self, key: str, *, owner: str = "", ttl: float = LOCK_TTL) -> Lock:
        """A lock that others respect; use it with ``async with``. ``token`` is for fencing."""
        self._whole.check_writable()
        return Lock(self._whole, key, owner, ttl)

    def elect(self, key: str, candidate: str, *, ttl: float = LOCK_TTL) -> Election:
        """Take part in the election of one leader among the candidates for ``key``."""
        self._whole.check_writable()
        return Election(self._whole, key, candidate, ttl)

    def members(self, group: str, *, ttl: float = LOCK_TTL) -> Members:
        """Who is there: members of ``group`` that announce themselves every few seconds."""
        return Members(self._whole, group, ttl)

    def typed(self, kind: type[T]) -> TypedKeyValue[T]:
        """The same bucket with values of one type, stored as JSON."""
        return TypedKeyValue(self._whole, kind)

    async def replica(
        self, *filters: str, max_bytes: int = MEMORY_MAX, timeout: float | None = None
    ) -> KeyValueReplica:
        """A copy of the values in memory, kept current; returns when it is complete.

        ``timeout`` bounds the wait for each part. Beyond ``max_bytes`` it gives up: reading then
        raises BufferFull.
        """
        plan = WatchPlan(filters=self._coding.filters(filters), same_stream=True)
        status = await self._backend.status(timeout=timeout)
        source = self._backend.watch(plan)
        label = f"bucket {self._backend.bucket!r}"
        copy = LocalCopy(
            source,
            label,
            filters=plan.filters,
            max_bytes=max_bytes,
            ttl_ns=status.ttl,
            server_time_ns=status.info.ts if status.info is not None else 0,
        )
        await copy.start(self._backend.seconds(timeout))
        return KeyValueReplica(self._whole, self._coding, copy)

    @property
    def _whole(self) -> "KeyValue":
        return cast("KeyValue", self)
