import pickle
from typing import Any, get_type_hints

import msgspec
import pytest

from jetspark import ConnectArguments, Timeout, client_options
from jetspark.client.connection.tls import TlsFiles
from jetspark.client.options import ClientOptions, check_options


def options(**changes: Any) -> ClientOptions:
    return client_options("host", **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"connect_timeout": 0}, "connect_timeout=0: expected a number of seconds above 0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"ping_interval": 0}, "ping_interval=0"),
        ({"pings_outstanding_max": 0}, "pings_outstanding_max=0: expected at least 1"),
        ({"write_buffer_bytes": 0}, "write_buffer_bytes=0"),
        ({"token": "t", "user": "u", "password": "p"}, "use only one of them"),
        ({"user": "u"}, "password is missing"),
        ({"password": "p"}, "user is missing"),
        ({"token": "t", "nkey_seed": "S"}, "token and nkey_seed were both given"),
        ({"reconnect_buffer_bytes": -1}, "reconnect_buffer_bytes=-1"),
        ({"reconnect_wait": 0.0}, "reconnect_wait=0.0"),
        ({"reconnect_wait_max": 0.01}, "expected at least reconnect_wait=0.1"),
        ({"max_reconnects": -2}, "or -1 for no limit"),
        (
            {"retry_on_failed_connect": True, "allow_reconnect": False},
            "retry_on_failed_connect requires allow_reconnect",
        ),
        ({"inbox_prefix": "in box"}, "inbox_prefix='in box'"),
        ({"inbox_prefix": "a.*"}, "without wildcards"),
        ({"inbox_prefix": ""}, "inbox_prefix=''"),
        ({"inbox_prefix": "a."}, "inbox_prefix='a.'"),
        ({"inbox_prefix": "\ud800 "}, "without wildcards"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"tls": False, "tls_first": True}, "tls=False disables it"),
    ],
)
def test_an_option_that_cannot_work_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("*", "\\*")):
        check_options(options(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"timeout": None}, "timeout must be a number of seconds, not NoneType"),
        ({"ping_interval": "5"}, "ping_interval must be a number of seconds, not str"),
        ({"max_reconnects": 1.5}, "max_reconnects must be an int, not float"),
        ({"max_reconnects": True}, "max_reconnects must be an int, not bool"),
        ({"echo": "no"}, "echo must be True or False, not str"),
        ({"user": b"ann"}, "user must be str, not bytes"),
        ({"error_callback": 5}, "error_callback must be a function, not int"),
        ({"tls": "ca.pem"}, r"not str; for files use TlsFiles\(ca_file=...\)"),
    ],
)
def test_an_option_of_the_wrong_type_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        check_options(options(**changes))


def test_the_value_of_a_wrong_option_is_not_shown() -> None:
    """It may be a secret."""
    with pytest.raises(TypeError) as caught:
        check_options(options(token=b"s3cret"))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"tls": True}, {"tls": TlsFiles()}, {"tls_first": True}])
def test_tls_is_not_forgotten_on_a_websocket_without_it(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ws://host:80 is not encrypted.*use wss://"):
        check_options(client_options(["nats://host", "ws://host"], **changes))
    check_options(client_options("wss://host", **changes))


def test_the_arguments_of_connect_are_the_fields_of_the_options() -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(ClientOptions)}
    del fields["servers"]
    # Kept are seconds; given are seconds or timedeltas.
    given = {name: Timeout if kind is float else kind for name, kind in fields.items()}

    assert get_type_hints(ConnectArguments) == given


def test_options_pickle_and_hide_their_secrets() -> None:
    """What travels to Spark workers pickles."""
    kept = client_options(
        "ann:s3cret@host", user="ann", password="s3cret", tls=TlsFiles(key_password="s3cret")
    )

    assert pickle.loads(pickle.dumps(kept)) == kept
    assert "s3cret" not in f"{kept!r} {kept.servers!r} {kept.tls!r}"


def test_good_options_pass() -> None:
    good = options(user="u", password="p", inbox_prefix="app.inbox")

    assert check_options(good) is good


def test_an_option_that_does_not_exist_is_named_with_one_that_does() -> None:
    with pytest.raises(TypeError, match="has no 'error_cb'; did you mean 'error_callback'"):
        options(error_cb=print)
    with pytest.raises(TypeError, match=r"connect has no 'xyz'$"):
        options(xyz=1)
