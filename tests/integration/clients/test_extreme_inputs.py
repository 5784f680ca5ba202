"""CONNECT, the monitoring port and the command line with extreme values: no one else notices."""

from __future__ import annotations

import asyncio
import http.client
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner
from tests.support import limit_values as table
from tests.support.inbox_wire import Wire

import jetspark
from jetspark.cli.main import main
from jetspark.protocol.handshake import ConnectOptions


async def said(port: int, line: bytes) -> bytes:
    """What a server says to a first line, up to a PONG or the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    await reader.readline()
    writer.write(line + b"\r\nPING\r\n")
    heard = b""
    with suppress(ConnectionError):
        while not heard.endswith(b"PONG\r\n"):
            more = await asyncio.wait_for(reader.read(65536), 10)
            if not more:
                break
            heard += more
    writer.close()
    return heard


async def test_any_field_of_connect_is_taken_or_ends_that_connection_alone(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        for name, value in [*table.fields(ConnectOptions), ("more", table.DEEP_OBJECT)]:
            if len(value) > 3000:
                continue  # longer than a line may be, which the next test is about
            body = table.body_of({"verbose": False}, name, value)
            heard = await said(server.port, b"CONNECT " + body)
            # Closed silently, as by nats-server, or served.
            assert heard in {b"", b"PONG\r\n"} or heard.startswith((b"-ERR ", b"+OK")), (
                name,
                heard,
            )
        for _, body in table.ODD_BODIES:
            heard = await said(server.port, b"CONNECT " + body.replace(b"\n", b""))
            assert heard.endswith(b"PONG\r\n") or heard.startswith(b"-ERR ") or not heard
        wire = await Wire.open(server.port)
        assert await wire.ask(b"in.1", b"", b"still there") == b"still there"
        wire.writer.close()
        assert server._inner.failures.count == 0


async def test_a_second_connect_may_be_anything_as_well(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        for name in ("protocol", "verbose", "user", "name"):
            for value in (
                *table.LARGE,
                *table.INTEGERS[:6],
                "[]",
                "{}",
                '"\\ud800"',
                '"a\\u0000"',
            ):
                first = b'CONNECT {"verbose":false}\r\n'
                second = b"CONNECT " + table.body_of({}, name, value)
                heard = await said(server.port, first + second)
                assert heard.endswith(b"PONG\r\n") or b"-ERR " in heard or not heard


QUERIES: Final = {
    "varz": (),
    "connz": ("auth", "subs", "offset", "limit", "cid", "state", "sort", "user", "acc"),
    "subsz": ("subs", "offset", "limit", "acc", "test"), "routez": ("subs",), "leafz": ("subs",),
    "gatewayz": ("subs", "accs", "gw_name", "acc_name"), "accountz": ("acc",),
    "accstatz": ("unused",), "readyz": (),
    "jsz": ("acc", "accounts", "streams", "consumers", "config", "offset", "limit", "raft",
            "leader-only", "stream-leader-only", "direct-consumers"),
    "healthz": ("js-enabled", "js-enabled-only", "js-server-only", "account", "stream",
                "consumer", "details"),
    "storez": ("acc", "stream", "offset", "limit"), "metrics": ("jsz", "connz", "acc", "stream"),
}  # fmt: skip
WORDS: Final = (
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "-1",
    "-9223372036854775808", "9" * 5000, "1e400", "NaN", "%00", "%ff%fe", "%ed%a0%80", "%", "a%20b",
    "%E0%B8", "x" * 20_000, "true", "", "..%2f..%2fetc", "%0d%0aX:%20y", "+", "*", "%3E",
)  # fmt: skip


async def test_any_query_is_answered_and_never_by_a_mistake_of_ours(tmp_path: Path) -> None:
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        address = server.monitor_url.removeprefix("http://").strip("/")
        found = await asyncio.to_thread(statuses, address)
        assert server._inner.failures.count == 0
    wrong = {path: status for path, status in found.items() if status not in FINE}
    assert wrong == {}


FINE: Final = {200, 400, 404, 503}


def statuses(address: str) -> dict[str, int]:
    """What the monitoring port says to queries; words take turns from name to name."""
    found = {}
    turn = 0
    for page, names in QUERIES.items():
        for name in (*names, "callback", "unknown"):
            for n in range(len(WORDS) if table.WHOLE else 7):
                word = WORDS[(turn + n) % len(WORDS)]
                client = http.client.HTTPConnection(address, timeout=10)
                client.request("GET", f"/{page}?{name}={word}", headers={"Connection": "close"})
                answer = client.getresponse()
                answer.read()
                client.close()
                found[f"/{page}?{name}={word[:40]}"] = answer.status
            turn += 7
    return found


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, and the words that call it."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if name not in NOT_RUN:
            yield from commands(command, (*path, name))


ARGUMENTS: Final = (
    "9223372036854775808", "-1", "9" * 5000, "1e400", "nan", "\udcff", "x" * 5000, "",
    "nats://[", "/dev/null", "2263-01-01T00:00:00Z", "999999999h", "{" * 1000,
)  # fmt: skip
# These serve, run Spark or write an archive of 100 MB; what they take has tests of its own.
NOT_RUN: Final = {"serve", "pipeline", "bench", "spark"}


def test_any_argument_of_the_command_line_is_answered_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens where they connect, so what is left is how arguments are read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    runner = CliRunner()
    tried = [(path, parameter) for path, command in commands(main) for parameter in command.params]
    assert len(tried) > 30
    first = random.randrange(len(ARGUMENTS))
    for turn, (path, parameter) in enumerate(tried):
        # Values take turns from parameter to parameter, beginning with another one in each run;
        # torture tries all of them everywhere.
        for n in range(len(ARGUMENTS) if table.WHOLE else 1):
            value = ARGUMENTS[(first + turn + n) % len(ARGUMENTS)]
            words = [*path]
            if isinstance(parameter, click.Option):
                if parameter.is_flag:
                    continue
                words += [f"{parameter.opts[-1]}={value}", "a", "b"]
            else:
                words += [value, "b"]
            result = runner.invoke(main, words, input="")
            problem = result.exception
            assert problem is None or isinstance(problem, SystemExit), (words, problem)


async def test_a_server_without_a_limit_takes_messages_of_any_size(tmp_path: Path) -> None:
    """`max_payload: -1`; previously the client refused to publish anything to such a server."""
    config = tmp_path / "server.conf"
    config.write_text('listen: "127.0.0.1:-1"\nmax_payload: -1\n')
    async with (
        jetspark.Server(config=config) as server,
        await jetspark.connect(server.client_url) as client,
    ):
        inbox = await client.subscribe("a")
        client.publish("a", b"x" * 3_000_000)
        message = await asyncio.wait_for(anext(aiter(inbox)), 10)
    assert len(message.data) == 3_000_000
