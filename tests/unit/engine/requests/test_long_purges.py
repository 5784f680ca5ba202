"""Purges that look at many messages do not stop everyone else (contracts.md, Commit)."""

from __future__ import annotations

import json

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.engine.requests.dispatch import handle
from jetspark.engine.settings import EngineSettings
from jetspark.store.log.subject_purge import rare_entries

STEP = 300
COUNT = 3 * STEP + 10


@pytest.fixture(autouse=True)
def _short_steps(bench: Bench) -> None:
    bench.engine.change_settings(EngineSettings(purge_step=STEP))


@pytest.fixture
def long(bench: Bench) -> Bench:
    """A stream that is too long for one turn."""
    stream = bench.create()
    for _ in range(COUNT):
        stream.log.staged.add_message(b"s.a", 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()
    return bench


def ask(bench: Bench, body: bytes) -> int:
    """Send a purge and let it continue; how many groups it took. The answer is in the outbox."""
    handle(bench.engine, b"STREAM.PURGE.S", body, b"r", bench.now, bench.outbox)
    groups = 0
    while not bench.outbox.now:
        bench.submit()
        bench.land()
        groups += 1
    return groups


@pytest.mark.parametrize(("body", "left"), [(b'{"seq":%d}' % (COUNT - 4), 5), (b'{"keep":7}', 7)])
def test_a_long_purge_goes_in_steps_and_is_answered_at_its_end(
    long: Bench, body: bytes, left: int
) -> None:
    groups = ask(long, body)

    (reply,) = long.sent()
    assert json.loads(reply[4])["purged"] == COUNT - left
    assert groups >= 3
    assert long.engine.streams["S"].log.index.messages == left
    long.restart()
    assert long.engine.streams["S"].log.index.messages == left


def test_what_is_published_meanwhile_stays(long: Bench) -> None:
    stream = long.engine.streams["S"]
    handle(long.engine, b"STREAM.PURGE.S", b'{"keep":1}', b"r", long.now, long.outbox)
    long.submit()
    long.publish(stream, b"s.new", b"y")

    while long.engine.dirty or long.on_the_way:
        long.submit()
        long.land()

    assert stream.log.index.messages == 2
    assert json.loads(long.sent()[-1][4])["purged"] == COUNT - 1


def test_a_long_purge_with_a_filter_leaves_the_others(bench: Bench) -> None:
    stream = bench.create()
    for number in range(COUNT):
        stream.log.staged.add_message(b"s.%d.x" % (number % 3), 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()

    groups = ask(bench, b'{"filter":"s.*.x","keep":10}')
    (kept,) = bench.sent()
    more = ask(bench, b'{"filter":"s.1.>"}')

    assert json.loads(kept[4])["purged"] == COUNT - 10
    assert groups >= 3
    assert more == 1
    assert stream.log.index.messages == 10 - json.loads(bench.sent()[0][4])["purged"] == 7


def test_a_long_purge_of_some_subjects_leaves_the_others(bench: Bench) -> None:
    stream = bench.create()
    for number in range(COUNT):
        stream.log.staged.add_message(b"s.%d.x" % (number % 3), 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()

    groups = ask(bench, b'{"filter":"s.1.*"}')

    gone = COUNT // 3
    assert json.loads(bench.sent()[0][4])["purged"] == gone
    assert groups >= 3
    assert stream.log.index.messages == COUNT - gone
    bench.restart()
    assert bench.engine.streams["S"].log.index.messages == COUNT - gone


def test_a_purge_of_everything_is_one_step(long: Bench) -> None:
    assert ask(long, b"") == 1
    assert json.loads(long.sent()[0][4])["purged"] == COUNT


def test_a_stream_that_is_deleted_ends_its_purge(long: Bench) -> None:
    handle(long.engine, b"STREAM.PURGE.S", b'{"keep":1}', b"r", long.now, long.outbox)

    handle(long.engine, b"STREAM.DELETE.S", b"", b"d", long.now, long.outbox)

    answers = {entry[0]: json.loads(entry[4]) for entry in long.sent()}
    assert answers[b"r"]["error"]["err_code"] == 10110
    assert answers[b"d"]["success"] is True


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"filter":"s.key"}', []), (b'{"filter":"s.key","keep":2}', [902, 1002]),
        (b'{"filter":"s.key","seq":702}', [702, 802, 902, 1002]),
        (b'{"filter":"s.key","keep":10}', list(range(102, 1003, 100))),
    ],
)  # fmt: skip
def test_one_subject_of_many_is_purged_by_its_chain(
    bench: Bench, body: bytes, left: list[int]
) -> None:
    stream = bench.create()
    for number in range(1, 1003):
        subject = b"s.key" if number % 100 == 2 and number > 2 else b"s.other"
        stream.log.staged.add_message(subject, 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()
    assert rare_entries(stream.log.index, b"s.key") is not None

    answer = json.loads(bench.request(b"STREAM.PURGE.S", body))

    assert answer["purged"] == 10 - len(left)
    for _ in range(2):
        mask = bench.engine.streams["S"].log.index.mask_for(b"s.key")
        index = bench.engine.streams["S"].log.index
        assert [n for n in range(1, 1003) if index.next_seq(n, mask) == n] == left
        assert index.messages == 1002 - 10 + len(left)
        bench.restart()


def test_messages_in_flight_are_purged_with_their_subject(bench: Bench) -> None:
    stream = bench.create()
    for _ in range(200):
        bench.publish(stream, b"s.other", b"x")
    bench.publish(stream, b"s.key", b"x")
    bench.submit()
    bench.land()
    bench.publish(stream, b"s.key", b"x")
    bench.submit()
    bench.publish(stream, b"s.key", b"x")

    handle(bench.engine, b"STREAM.PURGE.S", b'{"filter":"s.key"}', b"r", bench.now, bench.outbox)
    while bench.engine.dirty or bench.on_the_way:
        bench.submit()
        bench.land()

    assert json.loads(bench.sent()[-1][4])["purged"] == 3
    assert stream.log.index.messages == 200
    assert stream.log.staged.messages == 200


def test_consumers_are_past_what_a_long_purge_took(long: Bench) -> None:
    create = (
        b'{"stream_name":"S","config":{"name":"c","durable_name":"c","ack_policy":"explicit"}}'
    )
    long.request(b"CONSUMER.CREATE.S.c", create)

    ask(long, b'{"keep":7}')
    long.sent()
    info = json.loads(long.request(b"CONSUMER.INFO.S.c"))

    assert info["num_pending"] == 7
