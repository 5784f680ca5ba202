"""Storage over real sockets: a file system that is full, levels, memory."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.js.api import ConsumerConfig
from tests.support.monitored import text

import jetspark
import jetspark.server.jetstream.runtime
from jetspark.engine.stream import maintenance
from jetspark.store.files import OsFiles

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


LISTEN = 'listen: "127.0.0.1:-1"\n'


def fill(disk: Path, *, leave: int) -> None:
    """A file of another program fills a disk, except for this much."""
    with (disk / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
        while free(disk) > leave:
            ballast.write(bytes(min(MIB, free(disk) - leave)))


def free(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


async def create(client: Client, name: str, **settings: object) -> dict[str, Any]:
    config = {"name": name, "subjects": [f"{name}.>"]} | settings
    answer = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    found: dict[str, Any] = json.loads(answer.data)
    assert "error" not in found, found
    return found


async def publish(client: Client, subject: str, payload: bytes) -> dict[str, Any]:
    answer = await client.request(subject, payload, timeout=10)
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def test_a_full_disk_refuses_serves_and_resumes(small_disk: Path) -> None:
    async with jetspark.Server(store_dir=small_disk / "store") as server:
        client = await nats.connect(server.client_url)
        await create(client, "S", allow_direct=True)
        answers: list[dict[str, Any]] = []
        while not answers or "error" not in answers[-1]:
            answers.append(await publish(client, "S.a", os.urandom(512 * 1024)))
        begun = time.monotonic()
        refused = await publish(client, "S.a", b"small")
        took = time.monotonic() - begun

        assert len(answers) > 20
        assert answers[-1]["error"]["err_code"] == refused["error"]["err_code"] == 10023
        # Generous for a busy machine: nothing is waited for.
        assert took < 5
        found = await client.request("$JS.API.DIRECT.GET.S", b'{"seq":3}', timeout=5)
        assert len(found.data) == 512 * 1024
        purged = await client.request("$JS.API.STREAM.PURGE.S", b"", timeout=5)
        assert json.loads(purged.data)["success"]
        for _ in range(100):
            answer = await publish(client, "S.a", b"again")
            if "error" not in answer:
                break
            await asyncio.sleep(0.1)
        assert "error" not in answer
        assert (small_disk / "store" / "reserve").stat().st_size == MIB
        await client.close()


async def test_a_full_disk_is_not_healthy_and_lets_the_first_purge_pass_after_a_restart(
    small_disk: Path,
) -> None:
    store = small_disk / "store"
    async with jetspark.Server(store_dir=store, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S")
        await create(client, "T")
        healthy, _ = await text(server, "/healthz")
        fill(small_disk, leave=2 * MIB)
        while "error" not in await publish(client, "S.a", bytes(5000)):
            pass
        full, reason = await text(server, "/healthz")
        await client.close()
    assert (healthy, full) == (200, 503)
    assert "the disk is full" in reason

    fill(small_disk, leave=0)
    async with jetspark.Server(store_dir=store, http_port=-1) as server:
        client = await nats.connect(server.client_url)
        started, _ = await text(server, "/healthz")
        refused = await publish(client, "T.a", b"small")
        purged = await client.request("$JS.API.STREAM.PURGE.S", b"", timeout=5)
        (small_disk / "ballast").unlink()
        for _ in range(100):
            answer = await publish(client, "T.a", b"again")
            if "error" not in answer:
                break
            await asyncio.sleep(0.1)
        await publish(client, "S.a", b"again")
        mended, _ = await text(server, "/healthz")
        await client.close()

    assert started == 503
    assert refused["error"]["err_code"] == 10023
    assert json.loads(purged.data)["success"]
    assert "error" not in answer
    assert mended == 200


async def fill_stream(client: Client, subject: str, size: int) -> int:
    """Publish until the disk refuses; how many messages it took."""
    taken = 0
    while "error" not in await publish(client, subject, bytes(size)):
        taken += 1
    return taken


async def taken_in_the_end(client: Client, subject: str) -> bool:
    """Publish until the server takes a message again."""
    for _ in range(300):
        if "error" not in await publish(client, subject, b"again"):
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("kept", [0, 3], ids=["nothing left", "little left"])
async def test_on_a_full_disk_streams_that_were_purged_give_their_space_to_others(
    small_disk: Path, restarted: bool, kept: int
) -> None:
    """F never meets the full disk itself, and its one segment holds next to no messages."""
    store = small_disk / "store"
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        await create(client, "F", allow_direct=True)
        await create(client, "G")
        for n in range(30):
            await publish(client, "F.1", bytes([n]) * (MIB // 2))
            if n == 10:
                for _ in range(kept):
                    await publish(client, "F.kept", b"kept")
        purged = await client.request("$JS.API.STREAM.PURGE.F", b'{"filter":"F.1"}', timeout=30)
        assert json.loads(purged.data)["purged"] == 30
        taken = await fill_stream(client, "G.1", 20_000)
        if not restarted:
            assert await taken_in_the_end(client, "G.1")
        await client.close()

    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        assert await taken_in_the_end(client, "G.1")
        info = json.loads((await client.request("$JS.API.STREAM.INFO.F", b"")).data)["state"]
        assert (info["messages"], info["last_seq"]) == (kept, 30 + kept)
        found = await client.request("$JS.API.DIRECT.GET.F", b'{"last_by_subj":"F.kept"}')
        assert (found.data == b"kept") == (kept > 0)
        stored = json.loads((await client.request("$JS.API.STREAM.INFO.G", b"")).data)["state"]
        assert stored["messages"] == taken + 1 + (not restarted)
        await client.close()


async def test_a_purge_on_a_full_disk_gives_space_to_every_account(small_disk: Path) -> None:
    config = small_disk / "server.conf"
    config.write_text(
        LISTEN
        + f'jetstream {{ store_dir: "{small_disk / "store"}" }}\n'
        + "accounts { A { jetstream: enabled, users: [{user: a, password: a}] }\n"
        + "B { jetstream: enabled, users: [{user: b, password: b}] } }\n"
    )
    async with jetspark.Server(config=config) as server:
        ours = await nats.connect(server.client_url, user="a", password="a")
        theirs = await nats.connect(server.client_url, user="b", password="b")
        await create(ours, "F")
        await create(theirs, "G")
        for _ in range(30):
            await publish(ours, "F.1", bytes(MIB // 2))
        await fill_stream(theirs, "G.1", 20_000)
        purged = await ours.request("$JS.API.STREAM.PURGE.F", b"", timeout=30)
        assert json.loads(purged.data)["purged"] == 30

        assert await taken_in_the_end(theirs, "G.1")
        await ours.close()
        await theirs.close()


async def test_a_purge_that_is_the_first_to_meet_a_full_disk_passes(small_disk: Path) -> None:
    async with jetspark.Server(store_dir=small_disk / "store") as server:
        client = await nats.connect(server.client_url)
        await create(client, "S")
        await publish(client, "S.a", bytes(512 * 1024))
        fill(small_disk, leave=0)
        purged = await client.request("$JS.API.STREAM.PURGE.S", b"", timeout=5)
        await client.close()

    assert json.loads(purged.data)["success"]


async def test_a_server_started_on_a_full_disk_uses_the_space_that_is_made_later(
    small_disk: Path,
) -> None:
    """Its budget is a share of the disk where the configuration has none."""
    store = small_disk / "store"
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S")
        for _ in range(4):
            await publish(client, "S.a", bytes(MIB // 2))
        await client.close()
    fill(small_disk, leave=0)
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        (small_disk / "ballast").unlink()
        stored = 0
        for _ in range(100):
            answer = await publish(client, "S.a", bytes(MIB // 2))
            stored += "error" not in answer
            if stored == 6:
                break
            await asyncio.sleep(0.1)
        await client.close()

    assert stored == 6


async def test_streams_in_memory_and_with_async_persistence_are_served(tmp_path: Path) -> None:
    for second in (False, True):
        async with jetspark.Server(store_dir=tmp_path / "store") as server:
            client = await nats.connect(server.client_url)
            if not second:
                await create(client, "M", storage="memory")
                await create(client, "A", persist_mode="async")
                assert await publish(client, "M.x", b"1") == {"stream": "M", "seq": 1}
                assert await publish(client, "A.x", b"1") == {"stream": "A", "seq": 1}
            info = json.loads((await client.request("$JS.API.STREAM.INFO.A")).data)
            assert info["state"]["messages"] == 1
            gone = json.loads((await client.request("$JS.API.STREAM.INFO.M")).data)
            assert ("error" in gone) == second
            await client.close()


async def test_a_level_with_a_period_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        LISTEN + f'jetstream {{ store_dir: "{tmp_path}/store", sync_interval: 50ms }}\n'
    )
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S")
        for n in range(50):
            assert (await publish(client, "S.a", b"%d" % n))["seq"] == n + 1
            await asyncio.sleep(0.003)
        await client.close()
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        assert (await publish(client, "S.a", b"more"))["seq"] == 51
        await client.close()


class FailingFiles(OsFiles):
    """The real file system, whose next synced write or sync of a segment fails on request."""

    fail_next = False

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        super().write_synced(handle, blobs, offset)
        self._fail()

    def sync(self, handle: int) -> None:
        super().sync(handle)
        self._fail()

    def _fail(self) -> None:
        if FailingFiles.fail_next:
            FailingFiles.fail_next = False
            raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("level", ["", "sync_interval: 20ms"], ids=["durable", "interval"])
async def test_a_stream_whose_sync_failed_is_read_only_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Fail-stop, and a second chance after the log was verified from disk."""
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", FailingFiles)
    monkeypatch.setattr(maintenance, "REOPEN_AFTER_NS", 300_000_000)
    config = tmp_path / "server.conf"
    config.write_text(LISTEN + f'jetstream {{ store_dir: "{tmp_path}/store"\n {level} }}\n')
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S", allow_direct=True)
        await publish(client, "S.a", b"kept")
        await asyncio.sleep(0.1)
        FailingFiles.fail_next = True
        answer = await publish(client, "S.a", b"maybe")
        for _ in range(100):
            if "error" in answer:
                break
            answer = await publish(client, "S.a", b"maybe")
            await asyncio.sleep(0.01)
        assert answer["error"]["err_code"] == 10077
        found = await client.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=5)
        assert found.data == b"kept"
        for _ in range(200):
            answer = await publish(client, "S.a", b"again")
            if "error" not in answer:
                break
            await asyncio.sleep(0.05)
        assert "error" not in answer
        await client.close()
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        found = await client.request("$JS.API.DIRECT.GET.S", b'{"last_by_subj":"S.a"}', timeout=5)
        assert found.data == b"again"
        await client.close()


async def test_a_confirmed_ack_on_a_read_only_stream_is_answered_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients take every other answer for a confirmation; later the same ack is confirmed."""
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", FailingFiles)
    monkeypatch.setattr(maintenance, "REOPEN_AFTER_NS", 1_000_000_000)
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        js = client.jetstream()
        await create(client, "S")
        for _ in range(2):
            await publish(client, "S.a", b"kept")
        consumer = await js.pull_subscribe("S.a", "D", stream="S")
        first, second = await consumer.fetch(2, timeout=5)
        await asyncio.sleep(0.2)  # what was delivered is in the journal by then
        FailingFiles.fail_next = True
        with pytest.raises(NoRespondersError):  # the write fails
            await client.request(first.reply, b"+ACK", timeout=5)
        with pytest.raises(NoRespondersError):  # and from then on there is none
            await client.request(second.reply, b"+ACK", timeout=5)
        for message in (first, second):
            for _ in range(200):
                try:
                    await client.request(message.reply, b"+ACK", timeout=5)
                    break
                except NoRespondersError:
                    await asyncio.sleep(0.05)
        info = await js.consumer_info("S", "D")
        await client.close()

    assert info.num_ack_pending == 0
    assert info.ack_floor.stream_seq == 2


async def test_a_confirmed_ack_of_a_consumer_in_memory_is_answered(tmp_path: Path) -> None:
    """Nothing of it is written, so there is nothing to wait for."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        js = client.jetstream()
        await create(client, "S")
        await publish(client, "S.a", b"kept")
        config = ConsumerConfig(durable_name="D", mem_storage=True)
        consumer = await js.pull_subscribe("S.a", "D", stream="S", config=config)
        (message,) = await consumer.fetch(1, timeout=5)
        answer = await client.request(message.reply, b"+ACK", timeout=5)
        info = await js.consumer_info("S", "D")
        await client.close()

    assert answer.data == b""
    assert (info.config.mem_storage, info.num_ack_pending) == (True, 0)


async def test_no_answer_says_where_the_store_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", FailingFiles)
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S", allow_direct=True, allow_atomic=True, subjects=["s"])
        for number in range(5):
            await publish(client, "s", b"payload-%d" % number)
        await client.jetstream().pull_subscribe("s", "D", stream="S")
        await client.close()
    answers: list[bytes] = []
    async with jetspark.Server(store_dir=tmp_path) as server:
        (segment,) = tmp_path.rglob("*.seg")
        with segment.open("r+b") as file:
            file.seek(segment.read_bytes().index(b"payload-1"))
            file.write(b"P")
        client = await nats.connect(server.client_url)

        async def ask(subject: str, body: bytes = b"", **headers: str) -> None:
            with suppress(NoRespondersError):
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                answer = await client.request(subject, body, timeout=5, headers=named or None)
                answers.append(repr(answer.headers).encode() + answer.data)

        api = "$JS.API."
        for again in range(2):
            await ask("s", b"x", Nats_Expected_Last_Msg_Id="a")
            await ask("s", b"x", Nats_Batch_Id="b", Nats_Batch_Sequence="1", Nats_Batch_Commit="1")
            await ask(api + "DIRECT.GET.S", b'{"seq":2}')
            await ask(api + "DIRECT.GET.S", b'{"seq":1,"batch":3}')
            await ask(api + "STREAM.MSG.GET.S", b'{"seq":2}')
            await ask(api + "STREAM.MSG.DELETE.S", b'{"seq":4}')
            await ask(api + "STREAM.INFO.S")
            await ask(api + "STREAM.UPDATE.S", b'{"name":"S","subjects":["s","t"]}')
            await ask(api + "CONSUMER.INFO.S.D")
            for name in (b"E", b"D"):
                config = b'{"stream_name":"S","config":{"durable_name":"%b"}}' % name
                await ask(api + f"CONSUMER.DURABLE.CREATE.S.{name.decode()}", config)
            await ask(api + "CONSUMER.DELETE.S.E")
            await ask(api + "STREAM.PURGE.S")
            FailingFiles.fail_next = not again
        await ask(api + "STREAM.DELETE.S")
        await client.close()

    assert len(answers) > 20
    assert sum(b'"error"' in answer for answer in answers) > 5
    assert not [answer for answer in answers if str(tmp_path).encode() in answer]


class FailingFolders(OsFiles):
    """The real file system, where changes of names cannot be made durable on request."""

    failures = 0

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        if FailingFolders.failures and path.name.startswith("acct-"):
            FailingFolders.failures -= 1
            raise OSError(errno.EIO, "the disk is broken")


async def test_a_stream_whose_deletion_failed_takes_messages_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", FailingFolders)
    monkeypatch.setattr(maintenance, "REOPEN_AFTER_NS", 300_000_000)
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S", allow_direct=True)
        await publish(client, "S.a", b"kept")
        FailingFolders.failures = 2
        refused = await client.request("$JS.API.STREAM.DELETE.S", b"", timeout=5)
        assert FailingFolders.failures == 0
        for _ in range(200):
            answer = await publish(client, "S.a", b"again")
            if "error" not in answer:
                break
            await asyncio.sleep(0.05)
        await client.close()

    assert "error" in json.loads(refused.data)
    assert "error" not in answer
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        kept = await client.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=5)
        found = await client.request("$JS.API.DIRECT.GET.S", b'{"last_by_subj":"S.a"}', timeout=5)
        gone = await client.request("$JS.API.STREAM.DELETE.S", b"", timeout=5)
        await client.close()
    assert (kept.data, found.data) == (b"kept", b"again")
    assert json.loads(gone.data)["success"]


async def test_a_stream_that_is_changed_and_removed_leaves_no_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Previously with a traceback: its manifests were due when its folder was deleted."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        js = client.jetstream()
        for _ in range(10):
            await js.add_stream(name="A", subjects=["a"])
            await js.update_stream(name="A", subjects=["a"], description="changed")
            await js.delete_stream("A")
        await client.close()
    assert "housekeeping" not in caplog.text
