"""A server whose machine has its clock set, as clients see it over sockets."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from click.testing import CliRunner
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.monitored import get

from jetspark.cli.doctor.command import doctor as commands
from jetspark.clock import SystemClock
from jetspark.server.server import Server
from jetspark.units import parse_rfc3339

HOUR = 3600 * 10**9
Y2200 = parse_rfc3339("2200-01-01T00:00:00Z")


class Machine:
    """A machine whose clock is ahead of ours by what a test says."""

    def __init__(self, ahead: int = 0) -> None:
        self.ahead = ahead

    def clock(self) -> SystemClock:
        return SystemClock(wall=lambda: time.time_ns() + self.ahead, check_interval_ns=20_000_000)


async def ask(client: Client, verb: str, body: object = None) -> dict[str, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    answer = json.loads((await client.request(f"$JS.API.{verb}", data, timeout=5)).data)
    assert "error" not in answer, answer
    return dict(answer)


async def put(client: Client, subject: str, **headers: str) -> dict[str, Any]:
    named = {f"Nats-{name.replace('_', '-')}": value for name, value in headers.items()}
    answer = await client.request(subject, b"x", timeout=5, headers=named or None)
    return dict(json.loads(answer.data))


async def stored(client: Client, stream: str) -> int:
    return int((await ask(client, f"STREAM.INFO.{stream}"))["state"]["messages"])


async def gone_within(client: Client, stream: str, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await stored(client, stream):
            await asyncio.sleep(0.05)


async def next_message(client: Client, consumer: str, expires: float) -> Msg:
    """The next message of a pull consumer, or the status that ends the request."""
    body = json.dumps({"batch": 1, "expires": round(expires * 1e9)}).encode()
    inbox = client.new_inbox()
    listening = await client.subscribe(inbox)
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}", body, reply=inbox)
    message = await listening.next_msg(timeout=expires + 5)
    await listening.unsubscribe()
    return message


async def make(client: Client) -> None:
    second = 10**9
    config = {
        "name": "S", "subjects": ["s.>"], "allow_msg_ttl": True, "duplicate_window": 2 * second,
    }  # fmt: skip
    await ask(client, "STREAM.CREATE.S", config)
    aged = {"name": "AGED", "subjects": ["a.>"], "max_age": 2 * second, "duplicate_window": second}
    await ask(client, "STREAM.CREATE.AGED", aged)
    consumer = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 2 * second}
    request = {"stream_name": "S", "config": consumer}
    await ask(client, "CONSUMER.CREATE.S.c", request)


async def test_nothing_waits_for_a_clock_that_was_set_back_over_a_restart(tmp_path: Path) -> None:
    """Previously the TTL, the age, the window and the redelivery each waited for an hour."""
    async with Server(store_dir=tmp_path, port=-1, clock=Machine().clock()) as server:
        client = await nats.connect(server.client_url)
        await make(client)
        await put(client, "s.1", Msg_Id="one")
        await put(client, "s.2", TTL="2s")
        await put(client, "a.1")
        first = await next_message(client, "c", 1)
        await client.close()

    async with Server(store_dir=tmp_path, port=-1, clock=Machine(-HOUR).clock()) as server:
        client = await nats.connect(server.client_url)
        known = await put(client, "s.1", Msg_Id="one")
        again = await next_message(client, "c", 0.2)
        more = await next_message(client, "c", 4)
        await gone_within(client, "AGED", 4)
        async with asyncio.timeout(4):
            while await stored(client, "S") > 1:
                await asyncio.sleep(0.05)
        new = await put(client, "s.1", Msg_Id="one")
        info = await ask(client, "STREAM.INFO.S")
        await client.close()

    assert first.reply.split(".")[5] == "1"
    assert known == {"stream": "S", "seq": 1, "duplicate": True}
    assert again.reply.split(".")[5] == "2"
    assert more.reply.split(".")[5] == "1"
    assert new["seq"] == 3
    assert info["state"]["first_ts"] < info["state"]["last_ts"] <= info["ts"]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_clock_that_is_set_changes_dates_and_nothing_else(
    tmp_path: Path, jump: int
) -> None:
    """Previously a clock set forward ended messages, requests and logins, and forgot ids."""
    machine = Machine()
    async with Server(store_dir=tmp_path, port=-1, http_port=-1, clock=machine.clock()) as server:
        client = await nats.connect(server.client_url)
        silent_reader, silent_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await silent_reader.readline()
        await make(client)
        begun = time.monotonic()
        await put(client, "s.1", Msg_Id="one")
        await put(client, "s.2", TTL="2s")
        await put(client, "a.1")
        for seq in ("1", "2"):
            assert (await next_message(client, "c", 1)).reply.split(".")[5] == seq
        machine.ahead = jump
        waiting = asyncio.create_task(next_message(client, "c", 10))
        await asyncio.sleep(0.1)
        known = await put(client, "s.1", Msg_Id="one")
        counts = (await stored(client, "S"), await stored(client, "AGED"))
        connected = not silent_reader.at_eof()
        if time.monotonic() - begun > 1:
            pytest.skip("the machine is too busy to tell")
        again = await waiting
        await gone_within(client, "AGED", 5)
        new = await put(client, "s.3")
        times = [
            parse_rfc3339((await ask(client, "STREAM.INFO.S"))["state"]["last_ts"]),
            parse_rfc3339((await ask(client, "CONSUMER.INFO.S.c"))["ts"]),
            parse_rfc3339((await get(server, "/varz"))["now"]),
            parse_rfc3339((await get(server, "/connz"))["connections"][0]["start"]),
        ]
        silent_writer.close()
        await client.close()

    assert known == {"stream": "S", "seq": 1, "duplicate": True}
    assert (counts, connected) == ((2, 1), True)
    assert again.reply.split(".")[5] == "1"
    assert new["seq"] == 3
    ahead = [round((each - time.time_ns()) / HOUR) for each in times]
    # Times of a stream never decrease, so one that was ahead of the new date stays there.
    assert ahead == ([1, 1, 1, 1] if jump > 0 else [0, -1, -1, -1])


async def test_a_stream_from_the_year_2200_is_served_reported_and_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Previously nothing in it grew old, and there was no warning."""
    store = tmp_path / "store"
    early = Machine(Y2200 - time.time_ns())
    async with Server(store_dir=store, port=-1, clock=Machine().clock()) as server:
        client = await nats.connect(server.client_url)
        await ask(client, "STREAM.CREATE.DAY", {"name": "DAY", "subjects": ["d.>"],
                                                "max_age": 24 * HOUR})  # fmt: skip
        await put(client, "d.1")
        await make(client)
        await put(client, "s.0")
        await client.close()
    async with Server(store_dir=store, port=-1, clock=early.clock()) as server:
        # As a restored backup would: without what grew old in 170 years.
        client = await nats.connect(server.client_url)
        for number in range(3):
            await put(client, f"s.{number}")
        await client.close()

    async with Server(store_dir=store, port=-1, http_port=-1, clock=Machine().clock()) as server:
        client = await nats.connect(server.client_url)
        health = await get(server, "/healthz")
        await put(client, "s.4", TTL="1s")
        before = await stored(client, "S")
        await asyncio.sleep(1.3)
        after = await stored(client, "S")
        await client.close()
    told = doctor(store, 1)
    mended = doctor(store, 0, "--repair")
    check = doctor(store, 0)
    async with Server(store_dir=store, port=-1, http_port=-1, clock=Machine().clock()) as server:
        client = await nats.connect(server.client_url)
        healthy = await get(server, "/healthz")
        info = await ask(client, "STREAM.INFO.S")
        payloads = [
            (await ask(client, "STREAM.MSG.GET.S", {"seq": seq}))["message"]["subject"]
            for seq in range(1, 5)
        ]
        await client.close()

    assert (before, after) == (5, 4)
    (warning,) = health["jetspark"]["warnings"]
    assert warning.startswith("stream '$G > S': its times are 15")
    assert "jetspark doctor clock" in warning
    assert any("Stream 'S' has times" in record.message for record in caplog.records)
    assert "S: the newest time is 2200-01-01T" in told
    assert "records were corrected" in mended
    assert check == "No stream has times ahead of the clock of this machine.\n"
    assert "jetspark" not in healthy or not healthy["jetspark"].get("warnings")
    assert info["state"]["last_ts"] <= info["ts"] < "2100"
    assert payloads == ["s.0", "s.0", "s.1", "s.2"]


def doctor(store: Path, code: int, *options: str) -> str:
    done = CliRunner().invoke(commands, ["clock", str(store), *options])
    assert done.exit_code == code, done.output
    return done.output
