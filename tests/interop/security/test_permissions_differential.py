"""The same permissions and operations, judged by nats-server 2.15.1 and by our rules.

One server has a user for each set of permissions, and an administrator who sends and listens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.campaigns.permissions import Maker, Naive, covers, reads_as
from tests.support.judges import (
    ADMIN,
    Get,
    Operation,
    Ours,
    Pub,
    Sub,
    Theirs,
    Wire,
    error_of,
    running_nats_server,
)

from jetspark.server.auth.permissions import is_reserved_publish, is_reserved_reply
from jetspark.server.auth.violations import (
    publish_violation,
    reply_violation,
    subscription_violation,
)


@dataclass(frozen=True)
class Case:
    """A user's permissions and what it does, in order, on one connection."""

    block: dict[str, Any]
    operations: tuple[Operation, ...]


def subscribe(allow: list[str] | None = None, deny: list[str] | None = None) -> dict[str, Any]:
    return {"subscribe": {k: v for k, v in (("allow", allow), ("deny", deny)) if v is not None}}


def publish(allow: list[str] | None = None, deny: list[str] | None = None) -> dict[str, Any]:
    return {"publish": {k: v for k, v in (("allow", allow), ("deny", deny)) if v is not None}}


CASES = [
    Case(
        publish(["a", "b.*", "c.>", "f*o"]),
        tuple(
            Pub(subject)
            for subject in (
                "a", "b", "b.x", "b.x.y", "c", "c.x", "c.x.y", "d", "f*o", "foo", "b.*", "b.>",
                "a.", "c..x", "_INBOX.x", "$JS.API.INFO",
            )
        ),
    ),
    Case(publish(None, ["a", "b.*"]), tuple(map(Pub, ("a", "b", "b.x", "b.*", "b..x", "c")))),
    Case(publish(["a.>"], ["a.b", "a.c.>"]), tuple(map(Pub, ("a.a", "a.b", "a.c", "a.c.d", "b")))),
    Case(
        publish([f"n{number}.*" for number in range(40)], ["n7.x"]),
        tuple(map(Pub, ("n1.x", "n7.x", "n7.y", "n41.x", "n1"))),
    ),
    Case(
        subscribe(["a", "b.*", "c.>"]),
        (
            Sub("a"), Sub("b"), Sub("b.x"), Sub("b.*"), Sub("c"), Sub("c.x"), Sub("c.*"),
            Sub("c.>"), Sub("c.*.>"), Sub(">"), Sub("*"), Sub("a", "q"), Sub("b.*", "q"),
            Sub("d", "q"),
        ),
    ),
    Case(
        subscribe(["foo v1", "foo v2", "bar", "bar v1", "baz v.*", "qux *", "odd q*"]),
        (
            Sub("foo"), Sub("foo", "v1"), Sub("foo", "v2"), Sub("foo", "v3"), Sub("bar"),
            Sub("bar", "v1"), Sub("bar", "v2"), Sub("baz"), Sub("baz", "v.1"), Sub("baz", "v.1.2"),
            Sub("baz", "v.*"), Sub("baz", "v.>"), Sub("qux", "any"), Sub("qux", "a.b"), Sub("qux"),
            Sub("odd", "q1"), Sub("odd", "q*"),
        ),
    ),
    Case(
        subscribe(["s.>", "s.* q"]),
        (Sub("s.x"), Sub("s.x", "q"), Sub("s.x", "r"), Sub("s.x.y", "r"), Sub("s.>", "r"),
         Sub("s.>", "q"), Sub("s.*", "q"), Sub("s.*")),
    ),
    Case(
        subscribe(None, ["d", "e.*", "f q", "g q.*"]),
        (
            Sub("d"), Sub("d", "q"), Sub("e"), Sub("e.x"), Sub("e.*"), Sub("e.>"), Sub("f"),
            Sub("f", "q"), Sub("f", "r"), Sub("g", "q.1"), Sub("g", "q.*"), Sub("g", "r.1"),
        ),
    ),
    Case(
        subscribe(["x.>"], ["x.y"]),
        (Sub("x.y"), Sub("x.z"), Sub("x.*"), Get("x.y"), Get("x.z")),
    ),
    Case(
        subscribe(None, ["w.secret", "w.top.>"]),
        (Sub("w.>"), Get("w.open"), Get("w.secret"), Get("w.top.a"), Get("w.top")),
    ),
    Case(
        subscribe(None, ["wq.secret"]),
        (Sub("wq.>", "q"), Get("wq.open"), Get("wq.secret")),
    ),
    Case(
        subscribe(None, ["wn.a q", "wn.b"]),
        (Sub("wn.*", "q"), Sub("wn.*", "r"), Sub("wn.*"), Get("wn.a"), Get("wn.b"), Get("wn.c")),
    ),
    Case(
        {"allow_responses": True},
        (
            Sub("r1.req"), Pub("r1.reply"), Get("r1.req", "r1.reply"), Pub("r1.reply"),
            Pub("r1.reply"), Pub("other"),
        ),
    ),
    Case(
        {"allow_responses": {"max": 3, "expires": "1h"}},
        (Sub("r3.req"), Get("r3.req", "r3.reply"), *(Pub("r3.reply") for _ in range(4))),
    ),
    Case(
        {"allow_responses": {"max": -1}, **publish(["ra.open"], ["ra.no"])},
        (
            Sub("ra.req"), Pub("ra.open"), Pub("ra.no"), Get("ra.req", "ra.no"), Pub("ra.no"),
            Pub("ra.no"), Get("ra.req", "ra.open"), Pub("ra.open"), Pub("ra.else"),
        ),
    ),
    Case(
        {"allow_responses": True},
        (
            Sub("rt.req"), Get("rt.req", "rt.reply"), Get("rt.req", "rt.reply"), Pub("rt.reply"),
            Get("rt.req", "rt.reply"), Pub("rt.reply"),
        ),
    ),
]  # fmt: skip

# nats-server reads the `>` of a subscription as a word that `*` stands for, and then delivers what
# no entry allows. Ours refuses; docs/compatibility.md says so.
WIDER_THAN_ALLOWED = [
    (subscribe(["h.*"]), Sub("h.>"), "h.a.b"),
    (subscribe(["*"]), Sub(">"), "hh.a.b"),
    (subscribe(["hq.* q"]), Sub("hq.>", "q"), "hq.a.b"),
]

# Users with random permissions: ``r0``, ``r1``...
RANDOM_USERS = 40
RANDOM_OPERATIONS = 12


def random_cases(seed: int) -> list[tuple[Naive, dict[str, Any]]]:
    """Random lists, as an evaluator of their own and as a block of the configuration."""
    maker = Maker(seed)
    cases: list[tuple[Naive, dict[str, Any]]] = []
    while len(cases) < RANDOM_USERS:
        naive, _ = maker.pair()
        allow = naive.subscribe_allow
        if not (naive.publish_allow or naive.publish_deny or allow or naive.subscribe_deny):
            continue  # everything is permitted
        block = publish(naive.publish_allow, naive.publish_deny) | subscribe(
            None if allow is None else [f"{pattern} {queue}".strip() for pattern, queue in allow],
            [f"{pattern} {queue}".strip() for pattern, queue in naive.subscribe_deny],
        )
        cases.append((naive, block))
    return cases


RANDOM_CASES = random_cases(20260815)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A nats-server with a user for every set of permissions: ``u0``, ``u1``..., ``w0``..."""
    blocks = {f"u{index}": case.block for index, case in enumerate(CASES)}
    blocks |= {f"w{index}": block for index, (block, _, _) in enumerate(WIDER_THAN_ALLOWED)}
    blocks |= {f"r{index}": block for index, (_, block) in enumerate(RANDOM_CASES)}
    users: list[dict[str, Any]] = [
        {"user": name, "password": name, "permissions": block} for name, block in blocks.items()
    ]
    users.append({"user": ADMIN, "password": ADMIN})
    path = tmp_path_factory.mktemp("nats-server") / "server.conf"
    path.write_text(json.dumps({"authorization": {"users": users}}))
    with running_nats_server(path) as found:
        yield found


@pytest.mark.parametrize("index", range(len(CASES)))
def test_nats_server_and_our_rules_agree(port: int, index: int) -> None:
    theirs, ours = Theirs(port, f"u{index}"), Ours(CASES[index].block)
    try:
        for operation in CASES[index].operations:
            assert ours.judge(operation) == theirs.judge(operation), (CASES[index], operation)
    finally:
        theirs.close()


def test_the_sample_is_large_enough() -> None:
    assert sum(len(case.operations) for case in CASES) >= 100


@pytest.mark.parametrize("index", range(len(WIDER_THAN_ALLOWED)))
def test_ours_refuses_what_nats_server_lets_through_by_mistake(port: int, index: int) -> None:
    """When this fails on their side, nats-server was repaired: move the rows to the table."""
    block, operation, subject = WIDER_THAN_ALLOWED[index]
    theirs = Theirs(port, f"w{index}")
    try:
        assert theirs.judge(operation) == b""
        assert theirs.judge(Get(subject)) == 1
    finally:
        theirs.close()

    assert Ours(block).judge(operation) == subscription_violation(
        operation.subject.encode(), operation.queue.encode()
    )


@pytest.mark.parametrize("index", range(RANDOM_USERS))
def test_nats_server_and_our_rules_agree_on_random_permissions(port: int, index: int) -> None:
    """They differ in nothing but what ``WIDER_THAN_ALLOWED`` shows."""
    naive, block = RANDOM_CASES[index]
    maker = Maker(index)
    theirs, ours = Theirs(port, f"r{index}"), Ours(block)
    try:
        for _ in range(RANDOM_OPERATIONS):
            for operation in (
                Pub(maker.subject()),
                Pub(maker.pattern()),
                Sub(maker.subject(), maker.queue()),
                Sub(maker.pattern(), maker.queue()),
            ):
                expected, actual = theirs.judge(operation), ours.judge(operation)
                if actual != expected:
                    assert is_wider_than_allowed(naive, operation), (block, operation, expected)
                    assert expected == b"", "ours is the stricter one"
    finally:
        theirs.close()


@pytest.mark.parametrize("index", range(RANDOM_USERS))
def test_nats_server_and_our_rules_deliver_the_same(port: int, index: int) -> None:
    """One subscription of a random user, and messages around it."""
    _, block = RANDOM_CASES[index]
    maker = Maker(index)
    for _ in range(RANDOM_OPERATIONS):
        # One connection for each: several members of a queue would share the messages.
        operation = Sub(maker.pattern(), maker.queue())
        theirs, ours = Theirs(port, f"r{index}"), Ours(block)
        try:
            if theirs.judge(operation) == ours.judge(operation) == b"":
                for message in (Get(maker.subject()) for _ in range(8)):
                    assert ours.judge(message) == theirs.judge(message), (
                        block,
                        operation,
                        message,
                    )
        finally:
            theirs.close()


def is_wider_than_allowed(naive: Naive, operation: Operation) -> bool:
    """Tell whether a subscription ends in ``>`` where an entry has ``*``, and none covers it."""
    return (
        isinstance(operation, Sub)
        and operation.subject.endswith(">")
        and any(
            reads_as(pattern, operation.subject) and not covers(pattern, operation.subject)
            for pattern, _ in naive.subscribe_allow or ()
        )
    )


def test_texts_of_violations_are_those_of_nats_server(port: int) -> None:
    """Odd characters, queues, and subjects that no client may use."""
    wire = Wire(port, {"user": "u0", "pass": "u0"})
    names = ['n"o', "n\\o", "né\x01", "n\u2028", "n😀", "n\x7f\u00ad"]
    try:
        for name in names:
            text = error_of(wire.ask(f"PUB {name} 0\r\n\r\n".encode()))
            assert text == publish_violation(name.encode())
        assert error_of(wire.ask(b"PUB n\xff\xfe 0\r\n\r\n")) == publish_violation(b"n\xff\xfe")
        for subject in (b"_GR_.x", b"$GR.x", b"$NRG.x"):
            assert is_reserved_publish(subject, False)
            text = error_of(wire.ask(b"PUB %b 0\r\n\r\n" % subject))
            assert text == publish_violation(subject)
        assert error_of(wire.ask(b"SUB a _sys_ 1\r\n")) == subscription_violation(b"a", b"_sys_")
        for reply in (b"$JS.ACK.x", b"_R_.x", b"_GR_.x", b"$GR.x"):
            assert is_reserved_reply(reply)
            assert error_of(wire.ask(b"PUB a %b 0\r\n\r\n" % reply)) == reply_violation(reply)
    finally:
        wire.close()
