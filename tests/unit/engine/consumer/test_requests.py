"""``$JS.API.CONSUMER.*`` on a virtual clock: what waits for the disk, paging, silence, explain.

What the answers say is compared with nats-server in tests/interop/consumers/test_differential.py.
"""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from tests.unit.engine.consumer.conftest import SECOND, World

from jetspark.engine.requests.dispatch import handle

EXPLICIT = {"ack_policy": "explicit", "inactive_threshold": 3600 * SECOND}


def send(world: World, verb: str, body: Any = None) -> None:
    payload = b"" if body is None else json.dumps(body).encode()
    handle(world.engine, verb.encode(), payload, b"_A", world.now, world.outbox)


def answers(world: World) -> list[dict[str, Any]]:
    found = [json.loads(e[4]) for e in world.outbox.now if e[0] == b"_A"]
    world.outbox.now = [e for e in world.outbox.now if e[0] != b"_A"]
    return found


def ask(world: World, verb: str, body: Any = None) -> dict[str, Any]:
    """One request; the disk answers."""
    send(world, verb, body)
    world.turn()
    (answer,) = answers(world)
    return answer


def create(world: World, name: str = "c", **config: Any) -> dict[str, Any]:
    body = {"stream_name": "S", "config": EXPLICIT | config}
    return ask(world, f"CONSUMER.CREATE.S.{name}", body)


def explain(world: World, seq: int, name: str = "c") -> tuple[str, dict[str, Any]]:
    answer = ask(world, f"CONSUMER.EXPLAIN.S.{name}", {"seq": seq})
    return answer["outcome"], answer


# What waits for the disk ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("CONSUMER.CREATE.S.new", {"stream_name": "S", "config": EXPLICIT}),
        ("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": EXPLICIT | {"description": "x"}}),
        ("CONSUMER.DELETE.S.c", None),
        ("CONSUMER.PAUSE.S.c", {"pause_until": "2099-01-01T00:00:00Z"}),
        ("CONSUMER.RESET.S.c", {"seq": 1}),
    ],
)
def test_an_answer_that_stands_on_a_decision_waits_for_the_disk(
    world: World, verb: str, body: Any
) -> None:
    world.stream()
    create(world)
    send(world, verb, body)

    assert answers(world) == []
    world.turn()
    assert "error" not in answers(world)[0]


def test_a_consumer_that_could_not_be_written_is_not_there(world: World) -> None:
    world.stream()
    world.refuse = OSError(errno.ENOSPC, "full")
    made = create(world)
    world.refuse = None

    assert made["error"]["err_code"] == 10023
    assert ask(world, "CONSUMER.INFO.S.c")["error"]["err_code"] == 10014
    assert ask(world, "CONSUMER.NAMES.S")["consumers"] == []


def test_info_waits_until_what_it_says_is_durable(world: World) -> None:
    stream = world.stream()
    create(world)
    world.publish(stream, b"s.a", b"s.b")
    world.pull(b"2")
    send(world, "CONSUMER.INFO.S.c")

    assert answers(world) == []
    world.turn()
    assert answers(world)[0]["delivered"]["stream_seq"] == 2
    world.crash()
    after = ask(world, "CONSUMER.INFO.S.c")
    assert (after["delivered"]["stream_seq"], after["num_ack_pending"]) == (2, 2)


# Lists ------------------------------------------------------------------------------------------


def test_names_and_lists_come_in_pages_by_name(world: World) -> None:
    """wire.md, API requests: 1024 names, 256 of everything; an offset past the end is the end."""
    stream = world.stream()
    for n in range(1030):
        world.consumer(stream, f"c{n:04d}")

    first, second = (ask(world, "CONSUMER.NAMES.S", {"offset": at}) for at in (0, 1024))
    assert (first["total"], first["limit"], len(first["consumers"])) == (1030, 1024, 1024)
    assert second["consumers"] == [f"c{n:04d}" for n in range(1024, 1030)]
    page = ask(world, "CONSUMER.LIST.S", {"offset": 1000})
    assert [info["name"] for info in page["consumers"]] == [f"c{n:04d}" for n in range(1000, 1030)]
    assert len(ask(world, "CONSUMER.LIST.S")["consumers"]) == 256
    assert ask(world, "CONSUMER.LIST.S", {"offset": 5000})["offset"] == 1030


def test_direct_consumers_are_not_listed(world: World) -> None:
    world.stream()
    create(world, "d", ack_policy="none", deliver_subject="x", direct=True)
    create(world, "c")

    assert ask(world, "CONSUMER.NAMES.S")["consumers"] == ["c"]
    assert ask(world, "CONSUMER.INFO.S.d")["name"] == "d"


# Names and silence ------------------------------------------------------------------------------


def test_a_consumer_without_a_name_gets_eight_characters(world: World) -> None:
    world.stream()
    made = [ask(world, "CONSUMER.CREATE.S", {"stream_name": "S"}) for _ in range(3)]

    assert {len(one["name"]) for one in made} == {8}
    assert len({one["name"] for one in made}) == 3
    assert "name" not in made[0]["config"]
    world.crash()
    assert ask(world, f"CONSUMER.INFO.S.{made[0]['name']}")["name"] == made[0]["name"]


@pytest.mark.parametrize(
    "verb",
    [
        "CONSUMER.CREATE",
        "CONSUMER.INFO.S",
        "CONSUMER.INFO.S.c.more",
        "CONSUMER.DURABLE.CREATE.S",
        "CONSUMER.NONSENSE.S.c",
        "CONSUMER.NAMES",
        "CONSUMER.RESET.S.nobody",
    ],
)
def test_an_unknown_request_gets_no_answer(world: World, verb: str) -> None:
    world.stream()
    send(world, verb)
    world.turn()

    assert answers(world) == []


# Explain ----------------------------------------------------------------------------------------


def test_a_message_is_explained_through_its_whole_life(world: World) -> None:
    stream = world.stream()
    create(world, ack_wait=10 * SECOND, max_deliver=2, filter_subject="s.a")
    world.publish(stream, b"s.a", b"s.b")

    assert explain(world, 1)[0] == "no_pull_waiting"
    assert explain(world, 2)[0] == "filtered"
    assert explain(world, 3)[0] == "not_stored"
    world.pull(b"1")
    outcome, answer = explain(world, 1)
    assert (outcome, answer["deliveries"]) == ("ack_pending", 1)
    world.pass_time(11 * SECOND)
    assert explain(world, 1)[0] == "no_pull_waiting"
    world.pull(b"1")
    assert explain(world, 1)[1]["deliveries"] == 2
    world.pass_time(11 * SECOND)
    world.pull(b'{"batch":1,"no_wait":true}')
    assert explain(world, 1)[0] == "max_deliver_reached"


def test_the_end_of_the_wait_for_an_acknowledgement_is_reported(world: World) -> None:
    stream = world.stream()
    create(world, ack_wait=10 * SECOND)
    world.publish(stream, b"s.a")
    world.pull(b"1")
    due = world.now + 10 * SECOND
    _, answer = explain(world, 1)
    (_, reply, _, _) = world.got()[0]
    world.pass_time(SECOND)
    world.ack(reply, b"+WPI")

    assert answer["until"] < explain(world, 1)[1]["until"]
    world.pass_time(due - world.now)
    assert explain(world, 1)[0] == "ack_pending"
    world.ack(reply)
    assert explain(world, 1)[0] == "acknowledged"


def test_a_pause_a_gate_and_a_limit_are_reported(world: World) -> None:
    stream = world.stream()
    create(world, "gated", min_last_seq=3)
    create(world, "held", pause_until="2099-01-01T00:00:00Z")
    create(world, "few", max_ack_pending=1)
    world.publish(stream, b"s.a", b"s.b")
    world.pull(b'{"batch":5,"expires":60000000000}', b"_R.few", b"S.few")

    assert explain(world, 1, "gated")[0] == "gated"
    outcome, answer = explain(world, 1, "held")
    assert (outcome, answer["until"]) == ("paused", "2099-01-01T00:00:00Z")
    assert explain(world, 1, "few")[0] == "ack_pending"
    assert explain(world, 2, "few")[0] == "max_ack_pending_reached"
    world.publish(stream, b"s.c")
    assert explain(world, 1, "gated")[0] == "no_pull_waiting"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"deliver_policy": "new"}, ["before_start"] * 4 + ["next"]),
        ({"deliver_policy": "last"}, ["before_start"] * 3 + ["ack_pending", "next"]),
        (
            {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
            ["before_start", "before_start", "ack_pending", "ack_pending", "next"],
        ),
        (
            {"deliver_policy": "by_start_sequence", "opt_start_seq": 3},
            ["before_start", "before_start", "ack_pending", "ack_pending", "next"],
        ),
    ],
)
def test_messages_before_the_start_are_explained(
    world: World, config: dict[str, Any], expected: list[str]
) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.b", b"s.a")
    create(world, **config, max_ack_pending=1000)
    world.pull(b'{"batch":9,"expires":60000000000}')
    # Paused: what comes now is neither delivered nor before the start.
    ask(world, "CONSUMER.PAUSE.S.c", {"pause_until": "2099-01-01T00:00:00Z"})
    world.publish(stream, b"s.a")
    ask(world, "CONSUMER.INFO.S.c")

    found = [explain(world, seq)[0] for seq in range(1, 6)]
    assert found == [*expected[:4], "paused"]


def test_how_many_come_before_it_is_reported(world: World) -> None:
    stream = world.stream()
    create(world, filter_subject="s.a")
    world.publish(stream, b"s.a", b"s.b", b"s.a", b"s.a")

    assert explain(world, 4)[0] == "no_pull_waiting"
    delivery = stream.consumers["c"].delivery
    delivery.max_ack_pending = 0
    delivery.closed = True  # nothing goes out while this is looked at
    world.engine.deliveries.pull(b"S.c", b"", b"9", b"_R.1", world.now, world.outbox)
    _, answer = explain(world, 4)

    assert (answer["outcome"], answer["ahead"]) == ("next", 2)


@pytest.mark.parametrize(("body", "code"), [(None, 10003), ({"seq": 0}, 10003), ({"x": 1}, 10025)])
def test_explain_wants_a_sequence(world: World, body: Any, code: int) -> None:
    world.stream()
    create(world)

    assert ask(world, "CONSUMER.EXPLAIN.S.c", body)["error"]["err_code"] == code
    assert ask(world, "CONSUMER.EXPLAIN.S.x", {"seq": 1})["error"]["err_code"] == 10014
