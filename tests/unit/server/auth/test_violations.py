"""The texts of ``-ERR`` as nats-server 2.15.1 was seen to write them."""

from __future__ import annotations

from jetspark.server.auth.violations import (
    headers_violation,
    publish_violation,
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
