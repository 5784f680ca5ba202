"""The interface between a bucket and its store; JetStream is the only backend (ADR-8).

Keys are already encoded by the key codec, values by the value codec. docs/client/backends.md has
the complete code of another one.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Literal, Protocol

import msgspec

from jetspark.client.jetstream.kv.entry import BucketStatus, Operation
from jetspark.client.timeouts import Timeout, TimeToLive

# How long a value lives: seconds, forever, or None for the bucket's setting.
SecondsToLive = float | Literal["never"] | None


def to_time_to_live(given: TimeToLive | None) -> SecondsToLive:
    """The time to live for a backend: a timedelta becomes seconds."""
    return given.total_seconds() if isinstance(given, timedelta) else given


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One stored value or marker, constructed by position: receive paths create many."""

    key: str
    data: bytes
    revision: int
    time_ns: int
    operation: Operation = Operation.PUT
    marker_reason: str = ""
    size: int = 0
    delta: int = 0
    block: bytes = b""


class WatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The initial data of a watch, and the form of its entries."""

    filters: tuple[str, ...] = (">",)
    start: Literal["last", "all", "new"] = "last"
    resume_from: int = 0
    meta_only: bool = False
    min_last_revision: int = 0
    # Entries of a plain stream: no header means a deletion.
    plain: bool = False
    # Whether the watch ends if the stream was deleted and created again: StreamNotFound.
    same_stream: bool = False


class WatchSource(Protocol):
    """The entries of a watch, in order."""

    @property
    def initial_done(self) -> bool:
        """Whether all initial data has been handed out."""

    async def start(self, *, timeout: Timeout | None = None) -> None:
        """Start within ``timeout`` seconds; raises the store's error."""

    async def next_chunk(self, count: int) -> list[Stored]:
        """Wait and return up to ``count`` entries.

        Empty only if ``initial_done`` became true without entries, or after ``stop``, which ends
        the wait. Cancelling the caller must not lose entries.
        """

    async def stop(self) -> None:
        """End the watch."""


class Backend(Protocol):
    """A bucket of some store."""

    @property
    def bucket(self) -> str:
        """The name of the bucket."""

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or the default."""

    def report(self, error: Exception) -> None:
        """Report an error that no caller waits for."""

    async def get(
        self, key: str, *, revision: int, min_last_revision: int, timeout: Timeout | None
    ) -> Stored | None:
        """The latest entry of a key, or that of a revision; None if there is none.

        A deletion marker is an entry too. MinLastSequence if the store does not reach
        ``min_last_revision`` in time.
        """

    def get_many(
        self,
        filters: Sequence[str],
        *,
        at_revision: int,
        at_time_ns: int | None,
        min_last_revision: int,
        timeout: Timeout | None,
    ) -> AsyncGenerator[list[Stored], None]:
        """The latest entry of every matching key, at one point in time, including markers."""

    async def put(
        self,
        key: str,
        data: bytes,
        operation: Operation,
        expected: int | None,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> int:
        """Write a value or marker, if the key's latest revision is ``expected`` (0: none).

        Otherwise raises WrongLastSequence, such as ``WrongLastSequence(400, 10071, "wrong last
        sequence: 5")`` if it is at 5. Returns the revision, which is larger than every revision
        before it, of any key. A PURGE removes the earlier entries of the key. NotSupported if the
        store does not support ``ttl``.
        """

    async def put_many(
        self,
        entries: Sequence[tuple[str, bytes]],
        operation: Operation,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> list[int]:
        """Write many values or markers, in the fastest way; returns their revisions in order."""

    async def put_together(
        self,
        entries: Sequence[tuple[str, bytes, Operation, int | None, SecondsToLive]],
        *,
        timeout: Timeout | None,
    ) -> list[int]:
        """Write all or nothing, each as in ``put``; the revisions. May raise NotSupported."""

    def watch(self, plan: WatchPlan) -> WatchSource:
        """Follow the entries of keys; nothing happens before ``start``."""

    async def erase(self, key: str, *, below: int, timeout: Timeout | None) -> None:
        """Remove the entries of a key below this revision from the store."""

    async def status(self, *, timeout: Timeout | None) -> BucketStatus:
        """Counts and configuration; BucketNotFound if the bucket does not exist."""

    async def destroy(self, *, timeout: Timeout | None) -> None:
        """Remove the bucket and all data; BucketNotFound if it does not exist."""
