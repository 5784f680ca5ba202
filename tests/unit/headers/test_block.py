"""Header blocks: encode, decode, search, change."""

import pytest

from jetspark.headers.block import (
    EMPTY_BLOCK,
    append_lines,
    decode_headers,
    encode_headers,
    find_value,
    has_nats_headers,
    nats_pairs,
    remove_header,
    remove_headers_starting,
    strip_status,
)

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id: x\r\nA: 2\r\n\r\n"


def block(*lines: bytes) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def test_a_block_has_a_version_line_the_headers_and_an_empty_line() -> None:
    assert encode_headers([("A", "1"), ("Nats-Msg-Id", "x"), ("A", "2")]) == BLOCK


def test_no_headers_are_no_block() -> None:
    assert encode_headers([]) == b""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"bad header name '': it is empty"),
        ("a:b", r"bad header name 'a:b': character 1 is ':'"),
        ("a b", r"character 1 is ' '"),
        ("a\r\nB", r"character 1 is '\\r'"),
        ("a\x7f", r"character 1 is '\\x7f'"),
        ("naïve", r"character 2 is 'ï'; allowed are printable ASCII"),
    ],
)
def test_a_name_that_cannot_be_sent_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_headers([("ok", "1"), (name, "2")])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "a\r\nB: injected",
            r"bad value of header 'X': character 1 is '\\r'; a value is one line",
        ),
        ("ab\n", r"character 2 is '\\n'"),
        ("\r", r"character 0 is '\\r'"),
        ("x\ud800", r"character 1 is '\\ud800', a lone surrogate"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused(value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_headers([("X", value)])


def test_decoding_keeps_order_and_doubled_names() -> None:
    assert decode_headers(BLOCK).items() == [("A", "1"), ("Nats-Msg-Id", "x"), ("A", "2")]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        (b"A: b", ("A", "b")),
        (b"A:b", ("A", "b")),
        (b"A:   b", ("A", "b")),
        (b"A:\tb", ("A", "b")),
        (b"A: b  ", ("A", "b  ")),
        (b"A:", ("A", "")),
        (b"A: ", ("A", "")),
        (b"A: b:c", ("A", "b:c")),
        (b"A : b", ("A ", "b")),
        (b"A: \xd0\xba", ("A", "к")),
        (b"A: \xff", ("A", "\udcff")),
        (b"\xff: b", ("\udcff", "b")),
        (b"no colon", ("no colon", "")),
        (b"A: b\nc", ("A", "b\nc")),
        (b": b", ("", "b")),
    ],
)
def test_decoding_loses_nothing(line: bytes, pair: tuple[str, str]) -> None:
    assert decode_headers(block(line)).items() == [pair]


@pytest.mark.parametrize(
    ("raw", "pairs"),
    [
        (b"", []),
        (b"NATS/1.0\r\n\r\n", []),
        (b"NATS/1.0 404 No Messages\r\n\r\n", []),
        (
            b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n",
            [("Nats-Pending-Messages", "3")],
        ),
        (b"garbage", [("garbage", "")]),
        (b"A: b\r\n\r\n", [("A", "b")]),
        (b"NATS/1.0\r\nA: b", [("A", "b")]),
        (b"NATS/1.0\r\nNATS/1.0: b\r\n\r\n", [("NATS/1.0", "b")]),
    ],
    ids=[
        "nothing",
        "empty",
        "status",
        "status and header",
        "garbage",
        "no version",
        "no end",
        "odd",
    ],
)
def test_odd_blocks_are_decoded_as_far_as_they_go(
    raw: bytes, pairs: list[tuple[str, str]]
) -> None:
    """nats-server stores and forwards any of these, so a client may meet them."""
    assert decode_headers(raw).items() == pairs


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"Nats-Msg-Id: x", b"x"),
        (b"Nats-Msg-Id:x", b"x"),
        (b"Nats-Msg-Id:   x", b"x"),
        (b"Nats-Msg-Id: x ", b"x "),
        (b"Nats-Msg-Id:\tx", b"\tx"),
        (b"Nats-Msg-Id: y\r\nNats-Msg-Id: x", b"y"),
        (b"Nats-Msg-Id: x\nfoo", b"x\nfoo"),
        (b"Nats-Msg-Id: x\r\n y", b"x"),
        (b"Nats-Msg-Id:", b""),
        (b"Nats-Msg-Id: ", b""),
        (b"Other: Nats-Msg-Id: z\r\nNats-Msg-Id: x", b"x"),
        (b"Nats-Msg-Id2: z\r\nNats-Msg-Id: x", b"x"),
        (b"nats-msg-id: x", None),
        (b"Nats-Msg-Id : x", None),
        (b" Nats-Msg-Id: x", None),
        (b"A: b\nNats-Msg-Id: x", None),
        (b"Nats-Msg-Id", None),
        (b"A: b", None),
    ],
)
def test_a_value_is_found_as_nats_server_finds_it(line: bytes, value: bytes | None) -> None:
    """Observed on nats-server 2.15.1: which of these it takes for a duplicate of ``x``."""
    assert find_value(block(line), b"Nats-Msg-Id") == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"", None),
        (b"garbage", None),
        (b"Nats-Msg-Id: x\r\n\r\n", None),
        (b"NATS/1.0\r\nNats-Msg-Id: x", b"x"),
        (b"NATS/1.0\r\nNats-Msg-Id:", b""),
        (b"NATS/1.0\r\nNats-Msg-Id", None),
        (b"NATS/1.0 200 OK\r\nNats-Msg-Id: x\r\n\r\n", b"x"),
        (b"NATS/1.0\r\nNats-Msg-Id: x\r", b"x\r"),
    ],
)
def test_values_are_found_in_odd_blocks_too(raw: bytes, value: bytes | None) -> None:
    assert find_value(raw, b"Nats-Msg-Id") == value


def test_no_name_has_no_value() -> None:
    assert find_value(block(b": x"), b"") is None


def test_servers_read_the_first_value_and_clients_the_last() -> None:
    """wire.md, point 12: the user's comes first, what the server added last."""
    assert find_value(BLOCK, b"A") == b"1"
    assert decode_headers(BLOCK).get("A") == "2"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"A: 1", b"Nats-TTL: 5s"], True),
        ([b"Nats-X:1"], True),
        ([b"A: Nats-TTL: 1"], False),
        ([b"nats-TTL: 1"], False),
        ([b"KV-Operation: DEL"], False),
        ([], False),
    ],
)
def test_headers_of_the_server_are_noticed(lines: list[bytes], *, expected: bool) -> None:
    assert has_nats_headers(block(*lines)) is expected


def test_all_headers_of_the_server_come_in_one_pass() -> None:
    raw = block(
        b"A: 1",
        b"Nats-TTL:5s",
        b"Nats-Broken",
        b"Nats-Msg-Id:  x:y ",
        b"Nats-TTL: 6s",
        b"B: Nats-Z: 1",
    )

    assert nats_pairs(raw) == [b"Nats-TTL", b"5s", b"Nats-Msg-Id", b"x:y ", b"Nats-TTL", b"6s"]
    assert nats_pairs(b"") == []
    assert nats_pairs(EMPTY_BLOCK) == []


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        (b"NATS/1.0 200 OK\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0 200 OK\r\n\r\n", b""),
        (b"NATS/1.0 \r\n\r\n", b""),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"garbage", b"garbage"),
        (b"NATS/1.0 200 OK", b"NATS/1.0 200 OK"),
        (b"Nats-Msg-Id: x\r\n\r\n", b"Nats-Msg-Id: x\r\n\r\n"),
        (b"", b""),
    ],
)
def test_a_status_is_removed_before_storing(raw: bytes, stored: bytes) -> None:
    """The rows with headers were observed on nats-server 2.15.1 by MSG.GET."""
    assert strip_status(raw) == stored


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (b"", b"NATS/1.0\r\nN: 1\r\n\r\n"),
        (EMPTY_BLOCK, b"NATS/1.0\r\nN: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\nN: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n", b"NATS/1.0\r\nA: b\r\nN: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA: b", b"NATS/1.0\r\nA: b\r\nN: 1\r\n\r\n"),
        (b"x", b"x\r\nN: 1\r\n\r\n"),
    ],
)
def test_lines_come_after_the_headers_of_the_user(raw: bytes, result: bytes) -> None:
    """wire.md, Direct get: user headers first, then those of the server."""
    assert append_lines(raw, b"N: 1\r\n") == result


def test_a_header_is_removed_with_all_its_values_and_only_it() -> None:
    raw = block(b"A: 1", b"B: A: 2", b"A: 3", b"AA: 4", b"a: 5")

    assert remove_header(raw, b"A") == block(b"B: A: 2", b"AA: 4", b"a: 5")
    assert remove_header(raw, b"C") is raw


def test_headers_are_removed_by_the_start_of_their_name() -> None:
    raw = block(
        b"Nats-Expected-Stream: S", b"A: Nats-Expected-", b"Nats-Expected-Last-Sequence: 1"
    )

    assert remove_headers_starting(raw, b"Nats-Expected-") == block(b"A: Nats-Expected-")


def test_nothing_is_left_when_the_last_header_is_removed() -> None:
    assert remove_header(block(b"A: 1"), b"A") == b""
    assert remove_headers_starting(block(b"Nats-A: 1", b"Nats-B: 2"), b"Nats-") == b""
