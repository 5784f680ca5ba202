"""Direct gets read only the records that they return; the index knows the rest (ADR-31)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.conftest import Bench

from jetspark.store.format.record import OVERHEAD

if TYPE_CHECKING:
    from jetspark.engine.stream.stream import Stream

KEYS = 50
ROUNDS = 10
BODY = b"v" * 5_000
# A record is asked for in one piece: a page first, which shows how long it is, then all of it.
RECORD = 4096 + OVERHEAD + 20 + len(BODY)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def bench(disk: SimulatedDisk) -> Bench:
    """A store whose messages are all on disk and none in memory."""
    return Bench(KeptPath("/store"), disk, cache_budget=1)


@pytest.fixture
def stream(bench: Bench) -> Stream:
    made = bench.create("KV_b", "$KV.b.>")
    for number in range(KEYS * ROUNDS):
        bench.store(made, b"$KV.b.%d" % (number % KEYS), BODY)
    bench.restart()
    return bench.engine.streams["KV_b"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"multi_last":["$KV.b.>"]}', KEYS),
        (b'{"multi_last":["$KV.b.11","$KV.b.7"]}', 2),
        (b'{"multi_last":["$KV.b.>"],"up_to_seq":%d}' % (KEYS * ROUNDS // 2), KEYS),
        (b'{"next_by_subj":"$KV.b.7","seq":400}', 1),
        (b'{"next_by_subj":"$KV.b.*","seq":400}', 1),
        (b'{"next_by_subj":"$KV.b.7","seq":1,"batch":10}', 10),
        (b'{"last_by_subj":"$KV.b.*"}', 1),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_only_what_is_returned_is_read(
    bench: Bench, stream: Stream, disk: SimulatedDisk, body: bytes, count: int
) -> None:
    before = disk.read_bytes

    single = [entry[4] for entry in bench.get(stream, body)]
    while bench.engine.direct.work:
        bench.engine.advance(bench.now, bench.outbox)
    bodies = single + [written[3] for written in bench.outlet.written]

    assert bodies.count(BODY) == count
    assert disk.read_bytes - before <= count * RECORD


@pytest.mark.parametrize(
    "body", [b'{"seq":1,"batch":10}', b'{"multi_last":["$KV.b.>"]}'], ids=["batch", "multi_last"]
)
def test_a_read_whose_stream_is_deleted_ends_with_a_status(
    bench: Bench, stream: Stream, body: bytes
) -> None:
    """As if it were asked now: no one answers for the stream. Silence would be waited out."""
    bench.get(stream, body)
    bench.remove(stream)
    while bench.engine.direct.work:
        bench.engine.advance(bench.now, bench.outbox)

    (written,) = bench.outlet.written
    assert written[2] == b"NATS/1.0 503\r\n\r\n"
