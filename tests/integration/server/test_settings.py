"""The settings of streams and of the engine, honoured by a running server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from tests.support.served import Served

import jetspark
from jetspark.replica import ReplicaServer
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings

CREATE = {"name": "S", "subjects": ["s.>"], "allow_direct": True}


async def made(client: Client, **more: object) -> dict[str, Any]:
    body = json.dumps({**CREATE, **more}).encode()
    reply = await client.request("$JS.API.STREAM.CREATE.S", body, timeout=5)
    answer: dict[str, Any] = json.loads(reply.data)
    if "error" not in answer:
        reply = await client.request("$JS.API.STREAM.INFO.S", b'{"jetspark":true}', timeout=5)
        answer = json.loads(reply.data)
    return answer


async def status_of(client: Client, body: bytes) -> str:
    reply = await client.request("$JS.API.DIRECT.GET.S", body, timeout=5)
    return (reply.headers or {}).get("Status", "")


@pytest.mark.parametrize(
    ("config", "mode", "level"),
    [
        ("jetstream: true", "default", "durable"),
        ("jetstream { sync_interval: always }", "default", "durable"),
        ("jetstream { sync_interval: 5s }", "default", "interval"),
        ("jetstream: true\njetspark { durability: async }", "default", "async"),
        ("jetstream: true", "async", "async"),
        ("jetstream { sync_interval: 5s }", "async", "async"),
    ],
)
async def test_a_stream_says_what_an_acknowledgement_means(
    tmp_path: Path, config: str, mode: str, level: str
) -> None:
    path = tmp_path / "a.conf"
    path.write_text(f'listen: "127.0.0.1:-1"\n{config}\n')
    async with jetspark.Server(config=path, store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)

        answer = await made(client, persist_mode=mode)
        ack = await client.request("s.a", b"x", timeout=5)

        assert answer["jetspark"]["durability"] == level
        assert answer["config"].get("persist_mode", "default") == mode
        assert json.loads(ack.data)["seq"] == 1
        await client.close()


async def test_the_level_stays_after_a_restart_and_is_no_part_of_the_configuration(
    tmp_path: Path,
) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        await made(client, persist_mode="async")
        await client.close()

    async with jetspark.Server(store_dir=tmp_path, durability="interval") as server:
        client = await nats.connect(server.client_url)
        again = await made(client, persist_mode="async")

        assert again["jetspark"]["durability"] == "async"
        await client.close()


async def test_a_stream_in_memory_says_so_and_does_not_survive_a_restart(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        answer = await made(client, storage="memory")
        await client.request("s.a", b"x", timeout=5)
        read = await client.request("$JS.API.DIRECT.GET.S.s.a", b"", timeout=5)
        await client.close()

    async with jetspark.Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        names = await client.request("$JS.API.STREAM.NAMES", b"", timeout=5)
        await client.close()

    assert answer["jetspark"]["durability"] == "memory"
    assert read.data == b"x"
    assert json.loads(names.data)["streams"] is None


async def test_asynchronous_streams_have_no_atomic_batches_and_keep_their_mode() -> None:
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)

        refused = await made(client, persist_mode="async", allow_atomic=True)
        await made(client, persist_mode="async")
        body = json.dumps(CREATE).encode()
        changed = await client.request("$JS.API.STREAM.UPDATE.S", body, timeout=5)

        assert "atomic batch publish" in refused["error"]["description"]
        assert "persist mode" in json.loads(changed.data)["error"]["description"]
        await client.close()


async def test_groups_wait_for_others_if_configured() -> None:
    async with jetspark.Server(commit_delay="60ms") as server:
        client = await nats.connect(server.client_url)
        await made(client)

        begun = time.monotonic()
        acks = await asyncio.gather(*(client.request("s.a", b"x", timeout=5) for _ in range(10)))

        assert sorted(json.loads(ack.data)["seq"] for ack in acks) == list(range(1, 11))
        assert time.monotonic() - begun > 0.055
        assert server._inner.accounts["$G"].driver is not None
        await client.close()


async def test_a_read_waits_as_long_as_configured() -> None:
    async with jetspark.Server(min_last_seq_wait="30s", store_dir=None) as server:
        client = await nats.connect(server.client_url)
        await made(client)

        waiting = asyncio.create_task(status_of(client, b'{"seq":1,"min_last_seq":1}'))
        await asyncio.sleep(0.7)  # longer than it waits by default
        await client.request("s.a", b"x", timeout=5)

        assert await waiting == ""
        await client.close()


async def test_reads_beyond_the_bound_are_refused_at_once() -> None:
    async with jetspark.Server(min_last_seq_wait="30s", held_reads_max=2) as server:
        client = await nats.connect(server.client_url)
        await made(client)
        body = b'{"seq":1,"min_last_seq":9}'
        kept = [asyncio.create_task(status_of(client, body)) for _ in range(2)]
        await asyncio.sleep(0)

        refused = await status_of(client, body)

        assert refused == "412"
        assert not any(task.done() for task in kept)
        for task in kept:
            task.cancel()
        await client.close()


async def test_one_connection_may_hold_a_thousand_reads() -> None:
    async with jetspark.Server(min_last_seq_wait="30s") as server:
        client = await nats.connect(server.client_url)
        other = await nats.connect(server.client_url)
        await made(client)
        body = b'{"seq":1,"min_last_seq":9}'
        for _ in range(1000):
            await client.publish("$JS.API.DIRECT.GET.S", body, reply="nobody")
        await client.flush()

        refused = await status_of(client, body)
        held = asyncio.create_task(status_of(other, body))
        done, _ = await asyncio.wait([held], timeout=0.2)

        assert refused == "412"
        assert not done
        held.cancel()
        await client.close()
        await other.close()


def test_a_server_that_does_not_sync_says_so(serve: Callable[..., Served], tmp_path: Path) -> None:
    config = tmp_path / "a.conf"
    config.write_text("jetstream { sync_interval: 10s }\n")

    served = serve("-p", "-1", "-c", str(config))

    assert any("acknowledgements no longer mean on disk" in line for line in served.lines)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'durable'"):
        jetspark.Server(durable=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("argument", ["jetstream", "upstreams"])
def test_a_replica_refuses_what_it_decides_itself(argument: str) -> None:
    with pytest.raises(TypeError, match=f"ReplicaServer.. has no '{argument}'"):
        ReplicaServer("nats://127.0.0.1:1", streams=["*"], **{argument: None})  # type: ignore[arg-type]


async def test_limits_and_waits_change_while_the_server_runs(tmp_path: Path) -> None:
    def settings(limits: str, ours: str) -> Settings:
        return load_text(
            'listen: "127.0.0.1:-1"\n'
            f'jetstream {{ store_dir: "{tmp_path}" }}\njetspark {{ {ours} }}\n'
            f"accounts {{ A {{ jetstream {{ {limits} }}, users: [{{user: a, password: a}}] }} }}",
            {},
        )

    async with jetspark.Server(config=settings("max_streams: 5", "held_reads_max: 9")) as server:
        client = await nats.connect(server.client_url, user="a", password="a")
        await made(client)

        await server.reload(
            settings("max_streams: 1, max_file: 1000", "held_reads_max: 0, commit_delay: 1ms")
        )
        refused = await client.request("s.a", b"x" * 2000, timeout=5)
        other = json.dumps({"name": "T", "subjects": ["t"]}).encode()
        second = await client.request("$JS.API.STREAM.CREATE.T", other, timeout=5)
        info = await client.request("$JS.API.INFO", b"", timeout=5)
        held = await status_of(client, b'{"seq":1,"min_last_seq":9}')
        await client.close()

    assert json.loads(refused.data)["error"]["err_code"] == 10002
    assert json.loads(second.data)["error"]["err_code"] == 10027
    assert json.loads(info.data)["limits"]["max_storage"] == 1000
    assert held == "412"


async def test_requests_to_the_system_account_are_refused_by_name() -> None:
    async with jetspark.Server() as server:
        client = await nats.connect(server.client_url)
        inbox = await client.subscribe("answers")
        await client.publish("$SYS.REQ.SERVER.PING", b"", reply="answers")
        answer = await inbox.next_msg(timeout=5)
        error = json.loads(answer.data)["error"]

        assert (answer.headers or {})["Status"] == "503"
        assert "jetspark does not serve $SYS.REQ.SERVER.PING yet" in error["description"]
        assert json.loads(answer.data)["server"]["name"] == server._inner.server_name
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$SYS.REQ.SERVER.PING.JSZ", b"", timeout=5)

        async def own(message: Any) -> None:
            await message.respond(b"mine")

        await client.subscribe("$SYS.REQ.MINE", cb=own)
        assert (await client.request("$SYS.REQ.MINE", b"", timeout=5)).data == b"mine"
        await client.close()


async def test_who_a_client_is_is_answered_although_others_listen_to_everything() -> None:
    async with jetspark.Server(jetstream=False) as server:
        other = await nats.connect(server.client_url)
        await other.subscribe(">")
        await other.subscribe("$SYS.REQ.USER.INFO", "queue")
        await other.flush()
        client = await nats.connect(server.client_url)

        answer = await client.request("$SYS.REQ.USER.INFO", b"", timeout=30)

        assert json.loads(answer.data)["data"]["account"] == "$G"
        await client.close()
        await other.close()


async def test_a_client_without_headers_gets_the_refusal_too() -> None:
    async with jetspark.Server(jetstream=False) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            b'CONNECT {"verbose":false,"headers":false}\r\nSUB r 1\r\n'
            b"PUB $SYS.REQ.ACCOUNT.PING r 0\r\n\r\nPING\r\n"
        )
        got = await reader.readuntil(b"PONG\r\n")
        writer.close()

        assert b"MSG r 1 " in got
        assert b"does not serve $SYS.REQ.ACCOUNT.PING yet" in got


def test_a_system_account_is_refused_until_it_is_honoured() -> None:
    with pytest.raises(ConfigRefused, match="'system_account' is not supported by jetspark yet"):
        load_text("accounts { S { users: [{user: s, password: p}] } }\nsystem_account: S", {})
    named = load_text("accounts { '$SYS' { users: [{user: s, password: p}] } }", {})

    assert any("no $SYS requests are served" in remark for remark in named.remarks)


def test_a_commit_delay_that_no_publisher_waits_for_is_refused() -> None:
    with pytest.raises(ValueError, match="commit_delay: expected 0s to 10s, got 1m0s"):
        jetspark.Server(commit_delay="1m")
