"""The asyncio client: ``connect`` and what it leads to."""

from jetspark.client.client import Client, connect
from jetspark.client.core import ClientStats
from jetspark.client.jetstream.context import JetStream
from jetspark.client.jetstream.publish import AckFuture, Expect
from jetspark.client.jetstream.scan import ScanChunk
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.client.message import Message
from jetspark.client.pager import Pager
from jetspark.client.subscription import Subscription

__all__ = [
    "AckFuture",
    "Client",
    "ClientStats",
    "Expect",
    "JetStream",
    "Message",
    "Pager",
    "ScanChunk",
    "Stream",
    "StreamMessage",
    "Subscription",
    "connect",
]
