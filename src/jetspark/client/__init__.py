"""The asyncio client: ``connect`` and what it leads to."""

from jetspark.client.client import Client, connect, connect_with
from jetspark.client.connect_arguments import ConnectArguments, client_options
from jetspark.client.jetstream.context import JetStream
from jetspark.client.jetstream.publish import AckFuture, Expect
from jetspark.client.jetstream.scan import ScanChunk
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.client.message import Message
from jetspark.client.options import ClientOptions
from jetspark.client.pager import Pager
from jetspark.client.stats import ClientStats
from jetspark.client.subscription import Subscription
from jetspark.client.tls import TlsFiles

__all__ = [
    "AckFuture",
    "Client",
    "ClientOptions",
    "ClientStats",
    "ConnectArguments",
    "Expect",
    "JetStream",
    "Message",
    "Pager",
    "ScanChunk",
    "Stream",
    "StreamMessage",
    "Subscription",
    "TlsFiles",
    "client_options",
    "connect",
    "connect_with",
]
