"""What was removed is freed at once: nothing waits for a pass of the garbage collector."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from jetspark.engine.requests.dispatch import handle

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

KINDS = ("Stream", "StreamLog", "StreamIndex", "Consumer", "Delivery", "Mirror", "Source")


def living() -> Counter[str]:
    """How many there are of what a stream is made of."""
    return Counter(
        type(each).__name__ for each in gc.get_objects() if type(each).__name__ in KINDS
    )


def ask(bench: Bench, verb: str, body: Mapping[str, object] | None = None) -> None:
    data = json.dumps(body).encode() if body else b""
    handle(bench.engine, verb.encode(), data, b"_INBOX.1", bench.now, bench.outbox)
    for _ in range(6):
        turn(bench)
    assert not any(b'"error"' in entry[4] for entry in bench.sent())


def turn(bench: Bench) -> None:
    bench.submit()
    while bench.on_the_way:
        bench.land()
    while bench.engine.advance(bench.now, bench.outbox):
        pass


def live(bench: Bench, number: int, kind: str) -> None:
    """Make a stream, use it, remove it."""
    name = f"S{number}"
    hour = 3600 * 10**9
    ask(
        bench,
        f"STREAM.CREATE.{name}",
        {"name": name, "subjects": [f"{name}.>"], "max_age": hour, "allow_direct": True},
    )
    stream = bench.engine.streams[name]
    for _ in range(3):
        bench.store(stream, name.encode() + b".a", b"x")
    if kind == "consumer":
        config = {"durable_name": "C", "ack_policy": "explicit", "inactive_threshold": hour}
        ask(bench, f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": config})
        bench.engine.deliveries.pull(
            name.encode() + b".C", b"", b"2", b"_R", bench.now, bench.outbox
        )
        turn(bench)
        if number % 2:
            ask(bench, f"CONSUMER.DELETE.{name}.C")
    elif kind == "copies":
        ask(bench, f"STREAM.CREATE.M{number}", {"name": f"M{number}", "mirror": {"name": name}})
        queue = {"name": f"Q{number}", "retention": "workqueue", "sources": [{"name": name}]}
        ask(bench, f"STREAM.CREATE.Q{number}", queue)
        assert bench.engine.streams[f"M{number}"].log.index.last_seq == 3
        ask(bench, f"STREAM.DELETE.M{number}")
        if number % 2:
            ask(bench, f"STREAM.DELETE.Q{number}")
            ask(bench, f"STREAM.DELETE.{name}")
        else:
            ask(bench, f"STREAM.DELETE.{name}")
            ask(bench, f"STREAM.DELETE.Q{number}")
        return
    ask(bench, f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("kind", ["messages", "consumer", "copies"])
def test_streams_and_consumers_that_were_removed_leave_nothing(bench: Bench, kind: str) -> None:
    for number in range(4):
        live(bench, number, kind)
    gc.collect()
    before = living()
    gc.disable()
    try:
        for number in range(10, 20):
            live(bench, number, kind)
        # A removed consumer is released in the turn after.
        turn(bench)
        assert living() == before
    finally:
        gc.enable()
