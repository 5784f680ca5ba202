"""Flow control of fast ingest: it follows the disk and the number of publishers (ADR-50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.batch.batching import by_headers, by_reply, flush, made, told

from jetspark.engine.batch.flow import PRESSURE_MAX, FlowControl
from jetspark.engine.batch.members import BY_REPLY, FastBatch

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

MILLISECOND = 1_000_000


class Publisher:
    """Sends what one ack stands for, then listens: what a client with one ack out does."""

    def __init__(self, bench: Bench, stream: Stream, batch: str, flow: int) -> None:
        self.bench = bench
        self.stream = stream
        self.batch = batch
        self.asked = flow
        self.seq = 0
        self.flow = 0

    def start(self) -> None:
        self.seq = 1
        by_reply(self.bench, self.stream, 1, 0, batch=self.batch, flow=self.asked)

    def send(self) -> None:
        for _ in range(self.flow):
            self.seq += 1
            by_reply(self.bench, self.stream, self.seq, batch=self.batch, flow=self.asked)

    def hear(self, answers: list[tuple[bytes, bytes]]) -> None:
        for to, body in answers:
            if to.startswith(f"_INBOX.{self.batch}.".encode()):
                self.flow = int(body.rpartition(b":")[2].rstrip(b"}"))


def commit(bench: Bench, publishers: list[Publisher], took_ms: int) -> None:
    """The disk takes so long for what was sent."""
    bench.submit()
    bench.now += took_ms * MILLISECOND
    while bench.on_the_way:
        bench.land()
    answers = [(entry[0], entry[4]) for entry in bench.sent()]
    for publisher in publishers:
        publisher.hear(answers)


def test_a_slow_disk_lowers_the_flow_and_a_quick_one_raises_it_again(bench: Bench) -> None:
    """A committer slowed to 50 ms."""
    stream = made(bench)
    publisher = Publisher(bench, stream, "x", 100)
    publisher.start()
    commit(bench, [publisher], 1)
    assert publisher.flow == 100

    seen = []
    for took_ms in [50] * 6 + [1] * 8:
        publisher.send()
        commit(bench, [publisher], took_ms)
        seen.append(publisher.flow)

    assert min(seen) < 100
    assert seen[5] == min(seen) == 100 >> PRESSURE_MAX
    assert seen[:6] == sorted(seen[:6], reverse=True)
    assert seen[6:] == sorted(seen[6:])
    assert seen[-1] == 100


def test_two_publishers_each_get_their_share(bench: Bench) -> None:
    stream = made(bench)
    pair = [Publisher(bench, stream, name, 400) for name in ("x", "y")]
    pair[0].start()
    commit(bench, pair, 1)
    assert pair[0].flow == 400
    pair[1].start()
    commit(bench, pair, 1)
    assert pair[1].flow <= 2

    for _ in range(12):
        for publisher in pair:
            publisher.send()
        commit(bench, pair, 1)

    assert [publisher.flow for publisher in pair] == [250, 250]


def test_the_share_grows_when_a_publisher_leaves(bench: Bench) -> None:
    stream = made(bench)
    pair = [Publisher(bench, stream, name, 400) for name in ("x", "y")]
    for publisher in pair:
        publisher.start()
        commit(bench, pair, 1)
    for _ in range(12):
        for publisher in pair:
            publisher.send()
        commit(bench, pair, 1)
    by_reply(bench, stream, pair[1].seq + 1, 3, batch="y", flow=400)

    for _ in range(3):
        pair[0].send()
        commit(bench, pair[:1], 1)

    assert pair[0].flow == 400


@pytest.mark.parametrize("asked", [1, 3, 10, 100, 500])
def test_the_flow_is_never_above_what_the_client_asked_for(bench: Bench, asked: int) -> None:
    stream = made(bench)
    publisher = Publisher(bench, stream, "x", asked)
    publisher.start()
    commit(bench, [publisher], 1)
    seen = {publisher.flow}
    for took_ms in (1, 60, 60, 1, 1, 1, 1):
        publisher.send()
        commit(bench, [publisher], took_ms)
        seen.add(publisher.flow)

    assert max(seen) == asked
    assert min(seen) >= 1


def test_a_flow_in_bytes_follows_the_disk_too(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="4096B")
    flush(bench)
    told(bench)
    seen = []
    for number in range(2, 13):
        by_headers(bench, stream, number, body=b"x" * 4096)
        bench.submit()
        bench.now += (50 if number < 7 else 1) * MILLISECOND
        bench.land()
        seen += [ack["bytes"] for ack in told(bench)]

    assert seen[:2] == [4096, 2048]
    assert min(seen) == 4096 >> PRESSURE_MAX
    assert seen[-1] == 4096


def test_much_that_waits_for_the_disk_is_pressure_too() -> None:
    control = FlowControl()

    control.measured(1, 100 * 1024 * 1024)
    control.measured(1, 100 * 1024 * 1024)
    assert control.pressure == 1

    control.measured(1, 0)
    assert control.pressure == 0


def test_one_slow_group_is_an_accident() -> None:
    control = FlowControl()

    for latency in (50, 1, 50, 20, 50, 1):
        control.measured(latency * MILLISECOND, 0)

    assert control.pressure == 0


def test_a_time_between_quick_and_slow_changes_nothing() -> None:
    control = FlowControl()
    control.measured(50 * MILLISECOND, 0)
    control.measured(50 * MILLISECOND, 0)

    control.measured(20 * MILLISECOND, 0)

    assert control.pressure == 1


def test_every_batch_may_send_at_least_one_message(bench: Bench) -> None:
    batch = FastBatch(b"x", BY_REPLY, False, b"", 10, 0, bench.now)
    control = FlowControl()
    control.pressure = PRESSURE_MAX
    control.begin(batch, 1000)

    for _ in range(5):
        control.adapt(batch, 1000)

    assert batch.flow == 1
