"""Streams of other servers: the interface between the engine and its feeds.

The engine never waits. It opens a ``Feed`` for each copy with a start, takes chunks when the feed
has some, and is notified through a callback when something changed: a chunk arrived, the
connection was lost or restored, the stream was found, deleted, or created again. The
implementation (``jetspark.replica`` over the client) runs on the loop of the server and limits how
much waits to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from jetspark.api.stream import ExternalStream, StreamConfig

_API_START: Final = "$JS."
_API_END: Final = ".API"


class OriginState(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader of a remote stream last reported.

    ``created_ns`` distinguishes a stream from an earlier one of the same name.
    """

    config: StreamConfig
    created_ns: int
    first_seq: int
    last_seq: int


class Newest(NamedTuple):
    """The newest message that a copy has of its origin; sequence 0: none is known.

    Nothing up to that sequence was younger than ``time_ns``.
    """

    seq: int = 0
    time_ns: int = 0


class Chunk:
    """Messages of one remote stream in the order of their sequences, as columns.

    ``through``: nothing up to this sequence follows; at least the last sequence, more if messages
    after it are deleted. ``size`` is that of headers and payloads.
    """

    __slots__ = ("headers", "payloads", "sequences", "size", "subjects", "through", "times")

    def __init__(self, through: int = 0) -> None:
        self.sequences: list[int] = []
        self.times: list[int] = []
        self.subjects: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.through: int = through
        self.size: int = 0

    def finish(self, through: int) -> None:
        """Note that all columns are filled, and up to which sequence nothing follows."""
        self.through = through
        self.size = sum(map(len, self.payloads)) + sum(map(len, self.headers))

    def __len__(self) -> int:
        return len(self.sequences)

    def extend(self, other: Chunk) -> None:
        """Append the next messages."""
        self.sequences += other.sequences
        self.times += other.times
        self.subjects += other.subjects
        self.headers += other.headers
        self.payloads += other.payloads
        self.through = max(self.through, other.through)
        self.size += other.size

    def drop_first(self, count: int) -> None:
        """Drop unwanted messages."""
        for column in (self.sequences, self.times, self.subjects, self.headers, self.payloads):
            del column[:count]


NOTHING: Final = Newest()


class Feed(Protocol):
    """One remote stream as one copy reads it."""

    @property
    def origin(self) -> OriginState | None:
        """Its state; None until the remote has answered, and while the stream does not exist."""

    @property
    def error(self) -> bytes:
        """What is wrong, as the body of an error (errors/bodies.py); empty: nothing."""

    @property
    def contact_ns(self) -> int:
        """When anything was last received about the stream, in engine time; 0: never."""

    @property
    def lag(self) -> int:
        """What the remote has and ``take`` has not returned, as far as known."""

    @property
    def diverged(self) -> bool:
        """Whether the stream has other messages under sequences that were copied from it.

        For example because it was restored from an older copy of its store.
        """

    def start(self, seq: int, time_ns: int = 0, newest: Newest = NOTHING) -> None:
        """Read from a sequence on, or from a time if that is not 0; forget what was read.

        ``newest`` is what the copy has, to be compared with what the stream has.

        For the stream that ``origin`` describes now: after it was created again, nothing arrives
        until this is called again.
        """

    def take(self) -> Chunk | None:
        """Return the next chunk, if any; reading continues when there is room."""

    def stored(self, seq: int) -> None:
        """Note that everything up to a sequence is durable here: the origin may remove it."""

    def close(self, *, for_good: bool) -> None:
        """Stop reading; ``for_good``: the copy was deleted, so remove its consumer as well."""


class Upstream(Protocol):
    """A remote server: one connection for all copies of its streams."""

    @property
    def connected(self) -> bool:
        """Whether it is connected."""

    @property
    def trouble(self) -> str:
        """Why it is not connected; empty if it is, or no copy needs it."""

    @property
    def copies(self) -> int:
        """The number of copies that read from it."""

    def open(
        self,
        stream: str,
        filters: Sequence[bytes],
        reader: str,
        woken: Callable[[], None],
        *,
        takes: bool,
    ) -> Feed:
        """Start to find out about a stream.

        ``filters`` empty: all subjects. ``reader`` names the copy, uniquely on this server.
        ``takes``: the stream may be one that removes what is copied from it (interest and
        work-queue retention); otherwise such a stream is not read, and ``error`` of the feed says
        why.
        """

    async def close(self) -> None:
        """End all feeds and the connection."""


class Upstreams(Protocol):
    """The remotes that an account may copy from, by name."""

    def names(self) -> list[str]:
        """Return their names, sorted."""

    def find(self, name: str) -> Upstream | None:
        """Return the remote of that name; it connects when the first feed is opened."""

    def takes(self, name: str) -> bool:
        """Return whether copies may also remove messages from it."""


class NoUpstreams:
    """A server without remotes."""

    def names(self) -> list[str]:
        """Return no names."""
        return []

    def find(self, _name: str) -> Upstream | None:
        """Return None."""
        return None

    def takes(self, _name: str) -> bool:
        """Return False."""
        return False


def remote_name(external: ExternalStream) -> str:
    """Return the remote in ``external.api`` (``$JS.<remote>.API``); empty if there is none."""
    api = external.api.removesuffix(".>").rstrip(".")
    if not (api.startswith(_API_START) and api.endswith(_API_END)):
        return ""
    name = api[len(_API_START) : -len(_API_END)]
    return "" if "." in name else name
