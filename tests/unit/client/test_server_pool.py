import pytest

from jetspark.client.server_pool import ServerAddress, ServerPool, parse_server, parse_servers
from jetspark.errors import ConnectFailed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nats://host:4223", ServerAddress(host="host", port=4223)),
        ("nats://host", ServerAddress(host="host", port=4222)),
        ("host:4223", ServerAddress(host="host", port=4223)),
        ("host", ServerAddress(host="host", port=4222)),
        ("127.0.0.1:1", ServerAddress(host="127.0.0.1", port=1)),
        ("tls://host", ServerAddress(host="host", port=4222, tls=True)),
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
        ("ws://host", "scheme 'ws'"),
        ("nats://host:port", "the port must be a number"),
        ("nats://host:0", "the port must be a number"),
        ("nats://host:70000", "the port must be a number"),
        ("nats://", "no host"),
        ("nats://:4222", "no host"),
        ("nats://host/path", "nothing after it"),
    ],
)
def test_a_bad_address_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_server(text)


def test_an_error_message_shows_no_password() -> None:
    with pytest.raises(ValueError, match="nats://\\*\\*\\*@host") as caught:
        parse_server("nats://ann:secret@host:port")

    assert "secret" not in str(caught.value)


def test_lists_may_be_text_with_commas_or_sequences() -> None:
    assert [server.host for server in parse_servers("a:1, b:2")] == ["a", "b"]
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
