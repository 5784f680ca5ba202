from typing import Any

import pytest

from jetspark.client.options import ClientOptions, check_options, read_servers


def options(**changes: Any) -> ClientOptions:
    return ClientOptions(servers=read_servers("host"), **changes)


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
        ({"inbox_prefix": "in box"}, "inbox_prefix='in box'"),
        ({"inbox_prefix": "a.*"}, "without wildcards"),
        ({"inbox_prefix": ""}, "inbox_prefix=''"),
        ({"inbox_prefix": "a."}, "inbox_prefix='a.'"),
    ],
)
def test_an_option_that_cannot_work_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("*", "\\*")):
        check_options(options(**changes))


def test_good_options_pass() -> None:
    good = options(user="u", password="p", inbox_prefix="app.inbox")

    assert check_options(good) is good
