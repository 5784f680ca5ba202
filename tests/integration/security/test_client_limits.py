"""Limits of connections, subscriptions, failed logins and unread output, over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import bcrypt
import msgspec
import pytest
from tests.support.raw_client import Raw, connect
from tests.support.waiting import until

from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings
from jetspark.server.server import Server

USERS = """
accounts {
  A { users: [ { user: ann, password: a }, { user: abe, password: a } ], limits { %s } }
  B { users: [ { user: bob, password: b } ] }
}
jetspark { %s }
"""
ANN, ABE, BOB = connect(b"ann", b"a"), connect(b"abe", b"a"), connect(b"bob", b"b")
IN = b"PONG\r\n"


def settings(folder: Path, ours: str = "", account: str = "") -> Settings:
    text = f'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\njetstream {{ store_dir: "{folder}" }}\n'
    return load_text(text + USERS % (account, ours), {})


class Crowd:
    """Raw clients of one server."""

    def __init__(self, server: Server, ends: contextlib.ExitStack) -> None:
        self.server = server
        self._ends = ends

    async def join(self, line: bytes) -> tuple[Raw, bytes]:
        """Connect, and what the server answers to this and a PING."""
        raw = await Raw.open(self.server.port)
        self._ends.callback(raw.close)
        return raw, await raw.say(line)

    async def send(self, data: bytes) -> None:
        """Connect, and send something that has no answer."""
        raw = await Raw.open(self.server.port)
        self._ends.callback(raw.close)
        raw.send(data)

    async def limits(self) -> dict[str, Any]:
        """What /varz says."""
        found: dict[str, Any] = json.loads(await self._monitored("varz"))["jetspark"]["limits"]
        return found

    async def metrics(self) -> str:
        """What /metrics says."""
        return await self._monitored("metrics")

    async def _monitored(self, path: str) -> str:
        def ask() -> str:
            with urllib.request.urlopen(f"{self.server.monitor_url}/{path}") as answer:
                text: str = answer.read().decode()
                return text

        return await asyncio.to_thread(ask)


@asynccontextmanager
async def crowd(folder: Path, ours: str = "", account: str = "") -> AsyncIterator[Crowd]:
    async with Server(config=settings(folder, ours, account)) as server:
        with contextlib.ExitStack() as ends:
            yield Crowd(server, ends)


async def test_a_user_has_as_many_connections_as_the_limit_says(tmp_path: Path) -> None:
    async with crowd(tmp_path, "limits { connections_per_user: 2 }") as clients:
        first, _ = await clients.join(ANN)
        assert (await clients.join(ANN))[1] == IN

        assert b"maximum connections exceeded" in (await clients.join(ANN))[1]
        assert (await clients.join(ABE))[1] == IN
        assert (await clients.limits())["refused_connections"] == 1
        first.close()
        await until(lambda: len(clients.server.connections) == 2)
        assert (await clients.join(ANN))[1] == IN


async def test_an_address_has_as_many_connections_as_the_limit_says(tmp_path: Path) -> None:
    async with crowd(tmp_path, "limits { connections_per_address: 2 }") as clients:
        half = await Raw.open(clients.server.port)  # counts before it has said anything
        assert (await clients.join(ANN))[1] == IN

        assert b"maximum connections exceeded" in (await clients.join(ANN))[1]
        half.close()
        await until(lambda: len(clients.server.connections) == 1)
        assert (await clients.join(BOB))[1] == IN


async def test_clients_that_do_not_log_in_keep_no_one_out(tmp_path: Path) -> None:
    config = msgspec.structs.replace(settings(tmp_path), max_connections=4)
    async with Server(config=config) as server:
        with contextlib.ExitStack() as ends:
            clients = Crowd(server, ends)
            known, answer = await clients.join(ANN)
            assert answer == IN
            halves = [await Raw.open(server.port) for _ in range(3)]
            for half in halves:
                ends.callback(half.close)

            for line in (ABE, BOB, ANN):  # each takes the place of one of them
                assert (await clients.join(line))[1] == IN
            assert [await half.say(ANN) for half in halves] == [b""] * 3
            assert await known.say(b"") == IN
            # All four have logged in: now the limit is for the newest.
            assert b"maximum connections exceeded" in (await clients.join(BOB))[1]


async def test_changing_the_user_frees_the_place_of_the_one_before(tmp_path: Path) -> None:
    async with crowd(tmp_path, "limits { connections_per_user: 1 }") as clients:
        raw, _ = await clients.join(ANN)
        for line in (ANN, ABE, ANN, ABE):
            assert await raw.say(line) == IN

        assert (await clients.join(ANN))[1] == IN
        assert b"maximum connections exceeded" in (await clients.join(ABE))[1]


async def test_a_reload_with_lower_limits_closes_the_newest(tmp_path: Path) -> None:
    async with crowd(tmp_path) as clients:
        raws = [(await clients.join(line))[0] for line in (ANN, ABE, BOB, ANN, ABE, BOB, ANN)]

        await clients.server.reload(settings(tmp_path, "limits { connections_per_user: 2 }"))
        assert [await raw.say(b"") == IN for raw in raws] == [True] * 6 + [False]
        await clients.server.reload(settings(tmp_path, account="max_connections: 3"))
        assert [await raw.say(b"") == IN for raw in raws[:6]] == [True] * 4 + [False, True]
        await clients.server.reload(settings(tmp_path, "limits { connections_per_address: 1 }"))
        assert [await raw.say(b"") == IN for raw in raws[:3]] == [True, False, False]


async def test_a_reload_changes_what_an_account_may_send_and_subscribe(tmp_path: Path) -> None:
    async with crowd(tmp_path) as clients:
        raw, _ = await clients.join(ANN)
        assert await raw.say(b"SUB a 1\r\n") == IN

        limits = "max_subscriptions: 2, max_payload: 5"
        await clients.server.reload(settings(tmp_path, account=limits))
        answer = await raw.say(b"SUB b 2\r\nSUB c 3\r\nPUB b 5\r\n12345\r\n")
        assert answer == b"-ERR 'maximum subscriptions exceeded'\r\nMSG b 2 5\r\n12345\r\n" + IN
        assert b"Maximum Payload" in await raw.say(b"PUB b 6\r\n123456\r\n")


async def test_a_reload_closes_who_has_more_subscriptions_than_the_account_allows(
    tmp_path: Path,
) -> None:
    async with crowd(tmp_path) as clients:
        most, _ = await clients.join(ANN + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
        within, _ = await clients.join(ABE + b"SUB a 1\r\nSUB b 2\r\n")
        other, _ = await clients.join(BOB + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")

        await clients.server.reload(settings(tmp_path, account="max_subscriptions: 2"))

        assert await most.say(b"") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert await within.say(b"PUB a 0\r\n\r\n") == b"MSG a 1 0\r\n\r\n" + IN
        assert await other.say(b"") == IN


async def test_an_account_has_as_many_subscriptions_as_the_limit_says(tmp_path: Path) -> None:
    async with crowd(tmp_path, "limits { subscriptions_per_account: 3 }") as clients:
        first, _ = await clients.join(ANN + b"SUB a 1\r\nSUB b 2\r\n")
        second, answer = await clients.join(ABE + b"SUB c 1\r\nSUB d 2\r\n")

        assert answer == b"-ERR 'maximum subscriptions exceeded'\r\n" + IN
        assert (await clients.join(BOB + b"SUB d 2\r\n"))[1] == IN
        assert await first.say(b"UNSUB 1\r\n") == IN
        assert await second.say(b"SUB d 2\r\n") == IN


@pytest.mark.parametrize("hashed", [False, True])
async def test_after_too_many_failures_no_password_is_checked(
    tmp_path: Path, *, hashed: bool
) -> None:
    password = bcrypt.hashpw(b"a", bcrypt.gensalt(4)).decode() if hashed else "a"
    config = load_text(
        f'listen: "127.0.0.1:-1"\njetstream {{ store_dir: "{tmp_path}" }}\n'
        f'authorization {{ users: [ {{ user: ann, password: "{password}" }}'
        "\n  { user: bob, password: b } ] }\n"
        "jetspark { limits { failed_logins_per_user: 3 } }",
        {},
    )
    async with Server(config=config) as server:
        with contextlib.ExitStack() as ends:
            clients = Crowd(server, ends)
            for _ in range(5):
                assert (await clients.join(ANN))[1] == IN
            wrong = [(await clients.join(connect(b"ann", b"x")))[1] for _ in range(5)]

            assert [b"Authorization Violation" in each for each in wrong] == [True] * 3 + [
                False
            ] * 2
            # Clients retry after this one: they may be right.
            assert b"Authentication Timeout" in (await clients.join(ANN))[1]
            assert (await clients.join(BOB))[1] == IN
            assert server.login_limits.refused == 3


async def test_guesses_at_one_address_lock_no_one_out_at_another(tmp_path: Path) -> None:
    async with crowd(tmp_path, "limits { failed_logins_per_address: 2 }") as clients:
        for _ in range(5):
            await clients.join(connect(b"ann", b"x"))

        assert b"Authentication Timeout" in (await clients.join(ANN))[1]
        with socket.socket() as other:
            other.bind(("127.0.0.9", 0))
            other.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(other, ("127.0.0.1", clients.server.port))
            await loop.sock_sendall(other, ANN + b"PING\r\n")
            heard = b""
            while not heard.endswith(IN):
                heard += await asyncio.wait_for(loop.sock_recv(other, 65536), 60)


async def test_the_client_with_the_most_unread_output_is_closed_for_all(tmp_path: Path) -> None:
    """Each stays below max_pending; together they exceed the limit of the server."""
    async with crowd(tmp_path, "memory { pending: 8MB }") as clients:
        server = clients.server
        raws = [await clients.join(BOB + b"SUB %b 1\r\n" % name) for name in (b"a", b"b", b"c")]
        for raw, _ in raws:
            raw.pause()
        publisher, _ = await clients.join(BOB)
        for subject in (b"a", b"b", b"c", b"b", b"a", b"b", b"c") * 80:
            await publisher.say(b"PUB %b 100000\r\n%b\r\n" % (subject, bytes(100_000)))
            if server.unread.closed:
                break

        assert server.unread.closed == 1
        assert server.unread.total < 8 << 20
        found = await clients.limits()
        assert found["pending_closed"] == 1
        assert 0 < found["pending_bytes"] < 8 << 20
        assert await publisher.say(b"") == IN
        assert server.slow_consumers == 1
        subjects = {
            subscription.subject
            for each in server.connections
            for subscription in each.client.subscriptions.values()
        }
        assert subjects == {b"a", b"c"}


async def test_monitoring_shows_the_limit_of_kept_input_and_what_is_kept(tmp_path: Path) -> None:
    half = BOB + b"PUB a 900000\r\n" + bytes(800_000)
    async with crowd(tmp_path, "memory { input: 2MB }") as clients:
        server = clients.server
        await clients.send(half)
        await until(lambda: server.input.total > 700_000)
        found = await clients.limits()
        assert (found["input"], found["input_closed"]) == (2 << 20, 0)
        assert 700_000 < found["input_bytes"] < 900_000

        for _ in range(2):
            await clients.send(half)
        await until(lambda: server.input.closed > 0)
        assert (await clients.limits())["input_closed"] == 1
        metrics = await clients.metrics()
        assert re.search(r"^jetspark_input_closed_total\{.*} 1$", metrics, re.MULTILINE)
        assert re.search(r"^jetspark_input_bytes\{.*} \d+$", metrics, re.MULTILINE)


async def test_a_client_closed_for_its_input_keeps_nothing_of_it(tmp_path: Path) -> None:
    """Not even for the seconds until its connection is forgotten; nor is it processed."""
    async with crowd(tmp_path) as clients:
        server = clients.server
        await clients.send(BOB + b"".join(b"SUB s.%d %d\r\n" % (n, n) for n in range(30_000)))
        await until(lambda: server.input.total > 50_000, every=0)
        (sender,) = server.connections

        server.input.follow(1000)

        assert server.input.closed == 1
        kept = [each for each in vars(sender).values() if isinstance(each, bytes)]
        assert sum(map(len, kept)) + sender.client.parser.held() == 0
        await until(lambda: not sender.client.subscriptions)
