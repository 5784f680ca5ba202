"""The parser of what clients send: offsets, limits, states; answers are in test_server_scripts."""

import tracemalloc

import pytest
from tests.support.recording import Call, RecordingServerOps

from jetspark.frame import Frame
from jetspark.protocol.parser import ServerOps, ServerParser

BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"


def parse(*chunks: bytes, control_line: int = 4096, payload: int = 1000) -> list[Call]:
    """The calls that these chunks make."""
    handler = RecordingServerOps()
    parser = ServerParser(handler, control_line, payload, headers=True)
    for chunk in chunks:
        parser.feed(chunk)
    return handler.calls


@pytest.mark.parametrize(
    ("wire", "call"),
    [
        (b'CONNECT {"a":1}\r\n', ("connect", b'{"a":1}')),
        (b"CONNECT  {} \r\n", ("connect", b"{} ")),
        (b"PUB a.b 5\r\nhello\r\n", ("pub", b"a.b", b"", b"", b"hello")),
        (b"PUB a.b r.s 5\r\nhello\r\n", ("pub", b"a.b", b"r.s", b"", b"hello")),
        (b"PUB\ta  r\t 0 \r\n\r\n", ("pub", b"a", b"r", b"", b"")),
        (b"PUB a 5\r\n\r\n\r\nx\r\n", ("pub", b"a", b"", b"", b"\r\n\r\nx")),
        (b"HPUB a 18 20\r\n" + BLOCK + b"xy\r\n", ("pub", b"a", b"", BLOCK, b"xy")),
        (b"HPUB a r 18 18\r\n" + BLOCK + b"\r\n", ("pub", b"a", b"r", BLOCK, b"")),
        (b"HPUB a 0 2\r\nxy\r\n", ("pub", b"a", b"", b"", b"xy")),
        (b"SUB a.* 7\r\n", ("sub", b"a.*", b"", b"7")),
        (b"SUB a.> workers x-7\r\n", ("sub", b"a.>", b"workers", b"x-7")),
        (b"UNSUB 7\r\n", ("unsub", b"7", 0)),
        (b"UNSUB 7 12\r\n", ("unsub", b"7", 12)),
        (b"UNSUB 7 many\r\n", ("unsub", b"7", 0)),
        (b"UNSUB 7 9999999999\r\n", ("unsub", b"7", 0)),
        (b"PING\r\n", ("ping",)),
        (b"PONG\r\n", ("pong",)),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_each_operation_calls_its_method(wire: bytes, call: Call) -> None:
    """wire.md, Core protocol and the interface of the handler."""
    assert parse(wire) == [call]


@pytest.mark.parametrize("size", [1, 6, 7, 8, 9, 13, 14, 15, 16, 20, 21, 22, 63, 64, 65, 500])
def test_arguments_of_every_length_are_found(size: int) -> None:
    """Arguments are scanned seven bytes at a time; every remainder counts."""
    subject, reply = b"s" * size, b"r" * (size + 1)
    frame = b"PUB %b %b 1\r\nx\r\n" % (subject, reply)

    assert parse(frame * 3) == [("pub", subject, reply, b"", b"x")] * 3


@pytest.mark.parametrize("byte", [0, 1, 31, 33, 0x7E, 0x7F, 0x80, 0x9F, 0xA0, 0xDF, 0xE0, 0xFF])
@pytest.mark.parametrize("at", range(9))
def test_only_blanks_tabs_and_line_ends_end_an_argument(byte: int, at: int) -> None:
    """Every other byte belongs to it, also to the left and right of a separator."""
    subject = b"a" * at + bytes([byte]) + b"a" * (9 - at)
    frame = b"PUB %b %b 1\r\nx\r\n" % (subject, subject)

    assert parse(frame) == [("pub", subject, subject, b"", b"x")]


def test_offsets_point_into_the_chunk_itself() -> None:
    """A frame that lies whole in a chunk is not copied."""

    class Keeper(ServerOps):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[bytes] = []

        def on_pub(self, frame: Frame) -> None:
            self.seen.append(frame.data)

    chunk = b"PING\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\n"
    keeper = Keeper()
    ServerParser(keeper, 4096, 1000, headers=True).feed(chunk)

    assert [data is chunk for data in keeper.seen] == [True, True]


def test_a_parser_between_chunks_refers_to_no_chunk() -> None:
    """Thousands of idle connections would otherwise keep the last bytes of each."""

    class Keeper(ServerOps):
        def __init__(self) -> None:
            super().__init__()
            self.frame: Frame | None = None

        def on_pub(self, frame: Frame) -> None:
            self.frame = frame

    keeper = Keeper()
    parser = ServerParser(keeper, 4096, 1000, headers=True)
    for chunk in (b"PUB a 1\r\nx\r\n", b"PUB a 3\r\nx", b"yz", b"\r\n"):
        parser.feed(chunk)

    assert keeper.frame is not None
    assert keeper.frame.data == b""


def test_only_the_cut_frame_is_joined() -> None:
    """A chunk that begins with the rest of a frame is otherwise handed out as it came."""
    first, second = b"PUB a 4\r\nab", b"cd\r\nPUB b 2\r\nef\r\n"

    assert parse(first, second) == [
        ("pub", b"a", b"", b"", b"abcd"),
        ("pub", b"b", b"", b"", b"ef"),
    ]


def test_a_payload_is_refused_before_it_arrives() -> None:
    """wire.md, Core protocol: Maximum Payload Violation comes with the control line."""
    assert parse(b"PUB a 1001\r\n") == [("violation", b"Maximum Payload Violation", True)]


def test_a_payload_and_a_control_line_at_their_limits_are_taken() -> None:
    """Both limits are the largest that is allowed."""
    subject = b"s" * 11
    frame = b"PUB %b 1000\r\n%b\r\n" % (subject, b"x" * 1000)

    assert parse(frame, control_line=16) == [("pub", subject, b"", b"", b"x" * 1000)]
    assert parse(b"HPUB a 0 1000\r\n%b\r\n" % (b"x" * 1000)) == [
        ("pub", b"a", b"", b"", b"x" * 1000)
    ]


def test_headers_count_as_payload() -> None:
    """wire.md, Limits and timings: the total of HPUB is compared with max_payload."""
    assert parse(b"HPUB a 12 1001\r\n") == [("violation", b"Maximum Payload Violation", True)]


def test_a_payload_limit_of_minus_one_is_none() -> None:
    """nats-server has no limit for an account with -1."""
    assert parse(b"PUB a 5000\r\n" + b"x" * 5000 + b"\r\n", payload=-1) == [
        ("pub", b"a", b"", b"", b"x" * 5000)
    ]


@pytest.mark.parametrize("op", [b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"INFO "])
def test_every_control_line_is_bounded_with_and_without_its_end(op: bytes) -> None:
    """wire.md, Core protocol: 'maximum control line exceeded' closes."""
    refused = [("violation", b"maximum control line exceeded", True)]

    assert parse(op + b"a" * 17 + b"\r\n", control_line=16) == refused
    assert parse(op + b"a" * 17, control_line=16) == refused
    assert parse(op, b"a" * 10, b"a" * 6, b"a", control_line=16) == refused
    assert parse(op, b"a" * 10, b"a" * 6, b"\r", control_line=16) == []


def test_nothing_is_read_after_a_violation() -> None:
    """contracts: a closing violation ends the connection."""
    calls = parse(b"PUB a 1\r\nx\r\nNO\r\nPUB a 1\r\nx\r\n", b"PING\r\n")

    assert calls == [
        ("pub", b"a", b"", b"", b"x"),
        ("violation", b"Unknown Protocol Operation", True),
    ]


def test_headers_can_be_switched_on_by_connect() -> None:
    """wire.md, Core protocol: HPUB before headers were agreed is closed silently."""

    class Agreeing(RecordingServerOps):
        def on_connect(self, body: bytes) -> None:
            super().on_connect(body)
            parser.headers = True

    handler = Agreeing()
    parser = ServerParser(handler, 4096, 1000, headers=False)
    parser.feed(b"CONNECT {}\r\nHPUB a 0 0\r\n\r\n")

    assert handler.calls == [("connect", b"{}"), ("pub", b"a", b"", b"", b"")]

    late = RecordingServerOps()
    ServerParser(late, 4096, 1000, headers=False).feed(b"HPUB a 0 0\r\n\r\n")

    assert late.calls == [("violation", b"", True)]


@pytest.mark.parametrize("first", [b"P", b"p", b"S", b"H", b"+", b"X"])
def test_only_connect_is_accepted_while_authorization_is_awaited(first: bytes) -> None:
    """nats-server refuses the first byte of anything else; nothing of it is held."""
    handler = RecordingServerOps()
    parser = ServerParser(handler, 4096, 1000, headers=True)
    parser.require_connect(True)
    parser.feed(b"CONNECT {}\r\n" + first)

    assert handler.calls == [
        ("connect", b"{}"),
        ("violation", b"Authorization Violation", True),
    ]


def test_a_handler_can_stop_the_parser_within_a_chunk() -> None:
    """A refused CONNECT must not be followed by the operations sent with it."""

    class Refusing(RecordingServerOps):
        def on_connect(self, body: bytes) -> None:
            super().on_connect(body)
            parser.close()

    handler = Refusing()
    parser = ServerParser(handler, 4096, 1000, headers=True)
    parser.feed(b"CONNECT {}\r\nPING\r\n")
    parser.feed(b"PING\r\n")

    assert handler.calls == [("connect", b"{}")]


def test_an_exception_of_the_handler_closes_the_parser() -> None:
    """The rest of the chunk is lost: payload must never be taken for operations."""

    class Failing(RecordingServerOps):
        def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
            super().on_sub(subject, queue, sid)
            raise RuntimeError("handler")

    handler = Failing()
    parser = ServerParser(handler, 4096, 1000, headers=True)
    with pytest.raises(RuntimeError, match="handler"):
        parser.feed(b"SUB a 1\r\nPUB a 6\r\nPI")
    parser.feed(b"NG\r\n\r\n")

    assert handler.calls == [("sub", b"a", b"", b"1")]
    assert parser.closed


def test_empty_chunks_change_nothing() -> None:
    """A transport may report zero bytes between the parts of a frame."""
    assert parse(b"", b"PU", b"", b"B a", b"", b" 2\r", b"", b"\nx", b"", b"y\r", b"", b"\n") == [
        ("pub", b"a", b"", b"", b"xy")
    ]


def test_single_bytes_of_a_payload_cost_little_more_than_the_payload() -> None:
    """Every buffer has a bound; here the payload, not an object per piece."""
    size = 40_000
    parser = ServerParser(RecordingServerOps(), 4096, size, headers=True)
    parser.feed(b"PUB a %d\r\n" % size)
    pieces = [bytes([i & 255, 7]) for i in range(size // 2 - 1)]
    tracemalloc.start()
    for piece in pieces:
        parser.feed(piece[:1] + piece[1:])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 2 * size


@pytest.mark.parametrize("filler", [b"PUB", b"PING", b"+OK", b"CONNECT"])
def test_blanks_without_end_are_not_held(filler: bytes) -> None:
    """nats-server puts no limit on blanks before arguments, nor on what follows PING."""
    parser = ServerParser(RecordingServerOps(), 4096, 1000, headers=True)
    parser.feed(filler)
    blanks = b" " * 10_000
    tracemalloc.start()
    for _ in range(20):
        parser.feed(blanks)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert not parser.closed
    assert held < 10_000
