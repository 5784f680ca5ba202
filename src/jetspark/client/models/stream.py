"""Streams: configuration and status."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict, Unpack

from jetspark.api import stream as wire
from jetspark.api.base import ApiErrorBody
from jetspark.api.enums import Compression, Discard, PersistMode, Retention, Storage
from jetspark.api.stream import ExternalStream, Republish, SourceConsumer, SubjectTransform
from jetspark.client.models.base import Model, to_wire


class Placement(Model[wire.Placement], wire=wire.Placement):
    """Where a cluster should place a stream; a single server stores and ignores it."""

    __slots__ = ()

    cluster: str
    """The name of the cluster."""
    tags: tuple[str, ...]
    """Tags that its servers must have."""
    preferred: str
    """The server that should be the leader."""

    def __init__(
        self, cluster: str = "", *, tags: Sequence[str] = (), preferred: str = ""
    ) -> None:
        self._fill({"cluster": cluster, "tags": tags, "preferred": preferred})


class ConsumerLimits(Model[wire.ConsumerLimits], wire=wire.ConsumerLimits):
    """Defaults and upper bounds for the consumers of a stream; 0 means none."""

    __slots__ = ()

    inactive_threshold: float
    """Seconds without use after which the server deletes a consumer."""
    max_ack_pending: int
    """How many delivered messages may be unacknowledged."""

    def __init__(
        self, *, inactive_threshold: float | timedelta = 0, max_ack_pending: int = 0
    ) -> None:
        self._fill({"inactive_threshold": inactive_threshold, "max_ack_pending": max_ack_pending})


class SourceOptions(TypedDict, total=False):
    """The optional arguments of ``StreamSource``."""

    opt_start_seq: int
    """The first sequence to copy; 0: from the start."""
    opt_start_time: datetime | None
    """Copy only messages stored at or after this time."""
    filter_subject: str
    """Copy only messages whose subject matches."""
    subject_transforms: Sequence[SubjectTransform]
    """Copy only messages whose subject matches a ``src``, under the subject of its ``dest``."""
    external: ExternalStream | None
    """Where the origin is, if in another account or domain."""
    consumer: SourceConsumer | None
    """The durable consumer to read with; jetspark servers refuse it."""


class StreamSource(Model[wire.StreamSource], wire=wire.StreamSource):
    """The origin of a mirror or source, and which part of it to copy."""

    __slots__ = ()

    name: str
    """The stream to copy."""
    opt_start_seq: int
    """The first sequence to copy; 0: from the start."""
    opt_start_time: datetime | None
    """Copy only messages stored at or after this time."""
    filter_subject: str
    """Copy only messages whose subject matches."""
    subject_transforms: tuple[SubjectTransform, ...]
    """Copy only messages whose subject matches a ``src``, under the subject of its ``dest``."""
    external: ExternalStream | None
    """Where the origin is, if in another account or domain."""
    consumer: SourceConsumer | None
    """The durable consumer to read with; jetspark servers refuse it."""

    def __init__(self, name: str, **options: Unpack[SourceOptions]) -> None:
        self._fill({"name": name, **options})


class StreamOptions(TypedDict, total=False):
    """The settings of a stream; omitted ones get the server's default.

    ``subjects`` are the subjects that the stream stores. ``max_msgs``, ``max_bytes``, ``max_age``,
    ``max_msgs_per_subject`` and ``max_msg_size`` limit it (-1, and 0 for ``max_age``: no limit);
    ``discard`` says what a full stream does. ``duplicate_window`` is how long message ids are
    remembered. Durations are seconds or ``timedelta``, sizes bytes. ``mirror`` and ``sources``
    name streams to copy. Enumerations may be given as strings.
    """

    description: str
    subjects: Sequence[str]
    retention: Retention | Literal["limits", "interest", "workqueue"]
    max_consumers: int
    max_msgs: int
    max_bytes: int
    max_age: float | timedelta
    max_msgs_per_subject: int
    max_msg_size: int
    discard: Discard | Literal["old", "new"]
    storage: Storage | Literal["file", "memory"]
    num_replicas: int
    no_ack: bool
    duplicate_window: float | timedelta
    placement: Placement | None
    mirror: StreamSource | str | None
    sources: Sequence[StreamSource | str]
    compression: Compression | Literal["none", "s2"]
    first_seq: int
    subject_transform: SubjectTransform | None
    republish: Republish | None
    allow_direct: bool
    mirror_direct: bool
    discard_new_per_subject: bool
    sealed: bool
    deny_delete: bool
    deny_purge: bool
    allow_rollup_hdrs: bool
    consumer_limits: ConsumerLimits
    allow_msg_ttl: bool
    subject_delete_marker_ttl: float | timedelta
    allow_msg_counter: bool
    allow_atomic: bool
    allow_msg_schedules: bool
    persist_mode: PersistMode | Literal["default", "async"]
    allow_batched: bool
    metadata: Mapping[str, str]


class StreamConfig(Model[wire.StreamConfig], wire=wire.StreamConfig):
    """Configuration of a stream: its name and `StreamOptions`. Fields are named as on the wire.

    Durations are seconds; reading one returns a float, even if a ``timedelta`` was given.
    """

    __slots__ = ()

    name: str
    description: str
    subjects: tuple[str, ...]
    retention: Retention
    max_consumers: int
    max_msgs: int
    max_bytes: int
    max_age: float
    max_msgs_per_subject: int
    max_msg_size: int
    discard: Discard
    storage: Storage
    num_replicas: int
    no_ack: bool
    duplicate_window: float
    placement: Placement | None
    mirror: StreamSource | None
    sources: tuple[StreamSource, ...]
    compression: Compression
    first_seq: int
    subject_transform: SubjectTransform | None
    republish: Republish | None
    allow_direct: bool
    mirror_direct: bool
    discard_new_per_subject: bool
    sealed: bool
    deny_delete: bool
    deny_purge: bool
    allow_rollup_hdrs: bool
    consumer_limits: ConsumerLimits
    allow_msg_ttl: bool
    subject_delete_marker_ttl: float
    allow_msg_counter: bool
    allow_atomic: bool
    allow_msg_schedules: bool
    persist_mode: PersistMode
    allow_batched: bool
    metadata: dict[str, str]

    def __init__(self, name: str = "", **options: Unpack[StreamOptions]) -> None:
        self._fill({"name": name, **options})

    def replace(
        self, *, name: str | None = None, **changes: Unpack[StreamOptions]
    ) -> "StreamConfig":
        """A copy of this configuration with the given changes."""
        return self._replaced(changes if name is None else {"name": name, **changes})


class LostData(Model[wire.LostData], wire=wire.LostData):
    """Sequences lost because the store was damaged."""

    __slots__ = ()

    msgs: tuple[int, ...] | None
    bytes: int


class StreamState(
    Model[wire.StreamState],
    wire=wire.StreamState,
    names={"first_time": "first_ts", "last_time": "last_ts"},
):
    """What a stream holds. The times are None if it never held a message."""

    __slots__ = ()

    messages: int
    bytes: int
    first_seq: int
    first_time: datetime | None
    last_seq: int
    last_time: datetime | None
    num_subjects: int
    subjects: dict[str, int] | None
    num_deleted: int
    deleted: tuple[int, ...] | None
    lost: LostData | None
    consumer_count: int


class PeerInfo(Model[wire.PeerInfo], wire=wire.PeerInfo, seconds=("active",)):
    """One replica of a clustered stream or consumer; ``active``: seconds since last activity."""

    __slots__ = ()

    name: str
    current: bool
    offline: bool
    active: float | None
    lag: int
    peer: str


class ClusterInfo(Model[wire.ClusterInfo], wire=wire.ClusterInfo):
    """The leader and replicas of a stream or consumer; a single server is its own leader."""

    __slots__ = ()

    name: str
    raft_group: str
    leader: str
    leader_since: datetime | None
    replicas: tuple[PeerInfo, ...] | None


class StreamSourceInfo(
    Model[wire.StreamSourceInfo], wire=wire.StreamSourceInfo, seconds=("active",)
):
    """The progress of a mirror or source.

    ``active`` is seconds since the last contact; None until the first.
    """

    __slots__ = ()

    name: str
    external: ExternalStream | None
    lag: int
    seq: int
    active: float | None
    error: ApiErrorBody | None
    filter_subject: str
    subject_transforms: tuple[SubjectTransform, ...]


class JetsparkStreamInfo(Model[wire.JetsparkStreamInfo], wire=wire.JetsparkStreamInfo):
    """Status of a stream that only jetspark servers report.

    ``durability`` is what an acknowledgement guarantees. ``began_seq`` and ``began`` are the first
    message stored since the server opened the stream; 0 if there is none.
    """

    __slots__ = ()

    durability: str
    began_seq: int
    began: datetime | None


class StreamInfo(
    Model[wire.StreamInfo],
    wire=wire.StreamInfo,
    names={"time": "ts"},
    hidden=("total", "offset", "limit"),
    always=("created",),
):
    """Configuration and status of a stream; ``time`` is when the server sent it."""

    __slots__ = ()

    config: StreamConfig
    created: datetime
    state: StreamState
    domain: str
    cluster: ClusterInfo | None
    mirror: StreamSourceInfo | None
    sources: tuple[StreamSourceInfo, ...]
    alternates: tuple[wire.StreamAlternate, ...]
    time: datetime | None
    jetspark: JetsparkStreamInfo | None


def stream_config(config: StreamConfig | str, options: StreamOptions) -> wire.StreamConfig:
    """The wire struct: from a name with options, or a configuration that the options change."""
    if isinstance(config, str):
        return to_wire(StreamConfig(config, **options))
    if not isinstance(config, StreamConfig):
        raise TypeError(f"{config!r}: expected the name of a stream or a jetspark.StreamConfig")
    return to_wire(config.replace(**options))
