"""Consumers, watches and read-after-write on a real cluster of three."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cluster import Cluster
from tests.support.remotes import HUB, as_copied, caught_up, copying, info_until, make, rows

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    JetStream,
    JetStreamMessage,
    KeyValue,
    KeyValueConfig,
    ObjectStoreConfig,
    StreamConfig,
    connect,
)
from jetspark.errors import ApiError, Error, NoResponders, RequestTimeout

QUICK: Any = {
    "reconnect_wait": 0.02,
    "reconnect_wait_max": 0.2,
    "error_callback": lambda _error: None,
}

# One worker, one cluster.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("cluster, JetStream")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for the module; who kills a node starts it again."""
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


async def opened(cluster: Cluster) -> Client:
    await cluster.wait_ready()
    return await connect(cluster.urls, **QUICK)


async def step_down(nc: Client, stream: str) -> None:
    """Have another node lead the stream."""
    await nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", b"", timeout=10)


async def published(js: JetStream, subject: str, n: int) -> None:
    """Publish until it is acknowledged: there may be no leader now."""
    async with asyncio.timeout(30):
        while True:
            try:
                await js.publish(subject, b"%d" % n, msg_id=f"{subject}-{n}", timeout=2)
            except (RequestTimeout, NoResponders, ApiError):
                await asyncio.sleep(0.05)
            else:
                return


async def put_again(kv: KeyValue, key: str, value: bytes) -> int:
    async with asyncio.timeout(30):
        while True:
            try:
                return await kv.put(key, value, timeout=2)
            except Error:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["pull", "ordered-pull", "ordered-push"])
async def test_reading_continues_over_a_step_down_and_a_killed_node(
    cluster: Cluster, name: str, kind: str
) -> None:
    async with await opened(cluster) as nc:
        js = nc.jetstream(timeout=10.0)
        stream = await js.create_stream(
            StreamConfig(name=name, subjects=(name,), num_replicas=3), timeout=20
        )
        if kind == "pull":
            consumer = await stream.create_consumer(
                ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, ack_wait=2),
                timeout=20,
            )
            messages = consumer.messages(expires=3.0, heartbeat=0.5)
        else:
            messages = stream.ordered_consumer(push=kind == "ordered-push").messages(heartbeat=0.5)
        seen: list[int] = []

        async def read() -> None:
            async for message in messages:
                number = int(message.data)
                message.ack()
                # A durable consumer delivers again what it could not note down in time.
                if number not in seen:
                    seen.append(number)
                # What was in flight to a connection that broke comes again after ack_wait.
                if len(seen) == 60:
                    return

        reading = asyncio.ensure_future(read())
        killed: int | None = None
        try:
            for n in range(1, 61):
                await published(js, name, n)
                if n == 20:
                    await step_down(nc, name)
                if n == 40:
                    killed = cluster.node_of(nc.connected_server)
                    await asyncio.to_thread(cluster.kill, killed)
            await asyncio.wait_for(reading, 60)
            await messages.close()
        finally:
            # The tests after this one need all three.
            if killed is not None:
                await asyncio.to_thread(cluster.start, killed)
                await cluster.wait_ready()

        assert sorted(seen) == list(range(1, 61))
        assert kind == "pull" or seen == list(range(1, 61))


async def test_a_remote_mirror_of_three_copies_misses_nothing(cluster: Cluster, name: str) -> None:
    """The leader steps down, then the node that the copy reads from is killed."""
    killed: int | None = None
    async with await opened(cluster) as nc, copying(",".join(cluster.urls)) as server:
        js = nc.jetstream(timeout=10.0)
        config = StreamConfig(name=name, subjects=(name,), num_replicas=3, allow_direct=True)
        await js.create_stream(config, timeout=20)
        try:
            async with await connect(server.client_url) as here:
                await make(here, "M", mirror={"name": name, "external": HUB})
                await make(here, "S", sources=[{"name": name, "external": HUB}])
                for n in range(1, 91):
                    await published(js, name, n)
                    if n == 30:
                        await step_down(nc, name)
                    if n == 60:
                        killed = 0  # the first of the URLs
                        await asyncio.to_thread(cluster.kill, killed)
                last = (await (await js.stream(name)).info(timeout=10)).state.last_seq
                await caught_up(here, "M", last)
                # Lag is what the last contact reported: 0 also while another node is looked for.
                await info_until(here, "S", lambda found: found["state"]["messages"] >= last)

                theirs = await rows(nc, name)
                assert [row[4] for row in theirs] == [b"%d" % n for n in range(1, 91)]
                assert await rows(here, "M") == as_copied(theirs)
                assert [row[4] for row in await rows(here, "S")] == [row[4] for row in theirs]
        finally:
            if killed is not None:
                await asyncio.to_thread(cluster.start, killed)
                await cluster.wait_ready()


async def test_a_handle_reads_its_own_writes_on_three_copies(cluster: Cluster, name: str) -> None:
    """ADR-53 on servers without it: never a silent stale read, whichever copy answers."""
    async with await opened(cluster) as nc:
        js = nc.jetstream(timeout=10.0)
        await js.create_key_value(KeyValueConfig(bucket=name, replicas=3, history=1), timeout=20)
        kv = await js.key_value(name, read_after_write=True)
        for n in range(200):
            await kv.put("k", b"%d" % n)
            assert (await kv.get("k")).value == b"%d" % n
        many = {f"m.{n}": b"%d" % n for n in range(300)}
        await kv.put_many(many)
        found = await kv.get_many(list(many))
        keys = [key async for key in kv.keys("m.*")]

        assert {key: entry.value for key, entry in found.items()} == many
        assert sorted(keys) == sorted(many)


async def test_read_after_write_with_a_paused_follower(cluster: Cluster, name: str) -> None:
    """It is asked while it sleeps; test_late_follower has a copy that certainly lags."""
    async with await opened(cluster) as nc:
        js = nc.jetstream(timeout=10.0)
        config = KeyValueConfig(bucket=name, replicas=3, history=1)
        kv = await js.create_key_value(config, timeout=20)
        await kv.put("k", b"old")
        info = await (await js.stream(f"KV_{name}")).info()
        assert info.cluster is not None
        mine, leader = cluster.node_of(nc.connected_server), int(info.cluster.leader[1:])
        follower = next(node for node in range(3) if node not in {mine, leader})
        behind = await connect(cluster.urls[follower], ignore_discovered=True, timeout=20.0)
        async with behind:
            copy = await behind.jetstream(timeout=20.0).key_value(name)
            assert (await copy.get("k")).value == b"old"
            for turn in range(3):
                cluster.pause(follower)
                try:
                    many = {f"m.{n}": b"%d.%d" % (turn, n) for n in range(200)}
                    await kv.put_many(many)
                    last = await put_again(kv, "k", b"%d" % turn)
                    asked = [
                        asyncio.ensure_future(copy.get("k", min_last_revision=last))
                        for _ in range(20)
                    ]
                    all_of_them = asyncio.ensure_future(
                        copy.get_many(list(many), min_last_revision=last)
                    )
                    await asyncio.sleep(0.05)  # the requests are with the sleeper
                finally:
                    cluster.resume(follower)
                answers = await asyncio.gather(*asked)
                found = await all_of_them

                assert {(entry.revision, entry.value) for entry in answers} == {
                    (last, b"%d" % turn)
                }
                assert {key: entry.value for key, entry in found.items()} == many


async def test_a_watch_misses_nothing_over_step_downs(cluster: Cluster, name: str) -> None:
    async with await opened(cluster) as nc:
        js = nc.jetstream(timeout=10.0)
        config = KeyValueConfig(bucket=name, replicas=3, history=64)
        kv = await js.create_key_value(config, timeout=20)
        values: list[bytes] = []

        async def watch() -> None:
            async with await kv.watch() as watcher:
                async for entry in watcher:
                    if not values or values[-1] != entry.value:
                        values.append(entry.value)
                    if values and values[-1] == b"end":
                        return

        watching = asyncio.ensure_future(watch())
        for n in range(30):
            await put_again(kv, "k", b"%d" % n)
            if n in {10, 20}:
                await step_down(nc, f"KV_{name}")
        await put_again(kv, "k", b"end")
        await asyncio.wait_for(watching, 60)

        assert [int(value) for value in values if value != b"end"] == sorted(
            {int(value) for value in values if value != b"end"}
        )
        assert set(values) >= {b"29", b"end"}


async def test_a_transaction_and_an_object_on_three_copies(cluster: Cluster, name: str) -> None:
    async with await opened(cluster) as nc:
        js = nc.jetstream(timeout=10.0)
        kv = await js.create_key_value(KeyValueConfig(bucket=name, replicas=3), timeout=20)
        store = await js.create_object_store(
            ObjectStoreConfig(bucket=name, replicas=3), timeout=20
        )
        async with kv.transaction() as tx:
            for n in range(50):
                tx.create(f"k.{n}", b"%d" % n)
        data = random.Random(1).randbytes(1_000_000)
        info = await store.put("a", data)

        highest = max(tx.revisions.values())
        found = await kv.get_many(list(tx.revisions), min_last_revision=highest)
        assert {key: (entry.revision, entry.value) for key, entry in found.items()} == {
            f"k.{n}": (tx.revisions[f"k.{n}"], b"%d" % n) for n in range(50)
        }
        assert await store.get("a", min_last_seq=info.seq) == data


async def away_from(cluster: Cluster, js: JetStream, stream: str) -> Client:
    """A client of a node that does not lead the stream."""
    info = await (await js.stream(stream)).info()
    assert info.cluster is not None
    leader = int(info.cluster.leader.removeprefix("n"))
    return await connect(cluster.urls[(leader + 1) % 3], ignore_discovered=True, **QUICK)


async def test_a_consumer_can_be_fetched_from_as_soon_as_it_was_made(
    cluster: Cluster, name: str
) -> None:
    """Through another node, which learns of the consumer shortly after it was made."""
    async with await opened(cluster) as maker:
        js = maker.jetstream()
        await js.create_stream(name, subjects=[name], timeout=20)
        await published(js, name, 1)
        async with await away_from(cluster, js, name) as nc:
            stream = await nc.jetstream().stream(name)
            for n in range(30):
                consumer = await stream.create_consumer(durable=f"d{n}")

                assert len(await consumer.fetch(1, timeout=30)) == 1
                await consumer.delete()
        await js.delete_stream(name)


@pytest.mark.parametrize("ending", ["close", "drain"])
async def test_what_another_node_is_sending_is_given_back_or_worked_on(
    cluster: Cluster, name: str, ending: str
) -> None:
    async with await opened(cluster) as maker:
        js = maker.jetstream()
        stream = await js.create_stream(name, subjects=[name], timeout=20)
        await stream.create_consumer(durable="d", ack_wait=300)
        for n in range(300):
            await published(js, name, n)
        async with await away_from(cluster, js, name) as nc:
            consumer = await nc.jetstream().consumer(name, "d")
            worked_on: set[bytes] = set()

            def work(message: JetStreamMessage) -> None:
                worked_on.add(message.data)
                message.ack()

            for n in range(8):
                async with consumer.consume(work, prefetch=20) as running:
                    await asyncio.sleep(0.002 * n)
                    await getattr(running, ending)()
            while messages := await consumer.fetch(100, timeout=2):
                for message in messages:
                    work(message)

            assert len(worked_on) == 300
        await js.delete_stream(name)
