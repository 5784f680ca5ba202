from typing import Any

import pytest

from jetspark.client.connection.server_pool import (
    Backoff,
    ServerAddress,
    ServerPool,
    parse_server,
    parse_servers,
)
from jetspark.errors import AuthorizationFailed, ConnectFailed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nats://host:4223", ServerAddress(host="host", port=4223)),
        ("nats://host", ServerAddress(host="host", port=4222)),
        ("host:4223", ServerAddress(host="host", port=4223)),
        ("host", ServerAddress(host="host", port=4222)),
        ("127.0.0.1:1", ServerAddress(host="127.0.0.1", port=1)),
        ("tls://host", ServerAddress(host="host", port=4222, tls=True)),
        ("ws://host", ServerAddress(host="host", port=80, websocket=True)),
        (
            "wss://ann:pw@host/nats?a=b",
            ServerAddress(
                host="host",
                port=443,
                tls=True,
                websocket=True,
                path="/nats?a=b",
                user="ann",
                password="pw",
            ),
        ),
        ("NATS://HOST/", ServerAddress(host="host", port=4222)),
        ("nats://[::1]:4223", ServerAddress(host="::1", port=4223)),
        (
            "nats://ann:s%40cret@host",
            ServerAddress(host="host", port=4222, user="ann", password="s@cret"),
        ),
        ("nats://t0ken@host", ServerAddress(host="host", port=4222, token="t0ken")),
        ("ann:secret@host:1", ServerAddress(host="host", port=1, user="ann", password="secret")),
    ],
)
def test_addresses_of_all_shapes_are_read(text: str, expected: ServerAddress) -> None:
    """Brief of the client: nats://, tls://, host:port, credentials in the URL."""
    assert parse_server(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://host", "scheme 'http' is not supported, use nats:// or tls://"),
        ("ws://", "no host"),
        ("nats://host name", "no host"),
        ("nats://host:port", "the port must be a number"),
        ("nats://host:0", "the port must be a number"),
        ("nats://host:70000", "the port must be a number"),
        ("nats://", "no host"),
        ("nats://:4222", "no host"),
        ("nats://host/path", "nothing after it"),
        ("nats://[::1", r"expected nats://host:4222 or nats://\[::1\]:4222"),
        ("::1", "an IPv6 address must be in brackets"),
    ],
)
def test_a_bad_address_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_server(text)


def test_an_error_message_shows_no_password() -> None:
    with pytest.raises(ValueError, match="nats://\\*\\*\\*@host") as caught:
        parse_server("nats://ann:secret@host:port")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "servers", ["nats://ann:sec,ret@host", ["nats://ann:sec,ret@host:1"], "ann:sec,ret@host"]
)
def test_a_comma_in_a_password_is_named_and_no_part_of_it_shown(servers: str | list[str]) -> None:
    with pytest.raises(ValueError, match="as %2C") as caught:
        parse_servers(servers)

    assert "sec" not in str(caught.value)


@pytest.mark.parametrize("servers", [5, None, b"nats://host", [5], [b"nats://host"]])
def test_what_is_no_url_is_refused(servers: Any) -> None:
    with pytest.raises(TypeError, match="URL"):
        parse_servers(servers)


def test_lists_may_be_text_with_commas_or_sequences() -> None:
    assert [server.host for server in parse_servers("a:1, b:2")] == ["a", "b"]
    assert [server.host for server in parse_servers("u:p@a:1,tls://t@b,[::1]:1")] == [
        "a",
        "b",
        "::1",
    ]
    assert [server.host for server in parse_servers(["a:1", "b:2,c:3"])] == ["a", "b", "c"]


@pytest.mark.parametrize("servers", ["", " , ", []])
def test_no_server_at_all_is_refused(servers: str | list[str]) -> None:
    with pytest.raises(ValueError, match="no server given"):
        parse_servers(servers)


def test_a_label_has_no_credentials_and_brackets_around_ipv6() -> None:
    assert parse_server("nats://ann:secret@[::1]:4223").label == "[::1]:4223"


def test_the_pool_tells_why_each_server_was_refused() -> None:
    pool = ServerPool(parse_servers("a:1,b:2"))
    for address in pool.candidates():
        pool.refused(address, ConnectFailed(f"{address.host} is away"))

    assert pool.describe_refusals() == "a:1: a is away; b:2: b is away"
    assert str(pool.last_error) == "b is away"


def test_a_new_round_forgets_the_old_refusals() -> None:
    pool = ServerPool(parse_servers("a:1"))
    for address in pool.candidates():
        pool.refused(address, ConnectFailed("away"))

    assert [address.host for address in pool.candidates()] == ["a"]
    assert pool.describe_refusals() == ""


def test_a_lost_server_is_tried_last() -> None:
    pool = ServerPool(parse_servers("a:1,b:2,c:3"))
    pool.lost(pool.addresses[0])

    assert [address.host for address in pool.candidates()] == ["b", "c", "a"]


def test_servers_are_given_up_after_too_many_failures_in_a_row() -> None:
    pool = ServerPool(parse_servers("a:1,b:2"), max_reconnects=2)
    first, second = pool.addresses
    for _ in range(3):
        pool.refused(first, ConnectFailed("away"))
        pool.refused(second, ConnectFailed("away"))
        pool.connected(second)

    assert pool.drop_hopeless()
    assert pool.addresses == [second]


def test_credentials_refused_twice_in_a_row_are_enough() -> None:
    pool = ServerPool(parse_servers("a:1"))
    only = pool.addresses[0]
    for error in (AuthorizationFailed("no"), ConnectFailed("away"), AuthorizationFailed("no")):
        pool.refused(only, error)
    assert pool.drop_hopeless()

    pool.refused(only, AuthorizationFailed("no"))
    assert not pool.drop_hopeless()


def test_without_a_limit_no_server_is_given_up() -> None:
    pool = ServerPool(parse_servers("a:1"), max_reconnects=-1)
    for _ in range(1000):
        pool.refused(pool.addresses[0], ConnectFailed("away"))

    assert pool.drop_hopeless()


def test_discovered_servers_join_with_the_credentials_of_the_announcing_one() -> None:
    pool = ServerPool(parse_servers("tls://ann:pw@a.example:1"))
    current = pool.addresses[0]
    new = pool.discover(["10.0.0.2:4222", "b.example:4222", "not a url"], current, list.reverse)

    assert new == ("b.example:4222", "10.0.0.2:4222")
    by_host = {address.host: address for address in pool.addresses}
    assert by_host["10.0.0.2"].tls_name == "a.example"
    assert by_host["b.example"].tls_name == ""
    assert {(a.user, a.password, a.tls) for a in pool.addresses} == {("ann", "pw", True)}


def test_discovered_servers_that_left_the_cluster_are_removed() -> None:
    pool = ServerPool(parse_servers("a:1"))
    current = pool.addresses[0]
    pool.discover(["b:2", "c:3", "a:1"], current, lambda _: None)

    assert pool.discover(["c:3"], current, lambda _: None) == ()
    assert [address.label for address in pool.addresses] == ["a:1", "c:3"]


def test_the_wait_doubles_up_to_its_limit_with_jitter_on_top() -> None:
    backoff = Backoff(0.5, 3.0, 0.25, lambda low, high: high - low)

    assert [backoff.next() for _ in range(5)] == [0.75, 1.25, 2.25, 3.25, 3.25]
