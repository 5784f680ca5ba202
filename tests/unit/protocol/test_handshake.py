"""INFO and CONNECT as models."""

import json

import pytest

from jetspark.protocol.handshake import (
    ConnectOptions,
    JetsparkInfo,
    ServerInfo,
    connect_json,
    decode_connect,
    decode_info,
    info_json,
    info_problem,
)

# The INFO of nats-server 2.15.1 with JetStream, as observed; the identifiers are made up.
OBSERVED = {
    "server_id": "NDSERVERID",
    "server_name": "NDSERVERID",
    "version": "2.15.1",
    "proto": 1,
    "git_commit": "0123456",
    "go": "go1.25.1",
    "host": "127.0.0.1",
    "port": 4222,
    "headers": True,
    "max_payload": 1048576,
    "jetstream": True,
    "client_id": 5,
    "client_ip": "127.0.0.1",
    "xkey": "XKEY",
    "api_lvl": 5,
}


def test_an_info_of_the_released_server_keeps_its_fields_and_their_order() -> None:
    """What is read is written back the same, but xkey comes last."""
    info = decode_info(json.dumps(OBSERVED).encode())
    written = json.loads(info_json(info))

    assert written == OBSERVED
    assert list(written)[:12] == list(OBSERVED)[:12]


def test_info_always_has_the_fields_clients_read() -> None:
    """nats-server omits only the fields that say nothing."""
    assert json.loads(info_json(ServerInfo())) == {
        "server_id": "",
        "server_name": "",
        "version": "",
        "proto": 0,
        "git_commit": "",
        "go": "",
        "host": "",
        "port": 0,
        "headers": False,
        "max_payload": 0,
    }


def test_info_says_what_jetspark_adds() -> None:
    """decisions.md, Server."""
    ours = JetsparkInfo(version="1.0", min_last_seq=True, fast_header_dialect=True)
    written = json.loads(info_json(ServerInfo(jetspark=ours)))

    assert written["jetspark"] == {
        "version": "1.0",
        "min_last_seq": True,
        "fast_header_dialect": True,
    }
    assert decode_info(info_json(ServerInfo(jetspark=ours))).jetspark == ours
    assert decode_info(b"{}").jetspark is None


def test_every_field_of_info_survives() -> None:
    """wire.md, Command line and configuration: what clients look at."""
    info = ServerInfo(
        server_id="id",
        nonce="n",
        connect_urls=("a:1", "b:2"),
        ws_connect_urls=("c:3",),
        ldm=True,
        api_lvl=5,
        connect_info=True,
        remote_account="A",
        client_ip="::1",
        client_id=(1 << 64) - 1,
        cluster="C",
        domain="D",
        xkey="X",
        auth_required=True,
        tls_required=True,
        tls_verify=True,
        tls_available=True,
    )

    assert decode_info(info_json(info)) == info


def test_info_is_read_as_other_servers_may_write_it() -> None:
    """What the client reads is tolerant."""
    info = decode_info(b'{"Server_ID":"x","cluster":null,"connect_urls":null,"new":[{"a":1}]}')

    assert (info.server_id, info.cluster, info.connect_urls) == ("x", "", ())


def test_connect_starts_from_what_the_server_assumes() -> None:
    """A client that has said nothing is verbose; also pedantic, and with echo."""
    options = decode_connect(b"{}")

    assert options == ConnectOptions()
    assert (options.verbose, options.pedantic, options.echo) == (True, True, True)
    assert (options.headers, options.no_responders, options.protocol) == (False, False, 0)


def test_every_field_of_connect_survives() -> None:
    """The fields of CONNECT under the names of the wire."""
    fields: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": True,
        "auth_token": "t",
        "user": "u",
        "pass": "p",
        "nkey": "n",
        "jwt": "j",
        "sig": "s",
        "name": "app",
        "lang": "python",
        "version": "1",
        "protocol": 1,
        "echo": False,
        "headers": True,
        "no_responders": True,
    }
    options = decode_connect(json.dumps(fields).encode())

    assert options.password == "p"
    assert json.loads(connect_json(options)) == fields


def test_connect_always_says_what_servers_assume_otherwise() -> None:
    """A client must be able to switch verbose off and echo on whatever the server's default is."""
    assert json.loads(connect_json(ConnectOptions())) == {
        "verbose": True,
        "pedantic": True,
        "tls_required": False,
        "name": "",
        "lang": "",
        "version": "",
        "protocol": 0,
        "echo": True,
        "headers": False,
        "no_responders": False,
    }


def test_a_second_connect_changes_only_what_it_names() -> None:
    """wire.md, Core protocol: a second CONNECT is allowed and changes options."""
    first = decode_connect(b'{"verbose":false,"pass":"p","name":"a"}')
    second = decode_connect(b'{"headers":true,"name":null}', first)

    assert (second.verbose, second.password, second.name, second.headers) == (
        False,
        "p",
        "a",
        True,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "must be followed by one JSON object"),
        (b"{", "must be followed by one JSON object"),
        (b"{} x", "trailing characters"),
        (b"[]", "not by a list"),
        (b'"x"', "not by a str"),
        (b"[" * 5000, "must be followed by one JSON object"),
        (b'{"a":' * 3000, "must be followed by one JSON object"),
        (b'{"verbose":"x"}', r"Expected `bool`, got `str` - at `\$.verbose`"),
        (b'{"pass":5}', r"Expected `str`, got `int` - at `\$.pass`"),
        (b'{"protocol":1.0}', r"Expected `int`, got `float` - at `\$.protocol`"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_body_that_cannot_be_read_gets_a_reason(body: bytes, reason: str) -> None:
    """Bad input gets a clear error; secrets are not in it."""
    with pytest.raises(ValueError, match="CONNECT.*" + reason):
        decode_connect(body)


def test_problems_of_info_are_reported() -> None:
    """The parser closes for an INFO of a client that it cannot read."""
    assert info_problem(b"{}") == ""
    assert info_problem(b"null") == ""
    assert "INFO" in info_problem(b"x")
    assert "port" in info_problem(b'{"port":"a"}')


def test_secrets_stay_out_of_logs() -> None:
    """The text of the options names the client, not what authenticates it."""
    text = repr(
        ConnectOptions(name="app", password="p4ss", auth_token="t0ken", jwt="jw7", sig="s1g")
    )

    assert "app" in text
    assert not any(secret in text for secret in ("p4ss", "t0ken", "jw7", "s1g"))
