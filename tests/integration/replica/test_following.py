"""Which streams a replica copies, and that copies stay copies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.support.gated_files import GatedFiles
from tests.support.replicas import FAST, Stall, ask, copied, pair, replica_of
from tests.support.servers import ServerProcess
from tests.support.waiting import until

import jetspark
from jetspark import KeyValueConfig, StreamConfig
from jetspark.api.enums import Retention
from jetspark.engine.replicate.origin import RemoteOrigin
from jetspark.replica import ReplicaServer
from jetspark.replica.feed import RemoteFeed
from jetspark.replica.reconciler import CopyReconciler
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.server import Server as LeaderServer
from jetspark.units import ByteCount


def held(replica: ReplicaServer, name: str) -> int:
    """How many messages a copy has; -1 without one."""
    followed = replica.followed.get(name)
    stream = followed.find(name) if followed is not None else None
    return stream.log.index.messages if stream is not None else -1


def waiting(replica: ReplicaServer, name: str) -> int:
    """How many messages of a stream have come and were not stored."""
    stream = replica.followed[name].find(name)
    assert stream is not None
    origin = stream.copies[0].origin
    assert isinstance(origin, RemoteOrigin)
    assert isinstance(origin._feed, RemoteFeed)
    return sum(len(chunk) for chunk in origin._feed._waiting)


def following(replica: ReplicaServer) -> CopyReconciler:
    assert replica._parts is not None
    return replica._parts.reconciler


async def test_streams_that_match_come_and_go_with_the_leaders() -> None:
    async with pair() as at:
        await at.js.create_stream(StreamConfig(name="OTHER", subjects=("other",)))
        one = await at.js.create_key_value(KeyValueConfig(bucket="one"))
        await one.put("k", b"1")
        await copied(at.replica, "KV_one", 1)
        await at.js.create_key_value(KeyValueConfig(bucket="two"))
        await copied(at.replica, "KV_two", 0)
        await at.js.delete_key_value("one")
        await until(lambda: list(at.replica.followed) == ["KV_two"])

        assert (await ask(at.at_replica, "$JS.API.DIRECT.GET.KV_one", b'{"seq":1}')).status == 503


async def test_a_stream_created_again_is_copied_again() -> None:
    async with pair() as at:
        kv = await at.js.create_key_value(KeyValueConfig(bucket="b"))
        for _ in range(5):
            await kv.put("k", b"old")
        await copied(at.replica, "KV_b", 5)
        before = at.replica.followed["KV_b"].created
        await at.js.delete_key_value("b")
        kv = await at.js.create_key_value(KeyValueConfig(bucket="b"))
        last = await kv.put("k", b"new")
        await until(
            lambda: (
                "KV_b" in at.replica.followed
                and at.replica.followed["KV_b"].created != before
                and at.replica.followed["KV_b"].whole
            )
        )
        await copied(at.replica, "KV_b", last)

        reader = await at.at_replica.jetstream().key_value("b")
        assert (await reader.get("k", min_last_revision=last)).value == b"new"


async def test_a_stream_created_again_through_the_replica_is_not_read_from_the_old_copy() -> None:
    async with pair() as at:
        js = at.at_replica.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        for _ in range(5):
            await kv.put("k", b"old")
        await copied(at.replica, "KV_b", 5)
        await js.delete_key_value("b")
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        last = await kv.put("k", b"new")

        assert (await kv.get("k", min_last_revision=last)).value == b"new"
        assert (await kv.get("k")).value == b"new"


async def test_changed_limits_are_followed() -> None:
    async with pair(streams=["S"]) as at:
        stream = await at.js.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        for n in range(9):
            await at.js.publish(f"s.{n % 3}", b"%d" % n)
        await copied(at.replica, "S", 9)
        await at.js.update_stream(
            StreamConfig(name="S", subjects=("s.>",), max_msgs_per_subject=1, allow_direct=True)
        )
        await until(lambda: held(at.replica, "S") == 3)
        await at.js.update_stream(
            StreamConfig(
                name="S", subjects=("s.>",), max_msgs_per_subject=1, max_bytes=ByteCount(80)
            )
        )
        left = (await stream.info()).state.messages

        assert left < 3
        await until(lambda: held(at.replica, "S") == left)


async def test_deletes_and_purges_are_followed() -> None:
    async with pair(streams=["S"]) as at:
        stream = await at.js.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        for n in range(10):
            await at.js.publish(f"s.{n % 2}", b"%d" % n)
        await copied(at.replica, "S", 10)
        await stream.delete_msg(5)
        await stream.delete_msg(8)
        await until(lambda: held(at.replica, "S") == 8)
        await stream.purge(seq=4)
        await until(lambda: held(at.replica, "S") == 5)
        through = await at.at_replica.jetstream().stream("S")
        await through.purge(subject="s.0")
        await until(lambda: held(at.replica, "S") == 3)
        await stream.purge()
        await until(lambda: held(at.replica, "S") == 0)
        last = (await at.js.publish("s.0", b"new")).seq
        await copied(at.replica, "S", last)

        assert (last, held(at.replica, "S")) == (11, 1)


async def test_copies_of_an_earlier_run_answer_before_the_leader_does(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path / "leader") as leader:
        async with (
            replica_of(leader.client_url, store_dir=tmp_path / "replica") as replica,
            await jetspark.connect(leader.client_url) as client,
        ):
            kv = await client.jetstream().create_key_value(KeyValueConfig(bucket="b"))
            await kv.put("k", b"1")
            await copied(replica, "KV_b", 1)
        url = leader.client_url

    async with (
        replica_of(url, store_dir=tmp_path / "replica") as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        reply = await ask(client, "$JS.API.DIRECT.GET.KV_b.$KV.b.k")

        assert reply.data == b"1"
        assert not replica.leader_is_up


async def test_clients_find_the_replicas_of_a_stream_the_nearest_first() -> None:
    """ADR-8 1.2, replica auto discovery: it names the feature, the wire form is ours."""
    async with pair() as at, replica_of(at.leader.client_url, streams=["X"], read_only=True):
        await at.js.create_key_value(KeyValueConfig(bucket="b"))
        await copied(at.replica, "KV_b", 0)

        everybody = await at.at_replica.replicas(timeout=1)
        found = await at.at_leader.replicas("KV_b", timeout=1)

        assert sorted(replica.read_only for replica in everybody) == [False, True]
        assert [replica.url for replica in found] == [at.replica.client_url]
        assert found[0].streams == ("KV_b",)
        async with await jetspark.connect(found[0].url) as near:
            kv = await near.jetstream().key_value("b")
            await kv.put("k", b"1")


async def test_a_deployment_without_replicas_has_none() -> None:
    async with jetspark.Server() as leader, await jetspark.connect(leader.client_url) as client:
        assert await client.replicas(timeout=1) == []


async def test_it_says_what_it_waits_for_and_what_it_cannot_copy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pair(streams=["KV_*", "Q"]) as at:
        await until(lambda: "no stream at the leader matches KV_*, Q" in caplog.text)
        await at.js.create_stream(
            StreamConfig(name="Q", subjects=("q",), retention=Retention.WORKQUEUE)
        )
        await until(lambda: "stream Q is not copied" in caplog.text)

        assert "workqueue retention" in caplog.text
        assert at.replica.followed == {}


async def test_a_leader_that_is_not_there_is_looked_for_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with jetspark.Server() as elsewhere:
        port = elsewhere.port
    async with replica_of(f"nats://127.0.0.1:{port}") as replica:
        assert "The leader cannot be reached" in caplog.text
        assert f"127.0.0.1:{port}" in caplog.text
        async with jetspark.Server(port=port):
            await until(lambda: replica.leader_is_up)


async def test_a_store_with_streams_of_its_own_is_left_alone(tmp_path: Path) -> None:
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        await client.jetstream().create_stream(StreamConfig(name="MINE", subjects=("mine",)))

    with pytest.raises(ConfigRefused, match="MINE that is not a copy"):
        await replica_of("nats://127.0.0.1:1", store_dir=tmp_path).start()
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        assert [name async for name in client.jetstream().stream_names()] == ["MINE"]


async def test_wrong_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match="the leader is missing"):
        ReplicaServer()
    with pytest.raises(ConfigRefused, match="unknown remote"):
        ReplicaServer("hub")
    file = tmp_path / "two.conf"
    file.write_text(
        "accounts { A { users [{user: a, password: a}] }, B { users [{user: b, password: b}] } }\n"
    )
    with pytest.raises(ConfigRefused, match=r"one account.*A, B"):
        await ReplicaServer("nats://127.0.0.1:1", config=file, port=-1).start()
    file.write_text("accounts { A { users [{user: a, password: a}] } }\n")
    with pytest.raises(ConfigRefused, match="account A has no JetStream"):
        await ReplicaServer("nats://127.0.0.1:1", config=file, port=-1, store_dir=tmp_path).start()


async def test_what_was_deleted_while_it_was_being_copied_is_not_read_from_the_copy() -> None:
    """It has come and is not stored yet: the copy is compared when it exists, not before."""
    async with pair(streams=["S"]) as at:
        js = at.at_replica.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",), allow_direct=True))
        await js.publish("s", b"1")
        await copied(at.replica, "S", 1)
        stall = Stall(at.replica)
        stall.begin()
        await js.publish("s", b"2")
        await js.publish("s", b"3")
        await until(lambda: waiting(at.replica, "S") == 2)
        await stream.delete_msg(2)
        looks = following(at.replica)._looks
        await until(lambda: following(at.replica)._looks >= looks + 4)
        stall.end()
        await until(lambda: held(at.replica, "S") == 3)

        gone = await ask(at.at_replica, "$JS.API.DIRECT.GET.S", b'{"seq":2}')

        assert gone.status == 404
        await until(lambda: not following(at.replica).suspects)
        assert held(at.replica, "S") == 2


async def test_a_delete_that_the_leader_confirms_late_is_not_read_here(tmp_path: Path) -> None:
    """Checks of the leader's stream before its disk has the deletion see no difference."""
    files = GatedFiles()
    async with (
        LeaderServer(store_dir=tmp_path, port=-1, jetstream=True, files=files) as leader,
        replica_of(leader.client_url, streams=["S"]) as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        js = client.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",), allow_direct=True))
        await js.publish("s", b"first")
        await js.publish("s", b"second")
        await copied(replica, "S", 2)
        await until(lambda: not following(replica).suspects)
        files.gate.clear()
        deleting = asyncio.ensure_future(stream.delete_msg(1))
        await until(lambda: files.waiting > 0 and "S" in following(replica).suspects)
        await until(lambda: not following(replica).suspects)
        files.gate.set()
        await deleting

        gone = await ask(client, "$JS.API.DIRECT.GET.S", b'{"seq":1}')

        assert gone.status == 404


async def test_a_delete_is_followed_while_the_stream_is_written_to() -> None:
    async with pair(streams=["S"]) as at:
        js = at.at_replica.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",), allow_direct=True))
        await js.publish("s", b"first")
        await copied(at.replica, "S", 1)
        over = asyncio.Event()

        async def write() -> None:
            while not over.is_set():
                await at.js.publish("s", b"more")

        writing = asyncio.ensure_future(write())
        await stream.delete_msg(1)
        await until(lambda: not following(at.replica).suspects)
        gone = await ask(at.at_replica, "$JS.API.DIRECT.GET.S", b'{"seq":1}')
        over.set()
        await writing

        assert gone.status == 404


@pytest.mark.parametrize("kind", ["jetspark", "nats-server"])
async def test_a_stream_created_again_is_noticed_without_advisories(
    kind: str, tmp_path: Path
) -> None:
    """The consumer of the copy ends with its stream, which is noticed at once."""
    config = tmp_path / "leader.conf"
    config.write_text(
        "authorization { users: [{user: u, password: p, permissions: "
        '{publish: ">", subscribe: {deny: "$JS.EVENT.>"}}}] }'
    )
    seldom = msgspec.structs.replace(FAST, poll=600.0)
    leader = ServerProcess(kind, tmp_path, "-js", "-c", str(config))
    url = leader.url.replace("//", "//u:p@")
    try:
        async with await jetspark.connect(url) as at_leader:
            js = at_leader.jetstream()
            kv = await js.create_key_value(KeyValueConfig(bucket="cfg"))
            for _ in range(3):
                await kv.put("k", b"old")
            async with (
                ReplicaServer(url, streams=["KV_*"], times=seldom) as replica,
                await jetspark.connect(replica.client_url) as at_replica,
            ):
                await copied(replica, "KV_cfg", 3)
                near = await at_replica.jetstream().key_value("cfg")
                await js.delete_key_value("cfg")
                kv = await js.create_key_value(KeyValueConfig(bucket="cfg"))
                last = await kv.put("k", b"new")

                async with asyncio.timeout(5):
                    while (await near.get("k", min_last_revision=last)).value != b"new":
                        await asyncio.sleep(0.01)
    finally:
        leader.kill()
