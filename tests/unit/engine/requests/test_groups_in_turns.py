"""A group that a slow disk let grow is applied in several turns, and no decision depends on that.

Two engines get the same requests. One applies each group at once, after everything that comes
while it is in flight; the other in the smallest steps, with those requests in between. Decisions
are about what is staged, so all answers are the same.
"""

from __future__ import annotations

import errno
import json
from random import Random
from typing import Any

import pytest
from tests.support.disk.paths import KeptPath
from tests.unit.engine.conftest import Bench

from jetspark.api.enums import Discard
from jetspark.api.stream import StreamConfig
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.settings import EngineSettings
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.replies import ACKS_PER_TURN, ENTRIES_PER_TURN
from jetspark.engine.stream.room import Room
from jetspark.engine.stream.stream import Stream
from jetspark.store.committer import write
from jetspark.store.log.staged import GATHERED_AT_ONCE
from jetspark.store.log.stream_log import Group
from jetspark.units import Nanoseconds

SUBJECTS = (b"s.a.1", b"s.a.2", b"s.b.1", b"s.b.2", b"s.c")
PURGES: tuple[dict[str, object], ...] = (
    {"filter": "s.a.*"}, {"filter": "s.a.1"}, {"filter": "s.*.1", "keep": 2}, {"filter": "s.none"},
    {"filter": "s.*.none"}, {"seq": 5}, {"keep": 3}, {"filter": "s.b.>", "seq": 40}, {},
)  # fmt: skip
ROLLUP = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"


class Sides:
    """An engine that applies groups at once, and one that does it in steps."""

    def __init__(self, **config: Any) -> None:
        self.benches = [Bench(KeptPath(f"/store{n}")) for n in range(2)]
        self.streams: list[Stream] = []
        self.waiting = 0
        for bench, units in zip(self.benches, (1 << 40, 1), strict=True):
            bench.engine.change_settings(EngineSettings(applied_per_turn=units))
            wanted = StreamConfig(
                name="S", subjects=("s.>",), allow_rollup_hdrs=True, allow_direct=True, **config
            )
            self.streams.append(bench.engine.create_stream(prepared(wanted), bench.now))
        self.answers: list[list[tuple[bytes, bytes]]] = [[], []]
        self.asked = 0
        self.steps = 0

    def publish(self, subject: bytes, headers: bytes = b"") -> None:
        self.asked += 1
        for bench, stream in zip(self.benches, self.streams, strict=True):
            bench.publish(stream, subject, b"x", b"r.%d" % self.asked, headers)

    def check_room(self) -> None:
        """What was counted subject by subject is what a count of all of them finds."""
        for stream in self.streams:
            room = stream.checks.room
            room.follow()
            if room.left is not None:
                again = Room(room.rules, stream.log)
                again.count_again()
                assert room.open.replaced == again.open.replaced

    def request(self, verb: bytes, body: object) -> None:
        self.asked += 1
        raw = json.dumps(body).encode()
        for bench in self.benches:
            reply = b"r.%d" % self.asked
            handle(bench.engine, verb + b".S", raw, reply, bench.now, bench.outbox)

    def take(self) -> None:
        """The disk gets a group, and writes it."""
        for bench in self.benches:
            bench.now += 1000
            for stream, group in bench.engine.take_groups(bench.now):
                assert isinstance(group, Group)
                assert write(stream.log.segments.files, group) is None
        self.waiting = 2

    def step(self) -> bool:
        """Apply one more step in the second engine; True when that was the last."""
        if self.waiting < 2:
            return True
        stream, bench = self.streams[1], self.benches[1]
        if stream.log.staged.in_flight is None:
            self.waiting = 1
            return True
        self.steps += 1
        before = stream.log.staged.messages, stream.log.staged.size
        done = bench.engine.committed(stream, bench.outbox, bench.now)
        if not self.streams[1].config.max_msgs_per_subject > 0:
            assert (stream.log.staged.messages, stream.log.staged.size) == before
        if done:
            self.waiting = 1
        return done

    def land(self) -> None:
        """The first engine applies the group at once, and the second one the rest of it."""
        while not self.step():
            pass
        stream, bench = self.streams[0], self.benches[0]
        if stream.log.staged.in_flight is not None:
            assert bench.engine.committed(stream, bench.outbox, bench.now)
        self.waiting = 0
        for side, other in zip(self.benches, self.answers, strict=True):
            for entry in side.sent():
                if entry[0].startswith(b"r."):
                    # Why a message does not exist is said as of what is durable.
                    missing = b"msg_delete_response" in entry[4] and b'"error"' in entry[4]
                    other.append((entry[0], b"missing" if missing else entry[4]))

    def compare(self) -> None:
        assert sorted(self.answers[0]) == sorted(self.answers[1])
        one, other = (
            [
                (seq, index.entries[int(columns.subjects[seq - int(columns.base)])].subject)
                for seq in range(1, int(index.last_seq) + 1)
                if (columns := index.segment_of(seq)) is not None
                and columns.offsets[seq - int(columns.base)] >= 0
            ]
            for stream in self.streams
            for index in [stream.log.index]
        )
        assert one == other
        first, second = (stream.log.staged for stream in self.streams)
        assert (first.messages, first.size) == (second.messages, second.size)

    def close(self) -> None:
        for bench in self.benches:
            bench.close()


def act(sides: Sides, random: Random, *, removals: bool) -> None:
    """Do one thing on both sides."""
    kind = random.randrange(12)
    if kind < 7 or (not removals and kind < 11):
        sides.publish(random.choice(SUBJECTS))
    elif kind < 8 or not removals:
        sides.publish(random.choice(SUBJECTS), ROLLUP)
    elif kind < 10:
        newest = int(sides.streams[0].log.staged.seq)
        sides.request(
            b"STREAM.MSG.DELETE", {"seq": random.randint(max(1, newest - 12), newest + 1)}
        )
    else:
        sides.request(b"STREAM.PURGE", random.choice(PURGES))


def walk(sides: Sides, seed: int, *, removals: bool) -> None:
    random = Random(seed)
    for _ in range(12):
        for _ in range(random.randint(1, 12)):
            act(sides, random, removals=removals)
        sides.take()
        for _ in range(random.randint(0, 12)):
            sides.step()
            act(sides, random, removals=removals)
            sides.check_room()
        sides.land()
    while any(bench.engine.dirty for bench in sides.benches):
        sides.take()
        sides.land()
    sides.compare()
    assert len(sides.answers[0]) == sides.asked
    assert sides.steps > 15


@pytest.mark.parametrize("seed", range(25))
def test_decisions_do_not_depend_on_how_far_a_group_was_applied(seed: int) -> None:
    sides = Sides()
    walk(sides, seed, removals=True)
    for bench in sides.benches:
        bench.restart()
    sides.streams = [bench.engine.streams["S"] for bench in sides.benches]
    sides.compare()
    sides.close()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    "config",
    [
        {"max_msgs_per_subject": 2, "discard": Discard.NEW, "max_msgs": 8},
        {"max_msgs_per_subject": 3, "discard": Discard.NEW, "discard_new_per_subject": True},
        {"max_msgs": 20, "discard": Discard.NEW},
    ],
)
def test_a_stream_that_refuses_what_is_too_much_counts_the_same(
    seed: int, config: dict[str, Any]
) -> None:
    sides = Sides(**config)
    walk(sides, seed, removals=False)
    assert any(b"error" in body for _, body in sides.answers[0])
    sides.close()


def publish_many(bench: Bench, stream: Stream, count: int) -> None:
    for n in range(count):
        bench.publish(stream, b"s.%d.x" % n, b"x", b"r.%d" % n)


def test_the_disk_may_fail_while_replies_of_earlier_failures_are_sent(bench: Bench) -> None:
    """Very many refusals are sent in several turns, each once."""
    stream = bench.create()
    publish_many(bench, stream, 3 * ENTRIES_PER_TURN)
    bench.submit()
    publish_many(bench, stream, 10)

    bench.fail(OSError(errno.EIO, "the disk"))

    refused = [entry[0] for entry in bench.sent()]
    assert len(refused) <= ENTRIES_PER_TURN + 1
    while bench.engine.operations.has_ready():
        bench.engine.operations.handle_ready(bench.now, bench.outbox)
        some = [entry[0] for entry in bench.sent()]
        assert len(some) <= ENTRIES_PER_TURN
        refused += some
    assert len(refused) == 3 * ENTRIES_PER_TURN + 10
    assert stream.log.index.messages == stream.log.staged.messages == 0


def test_very_many_replies_are_sent_in_several_turns(bench: Bench) -> None:
    stream = bench.create()
    publish_many(bench, stream, 3 * ACKS_PER_TURN)
    bench.submit()
    ((_, group),) = bench.on_the_way
    assert write(stream.log.segments.files, group) is None
    sent: list[int] = []
    while not bench.engine.committed(stream, bench.outbox, bench.now):
        sent.append(len(bench.sent()))
    sent.append(len(bench.sent()))
    assert sum(sent) == 3 * ACKS_PER_TURN
    assert max(sent) <= ACKS_PER_TURN
    assert stream.log.index.messages == 3 * ACKS_PER_TURN


def test_no_reply_is_sent_before_its_group_is_applied(bench: Bench) -> None:
    """And readers see an atomic batch as a whole."""
    bench.engine.change_settings(EngineSettings(applied_per_turn=1))
    stream = bench.create()
    staged = stream.log.staged
    bench.publish(stream, b"s.first", b"x", b"r.1")
    staged.begin_batch()
    for n in range(5):
        staged.add_message(b"s.%d" % n, 0, b"x\r\n", bench.now)
    staged.end_batch()
    bench.publish(stream, b"s.last", b"x", b"r.2")
    bench.submit()
    ((_, group),) = bench.on_the_way
    assert write(stream.log.segments.files, group) is None

    seen: list[int] = []
    while not bench.engine.committed(stream, bench.outbox, bench.now):
        seen.append(int(stream.log.index.messages))
        assert bench.sent() == [] or seen[-1] == 7

    assert seen[:2] == [1, 6]
    assert stream.log.index.messages == 7


def test_a_stream_is_removed_when_its_group_was_applied(bench: Bench) -> None:
    bench.engine.change_settings(EngineSettings(applied_per_turn=1))
    stream = bench.create()
    publish_many(bench, stream, 10)
    bench.submit()
    handle(bench.engine, b"STREAM.DELETE.S", b"", b"gone", bench.now, bench.outbox)
    publish_many(bench, stream, 10)
    ((_, group),) = bench.on_the_way
    assert write(stream.log.segments.files, group) is None
    while not bench.engine.committed(stream, bench.outbox, bench.now):
        assert "S" in bench.engine.streams
    assert "S" not in bench.engine.streams
    bodies = {
        entry[0]: entry[4] for entry in bench.sent() if entry[0].startswith((b"r.", b"gone"))
    }
    assert b'"success":true' in bodies[b"gone"]
    assert len(bodies) == 11


def test_very_many_staged_messages_are_read_in_turns_for_a_purge(bench: Bench) -> None:
    """The group may land meanwhile, and more messages may come."""
    count = 3 * int(GATHERED_AT_ONCE)
    for landing in (False, True):
        stream = bench.create(f"S{landing}", f"s{landing}.>")
        subject = b"s%b." % str(landing).encode()
        for n in range(count):
            stream.log.staged.add_message(subject + b"%d.x" % n, 0, b"x\r\n", bench.now)
        bench.engine.mark_dirty(stream)
        bench.submit()
        body = b'{"filter":"%b*.x","keep":5}' % subject
        verb = b"STREAM.PURGE." + stream.name
        handle(bench.engine, verb, body, b"purged", bench.now, bench.outbox)
        turns = 0
        while stream.log.staged.seen is None and bench.engine.operations.has_ready():
            bench.engine.operations.handle_ready(bench.now, bench.outbox)
            stream.log.staged.add_message(subject + b"late.y", 0, b"x\r\n", bench.now)
            turns += 1
            if landing and turns == 2:
                bench.land()
        while bench.engine.dirty or bench.on_the_way or bench.engine.operations.has_ready():
            bench.submit()
            if bench.on_the_way:
                bench.land()
            bench.engine.operations.handle_ready(bench.now, bench.outbox)
        (answer,) = [json.loads(entry[4]) for entry in bench.sent() if entry[0] == b"purged"]
        assert answer["purged"] == count - 5
        assert landing or turns >= 3
        assert stream.log.index.messages == stream.log.staged.messages == turns + 5


def test_a_server_that_stops_while_a_group_is_applied_loses_nothing_of_it(bench: Bench) -> None:
    bench.engine.change_settings(EngineSettings(applied_per_turn=3))
    stream = bench.create()
    publish_many(bench, stream, 10)
    stream.log.staged.delete(2)
    bench.submit()
    ((_, group),) = bench.on_the_way
    assert write(stream.log.segments.files, group) is None
    assert not bench.engine.committed(stream, bench.outbox, bench.now)
    assert 0 < stream.log.index.messages < 9

    bench.restart()

    index = bench.engine.streams["S"].log.index
    assert index.messages == 9
    assert index.last_seq == 10
    assert bench.engine.streams["S"].log.missing == []


def test_nothing_expires_while_a_group_is_applied(bench: Bench) -> None:
    """It does afterwards."""
    bench.engine.change_settings(EngineSettings(applied_per_turn=3))
    config = StreamConfig(name="S", subjects=("s.>",), max_age=Nanoseconds(10**9))
    stream = bench.engine.create_stream(prepared(config), bench.now)
    publish_many(bench, stream, 10)
    bench.submit()
    bench.land()
    publish_many(bench, stream, 10)
    bench.submit()
    ((_, group),) = bench.on_the_way
    assert write(stream.log.segments.files, group) is None
    assert not bench.engine.committed(stream, bench.outbox, bench.now)
    before = int(stream.log.index.messages)

    bench.wait(2)
    assert stream.log.index.messages == before
    while not bench.engine.committed(stream, bench.outbox, bench.now):
        pass
    bench.wait(2)
    assert stream.log.index.messages == stream.log.staged.messages == 0


def test_what_a_new_limit_evicts_is_not_subtracted_again_for_a_staged_purge(bench: Bench) -> None:
    """The limit of messages would be exceeded by as many."""
    stream = bench.create()
    publish_many(bench, stream, 10)
    bench.submit()
    bench.land()
    lower = StreamConfig(name="S", subjects=("s.>",), max_msgs=3, max_msgs_per_subject=2)
    bench.engine.update_stream(stream, prepared(lower))
    bench.submit()
    stream.log.staged.purge(0, b"", 0)
    bench.engine.mark_dirty(stream)

    bench.land()

    assert stream.log.index.messages == 3
    assert stream.log.staged.messages == 0
    assert stream.log.staged.size == 0


def test_what_expires_while_its_purge_is_staged_makes_no_room_beyond_the_limit(
    bench: Bench,
) -> None:
    config = StreamConfig(
        name="S",
        subjects=("s.>",),
        discard=Discard.NEW,
        max_msgs=5,
        max_msgs_per_subject=4,
        max_age=Nanoseconds(10**9),
    )
    stream = bench.engine.create_stream(prepared(config), bench.now)
    for n in range(5):
        bench.publish(stream, b"s.%d" % (n // 4), b"x", b"r.%d" % n)
    bench.submit()
    bench.land()
    stream.log.staged.purge(0, b"s.*", 0)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.publish(stream, b"s.0", b"x", b"r.5")
    bench.wait(2)
    assert stream.log.index.messages == 0
    assert stream.log.staged.messages == 1

    for n in range(6, 16):
        bench.publish(stream, b"s.%d" % n, b"x", b"r.%d" % n)
    while bench.engine.dirty or bench.on_the_way:
        bench.submit()
        bench.land()

    assert stream.log.index.messages == 5


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_rollup_is_decided_after_a_failure_of_very_many_messages(
    bench: Bench, error: int
) -> None:
    """Their sequences are not assigned again: there are many without a staged message."""
    config = StreamConfig(name="S", subjects=("s.>",), allow_rollup_hdrs=True)
    stream = bench.engine.create_stream(prepared(config), bench.now)
    publish_many(bench, stream, 2 * int(GATHERED_AT_ONCE))
    bench.submit()
    bench.fail(OSError(error, "the disk"))
    stream.log.access.set_full(False)
    assert not stream.log.access.failed or stream.log.reopen()

    turns = 0
    while not stream.log.gather_some():
        turns += 1
        assert turns < 10

    bench.store(stream, b"s.1", b"x", ROLLUP)
    assert stream.log.index.messages == 1


@pytest.mark.parametrize(("others", "purge_step"), [(0, 20_000), (400, 20_000), (0, 2)])
def test_a_purge_that_keeps_messages_does_not_count_those_that_staged_ones_evict(
    bench: Bench, others: int, purge_step: int
) -> None:
    """Else decisions would not see messages that it keeps: a key would be created twice.

    With many other subjects it follows chains, and with small steps it is a long purge.
    """
    bench.engine.change_settings(EngineSettings(purge_step=purge_step))
    config = StreamConfig(name="S", subjects=("s.>",), max_msgs_per_subject=1)
    stream = bench.engine.create_stream(prepared(config), bench.now)
    for n in range(others):
        bench.publish(stream, b"s.other.%d" % n, b"x")
    for subject in (b"s.k.1", b"s.k.2", b"s.k.3", b"s.k.4", b"s.k.5", b"s.k.6"):
        bench.publish(stream, subject, b"x")
    bench.submit()
    bench.land()
    for _ in range(3):
        bench.publish(stream, b"s.k.6", b"x")

    handle(
        bench.engine, b"STREAM.PURGE.S", b'{"filter":"s.k.*","keep":5}', b"purged", bench.now,
        bench.outbox,
    )  # fmt: skip
    created = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
    bench.publish(stream, b"s.k.2", b"twice", b"created", created)
    while bench.engine.dirty or bench.on_the_way or bench.engine.operations.has_ready():
        bench.submit()
        if bench.on_the_way:
            bench.land()
        bench.engine.operations.handle_ready(bench.now, bench.outbox)

    answers = {entry[0]: json.loads(entry[4]) for entry in bench.sent()}
    assert answers[b"created"]["error"]["err_code"] == 10071
    assert answers[b"purged"]["purged"] == 1
    assert stream.log.index.messages == others + 5
