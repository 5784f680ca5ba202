import os
import socket
import ssl

import pytest

from jetspark.client.connection.server_errors import (
    connect_failure,
    denied_subject,
    dial_problem,
    error_of_line,
    is_survivable,
)
from jetspark.client.connection.server_pool import ServerPool, parse_servers
from jetspark.errors import (
    AuthorizationFailed,
    ConnectFailed,
    ConnectionClosed,
    Error,
    PermissionsViolation,
    ServerRefused,
)


@pytest.mark.parametrize(
    ("text", "kind", "survives"),
    [
        ("Authorization Violation", AuthorizationFailed, False),
        ("User Authentication Expired", AuthorizationFailed, False),
        ("Authentication Timeout", AuthorizationFailed, False),
        ('Permissions Violation for Publish to "a"', PermissionsViolation, True),
        ('Permissions Violation for Subscription to "a.>"', PermissionsViolation, True),
        ("Stale Connection", ConnectionClosed, False),
        ("Maximum Payload Violation", ConnectionClosed, False),
        ("Invalid Subject", ServerRefused, True),
        ("maximum subscriptions exceeded", ServerRefused, True),
    ],
)
def test_error_lines_become_exceptions(text: str, kind: type[Error], survives: bool) -> None:
    """The texts that clients match."""
    assert type(error_of_line(text)) is kind
    assert is_survivable(text) is survives


def test_a_permissions_violation_names_its_subject() -> None:
    assert denied_subject('Permissions Violation for Publish to "a.b"') == ("publish", "a.b")
    assert denied_subject('Permissions Violation for Subscription to "a.>"') == (
        "subscription",
        "a.>",
    )
    assert denied_subject("Invalid Subject") is None


def test_a_failed_connect_says_what_every_server_said() -> None:
    pool = ServerPool(parse_servers("a:1,b:2"))
    for address, error in zip(
        pool.candidates(), (ConnectFailed("refused"), AuthorizationFailed("denied")), strict=True
    ):
        pool.refused(address, error)

    failure = connect_failure(pool)

    assert type(failure) is ConnectFailed
    assert str(failure) == "no server accepted the connection (a:1: refused; b:2: denied)"


def test_refused_credentials_are_a_kind_of_their_own() -> None:
    pool = ServerPool(parse_servers("a:1"))
    for address in pool.candidates():
        pool.refused(address, AuthorizationFailed("denied"))

    assert type(connect_failure(pool)) is AuthorizationFailed


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "the host name cannot be resolved"),
        (OSError(113, "Connect call failed"), os.strerror(113)),
        (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
        (ssl.SSLError(1, "wrong version"), "TLS handshake failed"),
    ],
)
def test_what_kept_us_from_a_server_is_said_in_words(error: OSError, text: str) -> None:
    assert text in dial_problem(error)
