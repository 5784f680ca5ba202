"""Errors that no one expected end one request; one stream or consumer never stops the others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.inbox_wire import Wire
from tests.support.served import Served

import jetspark
from jetspark import ConsumerConfig, StreamConfig
from jetspark.api.enums import AckPolicy, Retention
from jetspark.engine.advisories import Requester
from jetspark.engine.target import Target
from jetspark.server.routing.account_engine import AccountEngine, ServerWithoutJetStream
from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.store import FileStore


class Broken(ServerWithoutJetStream):
    """An engine that fails to take requests."""

    def __init__(self, whole: AccountEngine) -> None:
        self._whole = whole

    def resolve(self, subject: bytes, /) -> Target | None:
        return self._whole.resolve(subject)

    def request(
        self,
        _target: Target,
        _reply: bytes,
        _headers: bytes,
        _body: bytes,
        _requester: Requester,
        /,
    ) -> None:
        raise ZeroDivisionError("a mistake of ours")

    def pull(self, _key: bytes, _headers: bytes, _body: bytes, _reply: bytes, /) -> bool:
        raise ZeroDivisionError("a mistake of ours")


async def test_a_mistake_of_ours_is_a_500_for_that_request_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection stays, one line is logged, one counter counts (previously not)."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        wire = await Wire.open(server.port)
        router = server._inner.default_account.router
        whole = router.engine
        router.engine = Broken(whole)

        api = await wire.ask(b"$JS.API.INFO", b"in.1")
        pull = await wire.ask(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"in.2")
        core = await wire.ask(b"in.3", b"", b"hi")
        router.engine = whole
        mended = await wire.ask(b"$JS.API.INFO", b"in.4")
        wire.writer.close()

    assert json.loads(api)["error"]["code"] == 500
    assert pull.startswith(b"NATS/1.0 500 ")
    assert core == b"hi"
    assert b'"type":"io.nats.jetstream.api.v1.account_info_response"' in mended
    assert server._inner.failures.count == 2
    lines = [record for record in caplog.records if "Internal error" in record.message]
    assert len(lines) == 2
    assert "ZeroDivisionError: a mistake of ours" in lines[0].message


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a good stream and one whose configuration no server can read."""
    folder = tmp_path / "store"
    with_both = FileStore(OsFiles(), folder)
    with_both.open(lambda _identity, _recovery: None)
    for n, (name, config) in enumerate(
        {
            "GOOD": b'{"name":"GOOD","subjects":["good"]}',
            "BAD": b'{"name":"BAD","max_age":"x"}',
        }.items()
    ):
        log = with_both.create(
            Identity(
                stream_id=n + 1, account="$G", name=name, created_ns=1, config=msgspec.Raw(config)
            )
        )
        log.close()
    with_both.close()
    return folder


def test_a_stream_that_cannot_be_served_is_reported_and_the_others_start(
    store: Path,
) -> None:
    """Previously the server never started again, and `doctor` said healthy."""
    server = Served(store, "-p", "-1", "-js", "-m", "-1")
    try:
        assert server.url, "".join(server.lines)
        log = "".join(server.lines)
        assert "Stream 'BAD' cannot be served, the others are" in log
        names = asyncio.run(stream_names(server.url))
        assert names == ["GOOD"]
        monitor = next(line for line in server.lines if "Starting http monitor" in line)
        port = monitor.rsplit(":", 1)[1].strip()
        assert health(f"http://127.0.0.1:{port}/healthz")["status"] == "unavailable"
    finally:
        server.end()
    checked = doctor(store)
    assert checked.returncode == 2
    assert "cannot be served" in checked.stdout


def test_names_of_files_that_are_not_ours_stop_neither_the_start_nor_its_reports(
    store: Path,
) -> None:
    account = next(store.glob("acct-*"))
    (account / "stream-\udcff").mkdir()
    (account / "stream-0000000000000001" / f"{2**64 - 1}-{2**64 - 1}.seg").write_bytes(b"x")
    server = Served(store, "-p", "-1", "-js", "-m", "-1")
    try:
        assert server.url, "".join(server.lines)
        assert asyncio.run(stream_names(server.url)) == ["GOOD"]
        monitor = next(line for line in server.lines if "Starting http monitor" in line)
        port = monitor.rsplit(":", 1)[1].strip()
        warnings = health(f"http://127.0.0.1:{port}/healthz")["jetspark"]["warnings"]
        assert "stream-\\udcff" in "".join(warnings)
    finally:
        server.end()
    checked = doctor(store)
    assert checked.returncode == 2
    assert "Traceback" not in checked.stderr
    assert json.loads(checked.stdout)["foreign"] == [f"{account}/stream-\udcff"]


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
async def test_a_consumer_that_cannot_be_served_is_reported_and_what_it_needs_is_kept(
    retention: str, tmp_path: Path
) -> None:
    """Everything else starts; its records and the messages it had not got stay on disk."""
    folder = tmp_path / "store"
    async with jetspark.Server(store_dir=folder) as server:
        async with await jetspark.connect(server.client_url) as client:
            js = client.jetstream()
            for name in ("S", "OTHER"):
                await js.create_stream(
                    StreamConfig(
                        name=name, subjects=(f"{name}.>",), retention=Retention(retention)
                    )
                )
            stream = await js.stream("S")
            for name in ("bad", "good"):
                await stream.create_consumer(
                    ConsumerConfig(
                        durable=name,
                        ack_policy=AckPolicy.EXPLICIT,
                        filter_subject=f"S.{name}" if retention == "workqueue" else "",
                    )
                )
            for n in range(4):
                await js.publish("S.good" if n % 2 else "S.bad", b"%d" % n)
        engine = driver_of(server).engine
        bad = engine.streams["S"].consumers["bad"]
        damaged = b'{"name":"bad","config":{"ack_wait":"x"},"created_ns":1}'
        engine.streams["S"].log.staged.set_consumer(bad.id, damaged)
        engine.mark_dirty(engine.streams["S"])
    for _ in range(2):
        async with (
            jetspark.Server(store_dir=folder, http_port=-1) as server,
            await jetspark.connect(server.client_url) as client,
        ):
            js = client.jetstream()
            good = await (await js.stream("S")).consumer("good")
            for message in await good.fetch(4, no_wait=True):
                await message.ack_sync()
            assert (await js.publish("S.bad", b"new")).stream == "S"
            await js.publish("OTHER.x", b"served")
            kept = await (await js.stream("S")).info()
            report = await asyncio.to_thread(health, f"{server.monitor_url}/healthz")
            assert "bad" not in driver_of(server).engine.streams["S"].consumers
    expected = {"limits": 6, "interest": 6, "workqueue": 4}
    assert kept.state.messages == expected[retention]
    assert report["status"] == "unavailable"
    assert "S" in json.dumps(report)
    checked = doctor(folder)
    assert checked.returncode == 2
    assert "consumer" in checked.stdout


def driver_of(server: jetspark.Server) -> Any:
    """What serves the streams of the only account."""
    assert server._inner.runtime is not None
    (driver,) = server._inner.runtime._drivers.values()
    return driver


def health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as refused:
        found = json.load(refused)
    return found


def doctor(store: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jetspark", "doctor", "check", str(store), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def stream_names(url: str) -> list[str]:
    async with await jetspark.connect(url) as client:
        return [name async for name in client.jetstream().stream_names()]


async def test_waiting_pulls_hear_that_the_server_ends(tmp_path: Path) -> None:
    """409 Server Shutdown with what they did not get, as nats-server says it (previously not)."""
    server = jetspark.Server(store_dir=tmp_path)
    await server.start()
    async with await jetspark.connect(server.client_url) as client:
        js = client.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        await stream.create_consumer(ConsumerConfig(durable="c"))
        wire = await Wire.open(server.port)
        body = b'{"batch":7,"expires":60000000000}'
        wire.tell(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"in.1", body)
        assert await wire.ask(b"in.2", b"", b"taken") == b"taken"
    await server.close()
    said = await wire.hear()
    wire.writer.close()
    assert said.startswith(b"NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 7\r\n")


async def test_an_account_without_jetstream_gets_an_error(tmp_path: Path) -> None:
    """503 / 10039, as nats-server; previously there was no answer."""
    config = tmp_path / "server.conf"
    config.write_text(
        'listen: "127.0.0.1:-1"\n'
        f'jetstream {{ store_dir: "{tmp_path}/js" }}\n'
        "accounts { A { jetstream: enabled, users: [{user: a, password: a}] },"
        " B { users: [{user: b, password: b}] } }\n"
    )
    async with jetspark.Server(config=config) as server:
        wire = await Wire.open(server.port, b',"user":"b","pass":"b"')
        said = await wire.ask(b"$JS.API.STREAM.NAMES", b"in.1")
        wire.writer.close()
    error = json.loads(said)["error"]
    assert (error["code"], error["err_code"]) == (503, 10039)


@pytest.mark.parametrize("name", ["go", "git_commit", "proto", "headers", "max_payload", "host"])
async def test_info_has_what_every_nats_server_says(name: str, tmp_path: Path) -> None:
    """The new official Python client refuses a server without `go` (as ours was)."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        line = await reader.readline()
        writer.close()
    assert json.loads(line.removeprefix(b"INFO "))[name] not in ("", None)


PULLS: dict[str, Callable[[], bytes]] = {
    "async-nats": lambda: (
        b'{"batch":1,"expires":null,"no_wait":true,"max_bytes":null,"idle_heartbeat":null,'
        b'"min_pending":null,"min_ack_pending":null,"group":null,"id":null,"priority":null}'
    ),
    "keys in another case": lambda: b'{"Batch":1,"NO_WAIT":true}',
}


@pytest.mark.parametrize("body", PULLS)
async def test_null_in_a_pull_request_is_absent(body: str, tmp_path: Path) -> None:
    """The Rust client sends null for what is not set: previously 400."""
    async with (
        jetspark.Server(store_dir=tmp_path) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        js = client.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        config = ConsumerConfig(durable="c", ack_policy=AckPolicy.EXPLICIT)
        await stream.create_consumer(config)
        await js.publish("s", b"one")
        await js.publish("s", b"two")
        inbox = await client.subscribe("in.>")
        client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", PULLS[body](), reply="in.1")
        first = await asyncio.wait_for(anext(aiter(inbox)), 10)
        assert first.data == b"one"
        assert first.reply
        client.publish(first.reply, b"+NXT " + PULLS[body](), reply="in.2")
        second = await asyncio.wait_for(anext(aiter(inbox)), 10)
        assert second.data == b"two"
