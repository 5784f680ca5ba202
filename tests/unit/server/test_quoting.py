"""Quoting like Go's ``%q``."""

import pytest

from jetspark.server.quoting import quote, quote_bytes


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'a"b', rb'"a\"b"'),
        (rb"q\x", rb'"q\\x"'),
        ("é\x01".encode(), '"é\\x01"'.encode()),
        (b"\xff\xfe", rb'"\xff\xfe"'),
        (b"a\x7f\x1f", rb'"a\x7f\x1f"'),
        ("\u2028".encode(), rb'"\u2028"'),
        ("😀'\a\b\f\v".encode(), '"😀\'\\a\\b\\f\\v"'.encode()),
        ("\u00a0\u00ad\ufeff".encode(), rb'"\u00a0\u00ad\ufeff"'),
        ("\ufffd".encode(), '"\ufffd"'.encode()),
        ("\U000e0001".encode(), rb'"\U000e0001"'),
        (b"\xed\xa0\x80", rb'"\xed\xa0\x80"'),
        (b"\n\r\t", rb'"\n\r\t"'),
    ],
)
def test_subjects_are_quoted_as_go_does(data: bytes, expected: bytes) -> None:
    assert quote_bytes(data) == expected


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\', r'"a\"b\\"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("grün", '"grün"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_does(text: str, quoted: str) -> None:
    assert quote(text) == quoted
