"""Advisories of nats-server 2.15.1 and ours, field by field (wire.md, Advisories).

Ids, times, servers and what belongs to one connection are masked; everything else is equal, but
for the answers within audits, which the stream API's own differential test compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.both_servers import jetspark_server, nats_server
from tests.support.raw_requests import RawClient

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
ACTIONS: Final = 3  # a stream is made, changed and removed
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


def told(client: RawClient) -> dict[str, list[Any]]:
    """The advisories of the script by their subjects, in an order of ours.

    nats-server sends them next to its answers, and under load not in their order.
    """
    client.listen("$JS.EVENT.>")
    for verb, body in SCRIPT:
        client.ask(f"$JS.API.{verb}", body)
    events: dict[str, list[Any]] = {}
    while sum(len(each) for each in events.values()) < len(SCRIPT) + ACTIONS:
        subject, payload = client.heard()
        events.setdefault(subject, []).append(masked(json.loads(payload)))
    return {subject: sorted(each, key=repr) for subject, each in events.items()}


@pytest.mark.parametrize("options", ["", '"name":"me","lang":"test","version":"1.2",'])
def test_every_step_is_reported_as_nats_server_does(tmp_path: Path, options: str) -> None:
    with nats_server(tmp_path / "theirs", options) as client:
        theirs = told(client)
    with jetspark_server(tmp_path / "ours", options) as client:
        ours = told(client)

    assert ours.keys() == theirs.keys()
    assert len(theirs["$JS.EVENT.ADVISORY.API"]) == len(SCRIPT)
    for subject, events in theirs.items():
        assert ours[subject] == events, subject


def abandonment(client: RawClient) -> tuple[str, list[Any]]:
    """The advisory of a batch with a gap: its subject and masked fields, without the type."""
    client.listen("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.*")
    client.ask("$JS.API.STREAM.CREATE.B", b'{"name":"B","subjects":["b"],"allow_atomic":true}')
    for number in (b"1", b"3"):
        block = b"NATS/1.0\r\nNats-Batch-Id: q\r\nNats-Batch-Sequence: %b\r\n\r\n" % number
        client.ask("b", b"x", block)
    subject, payload = client.heard()
    event = json.loads(payload)
    del event["type"]  # ours is that of ADR-50 (adr-50.md)
    return subject, masked(event)


def test_an_abandoned_batch_is_reported_with_the_fields_of_nats_server(tmp_path: Path) -> None:
    """Strict readers refuse another one; ours had ``account`` previously."""
    with nats_server(tmp_path / "theirs") as client:
        theirs = abandonment(client)
    with jetspark_server(tmp_path / "ours") as client:
        ours = abandonment(client)

    assert ours == theirs
    assert [key for key, _ in ours[1]] == ["id", "timestamp", "stream", "batch", "reason"]
