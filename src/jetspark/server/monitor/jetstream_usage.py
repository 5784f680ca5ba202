"""The usage of JetStream, summed over streams on demand."""

from jetspark.api.account import ApiStats
from jetspark.api.enums import Storage
from jetspark.server.monitor.jetstream_models import (
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
)
from jetspark.server.monitor.settings_echo import JetStreamEcho, LimitsEcho
from jetspark.server.monitor.status import AccountStatus, JetStreamStatus, StreamStatus
from jetspark.server.pacing import paced


class JetStreamUsage:
    """The usage of one account, or of several together."""

    __slots__ = (
        "bytes",
        "consumers",
        "memory",
        "messages",
        "reserved_memory",
        "reserved_storage",
        "storage",
        "streams",
    )

    def __init__(self) -> None:
        self.streams: int = 0
        self.consumers: int = 0
        self.messages: int = 0
        self.bytes: int = 0
        self.memory: int = 0
        self.storage: int = 0
        self.reserved_memory: int = 0
        self.reserved_storage: int = 0

    def add_stream(self, stream: StreamStatus) -> None:
        """Add a stream. Its maximum size counts as reserved."""
        state, config = stream.state(), stream.config
        reserved = max(int(config.max_bytes), 0)
        self.streams += 1
        self.consumers += state.consumer_count
        self.messages += state.messages
        self.bytes += state.bytes
        if config.storage is Storage.MEMORY:
            self.memory += state.bytes
            self.reserved_memory += reserved
        else:
            self.storage += state.bytes
            self.reserved_storage += reserved

    def add(self, other: "JetStreamUsage") -> None:
        """Add another account."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


async def account_usage(account: AccountStatus) -> JetStreamUsage:
    """Sum the streams of an account."""
    usage = JetStreamUsage()
    async for stream in paced(account.streams()):
        usage.add_stream(stream)
    return usage


async def usage_of(jetstream: JetStreamStatus) -> JetStreamUsage:
    """Sum all accounts."""
    whole = JetStreamUsage()
    for account in list(jetstream.accounts()):
        whole.add(await account_usage(account))
    return whole


def server_stats(jetstream: JetStreamStatus, usage: JetStreamUsage) -> JetStreamStats:
    """Return the usage of the server."""
    accounts = list(jetstream.accounts())
    return JetStreamStats(
        memory=usage.memory,
        storage=usage.storage,
        reserved_memory=usage.reserved_memory,
        reserved_storage=usage.reserved_storage,
        accounts=len(accounts),
        api=ApiStats(
            level=jetstream.api_level,
            total=sum(account.api_total for account in accounts),
            errors=sum(account.api_errors for account in accounts),
            inflight=jetstream.api_inflight,
        ),
    )


def config_of(echo: JetStreamEcho) -> JetStreamConfig:
    """Return the configuration for answers: ``durable`` is nats-server's ``sync_always``."""
    return JetStreamConfig(
        max_memory=echo.max_memory,
        max_storage=echo.max_storage,
        store_dir=echo.store_dir,
        sync_interval=echo.sync_interval,
        sync_always=echo.durability == "durable",
        domain=echo.domain,
        strict=echo.strict,
    )


def limits_of(echo: LimitsEcho) -> JetStreamLimits:
    """Return the limits for answers."""
    return JetStreamLimits(
        max_request_batch=echo.max_request_batch,
        max_ack_pending=echo.max_ack_pending,
        max_duplicate_window=echo.duplicate_window,
        max_batch_inflight_per_stream=echo.batch_inflight_per_stream,
        max_batch_inflight_total=echo.batch_inflight_total,
        max_batch_size=echo.batch_size,
        max_batch_timeout=echo.batch_timeout,
        default_max_consumers=echo.default_max_consumers,
    )
