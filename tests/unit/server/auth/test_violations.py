"""The texts of ``-ERR`` as nats-server 2.15.1 was seen to write them."""

from __future__ import annotations

import pytest

from jetspark.server.auth.violations import (
    headers_violation,
    publish_violation,
    quoted,
    reply_violation,
    subscription_violation,
)


def test_texts_are_those_that_clients_match() -> None:
    assert publish_violation(b"foo") == b'Permissions Violation for Publish to "foo"'
    assert (
        subscription_violation(b"foo", b"") == b'Permissions Violation for Subscription to "foo"'
    )
    assert (
        subscription_violation(b"foo", b"q")
        == b'Permissions Violation for Subscription to "foo" using queue "q"'
    )
    assert reply_violation(b"_R_.x") == b'Permissions Violation for Publish with Reply of "_R_.x"'
    assert headers_violation(b"a", b"b", False) == (
        b'Permissions Violation for Publish to "a", its headers need permission to publish to "b"'
    )
    assert headers_violation(b"a", b"b", True).endswith(b'its headers need permission to read "b"')


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
    assert quoted(data) == expected
