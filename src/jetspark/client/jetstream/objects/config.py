"""What an object store is made of, to and from the configuration of its stream (ADR-20)."""

from typing import Final

import msgspec

from jetspark.api.enums import Compression, Discard, Storage
from jetspark.api.stream import Placement, StreamConfig, StreamSource
from jetspark.client.jetstream.kv.config import check_bucket
from jetspark.units import ByteCount, Nanoseconds, minutes

STREAM_PREFIX: Final = "OBJ_"
BATCHED_LEVEL: Final = 4  # decisions.md, Buckets that our client creates
DUPLICATE_WINDOW: Final = minutes(2)


class ObjectStoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of an object store; ``ttl`` 0 keeps objects for ever."""

    bucket: str
    description: str = ""
    ttl: Nanoseconds = Nanoseconds(0)
    max_bytes: ByteCount = ByteCount(-1)
    storage: Storage = Storage.FILE
    replicas: int = 1
    placement: Placement | None = None
    mirror: StreamSource | None = None
    compression: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


def object_stream_name(bucket: str) -> str:
    """The stream of an object store."""
    return STREAM_PREFIX + check_bucket(bucket)


def to_stream_config(config: ObjectStoreConfig, level: int) -> StreamConfig:
    """The stream of an object store, for a server of this API level."""
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
        max_bytes=config.max_bytes or ByteCount(-1),
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


def from_stream_config(config: StreamConfig) -> ObjectStoreConfig:
    """What the stream says about the object store."""
    return ObjectStoreConfig(
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
