"""multi_last (ADR-31, multi-subject requests): the example of the document, pages, reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.disk.paths import KeptPath
from tests.unit.engine.conftest import Bench

from jetspark.api.stream import StreamConfig
from jetspark.engine.stream.config import prepared
from jetspark.headers.block import decode_headers
from jetspark.store.memory import MemoryFiles

if TYPE_CHECKING:
    from jetspark.engine.stream.stream import Stream

PUTS = [
    (b"name", b"Bob"),
    (b"surname", b"Smith"),
    (b"address", b"1 Main Street"),
    (b"address", b"10 Oak Lane"),
]


@pytest.fixture
def users(bench: Bench) -> Stream:
    """The bucket of the document's example; puts are a second apart."""
    made = bench.create("KV_USERS", "$KV.USERS.>")
    for key, value in PUTS:
        bench.now += 1_000_000_000
        bench.store(made, b"$KV.USERS.1234." + key, value)
    return made


def read(bench: Bench, stream: Stream, body: bytes) -> tuple[list[bytes], bytes]:
    """The payloads, and the block that ended them."""
    bench.outlet.written.clear()
    sent = bench.get(stream, body)
    if sent:
        return [], sent[0][3]
    while bench.engine.advance():
        pass
    return [entry[3] for entry in bench.outlet.written[:-1]], bench.outlet.written[-1][2]


@pytest.mark.parametrize(
    ("more", "values", "up_to"),
    [
        (b"", [b"Bob", b"Smith", b"10 Oak Lane"], 4),
        (b',"up_to_seq":3', [b"Bob", b"Smith", b"1 Main Street"], 3),
        (b',"up_to_seq":99', [b"Bob", b"Smith", b"10 Oak Lane"], 4),
        (b',"up_to_time":"2025-11-15T07:00:03Z"', [b"Bob", b"Smith", b"1 Main Street"], 3),
        (b',"up_to_time":"2025-11-15T07:00:03.9Z"', [b"Bob", b"Smith", b"1 Main Street"], 3),
        (b',"up_to_time":"2030-01-01T00:00:00Z"', [b"Bob", b"Smith", b"10 Oak Lane"], 4),
    ],
    ids=str,
)
def test_subjects_are_read_as_they_were_at_one_point_in_time(
    bench: Bench, users: Stream, more: bytes, values: list[bytes], up_to: int
) -> None:
    """ADR-31's example of Bob; `up_to_time` is inclusive (decisions.md)."""
    payloads, end = read(bench, users, b'{"multi_last":["$KV.USERS.1234.>"]%s}' % more)

    assert payloads == values
    assert end.startswith(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n")
    assert end.endswith(b"Nats-UpTo-Sequence: %d\r\n\r\n" % up_to)


def test_what_is_replaced_before_it_was_read_is_not_missing(bench: Bench) -> None:
    """A subject that always had a message is in every answer, however busy the server is."""
    config = StreamConfig(name="KV_ONE", subjects=("$KV.ONE.>",), max_msgs_per_subject=1)
    stream = bench.engine.create_stream(prepared(config), bench.now)
    bench.store(stream, b"$KV.ONE.a", b"old")
    bench.store(stream, b"$KV.ONE.b", b"same")
    bench.get(stream, b'{"multi_last":["$KV.ONE.a","$KV.ONE.b"]}')

    bench.store(stream, b"$KV.ONE.a", b"new")
    while bench.engine.advance():
        pass

    *messages, end = bench.outlet.written
    assert [entry[3] for entry in messages] == [b"same", b"new"]
    assert b"Nats-UpTo-Sequence: 3\r\n" in end[2]


def test_pages_follow_each_other_at_one_point_in_time(bench: Bench, users: Stream) -> None:
    """`seq` is the cursor, `up_to_seq` keeps the point in time."""
    first, end = read(bench, users, b'{"multi_last":["$KV.USERS.>"],"batch":2}')
    headers = decode_headers(end)
    assert (first, headers.get("Nats-Num-Pending")) == ([b"Bob", b"Smith"], "1")
    bench.store(users, b"$KV.USERS.1234.address", b"moved again")

    cursor = int(headers.get("Nats-Last-Sequence") or 0) + 1
    up_to = int(headers.get("Nats-UpTo-Sequence") or 0)
    body = b'{"multi_last":["$KV.USERS.>"],"batch":2,"seq":%d,"up_to_seq":%d}' % (cursor, up_to)
    second, end = read(bench, users, body)

    assert second == [b"10 Oak Lane"]
    assert decode_headers(end).get("Nats-Num-Pending") == "0"


@pytest.mark.parametrize(
    "more", [b"", b',"up_to_seq":1', b',"up_to_time":"2025-11-15T07:00:00Z"'], ids=str
)
def test_nothing_is_no_results(bench: Bench, users: Stream, more: bytes) -> None:
    _, end = read(bench, users, b'{"multi_last":["$KV.USERS.1234.none"]%s}' % more)

    assert end == b"NATS/1.0 404 No Results\r\n\r\n"


def test_a_thousand_and_twenty_four_subjects_are_not_too_many(bench: Bench) -> None:
    """ADR-31: up to 1024; one more is 413, also for several patterns together."""
    stream = bench.create()
    for n in range(1025):
        bench.publish(stream, b"s.%d" % n, b"x")
    bench.submit()
    bench.land()

    assert len(read(bench, stream, b'{"multi_last":["s.*"],"up_to_seq":1024}')[0]) == 1024
    for body in (b'{"multi_last":["s.*"]}', b'{"multi_last":["s.1*.>","s.*","s.0"],"batch":1}'):
        assert read(bench, stream, body)[1] == b"NATS/1.0 413 Too Many Results\r\n\r\n"


def test_the_proof_travels_with_every_reply(bench: Bench, users: Stream) -> None:
    """Messages and EOB; 404 too."""
    read(bench, users, b'{"multi_last":["$KV.USERS.>"],"min_last_seq":4}')
    assert all(b"Nats-Min-Last-Sequence: 4\r\n" in entry[2] for entry in bench.outlet.written)

    _, end = read(bench, users, b'{"multi_last":["none"],"min_last_seq":1}')
    assert end == b"NATS/1.0 404 No Results\r\nNats-Min-Last-Sequence: 4\r\n\r\n"


class CountingFiles(MemoryFiles):
    """Counts the reads of segment files."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    def read(self, handle: int, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return super().read(handle, offset, length)


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        (b'{"multi_last":["s.7","s.507"]}', 2),
        (b'{"multi_last":["s.*"],"up_to_seq":1900,"batch":2}', 2),
        (b'{"next_by_subj":"s.7","seq":1000,"batch":5}', 1),
        (b'{"next_by_subj":"s.90*","seq":1}', 0),
        (b'{"last_by_subj":"s.3"}', 1),
    ],
    ids=str,
)
def test_only_the_records_that_are_returned_are_read(body: bytes, reads: int) -> None:
    """`multi_last` and `next_by_subj` read only records they return."""
    files = CountingFiles()
    bench = Bench(KeptPath("/store"), files)
    stream = bench.create()
    for n in range(2, 2002):
        bench.publish(stream, b"s.%d" % (n % 900), b"x" * 2000)
    bench.submit()
    bench.land()
    bench.restart()
    stream = bench.engine.streams["S"]
    files.reads.clear()

    bench.get(stream, body)
    bench.engine.advance()

    assert len(files.reads) == reads
    bench.close()


def test_searches_that_find_nothing_share_turns_with_others(bench: Bench) -> None:
    """A record that is read counts against a turn, and so does a subject that is looked at."""
    stream = bench.create("S", "s.>")
    for number in range(2000):
        bench.store(stream, b"s.%d.a" % number, b"x")
    asked = 100
    for _ in range(asked):
        assert bench.get(stream, b'{"multi_last":["s.*.b"]}') == []

    turns = 1
    while bench.engine.advance():
        turns += 1

    assert len(bench.outlet.written) == asked
    assert turns >= asked // 10
