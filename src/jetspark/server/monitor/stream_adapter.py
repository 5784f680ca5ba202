"""The engine's streams as monitoring sees them."""

from collections.abc import Collection, Sequence

from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerInfo
from jetspark.api.stream import StreamConfig, StreamSourceInfo, StreamState
from jetspark.engine.engine import Engine
from jetspark.engine.stream.stream import Stream
from jetspark.server.config.accounts import AccountJetStream
from jetspark.server.monitor.store_view import StreamStore
from jetspark.server.monitor.tally import ApiTally


class StreamAdapter:
    """One stream of an engine; a `StreamView`."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def config(self) -> StreamConfig:
        """Its configuration."""
        return self._stream.config

    @property
    def created_ns(self) -> int:
        """When it was made."""
        return self._stream.created_ns

    @property
    def write_error(self) -> str:
        """Why it takes no writes; empty while it does."""
        return "the stream is read-only after a disk error" if self._stream.log.read_only else ""

    def state(self) -> StreamState:
        """What it durably holds."""
        index = self._stream.log.index
        holes = index.last_seq - index.first_seq + 1 - index.messages if index.messages else 0
        return StreamState(
            messages=index.messages,
            bytes=index.bytes,
            first_seq=index.first_seq,
            first_ts=Timestamp(index.first_time),
            last_seq=index.last_seq,
            last_ts=Timestamp(index.last_time),
            num_subjects=index.subject_count,
            num_deleted=holes,
        )

    def consumers(self, now_ns: int) -> Sequence[ConsumerInfo]:
        """Its consumers; this version of the engine has none."""
        del now_ns
        return ()

    def mirror(self) -> StreamSourceInfo | None:
        """Mirrors are not there yet."""
        return None

    def sources(self) -> tuple[StreamSourceInfo, ...]:
        """Sources are not there yet."""
        return ()

    def store(self) -> StreamStore:
        """What it is on disk, as far as its log says it."""
        log = self._stream.log
        return StreamStore(
            segments=len(log.index.segments),
            staged_position=log.staged_position,
            durable_position=log.durable_position,
            cache_bytes=log.cache.size,
            cache_limit=log.cache.budget,
            read_only=log.read_only,
        )


class EngineAdapter:
    """JetStream of one account; a `JetStreamAccountView`."""

    def __init__(
        self, name: str, engine: Engine, limits: AccountJetStream | None, api: ApiTally
    ) -> None:
        self.name = name
        self.max_memory = int(limits.max_memory) if limits is not None else -1
        self.max_storage = int(limits.max_store) if limits is not None else -1
        self.api_total = api.total
        self.api_errors = api.errors
        self._engine = engine

    def streams(self) -> Collection[StreamAdapter]:
        """Its streams."""
        return [StreamAdapter(stream) for stream in self._engine.streams.values()]
