import pickle
from typing import Any, get_type_hints

import msgspec
import pytest

from jetspark.client.connect_arguments import ConnectArguments, client_options
from jetspark.client.options import ClientOptions, check_options
from jetspark.client.tls import TlsFiles


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
        ({"token": "t", "user": "u", "password": "p"}, "a connection uses one of them"),
        ({"user": "u"}, "password is missing"),
        ({"password": "p"}, "user is missing"),
        ({"token": "t", "nkey_seed": "S"}, "token and nkey_seed were both given"),
        ({"reconnect_buffer_bytes": -1}, "reconnect_buffer_bytes=-1"),
        ({"reconnect_wait": 0.0}, "reconnect_wait=0.0"),
        ({"reconnect_wait_max": 0.01}, "expected at least reconnect_wait=0.1"),
        ({"max_reconnects": -2}, "or -1 for no limit"),
        (
            {"retry_on_failed_connect": True, "allow_reconnect": False},
            "retry_on_failed_connect needs allow_reconnect",
        ),
        ({"inbox_prefix": "in box"}, "inbox_prefix='in box'"),
        ({"inbox_prefix": "a.*"}, "without wildcards"),
        ({"inbox_prefix": ""}, "inbox_prefix=''"),
        ({"inbox_prefix": "a."}, "inbox_prefix='a.'"),
    ],
)
def test_an_option_that_cannot_work_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("*", "\\*")):
        check_options(options(**changes))


def test_the_arguments_of_connect_are_the_fields_of_the_options() -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(ClientOptions)}
    del fields["servers"]

    assert get_type_hints(ConnectArguments) == fields


def test_options_pickle_and_hide_their_secrets() -> None:
    """contracts.md 6: what travels to Spark workers pickles."""
    kept = options(user="ann", password="s3cret", tls=TlsFiles(ca_file="ca.pem"))

    assert pickle.loads(pickle.dumps(kept)) == kept
    assert "s3cret" not in repr(kept)


def test_good_options_pass() -> None:
    good = options(user="u", password="p", inbox_prefix="app.inbox")

    assert check_options(good) is good
