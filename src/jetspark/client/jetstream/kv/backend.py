"""What a bucket needs of whatever stores it; JetStream is the one backend there is (ADR-8).

Keys are already encoded by the key codec, values by the value codec. docs/client/backends.md has
another one, whole.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Literal, Protocol

import msgspec

from jetspark.client.jetstream.kv.entry import BucketStatus, Operation
from jetspark.client.timeouts import Timeout, TimeToLive

# How long a value lives: seconds, for ever, or as long as the bucket says.
SecondsToLive = float | Literal["never"] | None


def to_time_to_live(given: TimeToLive | None) -> SecondsToLive:
    """What a backend is told: a timedelta in seconds."""
    return given.total_seconds() if isinstance(given, timedelta) else given


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One stored value or marker, by position: receive paths make many."""

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
    """What a watch delivers first, and in which form."""

    filters: tuple[str, ...] = (">",)
    start: Literal["last", "all", "new"] = "last"
    resume_from: int = 0
    meta_only: bool = False
    min_last_revision: int = 0
    # Entries of a plain stream: nothing in their headers means a deletion.
    plain: bool = False
    # Whether a stream that is deleted and made anew ends the watch: StreamNotFound.
    same_stream: bool = False


class WatchSource(Protocol):
    """The entries of a watch, in order."""

    @property
    def initial_done(self) -> bool:
        """Whether everything that was there when the watch began has been handed out."""

    async def start(self, *, timeout: Timeout | None = None) -> None:
        """Begin within ``timeout`` seconds; raises what the store says against it."""

    async def next_chunk(self, count: int) -> list[Stored]:
        """Wait and return up to ``count`` entries.

        Empty only when ``initial_done`` has become true without any, or behind ``stop``, which
        ends the wait. A caller that is cancelled must not lose entries.
        """

    async def stop(self) -> None:
        """End it."""


class Backend(Protocol):
    """A bucket of some store."""

    @property
    def bucket(self) -> str:
        """The name of the bucket."""

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or the default."""

    def report(self, error: Exception) -> None:
        """Tell the user of an error that nobody waits for."""

    async def get(
        self, key: str, *, revision: int, min_last_revision: int, timeout: Timeout | None
    ) -> Stored | None:
        """The latest entry of a key, or the one of a revision; None when there is none.

        A mark of deletion is an entry too. MinLastSequence when the store does not come as far
        as ``min_last_revision`` in time.
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
        """The latest entry of every key that matches, as of one moment; marks too."""

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

        WrongLastSequence otherwise, ``WrongLastSequence(400, 10071, "wrong last sequence: 5")``
        for one that is at 5. Returns the revision, which is larger than all before it, of any
        key. A PURGE removes the earlier entries of the key. NotSupported when the store has no
        ``ttl``.
        """

    async def put_many(
        self,
        entries: Sequence[tuple[str, bytes]],
        operation: Operation,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> list[int]:
        """Write many values or markers, in any way that is fast; their revisions in order."""

    async def put_together(
        self,
        entries: Sequence[tuple[str, bytes, Operation, int | None, SecondsToLive]],
        *,
        timeout: Timeout | None,
    ) -> list[int]:
        """Write all or nothing, as ``put`` each; their revisions. NotSupported if it cannot."""

    def watch(self, plan: WatchPlan) -> WatchSource:
        """Follow the entries of keys; nothing happens before ``start``."""

    async def erase(self, key: str, *, below: int, timeout: Timeout | None) -> None:
        """Remove the entries of a key with revisions below this one from the store."""

    async def status(self, *, timeout: Timeout | None) -> BucketStatus:
        """Counts and configuration; BucketNotFound when the bucket is gone."""

    async def destroy(self, *, timeout: Timeout | None) -> None:
        """Remove the bucket and all data; BucketNotFound when it is gone already."""
