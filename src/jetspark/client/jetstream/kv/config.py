"""Bucket configuration, to and from the configuration of its stream (ADR-8, "Buckets")."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal, TypedDict, Unpack

import msgspec

from jetspark.api import stream as wire
from jetspark.api.base import Duration, Int64
from jetspark.api.enums import Compression, Discard, Storage
from jetspark.api.stream import Republish, StreamConfig, SubjectTransform
from jetspark.client.arguments import text
from jetspark.client.models.base import Model, from_wire, to_wire
from jetspark.client.models.stream import Placement, StreamSource
from jetspark.errors import BadName, NotSupported
from jetspark.subjects.tokens import bucket_name_problem, key_filter_problem, key_problem
from jetspark.units import ByteCount, Nanoseconds, milliseconds, minutes, seconds

HISTORY_MAX: Final = 64  # ADR-8: "capped at 64"
KEY_LENGTH_MAX: Final = 3000  # as stored; max_control_line is 4096, with prefixes and an inbox
STREAM_PREFIX: Final = "KV_"
DUPLICATE_WINDOW: Final = minutes(2)
MAX_AGE_MIN: Final = milliseconds(100)  # the minimum that servers accept
# API levels from which servers support these (decisions.md, Buckets that our client creates).
TTL_LEVEL: Final = 1
ATOMIC_LEVEL: Final = 2


class BucketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `KeyValueConfig`: durations in nanoseconds, as in its stream."""

    bucket: str
    description: str = ""
    history: Int64 = 1
    ttl: Duration = Nanoseconds(0)
    max_value_size: Int64 = -1
    max_bytes: Int64 = -1
    storage: Storage = Storage.FILE
    replicas: Int64 = 1
    placement: wire.Placement | None = None
    republish: Republish | None = None
    mirror: wire.StreamSource | None = None
    sources: tuple[wire.StreamSource, ...] = ()
    compression: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    limit_marker_ttl: Duration = Nanoseconds(0)
    allow_key_ttl: bool = True


class KeyValueOptions(TypedDict, total=False):
    """The settings of a bucket.

    ``history`` is the number of values kept per key (1), ``ttl`` how long they are kept (0:
    forever). With ``limit_marker_ttl`` the server stores a marker for this long when a value
    expires, which watchers see. ``allow_key_ttl`` allows a time to live per key (True). ``mirror``
    makes a read-only copy of another bucket, ``sources`` combines others; both name buckets.
    Durations are seconds or ``timedelta``.
    """

    description: str
    history: int
    ttl: float | timedelta
    max_value_size: int
    max_bytes: int
    storage: Storage | Literal["file", "memory"]
    replicas: int
    placement: Placement | None
    republish: Republish | None
    mirror: StreamSource | str | None
    sources: Sequence[StreamSource | str]
    compression: bool
    metadata: Mapping[str, str]
    limit_marker_ttl: float | timedelta
    allow_key_ttl: bool


class KeyValueConfig(Model[BucketSettings], wire=BucketSettings):
    """Configuration of a bucket: its name and `KeyValueOptions`.

    Durations are seconds; reading one returns a float, even if a ``timedelta`` was given.
    """

    __slots__ = ()

    bucket: str
    description: str
    history: int
    ttl: float
    max_value_size: int
    max_bytes: int
    storage: Storage
    replicas: int
    placement: Placement | None
    republish: Republish | None
    mirror: StreamSource | None
    sources: tuple[StreamSource, ...]
    compression: bool
    metadata: dict[str, str]
    limit_marker_ttl: float
    allow_key_ttl: bool

    def __init__(self, bucket: str, **options: Unpack[KeyValueOptions]) -> None:
        self._fill({"bucket": bucket, **options})

    def replace(
        self, *, bucket: str | None = None, **changes: Unpack[KeyValueOptions]
    ) -> "KeyValueConfig":
        """A copy of this configuration with the given changes."""
        return self._replaced(changes if bucket is None else {"bucket": bucket, **changes})


def bucket_config(config: KeyValueConfig | str, options: KeyValueOptions) -> KeyValueConfig:
    """A name with options, or a copy of a configuration with the options applied."""
    if isinstance(config, str):
        return KeyValueConfig(config, **options)
    if not isinstance(config, KeyValueConfig):
        raise TypeError(f"{config!r}: expected the name of a bucket or a jetspark.KeyValueConfig")
    return config.replace(**options) if options else config


def check_bucket(name: str) -> str:
    """Refuse an invalid bucket name."""
    problem = bucket_name_problem(text(name, "bucket"))
    if problem is not None:
        raise BadName("bucket", name, problem)
    return name


def check_key(key: str) -> str:
    """Refuse an invalid key (ADR-8: characters, dots, and ``_kv`` is reserved)."""
    problem = key_problem(key) if len(key) <= KEY_LENGTH_MAX else _length_problem(key)
    if problem is not None:
        raise BadName("key", key, problem)
    return key


def check_filter(pattern: str) -> str:
    """Refuse an invalid key pattern; empty means all (ADR-8, watchers)."""
    if not pattern:
        return ">"
    problem = (
        key_filter_problem(pattern) if len(pattern) <= KEY_LENGTH_MAX else _length_problem(pattern)
    )
    if problem is not None:
        raise BadName("key filter", pattern, problem)
    return pattern


def _length_problem(key: str) -> str:
    return (
        f"it has {len(key)} characters, at most {KEY_LENGTH_MAX} are allowed: servers close the "
        "connection at protocol lines of more than 4096 bytes"
    )


def is_pattern(key: str) -> bool:
    """Whether the key has wildcards."""
    return any(token in {"*", ">"} for token in key.split("."))


def stream_name(bucket: str) -> str:
    """The stream of a bucket."""
    return STREAM_PREFIX + check_bucket(bucket)


def to_stream_config(public: KeyValueConfig, level: int) -> StreamConfig:
    """The stream of a bucket, for a server of this API level."""
    config = to_wire(public)
    name = stream_name(config.bucket)
    if not 1 <= config.history <= HISTORY_MAX:
        raise ValueError(f"history={config.history}: expected 1 to {HISTORY_MAX} values per key")
    if 0 < config.ttl < MAX_AGE_MIN:
        raise ValueError(f"ttl={public.ttl} s: expected at least 0.1 s, or 0 for no limit")
    if 0 < config.limit_marker_ttl < seconds(1):
        raise ValueError(
            f"limit_marker_ttl={public.limit_marker_ttl} s: expected at least 1 s, or 0 for none"
        )
    if config.limit_marker_ttl and level < TTL_LEVEL:
        raise NotSupported("limit_marker_ttl requires nats-server 2.11 or later")
    if config.mirror is not None and config.sources:
        raise ValueError("mirror and sources were both given: a bucket has one of them")
    copy = config.mirror is not None
    return StreamConfig(
        name=name,
        description=config.description,
        subjects=() if copy else (f"$KV.{config.bucket}.>",),
        max_msgs_per_subject=config.history,
        max_bytes=ByteCount(config.max_bytes or -1),
        max_age=config.ttl,
        max_msg_size=config.max_value_size or -1,
        discard=Discard.NEW,
        storage=config.storage,
        num_replicas=config.replicas,
        # ADR-8: the duplicate window must be max_age if that is less than two minutes.
        duplicate_window=min(config.ttl or DUPLICATE_WINDOW, DUPLICATE_WINDOW),
        placement=config.placement,
        republish=config.republish,
        mirror=bucket_source(config.mirror) if config.mirror is not None else None,
        mirror_direct=copy,
        sources=tuple(mapped_source(source, config.bucket) for source in config.sources),
        compression=Compression.S2 if config.compression else Compression.NONE,
        allow_direct=True,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_msg_ttl=bool(config.limit_marker_ttl)
        or (config.allow_key_ttl and level >= TTL_LEVEL),
        subject_delete_marker_ttl=config.limit_marker_ttl,
        allow_atomic=level >= ATOMIC_LEVEL and not copy,
        metadata=config.metadata,
    )


def bucket_source(source: wire.StreamSource) -> wire.StreamSource:
    """The stream source for a bucket named as source."""
    if source.name.startswith(STREAM_PREFIX):
        return source
    return msgspec.structs.replace(source, name=stream_name(source.name))


def mapped_source(source: wire.StreamSource, bucket: str) -> wire.StreamSource:
    """A source whose keys appear under this bucket's subjects."""
    source = bucket_source(source)
    if source.subject_transforms:
        return source
    origin = source.name.removeprefix(STREAM_PREFIX)
    transform = SubjectTransform(src=f"$KV.{origin}.>", dest=f"$KV.{bucket}.>")
    return msgspec.structs.replace(source, subject_transforms=(transform,))


def is_bucket(config: StreamConfig) -> bool:
    """Whether a stream is a bucket; a mirror has no subjects."""
    return (
        config.name.startswith(STREAM_PREFIX)
        and config.max_msgs_per_subject >= 1
        and all(subject.startswith("$KV.") for subject in config.subjects)
    )


def from_stream_config(config: StreamConfig) -> KeyValueConfig:
    """The bucket's configuration, from its stream."""
    settings = BucketSettings(
        bucket=config.name.removeprefix(STREAM_PREFIX),
        description=config.description,
        history=config.max_msgs_per_subject,
        ttl=config.max_age,
        max_value_size=config.max_msg_size,
        max_bytes=config.max_bytes,
        storage=config.storage,
        replicas=config.num_replicas,
        placement=config.placement,
        republish=config.republish,
        mirror=config.mirror,
        sources=config.sources,
        compression=config.compression is not Compression.NONE,
        metadata={
            key: text
            for key, text in config.metadata.items()
            if not key.startswith(("_nats.", "_jetspark."))
        },
        limit_marker_ttl=config.subject_delete_marker_ttl,
        allow_key_ttl=config.allow_msg_ttl,
    )
    return from_wire(KeyValueConfig, settings)
