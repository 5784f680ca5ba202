"""Header blocks against models that were written differently."""

import re

from hypothesis import given
from hypothesis import strategies as st

from jetspark.headers.block import (
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
from jetspark.headers.headers import Headers
from jetspark.headers.status import parse_status, status_block

NAMES = (b"Nats-Msg-Id", b"Nats-", b"A", b"AA", b"Nats-TTL")

names = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"),
    min_size=1,
    max_size=8,
)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)
pairs_of_text = st.lists(
    st.tuples(names, values.map(lambda value: value.lstrip(" \t"))), max_size=6
)
raw_values = st.binary(max_size=12).map(
    lambda value: value.replace(b"\r", b"").replace(b"\n", b"").lstrip(b" \t")
)
lines = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([b": ", b":", b":   "]), raw_values),
    max_size=6,
)
# Blocks as bad as a client can send them: every piece that means something, in any order.
messes = st.lists(
    st.sampled_from([b"\r\n", b"\r\n", b"\r", b"\n", b":", b" ", b"NATS/1.0", b"x", *NAMES]),
    max_size=16,
).map(b"".join)


def block_of(parts: list[tuple[bytes, bytes, bytes]]) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(n + c + v + b"\r\n" for n, c, v in parts) + b"\r\n"


def found_by_regex(block: bytes, name: bytes) -> list[bytes]:
    """Every value of ``name``, found by one expression over the whole block."""
    expression = rb"(?<=\r\n)" + re.escape(name) + rb":[ ]*(.*?)(?=\r\n|\Z)"
    return re.findall(expression, block, re.DOTALL)


@given(pairs_of_text)
def test_headers_survive_the_wire(pairs: list[tuple[str, str]]) -> None:
    block = encode_headers(pairs)

    assert decode_headers(block).items() == pairs
    assert encode_headers(decode_headers(block).items()) == block


@given(lines)
def test_values_of_any_bytes_encode_back_to_the_same_bytes(
    parts: list[tuple[bytes, bytes, bytes]],
) -> None:
    block = block_of([(name, b": ", value) for name, _, value in parts])

    assert encode_headers(decode_headers(block).items()) == (block if parts else b"")


@given(pairs_of_text, names)
def test_get_gives_the_last_of_all_values(pairs: list[tuple[str, str]], name: str) -> None:
    headers = Headers(pairs)
    for one in {name, *(key for key, _ in pairs)}:
        all_values = [value for key, value in pairs if key == one]

        assert headers.get_all(one) == all_values
        assert headers.get(one) == (all_values[-1] if all_values else None)
        assert (one in headers) == bool(all_values)


# The second one is so long that it is searched in another way.
@given(
    st.one_of(lines.map(block_of), messes),
    st.sampled_from(NAMES),
    st.sampled_from([b"", b"NATS/1.0\r\nX: " + b"y" * 5_000]),
)
def test_values_are_found_where_a_regular_expression_finds_them(
    block: bytes, name: bytes, before: bytes
) -> None:
    block = before + block
    found = found_by_regex(block, name)

    assert find_value(block, name) == (found[0] if found else None)


@given(lines)
def test_headers_of_the_server_are_those_that_start_with_nats(
    parts: list[tuple[bytes, bytes, bytes]],
) -> None:
    block = block_of(parts)
    expected = [
        piece
        for name, _, value in parts
        if name.startswith(b"Nats-")
        for piece in (name, value.lstrip(b" "))
    ]

    assert nats_pairs(block) == expected
    assert has_nats_headers(block) is bool(expected)


@given(lines, st.sampled_from(NAMES))
def test_removing_takes_the_lines_of_one_name(
    parts: list[tuple[bytes, bytes, bytes]], name: bytes
) -> None:
    others = [part for part in parts if part[0] != name]
    not_starting = [part for part in parts if not part[0].startswith(name)]
    block = block_of(parts)

    # What has nothing to be removed comes back as it is, even without any header.
    assert remove_header(block, name) == (block_of(others) if others or not parts else b"")
    expected = block_of(not_starting) if not_starting or not parts else b""
    assert remove_headers_starting(block, name) == expected


@given(lines, lines)
def test_appended_lines_come_last(
    first: list[tuple[bytes, bytes, bytes]], second: list[tuple[bytes, bytes, bytes]]
) -> None:
    added = block_of(second).removeprefix(b"NATS/1.0\r\n").removesuffix(b"\r\n")

    assert append_lines(block_of(first), added) == block_of(first + second)
    assert append_lines(b"", added) == block_of(second)


@given(
    lines,
    st.integers(100, 599),
    st.binary(max_size=8).map(lambda t: t.replace(b"\r", b"").strip(b" ")),
)
def test_a_status_is_read_and_stripped(
    parts: list[tuple[bytes, bytes, bytes]], code: int, text: bytes
) -> None:
    plain = block_of(parts)
    added = plain.removeprefix(b"NATS/1.0\r\n").removesuffix(b"\r\n")
    block = status_block(code, text, added)

    assert parse_status(block) == (code, text)
    assert parse_status(plain) == (0, b"")
    assert strip_status(block) == (plain if parts else b"")
    assert decode_headers(block) == decode_headers(plain)


@given(st.one_of(messes, st.binary(max_size=40)))
def test_no_block_makes_anything_fail(block: bytes) -> None:
    """nats-server forwards any bytes as headers, so everything here must bear them."""
    lines_added = append_lines(strip_status(block), b"Z: 1\r\n")

    assert decode_headers(lines_added).get("Z") == "1"
    assert len(decode_headers(block).items()) <= block.count(b"\r\n") + 1
    assert has_nats_headers(block) or not nats_pairs(block)
    assert find_value(remove_header(block, b"A"), b"A") is None
    assert isinstance(parse_status(block)[0], int)
