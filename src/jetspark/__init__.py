"""Durable streams, key-value buckets and object stores in Python, and Spark pipelines over them.

Every public name is here, or in ``jetspark.errors``. Everything is loaded on first use: ``import
jetspark`` loads nothing that a script does not need.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetspark import errors, spark, sync, testing
    from jetspark.api.account import AccountInfo, AccountLimits, ApiStats, Tier
    from jetspark.api.base import ApiErrorBody
    from jetspark.api.enums import (
        AckPolicy,
        Compression,
        DeliverPolicy,
        Discard,
        PersistMode,
        PriorityPolicy,
        ReplayPolicy,
        Retention,
        Storage,
    )
    from jetspark.api.message import PubAck
    from jetspark.api.stream import (
        ExternalStream,
        Republish,
        SourceConsumer,
        StreamAlternate,
        SubjectTransform,
    )
    from jetspark.client.callbacks.thread import ThreadCallback
    from jetspark.client.client import Client, connect, connect_with
    from jetspark.client.connect_arguments import ConnectArguments
    from jetspark.client.connection.replicas import ReplicaAddress
    from jetspark.client.connection.status import ConnectionStatus
    from jetspark.client.connection.tls import TlsFiles
    from jetspark.client.contexts import client_options
    from jetspark.client.jetstream.backup import StreamBackup, read_backup
    from jetspark.client.jetstream.consumer.ack_subject import MessageMetadata
    from jetspark.client.jetstream.consumer.consume import Consumption
    from jetspark.client.jetstream.consumer.endless import MessageIterator
    from jetspark.client.jetstream.consumer.explain import Explanation, Reason
    from jetspark.client.jetstream.consumer.handle import Consumer
    from jetspark.client.jetstream.consumer.message import JetStreamMessage
    from jetspark.client.jetstream.consumer.ordered_handle import OrderedConsumer
    from jetspark.client.jetstream.consumer.pull import PullGroup
    from jetspark.client.jetstream.context import JetStream
    from jetspark.client.jetstream.kv.backend import Backend, Stored, WatchPlan, WatchSource
    from jetspark.client.jetstream.kv.bucket import KeyValue
    from jetspark.client.jetstream.kv.codec import Base64Keys, KeyCodec, PathKeys, ValueCodec
    from jetspark.client.jetstream.kv.config import KeyValueConfig, KeyValueOptions
    from jetspark.client.jetstream.kv.encryption import AesGcmValues
    from jetspark.client.jetstream.kv.entry import BucketStatus, Entry, Operation
    from jetspark.client.jetstream.kv.lock import Election, Lock
    from jetspark.client.jetstream.kv.members import MemberChange, Members, Membership
    from jetspark.client.jetstream.kv.replica import KeyValueReplica
    from jetspark.client.jetstream.kv.transaction import Transaction
    from jetspark.client.jetstream.kv.typed import TypedEntry, TypedKeyValue
    from jetspark.client.jetstream.kv.watch import Watcher
    from jetspark.client.jetstream.message_columns import MessageColumns
    from jetspark.client.jetstream.objects.config import ObjectStoreConfig, ObjectStoreOptions
    from jetspark.client.jetstream.objects.folders import FolderCopied
    from jetspark.client.jetstream.objects.info import (
        ObjectInfo,
        ObjectLink,
        ObjectOptions,
        ObjectStoreStatus,
    )
    from jetspark.client.jetstream.objects.orphans import OrphansPurged
    from jetspark.client.jetstream.objects.reading import ObjectReader
    from jetspark.client.jetstream.objects.store import ObjectStore
    from jetspark.client.jetstream.publishing.atomic import AtomicBatch
    from jetspark.client.jetstream.publishing.fast import FastPublisher
    from jetspark.client.jetstream.publishing.publisher import AckFuture, Expect
    from jetspark.client.jetstream.replica import StreamReplica
    from jetspark.client.jetstream.schema_registry import SchemaRegistry
    from jetspark.client.jetstream.stored import StreamMessage
    from jetspark.client.jetstream.streams import Stream
    from jetspark.client.jetstream.subscribe.pull_subscription import PullSubscription
    from jetspark.client.jetstream.subscribe.push_subscription import PushSubscription
    from jetspark.client.message import Message
    from jetspark.client.models.consumer import (
        ConsumerConfig,
        ConsumerInfo,
        ConsumerOptions,
        PauseState,
        PriorityGroupState,
        SequenceInfo,
    )
    from jetspark.client.models.stream import (
        ClusterInfo,
        ConsumerLimits,
        JetsparkStreamInfo,
        LostData,
        PeerInfo,
        Placement,
        SourceOptions,
        StreamConfig,
        StreamInfo,
        StreamOptions,
        StreamSource,
        StreamSourceInfo,
        StreamState,
    )
    from jetspark.client.opening import Opening
    from jetspark.client.options import ClientOptions
    from jetspark.client.pager import Pager
    from jetspark.client.stats import ClientStats
    from jetspark.client.subscription import Subscription
    from jetspark.client.timeouts import Timeout
    from jetspark.embedded import ReplicaServer, Server
    from jetspark.headers.headers import Headers
    from jetspark.protocol.handshake import ServerInfo
    from jetspark.schemas.infer import InferredSchema, infer_schema
    from jetspark.schemas.schema import Schema
    from jetspark.server.arguments import ServerArguments
    from jetspark.version import COMPILED
    from jetspark.version import VERSION as __version__  # noqa: N811 - PEP 396's name

__all__ = [
    "COMPILED",
    "AccountInfo",
    "AccountLimits",
    "AckFuture",
    "AckPolicy",
    "AesGcmValues",
    "ApiErrorBody",
    "ApiStats",
    "AtomicBatch",
    "Backend",
    "Base64Keys",
    "BucketStatus",
    "Client",
    "ClientOptions",
    "ClientStats",
    "ClusterInfo",
    "Compression",
    "ConnectArguments",
    "ConnectionStatus",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInfo",
    "ConsumerLimits",
    "ConsumerOptions",
    "Consumption",
    "DeliverPolicy",
    "Discard",
    "Election",
    "Entry",
    "Expect",
    "Explanation",
    "ExternalStream",
    "FastPublisher",
    "FolderCopied",
    "Headers",
    "InferredSchema",
    "JetStream",
    "JetStreamMessage",
    "JetsparkStreamInfo",
    "KeyCodec",
    "KeyValue",
    "KeyValueConfig",
    "KeyValueOptions",
    "KeyValueReplica",
    "Lock",
    "LostData",
    "MemberChange",
    "Members",
    "Membership",
    "Message",
    "MessageColumns",
    "MessageIterator",
    "MessageMetadata",
    "ObjectInfo",
    "ObjectLink",
    "ObjectOptions",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreConfig",
    "ObjectStoreOptions",
    "ObjectStoreStatus",
    "Opening",
    "Operation",
    "OrderedConsumer",
    "OrphansPurged",
    "Pager",
    "PathKeys",
    "PauseState",
    "PeerInfo",
    "PersistMode",
    "Placement",
    "PriorityGroupState",
    "PriorityPolicy",
    "PubAck",
    "PullGroup",
    "PullSubscription",
    "PushSubscription",
    "Reason",
    "ReplayPolicy",
    "ReplicaAddress",
    "ReplicaServer",
    "Republish",
    "Retention",
    "Schema",
    "SchemaRegistry",
    "SequenceInfo",
    "Server",
    "ServerArguments",
    "ServerInfo",
    "SourceConsumer",
    "SourceOptions",
    "Storage",
    "Stored",
    "Stream",
    "StreamAlternate",
    "StreamBackup",
    "StreamConfig",
    "StreamInfo",
    "StreamMessage",
    "StreamOptions",
    "StreamReplica",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
    "Subscription",
    "ThreadCallback",
    "Tier",
    "Timeout",
    "TlsFiles",
    "Transaction",
    "TypedEntry",
    "TypedKeyValue",
    "ValueCodec",
    "WatchPlan",
    "WatchSource",
    "Watcher",
    "__version__",
    "client_options",
    "connect",
    "connect_with",
    "errors",
    "infer_schema",
    "read_backup",
    "spark",
    "sync",
    "testing",
]

# The modules of the names.
_MODULES = {
    "jetspark.api.account": (
        "AccountInfo",
        "AccountLimits",
        "ApiStats",
        "Tier",
    ),
    "jetspark.api.base": ("ApiErrorBody",),
    "jetspark.api.enums": (
        "AckPolicy",
        "Compression",
        "DeliverPolicy",
        "Discard",
        "PersistMode",
        "PriorityPolicy",
        "ReplayPolicy",
        "Retention",
        "Storage",
    ),
    "jetspark.api.message": ("PubAck",),
    "jetspark.api.stream": (
        "ExternalStream",
        "Republish",
        "SourceConsumer",
        "StreamAlternate",
        "SubjectTransform",
    ),
    "jetspark.client.client": (
        "Client",
        "connect",
        "connect_with",
    ),
    "jetspark.client.connect_arguments": ("ConnectArguments",),
    "jetspark.client.connection.status": ("ConnectionStatus",),
    "jetspark.client.contexts": ("client_options",),
    "jetspark.client.jetstream.backup": (
        "StreamBackup",
        "read_backup",
    ),
    "jetspark.client.jetstream.consumer.ack_subject": ("MessageMetadata",),
    "jetspark.client.jetstream.consumer.consume": ("Consumption",),
    "jetspark.client.jetstream.consumer.endless": ("MessageIterator",),
    "jetspark.client.jetstream.consumer.explain": (
        "Explanation",
        "Reason",
    ),
    "jetspark.client.jetstream.consumer.handle": ("Consumer",),
    "jetspark.client.jetstream.consumer.message": ("JetStreamMessage",),
    "jetspark.client.jetstream.consumer.ordered_handle": ("OrderedConsumer",),
    "jetspark.client.jetstream.consumer.pull": ("PullGroup",),
    "jetspark.client.jetstream.context": ("JetStream",),
    "jetspark.client.jetstream.kv.backend": (
        "Backend",
        "Stored",
        "WatchPlan",
        "WatchSource",
    ),
    "jetspark.client.jetstream.kv.bucket": ("KeyValue",),
    "jetspark.client.jetstream.kv.codec": (
        "Base64Keys",
        "KeyCodec",
        "PathKeys",
        "ValueCodec",
    ),
    "jetspark.client.jetstream.kv.config": (
        "KeyValueConfig",
        "KeyValueOptions",
    ),
    "jetspark.client.jetstream.kv.encryption": ("AesGcmValues",),
    "jetspark.client.jetstream.kv.entry": (
        "BucketStatus",
        "Entry",
        "Operation",
    ),
    "jetspark.client.jetstream.kv.lock": (
        "Election",
        "Lock",
    ),
    "jetspark.client.jetstream.kv.members": (
        "MemberChange",
        "Members",
        "Membership",
    ),
    "jetspark.client.jetstream.kv.replica": ("KeyValueReplica",),
    "jetspark.client.jetstream.kv.transaction": ("Transaction",),
    "jetspark.client.jetstream.kv.typed": (
        "TypedEntry",
        "TypedKeyValue",
    ),
    "jetspark.client.jetstream.kv.watch": ("Watcher",),
    "jetspark.client.jetstream.message_columns": ("MessageColumns",),
    "jetspark.client.jetstream.objects.config": (
        "ObjectStoreConfig",
        "ObjectStoreOptions",
    ),
    "jetspark.client.jetstream.objects.folders": ("FolderCopied",),
    "jetspark.client.jetstream.objects.info": (
        "ObjectInfo",
        "ObjectLink",
        "ObjectOptions",
        "ObjectStoreStatus",
    ),
    "jetspark.client.jetstream.objects.orphans": ("OrphansPurged",),
    "jetspark.client.jetstream.objects.reading": ("ObjectReader",),
    "jetspark.client.jetstream.objects.store": ("ObjectStore",),
    "jetspark.client.jetstream.publishing.publisher": (
        "AckFuture",
        "Expect",
    ),
    "jetspark.client.jetstream.publishing.atomic": ("AtomicBatch",),
    "jetspark.client.jetstream.publishing.fast": ("FastPublisher",),
    "jetspark.client.jetstream.replica": ("StreamReplica",),
    "jetspark.client.jetstream.schema_registry": ("SchemaRegistry",),
    "jetspark.client.jetstream.stored": ("StreamMessage",),
    "jetspark.client.jetstream.streams": ("Stream",),
    "jetspark.client.jetstream.subscribe.pull_subscription": ("PullSubscription",),
    "jetspark.client.jetstream.subscribe.push_subscription": ("PushSubscription",),
    "jetspark.client.message": ("Message",),
    "jetspark.client.models.consumer": (
        "ConsumerConfig",
        "ConsumerInfo",
        "ConsumerOptions",
        "PauseState",
        "PriorityGroupState",
        "SequenceInfo",
    ),
    "jetspark.client.models.stream": (
        "ClusterInfo",
        "ConsumerLimits",
        "JetsparkStreamInfo",
        "LostData",
        "PeerInfo",
        "Placement",
        "SourceOptions",
        "StreamConfig",
        "StreamInfo",
        "StreamOptions",
        "StreamSource",
        "StreamSourceInfo",
        "StreamState",
    ),
    "jetspark.client.opening": ("Opening",),
    "jetspark.client.options": ("ClientOptions",),
    "jetspark.client.pager": ("Pager",),
    "jetspark.client.connection.replicas": ("ReplicaAddress",),
    "jetspark.client.stats": ("ClientStats",),
    "jetspark.client.subscription": ("Subscription",),
    "jetspark.client.callbacks.thread": ("ThreadCallback",),
    "jetspark.client.timeouts": ("Timeout",),
    "jetspark.client.connection.tls": ("TlsFiles",),
    "jetspark.embedded": ("ReplicaServer", "Server"),
    "jetspark.headers.headers": ("Headers",),
    "jetspark.protocol.handshake": ("ServerInfo",),
    "jetspark.schemas.infer": ("InferredSchema", "infer_schema"),
    "jetspark.schemas.schema": ("Schema",),
    "jetspark.server.arguments": ("ServerArguments",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
# Packages for use through `jetspark`: `import jetspark` is enough for
# `jetspark.errors.KeyNotFound`.
_PACKAGES = {"errors", "spark", "sync", "testing"}


# Type checkers know the names from above, and so detect misspelled ones.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the module of a public name when the name is first used (PEP 562)."""
        from importlib import import_module

        if name in _PACKAGES:
            return import_module(f"jetspark.{name}")
        if name in {"COMPILED", "__version__"}:
            from jetspark import version

            value = version.COMPILED if name == "COMPILED" else version.VERSION
        elif name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module 'jetspark' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
