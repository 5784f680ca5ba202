"""Mirrors and sources of streams of other servers: ours, and real nats-server.

The copy never skips, never duplicates, catches up, and reports its lag truthfully, whatever
happens to the upstream or to the way there. Waits of the link are short here (remotes.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.chaos_proxy import ChaosProxy
from tests.support.remotes import (
    HUB,
    api,
    as_copied,
    caught_up,
    copying,
    fill,
    info,
    info_until,
    make,
    rows,
)
from tests.support.servers import ServerProcess

from jetspark import Client, connect

KINDS = ["jetspark", "nats-server"]
MIRROR = {"name": "A", "external": HUB}


@pytest.fixture(scope="module", params=KINDS)
def hub(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """An upstream that no one kills."""
    running = ServerProcess(request.param, tmp_path_factory.mktemp("hub"), "-js")
    yield running
    running.kill()


@contextlib.asynccontextmanager
async def both(url: str, through: str = "") -> AsyncIterator[tuple[Client, Client]]:
    """Clients of an upstream with an empty stream A, and of a server that copies from it."""
    async with await connect(url) as there, copying(through or url) as server:
        for name in ("A", "B"):
            await api(there, f"STREAM.DELETE.{name}")
        await make(there, "A", subjects=["a.>"])
        async with await connect(server.client_url) as here:
            yield there, here


async def test_a_mirror_has_everything_as_it_was(hub: ServerProcess) -> None:
    async with both(hub.url) as (there, here):
        await fill(there, 300)
        for seq in (3, 50, 299, 300):
            await api(there, "STREAM.MSG.DELETE.A", {"seq": seq})

        await make(here, "M", mirror=MIRROR)
        await caught_up(here, "M", 300)
        await fill(there, 100, first=300)
        await caught_up(here, "M", 400)

        assert await rows(here, "M") == as_copied(await rows(there, "A"))
        found = (await info(here, "M"))["mirror"]
        assert (found["lag"], found["external"]["api"]) == (0, "$JS.hub.API")
        assert "error" not in found


async def test_a_mirror_passes_an_end_that_was_deleted(hub: ServerProcess) -> None:
    """A read of these sequences (ADR-53) reports that the mirror is past them."""
    async with both(hub.url) as (there, here):
        await make(here, "M", mirror=MIRROR)
        await fill(there, 10)
        await caught_up(here, "M", 10)

        await api(there, "STREAM.PURGE.A", {"seq": 100})
        found = await caught_up(here, "M", 99)

        assert found["state"]["messages"] == 10
        await fill(there, 1)
        await caught_up(here, "M", 100)


async def test_filters_transforms_and_starts_of_remote_copies(hub: ServerProcess) -> None:
    async with both(hub.url) as (there, here):
        await fill(there, 20)
        await make(here, "F", mirror=MIRROR | {"filter_subject": "a.2"})
        await make(here, "L", mirror=MIRROR | {"opt_start_seq": 15})
        await make(here, "T", mirror=MIRROR | {"opt_start_time": "2999-01-01T00:00:00Z"})
        renamed = [{"src": "a.1", "dest": "z.one"}, {"src": "a.3", "dest": ""}]
        await make(here, "S", sources=[MIRROR | {"subject_transforms": renamed}])
        await info_until(here, "S", lambda found: found["state"]["messages"] == 8)
        await caught_up(here, "F", 18)
        await caught_up(here, "L", 20)
        await caught_up(here, "T", 20)

        assert [row[0] for row in await rows(here, "F")] == [3, 8, 13, 18]
        assert [row[0] for row in await rows(here, "L")] == [15, 16, 17, 18, 19, 20]
        assert await rows(here, "T") == []
        sourced = await rows(here, "S")
        assert [row[2] for row in sourced] == ["z.one", "a.3"] * 4
        assert b"Nats-Stream-Source: A:" in sourced[0][3]


async def test_a_source_takes_from_two_servers(hub: ServerProcess) -> None:
    async with both(hub.url) as (there, here):
        await make(here, "B", subjects=["b"])
        await here.jetstream().publish("b", b"near")
        await fill(there, 5)

        await make(here, "S", subjects=["s"], sources=[MIRROR, {"name": "B"}])
        await here.jetstream().publish("s", b"own")
        found = await info_until(here, "S", lambda found: found["state"]["messages"] == 7)

        assert sorted(source.get("seq", 0) for source in found["sources"]) == [1, 5]


async def test_a_mirror_answers_for_its_upstream_and_holds_what_it_lacks(
    hub: ServerProcess,
) -> None:
    """Unfiltered mirrors answer; a lagging one says 412 after the delay."""
    async with both(hub.url) as (there, here):
        await fill(there, 3)
        await make(here, "M", mirror=MIRROR, mirror_direct=True)
        await caught_up(here, "M", 3)

        got = await here.request("$JS.API.DIRECT.GET.A", b'{"seq":2,"min_last_seq":3}')
        late = await here.request("$JS.API.DIRECT.GET.A", b'{"seq":2,"min_last_seq":9}')

        assert (got.data, got.headers["Nats-Stream"]) == (b"1", "M")
        assert got.headers["Nats-Min-Last-Sequence"] == "3"
        assert late.status == 412


async def test_a_promoted_mirror_continues_automatically(hub: ServerProcess) -> None:
    async with both(hub.url) as (there, here):
        await fill(there, 5)
        await make(here, "M", mirror=MIRROR)
        await caught_up(here, "M", 5)

        answer = await api(here, "STREAM.UPDATE.M", {"name": "M", "subjects": ["m"]})
        assert "error" not in answer
        await fill(there, 5)
        ack = await here.jetstream().publish("m", b"own")

        assert ack.seq == 6
        assert "mirror" not in await info(here, "M")
        left = await api(there, "CONSUMER.NAMES.A")
        assert not left["consumers"]


async def test_a_purge_and_a_new_stream_of_the_name(hub: ServerProcess) -> None:
    """A purge leaves the copies alone; a stream created again is another stream."""
    async with both(hub.url) as (there, here):
        await make(here, "M", mirror=MIRROR)
        await make(here, "S", sources=[MIRROR])
        await fill(there, 10)
        await api(there, "STREAM.PURGE.A")
        await fill(there, 5, first=10)
        await caught_up(here, "M", 15)
        await info_until(here, "S", lambda found: found["sources"][0]["lag"] == 0)
        before = (await info(here, "S"))["state"]["messages"]

        await api(there, "STREAM.DELETE.A")
        gone = await info_until(here, "S", lambda found: "error" in found["sources"][0])
        await make(there, "A", subjects=["a.>"])
        await fill(there, 20, first=100)
        await caught_up(here, "M", 20)
        await info_until(here, "S", lambda found: found["state"]["messages"] == before + 20)

        assert gone["sources"][0]["error"]["err_code"] == 10059
        assert [row[4] for row in await rows(here, "S")][-20:] == [
            b"%d" % n for n in range(100, 120)
        ]
        assert [row[4] for row in await rows(here, "M")][-5:] == [
            b"%d" % n for n in range(115, 120)
        ]


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
async def test_a_stream_that_removes_messages_keeps_what_is_not_on_disk_here(
    hub: ServerProcess, retention: str
) -> None:
    async with ChaosProxy(hub.address) as proxy, both(hub.url, proxy.url) as (there, here):
        await make(there, "B", subjects=["b.>"], retention=retention)
        mirror = {"name": "B", "external": HUB}
        await make(here, "M", mirror=mirror)
        await info_until(here, "M", lambda found: found["mirror"]["active"] >= 0)
        await info_until(there, "B", lambda found: found["state"]["consumer_count"] == 1)
        for cut in range(4):
            await fill(there, 300, "b.{}", first=cut * 300)
            proxy.cut()
        await caught_up(here, "M", 1200)
        copied = [(row[0], row[4]) for row in await rows(here, "M")]
        await info_until(there, "B", lambda found: found["state"]["messages"] == 0)

        proxy.refusing = True
        proxy.cut()
        await fill(there, 10, "b.{}", first=1200)
        held = (await info(there, "B"))["state"]
        proxy.calm()
        await caught_up(here, "M", 1210)
        await api(here, "STREAM.DELETE.M")
        await info_until(there, "B", lambda found: found["state"]["consumer_count"] == 0)

        assert copied == [(n + 1, b"%d" % n) for n in range(1200)]
        assert (held["messages"], held["consumer_count"]) == (10, 1)


async def test_cuts_and_slow_ways_lose_nothing_and_double_nothing(hub: ServerProcess) -> None:
    async with ChaosProxy(hub.address) as proxy, both(hub.url, proxy.url) as (there, here):
        await make(here, "M", mirror=MIRROR)
        await make(here, "S", sources=[MIRROR])
        count = 0
        for cut in range(6):
            proxy.latency, proxy.write_size = (0.002, 4000) if cut % 3 == 1 else (0.0, 0)
            await fill(there, 400, first=count)
            count += 400
            if cut % 3 == 2:
                proxy.black_hole()
            else:
                proxy.cut()
        proxy.calm()
        await caught_up(here, "M", count)
        await info_until(here, "S", lambda found: found["state"]["messages"] >= count)

        assert await rows(here, "M") == as_copied(await rows(there, "A"))
        assert [row[4] for row in await rows(here, "S")] == [b"%d" % n for n in range(count)]


async def test_an_unreachable_origin_is_reported_and_read_again(hub: ServerProcess) -> None:
    async with ChaosProxy(hub.address) as proxy, both(hub.url, proxy.url) as (there, here):
        await make(here, "M", mirror=MIRROR)
        await fill(there, 5)
        await caught_up(here, "M", 5)

        proxy.refusing = True
        proxy.cut()
        found = await info_until(here, "M", lambda found: "error" in found["mirror"])
        silent = found["mirror"]["active"]
        await fill(there, 5, first=5)
        await asyncio.sleep(0.1)
        later = (await info(here, "M"))["mirror"]["active"]
        proxy.calm()
        well = await info_until(here, "M", lambda found: "error" not in found["mirror"])
        await caught_up(here, "M", 10)

        assert "remote hub" in found["mirror"]["error"]["description"]
        assert later > silent
        assert well["mirror"]["active"] < later


@pytest.mark.parametrize("kind", KINDS)
async def test_an_upstream_that_is_killed_and_comes_back(kind: str, tmp_path: Path) -> None:
    hub = ServerProcess(kind, tmp_path / "hub", "-js")
    port = hub.url.rpartition(":")[2]
    try:
        async with copying(hub.url) as server, await connect(server.client_url) as here:
            async with await connect(hub.url) as there:
                await make(there, "A", subjects=["a.>"])
                await make(here, "M", mirror=MIRROR)
                await fill(there, 1000)
                hub.kill()
            hub = ServerProcess(kind, tmp_path / "hub", "-js", port=port)
            async with await connect(hub.url) as there:
                await fill(there, 500, first=1000)
                last = (await info(there, "A"))["state"]["last_seq"]
                await caught_up(here, "M", last)

                assert await rows(here, "M") == as_copied(await rows(there, "A"))
    finally:
        hub.kill()


@pytest.mark.parametrize("hub", ["nats-server"], indirect=True)
async def test_a_copying_server_that_is_killed_reads_on(
    hub: ServerProcess, tmp_path: Path
) -> None:
    config = tmp_path / "copy.conf"
    config.write_text(
        f"jetspark {{ remotes {{ hub {{ url: '{hub.url}' }} }} }}\njetstream: enabled\n"
    )
    async with await connect(hub.url) as there:
        await api(there, "STREAM.DELETE.A")
        await make(there, "A", subjects=["a.>"])
        await fill(there, 3000)
        served = ServerProcess("jetspark", tmp_path / "copy", "-c", str(config))
        try:
            async with await connect(served.url) as here:
                await make(here, "M", mirror=MIRROR)
                await make(here, "S", sources=[MIRROR])
                await info_until(here, "S", lambda found: found["state"]["last_seq"] > 0)
        finally:
            served.kill()
        served = ServerProcess("jetspark", tmp_path / "copy", "-c", str(config))
        try:
            async with await connect(served.url) as here:
                await caught_up(here, "M", 3000)
                await info_until(here, "S", lambda found: found["state"]["messages"] >= 3000)

                assert await rows(here, "M") == as_copied(await rows(there, "A"))
                copied = [row[4] for row in await rows(here, "S")]
                assert copied == [b"%d" % n for n in range(3000)]
        finally:
            served.kill()
