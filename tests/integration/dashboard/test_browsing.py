"""Pages of messages and keys, compared with a naive reading of the whole stream."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.support.dashboards import ask, ask_in_loop

import jetspark
import jetspark.sync
from jetspark.dashboard.api import pipelines
from jetspark.dashboard.browse import BUDGET_BYTES, read_backwards, read_forwards
from jetspark.dashboard.deployment import Deployment, Target
from jetspark.dashboard.errors import Unavailable
from jetspark.dashboard.flow_report import FlowReport
from jetspark.dashboard.monitoring import MonitorAddress, Monitoring
from jetspark.dashboard.sampler import Sampler

SUBJECTS = ("a.one", "a.two", "b.one", "rare.x")


@pytest.mark.parametrize("allow_direct", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_pages_in_both_directions_have_what_a_naive_reader_finds(
    allow_direct: bool, seed: int
) -> None:
    values = random.Random(seed)
    async with jetspark.Server() as server:
        deployment = Deployment(lambda: Target(url=server.client_url, arguments={}))
        await deployment.open()
        try:
            async with await server.connect() as client:
                stream = await client.jetstream().create_stream(
                    "S", subjects=["a.*", "b.*", "rare.*"], allow_direct=allow_direct
                )
                kept: dict[int, str] = {}
                for _ in range(300):
                    subject = values.choices(SUBJECTS, (10, 10, 10, 1))[0]
                    seq = (await client.jetstream().publish(subject, b"x")).seq
                    kept[seq] = subject
                # Holes of every size, also at both ends.
                for first in (*(values.randrange(1, 300) for _ in range(30)), 1, 300):
                    for seq in range(first, min(first + values.randrange(1, 9), 301)):
                        if seq in kept:
                            del kept[seq]
                            await stream.delete_msg(seq)
                await _compare(deployment, kept, values)
        finally:
            await deployment.close()


async def _compare(deployment: Deployment, kept: dict[int, str], values: random.Random) -> None:
    handle = await deployment.stream("S")
    for pattern, limit in (("", 7), ("", 50), ("a.*", 5), ("rare.x", 3), ("none.x", 5)):
        wanted = [
            seq
            for seq, subject in sorted(kept.items())
            if not pattern or subject.startswith(pattern.rstrip("*"))
        ]
        assert await _all(deployment, handle, pattern, limit, forwards=True) == wanted
        assert await _all(deployment, handle, pattern, limit, forwards=False) == wanted[::-1]
        before = values.randrange(1, 310)
        page = await read_backwards(deployment, handle, before, pattern, limit)
        older = [seq for seq in wanted[::-1] if seq < before]
        assert [each.seq for each in page.messages] == older[:limit]


async def _all(
    deployment: Deployment, handle: Any, pattern: str, limit: int, *, forwards: bool
) -> list[int]:
    """Page by page until there is no next one."""
    found: list[int] = []
    at = 1 if forwards else 0
    while True:
        read = read_forwards if forwards else read_backwards
        page = await read(deployment, handle, at, pattern, limit)
        found += [each.seq for each in page.messages]
        at = page.next
        if not at:
            return found


async def test_a_bucket_at_a_time_is_what_it_was_then() -> None:
    values = random.Random(5)
    async with jetspark.Server(dashboard=True, http_port=-1) as server:
        url = server.monitor_url + "/dashboard/"
        async with await server.connect() as client:
            bucket = await client.jetstream().create_key_value("b", history=20)
            states: list[tuple[str, dict[str, int]]] = []
            current: dict[str, int] = {}
            for number in range(60):
                key = f"k{values.randrange(8)}"
                if key in current and values.random() < 0.25:
                    await bucket.delete(key)
                    del current[key]
                else:
                    current[key] = await bucket.put(key, str(number).encode())
                if number % 15 == 7:
                    last = await client.jetstream().stream("KV_b")
                    info = await last.info()
                    assert info.state.last_time is not None
                    # Between this change and the next one.
                    at = info.state.last_time.timestamp() + 0.002
                    states.append((_iso(at), dict(current)))
                    await _until(at)
            for then, state in states:
                answer = await ask_in_loop(url, f"api/kv/b/keys?time={then}")
                assert answer.status == 200, answer.body
                shown = {row["key"]: row["revision"] for row in answer.json["rows"]}
                assert shown == state
                for key in state:
                    entry = (await ask_in_loop(url, f"api/kv/b/entry?key={key}&time={then}")).json
                    assert entry["at"] == state[key]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


async def _until(at: float) -> None:
    await asyncio.sleep(max(at + 0.004 - time.time(), 0))


def test_a_blocking_server_has_the_dashboard_too() -> None:
    with jetspark.sync.Server(dashboard=True) as server:
        answer = ask(server.monitor_url + "/dashboard/", "api/overview")
        assert answer.status == 200
        assert answer.json["sample"]["connected"]
    with pytest.raises(ValueError, match="monitor_token"):
        jetspark.Server(dashboard=True, host="0.0.0.0", http_port=-1)


async def test_a_batch_in_flight_is_listed_until_it_ends() -> None:
    async with jetspark.Server(dashboard=True) as server, await server.connect() as client:
        url = server.monitor_url + "/dashboard/"
        await client.jetstream().create_stream("B", subjects=["b"], allow_atomic=True)
        for number in ("1", "2", "3"):
            headers = {"Nats-Batch-Id": "one", "Nats-Batch-Sequence": number}
            client.publish("b", b"x", headers=headers)
        await client.flush()
        found = (await ask_in_loop(url, "api/batches")).json
        assert [
            (row["stream"], row["kind"], row["id"], row["messages"]) for row in found["rows"]
        ] == [("B", "atomic", "one", 3)]
        assert found["total"] == 1
        last = {"Nats-Batch-Id": "one", "Nats-Batch-Sequence": "4", "Nats-Batch-Commit": "1"}
        await client.request("b", b"x", headers=last)
        assert (await ask_in_loop(url, "api/batches")).json == {"rows": [], "total": 0}


async def test_viewers_share_one_poller_and_leave_nothing_after_them() -> None:
    async with jetspark.Server(dashboard=True) as server:
        address = urlsplit(server.monitor_url)
        viewers = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(b"GET /dashboard/api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            viewers.append((reader, writer))
        samples = [await _sample(reader) for reader, _ in viewers]
        # All got the same one.
        assert len({sample["time"] for sample in samples}) == 1
        for _, writer in viewers:
            writer.close()
        # The end of the server waits for no viewer.
    assert [each for each in asyncio.all_tasks() if "event_texts" in repr(each)] == []


async def _sample(reader: asyncio.StreamReader) -> Any:
    async with asyncio.timeout(20):
        while not (line := await reader.readline()).startswith(b"data: "):
            pass
    return json.loads(line.removeprefix(b"data: "))


async def test_a_page_of_large_messages_is_short_and_continues() -> None:
    async with jetspark.Server(dashboard=True) as server:
        url = server.monitor_url + "/dashboard/"
        async with await server.connect() as client:
            await client.jetstream().create_stream("S", subjects=["s"], allow_direct=True)
            for _ in range(40):
                await client.jetstream().publish("s", bytes(1_000_000))
        for way, seqs in (("from=1", range(1, 41)), ("before=0", range(40, 0, -1))):
            name, _, at = way.partition("=")
            found: list[int] = []
            while True:
                path = f"api/streams/S/messages?{name}={at}&limit=40"
                page = (await ask_in_loop(url, path)).json
                rows = [row["seq"] for row in page["rows"]]
                assert 1 <= len(rows) <= 2 * BUDGET_BYTES / 1_000_000
                found += rows
                if not page["next"]:
                    break
                at = page["next"]
            assert found == list(seqs)


POISON = {
    "no-text": b"\xff\xfe",
    "no-json": b"{",
    "nested": b"[" * 100_000,
    "nested-runs": b'{"epoch":1,"last_seq":2,"runs":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "list-link": b'{"name":"x","options":{"link":["x"]}}',
    "number-link": b'{"name":"x","options":{"link":{"name":5}}}',
    "negative": b'{"name":"x","size":-5,"nuid":"a b"}',
    "text-size": b'{"name":"x","size":"x","nuid":"a"}',
    "infinite": b'{"name":"x","size":1e400,"nuid":">"}',
    "huge": b'{"name":"x","size":99999999999999999999999,"nuid":">"}',
    "largest": b'{"name":"x","size":9223372036854775807,"nuid":">"}',
    "number": b'{"name":7,"size":1,"nuid":7}',
    "huge-epoch": b'{"epoch":1,"last_seq":9223372036854775808000}',
}


async def test_one_damaged_entry_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with jetspark.Server(dashboard=True) as server:
        url = server.monitor_url + "/dashboard/"
        async with await server.connect() as client:
            stream = client.jetstream()
            ledger = await stream.create_key_value("ledger")
            await ledger.put("query", b'{"epoch":3,"last_seq":9}')
            progress = await stream.create_key_value("progress")
            await progress.put("a.b", b'{"project":"a","flow":"b","state":"running","lag":5}')
            objects = await stream.create_object_store("files")
            await objects.put("good", b"hello")
            # A stream with the name of a bucket, and subjects that no bucket has.
            await stream.create_stream("KV_other", subjects=["other"])
            for key, data in POISON.items():
                bucket = await stream.create_key_value(f"poison-{key}")
                await bucket.put(key, data)
                await stream.publish("other", data)
                name = base64.urlsafe_b64encode(key.encode()).decode()
                await stream.publish(f"$O.files.M.{name}", data)
        answer = await ask_in_loop(url, "api/pipelines")
        assert answer.status == 200
        assert [row["key"] for row in answer.json["rows"] if row["epoch"] == 3] == ["query"]
        flows = answer.json["flows"]
        assert [(row["flow"], row["lag"], row["silent"]) for row in flows] == [("b", 5, False)]
        # Half a minute later.
        monkeypatch.setattr(pipelines, "SILENT_S", -1.0)
        answer = await ask_in_loop(url, "api/pipelines")
        assert [row["silent"] for row in answer.json["flows"]] == [True]
        answer = await ask_in_loop(url, "api/objects/files")
        assert answer.status == 200
        assert "good" in [row["name"] for row in answer.json["rows"]]
        for key in POISON:
            answer = await ask_in_loop(url, f"api/objects/files/download?name={key}")
            # A description that cannot be read counts as that of an empty object.
            unreadable = key not in {"largest", "number"}
            assert answer.status == (200 if unreadable else 400), key
            assert (answer.body == b"") is unreadable
        assert (await ask_in_loop(url, "api/objects/files/download?name=good")).body == b"hello"


async def test_a_key_did_not_exist_before_its_bucket() -> None:
    async with jetspark.Server(dashboard=True) as server:
        url = server.monitor_url + "/dashboard/"
        async with await server.connect() as client:
            bucket = await client.jetstream().create_key_value("b")
            for _ in range(3):
                await bucket.put("k", b"v")
        ask_at = "api/kv/b/entry?key=k&time="
        long_ago = await ask_in_loop(url, f"{ask_at}2020-01-01T00:00:00Z")
        assert (long_ago.json["at"], long_ago.json["overwritten"]) == (0, False)
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        assert (await ask_in_loop(url, ask_at + now)).json["at"] == 3


async def test_the_password_of_the_monitoring_port_is_not_shown() -> None:
    found = MonitorAddress(url="http://ops:hunter2@127.0.0.1:1/base")
    monitoring = Monitoring(lambda: found)
    with pytest.raises(Unavailable) as refused:
        await monitoring.document("varz")
    assert "hunter2" not in str(refused.value)
    assert monitoring.url == "http://127.0.0.1:1/base"


async def test_the_health_of_a_server_is_followed_while_a_page_is_open() -> None:
    reported = b'{"status":"ok"}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + (reported if asked == b"/healthz" else b"{}"))
        writer.close()

    monitor = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = MonitorAddress(url=f"http://127.0.0.1:{monitor.sockets[0].getsockname()[1]}")
    async with monitor, jetspark.Server() as server:
        deployment = Deployment(lambda: Target(url=server.client_url, arguments={}))
        await deployment.open()
        sampler = Sampler(deployment, Monitoring(lambda: address))
        sampling = asyncio.create_task(sampler.run())
        sampler.enter()
        try:
            number, sample = await sampler.after(0)
            assert sample["health"] == {"status": "ok"}
            reported = b'{"status":"unavailable","error":"the disk is full"}'
            number, sample = await sampler.after(number)
            assert sample["health"]["error"] == "the disk is full"
            reported = b'{"status":"ok"}'
            _, sample = await sampler.after(number)
            assert sample["health"] == {"status": "ok"}
        finally:
            sampling.cancel()
            await deployment.close()


async def test_a_live_tail_has_the_first_message_of_a_stream_and_of_the_next_one() -> None:
    async with jetspark.Server(dashboard=True) as server, await server.connect() as client:
        context = client.jetstream()
        await context.create_stream("S", subjects=["s.*"])
        reader, writer = await _open_tail(server, "?filter=s.rare")
        await _position(reader)
        for number in range(300):
            await context.publish("s.noise" if number else "s.rare", b"x")
        rows, is_cut = await _tail(reader)
        assert ([row["seq"] for row in rows], is_cut) == ([1], False)
        await context.delete_stream("S")
        await reader.readuntil(b"stream not found")
        await context.create_stream("S", subjects=["s.*"])
        await context.publish("s.rare", b"again")
        rows, is_cut = await _tail(reader)
        assert ([row["seq"] for row in rows], is_cut) == ([1], False)
        for _ in range(200):
            await context.publish("s.rare", b"x")
        rows, is_cut = await _tail(reader)
        if not is_cut:  # it looked in between
            rows, is_cut = await _tail(reader)
        writer.close()
        assert is_cut
        assert rows[-1]["seq"] > 50


async def test_a_live_tail_that_lost_its_connection_continues_where_it_was() -> None:
    async with jetspark.Server(dashboard=True) as server, await server.connect() as client:
        context = client.jetstream()
        await context.create_stream("S", subjects=["s.*"])
        await context.publish("s.a", b"before the tail")
        reader, writer = await _open_tail(server)
        position = await _position(reader)
        writer.close()
        await context.publish("s.a", b"while it was away")
        # A browser that connects again, and a page that comes back.
        for query, header in (("", f"Last-Event-ID: {position}\r\n"), (f"?after={position}", "")):
            reader, writer = await _open_tail(server, query, header)
            rows, _ = await _tail(reader)
            writer.close()
            assert [row["seq"] for row in rows] == [2]
        await context.delete_stream("S")
        await context.create_stream("S", subjects=["s.*"])
        for _ in range(3):
            await context.publish("s.a", b"of another stream")
        reader, writer = await _open_tail(server, f"?after={position}")
        rows, _ = await _tail(reader)
        writer.close()
        assert [row["seq"] for row in rows] == [1, 2, 3]


async def _open_tail(
    server: jetspark.Server, query: str = "", header: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.monitor_url).port)
    query = query.replace("+", "%2B")
    writer.write(
        f"GET /dashboard/api/streams/S/tail{query} HTTP/1.1\r\n"
        f"Host: localhost\r\n{header}\r\n".encode()
    )
    return reader, writer


async def _position(reader: asyncio.StreamReader) -> str:
    """The next position of a tail."""
    async with asyncio.timeout(10):
        line = b""
        while not line.startswith(b"id: "):
            line = await reader.readuntil(b"\n")
    return line.removeprefix(b"id: ").decode().strip()


async def _tail(reader: asyncio.StreamReader) -> tuple[list[Any], bool]:
    """The next event with rows."""
    async with asyncio.timeout(10):
        while True:
            line = await reader.readuntil(b"\n")
            if line.startswith(b'data: {"rows"'):
                found = json.loads(line.removeprefix(b"data: "))
                return found["rows"], found["is_cut"]


async def test_every_flow_of_a_progress_bucket_is_shown_with_its_last_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipelines, "SILENT_S", 0.0)
    async with jetspark.Server(dashboard=True) as server, await server.connect() as client:
        bucket = await client.jetstream().create_key_value("PROGRESS", history=5)

        async def report(number: int, state: str) -> None:
            # As a continuous run writes it.
            flow = FlowReport(project="shop", flow=f"flow_{number:02d}", state=state, lag=2**60)
            await bucket.put(f"shop.flow_{number:02d}", msgspec.json.encode(flow))

        for number in range(70):
            await report(number, "running")
        for number, state in enumerate(("stopped", "failed", "restarting")):
            await report(number, state)
        await bucket.delete("shop.flow_69")
        url = server.monitor_url + "/dashboard/"
        flows = (await ask_in_loop(url, "api/pipelines")).json["flows"]
        assert [flow["flow"] for flow in flows] == [f"flow_{number:02d}" for number in range(69)]
        states = [(flow["state"], flow["silent"]) for flow in flows[:4]]
        assert states == [
            ("stopped", False),
            ("failed", False),
            ("restarting", True),
            ("running", True),
        ]
        assert {flow["lag"] for flow in flows} == {2**60}
