"""Several keys written together or not at all: an atomic batch with expected revisions."""

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from jetspark.client.arguments import whole
from jetspark.client.jetstream.kv.backend import (
    Backend,
    SecondsToLive,
    to_time_to_live,
)
from jetspark.client.jetstream.kv.coding import Coding, check_text
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.timeouts import Timeout, TimeToLive
from jetspark.errors import AlreadyEnded, InvalidState, KeyNotFound, WrongLastSequence

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

NOTED_MAX: Final = 10  # keys named in a conflict


class Transaction:
    """Writes several keys together or not at all, from ``KeyValue.transaction``.

    ``async with kv.transaction() as tx:`` commits at a clean exit; an exception writes nothing.
    ``get`` records the revision that it read, and a later write of that key expects it: if another
    client changed the key meanwhile, the commit raises WrongLastSequence and nothing is written. A
    key that is only read is not guarded: write it too (with its current value) where that matters.
    A key can be written once per transaction.
    """

    def __init__(
        self,
        bucket: "KeyValue",
        backend: Backend,
        coding: Coding,
        timeout: Timeout | None,
    ) -> None:
        self._bucket = bucket
        self._backend = backend
        self._coding = coding
        self._timeout = timeout
        self._writes: dict[str, tuple[str, bytes, Operation, int | None, SecondsToLive]] = {}
        self._seen: dict[str, int] = {}
        self._revisions: dict[str, int] | None = None

    @property
    def revisions(self) -> dict[str, int]:
        """The revisions of the written keys; InvalidState before the commit."""
        if self._revisions is None:
            raise InvalidState("the transaction was not committed, so there are no revisions")
        return self._revisions

    async def get(self, key: str) -> Entry:
        """Read a key; writing it afterwards expects this revision. Raises KeyNotFound."""
        try:
            entry = await self._bucket.get(key, timeout=self._timeout)
        except KeyNotFound as error:
            self._seen[key] = error.revision
            raise
        self._seen[key] = entry.revision
        return entry

    def put(
        self, key: str, value: bytes, *, last: int | None = None, ttl: TimeToLive | None = None
    ) -> None:
        """Set a key; ``last`` is the revision that it must have."""
        self._write(key, self._coding.value(key, value), Operation.PUT, last, ttl)

    def create(self, key: str, value: bytes, *, ttl: TimeToLive | None = None) -> None:
        """Set a key that must never have had a value (a deleted one: ``get`` it first)."""
        self._write(
            key, self._coding.value(key, value), Operation.PUT, self._seen.get(key, 0), ttl
        )

    def update(self, key: str, value: bytes, last: int, *, ttl: TimeToLive | None = None) -> None:
        """Set a key that must have the revision ``last``."""
        self._write(key, self._coding.value(key, value), Operation.PUT, last, ttl)

    def delete(self, key: str, *, last: int | None = None) -> None:
        """Delete a key, keeping its history."""
        self._write(key, b"", Operation.DEL, last, None)

    def purge(self, key: str, *, last: int | None = None, ttl: TimeToLive | None = None) -> None:
        """Delete a key with its history."""
        self._write(key, b"", Operation.PURGE, last, ttl)

    async def commit(self) -> dict[str, int]:
        """Write everything; returns the revisions. ``async with`` calls it."""
        if self._revisions is not None:
            raise AlreadyEnded("the transaction was committed: create a new one")
        if not self._writes:
            self._revisions = {}
            return {}
        try:
            done = await self._backend.put_together(
                list(self._writes.values()), timeout=self._timeout
            )
        except WrongLastSequence as error:
            error.add_note(self._expectations())
            raise
        self._revisions = dict(zip(self._writes, done, strict=True))
        return self._revisions

    def _expectations(self) -> str:
        """The expected revisions: servers do not say which key conflicted."""
        expected = [
            f"{key!r} at {revision}" if revision else f"{key!r} without a value"
            for key, (_, _, _, revision, _) in self._writes.items()
            if revision is not None
        ]
        more = f" and {len(expected) - NOTED_MAX} more" if len(expected) > NOTED_MAX else ""
        return f"nothing was written; expected revisions: {', '.join(expected[:NOTED_MAX])}{more}"

    def _write(
        self, key: str, data: bytes, operation: Operation, last: int | None, ttl: TimeToLive | None
    ) -> None:
        if self._revisions is not None:
            raise AlreadyEnded("the transaction was committed: create a new one")
        check_text(key)
        if key in self._writes:
            raise ValueError(f"key {key!r} is written twice in one transaction: write it once")
        expected = self._seen.get(key) if last is None else whole(last, "last")
        lives = to_time_to_live(ttl)
        self._writes[key] = (self._coding.key(key), data, operation, expected, lives)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._revisions is None:
            await self.commit()

    def __repr__(self) -> str:
        return f"Transaction({self._bucket.bucket!r}, {len(self._writes)} writes)"
