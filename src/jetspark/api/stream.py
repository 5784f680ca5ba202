"""Streams on the wire: configuration, state, information, and the requests about them.

Field order and presence are those of nats-server 2.15.1. Defaults are what the released server
assumes when a field is absent; a duration of 0 means *the server decides*.
"""

from typing import Final

import msgspec

from jetspark.api.base import (
    UNSET,
    ZERO_TIME,
    ApiErrorBody,
    ApiStruct,
    Count,
    Duration,
    Int32,
    Int64,
    Paged,
    PagedRequest,
    Response,
    Size,
    Success,
    Timestamp,
    UnsetType,
    Unsigned,
    shown,
)
from jetspark.api.enums import Compression, Discard, PersistMode, Retention, Storage
from jetspark.units import ByteCount, Nanoseconds

__all__ = [
    "STREAM_CREATE",
    "STREAM_DELETE",
    "STREAM_INFO",
    "STREAM_LEADER_STEPDOWN",
    "STREAM_LIST",
    "STREAM_NAMES",
    "STREAM_PURGE",
    "STREAM_REMOVE_PEER",
    "STREAM_RESTORE",
    "STREAM_SNAPSHOT",
    "STREAM_UPDATE",
    "ClusterInfo",
    "ConsumerLimits",
    "ExternalStream",
    "JetsparkStreamInfo",
    "LostData",
    "PeerInfo",
    "Placement",
    "PurgeRequest",
    "PurgeResponse",
    "RemovePeerRequest",
    "Republish",
    "RestoreRequest",
    "RestoreResponse",
    "SnapshotRequest",
    "SnapshotResponse",
    "SourceConsumer",
    "StreamAlternate",
    "StreamConfig",
    "StreamCreateRequest",
    "StreamCreateResponse",
    "StreamInfo",
    "StreamInfoRequest",
    "StreamListRequest",
    "StreamListResponse",
    "StreamNamesRequest",
    "StreamNamesResponse",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
]


class Placement(ApiStruct, frozen=True, kw_only=True):
    """Where a cluster should place a stream; a single server stores it without effect."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    preferred: str = ""


class SubjectTransform(ApiStruct, frozen=True, kw_only=True):
    """A mapping from one subject pattern to another."""

    src: str = shown("")
    """The subjects to map, with wildcards; empty: all."""
    dest: str = shown("")
    """The new subject, which may refer to wildcards of ``src`` as in ``{{wildcard(1)}}``."""


class Republish(ApiStruct, frozen=True, kw_only=True):
    """Publish every stored message again, under another subject."""

    src: str = ""
    """The subjects to republish, with wildcards; empty: all."""
    dest: str = shown("")
    """The subject to publish under, which may refer to wildcards of ``src``."""
    headers_only: bool = False
    """Whether to leave out the payload."""


class ConsumerLimits(ApiStruct, frozen=True, kw_only=True):
    """Defaults and upper bounds for the consumers of a stream; 0 is none."""

    inactive_threshold: Duration = Nanoseconds(0)
    max_ack_pending: Int64 = 0


class ExternalStream(ApiStruct, frozen=True, kw_only=True):
    """How to reach a stream of another account or domain."""

    api: str = shown("")
    """The prefix of its JetStream API, such as ``$JS.hub.API``."""
    deliver: str = shown("")
    """The prefix of the subject that its messages are delivered to."""


class SourceConsumer(ApiStruct, frozen=True, kw_only=True):
    """The durable consumer that a mirror or source reads from; our server refuses it."""

    name: str = ""
    """The name of the consumer."""
    deliver_subject: str = ""
    """The subject that it delivers to."""


class StreamSource(ApiStruct, frozen=True, kw_only=True):
    """The stream that a mirror or a source copies, and which part of it."""

    name: str = shown("")
    opt_start_seq: Count = 0
    opt_start_time: Timestamp | None = None
    filter_subject: str = ""
    subject_transforms: tuple[SubjectTransform, ...] = ()
    external: ExternalStream | None = None
    consumer: SourceConsumer | None = None


class StreamConfig(ApiStruct, frozen=True, kw_only=True):
    """Configuration of a stream, named as on the wire."""

    name: str = shown("")
    description: str = ""
    subjects: tuple[str, ...] = ()
    retention: Retention = shown(Retention.LIMITS)
    max_consumers: Int64 = shown(-1)
    max_msgs: Int64 = shown(-1)
    max_bytes: Size = shown(ByteCount(-1))
    max_age: Duration = shown(Nanoseconds(0))
    max_msgs_per_subject: Int64 = shown(-1)
    max_msg_size: Int32 = shown(-1)
    discard: Discard = shown(Discard.OLD)
    storage: Storage = shown(Storage.FILE)
    num_replicas: Int64 = shown(1)
    no_ack: bool = False
    duplicate_window: Duration = Nanoseconds(0)
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: tuple[StreamSource, ...] = ()
    compression: Compression = shown(Compression.NONE)
    first_seq: Count = 0
    subject_transform: SubjectTransform | None = None
    republish: Republish | None = None
    allow_direct: bool = shown(False)
    mirror_direct: bool = shown(False)
    discard_new_per_subject: bool = False
    sealed: bool = shown(False)
    deny_delete: bool = shown(False)
    deny_purge: bool = shown(False)
    allow_rollup_hdrs: bool = shown(False)
    consumer_limits: ConsumerLimits = shown(ConsumerLimits())
    allow_msg_ttl: bool = shown(False)
    subject_delete_marker_ttl: Duration = Nanoseconds(0)
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class StreamCreateRequest(StreamConfig, frozen=True, kw_only=True):
    """Body of STREAM.CREATE and STREAM.UPDATE; ``pedantic`` refuses what would be adjusted."""

    pedantic: bool = False

    def config(self) -> StreamConfig:
        """Return the configuration alone."""
        return StreamConfig(
            **{name: getattr(self, name) for name in StreamConfig.__struct_fields__}
        )


# Released servers list every lost sequence; a gap of millions is not worth megabytes of answer.
LOST_SHOWN_MAX: Final = 10_000


class LostData(ApiStruct, frozen=True, kw_only=True):
    """Sequences that were lost in a damaged store: from jetspark the first 10,000."""

    msgs: tuple[Unsigned, ...] | None = shown(None)
    bytes: Unsigned = shown(0)


class StreamState(ApiStruct, frozen=True, kw_only=True):
    """Counts, sequences and sizes of a stream."""

    messages: Unsigned = shown(0)
    bytes: Unsigned = shown(0)
    first_seq: Unsigned = shown(0)
    first_ts: Timestamp = shown(ZERO_TIME)
    last_seq: Unsigned = shown(0)
    last_ts: Timestamp = shown(ZERO_TIME)
    num_subjects: int = 0
    subjects: dict[str, Unsigned] | None = None
    num_deleted: int = 0
    deleted: tuple[Unsigned, ...] | None = None
    lost: LostData | None = None
    consumer_count: int = shown(0)


class PeerInfo(ApiStruct, frozen=True, kw_only=True):
    """One replica of a clustered stream or consumer."""

    name: str = shown("")
    current: bool = shown(False)
    offline: bool = False
    active: int = shown(0)
    lag: int = 0
    peer: str = shown("")


class ClusterInfo(ApiStruct, frozen=True, kw_only=True):
    """Leader and replicas; a single server names itself as leader."""

    name: str = ""
    raft_group: str = ""
    leader: str = ""
    leader_since: Timestamp | None = None
    replicas: tuple[PeerInfo, ...] | None = None


class StreamSourceInfo(ApiStruct, frozen=True, kw_only=True):
    """The progress of a mirror or source. ``active`` is -1 until the first contact."""

    name: str = shown("")
    external: ExternalStream | None = None
    lag: int = shown(0)
    seq: int = 0
    active: int = shown(-1)
    error: ApiErrorBody | None = None
    filter_subject: str = ""
    subject_transforms: tuple[SubjectTransform, ...] = ()


class StreamAlternate(ApiStruct, frozen=True, kw_only=True):
    """Another stream that holds the same messages."""

    name: str = shown("")
    domain: str = ""
    cluster: str = shown("")


class JetsparkStreamInfo(ApiStruct, frozen=True, kw_only=True):
    """Stream information that only jetspark servers report.

    ``durability`` is what an acknowledgement guarantees. ``began_seq`` and ``began`` identify the
    first message stored since the server opened the stream; 0 if none was.
    """

    durability: str = ""
    began_seq: int = 0
    began: Timestamp | None = None


class StreamInfo(ApiStruct, frozen=True, kw_only=True):
    """Configuration and state of a stream.

    The first three fields page through ``state.subjects``; only STREAM.INFO supports them.
    """

    total: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET
    config: StreamConfig = shown(StreamConfig())
    created: Timestamp = shown(ZERO_TIME)
    state: StreamState = shown(StreamState())
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: StreamSourceInfo | None = None
    sources: tuple[StreamSourceInfo, ...] = ()
    alternates: tuple[StreamAlternate, ...] = ()
    ts: Timestamp = shown(ZERO_TIME)
    jetspark: JetsparkStreamInfo | None = None


class StreamCreateResponse(StreamInfo, frozen=True, kw_only=True):
    """Answer of STREAM.CREATE."""

    did_create: bool = False


class StreamInfoRequest(PagedRequest, frozen=True, kw_only=True):
    """Body of STREAM.INFO. ``jetspark`` asks for the object of that name, which is ours alone."""

    deleted_details: bool = False
    subjects_filter: str = ""
    jetspark: bool = False


class StreamNamesRequest(PagedRequest, frozen=True, kw_only=True):
    """Body of STREAM.NAMES: the streams whose subjects collide with ``subject``."""

    subject: str = ""


class StreamNamesResponse(Paged, frozen=True, kw_only=True):
    """Answer of STREAM.NAMES; ``null`` when there is none."""

    streams: tuple[str, ...] | None = shown(None)


class StreamListRequest(StreamNamesRequest, frozen=True, kw_only=True):
    """Body of STREAM.LIST."""


class StreamListResponse(Paged, frozen=True, kw_only=True):
    """Answer of STREAM.LIST. ``missing`` and ``offline`` come from clusters only."""

    streams: tuple[StreamInfo, ...] | None = shown(())
    missing: tuple[str, ...] | None = None
    offline: dict[str, str] | None = None


class PurgeRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.PURGE: below ``seq``, or all but the newest ``keep``, within ``filter``."""

    seq: Count = 0
    filter: str = ""
    keep: Count = 0


class PurgeResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of STREAM.PURGE."""

    success: bool = False
    purged: int = shown(0)


class SnapshotRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.SNAPSHOT."""

    deliver_subject: str = shown("")
    no_consumers: bool = False
    chunk_size: Int64 = 0
    window_size: Int64 = 0
    jsck: bool = False


class SnapshotResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of STREAM.SNAPSHOT."""

    config: StreamConfig | None = None
    state: StreamState | None = None


class RestoreRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.RESTORE."""

    config: StreamConfig = shown(StreamConfig())
    state: StreamState = shown(StreamState())


class RestoreResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of STREAM.RESTORE: where the chunks go."""

    deliver_subject: str = shown("")


class RemovePeerRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.PEER.REMOVE."""

    peer: str = shown("")


_NO_PAGE: Final = b'"total":0,"offset":0,"limit":0'

STREAM_CREATE: Final = Response("stream_create", StreamCreateResponse)
STREAM_UPDATE: Final = Response("stream_update", StreamInfo)
STREAM_INFO: Final = Response("stream_info", StreamInfo, error_keeps=_NO_PAGE)
STREAM_DELETE: Final = Response("stream_delete", Success)
STREAM_PURGE: Final = Response("stream_purge", PurgeResponse, error_keeps=b'"purged":0')
STREAM_NAMES: Final = Response(
    "stream_names", StreamNamesResponse, error_keeps=_NO_PAGE + b',"streams":null'
)
STREAM_LIST: Final = Response(
    "stream_list", StreamListResponse, error_keeps=_NO_PAGE + b',"streams":[]'
)
STREAM_SNAPSHOT: Final = Response("stream_snapshot", SnapshotResponse)
STREAM_RESTORE: Final = Response(
    "stream_restore", RestoreResponse, error_keeps=b'"deliver_subject":""'
)
STREAM_LEADER_STEPDOWN: Final = Response("stream_leader_stepdown", Success)
STREAM_REMOVE_PEER: Final = Response("stream_remove_peer", Success)
