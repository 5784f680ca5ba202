"""Buckets over a JetStream domain (ADR-8, "Custom ... to cater for different domains"; ADR-19)."""

from collections.abc import Callable
from typing import Any

import pytest

from jetspark.client import KeyValueConfig, ObjectStoreConfig, connect

CONFIG = "jetstream { domain: hub }"


@pytest.mark.parametrize("options", [{"domain": "hub"}, {"prefix": "$JS.hub.API"}], ids=str)
async def test_a_bucket_is_used_over_a_domain(
    nats_server: Callable[[str], Any], name: str, options: dict[str, str]
) -> None:
    server = nats_server(CONFIG)
    async with await connect(server.url) as nc:
        js = nc.jetstream(**options)  # type: ignore[arg-type]
        kv = await js.create_key_value(KeyValueConfig(bucket=name))
        await kv.put("a", b"1")
        await kv.delete("b")
        async with kv.transaction() as tx:
            tx.put("c", b"2")
        store = await js.create_object_store(ObjectStoreConfig(bucket=name))
        await store.put("o", bytes(200_000))
        local = await nc.jetstream().key_value(name)

        assert (await kv.get("a")).value == b"1"
        assert sorted(await kv.get_many(["a", "b", "c"])) == ["a", "c"]
        assert (await local.get("c")).value == b"2"
        assert await store.get("o") == bytes(200_000)
        async with await kv.watch() as watcher:
            assert len(await watcher.initial()) == 3
