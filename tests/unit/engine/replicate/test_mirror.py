"""Mirrors on one server (wire.md, Mirrors and sources)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.unit.engine.conftest import START
from tests.unit.engine.replicate.conftest import CopyBench, rows, times

from jetspark.engine.replicate.origin import Origin
from jetspark.store.committer import write
from jetspark.store.log.stream_log import Group

SECOND = 1_000_000_000


def test_a_mirror_has_sequences_times_and_gaps_of_its_origin(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a.>"])
    for n in range(5):
        bench.now += 1000
        bench.put("A", b"a.%d" % n, b"p%d" % n)
    bench.ask("STREAM.MSG.DELETE.A", {"seq": 3})

    mirror = bench.make("M", mirror={"name": "A"})

    assert rows(mirror) == rows(origin)
    assert times(mirror) == times(origin)
    assert [row[0] for row in rows(mirror)] == [1, 2, 4, 5]
    assert bench.info("M")["state"]["num_deleted"] == 1


def test_a_mirror_follows_its_origin_commit_by_commit(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    mirror = bench.make("M", mirror={"name": "A"})

    bench.put("A", b"a.1")
    bench.put("A", b"a.2")

    assert [row[1] for row in rows(mirror)] == [b"a.1", b"a.2"]


def test_what_is_not_durable_in_the_origin_is_not_copied(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a.>"])
    mirror = bench.make("M", mirror={"name": "A"})
    bench.publish(origin, b"a.1", b"x")
    bench.submit()

    bench.turn()

    assert mirror.log.staged.seq == 0


def test_lag_counts_what_is_not_durable_in_the_mirror(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a.>"])
    bench.make("M", mirror={"name": "A"})
    bench.publish(origin, b"a.1", b"x")
    bench.submit()
    bench.land()

    bench.turn()

    assert bench.info("M")["mirror"]["lag"] == 1
    bench.settle()
    assert bench.info("M")["mirror"]["lag"] == 0


def batch_block(number: int, more: bytes = b"") -> bytes:
    lines = b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n" % number
    return b"NATS/1.0\r\n" + lines + more + b"X: z\r\n\r\n"


def test_expectations_and_batches_are_taken_out_of_headers(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"], allow_atomic=True)
    mirror = bench.make("M", mirror={"name": "A"})

    block = b"NATS/1.0\r\nNats-Msg-Id: i\r\nNats-Expected-Stream: A\r\nX: y\r\n\r\n"
    bench.put("A", b"a.1", headers=block)
    bench.put("A", b"a.1", headers=b"NATS/1.0\r\nNats-Expected-Last-Sequence: 1\r\n\r\n")

    bench.put("A", b"a.1", headers=batch_block(1))
    bench.put("A", b"a.2", headers=batch_block(2, b"Nats-Batch-Commit: 1\r\n"))

    assert [row[2] for row in rows(mirror)] == [
        b"NATS/1.0\r\nNats-Msg-Id: i\r\nX: y\r\n\r\n",
        b"",
        b"NATS/1.0\r\nX: z\r\n\r\n",
        b"NATS/1.0\r\nX: z\r\n\r\n",
    ]


def test_a_purge_of_the_origin_leaves_the_mirror_alone(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    mirror = bench.make("M", mirror={"name": "A"})
    bench.put("A", b"a.1")
    bench.put("A", b"a.2")
    bench.ask("STREAM.PURGE.A")

    bench.put("A", b"a.3")

    assert [row[0] for row in rows(mirror)] == [1, 2, 3]


def test_a_mirror_of_a_purged_stream_begins_where_that_is(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    for _ in range(4):
        bench.put("A", b"a.1")
    bench.ask("STREAM.PURGE.A")

    bench.make("M", mirror={"name": "A"})

    state = bench.info("M")["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 5, 4)


def test_a_mirror_continues_after_its_last_sequence_when_its_origin_is_created_again(
    bench: CopyBench,
) -> None:
    bench.make("A", subjects=["a.>"])
    mirror = bench.make("M", mirror={"name": "A"})
    for _ in range(3):
        bench.put("A", b"a.1", b"old")
    bench.ask("STREAM.DELETE.A")
    bench.settle()
    assert bench.info("M")["mirror"]["error"]["err_code"] == 10059

    bench.make("A", subjects=["a.>"])
    for n in range(5):
        bench.put("A", b"a.1", b"new%d" % n)

    assert [row[3] for row in rows(mirror)] == [b"old", b"old", b"old", b"new3", b"new4"]
    assert "error" not in bench.info("M")["mirror"]


def test_a_mirror_made_before_its_origin_waits_for_it(bench: CopyBench) -> None:
    mirror = bench.make("M", mirror={"name": "A"})
    said = bench.info("M")["mirror"]

    bench.make("A", subjects=["a"])
    bench.put("A", b"a")

    assert (said["lag"], said["active"], said["error"]["err_code"]) == (0, -1, 10059)
    assert len(rows(mirror)) == 1


def test_filters_leave_holes_and_transforms_rename(bench: CopyBench) -> None:
    bench.make("A", subjects=["a.>"])
    for name in (b"a.1", b"a.2", b"a.3", b"a.1"):
        bench.put("A", name)

    some = bench.make("F", mirror={"name": "A", "filter_subject": "a.2"})
    transforms = [{"src": "a.1", "dest": "z.one"}, {"src": "a.3", "dest": ""}]
    other = bench.make("T", mirror={"name": "A", "subject_transforms": transforms})

    assert [row[:2] for row in rows(some)] == [(2, b"a.2")]
    assert [row[:2] for row in rows(other)] == [(1, b"z.one"), (3, b"a.3"), (4, b"z.one")]
    assert bench.info("T")["mirror"]["subject_transforms"] == transforms
    assert bench.info("F")["mirror"]["filter_subject"] == "a.2"


def test_a_mirror_may_begin_at_a_sequence_or_a_time(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    for _ in range(4):
        bench.now += 1_000_000_000
        bench.put("A", b"a")
    since = "2025-11-15T07:00:03Z"  # three seconds after the start of the bench

    by_seq = bench.make("Q", mirror={"name": "A", "opt_start_seq": 3})
    by_time = bench.make("T", mirror={"name": "A", "opt_start_time": since})
    bench.make("Z", mirror={"name": "A", "opt_start_seq": 100})

    assert [row[0] for row in rows(by_seq)] == [3, 4]
    assert [row[0] for row in rows(by_time)] == [3, 4]
    assert bench.info("Z")["state"]["first_seq"] == 100
    assert bench.info("Z")["state"]["last_seq"] == 99


def test_a_full_mirror_waits_and_continues_where_it_was(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    mirror = bench.make("M", mirror={"name": "A"}, max_msgs=2, discard="new")
    for n in range(4):
        bench.put("A", b"a", b"%d" % n)
    assert bench.info("M")["mirror"]["lag"] == 2

    bench.ask("STREAM.PURGE.M")
    bench.settle()

    assert [row[3] for row in rows(mirror)] == [b"2", b"3"]


def test_a_mirror_continues_after_a_restart_without_gaps_or_duplicates(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    bench.make("M", mirror={"name": "A"})
    for n in range(3):
        bench.put("A", b"a", b"%d" % n)
    for n in range(3, 6):
        bench.store(bench.engine.streams["A"], b"a", b"%d" % n)
    bench.turn()  # staged in the mirror, and lost with the process

    bench.restart()
    bench.settle()

    assert rows(bench.engine.streams["M"]) == rows(bench.engine.streams["A"])
    assert times(bench.engine.streams["M"]) == times(bench.engine.streams["A"])
    assert bench.info("M")["state"]["messages"] == 6


def test_a_write_that_fails_costs_a_mirror_no_message(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    mirror = bench.make("M", mirror={"name": "A"})
    bench.put("A", b"a", b"0")
    bench.store(origin, b"a", b"1")
    bench.store(origin, b"a", b"2")
    bench.turn()
    bench.submit()
    bench.fail(OSError(errno.ENOSPC, "no space"))

    bench.wait(5)
    bench.settle()

    assert rows(mirror) == rows(origin)
    assert times(mirror) == times(origin)
    bench.restart()
    assert len(rows(bench.engine.streams["M"])) == 3


def test_a_disk_that_failed_and_came_back_costs_a_mirror_no_message(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    mirror = bench.make("M", mirror={"name": "A"})
    bench.put("A", b"a", b"0")
    bench.store(origin, b"a", b"1")
    bench.turn()
    bench.submit()
    bench.fail(OSError(errno.EIO, "broken"))

    for _ in range(4):
        bench.wait(5)
        bench.settle()

    assert rows(mirror) == rows(origin)


def test_a_long_origin_is_copied_in_steps(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    for _ in range(2500):
        bench.publish(origin, b"a", b"x")
    bench.settle()
    answer = bench.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "A"}})
    assert "error" not in answer

    bench.turn()

    mirror = bench.engine.streams["M"]
    assert mirror.log.staged.seq == 1000
    bench.settle()
    assert rows(mirror) == rows(origin)


def test_a_mirror_that_is_promoted_takes_publishes_and_copies_no_more(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"])
    mirror = bench.make("M", mirror={"name": "A"})
    bench.put("A", b"a", b"copied")

    answer = bench.ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["m"]})
    bench.put("A", b"a", b"not copied")
    bench.put("M", b"m", b"own")

    assert "error" not in answer
    assert "mirror" not in bench.info("M")
    assert [row[3] for row in rows(mirror)] == [b"copied", b"own"]


def test_a_mirror_answers_direct_gets_for_a_deleted_origin(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"], allow_direct=True)
    bench.make("F", mirror={"name": "A", "filter_subject": "x"})
    mirror = bench.make("M", mirror={"name": "A"})
    bench.put("A", b"a", b"kept")
    assert mirror.config.mirror_direct
    target = bench.engine.resolve(b"$JS.API.DIRECT.GET.A")
    assert target is not None
    assert target.stream is bench.engine.streams["A"]

    bench.ask("STREAM.DELETE.A")
    target = bench.engine.resolve(b"$JS.API.DIRECT.GET.A")

    assert target is not None
    assert target.stream is mirror
    (reply,) = bench.get(target.stream, b'{"seq":1}')
    assert b"Nats-Stream: M\r\n" in reply[3]
    assert bench.engine.resolve(b"$JS.API.DIRECT.GET.M") is None


def test_a_mirror_is_past_messages_deleted_before_it_came(bench: CopyBench) -> None:
    """ADR-53: a read that asks for their sequence is answered, by what exists."""
    bench.make("A", subjects=["a"], allow_direct=True)
    bench.put("A", b"a")
    bench.put("A", b"a")
    bench.ask("STREAM.MSG.DELETE.A", {"seq": 2})
    mirror = bench.make("M", mirror={"name": "A"}, allow_direct=True)

    (reply,) = bench.get(mirror, b'{"seq":1,"min_last_seq":2}')

    assert b"Nats-Min-Last-Sequence: 2\r\n" in reply[3]


def test_a_read_that_waits_for_a_mirror_is_answered_when_that_has_it(bench: CopyBench) -> None:
    origin = bench.make("A", subjects=["a"])
    mirror = bench.make("M", mirror={"name": "A"}, allow_direct=True)
    bench.store(origin, b"a", b"x")
    assert bench.get(mirror, b'{"seq":1,"min_last_seq":1}') == []

    bench.settle()

    (reply,) = bench.sent()
    assert b"Nats-Sequence: 1\r\n" in reply[3]


def test_rollups_and_ttls_count_where_the_mirror_allows_them(bench: CopyBench) -> None:
    bench.make("A", subjects=["a"], allow_rollup_hdrs=True, allow_msg_ttl=True)
    plain = bench.make("P", mirror={"name": "A"})
    allowing = bench.make("R", mirror={"name": "A"}, allow_rollup_hdrs=True, allow_msg_ttl=True)
    bench.put("A", b"a")

    bench.put("A", b"a", headers=b"NATS/1.0\r\nNats-Rollup: sub\r\nNats-TTL: 2s\r\n\r\n")

    assert [row[0] for row in rows(plain)] == [1, 2]
    assert [row[0] for row in rows(allowing)] == [2]
    bench.wait(3)
    bench.settle()
    assert [row[0] for row in rows(plain)] == [1, 2]
    assert rows(allowing) == []


def test_a_consumer_of_a_mirror_may_ask_for_any_subject(bench: CopyBench) -> None:
    """As nats-server: what a mirror will hold is not known from its configuration."""
    bench.make("A", subjects=["a.>"])
    bench.make("M", mirror={"name": "A"})

    answers = [
        bench.ask(
            f"CONSUMER.CREATE.M.c{n}",
            {
                "stream_name": "M",
                "config": {"name": f"c{n}", "ack_policy": "explicit", "filter_subject": subject},
            },
        )
        for n, subject in enumerate(["a.1", "elsewhere"])
    ]

    assert not any("error" in answer for answer in answers)


@pytest.mark.parametrize("lead", [7_258_118_400 * SECOND - START, 3600 * SECOND, -3600 * SECOND])
def test_a_mirror_of_a_stream_with_another_clock_has_its_times_and_ages_by_its_own(
    bench: CopyBench, lead: int
) -> None:
    """Previously what came from a clock ahead stayed until this one had caught up."""
    bench.now = START + lead
    origin = bench.make("A", subjects=["a.>"])
    bench.put("A", b"a.1")
    bench.now = START
    bench.restart()
    bench.put("A", b"a.2")
    origin = bench.engine.streams["A"]
    mirror = bench.make("M", mirror={"name": "A"}, max_age=60 * SECOND)
    bench.wait(30)
    bench.put("A", b"a.3")
    late = bench.make("LATE", mirror={"name": "A"}, max_age=60 * SECOND)
    found = times(mirror), times(late)
    bench.wait(29)
    before = len(rows(mirror))
    bench.wait(2)
    after = len(rows(mirror))
    bench.wait(30)

    assert found[0][-1] == found[1][-1] == times(origin)[-1]
    # A slow clock makes what it stored look old, a fast clock never makes it look young.
    assert (before, after, len(rows(mirror))) == ((3, 1, 0) if lead > 0 else (2, 1, 0))


class Raising:
    """An origin that raises what no one expects, once."""

    def __init__(self, origin: Origin, after: int) -> None:
        self._origin = origin
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._origin, name)

    def after(self, position: int) -> object:
        if position == self._after:
            self._after = -1
            raise RuntimeError("a mistake of ours")
        return self._origin.after(position)


def test_an_unexpected_error_in_one_copy_costs_neither_it_nor_others_a_message(
    bench: CopyBench,
) -> None:
    """A step of it is in flight to the disk: what comes after has other sequences."""
    origin = bench.make("A", subjects=["a.>"])
    mirrors = [bench.make(name, mirror={"name": "A"}) for name in ("M", "N")]
    first = mirrors[0].copies[0]
    first.set_origin(Raising(first.origin, 1))
    bench.put_only(origin, b"a.1")
    bench.turn()
    bench.submit()  # the first step of both is in flight
    bench.publish(origin, b"a.2", b"x")
    bench.engine.mark_dirty(origin)
    for stream, group in bench.engine.take_groups(bench.now):
        assert stream is origin
        assert isinstance(group, Group)
        assert write(bench.files, group) is None
        bench.engine.committed(stream, bench.outbox, bench.now)

    bench.turn()
    bench.settle()
    bench.wait(5)
    bench.settle()

    assert bench.engine.failures.count == 1
    for mirror in mirrors:
        assert rows(mirror) == rows(origin)
