"""Streams of other servers, as the engine sees them: what it asks for, and what it gets.

The engine never waits. It opens a ``Feed`` for each copy, says from where, takes chunks when the
feed has some, and is woken by the callable it gave when something changed: a chunk came, the
connection broke or is back, the stream was found, is gone, or was made again. Whatever implements
this (``jetspark.replica`` over the client) runs on the loop of the server and keeps what waits to
be taken bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from jetspark.api.stream import ExternalStream, StreamConfig

_API_START: Final = "$JS."
_API_END: Final = ".API"


class OriginState(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader of a remote stream last said of it.

    ``created_ns`` tells a stream from another one that had its name before.
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

    ``through``: nothing up to this sequence will come any more; at least the last sequence, more
    when messages after it are deleted. ``size`` is that of headers and payloads.
    """

    __slots__ = ("headers", "payloads", "sequences", "size", "subjects", "through", "times")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.times: list[int] = []
        self.subjects: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.through: int = 0
        self.size: int = 0

    def __len__(self) -> int:
        return len(self.sequences)

    def extend(self, other: Chunk) -> None:
        """Add the messages that come next."""
        self.sequences += other.sequences
        self.times += other.times
        self.subjects += other.subjects
        self.headers += other.headers
        self.payloads += other.payloads
        self.through = max(self.through, other.through)
        self.size += other.size

    def drop_first(self, count: int) -> None:
        """Leave out messages that are not wanted."""
        for column in (self.sequences, self.times, self.subjects, self.headers, self.payloads):
            del column[:count]


NOTHING: Final = Newest()


class Feed(Protocol):
    """One remote stream as one copy reads it."""

    @property
    def origin(self) -> OriginState | None:
        """What it is; None until the remote answered, and while there is none of that name."""

    @property
    def error(self) -> bytes:
        """What is wrong, as the body of an error (errors/bodies.py); empty: nothing."""

    @property
    def heard_ns(self) -> int:
        """When the remote last said anything about the stream, in engine time; 0: never."""

    @property
    def lag(self) -> int:
        """What the remote has and ``take`` has not given out, as far as is known."""

    @property
    def parted(self) -> bool:
        """Whether the stream has other messages under sequences that were copied from it.

        So it is when it was restored from an older copy of its store, for example.
        """

    def start(self, seq: int, time_ns: int = 0, newest: Newest = NOTHING) -> None:
        """Read from a sequence on, or from a time when that is not 0; forget what was read.

        ``newest`` is what the copy has, to be compared with what the stream has.

        For the stream that ``origin`` describes now: when it is made again, nothing comes until
        this is called again.
        """

    def take(self) -> Chunk | None:
        """The next chunk, if there is one; reading goes on when there is room."""

    def stored(self, seq: int) -> None:
        """Everything up to a sequence is durable here: an origin that keeps it may let it go."""

    def close(self, *, for_good: bool) -> None:
        """Read no more; ``for_good``: the copy is gone, so nothing of it stays at the remote."""


class Upstream(Protocol):
    """A remote server: one connection for all copies of its streams."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""

    @property
    def trouble(self) -> str:
        """Why there is none; empty while there is one, or nothing needed it."""

    @property
    def copies(self) -> int:
        """How many copies read from there."""

    def open(
        self,
        stream: str,
        filters: Sequence[bytes],
        reader: str,
        woken: Callable[[], None],
        *,
        takes: bool,
    ) -> Feed:
        """Begin to find out about a stream.

        ``filters`` empty: all subjects. ``reader`` names the copy, uniquely on this server.
        ``takes``: it may be a stream that loses what is copied from it (interest and work-queue
        retention); otherwise such a stream is not read, and ``error`` of the feed says why.
        """

    async def close(self) -> None:
        """End all feeds and the connection."""


class Upstreams(Protocol):
    """The remotes that an account may copy from, by name."""

    def names(self) -> list[str]:
        """Their names, sorted."""

    def find(self, name: str) -> Upstream | None:
        """The remote of that name; it is connected to when a first feed is opened."""

    def takes(self, name: str) -> bool:
        """Whether copies may take messages away from it, too."""


class NoUpstreams:
    """A server without remotes."""

    def names(self) -> list[str]:
        """There are none."""
        return []

    def find(self, _name: str) -> Upstream | None:
        """There is none."""
        return None

    def takes(self, _name: str) -> bool:
        """There is nothing to take."""
        return False


def remote_name(external: ExternalStream) -> str:
    """The remote that ``external.api`` chooses (``$JS.<remote>.API``); empty if it does not."""
    api = external.api.removesuffix(".>").rstrip(".")
    if not (api.startswith(_API_START) and api.endswith(_API_END)):
        return ""
    name = api[len(_API_START) : -len(_API_END)]
    return "" if "." in name else name
