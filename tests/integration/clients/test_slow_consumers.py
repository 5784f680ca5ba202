"""Clients that do not read: disconnected with a reason, at no one else's cost."""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.watched import Peer, Watched

QUIET: Final = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
STRICT: Final = "max_pending: 1MB\nmax_payload: 64KB\nhttp: 127.0.0.1:-1\n"
SIZE: Final = 32 * 1024
# More than the kernel keeps for a socket that no one reads, and max_pending on top.
MESSAGES: Final = 600
# Half of max_pending.
LAG_MAX: Final = 16


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Watched]:
    """A server that lets no one have more than a megabyte waiting."""
    server = Watched(tmp_path, STRICT)
    yield server
    server.end()


def stalled(server: Watched, receive_buffer: int = 4096) -> Peer:
    """A subscriber of ``load`` that reads no more."""
    peer = Peer(server, receive_buffer=receive_buffer)
    peer.ask(QUIET + b"SUB load 1\r\n")
    return peer


def message(number: int) -> bytes:
    return (b"%08d" % number).ljust(SIZE, b".")


def publish(server: Watched, count: int, reader: Reader | None = None) -> None:
    """Publish ``count`` messages, each answered before the next is sent.

    ``reader`` gets them in time: on a busy machine it would be a slow consumer, too.
    """
    with contextlib.closing(Peer(server)) as publisher:
        publisher.ask(QUIET)
        for number in range(count):
            while reader is not None and reader.is_alive() and number - reader.got > LAG_MAX:
                time.sleep(0.001)
            publisher.ask(b"PUB load %d\r\n%b\r\n" % (SIZE, message(number)))


class Reader(threading.Thread):
    """A subscriber of ``load`` that reads everything, and checks that nothing is missing."""

    def __init__(self, server: Watched, count: int) -> None:
        super().__init__()
        self.peer = Peer(server)
        self.peer.ask(QUIET + b"SUB load 9\r\n")
        self.got = 0
        self._count = count

    def run(self) -> None:
        for got in read_in_order(self.peer, self._count):
            self.got = got

    def finish(self) -> int:
        """Wait for the last message; say how many came."""
        self.join()
        self.peer.close()
        return self.got


def read_in_order(peer: Peer, count: int) -> Iterator[int]:
    """Read ``count`` messages up to one that is not the next; yield how many came, each time."""
    for number in range(count):
        line = peer.line()
        while line == b"PING\r\n":
            peer.send(b"PONG\r\n")
            line = peer.line()
        if not line.startswith(b"MSG load ") or peer.exactly(SIZE + 2)[:8] != b"%08d" % number:
            return
        yield number + 1


def varz(server: Watched) -> dict[str, Any]:
    found = re.search(r"http monitor on (\S+)", "".join(server.lines))
    assert found is not None
    with urllib.request.urlopen(f"http://{found[1]}/varz") as answer:
        fields: dict[str, Any] = json.load(answer)
    return fields


def test_a_client_that_does_not_read_is_disconnected_and_the_others_continue(
    strict: Watched,
) -> None:
    before = strict.resident_mib()
    with contextlib.closing(stalled(strict)) as slow:
        fast = Reader(strict, MESSAGES)
        fast.start()
        publish(strict, MESSAGES, fast)

        assert fast.finish() == MESSAGES
        assert "max_pending" in strict.wait_for("Slow Consumer")
        assert slow.rest().count(b"MSG load 1 ") < MESSAGES
    assert strict.resident_mib() - before < 16
    assert varz(strict)["slow_consumers"] == 1


def test_many_that_do_not_read_cost_what_the_limit_allows(strict: Watched) -> None:
    count = 20
    before = strict.resident_mib()
    slow = [stalled(strict) for _ in range(count)]
    try:
        fast = Reader(strict, MESSAGES)
        fast.start()
        publish(strict, MESSAGES, fast)

        assert fast.finish() == MESSAGES
        # Each held at most a megabyte and one chunk at a time.
        assert strict.resident_mib() - before < 2 * count
        strict.wait_for("Slow Consumer", count)
        assert len(strict.said("Slow Consumer")) == varz(strict)["slow_consumers"] == count
    finally:
        for peer in slow:
            peer.close()


def test_one_message_for_very_many_subscriptions_is_bounded(strict: Watched) -> None:
    """A megabyte waiting is exceeded within one publish: little is kept beyond it."""
    with contextlib.closing(Peer(strict)) as greedy:
        greedy.ask(QUIET)
        greedy.ask(b"".join(b"SUB load %d\r\n" % i for i in range(10_000)))
        before = strict.resident_mib()
        publish(strict, 5)

        assert "max_pending" in strict.wait_for("Slow Consumer")
        assert greedy.rest().count(b"MSG load ") < 1_000
    assert strict.resident_mib() - before < 16


def test_a_client_that_reads_nothing_for_the_write_deadline_is_disconnected(
    tmp_path: Path,
) -> None:
    server = Watched(tmp_path, 'write_deadline: "300ms"\nmax_payload: 64KB\n')
    try:
        with contextlib.closing(stalled(server)) as slow:
            publish(server, MESSAGES)

            assert "write deadline" in server.wait_for("Slow Consumer")
            assert slow.rest().count(b"MSG load 1 ") < MESSAGES
    finally:
        server.end()


def test_who_reads_again_before_the_limit_has_lost_nothing(tmp_path: Path) -> None:
    """The defaults: 64 MiB waiting, ten seconds without reading."""
    server = Watched(tmp_path)
    try:
        with contextlib.closing(stalled(server, receive_buffer=65536)) as slow:
            publish(server, MESSAGES // 2)

            assert len(list(read_in_order(slow, MESSAGES // 2))) == MESSAGES // 2
            assert slow.ask() == []
        assert server.said("Slow Consumer") == []
    finally:
        server.end()


def test_a_client_that_sends_requests_and_never_reads_the_answers_is_disconnected(
    strict: Watched,
) -> None:
    """Answers of the protocol count as well as messages."""
    before = strict.resident_mib()
    with contextlib.closing(Peer(strict, receive_buffer=4096)) as peer:
        sender = threading.Thread(target=lambda: peer.send(b"PING\r\n" * 3_000_000))
        sender.start()

        assert "max_pending" in strict.wait_for("Slow Consumer")
        sender.join()
    assert strict.resident_mib() - before < 16


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_memory_of_clients_that_did_not_read_is_released_when_they_disconnect(
    tmp_path: Path,
) -> None:
    """It stayed with the server, whatever it had been at most."""
    server = Watched(tmp_path, "max_pending: 64MB\nwrite_deadline: 60s\n")
    try:
        before = server.resident_mib()
        peers = [stalled(server) for _ in range(3)]
        with contextlib.closing(Peer(server)) as publisher:
            publisher.ask(QUIET)
            for _ in range(25):
                publisher.ask(b"PUB load 4000\r\n%b\r\n" % bytes(4000) * 250)
        full = server.resident_mib()
        for peer in peers:
            peer.close()
        deadline = time.monotonic() + 60
        while server.resident_mib() > (before + full) / 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert full > before + 40, "there was nothing to give back"
        assert server.resident_mib() <= (before + full) / 2
    finally:
        server.end()


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_memory_of_payloads_that_were_never_completed_is_released_when_their_clients_leave(
    tmp_path: Path,
) -> None:
    server = Watched(tmp_path, "max_payload: 8MB\n")
    try:
        before = server.resident_mib()
        peers = [Peer(server) for _ in range(40)]
        for peer in peers:
            peer.ask(QUIET)
            peer.send(b"PUB load 4000000\r\n" + bytes(3_900_000))
        deadline = time.monotonic() + 60
        while server.resident_mib() < before + 120 and time.monotonic() < deadline:
            time.sleep(0.1)
        full = server.resident_mib()
        assert full >= before + 120, "there was nothing to give back"
        for peer in peers:
            peer.close()
        deadline = time.monotonic() + 20
        while server.resident_mib() > (before + full) / 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.resident_mib() <= (before + full) / 2
    finally:
        server.end()


def test_half_sent_messages_of_many_clients_have_one_limit(tmp_path: Path) -> None:
    server = Watched(tmp_path, "max_payload: 8MB\njetspark { memory { input: 20MB } }\n")
    peers = [Peer(server) for _ in range(40)]
    try:
        before = server.resident_mib()
        for peer in peers:
            peer.ask(QUIET)
            with contextlib.suppress(ConnectionError):
                peer.send(b"PUB load 4000000\r\n" + bytes(3_900_000))

        assert "jetspark.memory.input" in server.wait_for("closed: ")
        assert server.resident_mib() - before < 60
    finally:
        for peer in peers:
            peer.close()
        server.end()
