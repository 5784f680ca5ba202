"""Details of streams and consumers that tools show, on nats-server 2.15.1 and ours."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.both_servers import jetspark_server, nats_server
from tests.support.raw_requests import RawClient

TRIES: Final = 5
ZERO: Final = "0001-01-01T00:00:00Z"


def api(client: RawClient, verb: str, **body: Any) -> dict[str, Any]:
    text = json.dumps(body).encode() if body else b""
    (reply,) = client.ask(f"$JS.API.{verb}", text)
    answer: dict[str, Any] = json.loads(reply.payload)
    return answer


def make(client: RawClient, messages: int, **config: Any) -> None:
    answer = api(client, "STREAM.CREATE.S", name="S", subjects=["s.>"], **config)
    assert "error" not in answer
    publish(client, messages)


def publish(client: RawClient, messages: int) -> None:
    for number in range(messages):
        client.ask(f"s.{number}", b"x")


def consumer(client: RawClient, **config: Any) -> None:
    whole = {"durable_name": "c", "ack_policy": "explicit", **config}
    assert "error" not in api(client, "CONSUMER.CREATE.S.c", stream_name="S", config=whole)


def pulled(client: RawClient, body: bytes, answers: int) -> list[tuple[str, bytes]]:
    """Headers and bodies of the answers to a pull request."""
    client.listen("pulled")
    client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", body, reply="pulled")
    found = [client.heard_whole() for _ in range(answers)]
    return [(headers, payload) for _, _, headers, payload in found]


def times(client: RawClient) -> list[Any]:
    """The state, and whether the last time is none."""
    state = api(client, "STREAM.INFO.S")["state"]
    return [state["first_seq"], state["last_seq"], state["messages"], state["last_ts"] == ZERO]


def interest_without_consumers(client: RawClient, storage: str) -> list[Any]:
    make(client, 0, retention="interest", storage=storage)
    seen = [times(client)]
    publish(client, 3)
    seen.append(times(client))
    consumer(client)
    publish(client, 2)
    seen.append(times(client))
    api(client, "CONSUMER.DELETE.S.c")
    publish(client, 1)
    return [*seen, times(client)]


def deletes_of_what_is_not_there(client: RawClient, storage: str) -> list[Any]:
    make(client, 3, storage=storage)
    api(client, "STREAM.MSG.DELETE.S", seq=2)
    return [api(client, "STREAM.MSG.DELETE.S", seq=seq) for seq in (0, 2, 4, 2**40)]


def floors_after_removals(client: RawClient, storage: str) -> list[Any]:
    make(client, 4, storage=storage)
    consumer(client)
    assert len(pulled(client, b'{"batch":2,"no_wait":true}', 2)) == 2
    seen = []
    for verb, body in (
        ("STREAM.MSG.DELETE.S", {"seq": 1}),
        ("STREAM.PURGE.S", {}),
    ):
        api(client, verb, **body)
        info = api(client, "CONSUMER.INFO.S.c")
        seen.append({**info["ack_floor"], "last_active": "last_active" in info["ack_floor"]})
    return seen


def floors_without_acknowledgements(client: RawClient, storage: str) -> list[Any]:
    make(client, 4, storage=storage)
    consumer(client, ack_policy="none")
    assert len(pulled(client, b'{"batch":2,"no_wait":true}', 2)) == 2
    seen = []
    for verb, body in (
        ("STREAM.MSG.DELETE.S", {"seq": 1}),
        ("STREAM.PURGE.S", {"filter": "s.1"}),
        ("STREAM.PURGE.S", {}),
    ):
        api(client, verb, **body)
        seen.append(api(client, "CONSUMER.INFO.S.c")["ack_floor"])
    return seen


def pulls_that_are_over(client: RawClient, storage: str) -> list[Any]:
    make(client, 2, storage=storage)
    consumer(client)
    return [
        pulled(client, body, 1)
        for body in (b'{"expires":-5}', b'{"expires":-5,"batch":7,"max_bytes":100}')
    ]


SCRIPTS: Final[dict[str, Callable[[RawClient, str], list[Any]]]] = {
    "interest": interest_without_consumers,
    "deletes": deletes_of_what_is_not_there,
    "floors": floors_after_removals,
    "floors without acks": floors_without_acknowledgements,
    "pulls": pulls_that_are_over,
}


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_details_are_those_of_nats_server(script: str, storage: str, tmp_path: Path) -> None:
    with jetspark_server(tmp_path / "ours") as client:
        ours = SCRIPTS[script](client, storage)
    theirs = []
    # It moves floors in a goroutine of its own, at times after it has answered.
    for number in range(TRIES):
        with nats_server(tmp_path / f"theirs-{number}") as client:
            theirs.append(SCRIPTS[script](client, storage))
        if ours in theirs:
            break

    assert ours in theirs


def test_the_time_of_a_message_without_interest_survives_a_restart(tmp_path: Path) -> None:
    with jetspark_server(tmp_path, killed=True) as client:
        make(client, 3, retention="interest")
        before = api(client, "STREAM.INFO.S")["state"]
    with jetspark_server(tmp_path, killed=True) as client:
        after = api(client, "STREAM.INFO.S")["state"]

    assert after == before
    assert before["last_ts"] != ZERO


def ends(client: RawClient, storage: str) -> list[tuple[int, bytes]]:
    """How many answers reads have that go to the end or beyond, and the headers of the last."""
    make(client, 6, storage=storage, allow_direct=True)
    bodies = (
        {"multi_last": ["s.>"], "up_to_seq": 6},
        {"multi_last": ["s.>"], "up_to_seq": 7},
        {"seq": 3, "batch": 10, "no_hdr": True},
    )
    answers = [
        client.ask("$JS.API.DIRECT.GET.S", json.dumps(body).encode(), many=True) for body in bodies
    ]
    return [(len(each), each[-1].headers) for each in answers]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_reads_beyond_the_end_and_without_headers_differ_on_purpose(
    storage: str, tmp_path: Path
) -> None:
    with nats_server(tmp_path / "theirs") as client:
        theirs = ends(client, storage)
    with jetspark_server(tmp_path / "ours") as client:
        ours = ends(client, storage)

    head = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: "
    whole = (7, head + b"0\r\nNats-Last-Sequence: 6\r\nNats-UpTo-Sequence: 6\r\n\r\n")
    assert ours == [whole, whole, (5, head + b"0\r\nNats-Last-Sequence: 6\r\n\r\n")]
    # Messages without headers are not counted down, and beyond the end a file stream has nothing.
    beyond = (1, b"NATS/1.0 404 No Results\r\n\r\n")
    if storage == "memory":
        beyond = (7, whole[1].replace(b"UpTo-Sequence: 6", b"UpTo-Sequence: 7"))
    assert theirs == [whole, beyond, (5, head + b"4\r\nNats-Last-Sequence: 6\r\n\r\n")]


def without_effect(client: RawClient) -> list[Any]:
    """What both servers accept and do nothing with."""
    make(client, 3, placement={"cluster": "none", "tags": ["a"]})
    seen: list[Any] = [api(client, "STREAM.INFO.S")["config"]["placement"]]
    bodies = ({"seq": 1, "no_erase": True}, {"seq": 2, "no_erase": False})
    seen += [api(client, "STREAM.MSG.DELETE.S", **body) for body in bodies]
    client.listen("snap")
    seen.append("error" in api(client, "STREAM.SNAPSHOT.S", deliver_subject="snap", jsck=True))
    trace = b"NATS/1.0\r\nNats-Trace-Dest: traced\r\n\r\n"
    seen.append(json.loads(client.ask("s.traced", b"x", trace)[0].payload))
    return seen


def test_what_has_no_effect_is_accepted_as_by_nats_server(tmp_path: Path) -> None:
    unused = '"nkey":"UX","jwt":"x","sig":"x",'
    with nats_server(tmp_path / "theirs", unused) as client:
        theirs = without_effect(client)
    with jetspark_server(tmp_path / "ours", unused) as client:
        ours = without_effect(client)

    assert ours == theirs


# Requests, and the code or the placement that ours and nats-server answer.
TOO_NEW: Final = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
REFUSED_OTHERWISE: Final[list[tuple[str, dict[str, Any] | bytes, bytes, Any, Any]]] = [
    ("CONSUMER.CREATE.S.c", b'{"of a newer server":1}', TOO_NEW, 10185, 10025),
    ("CONSUMER.INFO.S.c", b"x", TOO_NEW, 10185, 10038),
    ("STREAM.UPDATE.NONE", {"name": "NONE", "num_replicas": 3}, b"", 10074, 10059),
    (
        "STREAM.CREATE.S",
        {"name": "S", "republish": {"src": "a b", "dest": "x"}},
        b"",
        10052,
        10058,
    ),
    ("STREAM.CREATE.R", {"name": "R", "republish": {"src": "R", "dest": "x y"}}, b"", 10052, None),
    ("STREAM.CREATE.P", {"name": "P", "placement": {}}, b"", None, None),
    ("STREAM.CREATE.Q", {"name": "Q", "placement": {"tags": []}}, b"", None, {}),
]


@pytest.mark.parametrize("server", [jetspark_server, nats_server], ids=["ours", "theirs"])
def test_what_is_refused_otherwise_is_what_was_decided(server: Any, tmp_path: Path) -> None:
    with server(tmp_path) as client:
        make(client, 0)
        for verb, body, headers, *expected in REFUSED_OTHERWISE:
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            (reply,) = client.ask(f"$JS.API.{verb}", text, headers)
            answer = json.loads(reply.payload)
            error = answer.get("error", {}).get("err_code")
            found = error or answer.get("config", {}).get("placement")
            assert found == expected[server is nats_server], (verb, answer)


def with_empty_tokens(client: RawClient) -> list[Any]:
    make(client, 1, allow_direct=True)
    consumer(client)
    subjects = (
        "$JS.API.STREAM.INFO.",
        "$JS.API.STREAM.INFO..S",
        "$JS.API.STREAM.INFO.S.",
        "$JS.API..INFO.S",
        "$JS.API.CONSUMER.CREATE..c",
        "$JS.API.CONSUMER.CREATE.S.d.s..a",
        "$JS.API.CONSUMER.MSG.NEXT.S.",
        "$JS.API.CONSUMER.MSG.NEXT..c",
        "$JS.API.DIRECT.GET.",
        "$JS.API.DIRECT.GET..s.0",
        "$JS.API.DIRECT.GET.S.s..0",
        "$JS.API.DIRECT.GET.S.",
        "$JS.ACK.S..1.1.1.1.0",
        "$JS.ACK.S.c..1.1.1.0",
        "$JS.ACK.S.c.1..1.1.0",
        "$JS.ACK.S.c.1.1..1.0",
        "$JS.ACK.S.c.1.1.1..0",
        "$JS.ACK.S.c.1.1.1.1.",
        "s..a",
    )
    return [
        (subject, client.ask(subject, b"", wait_seconds=2)[0].headers[:12]) for subject in subjects
    ]


def test_requests_whose_subject_has_an_empty_token_have_no_responders(tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as client:
        theirs = with_empty_tokens(client)
    with jetspark_server(tmp_path / "ours") as client:
        ours = with_empty_tokens(client)

    assert ours == theirs
    assert {status for _, status in ours} == {b"NATS/1.0 503"}


def reserved_metadata(client: RawClient) -> list[Any]:
    make(client, 0, metadata={"_nats.x": "1", "mine": "1"})
    config = {"durable_name": "c", "metadata": {"_nats.x": "1", "mine": "1"}}
    changed = {"name": "S", "subjects": ["s.>"], "metadata": {"_nats.y": "1", "mine": "2"}}
    answers = [
        api(client, "STREAM.INFO.S"),
        api(client, "STREAM.UPDATE.S", **changed),
        api(client, "CONSUMER.CREATE.S.c", stream_name="S", config=config),
    ]
    return [
        sorted(set(answer["config"]["metadata"]) - {"_nats.level", "_nats.req.level", "_nats.ver"})
        for answer in answers
    ]


def test_reserved_metadata_of_clients_is_dropped(tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as client:
        theirs = reserved_metadata(client)
    with jetspark_server(tmp_path / "ours") as client:
        ours = reserved_metadata(client)

    assert ours == [["mine"]] * 3
    assert theirs == [["_nats.x", "mine"], ["_nats.y", "mine"], ["_nats.x", "mine"]]


def changed_to_interest(client: RawClient, ack_policy: str) -> list[int]:
    """How many messages are left after the change, and after a consumer had what it wants."""
    make(client, 3)
    consumer(client, filter_subject="s.0", ack_policy=ack_policy)
    change = api(client, "STREAM.UPDATE.S", name="S", subjects=["s.>"], retention="interest")
    assert "error" not in change
    left = [api(client, "STREAM.INFO.S")["state"]["messages"]]
    client.listen("pulled")
    client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":1,"no_wait":true}', reply="pulled")
    _, reply, _, _ = client.heard_whole()
    if ack_policy == "explicit":
        client.ask(reply, b"+ACK")
    return [*left, kept(client)]


def kept(client: RawClient) -> int:
    """How many messages the stream still has; nothing waits for those that go to be gone."""
    messages = 0
    for _ in range(TRIES):
        messages = api(client, "STREAM.INFO.S")["state"]["messages"]
        if not messages:
            break
        time.sleep(0.05)
    return messages


def test_a_stream_that_becomes_one_by_interest_keeps_what_consumers_want(tmp_path: Path) -> None:
    found = {}
    for ack_policy in ("explicit", "none"):
        with jetspark_server(tmp_path / f"ours-{ack_policy}") as client:
            found["ours", ack_policy] = changed_to_interest(client, ack_policy)
        with nats_server(tmp_path / f"theirs-{ack_policy}") as client:
            found["theirs", ack_policy] = changed_to_interest(client, ack_policy)

    assert found == {
        ("ours", "explicit"): [1, 0], ("theirs", "explicit"): [3, 2],
        ("ours", "none"): [1, 0], ("theirs", "none"): [3, 3],
    }  # fmt: skip


def test_a_stream_without_consumers_keeps_its_messages_when_it_becomes_one_by_interest(
    tmp_path: Path,
) -> None:
    left = []
    for server in (jetspark_server, nats_server):
        with server(tmp_path / server.__name__) as client:
            make(client, 3)
            api(client, "STREAM.UPDATE.S", name="S", subjects=["s.>"], retention="interest")
            found = [kept(client)]
            consumer(client)
            for _, payload in pulled(client, b'{"batch":3,"no_wait":true}', 1):
                found.append(len(payload))
            left.append(found)

    assert left == [[3, 1], [0, 0]]
