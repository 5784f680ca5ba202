"""Sources on one server (wire.md, Mirrors and sources)."""

from __future__ import annotations

import errno
import json
from typing import Any

import msgspec
import pytest
from tests.unit.engine.replicate.conftest import CopyBench, rows

from jetspark.engine.replicate.origin import LocalOrigin
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream
from jetspark.headers.block import find_value


def labels(bench: CopyBench, name: str) -> list[bytes]:
    """Where the messages of a stream are from, without what tells origins of one name apart."""
    found = [
        find_value(row[2], b"Nats-Stream-Source") or b""
        for row in rows(bench.engine.streams[name])
    ]
    return [label.rpartition(b" ")[0] for label in found]


def payloads(bench: CopyBench, name: str) -> list[bytes]:
    return [row[3] for row in rows(bench.engine.streams[name])]


def test_a_stream_stores_messages_of_others_in_addition_to_its_own(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    bench.make("B", subjects=["b.>"])
    bench.put("A", b"a.1", b"from a")
    bench.put("B", b"b.1", b"from b")

    stream = bench.make("S", subjects=["s"], sources=[{"name": "A"}, {"name": "B"}])
    bench.put("S", b"s", b"own")
    bench.put("A", b"a.2", b"more")

    assert [(row[0], row[1], row[3]) for row in rows(stream)] == [
        (1, b"a.1", b"from a"),
        (2, b"b.1", b"from b"),
        (3, b"s", b"own"),
        (4, b"a.2", b"more"),
    ]
    assert labels(bench, "S") == [b"A 1 > > a.1", b"B 1 > > b.1", b"", b"A 2 > > a.2"]


def test_the_label_ends_with_what_tells_origins_of_one_name_apart(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    stream = bench.make("S", sources=[{"name": "A"}])

    bench.put("A", b"a", headers=b"NATS/1.0\r\nX: y\r\n\r\n")

    label = b"Nats-Stream-Source: A 1 > > a %b" % ident_of(origin)
    assert rows(stream)[0][2] == b"NATS/1.0\r\nX: y\r\n%b\r\n\r\n" % label


def test_filters_and_transforms_stand_in_the_label(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    for name in (b"a.1", b"a.2", b"a.3"):
        bench.put("A", name)
    transforms = [{"src": "a.1", "dest": "x.one"}, {"src": "a.2", "dest": ""}]

    stream = bench.make(
        "S",
        sources=[
            {"name": "A", "subject_transforms": transforms},
            {"name": "A", "filter_subject": "a.3", "opt_start_seq": 2},
        ],
    )

    assert [row[1] for row in rows(stream)] == [b"x.one", b"a.2", b"a.3"]
    both = b"a.1\fa.2 x.one\f>"
    assert labels(bench, "S") == [
        b"A 1 %b a.1" % both,
        b"A 2 %b a.2" % both,
        b"A 3 a.3 > a.3",
    ]


def test_the_streams_own_transform_comes_last(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    bench.put("A", b"a.1")

    stream = bench.make(
        "S", sources=[{"name": "A"}], subject_transform={"src": "a.*", "dest": "k.$1"}
    )

    assert rows(stream)[0][1] == b"k.1"
    assert labels(bench, "S") == [b"A 1 > > a.1"]


def test_a_source_of_a_source_has_one_label(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("B", sources=[{"name": "A"}])
    bench.make("C", sources=[{"name": "B"}])

    bench.put("A", b"a")

    assert labels(bench, "C") == [b"B 1 > > a"]
    assert rows(bench.engine.streams["C"])[0][2].count(b"Nats-Stream-Source") == 1


@pytest.mark.parametrize(("window", "kept"), [(0, 3), (60_000_000_000, 1)])
def test_ids_of_origins_and_own_ones_meet_where_there_is_a_window(
    bench: CopyBench, window: int, kept: int
) -> None:
    """As seen on nats-server: a stream with sources has no window unless it asks for one."""
    bench.make("A", subjects=["a"])
    bench.make("B", subjects=["b"])
    block = b"NATS/1.0\r\nNats-Msg-Id: same\r\n\r\n"
    bench.put("A", b"a", headers=block)
    bench.put("B", b"b", headers=block)

    sources = [{"name": "A"}, {"name": "B"}]
    bench.make("S", subjects=["s"], sources=sources, duplicate_window=window)
    bench.put("S", b"s", headers=block)

    assert len(payloads(bench, "S")) == kept
    assert [said["lag"] for said in bench.info("S")["sources"]] == [0, 0]


def test_info_says_how_far_each_source_is(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.put("A", b"a")
    bench.put("A", b"a")
    bench.make("S", sources=[{"name": "A"}, {"name": "NONE"}])
    bench.now += 5_000_000

    there, missing = bench.info("S")["sources"]

    assert there == {"name": "A", "lag": 0, "seq": 2, "active": 0}
    assert missing["active"] == -1
    assert missing["error"]["err_code"] == 10059
    bench.ask("STREAM.DELETE.A")
    bench.settle()
    bench.now += 5_000_000
    assert bench.info("S")["sources"][0]["active"] == 10_000_000


def test_sources_continue_after_a_restart_without_gaps_or_duplicates(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("B", subjects=["b"])
    bench.make("S", sources=[{"name": "A"}, {"name": "B"}])
    for n in range(3):
        bench.put("A", b"a", b"a%d" % n)
    bench.put("B", b"b", b"b0")
    for n in range(3, 6):
        bench.store(bench.engine.streams["A"], b"a", b"a%d" % n)
    bench.turn()  # staged in S, and lost with the process

    bench.restart()
    bench.settle()
    bench.put("B", b"b", b"b1")

    assert payloads(bench, "S") == [b"a0", b"a1", b"a2", b"b0", b"a3", b"a4", b"a5", b"b1"]


def test_a_purge_and_a_restart_do_not_make_a_source_begin_again(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("S", sources=[{"name": "A"}])
    bench.put("A", b"a", b"old")
    bench.ask("STREAM.PURGE.S")

    bench.restart()
    bench.settle()
    bench.put("A", b"a", b"new")

    assert payloads(bench, "S") == [b"new"]


def test_a_source_without_a_record_of_its_own_goes_by_labels(bench: CopyBench) -> None:
    """A stream that was restored from a backup has the messages only."""
    origin = bench.make("A", subjects=["a"])
    bench.put("A", b"a", b"0")
    bench.put("A", b"a", b"1")
    stream = bench.make("S", subjects=["s"])
    label = b"NATS/1.0\r\nNats-Stream-Source: A 1 > > a %b\r\n\r\n" % ident_of(origin)
    stream.log.staged.add_message(b"a", len(label), label + b"0\r\n", bench.now)
    stream.log.staged.add_message(b"s", 0, b"own\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.settle()

    answer = bench.ask(
        "STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "sources": [{"name": "A"}]}
    )
    bench.settle()

    assert "error" not in answer
    assert payloads(bench, "S") == [b"0", b"own", b"1"]


def test_a_source_that_comes_back_continues_where_it_was(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("S", subjects=["s"], sources=[{"name": "A"}])
    bench.put("A", b"a", b"0")

    bench.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"]})
    bench.put("A", b"a", b"1")
    between = payloads(bench, "S")
    bench.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "sources": [{"name": "A"}]})
    bench.settle()

    assert between == [b"0"]
    assert payloads(bench, "S") == [b"0", b"1"]


def test_a_source_that_is_back_before_the_disk_answered_copies_nothing_twice(
    bench: CopyBench,
) -> None:
    origin = bench.make("A", subjects=["a"])
    config: dict[str, Any] = {"name": "S", "subjects": ["s"], "sources": [{"name": "A"}]}
    bench.make(**config)
    bench.store(origin, b"a", b"0")
    bench.turn()

    for changed in ({**config, "sources": []}, config):
        body = json.dumps(changed).encode()
        handle(bench.engine, b"STREAM.UPDATE.S", body, b"r", bench.now, bench.outbox)
    bench.settle()

    assert payloads(bench, "S") == [b"0"]


def test_an_origin_created_again_is_copied_from_its_beginning(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("S", sources=[{"name": "A"}])
    bench.put("A", b"a", b"old")
    bench.put("A", b"a", b"old")
    bench.ask("STREAM.DELETE.A")

    bench.make("A", subjects=["a"])
    bench.put("A", b"a", b"new")
    bench.restart()
    bench.settle()

    assert payloads(bench, "S") == [b"old", b"old", b"new"]


def test_a_write_that_fails_costs_a_source_no_message(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    bench.make("S", sources=[{"name": "A"}])
    bench.put("A", b"a", b"0")
    bench.store(origin, b"a", b"1")
    bench.store(origin, b"a", b"2")
    bench.turn()
    bench.submit()
    bench.fail(OSError(errno.ENOSPC, "no space"))

    bench.wait(5)
    bench.settle()

    assert payloads(bench, "S") == [b"0", b"1", b"2"]


def test_a_message_that_is_too_large_stops_a_source_and_is_named(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.put("A", b"a", b"x" * 500)

    bench.make("S", sources=[{"name": "A"}], max_msg_size=100)

    said = bench.info("S")["sources"][0]
    assert (said["lag"], said["error"]["err_code"]) == (1, 10054)
    config = msgspec.to_builtins(bench.engine.streams["S"].config)
    bench.ask("STREAM.UPDATE.S", {"name": "S", "sources": config["sources"], "max_msg_size": -1})
    bench.settle()
    bench.wait(3)
    bench.settle()
    assert bench.info("S")["sources"][0]["seq"] == 1


def test_two_streams_may_not_copy_each_other(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("S", subjects=["s"], sources=[{"name": "A"}])

    answer = bench.ask(
        "STREAM.UPDATE.A", {"name": "A", "subjects": ["a"], "sources": [{"name": "S"}]}
    )

    assert answer["error"]["err_code"] == 10052
    assert "cycle" in answer["error"]["description"]


def ident_of(stream: Stream) -> bytes:
    """What labels say of which stream of its name it was."""
    return LocalOrigin(stream, [], lambda _stream: None).ident
