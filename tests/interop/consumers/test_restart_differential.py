"""What consumers remember over a restart, on nats-server 2.15.1 and on ours (wire.md, Consumers).

Both are stopped by SIGTERM and started again on the same store; states and what is delivered
afterwards are compared as in test_differential.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.consumers.session import MS, S, Session
from tests.support.consumer_wire import Wire
from tests.support.served import Served
from tests.support.servers import ServerProcess

EXPLICIT: dict[str, Any] = {"ack_policy": "explicit"}

Half = Callable[[Session], None]


def lives(start: Callable[[], Any], halves: list[tuple[Half, Half]]) -> list[list[Any]]:
    """What a server says to all scripts, each cut in two by the same restart."""
    said: list[list[Any]] = [[] for _ in halves]
    for life in range(2):
        server = start()
        wire = Wire(server.url)
        try:
            for n, script in enumerate(halves):
                session = Session(wire, f"R{n}")
                script[life](session)
                said[n] += session.said
        finally:
            wire.close()
            server.stop(signal.SIGTERM)
    return said


# Scripts: what comes before the restart, and what comes after it. --------------------------------


def acks_before(s: Session) -> None:
    s.make()
    s.put(*"abcdefgh")
    s.consumer(**EXPLICIT, durable_name="c", ack_wait=500 * MS)
    got = s.fetch(8)
    for n in (0, 1, 3):
        s.ack(got[n])
    s.info()


def acks_after(s: Session) -> None:
    s.info()
    again = s.pull({"batch": 5, "expires": 9 * S}, 5)
    for message in again:
        s.ack(message)
    s.info()


def all_before(s: Session) -> None:
    s.make()
    s.put(*"abcdef")
    s.consumer(ack_policy="all", durable_name="c")
    got = s.fetch(5)
    s.ack(got[2])
    s.info()


def all_after(s: Session) -> None:
    s.info()
    got = s.fetch(5)
    s.ack(got[0])
    s.info()


def none_before(s: Session) -> None:
    s.make()
    s.put(*"abc")
    s.consumer(ack_policy="none", durable_name="c", filter_subjects=["a", "c"])
    s.fetch(1)
    s.info()


def none_after(s: Session) -> None:
    s.info()
    s.put(*"abc")
    s.fetch(9)
    s.info()


def settings_before(s: Session) -> None:
    s.make()
    s.put("a")
    s.consumer("p", **EXPLICIT, durable_name="p", pause_until="2099-01-01T00:00:00Z")
    s.consumer("q", **EXPLICIT, durable_name="q", description="first")
    s.consumer("q", **EXPLICIT, durable_name="q", description="second", max_deliver=7)
    s.consumer("r", **EXPLICIT, durable_name="r")
    s.ask("CONSUMER.DELETE", None, "r")
    s.consumer("e", **EXPLICIT, inactive_threshold=3600 * S)
    s.consumer("m", **EXPLICIT, durable_name="m", mem_storage=True)


def settings_after(s: Session) -> None:
    names = s.wire.api(f"CONSUMER.NAMES.{s.stream}")["consumers"]
    s.note(names)
    for name in ("p", "q", "r", "e"):
        s.ask("CONSUMER.INFO", None, name)
    s.state()


def redelivered_before(s: Session) -> None:
    s.make()
    s.put(*"abc")
    s.consumer(**EXPLICIT, durable_name="c", max_deliver=2)
    got = s.fetch(3)
    s.ack(got[1], b"-NAK")
    s.fetch(1)
    s.ack(got[2], b"+TERM")
    s.info()


def redelivered_after(s: Session) -> None:
    s.info()
    s.fetch(3)
    s.put("d")
    s.fetch(1)
    s.info()


def pushed_before(s: Session) -> None:
    s.make()
    s.put(*"abc")
    sid = s.listen("d.STREAM.p")
    s.consumer(**EXPLICIT, durable_name="c", deliver_subject="p")
    got = s.wire.take(sid, 3)
    for message in got:
        s.ack(message)
    s.info()


def pushed_after(s: Session) -> None:
    s.info()
    s.put("d")
    sid = s.listen("d.STREAM.p")
    s.tell(s.wire.take(sid, 1))
    s.info()


def queue_before(s: Session) -> None:
    s.make(retention="workqueue")
    s.put(*"abcd")
    s.consumer(**EXPLICIT, durable_name="c")
    got = s.fetch(3)
    s.ack(got[0])
    s.ack(got[2])
    s.settled(2)


def queue_after(s: Session) -> None:
    s.settled(2)
    s.info()
    s.fetch(1)


SCRIPTS: dict[str, tuple[Half, Half]] = {
    "acks": (acks_before, acks_after),
    "ack all": (all_before, all_after),
    "ack none": (none_before, none_after),
    "settings": (settings_before, settings_after),
    "redelivered": (redelivered_before, redelivered_after),
    "pushed": (pushed_before, pushed_after),
    "work queue": (queue_before, queue_after),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    folder = tmp_path_factory.mktemp("stores")
    halves = list(SCRIPTS.values())
    ours = lives(lambda: Served(folder / "ours", "-p", "-1", "-js"), halves)
    theirs = lives(lambda: ServerProcess("nats-server", folder / "theirs", "-js"), halves)
    return dict(zip(SCRIPTS, zip(ours, theirs, strict=True), strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_remember_the_same(said: dict[str, tuple[Any, Any]], name: str) -> None:
    ours, theirs = said[name]
    differing = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]

    assert differing == []
    assert len(ours) == len(theirs)
