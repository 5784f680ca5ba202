"""Damage on disk is reported in every place that shows the state of a stream."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import nats
import pytest
from tests.support.monitored import get, text

import jetspark
from jetspark.store.format.segment import without_filler


async def test_a_flipped_bit_costs_one_message_and_is_reported_everywhere(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        body = b'{"name":"S","subjects":["s.>"]}'
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        for number in range(5):
            await client.request("s.a", b"payload-%d" % number, timeout=5)
        await client.close()
    (segment,) = tmp_path.rglob("*.seg")
    data = bytearray(segment.read_bytes())
    data[data.index(b"payload-2")] ^= 1
    segment.write_bytes(data)

    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        info = json.loads((await client.request("$JS.API.STREAM.INFO.S", b"")).data)
        gone = await client.request("$JS.API.STREAM.MSG.GET.S", b'{"seq":3}')
        neighbour = await client.request("$JS.API.STREAM.MSG.GET.S", b'{"seq":4}')
        health, storez = await get(server, "/healthz"), await get(server, "/storez")
        _, metrics = await text(server, "/metrics")
        await client.close()

    assert info["state"]["lost"]["msgs"] == [3]
    assert info["state"]["lost"]["bytes"] > 0
    assert b'"error"' in gone.data
    assert b'"seq":4' in neighbour.data
    assert health["status"] == "ok"
    assert "1 messages are lost" in health["jetspark"]["warnings"][0]
    assert storez["streams"][0]["lost_messages"] == 1
    assert "jetspark_stream_lost_messages{" in metrics


async def test_an_emptied_segment_is_reported_although_its_contents_are_unknown(
    tmp_path: Path,
) -> None:
    """No byte of it is damaged, and a server that was killed had not noted what it held."""
    async with jetspark.Server(store_dir=tmp_path / "killed") as server:
        client = await nats.connect(server.client_url)
        body = b'{"name":"S","subjects":["s.>"]}'
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        # So large that it waits for the first manifests.
        await client.request("s.a", bytes(20_000), timeout=5)
        shutil.copytree(tmp_path / "killed", tmp_path / "found")
        await client.close()
    (segment,) = (tmp_path / "found").rglob("*.seg")
    segment.write_bytes(b"")

    async with jetspark.Server(store_dir=tmp_path / "found", http_port=-1) as server:
        health = await get(server, "/healthz")

    assert "it is unknown whether messages are lost there" in health["jetspark"]["warnings"][0]


async def test_a_counted_loss_does_not_hide_that_another_is_unknown(tmp_path: Path) -> None:
    """A damaged message is counted; what followed the last record, without manifests, is not."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        body = b'{"name":"S","subjects":["s.>"]}'
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        for number in range(5):
            payload = b"payload-%d" % number + bytes(10_000)
            await client.request("s.a", payload, timeout=5)
        await client.close()
    (segment,) = tmp_path.rglob("*.seg")
    data = bytearray(segment.read_bytes())
    data[data.index(b"payload-2")] ^= 1
    # Without the filler that proves where the log ends.
    segment.write_bytes(without_filler(bytes(data), 0))
    for path in tmp_path.rglob("*.idx"):
        path.unlink()
    for path in tmp_path.rglob("manifest.*"):
        path.write_bytes(b"")

    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        health, storez = await get(server, "/healthz"), await get(server, "/storez")

    counted, unknown = health["jetspark"]["warnings"]
    assert "1 messages are lost" in counted
    assert "it is unknown whether messages are lost there" in unknown
    stream = storez["streams"][0]
    assert (stream["lost_messages"], stream["uncounted_places"]) == (1, 1)


async def test_damage_in_an_idle_stream_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Previously a stream got no upkeep between its start and its next message."""
    monkeypatch.setattr("jetspark.server.jetstream.driver.HOUSE_PERIOD", 0.05)
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        body = b'{"name":"S","subjects":["s.>"]}'
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        for number in range(5):
            await client.request("s.a", b"payload-%d" % number, timeout=5)
        await client.close()

    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        (segment,) = tmp_path.rglob("*.seg")
        at = segment.read_bytes().index(b"payload-2")
        with segment.open("r+b") as file:
            file.seek(at)
            file.write(b"q")
        gone = await client.request("$JS.API.STREAM.MSG.GET.S", b'{"seq":3}')
        async with asyncio.timeout(5):
            while "are damaged" not in caplog.text:
                await asyncio.sleep(0.05)
        await client.close()

    assert b'"error"' in gone.data


async def test_the_rest_of_an_interrupted_write_is_reported_as_no_loss(tmp_path: Path) -> None:
    """A power failure leaves a write without its middle: it was never acknowledged."""
    cut = tmp_path / "cut"
    async with jetspark.Server(store_dir=tmp_path / "live") as server:
        client = await nats.connect(server.client_url)
        body = b'{"name":"S","subjects":["s.>"]}'
        await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
        await client.request("s.a", b"kept", timeout=5)
        await client.request("s.a", b"x" * 4096, timeout=5)
        shutil.copytree(tmp_path / "live", cut)
        await client.close()
    (segment,) = cut.rglob("*.seg")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"x" * 1024, bytes(1024), 1))

    for _ in range(2):
        async with jetspark.Server(store_dir=cut, http_port=-1) as server:
            client = await nats.connect(server.client_url)
            info = json.loads((await client.request("$JS.API.STREAM.INFO.S", b"")).data)
            health, storez = await get(server, "/healthz"), await get(server, "/storez")
            stored = await client.request("s.a", b"after", timeout=5)
            await client.close()

        assert "lost" not in info["state"]
        assert not health.get("jetspark", {}).get("warnings")
        assert storez["streams"][0]["doubtful_bytes"] > 0
        assert json.loads(stored.data)["seq"] > 2


async def test_a_stream_that_cannot_be_opened_does_not_stop_the_others(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        for name in ("GOOD", "BAD"):
            body = b'{"name":"%b","subjects":["%b.>"]}' % (name.encode(), name.encode())
            await client.request(f"$JS.API.STREAM.CREATE.{name}", body, timeout=5)
            await client.request(f"{name}.x", b"kept", timeout=5)
        await client.close()
    bad = next(each.parent for each in tmp_path.rglob("manifest.a") if b"BAD" in each.read_bytes())
    for file in bad.iterdir():
        file.write_bytes(b"\xff" * 100)

    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        message = await client.request("$JS.API.STREAM.MSG.GET.GOOD", b'{"seq":1}')
        storez = await get(server, "/storez")
        status, health = await text(server, "/healthz")
        await client.close()

    assert b'"seq":1' in message.data
    assert storez["lost_streams"][0]["stream"] == bad.name
    assert status == 503
    assert bad.name in health
    assert (bad / "manifest.a").exists()
