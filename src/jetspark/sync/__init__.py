"""The blocking twin of the client, with the same names: ``jetspark.sync.connect``.

The calls run on one event loop on one daemon thread of this process; the classes are generated
from the asyncio ones by tools/gen_sync.py.
"""

from jetspark.client.core import ClientStats
from jetspark.client.jetstream.publish import Expect
from jetspark.client.jetstream.scan import ScanChunk
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.message import Message
from jetspark.sync.client import Client, Subscription, connect
from jetspark.sync.jetstream import AckFuture, JetStream, Stream

__all__ = [
    "AckFuture",
    "Client",
    "ClientStats",
    "Expect",
    "JetStream",
    "Message",
    "ScanChunk",
    "Stream",
    "StreamMessage",
    "Subscription",
    "connect",
]
