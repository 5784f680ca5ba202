"""Buckets over domains, imports and mirrors far away (ADR-8 1.0, ADR-19).

On nats-server: ours has neither leaf nodes nor imports.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.scripted import unused_port

from jetspark import ExternalStream, KeyValueConfig, ObjectStoreConfig, StreamSource, connect
from jetspark.errors import NoResponders

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
            assert len([entry async for entry in watcher.initial()]) == 3


IMPORT = """
jetstream: {}
accounts {
  A {
    jetstream: enabled
    users: [{user: a, password: a}]
    exports: [
      {service: "$JS.API.>", response: stream}, {service: "$KV.>"}, {service: "$O.>"}
      {service: "$JS.FC.>"}, {stream: "deliver.b.>"}
    ]
  }
  B {
    users: [{user: b, password: b}]
    imports: [
      {service: {account: A, subject: "$JS.API.>"}, to: "from.a.>"}
      {service: {account: A, subject: "$KV.>"}, to: "from.a.$KV.>"}
      {service: {account: A, subject: "$O.>"}}
      {service: {account: A, subject: "$JS.FC.>"}}
      {stream: {account: A, subject: "deliver.b.>"}}
    ]
  }
}
"""


async def test_a_bucket_of_another_account_is_used_over_an_import(
    nats_server: Callable[[str], Any],
) -> None:
    server = nats_server(IMPORT)
    async with (
        await connect(server.url, user="a", password="a") as theirs,
        await connect(server.url, user="b", password="b", inbox_prefix="deliver.b") as nc,
    ):
        origin = await theirs.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await theirs.jetstream().create_object_store(ObjectStoreConfig(bucket="o"))
        js = nc.jetstream(prefix="from.a")
        kv = await js.key_value("b")
        await kv.put("a", b"1")
        revision = await kv.create("b", b"2")
        await kv.update("b", b"3", revision)
        async with kv.transaction() as tx:
            tx.delete("a")
            tx.put("c", b"4")
        store = await js.object_store("o")
        await store.put("file", bytes(300_000))

        assert (await origin.get("b")).value == b"3"
        assert sorted([key async for key in kv.keys(">")]) == ["b", "c"]
        assert sorted(await kv.get_many(["a", "b", "c"])) == ["b", "c"]
        assert await store.get("file") == bytes(300_000)


async def test_a_mirror_in_another_domain_writes_to_its_origin(
    nats_server: Callable[[str], Any],
) -> None:
    """ADR-8 1.2: read replicas facilitated by stream mirrors; reads stay here, writes go home."""
    port = unused_port()
    hub = nats_server(f"jetstream {{ domain: hub }}\nleafnodes {{ port: {port} }}")
    leaf = nats_server(
        "jetstream { domain: leaf }\n"
        f'leafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}'
    )
    async with await connect(hub.url) as far, await connect(leaf.url) as near:
        origin = await far.jetstream().create_key_value(KeyValueConfig(bucket="b"))
        await origin.put("a", b"1")
        source = StreamSource(name="b", external=ExternalStream(api="$JS.hub.API"))
        mirror = await near.jetstream().create_key_value(KeyValueConfig(bucket="m", mirror=source))
        async with asyncio.timeout(20):
            while not (revision := await reached(mirror)):
                await asyncio.sleep(0.02)

        assert (await mirror.get("a", min_last_revision=1)).value == b"1"
        assert (await mirror.get("b", min_last_revision=revision)).value == b"2"
        assert (await origin.get("b")).value == b"2"
        assert sorted([key async for key in mirror.keys(">")]) == ["a", "b"]


async def reached(mirror: Any) -> int:
    """The revision of a write through the mirror; 0 while the leaf is not connected yet."""
    try:
        revision: int = await mirror.put("b", b"2")
    except NoResponders:
        return 0
    return revision
