"""The port: uvicorn in our loop: no signals, no threads, several at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
import ssl
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.certificates import make_certificate
from tests.support.monitor_fakes import FakeView, busy_view

from jetspark.server.monitor.web import http
from jetspark.server.monitor.web.app import create_app
from jetspark.server.monitor.web.http import MonitorPort
from jetspark.server.net import listening
from jetspark.server.pacing import paced


async def get(port: int, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname=name
    )
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


async def test_an_application_is_served_on_a_free_port() -> None:
    port = MonitorPort(create_app(busy_view()))
    bound = await port.start("127.0.0.1", -1)
    try:
        status, body = await get(bound, "/healthz")
    finally:
        await port.stop()

    assert bound > 0
    assert (status, body) == (200, b'{"status":"ok"}')
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", bound)


async def test_signals_threads_and_loggers_of_the_process_stay_as_they_are() -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads = set(threading.enumerate())
    access = logging.getLogger("uvicorn.access")
    propagated = access.propagate
    port = MonitorPort(create_app(busy_view()))
    bound = await port.start("127.0.0.1", 0)
    try:
        for path in ("/varz", "/connz?subs=1", "/metrics", "/", "/nope", "/connz?auth=x"):
            await get(bound, path)
        while_open = {number: signal.getsignal(number) for number in handlers}
    finally:
        await port.stop()

    assert while_open == handlers
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert set(threading.enumerate()) == threads
    assert access.propagate == propagated
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_several_ports_live_in_one_loop() -> None:
    ports = [MonitorPort(create_app(FakeView())) for _ in range(3)]
    bound = [await port.start("127.0.0.1", 0) for port in ports]
    await ports[0].stop()

    answers = [await get(number, "/healthz") for number in bound[1:]]
    await asyncio.gather(*(port.stop() for port in ports))

    assert len(set(bound)) == 3
    assert [status for status, _ in answers] == [200, 200]


async def test_a_port_can_be_opened_again_and_closed_twice() -> None:
    port = MonitorPort(create_app(FakeView()))
    for _ in range(2):
        bound = await port.start("127.0.0.1", 0)
        with pytest.raises(RuntimeError, match="open already"):
            await port.start("127.0.0.1", 0)
        assert (await get(bound, "/readyz"))[0] == 200
        await port.stop()
        await port.stop()


async def test_a_port_that_is_taken_says_so_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = MonitorPort(create_app(FakeView()))
        with pytest.raises(OSError, match="in use"):
            await port.start("127.0.0.1", taken.getsockname()[1])
        await port.stop()

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_ipv6_is_listened_on() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    port = MonitorPort(create_app(FakeView()))
    try:
        bound = await port.start("::1", 0)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    try:
        _, writer = await asyncio.open_connection("::1", bound)
        writer.close()
        await writer.wait_closed()
    finally:
        await port.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timeouts of a tenth of a second."""
    monkeypatch.setattr(http, "REQUEST_S", 0.1)
    monkeypatch.setattr(http, "READING_S", 0.1)
    monkeypatch.setattr(http, "SWEEP_S", 0.02)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHo",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    ],
    ids=["nothing", "half a head", "no body"],
)
async def test_half_a_request_is_not_waited_for(part: bytes) -> None:
    """Not even if a byte more comes now and then."""
    port = MonitorPort(create_app(FakeView()))
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(part)
    ended = asyncio.create_task(reader.read())
    async with asyncio.timeout(20):
        while not ended.done():
            writer.write(b"x" if part else b"")
            await asyncio.sleep(0.01)
    await asyncio.gather(ended, return_exceptions=True)
    writer.close()
    await port.stop()


@pytest.mark.usefixtures("hasty")
async def test_an_answer_that_is_not_read_is_not_kept() -> None:
    ended = asyncio.Event()

    async def endless(_scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(200):
                await send(
                    {
                        "type": "http.response.body",
                        "body": b"." * 1024 * 1024,
                        "more_body": True,
                    }
                )
        finally:
            ended.set()

    port = MonitorPort(create_app(FakeView(), mounts={"/endless": endless}))
    bound = await port.start("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", bound)) as deaf:
        deaf.sendall(b"GET /endless/ HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await ended.wait()
    await port.stop()


@pytest.mark.usefixtures("hasty")
async def test_a_quiet_event_stream_is_left_alone() -> None:
    async def events(_scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.sleep(0.4)
        await send({"type": "http.response.body", "body": b"last"})

    port = MonitorPort(create_app(FakeView(), mounts={"/events": events}))
    bound = await port.start("127.0.0.1", 0)
    _, body = await get(bound, "/events/")
    await port.stop()

    assert b"first" in body
    assert b"last" in body


async def test_health_is_answered_however_many_connect_and_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUESTS_MAX", 3)
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 5)

    async def events(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here", "more_body": True})
        await scope["state"]["stopping"].wait()

    port = MonitorPort(create_app(FakeView(), mounts={"/events": events}))
    bound = await port.start("127.0.0.1", 0)
    half = [await asyncio.open_connection("127.0.0.1", bound) for _ in range(12)]
    for _, writer in half:
        writer.write(b"GET /varz HT")
    assert (await get(bound, "/healthz"))[0] == 200
    assert (await get(bound, "/varz"))[0] == 200
    streams = [await asyncio.open_connection("127.0.0.1", bound) for _ in range(3)]
    for reader, writer in streams:
        writer.write(b"GET /events/ HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"here")

    assert (await get(bound, "/varz"))[0] == 503
    assert (await get(bound, "/healthz"))[0] == 200
    assert (await get(bound, "/readyz"))[0] == 200
    await port.stop()
    for _, writer in half + streams:
        writer.close()


async def asked(port: int, path: str, *, address: str) -> bytes:
    """The first bytes of an answer to a client at this address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(12), 30)
    writer.close()
    return answer


@pytest.mark.parametrize("path", ["/healthz", "/varz"])
async def test_an_address_that_has_all_connections_keeps_no_other_out(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Its requests never end, so that none of its connections is idle."""
    monkeypatch.setattr(http, "REQUESTS_MAX", 3)
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 5)

    async def events(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here", "more_body": True})
        await scope["state"]["stopping"].wait()

    port = MonitorPort(create_app(FakeView(), mounts={"/events": events}))
    bound = await port.start("127.0.0.1", 0)
    writers = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", bound)
        writer.write(b"GET /events/ HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"here")
        writers.append(writer)
    for _ in range(2):  # answered and not read, or health
        reader, writer = await asyncio.open_connection("127.0.0.1", bound)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /events/ HTTP/1.1\r\n")
        await reader.readuntil(b"ok")
        writers.append(writer)

    for _ in range(3):
        assert await asked(bound, path, address="127.0.0.9") == b"HTTP/1.1 200"
    await port.stop()
    for writer in writers:
        writer.close()


async def test_tls_handshakes_that_do_not_end_keep_no_other_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HANDSHAKES_MAX", 5)
    cert_file, key_file = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    trusting = ssl.create_default_context(cafile=str(cert_file))
    port = MonitorPort(create_app(FakeView()), tls=context)
    bound = await port.start("127.0.0.1", 0)
    half = [await asyncio.open_connection("127.0.0.1", bound) for _ in range(5)]
    other = await asyncio.open_connection("127.0.0.1", bound, local_addr=("127.0.0.9", 0))

    assert await asyncio.wait_for(half[0][0].read(), 30) == b""  # the oldest made room
    assert (await get(bound, "/healthz", trusting))[0] == 200
    assert not other[0].at_eof()
    await port.stop()
    for _, writer in [*half, other]:
        writer.close()


async def test_an_event_stream_ends_itself_when_the_port_stops() -> None:
    """Event streams end themselves when the server stops."""
    ended: list[str] = []

    async def events(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await scope["state"]["stopping"].wait()
        await send({"type": "http.response.body", "body": b"data: end\n\n"})
        ended.append("by itself")

    port = MonitorPort(create_app(FakeView(), mounts={"/events": events}))
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"GET /events/ HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"data: 1\n\n")
    await port.stop()

    assert ended == ["by itself"]
    assert b"data: end" in await reader.read()
    writer.close()


async def test_a_response_that_does_not_end_is_closed_on_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One second, then the server stops anyway."""
    caplog.set_level(logging.CRITICAL)

    async def deaf(_scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here", "more_body": True})
        await asyncio.Event().wait()

    port = MonitorPort(create_app(FakeView(), mounts={"/deaf": deaf}), grace_s=0)
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"GET /deaf/ HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"here")
    async with asyncio.timeout(5):
        await port.stop()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    writer.close()


async def test_an_idle_connection_does_not_hold_up_the_end() -> None:
    port = MonitorPort(create_app(FakeView()))
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"GET /healthz HTTP/1.1\r\nHo")
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await port.stop()
        assert await reader.read() == b""
    writer.close()


async def test_https_is_served_with_the_context_it_is_given(tmp_path: Path) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    trusting = ssl.create_default_context(cafile=str(cert_file))
    port = MonitorPort(create_app(FakeView()), tls=context)
    bound = await port.start("127.0.0.1", 0)
    try:
        status, _ = await get(bound, "/varz", trusting)
    finally:
        await port.stop()

    assert status == 200


class LoopTurns:
    """Counts what an application does in each turn of the loop."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def note(self) -> None:
        self.counts[-1] += 1

    def _next(self) -> None:
        self.counts.append(0)
        asyncio.get_running_loop().call_soon(self._next)

    async def serve(self, application: ASGIApp, request: bytes, times: int) -> None:
        """Send requests on 40 connections at the same time, and read all answers."""
        port = MonitorPort(application)
        bound = await port.start("127.0.0.1", 0)
        clients = [await asyncio.open_connection("127.0.0.1", bound) for _ in range(40)]
        self._next()
        for _, writer in clients:
            writer.write(request * times)
        for reader, _ in clients:
            for _ in range(times):
                await reader.readuntil(b"answer")
        for _, writer in clients:
            writer.close()
        await port.stop()


async def test_requests_that_come_together_are_answered_a_few_per_turn_of_the_loop() -> None:
    """Others are served in between: clients of the server, and another address."""
    turns = LoopTurns()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        turns.note()
        await PlainTextResponse("answer")(scope, receive, send)

    await turns.serve(application, b"GET /varz HTTP/1.1\r\nHost: x\r\n\r\n", 5)

    assert sum(turns.counts) == 200
    assert max(turns.counts) <= 2 * http.ANSWERS_PER_TURN


async def test_answers_that_take_many_steps_share_the_turns_of_the_loop() -> None:
    turns = LoopTurns()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in paced(range(20), per_turn=1):
            turns.note()
        await PlainTextResponse("answer")(scope, receive, send)

    await turns.serve(application, b"GET /connz HTTP/1.1\r\nHost: x\r\n\r\n", 1)

    assert sum(turns.counts) == 800
    assert max(turns.counts) <= 2 * http.ANSWERS_PER_TURN


async def test_an_answer_is_abandoned_when_its_client_has_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def application(_scope: Scope, _receive: Receive, _send: Send) -> None:
        try:
            async for _ in paced(itertools.repeat(0, 1_000_000), per_turn=1):
                began.set()
        finally:
            ended.set()

    port = MonitorPort(application)
    bound = await port.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"GET /connz HTTP/1.1\r\nHost: x\r\n\r\n")
    await began.wait()
    writer.close()
    await asyncio.wait_for(ended.wait(), 5)
    await port.stop()

    assert not caplog.records


@pytest.mark.parametrize("started", [False, True])
async def test_a_body_that_cannot_be_parsed_ends_its_request_without_a_traceback(
    started: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"some", "more_body": True})
        asked.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        await PlainTextResponse("late")(scope, receive, send)

    port = MonitorPort(application)
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asked.wait()
    writer.write(b"ZZ\r\nnot a chunk\r\n")
    with contextlib.suppress(ConnectionError):
        answer = await reader.read()
        assert b"late" not in answer
        assert started or answer.startswith(b"HTTP/1.1 400 ")
    writer.close()
    await port.stop()

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_the_head_of_a_request_is_short() -> None:
    port = MonitorPort(create_app(FakeView()))
    bound = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", bound)
    writer.write(b"GET /varz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n")
    with contextlib.suppress(ConnectionError):
        assert (await reader.read(100)).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await port.stop()
