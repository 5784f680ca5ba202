"""A remote that does what a test says, for engines that copy from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jetspark.api.stream import StreamConfig
from jetspark.engine.replicate.upstream import NOTHING, Chunk, Newest, OriginState


class ScriptedFeed:
    """What a remote says of one stream; ``started`` is from where it was asked to read."""

    def __init__(self, stream: str, filters: Sequence[bytes], woken: Callable[[], None]) -> None:
        self.origin: OriginState | None = None
        self.error = b""
        self.contact_ns = 0
        self.diverged = False
        self.newest = NOTHING
        self.lag = 0
        self.stream = stream
        self.filters = list(filters)
        self.woken = woken
        self.started: list[tuple[int, int]] = []
        self.waiting: list[Chunk] = []
        self.stored_up_to = 0
        self.closed: bool | None = None

    def start(self, seq: int, time_ns: int = 0, newest: Newest = NOTHING) -> None:
        self.newest = newest
        self.started.append((seq, time_ns))
        self.waiting.clear()

    def take(self) -> Chunk | None:
        return self.waiting.pop(0) if self.waiting else None

    def stored(self, seq: int) -> None:
        self.stored_up_to = seq

    def close(self, *, for_good: bool) -> None:
        self.closed = for_good

    # What the test says ------------------------------------------------------------------------

    def found(self, now: int, created_ns: int = 1, last_seq: int = 0, **config: Any) -> None:
        """The remote tells of the stream."""
        wanted = StreamConfig(name=self.stream, **config)
        self.origin = OriginState(
            config=wanted, created_ns=created_ns, first_seq=1, last_seq=last_seq
        )
        self.contact_ns = now
        self.woken()

    def brings(self, *sequences: int, through: int = 0) -> None:
        """Messages come: of subject ``a``, with their sequences as payloads and times."""
        chunk = Chunk()
        for seq in sequences:
            chunk.sequences.append(seq)
            chunk.times.append(seq * 1000)
            chunk.subjects.append(b"a")
            chunk.headers.append(b"")
            chunk.payloads.append(b"%d" % seq)
        chunk.finish(max(through, *sequences, 0))
        self.waiting.append(chunk)
        self.woken()


class ScriptedUpstreams:
    """One remote named ``hub``."""

    connected = True
    trouble = ""
    copies = 0

    def __init__(self) -> None:
        self.feeds: list[ScriptedFeed] = []

    def names(self) -> list[str]:
        return ["hub"]

    def find(self, name: str) -> ScriptedUpstreams | None:
        return self if name == "hub" else None

    def takes(self, _name: str) -> bool:
        return True

    def open(
        self,
        stream: str,
        filters: Sequence[bytes],
        _reader: str,
        woken: Callable[[], None],
        *,
        takes: bool,
    ) -> ScriptedFeed:
        assert takes
        self.feeds.append(ScriptedFeed(stream, filters, woken))
        return self.feeds[-1]

    async def close(self) -> None:
        """Nothing is open."""
