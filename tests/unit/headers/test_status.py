"""Status lines and header names."""

import pytest

from jetspark.headers import names, status
from jetspark.headers.status import parse_status, status_block


@pytest.mark.parametrize(
    ("code", "text", "lines", "block"),
    [
        (404, status.NO_MESSAGES_TEXT, b"", b"NATS/1.0 404 No Messages\r\n\r\n"),
        (503, b"", b"Nats-Subject: a\r\n", b"NATS/1.0 503\r\nNats-Subject: a\r\n\r\n"),
        (
            204,
            status.EOB_TEXT,
            b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\n",
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\n\r\n",
        ),
    ],
)
def test_a_status_block_is_written_and_read(
    code: int, text: bytes, lines: bytes, block: bytes
) -> None:
    """wire.md, Core protocol: the blocks as nats-server sends them."""
    assert status_block(code, text, lines) == block
    assert parse_status(block) == (code, text)


@pytest.mark.parametrize(
    ("block", "parsed"),
    [
        (b"", (0, b"")),
        (b"NATS/1.0", (0, b"")),
        (b"NATS/1.0\r\n\r\n", (0, b"")),
        (b"NATS/1.0 \r\n\r\n", (0, b"")),
        (b"NATS/1.0 OK\r\n\r\n", (0, b"")),
        (b"NATS/1.0\r\nA: 404\r\n\r\n", (0, b"")),
        (b"NATS/1.1 404\r\n\r\n", (0, b"")),
        (b"garbage 404", (0, b"")),
        (b"NATS/1.0 503", (503, b"")),
        (b"NATS/1.0 503 \r\n\r\n", (503, b"")),
        (b"NATS/1.0  409   Consumer Deleted\r\n\r\n", (409, b"Consumer Deleted")),
        (b"NATS/1.0 408 Request Timeout \r\n\r\n", (408, b"Request Timeout ")),
        (b"NATS/1.0 100Idle\r\n\r\n", (100, b"Idle")),
        (b"NATS/1.0 99999999999999999999\r\n\r\n", (999999999, b"99999999999")),
    ],
)
def test_blocks_without_a_proper_status_are_read_too(
    block: bytes, parsed: tuple[int, bytes]
) -> None:
    assert parse_status(block) == parsed


def test_texts_with_a_limit_take_it() -> None:
    """wire.md, Consumers: the answers of a consumer with limits for pull requests."""
    assert status.MAX_REQUEST_BATCH_TEXT % 5 == b"Exceeded MaxRequestBatch of 5"
    assert status.MAX_REQUEST_EXPIRES_TEXT % b"1s" == b"Exceeded MaxRequestExpires of 1s"
    assert status.MAX_REQUEST_MAX_BYTES_TEXT % 9 == b"Exceeded MaxRequestMaxBytes of 9"


def test_every_header_name_is_listed_once() -> None:
    values = [value for key, value in vars(names).items() if key.isupper()]

    assert len(values) == len(set(values)) > 50
    assert all(value.startswith((b"Nats-", b"KV-")) for value in values)
