"""Leaders and remotes in ``/varz`` and ``/metrics``."""

from __future__ import annotations

import asyncio

from tests.support.monitored import get, sample
from tests.support.remotes import HUB, fill, info_until, make, quick
from tests.support.replicas import Stall, copied, replica_of
from tests.support.waiting import until

import jetspark
from jetspark import KeyValueConfig

KV = 'stream_name="KV_cfg"'


async def test_a_replica_shows_how_far_it_lags_its_leader() -> None:
    async with (
        jetspark.Server(server_name="first") as leader,
        replica_of(leader.client_url, http_port=-1) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as at_replica,
    ):
        kv = await at_leader.jetstream().create_key_value(KeyValueConfig(bucket="cfg"))
        await kv.put("k", b"1")
        await copied(replica, "KV_cfg", 1)
        await (await at_replica.jetstream().key_value("cfg")).get("k")

        shown = (await get(replica, "/varz"))["jetspark"]["replica"]
        stall = Stall(replica)
        stall.begin()
        for n in range(5):
            await kv.put("k", b"%d" % n)
        await until(lambda: replica.followed["KV_cfg"].state.last_seq == 6)
        behind = await sample(replica, "jetspark_replica_lag_messages", KV)
        whole = await sample(replica, "jetspark_replica_whole", KV)
        stall.end()
        await copied(replica, "KV_cfg", 6)
        then = await sample(replica, "jetspark_replica_lag_messages", KV)

        assert shown["leader"] == leader.client_url.removeprefix("nats://")
        assert (shown["leader_id"], shown["leader_name"]) == (leader._inner.server_id, "first")
        assert shown["connected"] is True
        assert (shown["streams"], shown["streams_whole"], shown["streams_stuck"]) == (1, 1, 0)
        assert shown["reads_answered"] == replica.reads_answered > 0
        assert (behind, then, whole) == (5, 0, 1)


async def test_an_unreachable_leader_is_shown_with_the_time_of_its_last_message() -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url, http_port=-1) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
    ):
        await at_leader.jetstream().create_key_value(KeyValueConfig(bucket="cfg"))
        await copied(replica, "KV_cfg", 0)
        up = await sample(replica, "jetspark_replica_connected")
        await leader.close()
        await until(lambda: not replica.leader_is_up)

        down = await sample(replica, "jetspark_replica_connected")
        first = await sample(replica, "jetspark_replica_last_contact_seconds")
        await asyncio.sleep(0.05)
        second = await sample(replica, "jetspark_replica_last_contact_seconds")
        shown = (await get(replica, "/varz"))["jetspark"]["replica"]

        assert (up, down) == (1, 0)
        assert first is not None
        assert second is not None
        assert 0.05 <= second - first < 5
        assert shown["connected"] is False
        assert shown["last_contact"] < (await get(replica, "/varz"))["now"]


async def test_a_replica_that_never_met_its_leader_claims_no_contact() -> None:
    async with replica_of("nats://127.0.0.1:1", http_port=-1) as replica:
        shown = (await get(replica, "/varz"))["jetspark"]["replica"]
        age = await sample(replica, "jetspark_replica_last_contact_seconds")

        assert (shown["connected"], shown["leader"]) == (False, "127.0.0.1:1")
        assert "last_contact" not in shown
        assert age is None


async def test_a_remote_is_shown_with_its_connection_and_copies_that_do_not_continue() -> None:
    async with (
        jetspark.Server() as hub,
        jetspark.Server(
            remotes={"hub": {"url": hub.client_url}, "idle": {"url": "nats://127.0.0.1:1"}},
            upstreams=quick,
            http_port=-1,
        ) as server,
        await jetspark.connect(hub.client_url) as there,
        await jetspark.connect(server.client_url) as here,
    ):
        await make(there, "A", subjects=["a.>"])
        await fill(there, 10)
        await make(here, "M", mirror={"name": "A", "external": HUB})
        await info_until(here, "M", lambda found: found["state"]["messages"] == 10)
        copies = await sample(server, "jetspark_remote_copies", 'remote="hub"')
        goes_on = await sample(server, "jetspark_stream_mirror_stuck", 'mirror_name="A"')
        lag = await sample(server, "jetstream_stream_mirror_lag", 'mirror_name="A"')
        up = (await get(server, "/varz"))["jetspark"]["remotes"]
        await hub.close()
        await info_until(here, "M", lambda found: "error" in found["mirror"])

        stuck = await sample(server, "jetspark_stream_mirror_stuck", 'mirror_name="A"')
        connected = await sample(server, "jetspark_remote_connected", 'remote="hub"')
        down = (await get(server, "/varz"))["jetspark"]["remotes"]

        assert (copies, goes_on, lag) == (1, 0, 0)
        assert up == [
            {"name": "hub", "connected": True, "copies": 1},
            {"name": "idle", "connected": False, "copies": 0},
        ]
        assert (stuck, connected) == (1, 0)
        assert (down[0]["connected"], bool(down[0]["error"])) == (False, True)
