"""What monitoring must know of JetStream. Nothing here may read the disk."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from jetspark.api.consumer import ConsumerInfo
from jetspark.api.stream import StreamConfig, StreamSourceInfo, StreamState
from jetspark.server.monitor.settings_echo import JetStreamEcho
from jetspark.server.monitor.store_view import CommitStats, StreamStore


class StreamView(Protocol):
    """One stream. Nothing here may read the disk: it is asked for all streams at once."""

    @property
    def config(self) -> StreamConfig:
        """Its configuration."""
        ...

    @property
    def created_ns(self) -> int:
        """When it was made."""
        ...

    @property
    def write_error(self) -> str:
        """Why it takes no writes; empty while it does."""
        ...

    @property
    def read_error(self) -> str:
        """What of it cannot be read now, and why; empty while everything can."""
        ...

    def state(self) -> StreamState:
        """What it holds, as STREAM.INFO says it, without lists of subjects or deletes."""
        ...

    def consumers(self, now_ns: int) -> Sequence[ConsumerInfo]:
        """Its consumers, as CONSUMER.INFO says it."""
        ...

    def mirror(self, now_ns: int) -> StreamSourceInfo | None:
        """How far the mirror is, if it is one."""
        ...

    def sources(self, now_ns: int) -> tuple[StreamSourceInfo, ...]:
        """How far its sources are."""
        ...

    def store(self) -> StreamStore:
        """What it is on disk."""
        ...


class JetStreamAccountView(Protocol):
    """JetStream of one account."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def max_memory(self) -> int:
        """What the account may use; -1 for no limit of its own."""
        ...

    @property
    def max_storage(self) -> int:
        """What the account may use; -1 for no limit of its own."""
        ...

    @property
    def api_total(self) -> int:
        """``$JS.API`` requests, counted where they are dispatched; direct gets are none."""
        ...

    @property
    def api_errors(self) -> int:
        """Those that were answered with an error."""
        ...

    def streams(self) -> Collection[StreamView]:
        """Its streams."""
        ...


class LostStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that is on disk and could not be opened."""

    account: str
    stream: str
    reason: str


class LostConsumer(NamedTuple):
    """A consumer whose records are on disk and cannot be used."""

    account: str
    stream: str
    consumer: str
    reason: str


class JetStreamView(Protocol):
    """JetStream of the server."""

    @property
    def echo(self) -> JetStreamEcho:
        """What it was configured to."""
        ...

    @property
    def api_level(self) -> int:
        """What ``$JS.API.INFO`` announces."""
        ...

    @property
    def api_inflight(self) -> int:
        """Requests that wait for something: the disk, a turn, a sequence."""
        ...

    def accounts(self) -> Collection[JetStreamAccountView]:
        """The accounts that have it."""
        ...

    def lost_streams(self) -> Sequence[LostStream]:
        """What could not be opened."""
        ...

    def foreign_entries(self) -> Sequence[str]:
        """What lies between the streams in the store's folder and is none of them."""
        ...

    def lost_consumers(self) -> Sequence[LostConsumer]:
        """Consumers that could not be taken over."""
        ...

    def commits(self) -> CommitStats | None:
        """What the committer did since the start; None if nobody counts it."""
        ...
