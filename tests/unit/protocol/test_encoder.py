"""Frames as bytes."""

import pytest
from librt.strings import BytesWriter

from jetspark.headers.numbers import write_number
from jetspark.protocol import encoder
from jetspark.protocol.handshake import ConnectOptions, ServerInfo

BLOCK = b"NATS/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("encoded", "wire"),
    [
        (encoder.PING, b"PING\r\n"),
        (encoder.PONG, b"PONG\r\n"),
        (encoder.OK, b"+OK\r\n"),
        (encoder.encode_err(b"Stale Connection"), b"-ERR 'Stale Connection'\r\n"),
        (encoder.encode_pub(b"a.b", b"", b"hello"), b"PUB a.b 5\r\nhello\r\n"),
        (encoder.encode_pub(b"a.b", b"r", b""), b"PUB a.b r 0\r\n\r\n"),
        (encoder.encode_hpub(b"a", b"", BLOCK, b"xy"), b"HPUB a 12 14\r\n" + BLOCK + b"xy\r\n"),
        (encoder.encode_hpub(b"a", b"r", BLOCK, b""), b"HPUB a r 12 12\r\n" + BLOCK + b"\r\n"),
        (encoder.encode_sub(b"a.>", b"", 7), b"SUB a.> 7\r\n"),
        (encoder.encode_sub(b"a.>", b"q", 7), b"SUB a.> q 7\r\n"),
        (encoder.encode_unsub(7, 0), b"UNSUB 7\r\n"),
        (encoder.encode_unsub(7, 12), b"UNSUB 7 12\r\n"),
        (encoder.encode_msg(b"a", b"s1", b"", b"hello"), b"MSG a s1 5\r\nhello\r\n"),
        (encoder.encode_msg(b"a", b"1", b"r", b""), b"MSG a 1 r 0\r\n\r\n"),
        (
            encoder.encode_hmsg(b"a", b"1", b"", BLOCK, b"xy"),
            b"HMSG a 1 12 14\r\n" + BLOCK + b"xy\r\n",
        ),
        (
            encoder.encode_hmsg(b"a", b"1", b"r", BLOCK, b""),
            b"HMSG a 1 r 12 12\r\n" + BLOCK + b"\r\n",
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_a_frame_is_encoded_as_on_the_wire(encoded: bytes, wire: bytes) -> None:
    """wire.md, Core protocol."""
    assert encoded == wire


def test_frames_are_appended_to_one_output() -> None:
    """The output of a chunk is one piece of bytes."""
    out = BytesWriter()
    encoder.write_msg(out, b"a", b"1", b"", b"x")
    encoder.write_hmsg(out, b"a", b"1", b"r", BLOCK, b"x")
    encoder.write_pub(out, b"a", b"r", b"x")
    encoder.write_hpub(out, b"a", b"", BLOCK, b"x")

    assert out.getvalue() == (
        encoder.encode_msg(b"a", b"1", b"", b"x")
        + encoder.encode_hmsg(b"a", b"1", b"r", BLOCK, b"x")
        + encoder.encode_pub(b"a", b"r", b"x")
        + encoder.encode_hpub(b"a", b"", BLOCK, b"x")
    )


@pytest.mark.parametrize("digits", range(1, 20))
def test_numbers_of_every_length_are_written(digits: int) -> None:
    """Digits are written in groups of four; zeros within the number stay."""
    low, high = 10 ** (digits - 1), min(10**digits, 1 << 63) - 1
    for number in (low, low + 1, low + 10, high // 2, high - 1, high, 0):
        out = BytesWriter()
        write_number(out, number)

        assert out.getvalue() == b"%d" % number


def test_info_ends_with_a_blank() -> None:
    """wire.md, Core protocol: the INFO line of nats-server has a blank before CRLF."""
    wire = encoder.encode_info(ServerInfo(server_id="x"))

    assert wire.startswith(b'INFO {"server_id":"x"')
    assert wire.endswith(b"} \r\n")


def test_connect_is_one_line_of_json() -> None:
    """wire.md, Command line and configuration."""
    wire = encoder.encode_connect(ConnectOptions(verbose=False, name="a\r\nb"))

    assert wire.startswith(b'CONNECT {"verbose":false,')
    assert wire.count(b"\r\n") == 1
