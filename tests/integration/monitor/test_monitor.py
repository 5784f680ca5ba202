"""Monitoring of a real server over a real port."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.support.monitored import get, text

import jetspark
from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings


async def test_traffic_is_counted_for_the_server_the_account_and_the_client() -> None:
    async with jetspark.Server(http_port=-1) as server:
        one = await nats.connect(server.client_url, name="one")
        two = await nats.connect(server.client_url, name="two")
        await two.subscribe("a.*")
        await two.flush()
        for _ in range(3):
            await one.publish("a.b", b"12345", headers={"k": "v"})
        await one.flush()
        varz, connz = await get(server, "/varz"), await get(server, "/connz?subs=1")
        accounts = (await get(server, "/accstatz"))["account_statz"]
        await one.close()
        await two.close()

    size = 3 * (len(b"NATS/1.0\r\nk: v\r\n\r\n") + 5)
    by_name = {each["name"]: each for each in connz["connections"]}
    assert (varz["in_msgs"], varz["in_bytes"], varz["out_msgs"]) == (3, size, 3)
    assert (varz["connections"], varz["total_connections"]) == (2, 2)
    assert (by_name["one"]["in_msgs"], by_name["one"]["in_bytes"]) == (3, size)
    assert (by_name["two"]["out_msgs"], by_name["two"]["out_bytes"]) == (3, size)
    assert by_name["two"]["subscriptions_list"] == ["a.*"]
    assert by_name["one"]["lang"] == "python3"
    assert (accounts[0]["acc"], accounts[0]["conns"]) == ("$G", 2)
    assert accounts[0]["received"]["msgs"] == 3


async def test_consumers_are_shown_as_info_says_it(tmp_path: Path) -> None:
    body = b'{"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}'
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
        await client.request("s.a", b"x")
        await client.request("$JS.API.CONSUMER.CREATE.S.c", body)
        pulled = await client.subscribe("in")
        await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b"1", reply="in")
        await pulled.next_msg(timeout=10)
        jsz = await get(server, "/jsz?consumers=1&config=1")
        healthy = await get(server, "/healthz?account=$G&stream=S&consumer=c")
        missing = await text(server, "/healthz?account=$G&stream=S&consumer=x")
        info = json.loads((await client.request("$JS.API.CONSUMER.INFO.S.c")).data)
        await client.close()

    (shown,) = jsz["account_details"][0]["stream_detail"][0]["consumer_detail"]
    for field in ("name", "created", "delivered", "ack_floor", "num_ack_pending", "num_pending"):
        assert shown[field] == info[field]
    assert shown["config"]["durable_name"] == "c"
    assert jsz["consumers"] == 1
    assert healthy == {"status": "ok"}
    assert missing[0] == 404


async def test_a_stream_and_what_it_holds_are_shown(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
        for n in range(4):
            await client.request(f"s.{n}", b"x" * 10)
        jsz = await get(server, "/jsz?streams=1&config=1")
        storez = await get(server, "/storez")
        _, metrics = await text(server, "/metrics")
        health = await get(server, "/healthz?account=$G&stream=S")
        await client.close()

    stream = jsz["account_details"][0]["stream_detail"][0]
    assert (jsz["streams"], jsz["messages"]) == (1, 4)
    assert jsz["config"]["store_dir"] == str(tmp_path)
    assert stream["name"] == "S"
    assert stream["state"]["last_seq"] == 4
    assert stream["config"]["subjects"] == ["s.>"]
    assert storez["streams"][0]["durable_position"] >= 4
    assert 'stream_name="S"' in metrics
    assert health == {"status": "ok"}


async def test_settings_are_shown_as_nats_server_shows_them() -> None:
    """Observed on nats-server 2.15.1: an empty base path, and what the machine has as limits."""
    async with jetspark.Server(http_port=-1) as server:
        varz, jsz = await get(server, "/varz"), await get(server, "/jsz")

    assert varz["http_base_path"] == ""
    assert jsz["config"]["max_storage"] > 0
    assert jsz["config"]["max_memory"] > 0


async def test_ports_leave_no_thread_and_no_task() -> None:
    """Several servers in one process, nothing left."""
    before = threading.active_count()
    async with (
        jetspark.Server(http_port=-1) as one,
        jetspark.Server(http_port=-1, jetstream=False) as two,
        jetspark.Server() as three,
    ):
        assert one.monitor_url != two.monitor_url
        assert three.monitor_url == ""
        assert (await get(two, "/varz"))["jetstream"] == {}
        assert (await get(one, "/readyz"))["status"] == "ok"

    assert threading.active_count() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_that_leaves_is_healthy_and_not_ready() -> None:
    async with jetspark.Server(http_port=-1) as server:
        server._inner.lame_duck = True
        ready, _ = await text(server, "/readyz")
        healthy, _ = await text(server, "/healthz")

    assert (ready, healthy) == (503, 200)


async def test_a_closed_connection_is_remembered_with_its_reason() -> None:
    async with jetspark.Server(http_port=-1) as server:
        client = await nats.connect(server.client_url, name="gone")
        await client.subscribe("zz")
        await client.flush()
        await client.close()
        while server._inner.connections:
            await asyncio.sleep(0)
        closed = (await get(server, "/connz?state=closed&subs=1"))["connections"]

    assert [(each["name"], each["reason"]) for each in closed] == [("gone", "Client Closed")]
    assert closed[0]["subscriptions"] == 1
    assert closed[0]["subscriptions_list"] == ["zz"]


async def test_a_token_closes_the_port_to_others(tmp_path: Path) -> None:
    """Jetspark.monitor_token."""
    config = tmp_path / "server.conf"
    config.write_text(
        "host: 127.0.0.1\nport: -1\nhttp: 127.0.0.1:-1\njetspark { monitor_token: s3cret }\n"
    )
    async with jetspark.Server(config=config) as server:
        status, body = await text(server, "/varz")

    assert status == 401
    assert "token" in body


async def test_mounts_are_served_with_the_endpoints() -> None:
    async def page(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    async with jetspark.Server(http_port=-1, mounts={"/dashboard": page}) as server:
        status, body = await text(server, "/dashboard/x")

    assert status == 200
    assert "/dashboard/x" in body


async def test_a_port_that_is_taken_ends_the_start_and_frees_everything() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        server = jetspark.Server(http_port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await server.start()
        listening = server.listening
        await server.close()

    assert not listening
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_asking_for_connections_measures_their_round_trip() -> None:
    async with jetspark.Server(http_port=-1) as server:
        client = await nats.connect(server.client_url)
        await client.flush()
        first = (await get(server, "/connz"))["connections"][0]["rtt"]
        while not next(iter(server._inner.connections)).session.rtt_ns:
            await client.flush()
        second = (await get(server, "/connz"))["connections"][0]["rtt"]
        await client.close()

    assert first == "0s"
    assert second != "0s"


async def test_the_figures_of_commits_and_files_are_those_of_the_run(tmp_path: Path) -> None:
    async with jetspark.Server(http_port=-1, store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        body = json.dumps({"name": "S", "subjects": ["s.>"], "persist_mode": "async"}).encode()
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        for number in range(5):
            await client.request("s.a", b"x" * 100, headers={"Nats-Msg-Id": str(number)})
        storez = await get(server, "/storez")
        _, metrics = await text(server, "/metrics")
        await client.close()

    commits = storez["commits"]
    (stream,) = storez["streams"]
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*.seg"))
    assert (commits["messages"], commits["errors"]) == (5, 0)
    assert 5 <= commits["groups"] == commits["inline"] + commits["by_thread"]
    assert commits["messages_per_group"] <= 1
    assert 0 < commits["duration_p50_ns"] <= commits["duration_p99_ns"]
    assert commits["duration_p99_ns"] <= commits["duration_max_ns"]
    assert sum(bucket["count"] for bucket in commits["durations"]) == commits["groups"]
    assert stream["durability"] == "async"
    assert stream["duplicates"] == 5
    assert 5 * 100 < stream["file_bytes"] <= on_disk
    assert "jetspark_commit_groups_total{server_id=" in metrics
    assert (stream["compactions"], stream["scrubs"], stream["segments_removed"]) == (0, 0, 0)
    assert "jetspark_stream_compaction_written_bytes_total{" in metrics
    assert "jetspark_stream_scrub_read_bytes_total{" in metrics
    assert "jetspark_stream_durability{" in metrics
    assert 'value="async"' in metrics


async def test_an_account_that_a_reload_removed_does_not_end_the_monitoring(
    tmp_path: Path,
) -> None:
    def settings(more: str) -> Settings:
        return load_text(
            'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\n'
            f'jetstream {{ store_dir: "{tmp_path}" }}\n'
            "accounts { A { jetstream: enabled, users: [{user: a, password: a}] }\n"
            f"{more} }}",
            {},
        )

    gone = "B { jetstream: enabled, users: [{user: b, password: b}] }"
    async with jetspark.Server(config=settings(gone)) as server:
        await server.reload(settings(""))
        for path in ("/healthz", "/varz", "/connz", "/accountz", "/jsz?accounts=1"):
            assert await get(server, path)
        assert (await text(server, "/metrics"))[0] == 200
