"""The parser of what servers send."""

import pytest
from tests.support.recording import Call, RecordingClientOps

from jetspark.protocol.client_parser import ClientParser

BLOCK = b"NATS/1.0 503\r\n\r\n"


def parse(*chunks: bytes, control_line: int = 4096, payload: int = 1000) -> list[Call]:
    """The calls that these chunks make."""
    handler = RecordingClientOps()
    parser = ClientParser(handler, control_line, payload)
    for chunk in chunks:
        parser.feed(chunk)
    return handler.calls


@pytest.mark.parametrize(
    ("wire", "call"),
    [
        (b'INFO {"a":1}\r\n', ("info", b'{"a":1}')),
        (b'INFO {"a":1} \r\n', ("info", b'{"a":1}')),
        (b"info\t {}\t \n", ("info", b"{}")),
        (b"INFO{}\r\n", ("info", b"{}")),
        (b"MSG a.b 7 5\r\nhello\r\n", ("msg", b"a.b", 7, b"", b"", b"hello")),
        (b"msg a.b 7 r.s 5\r\nhello\r\n", ("msg", b"a.b", 7, b"r.s", b"", b"hello")),
        (b"MSG\ta 7\t\tr  0 \n\r\n", ("msg", b"a", 7, b"r", b"", b"")),
        (b"MSG a 7 005\r\nhello\r\n", ("msg", b"a", 7, b"", b"", b"hello")),
        (b"HMSG a 7 16 18\r\n" + BLOCK + b"xy\r\n", ("msg", b"a", 7, b"", BLOCK, b"xy")),
        (b"HMSG a 7 r 16 16\r\n" + BLOCK + b"\r\n", ("msg", b"a", 7, b"r", BLOCK, b"")),
        (b"PING\r\n", ("ping",)),
        (b"PONG \r\n", ("pong",)),
        (b"+OK\r\n", ("ok",)),
        (b"+ok then\n", ("ok",)),
        (b"-ERR 'Stale Connection'\r\n", ("err", b"Stale Connection")),
        (b"-ERR plain\r\n", ("err", b"plain")),
        (b"-err\t'it''s' \n", ("err", b"it''s")),
        (b"-ERR '\r\n", ("err", b"'")),
        (b"-ERR\r\n", ("err", b"")),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_each_operation_calls_its_method(wire: bytes, call: Call) -> None:
    """wire.md, Core protocol: what servers send, and the freedom they take."""
    assert parse(wire) == [call]


def test_info_may_come_again_at_any_time() -> None:
    """A second INFO follows the first PONG; lame duck mode sends another."""
    calls = parse(b"INFO {} \r\nPONG\r\nINFO {} \r\nMSG a 1 0\r\n\r\nINFO {}\r\n")

    assert [call[0] for call in calls] == ["info", "pong", "info", "msg", "info"]


def test_a_stray_line_end_in_a_subject_does_not_end_the_connection() -> None:
    """nats-server lets publishers put a CR or a leading LF into a subject."""
    assert parse(b"MSG a\rb 1 1\r\nx\r\nMSG \nc 1 1\r\ny\r\n") == [
        ("msg", b"a\rb", 1, b"", b"", b"x"),
        ("msg", b"\nc", 1, b"", b"", b"y"),
    ]


def test_the_largest_sid_is_read() -> None:
    """Sids are integers of eighteen digits at most."""
    assert parse(b"MSG a 999999999999999999 0\r\n\r\n") == [
        ("msg", b"a", 999_999_999_999_999_999, b"", b"", b"")
    ]


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", b"unknown operation: b'HTTP/1.1 400 Bad Request\\r\\n'"),
        (b"MSGX a 1 0\r\n", b"unknown operation: b'MSGX a 1 0\\r\\n'"),
        (b"PUB a 0\r\n\r\n", b"unknown operation: b'PUB a 0\\r\\n\\r\\n'"),
        (b"\r\n", b"unknown operation: b'\\r\\n'"),
        (b"MSG a 0\r\n\r\n", b"malformed arguments: b'MSG a 0\\r\\n'"),
        (b"MSG \r\n", b"malformed arguments: b'MSG \\r\\n'"),
        (b"MSG a 1 r x 0\r\n", b"malformed arguments: b'MSG a 1 r x 0\\r\\n'"),
        (b"MSG a x 0\r\n", b"malformed arguments: b'MSG a x 0\\r\\n'"),
        (b"MSG a 1 x\r\n", b"malformed arguments: b'MSG a 1 x\\r\\n'"),
        (b"MSG a 1 -1\r\n", b"malformed arguments: b'MSG a 1 -1\\r\\n'"),
        (
            b"MSG a 1234567890123456789 0\r\n",
            b"malformed arguments: b'MSG a 1234567890123456789 0\\r\\n'",
        ),
        (b"HMSG a 1 5\r\n", b"malformed arguments: b'HMSG a 1 5\\r\\n'"),
        (b"HMSG a 1 6 5\r\n", b"malformed arguments: b'HMSG a 1 6 5\\r\\n'"),
        (b"HMSG a 1 x 5\r\n", b"malformed arguments: b'HMSG a 1 x 5\\r\\n'"),
        (b"HMSG a 1 r s 5 5\r\n", b"malformed arguments: b'HMSG a 1 r s 5 5\\r\\n'"),
        (b"MSG a 1 1001\r\n", b"payload larger than the limit: b'MSG a 1 1001\\r\\n'"),
        (b"MSG a 1 1\r\nxy", b"payload is not followed by CRLF"),
        (b"MSG a 1 1\r\nx\ry", b"payload is not followed by CRLF"),
        (b"MSG a 1 1\r\nxyz\r\n", b"payload is not followed by CRLF"),
        (b"INFO " + b"a" * 4097, b"control line longer than 4096 bytes"),
        (b"INFO " + b"a" * 4097 + b"\r\n", b"control line longer than 4096 bytes"),
        (b"MSG " + b"a" * 4097, b"control line longer than 4096 bytes"),
    ],
)
def test_a_violation_says_what_was_wrong(wire: bytes, text: bytes) -> None:
    """Bad input gets a clear error: what was wrong, with the bytes themselves where they help."""
    assert parse(wire) == [("violation", text)]


def test_nothing_is_read_after_a_violation() -> None:
    """The connection is given up."""
    assert [call[0] for call in parse(b"PING\r\nNO\r\nPING\r\n", b"PING\r\n")] == [
        "ping",
        "violation",
    ]


def test_a_long_info_in_many_pieces_is_read() -> None:
    """Clusters list hundreds of addresses in INFO, far beyond 4096 bytes."""
    body = b'{"connect_urls":[' + b",".join(b'"10.0.0.1:%d"' % n for n in range(4000)) + b"]}"
    wire = b"INFO %b \r\n" % body
    chunks = [wire[i : i + 1000] for i in range(0, len(wire), 1000)]

    assert parse(*chunks, control_line=1 << 20) == [("info", body)]


def test_a_payload_limit_can_follow_info() -> None:
    """max_payload is announced in INFO, after the parser was made."""
    handler = RecordingClientOps()
    parser = ClientParser(handler, 4096, 0)
    parser.max_payload = 3
    parser.feed(b"MSG a 1 3\r\nabc\r\n")

    assert handler.calls == [("msg", b"a", 1, b"", b"", b"abc")]


def test_an_exception_of_the_handler_closes_the_parser() -> None:
    """The rest of the chunk is lost: payload must never be taken for operations."""

    class Failing(RecordingClientOps):
        def on_info(self, body: bytes) -> None:
            raise ValueError(body)

    handler = Failing()
    parser = ClientParser(handler, 4096, 1000)
    with pytest.raises(ValueError, match="x"):
        parser.feed(b"INFO x\r\nMSG a 1 6\r\nPI")
    parser.feed(b"NG\r\n\r\n")

    assert handler.calls == []
    assert parser.closed
