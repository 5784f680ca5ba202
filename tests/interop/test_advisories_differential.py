"""Advisories of nats-server 2.15.1 and ours, field by field (wire-facts.md 13).

Ids, times, servers and what belongs to one connection are masked; everything else is equal, but
for the answers within audits, which the stream API's own differential test compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.campaigns.served import Served
from tests.interop.raw_requests import RawClient
from tests.interop.test_jetstream_api_differential import nats_server

SCRIPT: Final = (
    ("STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}'),
    ("STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}'),
    ("STREAM.CREATE.S", b'{"name":"S","subjects":["other"]}'),
    ("STREAM.CREATE.T", b'{"name":"S","subjects":["other"]}'),
    ("STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>","t"]}'),
    ("STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"storage":"memory"}'),
    ("STREAM.INFO.S", b""),
    ("STREAM.INFO.NONE", b""),
    ("STREAM.NAMES", b""),
    ("STREAM.LIST", b"{}"),
    ("INFO", b""),
    ("STREAM.MSG.GET.S", b'{"seq":9}'),
    ("STREAM.MSG.GET.S", b""),
    ("STREAM.MSG.DELETE.S", b'{"seq":9}'),
    ("STREAM.PURGE.S", b""),
    ("STREAM.PURGE.S", b'{"keep":1,"seq":1}'),
    ("STREAM.LEADER.STEPDOWN.S", b""),
    ("STREAM.DELETE.S", b"x"),
    ("STREAM.DELETE.S", b""),
    ("STREAM.DELETE.S", b""),
)
MASKED: Final = {"id", "timestamp", "server", "start", "rtt", "response"}


def masked(value: Any) -> Any:
    """Which fields there are and in which order; the values that do not depend on the run."""
    if isinstance(value, dict):
        return [
            (key, key if key in MASKED else masked(inner))
            for key, inner in value.items()
            # nats-server knows the round trip of a client that it has pinged already.
            if key != "rtt"
        ]
    return value


def told(client: RawClient) -> list[list[tuple[str, Any]]]:
    """The advisories of each step; two of one step come in any order."""
    client.listen("$JS.EVENT.>")
    steps = []
    for verb, body in SCRIPT:
        client.ask(f"$JS.API.{verb}", body)
        # The audit of a request that fails is all there is; its own audit ends the step.
        client.ask("$JS.API.STREAM.NAMES", b'{"subject":"end.of.step"}')
        events: list[tuple[str, Any]] = []
        while not (events and "end.of.step" in json.dumps(dict(events[-1][1]).get("request", ""))):
            subject, payload = client.heard()
            events.append((subject, masked(json.loads(payload))))
        steps.append(sorted(events[:-1]))
    return steps


@pytest.mark.parametrize("options", ["", '"name":"me","lang":"test","version":"1.2",'])
def test_every_step_is_told_of_as_nats_server_does(tmp_path: Path, options: str) -> None:
    with nats_server(tmp_path / "theirs", options) as client:
        theirs = told(client)
    served = Served(tmp_path / "ours", "-p", "-1", "-js")
    client = RawClient(served.url.removeprefix("nats://"), options)

    ours = told(client)

    client.close()
    served.end()
    assert [len(step) for step in theirs] == [2, 1, 1, 1, 2, *[1] * 13, 2, 1]
    for (verb, body), mine, other in zip(SCRIPT, ours, theirs, strict=True):
        assert mine == other, (verb, body)
