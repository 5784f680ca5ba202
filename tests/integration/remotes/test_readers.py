"""Released clients, and our buckets, over mirrors and sources of another server."""

from __future__ import annotations

import nats
import pytest
from nats.js.api import ConsumerConfig, DeliverPolicy
from tests.support.nats_js import started
from tests.support.remotes import HUB, copying, info_until

from jetspark import ExternalStream, KeyValueConfig, Server, StreamSource, connect
from jetspark.errors import NoResponders

AWAY = ExternalStream(api=HUB["api"])


async def test_nats_js_and_nats_py_read_through_a_remote_mirror() -> None:
    async with Server() as hub, copying(hub.client_url) as server:
        async with await connect(hub.client_url) as there:
            kv = await there.jetstream().create_key_value(KeyValueConfig(bucket="cfg", history=5))
            for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
                await kv.put(key, value)
        async with await connect(server.client_url) as here:
            away = StreamSource(name="cfg", external=AWAY)
            copy = KeyValueConfig(bucket="copy", history=5, mirror=away)
            await here.jetstream().create_key_value(copy)
            await info_until(here, "KV_copy", lambda found: found["state"]["last_seq"] == 3)

        async with started("mirrors.mjs", {"url": server.client_url}) as script:
            js = await script.results()
        nc = await nats.connect(server.client_url)
        sub = await nc.jetstream().pull_subscribe(
            "",
            durable="d",
            stream="KV_copy",
            config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL),
        )
        read = [(m.subject, m.data) for m in await sub.fetch(3, timeout=5)]
        last = await nc.jetstream().get_last_msg("KV_cfg", "$KV.cfg.a", direct=True)
        await nc.close()

    subjects = ["$KV.cfg.a", "$KV.cfg.b", "$KV.cfg.a"]
    assert js["ordered"] == [[n + 1, subjects[n], str(n + 1)] for n in range(3)]
    assert js["direct"] == [3, "3", "KV_copy"]
    assert js["bucket"] == ["3", 3, ["a", "b"]]
    assert js["info"] == ["KV_cfg", 0, "$JS.hub.API", None]
    assert read == [(subjects[n], b"%d" % (n + 1)) for n in range(3)]
    assert (last.seq, last.data) == (3, b"3")


async def test_buckets_of_ours_over_a_remote_mirror_and_sources() -> None:
    async with (
        Server() as hub,
        copying(hub.client_url) as server,
        await connect(hub.client_url) as there,
        await connect(server.client_url) as here,
    ):
        js = here.jetstream()
        origin = await there.jetstream().create_key_value(KeyValueConfig(bucket="cfg"))
        near = await js.create_key_value(KeyValueConfig(bucket="near"))
        revision = await origin.put("a", b"far")
        await near.put("b", b"near")
        away = StreamSource(name="cfg", external=AWAY)
        mirror = await js.create_key_value(KeyValueConfig(bucket="copy", mirror=away))
        both = await js.create_key_value(
            KeyValueConfig(bucket="both", sources=(away, StreamSource(name="near")))
        )
        await info_until(here, "KV_both", lambda found: found["state"]["messages"] == 2)

        got = await mirror.get("a", min_last_revision=revision)
        listed = both.keys()
        keys = sorted([key async for key in listed])
        with pytest.raises(NoResponders):
            await mirror.put("a", b"x")  # what goes to the origin is not ours to pass on

    assert (got.value, got.revision, keys) == (b"far", revision, ["a", "b"])
