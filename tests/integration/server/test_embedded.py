"""The embedded server over real sockets, used by nats-py."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.msg import Msg

import jetspark
from jetspark import ExternalStream, StreamConfig, StreamSource
from jetspark.errors import StoreLocked


async def test_messages_reach_subscribers_wildcards_and_one_of_a_queue_group() -> None:
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)
        plain = await client.subscribe("a.b")
        wild = await client.subscribe("a.*")
        first = await client.subscribe("a.>", queue="q")
        second = await client.subscribe("a.>", queue="q")
        for _ in range(20):
            await client.publish("a.b", b"hello", headers={"k": "v"})
        await client.flush()

        message = await plain.next_msg(1)
        assert (message.data, message.headers) == (b"hello", {"k": "v"})
        assert wild.pending_msgs == 20
        assert first.pending_msgs + second.pending_msgs == 20
        await client.close()


async def test_a_request_is_answered_and_one_without_responders_is_refused_at_once() -> None:
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)

        async def answer(message: Msg) -> None:
            await message.respond(message.data.upper())

        await client.subscribe("upper", cb=answer)

        assert (await client.request("upper", b"abc", timeout=1)).data == b"ABC"
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("nobody", b"", timeout=5)
        await client.close()


async def test_unsubscribe_after_a_number_of_messages() -> None:
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)
        subscription = await client.subscribe("a")
        await subscription.unsubscribe(limit=2)
        for n in range(5):
            await client.publish("a", b"%d" % n)
        await client.flush()

        assert [(await subscription.next_msg(1)).data for _ in range(2)] == [b"0", b"1"]
        await client.close()


async def test_two_servers_live_in_one_process_and_leave_nothing() -> None:
    before = threading.active_count()
    async with jetspark.Server() as one, jetspark.Server() as two:
        assert one.client_url != two.client_url
        for server in (one, two):
            client = await nats.connect(server.client_url)
            await client.flush()
            await client.close()

    assert threading.active_count() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_streams_survive_a_restart_on_the_same_folder(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)
        await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
        stream = client.jetstream()
        assert [(await stream.publish("s", b"%d" % n)).seq for n in range(5)] == [1, 2, 3, 4, 5]
        await client.close()

    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)
        assert (await client.jetstream().publish("s", b"6")).seq == 6
        await client.close()


async def test_a_store_in_use_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path):
        with pytest.raises(StoreLocked, match="used by another jetspark server"):
            await jetspark.Server(store_dir=tmp_path).start()


async def test_a_private_store_is_removed_with_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", logger="jetspark.server"):
        async with jetspark.Server():
            pass
    said = next(r.message for r in caplog.records if "removed when the server stops" in r.message)
    folder = Path(said.split()[4])
    assert folder.name.startswith("jetspark-")

    assert not folder.exists()


async def test_without_jetstream_a_stream_request_has_no_responders() -> None:
    async with jetspark.Server(jetstream=False) as server:
        client = await nats.connect(server.client_url)
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$JS.API.INFO", b"", timeout=5)
        await client.close()


async def test_a_direct_get_of_a_stream_without_it_has_no_responders() -> None:
    """503 no responders; the client falls back to MSG.GET."""
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)
        await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=5)
        await client.close()


async def test_an_embedded_server_has_a_client_of_its_own() -> None:
    async with jetspark.Server() as server, await server.connect(name="own") as nc:
        kv = await nc.jetstream().create_key_value("settings")
        files = await nc.jetstream().create_object_store("files")

        revision = await kv.put("colour", b"green")

        assert (await kv.get("colour")).revision == revision
        assert (await files.put("note", b"hello")).size == 5


async def test_an_embedded_server_copies_from_a_remote_without_more_words() -> None:
    """Remotes are named in the configuration, streams choose them by ``external``."""
    async with jetspark.Server() as origin, await origin.connect() as nc:
        await nc.jetstream().create_stream(StreamConfig(name="ORDERS", subjects=("orders",)))
        await nc.jetstream().publish("orders", b"first")
        async with (
            jetspark.Server(remotes={"hub": {"url": origin.client_url}}) as copier,
            await copier.connect() as other,
        ):
            from_hub = StreamSource(name="ORDERS", external=ExternalStream(api="$JS.hub.API"))
            stream = await other.jetstream().create_stream(
                StreamConfig(name="COPY", mirror=from_hub)
            )
            consumer = stream.ordered_consumer()

            assert (await consumer.next(timeout=10)).data == b"first"
