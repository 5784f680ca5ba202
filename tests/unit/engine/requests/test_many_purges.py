"""Many purges on a slow disk: a group is applied in one turn, so it gets a few turns' worth."""

from __future__ import annotations

import errno
import json

from tests.unit.engine.conftest import Bench

from jetspark.engine.requests.dispatch import handle
from jetspark.engine.settings import EngineSettings
from jetspark.engine.stream.stream import Stream

MESSAGES = 300
# A group has about ten purges with wildcards in a stream of so many messages.
PURGES = 60
REMOVALS = 250


def stored(bench: Bench) -> Stream:
    """A stream with messages that are not on disk yet, and a low limit for its groups."""
    bench.engine.change_settings(EngineSettings(group_removals=REMOVALS))
    stream = bench.create()
    for n in range(MESSAGES):
        stream.log.staged.add_message(b"s.%d.x" % (n % 5), 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    return stream


def purge(bench: Bench, body: bytes, reply: bytes) -> None:
    handle(bench.engine, b"STREAM.PURGE.S", body, reply, bench.now, bench.outbox)


def purge_many(bench: Bench) -> None:
    for n in range(PURGES):
        purge(bench, b'{"filter":"s.*.q%d"}' % n, b"%d" % n)


def land_all(bench: Bench) -> list[int]:
    """Let the disk write everything; return how many requests each group answered."""
    answered: list[int] = []
    while bench.engine.dirty or bench.on_the_way:
        before = len(bench.outbox.now)
        if bench.engine.dirty:
            bench.submit()
        if bench.on_the_way:
            bench.land()
        answered.append(len(bench.outbox.now) - before)
        while bench.engine.operations.handle_ready(bench.now, bench.outbox):
            pass
    return answered


def test_a_group_has_few_purges_of_a_long_stream(bench: Bench) -> None:
    stored(bench)
    purge_many(bench)

    answered = land_all(bench)

    assert sum(answered) == PURGES
    assert max(answered) < PURGES // 3
    assert [entry[0] for entry in bench.sent()] == [b"%d" % n for n in range(PURGES)]


def test_purges_that_wait_come_before_what_was_stored_after_them(bench: Bench) -> None:
    """They remove what they would have removed at once, also after the next start."""
    stream = stored(bench)
    purge_many(bench)
    purge(bench, b'{"filter":"s.*.x"}', b"last")
    bench.publish(stream, b"s.new.x", b"y")
    bench.publish(stream, b"s.newer.x", b"y")

    land_all(bench)

    replies = {entry[0]: json.loads(entry[4]) for entry in bench.sent() if entry[4]}
    assert replies[b"last"]["purged"] == MESSAGES
    assert stream.log.index.messages == stream.log.staged.messages == 2
    bench.restart()
    assert bench.engine.streams["S"].log.index.messages == 2


def test_purges_that_keep_some_count_as_of_their_request(bench: Bench) -> None:
    stream = stored(bench)
    purge_many(bench)
    purge(bench, b'{"keep":3}', b"keep")
    bench.publish(stream, b"s.new.x", b"y")

    land_all(bench)

    replies = {entry[0]: json.loads(entry[4]) for entry in bench.sent() if entry[4]}
    assert replies[b"keep"]["purged"] == MESSAGES - 3
    assert stream.log.index.messages == 4


def test_few_purges_wait_for_nothing(bench: Bench) -> None:
    stored(bench)
    bench.land()
    for n in range(5):
        purge(bench, b'{"filter":"s.*.q%d"}' % n, b"%d" % n)

    bench.submit()
    bench.land()

    assert len(bench.sent()) == 5


def test_purges_that_wait_are_handled_when_the_disk_failed(bench: Bench) -> None:
    stored(bench)
    purge_many(bench)

    bench.fail(OSError(errno.EIO, "the disk"))
    while bench.engine.operations.handle_ready(bench.now, bench.outbox):
        pass

    replies = [json.loads(entry[4]) for entry in bench.sent() if entry[4]]
    assert len(replies) == PURGES
    assert all("error" in reply for reply in replies)


def test_requests_about_other_streams_do_not_wait_for_purges(bench: Bench) -> None:
    stored(bench)
    purge_many(bench)
    bench.outbox.now.clear()
    handle(bench.engine, b"STREAM.NAMES", b"", b"names", bench.now, bench.outbox)

    assert [entry[0] for entry in bench.sent()] == [b"names"]
