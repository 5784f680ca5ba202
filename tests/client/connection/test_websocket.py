"""The client over WebSocket, on a real server's listener."""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import make_certificate
from tests.support.scripted import scripted, unused_port

from jetspark import StreamConfig, connect
from jetspark.errors import AuthorizationFailed, ConnectFailed

pytest.importorskip("websockets", reason="pip install websockets")

Start = Callable[[str], Any]


def config(port: int, more: str = "no_tls: true") -> str:
    return f'websocket {{ listen: "127.0.0.1:{port}", {more} }}\n'


async def test_messages_of_all_sizes_cross_a_websocket(nats_server: Start) -> None:
    port = unused_port()
    nats_server(config(port))
    payloads = [bytes([n]) * size for n, size in enumerate((0, 1, 125, 126, 70_000, 900_000))]
    async with await connect(f"ws://127.0.0.1:{port}") as nc:
        subscription = await nc.subscribe("a.>")
        for n, payload in enumerate(payloads):
            nc.publish(f"a.{n}", payload, headers={"n": str(n)})
        received = [await subscription.next() for _ in payloads]
        for n in range(2000):
            nc.publish("a.many", b"%d" % n)
        many = [(await subscription.next()).data for _ in range(2000)]

    assert [message.data for message in received] == payloads
    assert received[3].headers["n"] == "3"
    assert many == [b"%d" % n for n in range(2000)]


async def test_jetstream_over_a_websocket_and_a_plain_connection_at_once(
    nats_server: Start, name: str
) -> None:
    port = unused_port()
    server = nats_server(config(port) + "jetstream: enabled")
    async with (
        await connect(f"ws://127.0.0.1:{port}/any/path") as over_ws,
        await connect(server.url) as plain,
    ):
        stream = await over_ws.jetstream().create_stream(
            StreamConfig(name=name, subjects=(name,), allow_direct=True)
        )
        assert (await plain.jetstream().publish(name, b"x")).seq == 1

        assert (await stream.get_msg(seq=1)).data == b"x"


async def test_tls_and_users_over_a_websocket(nats_server: Start, tmp_path: Path) -> None:
    port = unused_port()
    cert_file, key_file = make_certificate(tmp_path)
    nats_server(
        config(port, f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}" }}')
        + "authorization { user: ann, password: secret }"
    )
    context = ssl.create_default_context(cafile=str(cert_file))
    async with await connect(f"wss://ann:secret@127.0.0.1:{port}", tls=context) as nc:
        assert await nc.rtt() < 5

    with pytest.raises(AuthorizationFailed):
        await connect(f"wss://ann:wrong@127.0.0.1:{port}", tls=context)
    with pytest.raises(ConnectFailed, match="the certificate was rejected"):
        await connect(f"wss://ann:secret@127.0.0.1:{port}")


async def test_a_lost_websocket_is_replaced(
    tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    port = unused_port()
    file = tmp_path / "ws.conf"
    file.write_text(config(port))
    server = server_process("nats-server", tmp_path / "s", "-c", str(file))
    async with await connect(f"ws://127.0.0.1:{port}", reconnect_wait=0.01) as nc:
        subscription = await nc.subscribe("a")
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server_process, "nats-server", tmp_path / "s", "-c", str(file))
        await nc.flush(timeout=20)
        nc.publish("a", b"again")

        assert (await subscription.next()).data == b"again"


async def test_the_opening_request_has_the_path_and_the_headers() -> None:
    requests: list[bytes] = []

    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    async with scripted(http) as address:
        with pytest.raises(ConnectFailed, match=r"WebSocket handshake failed: .*403"):
            await connect(f"ws://{address}/nats?x=1", websocket_headers={"X-Key": "k1"})

    assert requests[0].startswith(b"GET /nats?x=1 HTTP/1.1\r\n")
    assert re.search(rb"\r\nX-Key: k1\r\n", requests[0])


async def test_a_nats_port_is_no_websocket(nats_server: Start) -> None:
    server = nats_server("")

    with pytest.raises(ConnectFailed, match="WebSocket handshake failed"):
        await connect(f"ws://{server.address}")


async def test_a_websocket_without_a_listener() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectFailed, match="connection refused"):
            await connect(f"ws://127.0.0.1:{probe.getsockname()[1]}")
