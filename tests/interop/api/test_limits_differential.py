"""Limits of accounts and of the server, on nats-server 2.15.1 and ours (wire.md, API requests).

The same configuration and the same requests; answers are compared whole, after times and servers
were masked. What only consumers can show is in their own tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.api.limit_cases import CASES, USER, account
from tests.interop.conftest import Configure
from tests.support.both_servers import jetspark_server, masked, nats_server
from tests.support.served import Served


@pytest.mark.parametrize("name", CASES)
def test_limits_are_those_of_nats_server(name: str, tmp_path: Path, configure: Configure) -> None:
    text, steps = CASES[name]
    config = configure(text)
    options = USER if "accounts" in text else ""
    with nats_server(tmp_path / "theirs", options, config) as client:
        theirs = [masked(client.ask(*step)) for step in steps]
    with jetspark_server(tmp_path / "ours", options, config) as client:
        ours = [masked(client.ask(*step)) for step in steps]

    for step, mine, other in zip(steps, ours, theirs, strict=True):
        assert mine == other, step


def test_a_server_that_promised_more_than_it_has_does_not_start(
    tmp_path: Path, configure: Configure
) -> None:
    served = Served(
        tmp_path, "-js", "-c", str(configure(account("max_file: 2001", "max_file: 2k")))
    )

    assert served.wait() == 1
    said = "jetstream.max_file is 2000, the accounts' limits add up to 2001"
    assert said in served.lines[-1]
