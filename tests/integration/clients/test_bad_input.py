"""What no one should send: the right answer, the server alive, its memory bounded.

The server is a process of its own; its memory is read from outside.
"""

from __future__ import annotations

import contextlib
import random
import resource
from collections.abc import Iterator
from typing import Final

import pytest
from tests.support.watched import Peer, Watched

UNKNOWN: Final = b"-ERR 'Unknown Protocol Operation'\r\n"
PAYLOAD: Final = b"-ERR 'Maximum Payload Violation'\r\n"
LINE: Final = b"-ERR 'maximum control line exceeded'\r\n"
QUIET: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'

IDLE: Final = 10_000
FLOOD: Final = 100_000
# What one input of a few hundred kilobytes may leave, over what the server had before.
ROOM_MIB: Final = 24
MIB: Final = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One server for all: what one test leaves is seen by the others."""
    server = Watched(tmp_path_factory.mktemp("bad-input"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A server that wants a token within a quarter of a second."""
    config = "authorization { token: secret, timeout: 0.25 }\n"
    server = Watched(tmp_path_factory.mktemp("guarded"), config)
    yield server
    server.end()


@contextlib.contextmanager
def unharmed(server: Watched, room_mib: float = ROOM_MIB) -> Iterator[None]:
    """Whatever happens here, others are served, and memory and sockets come back."""
    with contextlib.closing(Peer(server)) as witness:
        witness.ask(QUIET + b"SUB witness 1\r\n")
        memory, files = server.resident_mib(), server.open_files()
        yield
        assert witness.ask(b"PUB witness 2\r\nok\r\n") == [b"MSG witness 1 2\r\n", b"ok\r\n"]
        until_closed(server, witness, files)
        assert server.resident_mib() - memory < room_mib


def until_closed(server: Watched, witness: Peer, files: int) -> None:
    """A socket that we closed is closed after some more rounds of the server's loop."""
    for _ in range(2000):
        if server.open_files() <= files:
            return
        witness.ask()
    raise AssertionError(f"{server.open_files()} files are open, {files} were before")


ANSWERS: Final = {
    "random bytes": (random.Random(1).randbytes(MIB // 4), UNKNOWN),
    "zeros": (bytes(MIB), UNKNOWN),
    "a TLS hello": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(150), UNKNOWN),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", UNKNOWN),
    "an operation that goes on and on": (b"PUBLISH" * 50_000, UNKNOWN),
    "payload of a gigabyte": (QUIET + b"PUB a 999999999\r\n", PAYLOAD),
    "payload one byte too large": (QUIET + b"PUB a 1048577\r\n" + bytes(MIB), PAYLOAD),
    "headers of a gigabyte": (QUIET + b"HPUB a 999999998 999999999\r\n", PAYLOAD),
    "headers larger than the message": (QUIET + b"HPUB a 999999999 1\r\n", b""),
    "size of a hundred digits": (QUIET + b"PUB a " + b"9" * 100 + b"\r\n", b""),
    "subject of a megabyte": (QUIET + b"PUB " + b"x" * MIB, LINE),
    "subject of many tokens": (QUIET + b"SUB " + b"a." * (MIB // 2), LINE),
    "a thousand arguments": (QUIET + b"PUB" + b" a" * 1000 + b"\r\n", b""),
    "reply of a megabyte": (QUIET + b"PUB a " + b"x" * MIB, LINE),
    "queue of a megabyte": (QUIET + b"SUB a " + b"x" * MIB, LINE),
    "sid of a megabyte": (QUIET + b"UNSUB " + b"x" * MIB, LINE),
    "CONNECT of a megabyte": (b'CONNECT {"name":"' + b"x" * MIB, LINE),
    "INFO of a megabyte": (b'INFO {"x":"' + b"x" * MIB, LINE),
    "-ERR of a megabyte": (b"-ERR '" + b"x" * MIB, LINE),
    "CONNECT of lists in lists": (b"CONNECT " + b"[" * 4000 + b"]" * 90 + b"\r\n", b""),
    "CONNECT of objects in objects": (b"CONNECT " + b'{"a":' * 800 + b"\r\n", b""),
    "CONNECT with a number of 4000 digits": (
        b'CONNECT {"protocol":' + b"9" * 4000 + b"}\r\n",
        b"",
    ),
    "CONNECT that is not JSON": (b"CONNECT \xff\xfe\x00\r\n", b""),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_what_cannot_be_read_is_refused_and_the_connection_closed(
    server: Watched, name: str
) -> None:
    """The answers are those of nats-server: `tests/interop/wire/test_differential.py`."""
    data, answer = ANSWERS[name]
    with unharmed(server), contextlib.closing(Peer(server)) as peer:
        peer.send(data)

        assert peer.rest() == answer


@pytest.mark.parametrize(
    "data",
    [b"P", b"CONNECT {", b"SUB a", b"PUB a 1000\r\nabc", b"PUB a 3\r\nabc\r", b"HPUB a 5 9\r\n"],
    ids=repr,
)
def test_half_a_frame_and_then_nothing_is_a_closed_connection(
    server: Watched, data: bytes
) -> None:
    with unharmed(server):
        for _ in range(20):
            left, lost = Peer(server), Peer(server)
            left.send(data)
            left.end_sending()
            lost.send(data)
            lost.reset()

            assert left.rest() == b""
            left.close()


def test_a_session_in_single_bytes_is_a_session(server: Watched) -> None:
    session = (
        QUIET + b"SUB a.* 1\r\nPUB a.b 5\r\nhello\r\nHPUB a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    )
    with unharmed(server), contextlib.closing(Peer(server)) as peer:
        for i in range(len(session)):
            peer.send(session[i : i + 1])

        assert b"".join(peer.ask()) == (
            b"MSG a.b 1 5\r\nhello\r\nHMSG a.b 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        )


def test_a_quarter_of_a_megabyte_of_pings_is_answered(server: Watched) -> None:
    count = MIB // 4 // len(b"PING\r\n")
    with unharmed(server), contextlib.closing(Peer(server)) as peer:
        peer.send(b"PING\r\n" * count)

        assert peer.exactly(count * 6) == b"PONG\r\n" * count


def test_headers_of_a_megabyte_are_delivered(server: Watched) -> None:
    block = b"NATS/1.0\r\nK: ".ljust(MIB - 4, b"v") + b"\r\n\r\n"
    with unharmed(server), contextlib.closing(Peer(server)) as peer:
        peer.send(QUIET + b"SUB a 1\r\nHPUB a %d %d\r\n%b\r\n" % (len(block), len(block), block))

        assert peer.line() == b"HMSG a 1 1048576 1048576\r\n"
        assert peer.exactly(len(block) + 2) == block + b"\r\n"


def test_a_flood_of_subscriptions_is_carried_and_forgotten(server: Watched) -> None:
    """They cost what they are, and nothing when the connection is closed."""
    flood = b"".join(b"SUB flood.%d.* %d\r\n" % (i, i) for i in range(FLOOD))
    before = server.resident_mib()
    with unharmed(server, room_mib=160), contextlib.closing(Peer(server)) as peer:
        peer.ask(QUIET)
        peer.ask(flood)
        assert server.resident_mib() - before < 160
        assert peer.ask(b"PUB flood.77777.x 0\r\n\r\n") == [
            b"MSG flood.77777.x 77777 0\r\n",
            b"\r\n",
        ]
    with contextlib.closing(Peer(server)) as peer:
        peer.ask(QUIET.replace(b"}", b',"no_responders":true}') + b"SUB r 1\r\n")
        lines = peer.ask(b"PUB flood.77777.x r 0\r\n\r\n")
        assert lines[1] == b"NATS/1.0 503\r\n"


def test_who_does_not_say_connect_in_time_is_sent_away(guarded: Watched) -> None:
    """Fifty that send nothing or half of it; one that knows the token is served meanwhile."""
    with contextlib.closing(Peer(guarded)) as known:
        known.ask(b'CONNECT {"verbose":false,"auth_token":"secret"}\r\n')
        slow = [Peer(guarded) for _ in range(50)]
        for peer in slow[::2]:
            peer.send(b'CONNECT {"auth_tok')

        for peer in slow:
            assert peer.rest() == b"-ERR 'Authentication Timeout'\r\n"
            peer.close()
        assert known.ask(b"SUB a 1\r\nPUB a 0\r\n\r\n") == [b"MSG a 1 0\r\n", b"\r\n"]


def test_ten_thousand_idle_connections_leave_the_server_quick(server: Watched) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"needs {IDLE + 500} open files, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle: list[Peer] = []
    try:
        # 10 KiB each is twice what a connection weighs.
        with unharmed(server, room_mib=IDLE * 10 / 1024):
            idle += [Peer(server) for _ in range(IDLE)]
            with contextlib.closing(Peer(server)) as peer:
                asked = QUIET + b"SUB a 1\r\nPUB a 0\r\n\r\n"
                assert peer.ask(asked) == [b"MSG a 1 0\r\n", b"\r\n"]
            assert idle[-1].ask(b"SUB a 1\r\n") == [b"+OK\r\n"]
            while idle:
                idle.pop().reset()
    finally:
        for peer in idle:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
