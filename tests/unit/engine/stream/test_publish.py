"""Publishing: what an acknowledgement waits for (contracts.md, Commit)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


def test_an_ack_goes_out_only_when_its_group_is_on_disk(bench: Bench) -> None:
    """Every reply that stands on a decision waits for that decision."""
    stream = bench.create()
    bench.publish(stream, b"s.1", b"hello", reply=b"r.1")
    assert bench.sent() == []
    bench.submit()
    assert bench.sent() == []

    bench.land()

    assert bench.sent() == [(b"r.1", b"r.1", b"", b"", b'{"stream":"S","seq":1}')]


def test_a_publish_without_reply_is_stored_and_not_answered(bench: Bench) -> None:
    stream = bench.create()
    bench.store(stream, b"s.1", b"hello")

    assert bench.sent() == []
    assert stream.log.index.messages == 1


def test_nothing_is_visible_before_it_is_durable(bench: Bench) -> None:
    """Everything a reader can see uses durable state."""
    stream = bench.create()
    bench.publish(stream, b"s.1", b"hello")
    bench.submit()

    (not_found,) = bench.get(stream, b'{"seq":1}')
    assert not_found[3].startswith(b"NATS/1.0 404 ")
    assert b'"messages":0' in bench.request(b"STREAM.INFO.S")

    bench.land()

    (found,) = bench.get(stream, b'{"seq":1}')
    assert found[4] == b"hello"


def test_the_next_group_fills_while_one_is_in_flight(bench: Bench) -> None:
    stream = bench.create()
    bench.publish(stream, b"s.1", b"1", reply=b"r.1")
    bench.submit()
    bench.publish(stream, b"s.1", b"2", reply=b"r.2")
    bench.publish(stream, b"s.1", b"3", reply=b"r.3")
    bench.submit()
    assert len(bench.on_the_way) == 1

    bench.land()
    assert [entry[0] for entry in bench.sent()] == [b"r.1"]
    bench.submit()
    bench.land()

    assert [entry[0] for entry in bench.sent()] == [b"r.2", b"r.3"]


def test_streams_commit_in_any_order(bench: Bench) -> None:
    first, second = bench.create("A", "a"), bench.create("B", "b")
    bench.publish(first, b"a", b"1", reply=b"r.a")
    bench.publish(second, b"b", b"1", reply=b"r.b")
    bench.submit()
    bench.on_the_way.reverse()

    bench.land()
    bench.land()

    assert [entry[4] for entry in bench.sent()] == [
        b'{"stream":"B","seq":1}',
        b'{"stream":"A","seq":1}',
    ]


def test_a_full_disk_is_an_error_reply_and_numbers_are_not_used_again(bench: Bench) -> None:
    """GroupReplies replies become 10023; a skip record covers the numbers."""
    stream = bench.create()
    bench.store(stream, b"s.1", b"kept")
    bench.publish(stream, b"s.1", b"lost", reply=b"r.1")
    bench.submit()
    bench.publish(stream, b"s.1", b"lost too", reply=b"r.2")

    bench.fail(OSError(errno.ENOSPC, "No space left on device"))

    replies = bench.sent()
    assert [entry[0] for entry in replies] == [b"r.1", b"r.2"]
    assert all(b'"err_code":10023' in entry[4] and b'"seq":0' in entry[4] for entry in replies)

    bench.publish(stream, b"s.1", b"after", reply=b"r.3")
    bench.submit()
    bench.land()
    assert bench.sent()[0][4] == b'{"stream":"S","seq":4}'

    bench.restart()
    stream = bench.engine.streams["S"]
    assert [bench.get(stream, b'{"seq":%d}' % n)[0][4] for n in (1, 2, 3, 4)] == [
        b"kept", b"", b"", b"after",
    ]  # fmt: skip


def test_any_other_disk_error_makes_the_stream_read_only(bench: Bench) -> None:
    """The same with 10077, and the stream is read-only until it was reopened."""
    stream = bench.create()
    bench.store(stream, b"s.1", b"kept")
    bench.publish(stream, b"s.1", b"lost", reply=b"r.1")
    bench.submit()

    bench.fail(OSError(errno.EIO, "Input/output error"))
    bench.publish(stream, b"s.1", b"refused", reply=b"r.2")

    replies = bench.sent()
    assert [entry[0] for entry in replies] == [b"r.1", b"r.2"]
    assert all(b'"err_code":10077' in entry[4] for entry in replies)
    assert bench.get(stream, b'{"seq":1}')[0][4] == b"kept"


def test_user_headers_are_stored_and_a_status_line_is_not(bench: Bench) -> None:
    """A status line in published headers is removed before storing."""
    stream = bench.create()
    bench.store(stream, b"s.1", b"x", headers=b"NATS/1.0 503 Gone\r\nA: 1\r\n\r\n")

    (entry,) = bench.get(stream, b'{"seq":1}')

    assert entry[3].startswith(b"NATS/1.0\r\nA: 1\r\nNats-Stream: S\r\n")


def test_headers_over_64_kib_are_refused(bench: Bench) -> None:
    """Header block limit 64 KiB (10097)."""
    stream = bench.create()

    bench.publish(
        stream, b"s.1", b"x", reply=b"r.1", headers=b"NATS/1.0\r\nA: " + b"a" * 65536 + b"\r\n\r\n"
    )

    assert b'"err_code":10097' in bench.sent()[0][4]


def test_acknowledged_messages_survive_a_restart(bench: Bench) -> None:
    stream = bench.create()
    for n in range(50):
        bench.store(stream, b"s.%d" % (n % 7), b"payload %d" % n)
    bench.publish(stream, b"s.1", b"never committed")

    bench.restart()

    stream = bench.engine.streams["S"]
    assert stream.log.index.messages == 50
    assert bench.get(stream, b'{"seq":50}')[0][4] == b"payload 49"
    assert bench.get(stream, b'{"last_by_subj":"s.3"}')[0][4] == b"payload 45"


def test_a_subject_that_no_record_can_hold_is_refused(bench: Bench) -> None:
    stream = bench.create("S", "s.>")

    bench.publish(stream, b"s." + b"x" * 65_535, b"x", b"r")
    (reply,) = bench.sent()

    assert b"subject exceeds maximum of 65535 bytes" in reply[4]
    assert stream.log.staged.seq == 0
