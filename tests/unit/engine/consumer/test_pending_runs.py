"""The record of a consumer with very many unacknowledged messages: runs of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences

from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.pending import GONE, ROWS_MAX, Pending, RunReader, RunWriter

Row = tuple[int, int, int]
MANY = int(ROWS_MAX) + 1000


def rows_of(pending: Pending) -> list[Row]:
    """Sequence, consumer sequence and deliveries of each message."""
    return [
        (int(seq), int(pending.consumer_seqs[row]), int(pending.deliveries(row)))
        for row, seq in enumerate(pending.seqs)
        if pending.words[row] != GONE
    ]


def written(rows: list[Row]) -> bytes:
    writer = RunWriter()
    for row in rows:
        writer.add(*row)
    return writer.written()


def read(data: bytes) -> list[Row]:
    pending = Pending()
    RunReader(data).read_into(pending)
    return rows_of(pending)


GAP = st.one_of(st.just(1), st.integers(1, 5), st.integers(1, 1 << 40))


@given(st.lists(st.tuples(GAP, GAP, st.sampled_from([1, 1, 1, 2, 300])), max_size=50))
def test_what_is_written_as_runs_is_read_again(steps: list[Row]) -> None:
    rows: list[Row] = []
    seq = consumer_seq = 0
    for gap, consumer_gap, deliveries in steps:
        seq, consumer_seq = seq + gap, consumer_seq + consumer_gap
        rows.append((seq, consumer_seq, deliveries))

    assert read(written(rows)) == rows


def test_a_million_consecutive_messages_are_a_few_bytes() -> None:
    data = written([(n, n, 1) for n in range(1, 100_001)])
    assert len(data) < 10
    # Also when every other one is acknowledged: three bytes each.
    assert len(written([(n, n, 1) for n in range(1, 100_001, 2)])) == 3 * 50_000


@given(st.binary(max_size=30))
def test_other_bytes_are_refused_or_are_rows(data: bytes) -> None:
    try:
        rows = read(data[:3] if len(data) > 3 else data)
    except ValueError:
        return
    assert all(deliveries > 0 for _, _, deliveries in rows)


@pytest.mark.parametrize("data", [b"\x80", b"\x01\x01", b"\x01\x01\x80", b"\xff" * 12])
def test_a_run_that_ends_early_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a run of pending messages"):
        RunReader(data).read_into(Pending())


def revived(world: World) -> Consumer:
    world.crash()
    found = world.engine.streams["S"].consumers["c"]
    assert isinstance(found, Consumer)
    return found


def test_very_many_unacknowledged_messages_survive_a_crash(world: World) -> None:
    stream = world.stream()
    world.publish(stream, *[b"s.a"] * MANY)
    consumer = world.consumer(stream, max_ack_pending=-1, ack_wait=10 * SECOND)
    world.pull(b'{"batch":%d,"expires":90000000000}' % (MANY + 500))
    messages = world.got()
    for n in range(0, MANY, 7):
        world.ack(messages[n][1])
    world.pass_time(11 * SECOND)
    again = sequences(world.got())
    assert again
    consumer.journal.start_again()  # a complete state
    world.ack(messages[1][1])
    world.pass_time(50 * MS)
    world.ack(messages[2][1])  # a change of it
    world.pass_time(50 * MS)
    expected = rows_of(consumer.state.pending)
    assert {deliveries for _, _, deliveries in expected} == {1, 2}

    for _ in range(2):  # the second time from the state that the first start wrote
        consumer = revived(world)
        assert rows_of(consumer.state.pending) == expected
        info = world.info(consumer)
        assert info.ack_floor.stream_seq == 3
        assert info.num_ack_pending == len(expected)
        assert info.num_redelivered == sum(row[2] > 1 for row in expected)
        world.ack(messages[5][1])
        expected = [row for row in expected if row[0] != 6]
        world.pass_time(50 * MS)
        assert world.info(consumer).num_ack_pending == len(expected)
