"""Copies of streams with interest and work-queue retention (nats-server 2.15.1, observed).

A copy is one more reader that such a stream keeps messages for, until they are durable in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.unit.engine.replicate.conftest import CopyBench, rows

from jetspark.engine.requests.dispatch import handle

BOTH = pytest.mark.parametrize("retention", ["interest", "workqueue"])


def held(bench: CopyBench, name: str = "O") -> list[int]:
    """The sequences that a stream holds."""
    return [row[0] for row in rows(bench.engine.streams[name])]


def consumer(bench: CopyBench, name: str = "d") -> None:
    config = {"durable_name": name, "ack_policy": "explicit"}
    body = {"stream_name": "O", "config": config}
    answer = json.loads(
        bench.request(f"CONSUMER.CREATE.O.{name}".encode(), json.dumps(body).encode())
    )
    assert "error" not in answer, answer
    bench.settle()


@BOTH
def test_what_a_copy_has_on_disk_goes(bench: CopyBench, retention: str) -> None:
    bench.make("O", subjects=["o.>"], retention=retention)
    bench.make("M", mirror={"name": "O"})

    bench.put("O", b"o.1")
    bench.put("O", b"o.2")

    assert held(bench) == []
    assert held(bench, "M") == [1, 2]
    assert bench.info("O")["state"]["last_seq"] == 2


@BOTH
def test_what_a_copy_has_not_on_disk_stays(bench: CopyBench, retention: str) -> None:
    origin = bench.make("O", subjects=["o.>"], retention=retention)
    bench.make("M", mirror={"name": "O"})

    bench.publish(origin, b"o.1", b"x")
    bench.submit()
    bench.land()
    bench.turn()
    bench.submit()

    assert held(bench) == [1]
    bench.settle()
    assert held(bench) == []


@BOTH
def test_a_consumer_and_a_copy_both_keep_a_message(bench: CopyBench, retention: str) -> None:
    bench.make("O", subjects=["o.>"], retention=retention)
    consumer(bench)
    bench.make("M", mirror={"name": "O"})

    bench.put("O", b"o.1")

    assert held(bench) == [1]
    assert held(bench, "M") == [1]
    bench.ask("CONSUMER.DELETE.O.d")
    bench.settle()
    assert held(bench) == []


def test_an_interest_stream_keeps_only_what_a_copy_wants(bench: CopyBench) -> None:
    bench.make("O", subjects=["o.>"], retention="interest")
    bench.put("O", b"o.1")
    bench.make("S", sources=[{"name": "O", "filter_subject": "o.2"}])

    bench.put("O", b"o.1")
    bench.put("O", b"o.2")

    assert held(bench) == []
    assert [row[1] for row in rows(bench.engine.streams["S"])] == [b"o.2"]


def test_a_work_queue_keeps_what_no_copy_wants(bench: CopyBench) -> None:
    bench.make("O", subjects=["o.>"], retention="workqueue")
    bench.make("S", sources=[{"name": "O", "filter_subject": "o.2"}])

    bench.put("O", b"o.1")
    bench.put("O", b"o.2")

    assert held(bench) == [1]


def test_a_copy_that_cannot_store_keeps_what_is_for_it(bench: CopyBench) -> None:
    bench.make("O", subjects=["o.>"], retention="interest")
    bench.make("S", sources=[{"name": "O"}], max_msgs=1, discard="new")

    bench.put("O", b"o.1")
    bench.put("O", b"o.2")

    assert held(bench) == [2]
    bench.ask("STREAM.DELETE.S")
    bench.settle()
    assert held(bench) == []


def test_a_restart_does_not_remove_what_was_not_copied(
    open_bench: Callable[..., CopyBench],
) -> None:
    """The origin is taken over after its copies: its consumers alone do not decide."""
    bench = open_bench()
    # By name, and so by folder, the origin comes first and last.
    for name in ("A", "Z"):
        bench.make(name, subjects=[name], retention="interest")
        bench.make(f"M{name}", mirror={"name": name}, max_msgs=1, discard="new")
        config = {"durable_name": "d", "ack_policy": "explicit", "filter_subject": "none"}
        body = json.dumps({"stream_name": name, "config": config}).encode()
        bench.request(f"CONSUMER.CREATE.{name}.d.none".encode(), body)
        bench.settle()
        bench.put(name, name.encode(), b"1")
        bench.put(name, name.encode(), b"2")

    bench.restart()
    bench.settle()

    assert [held(bench, "A"), held(bench, "Z")] == [[2], [2]]


def test_retention_that_changes_is_followed(bench: CopyBench) -> None:
    bench.make("O", subjects=["o.>"])
    bench.make("M", mirror={"name": "O"})
    bench.put("O", b"o.1")
    assert held(bench) == [1]

    update = {"name": "O", "subjects": ["o.>"], "retention": "interest"}
    bench.request(b"STREAM.UPDATE.O", json.dumps(update).encode())
    bench.settle()
    bench.put("O", b"o.2")

    assert held(bench) == []
    assert held(bench, "M") == [1, 2]
    update["retention"] = "limits"
    bench.request(b"STREAM.UPDATE.O", json.dumps(update).encode())
    bench.settle()
    bench.put("O", b"o.3")
    assert held(bench) == [3]


def test_an_old_copy_says_nothing_about_a_stream_created_again(
    bench: CopyBench,
) -> None:
    origin = bench.make("O", subjects=["o.>"], retention="interest")
    bench.make("S", sources=[{"name": "O"}])
    bench.publish(origin, b"o.1", b"old")
    bench.submit()
    bench.land()
    bench.turn()
    bench.submit()  # the copy is in flight to the disk

    bench.ask("STREAM.DELETE.O")
    again = json.dumps({"name": "O", "subjects": ["o.>"], "retention": "interest"}).encode()
    bench.request(b"STREAM.CREATE.O", again)
    body = json.dumps({"stream_name": "O", "config": {"durable_name": "d"}}).encode()
    handle(bench.engine, b"CONSUMER.CREATE.O.d", body, b"_I", bench.now, bench.outbox)
    bench.publish(bench.engine.streams["O"], b"o.1", b"new")
    bench.submit()
    while bench.on_the_way:
        bench.land()
    # No one else needs the message, and the copy has not got it yet.
    handle(bench.engine, b"CONSUMER.DELETE.O.d", b"", b"_I", bench.now, bench.outbox)
    bench.submit()
    while bench.on_the_way:
        bench.land()
    bench.settle()

    assert [row[3] for row in rows(bench.engine.streams["S"])] == [b"old", b"new"]
