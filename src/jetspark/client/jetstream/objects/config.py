"""Configuration of an object store, to and from that of its stream (ADR-20)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal, TypedDict, Unpack

import msgspec

from jetspark.api import stream as wire
from jetspark.api.base import Duration, Int64
from jetspark.api.enums import Compression, Discard, Storage
from jetspark.api.stream import StreamConfig
from jetspark.client.jetstream.kv.config import check_bucket
from jetspark.client.models.base import Model, from_wire, to_wire
from jetspark.client.models.stream import Placement, StreamSource
from jetspark.units import ByteCount, Nanoseconds, minutes

STREAM_PREFIX: Final = "OBJ_"
BATCHED_LEVEL: Final = 4  # decisions.md, Buckets that our client creates
DUPLICATE_WINDOW: Final = minutes(2)


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an `ObjectStoreConfig`: durations in nanoseconds, as in its stream."""

    bucket: str
    description: str = ""
    ttl: Duration = Nanoseconds(0)
    max_bytes: Int64 = -1
    storage: Storage = Storage.FILE
    replicas: Int64 = 1
    placement: wire.Placement | None = None
    mirror: wire.StreamSource | None = None
    compression: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class ObjectStoreOptions(TypedDict, total=False):
    """The settings of an object store.

    ``ttl`` is seconds or a ``timedelta``; 0 keeps objects forever. ``mirror`` names the store to
    copy.
    """

    description: str
    ttl: float | timedelta
    max_bytes: int
    storage: Storage | Literal["file", "memory"]
    replicas: int
    placement: Placement | None
    mirror: StreamSource | str | None
    compression: bool
    metadata: Mapping[str, str]


class ObjectStoreConfig(Model[StoreSettings], wire=StoreSettings):
    """Configuration of an object store: its name and `ObjectStoreOptions`."""

    __slots__ = ()

    bucket: str
    description: str
    ttl: float
    max_bytes: int
    storage: Storage
    replicas: int
    placement: Placement | None
    mirror: StreamSource | None
    compression: bool
    metadata: dict[str, str]

    def __init__(self, bucket: str, **options: Unpack[ObjectStoreOptions]) -> None:
        self._fill({"bucket": bucket, **options})

    def replace(
        self, *, bucket: str | None = None, **changes: Unpack[ObjectStoreOptions]
    ) -> "ObjectStoreConfig":
        """A copy of this configuration with the given changes."""
        return self._replaced(changes if bucket is None else {"bucket": bucket, **changes})


def store_config(
    config: ObjectStoreConfig | str, options: ObjectStoreOptions
) -> ObjectStoreConfig:
    """A name with options, or a copy of a configuration with the options applied."""
    if isinstance(config, str):
        return ObjectStoreConfig(config, **options)
    if not isinstance(config, ObjectStoreConfig):
        raise TypeError(
            f"{config!r}: expected the name of a store or a jetspark.ObjectStoreConfig"
        )
    return config.replace(**options) if options else config


def object_stream_name(bucket: str) -> str:
    """The stream of an object store."""
    return STREAM_PREFIX + check_bucket(bucket)


def to_stream_config(public: ObjectStoreConfig, level: int) -> StreamConfig:
    """The stream of an object store, for a server of this API level."""
    config = to_wire(public)
    source = config.mirror
    if source is not None and not source.name.startswith(STREAM_PREFIX):
        source = msgspec.structs.replace(source, name=object_stream_name(source.name))
    own = (f"$O.{config.bucket}.C.>", f"$O.{config.bucket}.M.>")
    return StreamConfig(
        name=object_stream_name(config.bucket),
        description=config.description,
        subjects=own if source is None else (),
        mirror=source,
        mirror_direct=source is not None,
        max_age=config.ttl,
        max_bytes=ByteCount(config.max_bytes or -1),
        storage=config.storage,
        num_replicas=config.replicas,
        placement=config.placement,
        discard=Discard.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        duplicate_window=min(config.ttl or DUPLICATE_WINDOW, DUPLICATE_WINDOW),
        compression=Compression.S2 if config.compression else Compression.NONE,
        allow_batched=level >= BATCHED_LEVEL and source is None,
        metadata=config.metadata,
    )


def is_object_store(config: StreamConfig) -> bool:
    """Whether a stream is an object store, or the mirror of one."""
    if not config.name.startswith(STREAM_PREFIX):
        return False
    mirror = config.mirror
    if mirror is not None:
        return mirror.name.startswith(STREAM_PREFIX)
    return f"$O.{config.name.removeprefix(STREAM_PREFIX)}.M.>" in config.subjects


def changed_stream(found: StreamConfig, wanted: ObjectStoreConfig) -> StreamConfig:
    """The stream of a store with the changes; other settings of the stream stay."""
    # The level affects one field only, which does not change.
    before = to_stream_config(from_stream_config(found), 0)
    after = to_stream_config(wanted, 0)
    return msgspec.structs.replace(
        found,
        **{
            field: getattr(after, field)
            for field in StreamConfig.__struct_fields__
            if getattr(after, field) != getattr(before, field)
        },
    )


def from_stream_config(config: StreamConfig) -> ObjectStoreConfig:
    """The configuration of an object store, from its stream."""
    settings = StoreSettings(
        bucket=config.name.removeprefix(STREAM_PREFIX),
        description=config.description,
        ttl=config.max_age,
        max_bytes=config.max_bytes,
        storage=config.storage,
        replicas=config.num_replicas,
        placement=config.placement,
        mirror=config.mirror,
        compression=config.compression is not Compression.NONE,
        metadata={
            key: text
            for key, text in config.metadata.items()
            if not key.startswith(("_nats.", "_jetspark."))
        },
    )
    return from_wire(ObjectStoreConfig, settings)
