"""A ``*`` or ``>`` that is not a whole token, such as ``S.k*``: a letter like every other.

Next to nats-server 2.15.1, which says the same in all but four places: the answer to
``multi_last``, ``subjects_filter`` of a file stream, ``num_pending`` of a consumer with one filter
over a memory stream, whose messages it delivers as here, and whether two filters overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.both_servers import jetspark_server, nats_server
from tests.support.raw_requests import RawClient

from jetspark.errors.codes import ErrCode

SUBJECTS = ("S.k1", "S.k2", "S.x", "S.k*", "S.k.1")


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[RawClient]:
    with nats_server(tmp_path / "theirs") as client:
        yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RawClient]:
    with jetspark_server(tmp_path / "ours") as client:
        yield client


def api(client: RawClient, verb: str, **body: Any) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body else b""
    answer: dict[str, Any] = json.loads(client.ask(f"$JS.API.{verb}", payload)[0].payload)
    return answer


def fill(client: RawClient, storage: str) -> None:
    api(
        client, "STREAM.CREATE.S",
        name="S", subjects=["S.>"], storage=storage, allow_direct=True,
    )  # fmt: skip
    for subject in SUBJECTS:
        assert b'"seq"' in client.ask(subject)[0].payload


def found(client: RawClient, pattern: str) -> dict[str, Any]:
    """What a pattern means, everywhere that one can be said."""
    said: dict[str, Any] = {}
    for name in ("last_by_subj", "next_by_subj"):
        answer = api(client, "STREAM.MSG.GET.S", **{name: pattern})
        said[name] = answer.get("message", {}).get("subject")
    one = {"name": "one", "ack_policy": "none", "filter_subject": pattern}
    api(client, "CONSUMER.CREATE.S.one", stream_name="S", config=one)
    body = b'{"batch":10,"no_wait":true}'
    client.subscribe("got", 7)
    client.publish("$JS.API.CONSUMER.MSG.NEXT.S.one", body, "got")
    delivered: list[str] = []
    while not (message := client.heard_whole())[2].startswith("NATS/1.0 4"):
        delivered.append(message[0])
    client.unsubscribe(7)
    said["delivered"] = delivered
    said["streams"] = api(client, "STREAM.NAMES", subject=pattern).get("streams")
    other = api(client, "STREAM.CREATE.T", name="T", subjects=["T." + pattern], storage="memory")
    said["stream of it"] = "error" not in other
    for subject in (f"T.{pattern}", "T." + pattern.replace("*", "1")):
        said[f"stored {subject}"] = b'"seq"' in client.ask(subject)[0].payload
    client.subscribe(pattern, 8)
    for subject in (pattern, "S.k3", "S.k.3"):
        client.tell(subject, b"core")
    client.ask("$JS.API.INFO")
    said["subscribed"] = [heard[0] for heard in client.all_heard() if heard[3] == b"core"]
    client.unsubscribe(8)
    said["purged"] = api(client, "STREAM.PURGE.S", filter=pattern)["purged"]
    return said


def counted(client: RawClient, pattern: str) -> int:
    config = {"name": "count", "ack_policy": "none", "filter_subject": pattern}
    made = api(client, "CONSUMER.CREATE.S.count", stream_name="S", config=config)
    return int(made["num_pending"])


def multi_last(client: RawClient, pattern: str) -> list[str]:
    body = json.dumps({"multi_last": [pattern]}).encode()
    replies = client.ask("$JS.API.DIRECT.GET.S", body, many=True)
    heads = [reply.headers.decode() for reply in replies if not reply.is_status]
    return [head.split("Nats-Subject: ")[1].split("\r\n")[0] for head in heads]


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("pattern", ["S.k*", "S.*k", "S.k>", "S.**", "S.>k"])
def test_it_is_a_letter_at_both_servers(
    ours: RawClient, theirs: RawClient, storage: str, pattern: str
) -> None:
    for client in (ours, theirs):
        fill(client, storage)

    mine = found(ours, pattern)

    assert mine == found(theirs, pattern)
    assert mine["delivered"] == (["S.k*"] if pattern == "S.k*" else [])


def test_it_is_a_letter_where_nats_server_takes_it_for_a_wildcard(
    ours: RawClient, theirs: RawClient
) -> None:
    for client in (ours, theirs):
        fill(client, "memory")

    assert multi_last(ours, "S.k*") == ["S.k*"]
    assert multi_last(ours, "S.k>") == []
    assert (counted(ours, "S.k*"), counted(ours, "S.k>")) == (1, 0)
    assert two_filters(ours, "S.*k") == 1
    assert multi_last(theirs, "S.k*") == ["S.k1", "S.k2", "S.k*"]
    assert multi_last(theirs, "S.k>") == ["S.k1", "S.k2", "S.k*", "S.k.1"]
    assert counted(theirs, "S.k*") == 3
    assert two_filters(theirs, "S.*k") == ErrCode.CONSUMER_FILTERS_OVERLAP


def test_it_is_a_letter_in_what_a_file_stream_says_of_its_subjects(
    ours: RawClient, theirs: RawClient
) -> None:
    for client in (ours, theirs):
        fill(client, "file")

    assert subjects(ours, "S.k*") == {"S.k*"}
    assert subjects(ours, "S.k>") == set()
    assert subjects(theirs, "S.k*") == {"S.k1", "S.k2", "S.k*"}
    assert subjects(theirs, "S.k>") == {"S.k1", "S.k2", "S.k*", "S.k.1"}


def two_filters(client: RawClient, pattern: str) -> int:
    config = {"name": "two", "ack_policy": "none", "filter_subjects": [pattern, "S.x"]}
    made = api(client, "CONSUMER.CREATE.S.two", stream_name="S", config=config)
    return int(made["error"]["err_code"] if "error" in made else made["num_pending"])


def subjects(client: RawClient, pattern: str) -> set[str]:
    info = api(client, "STREAM.INFO.S", subjects_filter=pattern)
    return set(info["state"].get("subjects") or ())
