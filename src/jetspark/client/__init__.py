"""The asyncio client: ``connect`` and what it leads to."""

from jetspark.client.client import Client, connect, connect_with
from jetspark.client.connect_arguments import ConnectArguments, client_options
from jetspark.client.jetstream.backup import StreamBackup, read_backup
from jetspark.client.jetstream.consumer.ack_subject import MessageMetadata
from jetspark.client.jetstream.consumer.consume import Consumption
from jetspark.client.jetstream.consumer.endless import MessageIterator
from jetspark.client.jetstream.consumer.explain import Explanation
from jetspark.client.jetstream.consumer.handle import Consumer
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.consumer.ordered_handle import OrderedConsumer
from jetspark.client.jetstream.consumer.pull import PullGroup
from jetspark.client.jetstream.context import JetStream
from jetspark.client.jetstream.kv.backend import Backend, Stored, WatchPlan, WatchSource
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.codec import Base64Keys, KeyCodec, PathKeys, ValueCodec
from jetspark.client.jetstream.kv.config import KeyValueConfig
from jetspark.client.jetstream.kv.encryption import AesGcmValues
from jetspark.client.jetstream.kv.entry import BucketStatus, Entry, Operation
from jetspark.client.jetstream.kv.lock import Election, Lock
from jetspark.client.jetstream.kv.members import MemberChange, Members, Membership
from jetspark.client.jetstream.kv.replica import KeyValueReplica
from jetspark.client.jetstream.kv.transaction import Transaction
from jetspark.client.jetstream.kv.typed import TypedEntry, TypedKeyValue, TypedWatcher
from jetspark.client.jetstream.kv.watch import KeyWatcher
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.objects.config import ObjectStoreConfig
from jetspark.client.jetstream.objects.info import ObjectInfo, ObjectLink, ObjectStoreStatus
from jetspark.client.jetstream.objects.orphans import OrphansPurged
from jetspark.client.jetstream.objects.reading import ObjectReader
from jetspark.client.jetstream.objects.store import ObjectStore
from jetspark.client.jetstream.objects.watching import ObjectWatcher
from jetspark.client.jetstream.publish import AckFuture, Expect
from jetspark.client.jetstream.publish_atomic import AtomicBatch
from jetspark.client.jetstream.publish_fast import FastPublisher
from jetspark.client.jetstream.replica import StreamReplica
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.client.jetstream.subscribe.pull_subscription import PullSubscription
from jetspark.client.jetstream.subscribe.push_subscription import PushSubscription
from jetspark.client.message import Message
from jetspark.client.options import ClientOptions
from jetspark.client.pager import Pager
from jetspark.client.replicas import ReplicaAddress
from jetspark.client.stats import ClientStats
from jetspark.client.subscription import Subscription
from jetspark.client.thread_callback import ThreadCallback
from jetspark.client.tls import TlsFiles

# What version 0.1.0 called it.
ScanChunk = MessageColumns

__all__ = [
    "AckFuture",
    "AesGcmValues",
    "AtomicBatch",
    "Backend",
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
    "Pager",
    "PathKeys",
    "PullGroup",
    "PullSubscription",
    "PushSubscription",
    "ReplicaAddress",
    "Stored",
    "Stream",
    "StreamBackup",
    "StreamMessage",
    "StreamReplica",
    "Subscription",
    "ThreadCallback",
    "TlsFiles",
    "Transaction",
    "TypedEntry",
    "TypedKeyValue",
    "TypedWatcher",
    "ValueCodec",
    "WatchPlan",
    "WatchSource",
    "client_options",
    "connect",
    "connect_with",
    "read_backup",
]
