"""Released clients use a bucket through a read replica as at its leader."""

from __future__ import annotations

from pathlib import Path

import nats
import nats.errors
import pytest
from nats.js.api import KeyValueConfig
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from tests.support.nats_js import started
from tests.support.replicas import leading

import jetspark
from jetspark import ConsumerConfig, StreamConfig
from jetspark.api.enums import AckPolicy
from jetspark.client.jetstream.consumer.explain import Reason
from jetspark.replica import ReplicaServer

LEADERS = pytest.mark.parametrize("kind", ["nats-server", "jetspark"])


@LEADERS
async def test_nats_js_uses_a_bucket(kind: str, tmp_path: Path) -> None:
    async with (
        leading(kind, tmp_path / "leader") as leader,
        ReplicaServer(leader, streams=["KV_*"], store_dir=tmp_path / "replica") as replica,
        started("replica.mjs", {"replica": replica.client_url}) as script,
    ):
        results = await script.results()

        assert results == {
            "values": {"revision": 1, "updated": 2, "read": ["2", "3"], "old": "1"},
            "deletes": ["DEL", "PURGE"],
            "watch": ["w.1=1", "w.2=2", "w.3=3"],
            "keys": ["w.1", "w.2", "w.3"],
            "requests": ["hi", True],
        }


@LEADERS
async def test_nats_py_uses_a_bucket(kind: str, tmp_path: Path) -> None:
    async with (
        leading(kind, tmp_path / "leader") as leader,
        ReplicaServer(leader, streams=["KV_*"], store_dir=tmp_path / "replica") as replica,
    ):
        client = await nats.connect(replica.client_url)
        js = client.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="py", history=5))
        revision = await kv.create("a", b"1")
        await kv.update("a", b"2", revision)
        with pytest.raises(KeyWrongLastSequenceError):
            await kv.update("a", b"3", revision)
        watcher = await kv.watchall()
        first = await watcher.updates()  # type: ignore[no-untyped-call]
        read, keys = await kv.get("a"), await kv.keys()
        await kv.delete("a")

        assert first is not None
        assert (first.value, read.value, keys) == (b"2", b"2", ["a"])
        with pytest.raises(KeyNotFoundError):
            await kv.get("a")
        assert [entry.operation for entry in await kv.history("a")] == [None, None, "DEL"]
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("nobody", b"", timeout=2)
        await client.close()


@LEADERS
async def test_our_client_explains_a_consumer_of_any_leader(kind: str, tmp_path: Path) -> None:
    """A nats-server has no answer to CONSUMER.EXPLAIN, and no one to say so."""
    async with (
        leading(kind, tmp_path / "leader") as leader,
        ReplicaServer(leader, streams=["KV_*"], store_dir=tmp_path / "replica") as replica,
        await jetspark.connect(replica.client_url) as client,
    ):
        js = client.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        await js.publish("s", b"1")
        consumer = await stream.create_consumer(
            ConsumerConfig(name="c", ack_policy=AckPolicy.EXPLICIT)
        )
        await consumer.fetch(1)

        explained = await consumer.explain(1, timeout=2)

        assert explained.reason is Reason.ACK_PENDING
