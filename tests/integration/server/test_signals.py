"""Signals and files of `jetspark serve`: reload, lame duck, process id, log."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nats
import nats.errors
from tests.support.served import Served
from tests.support.watched import Peer, Watched

Serve = Callable[..., Served]


def configure(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "server.conf"
    file.write_text(f"port: -1\n{text}\n")
    return file


def wait_for_line(served: Served, words: str) -> None:
    """Read the log until a line has these words; the test's time limit ends the wait."""
    assert served.process.stderr is not None
    while not any(words in line for line in served.lines):
        line = served.process.stderr.readline()
        assert line, f"the server ended before it said {words!r}"
        served.lines.append(line)


async def test_sighup_changes_users_and_limits_of_a_running_server(
    serve: Serve, tmp_path: Path
) -> None:
    file = configure(tmp_path, "authorization { users [{user: a, password: a}] }")
    served = serve("-c", str(file))
    first = await nats.connect(served.url, user="a", password="a", allow_reconnect=False)
    configure(
        tmp_path,
        "max_payload: 100\n"
        "authorization { users [{user: a, password: a}, {user: b, password: b}] }",
    )

    served.process.send_signal(signal.SIGHUP)
    await asyncio.to_thread(wait_for_line, served, "Reloaded server configuration")

    second = await nats.connect(served.url, user="b", password="b", allow_reconnect=False)
    assert second.max_payload == 100
    await first.flush()
    await first.close()
    await second.close()


def test_sighup_with_fewer_connections_closes_the_surplus(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    server = Watched(tmp_path, "max_connections: 10\n")
    peers = [Peer(server) for _ in range(6)]
    try:
        for peer in peers:
            peer.ask(b'CONNECT {"verbose":false}\r\n')
        file.write_text("max_connections: 2\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("Reloaded server configuration")

        ends = [peer.line() if peer.has_answer() else b"" for peer in peers]
        assert ends.count(b"-ERR 'maximum connections exceeded'\r\n") == 4
        assert "Closed 4 connections" in server.wait_for("to fall within max_connections")
        stay = [peer for peer, end in zip(peers, ends, strict=True) if not end.startswith(b"-ERR")]
        assert [peer.ask() for peer in stay] == [[], []]
        late = Peer(server)
        assert late.line() == b"-ERR 'maximum connections exceeded'\r\n"
        late.close()
    finally:
        for peer in peers:
            peer.close()
        server.end()


def test_sighup_switches_tracing_of_open_connections(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    server = Watched(tmp_path)
    peer = Peer(server)
    try:
        # Half a message is in flight: the trace begins with the next one.
        peer.ask(b'CONNECT {"verbose":false}\r\n')
        peer.send(b"PUB first 7\r\nPUB")
        time.sleep(0.05)
        file.write_text("trace: true\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("Reloaded server configuration")
        peer.send(b" x 1\r\n")
        time.sleep(0.05)
        peer.ask(b"PUB second 1\r\nx\r\n")
        server.wait_for("[PUB second 1]")
        file.write_text("trace: false\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("Reloaded: trace = False")
        peer.ask(b"PUB third 1\r\nx\r\n")

        traced = [line for line in server.said("[PUB") if "<<-" in line]
        assert [line.partition("[PUB ")[2] for line in traced] == ["second 1]\n"]
    finally:
        peer.close()
        server.end()


def test_sighup_moves_the_process_id_file(serve: Serve, tmp_path: Path) -> None:
    file = configure(tmp_path, "pid_file: " + str(tmp_path / "one.pid"))
    served = serve("-c", str(file))
    configure(tmp_path, "pid_file: " + str(tmp_path / "two.pid"))
    served.process.send_signal(signal.SIGHUP)
    wait_for_line(served, "Reloaded server configuration")

    assert (tmp_path / "two.pid").read_text() == f"{served.process.pid}\n"
    assert served.stop() == 0
    assert not (tmp_path / "two.pid").exists()


async def test_sighup_disconnects_removed_users(serve: Serve, tmp_path: Path) -> None:
    file = configure(tmp_path, "authorization { users [{user: a, password: a}] }")
    served = serve("-c", str(file))
    closed = asyncio.Event()

    async def on_close() -> None:
        closed.set()

    await nats.connect(
        served.url, user="a", password="a", allow_reconnect=False, closed_cb=on_close
    )
    configure(tmp_path, "authorization { users [{user: a, password: other}] }")

    served.process.send_signal(signal.SIGHUP)

    await asyncio.wait_for(closed.wait(), 20)


def test_a_reload_that_cannot_be_is_refused_whole(serve: Serve, tmp_path: Path) -> None:
    served = serve("-c", str(configure(tmp_path, "")))
    configure(tmp_path, "server_name: other\nmax_payload: 100")

    served.process.send_signal(signal.SIGHUP)
    wait_for_line(served, "Failed to reload server configuration: server_name")

    served.process.send_signal(signal.SIGTERM)
    served.wait()
    assert not any("Reloaded" in line for line in served.lines)


def test_a_reload_of_a_broken_file_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    served = serve("-c", str(configure(tmp_path, "")))
    configure(tmp_path, "max_payload: [")

    served.process.send_signal(signal.SIGHUP)

    wait_for_line(served, "Failed to reload server configuration")
    assert served.stop() == 0


async def test_sigusr2_lets_clients_go_and_then_stops(serve: Serve, tmp_path: Path) -> None:
    """SIGUSR2 = lame duck, INFO with `ldm: true`."""
    file = configure(tmp_path, 'lame_duck_duration: "30s"\nlame_duck_grace_period: "10ms"')
    served = serve("-c", str(file))
    host, _, port = served.url.removeprefix("nats://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
    await reader.readuntil(b"PONG\r\n")

    served.process.send_signal(signal.SIGUSR2)

    told = await asyncio.wait_for(reader.read(), 20)
    assert b'"ldm":true' in told
    assert await asyncio.to_thread(served.wait) == 0
    writer.close()
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return
    raise AssertionError("it still listens")


def test_a_process_id_file_lives_as_long_as_the_server(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "server.pid"
    served = serve("-p", "-1", "--pid", str(file))
    assert int(file.read_text()) == served.process.pid

    served.stop()

    assert not file.exists()


def test_signal_is_sent_by_the_command_line(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "server.pid"
    served = serve("-p", "-1", "--pid", str(file))

    sender = serve("--signal", f"term={file}")

    assert sender.wait() == 0
    assert served.wait() == 0


async def test_sigterm_ends_a_server_whose_clients_keep_publishing(serve: Serve) -> None:
    """It waited until no one published any more."""
    served = serve()
    client = await nats.connect(served.url, allow_reconnect=False)
    await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}', timeout=20)
    host, _, port = served.url.removeprefix("nats://").rpartition(":")
    sent = threading.Semaphore(0)

    def publish() -> None:
        with socket.create_connection((host, int(port))) as publisher, suppress(OSError):
            publisher.sendall(b'CONNECT {"verbose":false}\r\n')
            while True:
                publisher.sendall(b"PUB s 100\r\n%b\r\n" % bytes(100) * 500)
                sent.release()

    publishers = [threading.Thread(target=publish) for _ in range(2)]
    for publisher in publishers:
        publisher.start()
    for _ in range(10):
        await asyncio.to_thread(sent.acquire)

    assert await asyncio.to_thread(served.stop) == 0
    for publisher in publishers:
        publisher.join()
    while not client.is_closed:
        await asyncio.sleep(0.01)
