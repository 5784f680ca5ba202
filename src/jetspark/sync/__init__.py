"""The blocking API, with the same names: ``jetspark.sync.connect`` and ``jetspark.sync.Server``.

Calls run on one event loop on one daemon thread of this process; the classes are generated from
the asyncio ones by tools/gen_sync.py. What needs no twin (configurations, entries, errors) is in
``jetspark``.
"""

from typing import TYPE_CHECKING, Any

from jetspark.sync.bulk import (
    ColumnsAck,
    Counted,
    count_from,
    last_columns,
    publish_columns,
    publish_together,
    publish_where_expected,
)
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
    Lock,
    Members,
    Membership,
    Transaction,
    TypedKeyValue,
    Watcher,
)
from jetspark.sync.objects import ObjectReader, ObjectStore
from jetspark.sync.ordered import OrderedConsumer
from jetspark.sync.schemas import SchemaRegistry

if TYPE_CHECKING:
    from jetspark.sync.server import Server

__all__ = [
    "AckFuture",
    "AtomicBatch",
    "Client",
    "ColumnsAck",
    "Consumer",
    "Consumption",
    "Counted",
    "Election",
    "FastPublisher",
    "JetStream",
    "JetStreamMessage",
    "KeyValue",
    "KeyValueReplica",
    "Lock",
    "Members",
    "Membership",
    "MessageIterator",
    "ObjectReader",
    "ObjectStore",
    "OrderedConsumer",
    "PullSubscription",
    "PushSubscription",
    "SchemaRegistry",
    "Server",
    "Stream",
    "StreamReplica",
    "Subscription",
    "Transaction",
    "TypedKeyValue",
    "Watcher",
    "connect",
    "connect_with",
    "count_from",
    "last_columns",
    "publish_columns",
    "publish_together",
    "publish_where_expected",
]


# Type checkers know the name from above, and so detect a misspelled one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the server on first use: a Spark worker that only reads never needs it."""
        if name != "Server":
            raise AttributeError(f"module 'jetspark.sync' has no attribute {name!r}")
        from jetspark.sync.server import Server

        return Server
