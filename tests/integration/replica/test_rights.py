"""A replica gives no one more than its own configuration and the leader do (docs/replicas.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.replicas import FAST, ask, copied
from tests.support.servers import ServerProcess
from tests.support.waiting import until

import jetspark
from jetspark import Client, ConsumerConfig, StreamConfig
from jetspark.api.enums import AckPolicy, Retention
from jetspark.replica import ReplicaServer
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_file

ADMIN = "{ user: admin, password: pw }"


class Secured(NamedTuple):
    """A leader, a replica with users, and clients: of the leader, and of the replica's users."""

    replica: ReplicaServer
    at_leader: Client
    admin: Client
    eve: Client


@asynccontextmanager
async def leading(kind: str, folder: Path) -> AsyncIterator[str]:
    """A leader, by its URL; nats-server has the domain ``hub``."""
    if kind == "jetspark":
        async with jetspark.Server() as leader:
            yield leader.client_url
        return
    file = folder / "leader.conf"
    file.write_text("jetstream { domain: hub }\n")
    running = ServerProcess(kind, folder / "leader", "-c", str(file))
    try:
        yield running.url
    finally:
        running.kill()


@asynccontextmanager
async def secured(
    folder: Path, permissions: str = "", *, kind: str = "jetspark", **settings: Any
) -> AsyncIterator[Secured]:
    users = f"{ADMIN}, {{ user: eve, password: pw, permissions {{ {permissions} }} }}"
    async with leading(kind, folder) as url:
        file = folder / "replica.conf"
        read_only = "true" if settings.get("read_only") else "false"
        file.write_text(
            f"port: -1\nhost: 127.0.0.1\nauthorization {{ users [ {users} ] }}\n"
            f'jetspark {{ replica {{ of: "{url}", read_only: {read_only} }} }}\n'
        )
        async with (
            ReplicaServer(config=file, store_dir=folder / "copies", times=FAST) as replica,
            await jetspark.connect(url) as at_leader,
            await jetspark.connect(replica.client_url, user="admin", password="pw") as admin,
            await jetspark.connect(replica.client_url, user="eve", password="pw") as eve,
        ):
            yield Secured(replica, at_leader, admin, eve)


async def raw(replica: ReplicaServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection of eve's."""
    reader, writer = await asyncio.open_connection("127.0.0.1", replica.port, limit=1 << 24)
    options = {"user": "eve", "pass": "pw", "verbose": False, "headers": True}
    writer.write(b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode())
    while not (await reader.readline()).startswith(b"PONG"):
        pass
    return reader, writer


async def test_a_subscription_that_ends_gets_nothing_that_is_denied(tmp_path: Path) -> None:
    async with secured(tmp_path, 'subscribe { deny: "secret.>" }') as at:
        reader, writer = await raw(at.replica)
        seen = bytearray()
        for sid in range(40):
            writer.write(b"SUB > %d\r\nPING\r\n" % sid)
            while seen.count(b"PONG\r\n") <= sid:
                seen += await asyncio.wait_for(reader.read(1 << 16), 10)
            # The leader has these in flight when it learns that the subscription is over.
            for _ in range(20):
                at.at_leader.publish("secret.x", b"data")
                at.at_leader.publish("open.x", b"data")
            writer.write(b"UNSUB %d\r\n" % sid)
        await at.at_leader.flush()
        writer.write(b"PING\r\n")
        while seen.count(b"PONG\r\n") <= 40:
            seen += await asyncio.wait_for(reader.read(1 << 16), 10)
        writer.close()

        assert b"MSG open.x" in seen
        assert b"MSG secret.x" not in seen


async def test_clients_see_neither_copies_nor_answers_that_are_the_replicas(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path, 'subscribe { allow: "_INBOX.>" }') as at:
        patterns = ("_INBOX.>", "_INBOX.*", "_INBOX.*.*", "_INBOX.*.>")
        taps = [await at.eve.subscribe(pattern) for pattern in patterns]
        await at.eve.flush()
        await stored(at)
        # A read that is passed on is asked by the replica, for its client.
        unmet = b'{"seq":1,"min_last_seq":2}'
        asked = asyncio.create_task(ask(at.admin, "$JS.API.DIRECT.GET.S", unmet))
        await at.at_leader.jetstream().publish("s.b", b"2")
        assert (await asked).data == b"1"
        await copied(at.replica, "S", 2)
        await at.eve.flush()
        seen = []
        for tap in taps:
            while tap.pending_msgs:
                message = await tap.next()
                seen.append(message)
        assert not [message for message in seen if message.reply.startswith("$JS.ACK.")]
        assert not [message for message in seen if message.subject.startswith("s.")]
        own = at.replica._own
        assert not [message for message in seen if own.has(message.subject.encode(), b"")]

        await at.eve.flush()
        at.eve.publish(f"{own.inbox}.1", b"made up")
        at.eve.publish("svc", b"", reply=f"{own.inbox}.1")
        heard = await at.at_leader.subscribe(">")
        await at.at_leader.flush()
        await at.eve.flush()
        await at.at_leader.flush()
        assert heard.pending_msgs == 0


async def test_what_one_member_of_a_queue_may_not_have_another_gets(tmp_path: Path) -> None:
    async with secured(tmp_path, 'subscribe { deny: "w.secret" }') as at:
        denied = await at.eve.subscribe("w.*", queue="q")
        await at.eve.flush()
        allowed = await at.admin.subscribe("w.>", queue="q")
        await at.admin.flush()
        for _ in range(40):
            at.at_leader.publish("w.secret")
        for client in (at.at_leader, at.eve, at.admin):
            await client.flush()

        assert (denied.pending_msgs, allowed.pending_msgs) == (0, 40)


async def test_what_is_sent_to_a_denied_inbox_is_not_seen_by_a_tap(tmp_path: Path) -> None:
    async with secured(tmp_path, 'subscribe { deny: "_INBOX.private.>" }') as at:
        await stored(at)
        tap = await at.eve.subscribe(">")
        await at.eve.flush()
        private = await at.at_leader.subscribe("_INBOX.private.1")
        body = {"stream_name": "S", "config": {"name": "c"}}
        await ask(at.at_leader, "$JS.API.CONSUMER.CREATE.S.c", json.dumps(body).encode())
        at.at_leader.publish(
            "$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":1}', reply="_INBOX.private.1"
        )
        assert (await private.next()).data == b"1"
        await at.eve.flush()
        while tap.pending_msgs:
            assert (await tap.next()).subject != "s.a"


async def stored(at: Secured) -> None:
    """Streams with one message each; Q is a work queue."""
    js = at.at_leader.jetstream()
    await js.create_stream(StreamConfig(name="S", subjects=("s.>",), allow_direct=True))
    await js.create_stream(StreamConfig(name="Q", subjects=("q",), retention=Retention.WORKQUEUE))
    await js.publish("s.a", b"1")
    await js.publish("q", b"1")
    await copied(at.replica, "S", 1)


WRITES = [
    ("$JS.API.STREAM.DELETE.S", {}),
    ("$JS.hub.API.STREAM.DELETE.S", {}),
    ("$JS.API.STREAM.PURGE.S", {}),
    ("$JS.hub.API.STREAM.PURGE.S", {}),
    ("$JS.API.STREAM.CREATE.N", {"name": "N", "subjects": ["n"]}),
    ("$JS.API.STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "t"]}),
    ("$JS.API.STREAM.MSG.DELETE.S", {"seq": 1}),
    ("$JS.API.STREAM.RESTORE.N", {"config": {"name": "N"}, "state": {}}),
    ("$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": "s.copy"}),
    ("$JS.API.STREAM.SOMETHING.S", {}),
    ("$JS.API.CONSUMER.DELETE.S.durable", {}),
    ("$JS.API.CONSUMER.PAUSE.S.durable", {"pause_until": "2099-01-01T00:00:00Z"}),
    ("$JS.API.CONSUMER.RESET.S.durable", {}),
    ("$JS.API.CONSUMER.UNPIN.S.durable", {"group": "g"}),
    (
        "$JS.API.CONSUMER.DURABLE.CREATE.S.d",
        {"stream_name": "S", "config": {"durable_name": "d"}},
    ),
    ("$JS.API.CONSUMER.CREATE.S.d", {"stream_name": "S", "config": {"durable_name": "d"}}),
    ("$JS.API.CONSUMER.CREATE.S.d", {"Stream_Name": "S", "Config": {"Durable_Name": "d"}}),
    (
        "$JS.API.CONSUMER.CREATE.S.durable",
        {"stream_name": "S", "config": {"name": "durable", "max_deliver": 2}},
    ),
    (
        "$JS.API.CONSUMER.CREATE.S.e",
        {"stream_name": "S", "config": {"name": "e", "deliver_subject": "q"}},
    ),
    ("$JS.API.CONSUMER.CREATE.Q.e", {"stream_name": "Q", "config": {"name": "e"}}),
    ("$JS.API.CONSUMER.MSG.NEXT.Q.worker", {"batch": 1}),
    ("$JS.API.META.LEADER.STEPDOWN", {}),
    ("$JS.API.ACCOUNT.PURGE.A", {}),
    ("$JS.hub.API.s.b", {}),
    ("s.b", {}),
    ("q", {}),
]


@pytest.mark.parametrize("kind", ["jetspark", "nats-server"])
async def test_a_read_only_replica_lets_no_write_through_whatever_its_subject(
    tmp_path: Path, kind: str
) -> None:
    async with secured(tmp_path, read_only=True, kind=kind) as at:
        await stored(at)
        js = at.at_leader.jetstream()
        explicit = AckPolicy.EXPLICIT
        await (await js.stream("S")).create_consumer(ConsumerConfig(durable="durable"))
        worker = await (await js.stream("Q")).create_consumer(
            ConsumerConfig(durable="worker", ack_policy=explicit)
        )
        [pulled] = await worker.fetch(1)
        before = await state(at.at_leader)

        for subject, body in WRITES:
            answer = await ask(at.eve, subject, json.dumps(body).encode())
            said = answer.data.decode() + answer.header_block.decode()
            # The leader, which knows that consumer, is asked whether it is the same one.
            known = subject == "$JS.API.CONSUMER.CREATE.S.durable"
            expected = "already exists" if known else "read-only replica"
            assert expected in said, (subject, said)
            at.eve.publish(subject, json.dumps(body).encode())
        # Where answers go, and acknowledgements, are looked at as well.
        for subject in ("svc", "$JS.API.INFO", "$JS.API.STREAM.INFO.S"):
            for reply in ("s.b", "q", "$JS.API.STREAM.DELETE.S"):
                at.eve.publish(subject, b"", reply=reply)
        at.eve.publish(pulled.reply, b"+ACK")
        at.eve.publish("$JS.SNAPSHOT.RESTORE.S.x", b"chunk")
        at.eve.publish("$JS.EVENT.ADVISORY.STREAM.DELETED.S", b"{}")
        await at.eve.flush()
        await at.at_leader.flush()

        assert await state(at.at_leader) == before


async def state(client: Client) -> list[Any]:
    """All that the leader stores, and where its durable consumers are."""
    found: list[Any] = []
    for verb in ("STREAM.INFO.S", "STREAM.INFO.Q"):
        info = json.loads((await ask(client, f"$JS.API.{verb}")).data)
        found.append((info["config"], info["state"]["messages"], info["state"]["last_seq"]))
    for name in ("S.durable", "Q.worker"):
        info = json.loads((await ask(client, f"$JS.API.CONSUMER.INFO.{name}")).data)
        found += [info["config"], info["ack_floor"]["stream_seq"], info["num_ack_pending"]]
    names = json.loads((await ask(client, "$JS.API.STREAM.NAMES")).data)
    return [*found, names["streams"]]


async def test_a_read_only_replica_lets_clients_read_with_consumers(tmp_path: Path) -> None:
    async with secured(tmp_path, read_only=True) as at:
        await stored(at)
        js = at.eve.jetstream()
        stream = await js.stream("S")
        async with stream.ordered_consumer() as ordered:
            assert (await ordered.next()).data == b"1"
        consumer = await stream.create_consumer(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT))
        [message] = await consumer.fetch(1)
        await message.ack_sync()
        name = (await consumer.info()).name
        await consumer.delete()
        assert (await stream.get_msg(seq=1)).data == b"1"
        names = json.loads((await ask(at.at_leader, "$JS.API.CONSUMER.NAMES.S")).data)

        assert name not in names["consumers"]
        assert json.loads((await ask(at.eve, "$JS.API.INFO")).data)["streams"] == 2


async def test_before_a_read_only_replica_knows_what_is_stored_nothing_passes(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path, read_only=True) as at:
        assert at.replica._parts is not None
        stored = at.replica._parts.stored
        await until(lambda: stored.known)
        # No list of streams arrives from now on.
        at.replica._parts.reconciler._on_streams = lambda _configs: None
        stored.known = False
        heard = await at.at_leader.subscribe(">")
        await at.at_leader.flush()
        answer = (await ask(at.eve, "anything")).data
        at.eve.publish("$JS.API.INFO", b"", reply="anything")
        await at.eve.flush()
        await at.at_leader.flush()

        assert b"has not arrived yet" in answer
        # What the replica asks for itself is received as well.
        seen = {(await heard.next()).subject for _ in range(heard.pending_msgs)}
        assert not seen & {"anything", "$JS.API.INFO"}


async def test_a_discovery_request_at_a_replica_writes_nothing_for_its_sender(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as at:
        await stored(at)
        heard = [await at.at_leader.subscribe(subject) for subject in ("s.>", "$JS.API.>")]
        for reply in ("s.new", "$JS.API.STREAM.PURGE.S", "$JS.API.STREAM.DELETE.S"):
            at.at_leader.publish("$SRV.PING.jetspark-replica", b"", reply=reply)
        answer = await ask(at.at_leader, "$SRV.PING.jetspark-replica")

        assert json.loads(answer.data)["name"] == "jetspark-replica"
        await at.at_leader.flush()
        seen = set()
        for tap in heard:
            while tap.pending_msgs:
                seen.add((await tap.next()).subject)
        assert not seen & {"s.new", "$JS.API.STREAM.PURGE.S", "$JS.API.STREAM.DELETE.S"}


OPEN = [
    "port: -1",
    "port: -1\nhost: 0.0.0.0",
    'port: -1\nhost: "::"',
    "port: -1\naccounts { $SYS { users [ { user: s, password: s } ] } }",
]
CREDENTIALS = [
    "url: nats://leader:4222, user: u, password: p",
    "url: nats://u:p@leader:4222",
    "url: nats://token@leader:4222",
    "url: nats://leader:4222, token: t",
    "url: nats://leader:4222, credentials: /c",
    "url: nats://leader:4222, nkey: /c",
]
CLOSED = [
    "port: -1\nhost: 127.0.0.1",
    'port: -1\nhost: "::1"',
    "port: -1\nhost: localhost",
    "port: -1\nauthorization { token: t }",
    "port: -1\nauthorization { user: u, password: p }",
    "port: -1\nauthorization { users [ { user: u, password: p } ] }\nno_auth_user: u",
    "port: -1\naccounts { A { users [ { user: a, password: p } ], jetstream: enabled } }",
]


def replica_with(folder: Path, listens: str, leader: str) -> ReplicaServer:
    file = folder / "replica.conf"
    file.write_text(
        f"{listens}\njetspark {{ remotes {{ hub {{ {leader} }} }}, replica: {{ of: hub }} }}\n"
    )
    return ReplicaServer(config=file, store_dir=folder / "copies")


@pytest.mark.parametrize("listens", OPEN)
@pytest.mark.parametrize("leader", CREDENTIALS)
async def test_a_replica_does_not_lend_its_credentials_to_all_clients(
    tmp_path: Path, listens: str, leader: str
) -> None:
    with pytest.raises(ConfigRefused, match="requires none from its own clients"):
        replica_with(tmp_path, listens, leader)


@pytest.mark.parametrize("listens", CLOSED)
async def test_a_replica_with_credentials_serves_its_own_users_or_this_machine(
    tmp_path: Path, listens: str
) -> None:
    replica_with(tmp_path, listens, CREDENTIALS[0])


@pytest.mark.parametrize("listens", OPEN)
async def test_a_replica_without_credentials_may_be_open(tmp_path: Path, listens: str) -> None:
    replica_with(tmp_path, listens, "url: nats://leader:4222")


async def test_a_reload_that_would_open_a_replica_is_refused(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, CLOSED[4], CREDENTIALS[0])
    file = tmp_path / "replica.conf"
    file.write_text(file.read_text().replace("authorization", "# authorization"))
    with pytest.raises(ConfigRefused, match="requires none from its own clients"):
        await replica.reload(load_file(str(file), {}))
