"""``jetstream_*``: JetStream with the exporter's names, limits next to usage."""

from typing import Final

from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerInfo
from jetspark.api.stream import StreamSourceInfo
from jetspark.server.monitor.jetstream_usage import JetStreamUsage, account_usage
from jetspark.server.monitor.jsz import limit_shown
from jetspark.server.monitor.metrics.exposition import Exposition, format_labels
from jetspark.server.monitor.metrics.options import Level, MetricsOptions
from jetspark.server.monitor.metrics.own import Labels, add_consumer, add_copy, add_stream
from jetspark.server.monitor.status import AccountStatus, ServerStatus, StreamStatus
from jetspark.server.pacing import paced

_SECOND_NS: Final = 1_000_000_000

_SERVER: Final = {
    "jetstream_disabled": "JetStream disabled or not",
    "max_memory": "Limit of JetStream's memory, in bytes",
    "max_storage": "Limit of JetStream's disk space, in bytes",
    "total_streams": "Number of streams",
    "total_consumers": "Number of consumers",
    "total_messages": "Number of stored messages",
    "total_message_bytes": "Bytes of stored messages",
}
_ACCOUNT: Final = {
    "max_storage": "Limit of the account's disk space, in bytes",
    "max_memory": "Limit of the account's memory, in bytes",
    "storage_used": "Disk space used by the account, in bytes",
    "memory_used": "Memory used by the account, in bytes",
}
_STREAM: Final = {
    "total_messages": "Number of messages in the stream",
    "total_bytes": "Bytes of messages in the stream",
    "first_seq": "First sequence of the stream",
    "last_seq": "Last sequence of the stream",
    "consumer_count": "Number of consumers of the stream",
    "subject_count": "Number of subjects in the stream",
    "limit_bytes": "Maximum bytes of the stream; -1 is no limit",
    "limit_messages": "Maximum messages of the stream; -1 is no limit",
}
_CONSUMER: Final = {
    "delivered_consumer_seq": "Last sequence delivered, counted by the consumer",
    "delivered_stream_seq": "Last sequence delivered, counted by the stream",
    "num_ack_pending": "Messages delivered and not acknowledged",
    "num_redelivered": "Messages delivered more than once and not acknowledged",
    "num_waiting": "Waiting pull requests",
    "num_pending": "Messages not delivered yet",
    "ack_floor_stream_seq": "Everything up to here is acknowledged, counted by the stream",
    "ack_floor_consumer_seq": "Everything up to here is acknowledged, counted by the consumer",
}


async def add_jetstream(out: Exposition, view: ServerStatus, options: MetricsOptions) -> None:
    """Add JetStream, down to the requested level."""
    jetstream = view.jetstream()
    labels = _server_labels(view)
    if jetstream is None:
        nothing = dict.fromkeys(_SERVER, 0) | {"jetstream_disabled": 1}
        _add(out, "jetstream_server", _SERVER, nothing, format_labels(labels))
        return
    echo = jetstream.echo
    accounts = sorted(jetstream.accounts(), key=lambda account: account.name)
    tags = {each.name: each.name_tag for each in view.accounts()}
    whole = JetStreamUsage()
    for account in accounts:
        usage = await account_usage(account)
        whole.add(usage)
        if options.level >= Level.ACCOUNTS and options.wants_account(account.name):
            named = _account_labels(labels, account.name, tags.get(account.name, account.name))
            _add_account(out, account, usage, named)
            if options.level >= Level.STREAMS:
                await _add_streams(out, account, view, options, named, echo.durability)
    values = {
        "jetstream_disabled": 0,
        "max_memory": echo.max_memory,
        "max_storage": echo.max_storage,
        "total_streams": whole.streams,
        "total_consumers": whole.consumers,
        "total_messages": whole.messages,
        "total_message_bytes": whole.bytes,
    }
    _add(out, "jetstream_server", _SERVER, values, format_labels(labels))


def _add(
    out: Exposition,
    prefix: str,
    meanings: dict[str, str],
    values: dict[str, int],
    labels: str,
) -> None:
    for name, meaning in meanings.items():
        out.family(f"{prefix}_{name}", meaning).add(labels, values[name])


def _server_labels(view: ServerStatus) -> Labels:
    jetstream = view.jetstream()
    return (
        ("server_id", view.identity.server_id),
        ("server_name", view.identity.server_name),
        ("cluster", ""),
        ("domain", jetstream.echo.domain if jetstream else ""),
        ("meta_leader", ""),
        ("is_meta_leader", "true"),
    )


def _account_labels(labels: Labels, account: str, tag: str) -> Labels:
    return (*labels, ("account", tag), ("account_name", tag), ("account_id", account))


def _add_account(
    out: Exposition, account: AccountStatus, usage: JetStreamUsage, labels: Labels
) -> None:
    values = {
        "max_storage": limit_shown(account.max_storage),
        "max_memory": limit_shown(account.max_memory),
        "storage_used": usage.storage,
        "memory_used": usage.memory,
    }
    _add(out, "jetstream_account", _ACCOUNT, values, format_labels(labels))


async def _add_streams(
    out: Exposition,
    account: AccountStatus,
    view: ServerStatus,
    options: MetricsOptions,
    labels: Labels,
    durability: str,
) -> None:
    by_name = sorted(account.streams(), key=lambda stream: stream.config.name)
    async for stream in paced(by_name, per_turn=16):
        if not options.wants_stream(stream.config.name):
            continue
        named = (
            *labels,
            ("stream_name", stream.config.name),
            ("stream_leader", view.identity.server_name),
            ("is_stream_leader", "true"),
            ("stream_raft_group", ""),
        )
        own = (
            ("server_id", view.identity.server_id),
            ("account", account.name),
            ("stream_name", stream.config.name),
        )
        _add_stream(out, stream, named, own, view.now_ns())
        add_stream(out, stream, own, durability, view.now_ns())
        if options.level >= Level.CONSUMERS:
            async for info in paced(stream.consumers(view.now_ns())):
                _add_consumer(out, info, named)
                add_consumer(out, info, own)


def _add_stream(
    out: Exposition, stream: StreamStatus, labels: Labels, own: Labels, now_ns: int
) -> None:
    state, config = stream.state(), stream.config
    values = {
        "total_messages": state.messages,
        "total_bytes": state.bytes,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "consumer_count": state.consumer_count,
        "subject_count": state.num_subjects,
        "limit_bytes": int(config.max_bytes),
        "limit_messages": config.max_msgs,
    }
    _add(out, "jetstream_stream", _STREAM, values, format_labels(labels))
    for source in stream.sources(now_ns):
        _add_source(out, "source", source, labels)
        add_copy(out, "source", source, own)
    mirror = stream.mirror(now_ns)
    if mirror is not None:
        _add_source(out, "mirror", mirror, labels)
        add_copy(out, "mirror", mirror, own)


def _add_source(out: Exposition, kind: str, info: StreamSourceInfo, labels: Labels) -> None:
    external = info.external
    named = format_labels(
        (
            *labels,
            (f"{kind}_name", info.name),
            (f"{kind}_api", external.api if external else ""),
            (f"{kind}_deliver", external.deliver if external else ""),
        )
    )
    out.family(f"jetstream_stream_{kind}_lag", "Messages it lags").add(named, info.lag)
    out.family(
        f"jetstream_stream_{kind}_active_duration_ns",
        "Nanoseconds since the last contact; -1 is never",
    ).add(named, info.active)


def _add_consumer(out: Exposition, info: ConsumerInfo, labels: Labels) -> None:
    named = format_labels(
        (
            *labels,
            ("consumer_name", info.name),
            ("consumer_leader", ""),
            ("is_consumer_leader", "true"),
            ("consumer_desc", info.config.description),
        )
    )
    values = {
        "delivered_consumer_seq": info.delivered.consumer_seq,
        "delivered_stream_seq": info.delivered.stream_seq,
        "num_ack_pending": info.num_ack_pending,
        "num_redelivered": info.num_redelivered,
        "num_waiting": info.num_waiting,
        "num_pending": info.num_pending,
        "ack_floor_stream_seq": info.ack_floor.stream_seq,
        "ack_floor_consumer_seq": info.ack_floor.consumer_seq,
    }
    _add(out, "jetstream_consumer", _CONSUMER, values, named)
    _add_since(out, "last_delivery_seconds", info.delivered.last_active, info.ts, named)
    _add_since(out, "last_ack_seconds", info.ack_floor.last_active, info.ts, named)


def _add_since(
    out: Exposition, name: str, last: Timestamp | None, now: Timestamp, labels: str
) -> None:
    """Add how long ago something was; nothing if it never was."""
    if last is not None:
        out.family(f"jetstream_consumer_{name}", "Seconds since the last one").add(
            labels, (int(now) - int(last)) / _SECOND_NS
        )
