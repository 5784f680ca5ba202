"""A client of a replica can do what it could do at the leader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.chaos_proxy import ChaosProxy
from tests.support.replicas import copied, pair, replica_of
from tests.support.waiting import until

import jetspark
from jetspark import ConsumerConfig, KeyValueConfig, StreamConfig
from jetspark.errors import ApiError, Error, NoResponders, PayloadTooLarge, WrongLastSequence
from jetspark.replica import ReplicaServer


async def test_messages_reach_all_clients_once_wherever_they_are_connected() -> None:
    async with pair() as at, await jetspark.connect(at.replica.client_url) as other:
        subscriptions = [
            await client.subscribe(subject)
            for client in (at.at_leader, at.at_replica, other)
            for subject in ("a.b", "a.*", "a.>")
        ]
        for client in (at.at_leader, at.at_replica, other):
            await client.flush()
        at.at_replica.publish("a.b", b"1", headers={"k": "v"})
        at.at_leader.publish("a.b", b"2", headers={"k": "v"})
        for subscription in subscriptions:
            messages = [await subscription.next() for _ in range(2)]
            assert sorted(message.data for message in messages) == [b"1", b"2"]
            assert all(message.headers["k"] == "v" for message in messages)
        for client in (at.at_leader, at.at_replica, other):
            await client.flush()

        assert [subscription.pending_msgs for subscription in subscriptions] == [0] * 9


async def test_a_drained_subscription_gets_all_that_its_client_sent_before() -> None:
    """Also what the replica had not passed on yet when it learned of the end."""
    async with pair() as at:
        subscription = await at.at_replica.subscribe("a")
        for number in range(2_000):
            at.at_replica.publish("a", b"%d" % number)
        draining = asyncio.ensure_future(subscription.drain(timeout=30))
        received = [message.data async for message in subscription]
        await draining

    assert received == [b"%d" % number for number in range(2_000)]


async def test_a_queue_group_has_one_receiver_for_each_message_over_both_servers() -> None:
    async with pair() as at, await jetspark.connect(at.replica.client_url) as other:
        members = [
            await client.subscribe("work", queue="q")
            for client in (at.at_leader, at.at_replica, other)
        ]
        limited = await other.subscribe("work", queue="q")
        await limited.unsubscribe(3)
        for client in (at.at_leader, at.at_replica, other):
            await client.flush()
        for n in range(300):
            (at.at_leader, at.at_replica, other)[n % 3].publish("work")
        for _ in range(2):
            for client in (at.at_leader, at.at_replica, other):
                await client.flush()

        counts = [member.pending_msgs for member in (*members, limited)]
        assert sum(counts) == 300
        assert min(counts[:3]) > 0
        assert counts[3] == 3


async def test_requests_are_answered_across_and_no_responders_is_reported_at_once() -> None:
    async with pair() as at:
        # The leader says it once, to any subscription of the replica that matches.
        await at.at_replica.subscribe("_INBOX.>")
        for client, subject in ((at.at_leader, "near"), (at.at_replica, "far")):
            await client.subscribe(subject, callback=lambda m: m.respond(b"re " + m.data))
            await client.flush()

        assert (await at.at_replica.request("near", b"1")).data == b"re 1"
        assert (await at.at_leader.request("far", b"2")).data == b"re 2"
        assert (await at.at_replica.request("far", b"3")).data == b"re 3"
        for client in (at.at_leader, at.at_replica):
            with pytest.raises(NoResponders):
                await client.request("nobody", timeout=5)


async def test_a_client_without_echo_receives_messages_of_others_and_not_its_own() -> None:
    async with pair() as at, await jetspark.connect(at.replica.client_url, echo=False) as quiet:
        heard = await quiet.subscribe("a")
        other = await at.at_replica.subscribe("a")
        await quiet.flush()
        await at.at_replica.flush()
        quiet.publish("a", b"mine")
        await quiet.flush()
        at.at_replica.publish("a", b"theirs")

        assert (await heard.next()).data == b"theirs"
        assert [(await other.next()).data for _ in range(2)] == [b"mine", b"theirs"]


async def test_streams_consumers_and_buckets_work_through_a_replica() -> None:
    async with pair() as at:
        js = at.at_replica.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        for n in range(10):
            await js.publish(f"s.{n}", b"%d" % n, headers={"n": str(n)})
        consumer = await stream.create_consumer(ConsumerConfig(durable="d"))
        messages = await consumer.fetch(10)
        for message in messages:
            await message.ack_sync()
        info = await consumer.info()
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        revision = await kv.create("k", b"1")
        with pytest.raises(WrongLastSequence):
            await kv.update("k", b"2", revision + 7)
        watcher = await kv.watch()
        await kv.put("k", b"3")
        seen = [await anext(watcher) for _ in range(2)]

        assert [message.data for message in messages] == [b"%d" % n for n in range(10)]
        assert (info.ack_floor.stream_seq, info.num_ack_pending) == (10, 0)
        assert [entry.value for entry in seen] == [b"1", b"3"]


async def test_subscriptions_and_requests_continue_when_the_leader_comes_back(
    tmp_path: Path,
) -> None:
    leader = jetspark.Server(store_dir=tmp_path / "leader")
    await leader.start()
    port = leader.port
    async with (
        replica_of(leader.client_url) as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        js = client.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("k", b"1")
        heard = await client.subscribe("news")
        queued = await client.subscribe("news", queue="q")
        await queued.unsubscribe(2)
        await client.flush()
        client.publish("news", b"0")
        await queued.next()
        await heard.next()
        await copied(replica, "KV_b", 1)
        await leader.close()
        await until(lambda: not replica.leader_is_up)
        client.publish("news", b"lost")
        with pytest.raises(Error):
            await kv.put("k", b"2", timeout=1)
        assert (await kv.get("k")).value == b"1"
        async with jetspark.Server(store_dir=tmp_path / "leader", port=port):
            await until(lambda: replica.leader_is_up)
            client.publish("news", b"1")
            client.publish("news", b"2")
            last = await kv.put("k", b"2")

            assert [(await heard.next()).data for _ in range(2)] == [b"1", b"2"]
            assert (await queued.next()).data == b"1"
            await until(lambda: queued.is_closed)
            assert (await kv.get("k", min_last_revision=last)).value == b"2"
            await copied(replica, "KV_b", last)


async def test_a_way_to_the_leader_that_swallows_everything_is_noticed_and_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        jetspark.Server() as leader,
        ChaosProxy(f"127.0.0.1:{leader.port}") as proxy,
        replica_of(proxy.url) as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        js = client.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("k", b"1")
        heard = await client.subscribe("news")
        await copied(replica, "KV_b", 1)
        proxy.black_hole()

        assert (await kv.get("k")).value == b"1"
        await until(lambda: "did not answer" in caplog.text and replica.leader_is_up)
        client.publish("news", b"again")
        last = await kv.put("k", b"2")
        assert (await heard.next()).data == b"again"
        assert (await kv.get("k", min_last_revision=last)).value == b"2"
        await copied(replica, "KV_b", last)


async def test_a_read_only_replica_refuses_writes_and_says_why() -> None:
    async with pair(read_only=True) as at:
        there = await at.at_leader.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await there.put("k", b"1")
        await copied(at.replica, "KV_b", 1)
        js = at.at_replica.jetstream()
        kv = await js.key_value("b")
        watcher = await kv.watch()

        with pytest.raises(ApiError, match="read-only replica"):
            await kv.put("k", b"2")
        with pytest.raises(ApiError, match="read-only replica"):
            await js.delete_key_value("b")
        with pytest.raises(ApiError, match="read-only replica"):
            await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        assert (await kv.get("k")).value == b"1"
        first = await anext(watcher)
        assert first is not None
        assert first.value == b"1"
        await at.at_leader.subscribe("svc", callback=lambda m: m.respond(b"yes"))
        await at.at_leader.flush()
        assert (await at.at_replica.request("svc")).data == b"yes"


async def test_clients_authenticate_at_the_replica_and_the_replica_at_the_leader(
    tmp_path: Path,
) -> None:
    leader_file, replica_file = tmp_path / "leader.conf", tmp_path / "replica.conf"
    leader_file.write_text(
        'port: -1\nhost: 127.0.0.1\nauthorization { user: repl, password: "s3cret" }\n'
        f'jetstream {{ store_dir: "{tmp_path}/l" }}'
    )
    async with jetspark.Server(config=leader_file) as leader:
        replica_file.write_text(
            "port: -1\nhost: 127.0.0.1\n"
            "authorization { users [ { user: ann, password: pw, permissions { publish: "
            '["$JS.API.>", "$KV.>"], subscribe: "_INBOX.>" } } ] }\n'
            "jetspark { remotes { hub { url: "
            f'"nats://127.0.0.1:{leader.port}", user: repl, password: "s3cret" }} }}\n'
            f'replica {{ of: hub, streams: "KV_*" }} }}\njetstream {{ store_dir: "{tmp_path}/r" }}'
        )
        async with ReplicaServer(config=replica_file) as replica:
            with pytest.raises(Error):
                await jetspark.connect(replica.client_url, user="repl", password="s3cret")
            async with await jetspark.connect(
                replica.client_url, user="ann", password="pw"
            ) as client:
                kv = await client.jetstream().create_key_value(KeyValueConfig(bucket="b"))
                await kv.put("k", b"1")
                assert (await kv.get("k")).value == b"1"
                with pytest.raises(Error, match=r"(?i)permission"):
                    await client.request("secret", timeout=1)


async def test_what_the_leader_forbids_the_replica_its_clients_hear(tmp_path: Path) -> None:
    file = tmp_path / "leader.conf"
    file.write_text(
        "port: -1\nhost: 127.0.0.1\nauthorization { users [ { user: r, password: r, "
        'permissions { publish: ">", subscribe: { deny: "secret" } } } ] }\n'
        f'jetstream {{ store_dir: "{tmp_path}/l" }}'
    )
    errors: list[Exception] = []
    async with (
        jetspark.Server(config=file) as leader,
        replica_of(leader.client_url.replace("//", "//r:r@")) as replica,
        await jetspark.connect(replica.client_url, error_callback=errors.append) as client,
    ):
        subscription = await client.subscribe("secret")
        await until(lambda: subscription.is_closed)

        assert "secret" in str(errors[0])


async def test_no_message_is_larger_than_the_leader_takes(tmp_path: Path) -> None:
    file = tmp_path / "leader.conf"
    file.write_text("port: -1\nhost: 127.0.0.1\nmax_payload: 1000\n")
    async with (
        jetspark.Server(config=file) as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        heard = await client.subscribe("a")
        with pytest.raises(PayloadTooLarge):
            client.publish("a", b"x" * 1001)
        client.publish("a", b"x" * 1000)

        assert len((await heard.next()).data) == 1000
        assert client.server_info.max_payload == 1000
        # A client that does not look at INFO is refused, too.
        reader, writer = await asyncio.open_connection("127.0.0.1", replica.port)
        writer.write(b'CONNECT {"verbose":false}\r\nPUB a 1001\r\n')
        assert b"Maximum Payload Violation" in await reader.read()
        writer.close()


async def test_info_says_what_the_leader_can_do_and_how_the_way_there_is() -> None:
    async with pair() as at, replica_of(at.replica.client_url) as third:
        async with await jetspark.connect(third.client_url) as client:
            info = client.server_info.jetspark

        assert info is not None
        assert info.min_last_seq
        assert info.path == (third.server_id, at.replica.server_id, at.leader._inner.server_id)
