"""A disk that takes its time: who asked for something waits for it, no one else notices.

Syncs here wait for a gate, so nothing depends on how quick the machine is: what a client gets
while the gate is closed, it got without the disk.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from tests.support.gated_files import WAIT, GatedFiles

import jetspark
import jetspark.server.jetstream.runtime
from jetspark.store.threads import DISK_THREADS
from jetspark.store.upkeep.manifests import Renewing


class World:
    """A server on such a disk, a client that asks for things, and one that must not notice."""

    def __init__(self, server: jetspark.Server, files: GatedFiles, store: Path) -> None:
        self.server = server
        self.store = store
        self.files = files

    async def connect(self, **options: Any) -> None:
        self.asking: Client = await nats.connect(self.server.client_url, **options)
        self.other: Client = await nats.connect(self.server.client_url, **options)

    async def ask(self, verb: str, **body: Any) -> dict[str, Any]:
        data = json.dumps(body).encode() if body else b""
        answer = await self.asking.request(f"$JS.API.{verb}", data, timeout=WAIT)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def create(self, name: str, **settings: Any) -> dict[str, Any]:
        config = {"name": name, "subjects": [f"{name}.>"]} | settings
        return await self.ask(f"STREAM.CREATE.{name}", **config)

    async def publish(self, subject: str, payload: bytes) -> dict[str, Any]:
        answer = await self.asking.request(subject, payload, timeout=WAIT)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def asked(self) -> None:
        """Wait until the server has what tasks are asking for."""
        await asyncio.sleep(0.05)
        await self.asking.flush(timeout=WAIT)

    async def behind_the_gate(self, *asked: Any) -> list[dict[str, Any]]:
        """Ask with the gate closed: others are served, and nothing is answered before it opens."""
        self.files.gate.clear()
        tasks = [asyncio.ensure_future(each) for each in asked]
        await self.asked()
        for _ in range(3):
            await self.other.flush(timeout=WAIT)
            await self.other.request("$JS.API.INFO", b"", timeout=WAIT)
        assert not any(task.done() for task in tasks)
        self.files.gate.set()
        return list(await asyncio.gather(*tasks))


@asynccontextmanager
async def served(store: Path, files: GatedFiles) -> AsyncIterator[World]:
    async with jetspark.Server(store_dir=store) as server:
        files.on_the_loop.clear()
        world = World(server, files, store)
        await world.connect()
        yield world
        files.gate.set()
        assert files.on_the_loop == []
        await world.asking.close()
        await world.other.close()


Serve = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    files = GatedFiles()
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", lambda: files)
    return lambda: served(tmp_path / "store", files)


async def test_no_client_waits_for_a_stream_being_created_changed_and_removed(
    serve: Serve,
) -> None:
    async with serve() as world:
        (created,) = await world.behind_the_gate(world.create("S"))
        assert created["did_create"]
        config = created["config"] | {"max_msgs": 5}
        (updated,) = await world.behind_the_gate(world.ask("STREAM.UPDATE.S", **config))
        assert updated["config"]["max_msgs"] == 5
        consumer = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
        (made,) = await world.behind_the_gate(world.ask("CONSUMER.DURABLE.CREATE.S.C", **consumer))
        assert made["name"] == "C"
        (acked,) = await world.behind_the_gate(world.publish("S.a", b"x"))
        assert acked["seq"] == 1
        (purged,) = await world.behind_the_gate(world.ask("STREAM.PURGE.S"))
        assert purged["purged"] == 1
        (gone,) = await world.behind_the_gate(world.ask("CONSUMER.DELETE.S.C"))
        assert gone["success"]
        (removed,) = await world.behind_the_gate(world.ask("STREAM.DELETE.S"))
        assert removed["success"]
        assert (await world.ask("STREAM.INFO.S"))["error"]["err_code"] == 10059


async def test_no_client_waits_for_a_new_segment(serve: Serve) -> None:
    """Segments are an eighth of ``max_bytes``, but 1 MiB at least."""
    async with serve() as world:
        await world.create("S", max_bytes=8 << 20)
        for n in range(4):
            (acked,) = await world.behind_the_gate(world.publish("S.a", bytes(700_000)))
            assert acked["seq"] == n + 1
        folder = next(world.store.glob("acct-*/stream-*"))
        assert len(list(folder.glob("*.seg"))) == 4


async def test_no_publish_waits_for_a_periodic_sync(serve: Serve) -> None:
    """Sequences are reserved in a manifest before they are used."""
    async with serve() as world:
        await world.create("S", persist_mode="async")
        (acked,) = await world.behind_the_gate(world.publish("S.a", b"x"))
        assert acked["seq"] == 1


async def test_no_client_waits_for_a_restore(serve: Serve) -> None:
    async with serve() as world:
        state = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
        config = {"name": "R", "subjects": ["R.>"], "storage": "file", "retention": "limits"}
        begin = world.ask("STREAM.RESTORE.R", config=config, state=state)
        (begun,) = await world.behind_the_gate(begin)
        assert "deliver_subject" in begun, begun

        async def give_up() -> dict[str, Any]:
            """No archive at all: what was started is removed before that is answered."""
            answer = await world.asking.request(begun["deliver_subject"], b"", timeout=WAIT)
            found: dict[str, Any] = json.loads(answer.data)
            return found

        (refused,) = await world.behind_the_gate(give_up())
        assert "error" in refused
        assert (await world.create("R"))["did_create"]


async def test_a_restored_stream_is_removed_while_its_manifests_are_written(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder goes under the housekeeper, which is no failure and is not logged as one."""
    begun, removed, ended = threading.Event(), threading.Event(), threading.Event()
    step = Renewing.step

    def late(self: Renewing) -> bool:
        begun.set()
        assert removed.wait(WAIT)
        try:
            return step(self)
        finally:
            ended.set()

    async with serve() as world:
        await world.create("S")
        inbox = await world.asking.subscribe("archive")
        sent = await world.ask("STREAM.SNAPSHOT.S", deliver_subject="archive")
        archive = []
        while (chunk := await inbox.next_msg(timeout=WAIT)).data:
            archive.append(chunk.data)
            if chunk.reply:
                await world.asking.publish(chunk.reply)
        config = sent["config"] | {"name": "R", "subjects": ["R.>"]}
        to = (await world.ask("STREAM.RESTORE.R", config=config, state=sent["state"]))[
            "deliver_subject"
        ]
        for part in archive:
            await world.asking.request(to, part, timeout=WAIT)
        monkeypatch.setattr(Renewing, "step", late)
        restored = await world.publish(to, b"")
        assert restored["config"]["name"] == "R"
        assert await asyncio.to_thread(begun.wait, WAIT)
        assert (await world.ask("STREAM.DELETE.R"))["success"]
        removed.set()
        assert await asyncio.to_thread(ended.wait, WAIT)
        await world.other.flush(timeout=WAIT)
        await world.create("R")
    assert "housekeeping" not in caplog.text


async def test_requests_about_a_stream_keep_their_order(serve: Serve) -> None:
    """Those that come while it is made or removed see what is so after that."""
    async with serve() as world:
        asked = [
            world.ask("STREAM.INFO.S"),
            world.create("S"),
            world.ask("STREAM.INFO.S"),
            world.create("S", max_msgs=7),
            world.ask("CONSUMER.CREATE.S", stream_name="S", config={"durable_name": "C"}),
            world.ask("STREAM.DELETE.S"),
            world.ask("STREAM.INFO.S"),
            world.create("S", max_msgs=9),
            world.ask("CONSUMER.NAMES.S"),
            world.ask("STREAM.INFO.S"),
        ]
        world.files.gate.clear()
        tasks = [asyncio.ensure_future(each) for each in asked]
        await asyncio.wait(tasks[:1], timeout=WAIT)
        await world.asked()
        assert [task.done() for task in tasks] == [True] + [False] * 9
        world.files.gate.set()
        (
            missing,
            created,
            info,
            refused,
            _,
            removed,
            gone,
            again,
            names,
            last,
        ) = await asyncio.gather(*tasks)
        assert missing["error"]["err_code"] == 10059
        assert created["did_create"]
        assert info["config"]["max_msgs"] == -1
        assert refused["error"]["err_code"] == 10058
        assert removed["success"]
        assert gone["error"]["err_code"] == 10059
        assert again["config"]["max_msgs"] == 9
        assert not names["consumers"]
        assert last["config"]["max_msgs"] == 9


async def test_two_streams_cannot_be_made_for_one_subject_at_a_time(serve: Serve) -> None:
    async with serve() as world:
        first, second, third = await world.behind_the_gate(
            world.create("A", subjects=["x.>"]),
            world.create("B", subjects=["x.y"]),
            world.create("C", subjects=["z"]),
        )
        assert first["did_create"]
        assert second["error"]["err_code"] == 10065
        assert third["did_create"]


async def test_what_waits_for_another_stream_keeps_its_order(serve: Serve) -> None:
    """B waits for A, which wants the same subjects; requests to B meanwhile wait with it."""
    async with serve() as world:
        first, refused, missing, third, info = await world.behind_the_gate(
            world.create("A", subjects=["x.>"]),
            world.create("B", subjects=["x.y"]),
            world.ask("STREAM.INFO.B"),
            world.create("B", subjects=["z"]),
            world.ask("STREAM.INFO.B"),
        )
        assert first["did_create"]
        assert refused["error"]["err_code"] == 10065
        assert missing["error"]["err_code"] == 10059
        assert third["did_create"]
        assert info["config"]["subjects"] == ["z"]


async def test_a_stream_whose_removal_failed_is_what_it_was(serve: Serve) -> None:
    async with serve() as world:
        await world.create("S", allow_direct=True)
        await world.publish("S.a", b"kept")
        world.files.refuse = lambda what: what.startswith("sync acct-")
        world.files.gate.clear()
        removing = asyncio.ensure_future(world.ask("STREAM.DELETE.S"))
        await world.asked()
        # It exists until it is removed: read at once, written to afterwards.
        found = await world.other.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=WAIT)
        assert found.data == b"kept"
        publishing = asyncio.ensure_future(world.publish("S.a", b"meanwhile"))
        refused = []

        def refuse_once(what: str) -> bool:
            if not what.startswith("sync acct-"):
                return False  # work in the background
            refused.append(what)
            return len(refused) == 1

        world.files.refuse = refuse_once
        world.files.gate.set()
        assert (await removing)["error"]["err_code"] == 10050
        assert (await publishing)["seq"] == 2
        assert (await world.ask("STREAM.DELETE.S"))["success"]


async def test_what_is_published_to_a_stream_that_is_removed_is_refused(serve: Serve) -> None:
    async with serve() as world:
        await world.create("S")
        world.files.gate.clear()
        removing = asyncio.ensure_future(world.ask("STREAM.DELETE.S"))
        await world.asked()
        publishing = asyncio.ensure_future(world.publish("S.a", b"too late"))
        await world.asked()
        world.files.gate.set()
        assert (await removing)["success"]
        assert (await publishing)["error"]["err_code"] == 10059


async def test_a_new_stream_costs_few_syncs(serve: Serve) -> None:
    """Two manifests, a segment, and the two folders that they and the stream are in."""
    async with serve() as world:
        await world.create("FIRST")
        before = world.files.syncs
        await world.create("S")
        assert world.files.syncs - before <= 5


async def test_a_server_that_stops_finishes_what_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = GatedFiles()
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", lambda: files)
    store = tmp_path / "store"
    async with jetspark.Server(store_dir=store) as server:
        world = World(server, files, store)
        await world.connect()
        await world.create("OLD")
        files.gate.clear()
        tasks = [
            asyncio.ensure_future(each)
            for each in (world.create("NEW"), world.ask("STREAM.DELETE.OLD"))
        ]
        while files.waiting < DISK_THREADS:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.1, files.gate.set)
    for task in tasks:
        task.cancel()
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        answer = await client.request("$JS.API.STREAM.NAMES", b"", timeout=WAIT)
        assert json.loads(answer.data)["streams"] == ["NEW"]
        await client.close()


async def test_a_server_that_stops_refuses_what_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made and removed all of them first, for seconds; the store has what was answered."""
    files = GatedFiles()
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", lambda: files)
    store = tmp_path / "store"
    answers: dict[str, dict[str, Any]] = {}
    server = jetspark.Server(store_dir=store)
    await server.start()
    world = World(server, files, store)
    await world.connect(allow_reconnect=False)
    old = [f"OLD{n}" for n in range(10)]
    for name in old:
        await world.create(name)

    async def asked(name: str, asking: Any) -> None:
        answers[name] = await asking

    files.gate.clear()
    tasks = [asyncio.ensure_future(asked(f"NEW{n}", world.create(f"NEW{n}"))) for n in range(10)]
    tasks += [
        asyncio.ensure_future(asked(name, world.ask(f"STREAM.DELETE.{name}"))) for name in old
    ]
    while files.waiting < DISK_THREADS:
        await asyncio.sleep(0.01)
    await world.other.flush(timeout=WAIT)
    closing = asyncio.ensure_future(server.close())
    driver = server._inner.accounts["$G"].driver
    assert driver is not None
    while not driver.engine.operations.closed:
        await asyncio.sleep(0.01)
    files.gate.set()
    await asyncio.wait_for(closing, WAIT)
    for client in (world.asking, world.other):
        while not client.is_closed:
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    refused = {name for name, answer in answers.items() if "error" in answer}
    assert len(answers) - len(refused) <= DISK_THREADS
    assert {answers[name]["error"]["err_code"] for name in refused} <= {10049, 10050}
    assert all(
        "the server is stopping" in answers[name]["error"]["description"] for name in refused
    )
    done = answers.keys() - refused
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        answer = await client.request("$JS.API.STREAM.NAMES", b"", timeout=WAIT)
        expected = {name for name in done if name not in old} | {*old} - done
        assert set(json.loads(answer.data)["streams"]) == expected
        await client.close()


async def test_subjects_given_up_by_a_refused_change_were_not_taken_meanwhile(
    serve: Serve,
) -> None:
    async with serve() as world:
        await world.create("A", subjects=["x", "y"], max_bytes=1 << 20)
        world.files.refuse = lambda what: what in {"write", "sync"}
        smaller = {"name": "A", "subjects": ["y"], "max_bytes": 1 << 20}
        update, create = await world.behind_the_gate(
            world.ask("STREAM.UPDATE.A", **smaller), world.create("B", subjects=["x"])
        )
        world.files.refuse = lambda _what: False
        assert update["error"]["err_code"] == 10077, update
        assert create["error"]["err_code"] == 10065, create
        assert (await world.ask("STREAM.INFO.A"))["config"]["subjects"] == ["x", "y"]


async def test_what_a_durable_change_gave_up_is_for_who_asked_meanwhile(serve: Serve) -> None:
    async with serve() as world:
        await world.create("A", subjects=["x", "y"])
        update, create, info = await world.behind_the_gate(
            world.ask("STREAM.UPDATE.A", name="A", subjects=["y"]),
            world.create("B", subjects=["x"]),
            world.ask("STREAM.INFO.A"),
        )
        assert update["config"]["subjects"] == info["config"]["subjects"] == ["y"]
        assert create["config"]["subjects"] == ["x"]
        assert (await world.publish("x", b"1"))["stream"] == "B"


async def test_a_mirror_waits_for_its_origin_that_is_being_made_or_changed(serve: Serve) -> None:
    """Whether it answers direct gets, it takes over from its origin."""
    async with serve() as world:
        _, mirror = await world.behind_the_gate(
            world.create("A", allow_direct=True),
            world.create("M", subjects=[], mirror={"name": "A"}),
        )
        assert mirror["config"]["mirror_direct"] is True
        await world.create("B")
        _, mirror = await world.behind_the_gate(
            world.ask("STREAM.UPDATE.B", name="B", subjects=["B.>"], allow_direct=True),
            world.create("N", subjects=[], mirror={"name": "B"}),
        )
        assert mirror["config"]["mirror_direct"] is True
