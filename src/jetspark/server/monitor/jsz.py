"""``/jsz``: JetStream, with streams and consumers on request (nats-server's ``JSInfo``).

Streams and consumers are encoded one by one, so that a server with very many of them does not
block for the whole answer at once.
"""

from typing import Final

import msgspec

from jetspark.api.account import ApiStats
from jetspark.api.base import ApiStruct, Timestamp, encode, shown
from jetspark.api.consumer import ConsumerConfig, ConsumerInfo, PriorityGroupState, SequenceInfo
from jetspark.api.stream import ClusterInfo, StreamConfig, StreamSourceInfo, StreamState
from jetspark.server.monitor.arguments import Arguments, BadArgument
from jetspark.server.monitor.jetstream_models import (
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
)
from jetspark.server.monitor.jetstream_usage import (
    JetStreamUsage,
    account_usage,
    config_of,
    limits_of,
    server_stats,
)
from jetspark.server.monitor.status import (
    AccountStatus,
    JetStreamStatus,
    ServerStatus,
    StreamStatus,
)
from jetspark.server.pacing import paced

LIMIT_DEFAULT: Final = 1024
# A limit of -1 is shown as in nats-server: as unsigned 64 bits.
NO_LIMIT_SHOWN: Final = 2**64 - 1
# These two are added to API answers only; the configuration itself does not have them.
ANSWER_METADATA: Final = frozenset({"_nats.ver", "_nats.level"})


class JszOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumers: bool = False
    config: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = LIMIT_DEFAULT
    raft: bool = False


class ConsumerDetail(ApiStruct, frozen=True, kw_only=True):
    """A consumer as in CONSUMER.INFO (`StreamDetail.consumer_detail`)."""

    stream_name: str
    name: str
    created: Timestamp
    config: ConsumerConfig | None = None
    delivered: SequenceInfo
    ack_floor: SequenceInfo
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    num_pending: int
    push_bound: bool = False
    paused: bool = False
    pause_remaining: int = 0
    ts: Timestamp
    priority_groups: tuple[PriorityGroupState, ...] = ()


class StreamDetail(ApiStruct, frozen=True, kw_only=True):
    """A stream (`AccountDetail.stream_detail`)."""

    name: str
    created: Timestamp
    cluster: ClusterInfo
    config: StreamConfig | None = None
    state: StreamState
    consumer_detail: tuple[msgspec.Raw, ...] = ()
    mirror: StreamSourceInfo | None = None
    sources: tuple[StreamSourceInfo, ...] = ()


class AccountDetail(ApiStruct, frozen=True, kw_only=True):
    """An account with JetStream. ``reserved_*`` are its limits, as in nats-server."""

    name: str
    id: str
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int = shown(0)
    ha_assets: int = shown(0)
    api: ApiStats
    stream_detail: tuple[msgspec.Raw, ...] = ()


class Jsz(ApiStruct, frozen=True, kw_only=True):
    """The answer."""

    memory: int = shown(0)
    storage: int = shown(0)
    reserved_memory: int = shown(0)
    reserved_storage: int = shown(0)
    accounts: int = shown(0)
    ha_assets: int = shown(0)
    api: ApiStats = shown(ApiStats())
    server_id: str
    now: Timestamp
    disabled: bool = False
    config: JetStreamConfig = shown(JetStreamConfig())
    limits: JetStreamLimits | None = None
    streams: int = shown(0)
    streams_leader: int = 0
    consumers: int = shown(0)
    consumers_leader: int = 0
    messages: int = shown(0)
    bytes: int = shown(0)
    account_details: tuple[AccountDetail, ...] = ()
    total: int = shown(0)


def read_options(arguments: Arguments) -> JszOptions:
    """Read the arguments, in nats-server's order. Raises BadArgument."""
    accounts = arguments.flag("accounts")
    streams = arguments.flag("streams")
    consumers = arguments.flag("consumers")
    arguments.flag("direct-consumers")  # validated; a single server has none
    config = arguments.flag("config")
    offset = arguments.integer("offset")
    limit = arguments.integer("limit")
    leader_only = arguments.flag("leader-only")
    raft = arguments.flag("raft")
    arguments.flag("stream-leader-only")  # validated; this server leads all its streams
    account = arguments.text("acc")
    streams = streams or consumers
    return JszOptions(
        account=account,
        accounts=accounts or (streams and not account),
        streams=streams,
        consumers=consumers,
        config=config,
        leader_only=leader_only,
        offset=max(offset, 0),
        limit=limit or LIMIT_DEFAULT,
        raft=raft,
    )


async def jsz(view: ServerStatus, options: JszOptions) -> Jsz:
    """Build the answer. Raises BadArgument if only leaders are requested and JetStream is off."""
    now = view.date(view.now_ns())
    server_id = view.identity.server_id
    jetstream = view.jetstream()
    if jetstream is None:
        if options.leader_only:
            raise BadArgument("filtered response: not leader")
        return Jsz(server_id=server_id, now=now, disabled=True)
    accounts = sorted(jetstream.accounts(), key=lambda account: account.name)
    usages = {account.name: await account_usage(account) for account in accounts}
    whole = JetStreamUsage()
    for usage in usages.values():
        whole.add(usage)
    details = [
        await _account(account, usages[account.name], options, view)
        for account in _chosen(accounts, options)
    ]
    return _answer(jetstream, whole, tuple(details), options, server_id, now)


def _answer(
    jetstream: JetStreamStatus,
    usage: JetStreamUsage,
    details: tuple[AccountDetail, ...],
    options: JszOptions,
    server_id: str,
    now: Timestamp,
) -> Jsz:
    stats: JetStreamStats = server_stats(jetstream, usage)
    return Jsz(
        memory=stats.memory,
        storage=stats.storage,
        reserved_memory=stats.reserved_memory,
        reserved_storage=stats.reserved_storage,
        accounts=stats.accounts,
        api=stats.api,
        server_id=server_id,
        now=now,
        config=config_of(jetstream.echo),
        limits=limits_of(jetstream.echo.limits),
        streams=usage.streams,
        streams_leader=usage.streams if options.raft else 0,
        consumers=usage.consumers,
        consumers_leader=usage.consumers if options.raft else 0,
        messages=usage.messages,
        bytes=usage.bytes,
        account_details=details,
        total=stats.accounts,
    )


def _chosen(accounts: list[AccountStatus], options: JszOptions) -> list[AccountStatus]:
    """Return the accounts to encode; a name takes precedence over a page."""
    named = [account for account in accounts if account.name == options.account]
    if named or not options.accounts:
        return named
    if options.limit < 0:
        return accounts
    return accounts[options.offset : options.offset + options.limit]


async def _account(
    account: AccountStatus, usage: JetStreamUsage, options: JszOptions, view: ServerStatus
) -> AccountDetail:
    streams: list[msgspec.Raw] = []
    if options.streams:
        leader = ClusterInfo(leader=view.identity.server_name)
        by_name = sorted(account.streams(), key=lambda stream: stream.config.name)
        streams = [
            msgspec.Raw(encode(await _stream(stream, leader, options, view.now_ns())))
            async for stream in paced(by_name, per_turn=16)
        ]
    tags = {each.name: each.name_tag for each in view.accounts()}
    return AccountDetail(
        name=tags.get(account.name, account.name),
        id=account.name,
        memory=usage.memory,
        storage=usage.storage,
        reserved_memory=limit_shown(account.max_memory),
        reserved_storage=limit_shown(account.max_storage),
        api=ApiStats(total=account.api_total, errors=account.api_errors),
        stream_detail=tuple(streams),
    )


def limit_shown(value: int) -> int:
    """Return a limit of an account as nats-server shows it."""
    return NO_LIMIT_SHOWN if value < 0 else value


async def _stream(
    stream: StreamStatus, leader: ClusterInfo, options: JszOptions, now_ns: int
) -> StreamDetail:
    consumers: list[msgspec.Raw] = []
    if options.consumers:
        consumers = [
            msgspec.Raw(encode(_consumer(consumer, with_config=options.config)))
            async for consumer in paced(stream.consumers(now_ns))
        ]
    config = stream.config
    return StreamDetail(
        name=config.name,
        created=Timestamp(stream.created_ns),
        cluster=leader,
        config=_stream_config(config) if options.config else None,
        state=stream.state(),
        consumer_detail=tuple(consumers),
        mirror=stream.mirror(now_ns),
        sources=stream.sources(now_ns),
    )


def _stream_config(config: StreamConfig) -> StreamConfig:
    return msgspec.structs.replace(config, metadata=_own_metadata(config.metadata))


def _own_metadata(metadata: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in metadata.items() if name not in ANSWER_METADATA}


def _consumer(info: ConsumerInfo, *, with_config: bool) -> ConsumerDetail:
    config = None
    if with_config:
        metadata = _own_metadata(info.config.metadata)
        config = msgspec.structs.replace(info.config, metadata=metadata)
    return ConsumerDetail(
        stream_name=info.stream_name,
        name=info.name,
        created=info.created,
        config=config,
        delivered=info.delivered,
        ack_floor=info.ack_floor,
        num_ack_pending=info.num_ack_pending,
        num_redelivered=info.num_redelivered,
        num_waiting=info.num_waiting,
        num_pending=info.num_pending,
        push_bound=info.push_bound,
        paused=info.paused,
        pause_remaining=info.pause_remaining,
        ts=info.ts,
        priority_groups=info.priority_groups,
    )
