"""Connections that end while they have much to read: they are given a deadline, then cut."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.certificates import Certificates, make_certificates
from tests.support.waiting import wait_until
from tests.support.watched import TIMEOUT_S, Peer, Watched

QUIET: Final = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
SIZE: Final = 512 * 1024
MESSAGES: Final = 24  # more than the kernel takes for a socket that no one reads
PLAIN: Final = 'write_deadline: "700ms"\nhttp: 127.0.0.1:-1\n'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A server with a short write deadline."""
    started = Watched(tmp_path_factory.mktemp("server"), PLAIN)
    yield started
    started.end()


@pytest.fixture
def secured(tmp_path: Path, certificates: Certificates) -> Iterator[Watched]:
    """The same with TLS."""
    started = Watched(tmp_path, PLAIN + certificates.tls_block())
    yield started
    started.end()


def publish(send: Callable[[bytes], object], count: int = MESSAGES) -> None:
    send(b"PUB load %d\r\n%b\r\n" % (SIZE, b"." * SIZE) * count)


def monitored(server: Watched, path: str) -> dict[str, Any]:
    found = re.search(r"http monitor on (\S+)", "".join(server.lines))
    assert found is not None
    with urllib.request.urlopen(f"http://{found[1]}{path}") as answer:
        fields: dict[str, Any] = json.load(answer)
    return fields


ENDINGS: Final = {
    "a violation": lambda peer: peer.send(b"GARBAGE\r\n"),
    "a half-closed socket": lambda peer: peer.end_sending(),
    "a refused CONNECT": lambda peer: peer.send(b'CONNECT {"protocol":7}\r\n'),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_who_ends_with_much_unread_is_cut_at_the_deadline(server: Watched, ending: str) -> None:
    monitored(server, "/varz")
    before = server.open_files()
    stalled = [Peer(server, receive_buffer=4096) for _ in range(3)]
    for peer in stalled:
        peer.ask(QUIET + b"SUB load 1\r\n")
    with contextlib.closing(Peer(server)) as publisher:
        publisher.ask(QUIET)
        publish(publisher.send)
        publisher.ask()
        for peer in stalled:
            ENDINGS[ending](peer)
        publisher.ask()

        # They are closed for everyone else at once, and the sockets when the time is over.
        wait_until(lambda: monitored(server, "/connz")["num_connections"] == 1, "still listed")
        wait_until(lambda: server.open_files() <= before + 1, "sockets are kept")
    for peer in stalled:
        peer.close()


def secure_peer(server: Watched, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(TIMEOUT_S)
    plain.connect(("127.0.0.1", server.port))
    while plain.recv(1) != b"\n":
        pass
    peer = context.wrap_socket(plain, server_hostname="localhost")
    peer.sendall(QUIET + b"SUB load 1\r\nPING\r\n")
    answer = b""
    while b"PONG\r\n" not in answer:
        answer += peer.recv(4096)
    return peer


def test_a_tls_client_that_says_farewell_and_does_not_read_harms_no_timer(
    secured: Watched, certificates: Certificates
) -> None:
    monitored(secured, "/varz")
    before = secured.open_files()
    context = certificates.context()
    # All are due in the same turn of the timer: the first must not hide the others.
    stalled = [secure_peer(secured, context) for _ in range(3)]
    publisher = secure_peer(secured, context)
    publisher.sendall(b"UNSUB 1\r\n")
    publish(publisher.sendall)
    for peer in stalled[:2]:
        peer.settimeout(0.05)
        with contextlib.suppress(OSError):
            peer.unwrap()
    publisher.close()

    wait_until(lambda: secured.open_files() <= before, "sockets are kept")
    # The question to /varz may still have been open when the files were counted.
    wait_until(lambda: monitored(secured, "/connz")["num_connections"] == 0, "clients are kept")
    assert secured.said("Traceback") == []
    for peer in stalled:
        peer.close()


def test_a_broken_tls_session_leaves_nothing_and_the_server_can_stop(
    secured: Watched, certificates: Certificates
) -> None:
    peer = secure_peer(secured, certificates.context())
    os.write(peer.fileno(), b"\x17\x03\x03\x00\x10" + b"no TLS record!!!")
    secured.wait_for("TLS error")

    wait_until(lambda: monitored(secured, "/connz")["num_connections"] == 0, "still listed")
    (closed,) = monitored(secured, "/connz?state=closed")["connections"]
    assert closed["reason"] == "Read Error"
    secured.process.send_signal(signal.SIGTERM)
    assert secured.wait() == 0
    assert secured.said("Internal error") == []
    peer.close()


def test_a_closing_member_of_a_queue_gets_no_more_messages(server: Watched) -> None:
    """Until its socket is closed it would lose what it is given."""
    with (
        contextlib.closing(Peer(server, receive_buffer=4096)) as leaving,
        contextlib.closing(Peer(server)) as member,
    ):
        leaving.ask(QUIET + b"SUB load 1\r\nSUB jobs workers 2\r\n")
        member.ask(QUIET)
        publish(member.send)
        member.ask()
        leaving.send(b"GARBAGE\r\n")
        wait_until(lambda: monitored(server, "/connz")["num_connections"] == 1, "still listed")
        member.ask(b"SUB jobs workers 3\r\n")
        lines = member.ask(b"PUB jobs 1\r\nx\r\n" * 20)

        assert lines.count(b"MSG jobs 3 1\r\n") == 20


def test_what_was_given_before_the_end_can_be_read_in_time(server: Watched) -> None:
    with (
        contextlib.closing(Peer(server)) as leaving,
        contextlib.closing(Peer(server)) as publisher,
    ):
        leaving.ask(QUIET + b"SUB load 1\r\n")
        publisher.ask(QUIET)
        publish(publisher.send, 6)
        publisher.ask()
        leaving.send(b"GARBAGE\r\n")

        got = leaving.rest()

    assert got.count(b"MSG load 1 ") == 6
    assert got.endswith(b"-ERR 'Unknown Protocol Operation'\r\n")
