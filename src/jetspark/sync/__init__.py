"""The blocking twins, with the same names: ``jetspark.sync.connect`` and ``jetspark.sync.Server``.

The calls run on one event loop on one daemon thread of this process; the classes are generated
from the asyncio ones by tools/gen_sync.py.
"""

from typing import TYPE_CHECKING, Any

from jetspark.client.connect_arguments import ConnectArguments, client_options
from jetspark.client.jetstream.backup import StreamBackup, read_backup
from jetspark.client.jetstream.consumer.ack_subject import MessageMetadata
from jetspark.client.jetstream.consumer.explain import Explanation
from jetspark.client.jetstream.consumer.pull import PullGroup
from jetspark.client.jetstream.kv.codec import Base64Keys, KeyCodec, PathKeys, ValueCodec
from jetspark.client.jetstream.kv.config import KeyValueConfig
from jetspark.client.jetstream.kv.encryption import AesGcmValues
from jetspark.client.jetstream.kv.entry import BucketStatus, Entry, Operation
from jetspark.client.jetstream.kv.members import MemberChange
from jetspark.client.jetstream.kv.typed import TypedEntry
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.objects.config import ObjectStoreConfig
from jetspark.client.jetstream.objects.info import ObjectInfo, ObjectLink, ObjectStoreStatus
from jetspark.client.jetstream.objects.orphans import OrphansPurged
from jetspark.client.jetstream.publish import Expect
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.message import Message
from jetspark.client.options import ClientOptions
from jetspark.client.replicas import ReplicaAddress
from jetspark.client.stats import ClientStats
from jetspark.client.tls import TlsFiles
from jetspark.sync.client import Client, Subscription, connect, connect_with
from jetspark.sync.consumers import (
    Consumer,
    Consumption,
    JetStreamMessage,
    MessageIterator,
    PullSubscription,
    PushSubscription,
)
from jetspark.sync.jetstream import (
    AckFuture,
    AtomicBatch,
    FastPublisher,
    JetStream,
    Stream,
    StreamReplica,
)
from jetspark.sync.key_value import (
    Election,
    KeyValue,
    KeyValueReplica,
    KeyWatcher,
    Lock,
    Members,
    Membership,
    Transaction,
    TypedKeyValue,
    TypedWatcher,
)
from jetspark.sync.objects import ObjectReader, ObjectStore, ObjectWatcher
from jetspark.sync.ordered import OrderedConsumer

if TYPE_CHECKING:
    from jetspark.sync.server import Server

# What version 0.1.0 called it.
ScanChunk = MessageColumns

__all__ = [
    "AckFuture",
    "AesGcmValues",
    "AtomicBatch",
    "Base64Keys",
    "BucketStatus",
    "Client",
    "ClientOptions",
    "ClientStats",
    "ConnectArguments",
    "Consumer",
    "Consumption",
    "Election",
    "Entry",
    "Expect",
    "Explanation",
    "FastPublisher",
    "JetStream",
    "JetStreamMessage",
    "KeyCodec",
    "KeyValue",
    "KeyValueConfig",
    "KeyValueReplica",
    "KeyWatcher",
    "Lock",
    "MemberChange",
    "Members",
    "Membership",
    "Message",
    "MessageColumns",
    "MessageIterator",
    "MessageMetadata",
    "ObjectInfo",
    "ObjectLink",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreConfig",
    "ObjectStoreStatus",
    "ObjectWatcher",
    "Operation",
    "OrderedConsumer",
    "OrphansPurged",
    "PathKeys",
    "PullGroup",
    "PullSubscription",
    "PushSubscription",
    "ReplicaAddress",
    "Server",
    "Stream",
    "StreamBackup",
    "StreamMessage",
    "StreamReplica",
    "Subscription",
    "TlsFiles",
    "Transaction",
    "TypedEntry",
    "TypedKeyValue",
    "TypedWatcher",
    "ValueCodec",
    "client_options",
    "connect",
    "connect_with",
    "read_backup",
]


# Type checkers know the name from above, so that they tell a misspelt one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the server when it is asked for: a Spark worker that only reads never needs it."""
        if name != "Server":
            raise AttributeError(f"module 'jetspark.sync' has no attribute {name!r}")
        from jetspark.sync.server import Server

        return Server
