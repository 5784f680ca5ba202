"""A server whose status is made up, and a way to ask an application without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jetspark.api.account import AccountLimits
from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerConfig, ConsumerInfo, SequenceInfo
from jetspark.api.enums import AckPolicy, Storage
from jetspark.api.stream import StreamConfig, StreamSourceInfo, StreamState
from jetspark.server.jetstream.remotes import RemoteState
from jetspark.server.monitor.account_details import AccountDetails, SublistCounts
from jetspark.server.monitor.closed import ClosedConnection, ClosedConnections
from jetspark.server.monitor.connection_view import (
    ConnectionDetails,
    ConnectionView,
    SubscriptionView,
)
from jetspark.server.monitor.replica_state import ReplicaState
from jetspark.server.monitor.settings_echo import JetStreamEcho, LimitsEcho, ServerEcho
from jetspark.server.monitor.status import (
    AccountStatus,
    Counters,
    Identity,
    JetStreamStatus,
    LostConsumer,
    LostStream,
    Readiness,
    ServerStatus,
    StreamStatus,
)
from jetspark.server.monitor.store_stats import CommitStats, StreamStore
from jetspark.server.monitor.traffic import Traffic
from jetspark.units import ByteCount, seconds

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND
NOW = START + 90 * SECOND

IDENTITY = Identity(
    server_id="NID",
    server_name="fake",
    version="2.15.1",
    jetspark_version="0.1.0",
    compiled=False,
    start_ns=START,
)
SERVER_ECHO = ServerEcho(host="127.0.0.1", port=4222, config_load_ns=START)
JETSTREAM_ECHO = JetStreamEcho(
    max_memory=1 << 30,
    max_storage=1 << 40,
    store_dir="/data",
    limits=LimitsEcho(default_max_consumers=1000),
)
READY = Readiness(accepting=True, ready=True)


@dataclass
class FakeSubscription:
    subject: bytes
    queue: bytes = b""
    sid: bytes = b"1"
    delivered: int = 0
    max_msgs: int = 0


@dataclass
class FakeConnection:
    cid: int
    account: str = "$G"
    start_ns: int = START
    last_ns: int = START
    rtt_ns: int = 577_300
    pending_bytes: int = 0
    traffic: Traffic = field(default_factory=Traffic)
    stalls: int = 0
    subs: list[FakeSubscription] = field(default_factory=list)
    known: ConnectionDetails | None = None
    pings: int = 0

    @property
    def subscription_count(self) -> int:
        return len(self.subs)

    def details(self) -> ConnectionDetails:
        return self.known or ConnectionDetails(
            ip="127.0.0.1",
            port=50_000 + self.cid,
            name=f"client-{self.cid}",
            lang="python3",
            version="2.16.0",
            account=self.account,
        )

    def subscriptions(self) -> Iterable[SubscriptionView]:
        return self.subs

    def request_rtt(self) -> None:
        self.pings += 1


@dataclass
class FakeAccount(AccountStatus):
    name: str = "$G"
    is_system: bool = False
    jetstream_enabled: bool = True
    slow_consumers: int | None = 0
    traffic: Traffic = field(default_factory=Traffic)
    connection_count: int = 0
    counts: SublistCounts = field(default_factory=SublistCounts)
    known: AccountDetails = field(default_factory=lambda: AccountDetails(updated_ns=START))

    def __post_init__(self) -> None:
        self.name_tag = self.name

    def sublist(self) -> SublistCounts:
        return self.counts

    def details(self) -> AccountDetails:
        return self.known


@dataclass
class FakeStream(StreamStatus):
    config: StreamConfig
    held: StreamState = field(default_factory=StreamState)
    infos: Sequence[ConsumerInfo] = ()
    write_error: str = ""
    read_error: str = ""
    created_ns: int = START
    files: StreamStore = field(default_factory=StreamStore)
    mirrored: StreamSourceInfo | None = None
    sourced: tuple[StreamSourceInfo, ...] = ()

    def state(self) -> StreamState:
        return self.held

    def consumers(self, now_ns: int) -> Sequence[ConsumerInfo]:
        del now_ns
        return self.infos

    def mirror(self, now_ns: int) -> StreamSourceInfo | None:
        del now_ns
        return self.mirrored

    def sources(self, now_ns: int) -> tuple[StreamSourceInfo, ...]:
        del now_ns
        return self.sourced

    def store(self) -> StreamStore:
        return self.files


@dataclass
class FakeJetStreamAccount(AccountStatus):
    name: str = "$G"
    max_memory: int = AccountLimits().max_memory
    max_storage: int = AccountLimits().max_storage
    api_total: int = 3
    api_errors: int = 0
    held: list[FakeStream] = field(default_factory=list)

    def streams(self) -> Collection[FakeStream]:
        return self.held


@dataclass
class FakeJetStream(JetStreamStatus):
    echo: JetStreamEcho = JETSTREAM_ECHO
    api_level: int = 5
    api_inflight: int = 0
    held: list[FakeJetStreamAccount] = field(default_factory=list)
    lost: Sequence[LostStream] = ()
    lost_readers: Sequence[LostConsumer] = ()
    foreign: Sequence[str] = ()
    notes: Sequence[str] = ()
    stats: CommitStats | None = None

    def accounts(self) -> Collection[FakeJetStreamAccount]:
        return self.held

    def lost_streams(self) -> Sequence[LostStream]:
        return self.lost

    def foreign_entries(self) -> Sequence[str]:
        return self.foreign

    def journal_notes(self) -> Sequence[str]:
        return self.notes

    def lost_consumers(self) -> Sequence[LostConsumer]:
        return self.lost_readers

    def commits(self) -> CommitStats | None:
        return self.stats


@dataclass
class FakeView(ServerStatus):
    identity: Identity = IDENTITY
    echo: ServerEcho = SERVER_ECHO
    now: int = NOW
    counted: Counters = field(default_factory=Counters)
    state: Readiness = READY
    held_accounts: list[FakeAccount] = field(default_factory=lambda: [FakeAccount()])
    held_connections: list[FakeConnection] = field(default_factory=list)
    held_closed: ClosedConnections = field(default_factory=ClosedConnections)
    js: FakeJetStream | None = None
    held_remotes: list[RemoteState] = field(default_factory=list)
    held_replica: ReplicaState | None = None

    def now_ns(self) -> int:
        return self.now

    def date(self, time_ns: int) -> Timestamp:
        return Timestamp(time_ns)

    def counters(self) -> Counters:
        return self.counted

    def readiness(self) -> Readiness:
        return self.state

    def accounts(self) -> Collection[FakeAccount]:
        return self.held_accounts

    def connections(self) -> Collection[ConnectionView]:
        return self.held_connections

    def closed(self) -> Iterable[ClosedConnection]:
        return self.held_closed

    def remotes(self) -> Sequence[RemoteState]:
        return self.held_remotes

    def replica(self) -> ReplicaState | None:
        return self.held_replica

    def jetstream(self) -> JetStreamStatus | None:
        return self.js


def some_consumer(name: str = "C", description: str = "desc") -> ConsumerInfo:
    return ConsumerInfo(
        stream_name="S",
        name=name,
        created=Timestamp(START),
        config=ConsumerConfig(
            durable_name=name,
            name=name,
            description=description,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=seconds(30),
            max_waiting=512,
            max_ack_pending=1000,
            metadata={"_nats.req.level": "0", "_nats.ver": "2.15.1", "_nats.level": "5"},
        ),
        delivered=SequenceInfo(
            consumer_seq=2, stream_seq=2, last_active=Timestamp(NOW - 2 * SECOND)
        ),
        ack_floor=SequenceInfo(
            consumer_seq=1, stream_seq=1, last_active=Timestamp(NOW - SECOND // 2)
        ),
        num_ack_pending=1,
        num_pending=3,
        ts=Timestamp(NOW),
    )


def some_stream(name: str = "S") -> FakeStream:
    return FakeStream(
        config=StreamConfig(
            name=name,
            subjects=(f"{name.lower()}.>",),
            max_msgs=1000,
            max_bytes=ByteCount(100_000),
            duplicate_window=seconds(120),
            metadata={"_nats.req.level": "0", "_nats.ver": "2.15.1", "_nats.level": "5"},
        ),
        held=StreamState(
            messages=5,
            bytes=190,
            first_seq=1,
            first_ts=Timestamp(START),
            last_seq=5,
            last_ts=Timestamp(START + SECOND),
            num_subjects=5,
            consumer_count=1,
        ),
        infos=[some_consumer()],
    )


def busy_view() -> FakeView:
    """A server as the interop test makes the real one: two clients, one gone, two streams."""
    client = FakeConnection(
        cid=5,
        traffic=Traffic(in_msgs=11, in_bytes=906, out_msgs=13, out_bytes=2398),
        last_ns=NOW - SECOND,
        subs=[FakeSubscription(b"a.*", delivered=1), FakeSubscription(b"a.b", b"q", b"2", 1)],
    )
    gone = FakeConnection(cid=6, subs=[FakeSubscription(b"zz")])
    closed = ClosedConnections()
    closed.add(gone, START + SECOND, "Client Closed")
    memory = FakeStream(
        config=StreamConfig(
            name="M",
            subjects=("m.*",),
            storage=Storage.MEMORY,
            duplicate_window=seconds(120),
            metadata={"_nats.req.level": "0"},
        )
    )
    account = FakeJetStreamAccount(held=[some_stream(), memory])
    return FakeView(
        counted=Counters(total_connections=2),
        held_accounts=[
            FakeAccount(
                counts=SublistCounts(
                    subscriptions=2, inserts=3, removes=1, cached=4, fanout_total=6, fanout_max=2
                ),
                traffic=Traffic(in_msgs=12, in_bytes=916, out_msgs=15, out_bytes=2418),
                connection_count=1,
            ),
            FakeAccount(
                name="$SYS",
                is_system=True,
                jetstream_enabled=False,
                counts=SublistCounts(cached=0, fanout_total=0, fanout_max=0),
            ),
        ],
        held_connections=[client],
        held_closed=closed,
        js=FakeJetStream(held=[account]),
    )


@dataclass
class Asked:
    """What an application answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        return found[-1] if found else None

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Any, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> Asked:
    """Send one request to an ASGI application and collect the answer."""
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw,
        "raw_path": raw.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[dict[str, Any]] = []
    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not requests:
            await asyncio.Event().wait()  # the client stays until it has its answer
        return requests.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Asked(
        status=start["status"],
        headers=[(k.decode().lower(), v.decode()) for k, v in start["headers"]],
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
