"""The largest metadata of streams and consumers, to the byte, next to nats-server 2.15.1.

It counts what it stores, with the level that it adds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.both_servers import jetspark_server, nats_server
from tests.support.raw_requests import RawClient

MOST = 128 * 1024
ADDED = len("_nats.req.level") + 1

STREAM = {"name": "S", "subjects": ["s"]}
CONSUMER = {"durable_name": "C", "ack_policy": "explicit"}


def api(client: RawClient, verb: str, body: object) -> str:
    payload = json.dumps(body).encode()
    answer: dict[str, Any] = json.loads(client.ask(f"$JS.API.{verb}", payload)[0].payload)
    error = answer.get("error", {})
    return f"{error.get('err_code', 'fine')} {error.get('description', '')}"


def answers(client: RawClient, metadata: dict[str, str]) -> list[str]:
    """What is said to a stream and a consumer that are made and changed with such metadata."""
    client.ask("$JS.API.STREAM.DELETE.S")
    made = {"stream_name": "S", "config": CONSUMER}
    large = {"stream_name": "S", "config": {**CONSUMER, "metadata": metadata}}
    asked: list[tuple[str, object]] = [
        ("STREAM.CREATE.S", {**STREAM, "metadata": metadata}),
        ("STREAM.CREATE.S", {**STREAM, "allow_msg_ttl": True, "metadata": metadata}),
        ("STREAM.DELETE.S", {}),
        ("STREAM.CREATE.S", STREAM),
        ("STREAM.UPDATE.S", {**STREAM, "metadata": metadata}),
        ("CONSUMER.CREATE.S.C", large),
        ("CONSUMER.DELETE.S.C", {}),
        ("CONSUMER.CREATE.S.C", made),
        ("CONSUMER.CREATE.S.C", {**large, "action": "update"}),
    ]
    return [api(client, verb, body) for verb, body in asked]


@pytest.mark.parametrize(
    "metadata",
    [
        *({"k": "v" * (MOST - ADDED - 1 + more)} for more in (-1, 0, 1, ADDED, ADDED + 1)),
        {"k" * 100: "é" * ((MOST - ADDED - 100) // 2)},
        {"k" * 100: "é" * ((MOST - ADDED - 100) // 2), "x": ""},
    ],
    ids=["less", "most", "more", "all", "beyond", "letters", "key"],
)
def test_the_largest_metadata_is_that_of_nats_server(
    tmp_path: Path, metadata: dict[str, str]
) -> None:
    with nats_server(tmp_path / "theirs") as theirs, jetspark_server(tmp_path / "ours") as ours:
        assert answers(ours, metadata) == answers(theirs, metadata)
