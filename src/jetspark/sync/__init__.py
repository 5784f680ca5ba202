"""The blocking twins, with the same names: ``jetspark.sync.connect`` and ``jetspark.sync.Server``.

The calls run on one event loop on one daemon thread of this process; the classes are generated
from the asyncio ones by tools/gen_sync.py.
"""

from typing import TYPE_CHECKING, Any

from jetspark.client.connect_arguments import ConnectArguments, client_options
from jetspark.client.jetstream.consumer.ack_subject import MessageMetadata
from jetspark.client.jetstream.consumer.pull import PullGroup
from jetspark.client.jetstream.publish import Expect
from jetspark.client.jetstream.scan import ScanChunk
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.message import Message
from jetspark.client.options import ClientOptions
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
from jetspark.sync.jetstream import AckFuture, JetStream, Stream
from jetspark.sync.ordered import OrderedConsumer

if TYPE_CHECKING:
    from jetspark.sync.server import Server

__all__ = [
    "AckFuture",
    "Client",
    "ClientOptions",
    "ClientStats",
    "ConnectArguments",
    "Consumer",
    "Consumption",
    "Expect",
    "JetStream",
    "JetStreamMessage",
    "Message",
    "MessageIterator",
    "MessageMetadata",
    "OrderedConsumer",
    "PullGroup",
    "PullSubscription",
    "PushSubscription",
    "ScanChunk",
    "Server",
    "Stream",
    "StreamMessage",
    "Subscription",
    "TlsFiles",
    "client_options",
    "connect",
    "connect_with",
]


def __getattr__(name: str) -> Any:
    """Load the server when it is asked for: a Spark worker that only reads never needs it."""
    if name != "Server":
        raise AttributeError(f"module 'jetspark.sync' has no attribute {name!r}")
    from jetspark.sync.server import Server

    return Server
