"""Atomic batches in the log: all or nothing across power loss at any byte."""

from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

if TYPE_CHECKING:
    from tests.support.disk.simulated import Operation, SimulatedDisk
    from tests.unit.store.conftest import Bench


class _Stop(BaseException):
    """The world ends inside a write."""


def stage_batch(bench: "Bench", *bodies: bytes) -> list[int]:
    bench.log.staged.begin_batch()
    staged = bench.stage(*bodies)
    bench.log.staged.end_batch()
    return staged


def commit(bench: "Bench") -> None:
    bench.write()
    bench.log.commit()


def bodies(bench: "Bench") -> dict[int, bytes]:
    return {seq: message.body for seq, message in messages(bench.log).items()}


def test_a_batch_exists_after_a_start(bench: "Bench") -> None:
    bench.publish(b"before")
    stage_batch(bench, b"a", b"b", b"c")
    commit(bench)
    stage_batch(bench, b"single")
    commit(bench)
    expected = {1: b"before", 2: b"a", 3: b"b", 4: b"c", 5: b"single"}

    assert bodies(bench) == expected
    bench.reopen()
    assert bodies(bench) == expected
    assert bench.recovery.damaged == []


def test_no_group_is_cut_inside_a_batch(bench: "Bench") -> None:
    bench.log.staged.begin_batch()
    bench.stage(b"a")

    assert bench.log.take_group() is None
    bench.log.staged.end_batch()
    assert bench.log.take_group() is not None


def test_an_aborted_batch_leaves_decisions_as_they_were(bench: "Bench") -> None:
    bench.publish(b"durable")
    bench.publish(b"other", subject=b"x.y")
    bench.stage(b"staged")
    log = bench.log
    before = (
        int(log.staged.seq),
        int(log.staged.position),
        int(log.staged.messages),
        int(log.staged.size),
        int(log.staged.open_removals),
        int(log.index.entry(b"a.b").staged_last),
        int(log.index.entry(b"x.y").staged_last),
        len(log.staged.writer),
    )
    log.staged.begin_batch()
    bench.stage(b"a", b"b")
    bench.stage(b"c", subject=b"new.one")
    assert log.staged.delete(2)
    log.staged.purge(0, b"a.b", 0)
    log.staged.delete_range(1, 4)
    log.staged.abort_batch()

    after = (
        int(log.staged.seq),
        int(log.staged.position),
        int(log.staged.messages),
        int(log.staged.size),
        int(log.staged.open_removals),
        int(log.index.entry(b"a.b").staged_last),
        int(log.index.entry(b"x.y").staged_last),
        len(log.staged.writer),
    )
    assert after == before
    assert bench.stage(b"next") == [4]
    commit(bench)
    assert bodies(bench) == {1: b"durable", 2: b"other", 3: b"staged", 4: b"next"}
    bench.reopen()
    assert bodies(bench) == {1: b"durable", 2: b"other", 3: b"staged", 4: b"next"}


def test_a_batch_may_be_empty(bench: "Bench") -> None:
    stage_batch(bench)

    assert bench.log.take_group() is None


def test_begin_and_end_come_in_pairs(bench: "Bench") -> None:
    with pytest.raises(ValueError, match="no batch is being staged"):
        bench.log.staged.end_batch()
    with pytest.raises(ValueError, match="no batch is being staged"):
        bench.log.staged.abort_batch()
    bench.log.staged.begin_batch()
    with pytest.raises(ValueError, match="being staged already"):
        bench.log.staged.begin_batch()


def test_a_failed_write_forgets_a_batch_that_was_being_staged(bench: "Bench") -> None:
    bench.stage(b"a")
    bench.log.take_group()
    bench.log.staged.begin_batch()
    bench.stage(b"b")
    bench.log.fail(no_space=True)
    bench.publish(b"c")

    assert bodies(bench) == {3: b"c"}


def test_removals_are_part_of_a_batch(bench: "Bench") -> None:
    bench.publish(b"old")
    bench.log.staged.begin_batch()
    bench.stage(b"new")
    bench.log.staged.delete(1)
    bench.log.staged.end_batch()
    commit(bench)

    assert bodies(bench) == {2: b"new"}
    bench.reopen()
    assert bodies(bench) == {2: b"new"}


def interrupted(bench: "Bench", how: str) -> "list[SimulatedDisk]":
    """Every disk that may be found when the write of the group is cut short."""
    found: list[SimulatedDisk] = []

    def stop(operation: "Operation") -> None:
        if operation.kind == "sync":
            if how == "prefixes":
                found.extend(bench.disk.prefixes())
            else:
                found.extend(bench.disk.sector_subsets(zeros=how == "zeros"))
            raise _Stop

    bench.disk.before_step = stop
    with pytest.raises(_Stop):
        bench.write()
    return found


@pytest.mark.parametrize("how", ["prefixes", "sectors", "zeros"])
def test_an_interrupted_write_leaves_all_of_a_batch_or_nothing(bench: "Bench", how: str) -> None:
    """A batch with neighbours in its group, cut at every byte, and with any sectors missing."""
    bench.publish(b"acknowledged")
    bench.stage(b"single" * 20)
    stage_batch(bench, b"a" * 200, b"b" * 500, b"c" * 300)
    stage_batch(bench, b"d" * 200, b"e" * 400)
    bench.stage(b"last" * 30)
    all_of = {(3, 4, 5), (6, 7)}
    seen = set()
    for disk in interrupted(bench, how):
        bench.reopen(disk)
        found = set(bodies(bench))
        seen.add(tuple(sorted(found)))
        assert 1 in found
        for batch in all_of:
            assert found.isdisjoint(batch) or found.issuperset(batch)
        found |= set(bench.publish(b"after"))
        bench.reopen()
        assert set(bodies(bench)) == found

    assert len(seen) > 3


def test_a_damaged_batch_that_was_acknowledged_keeps_the_rest(bench: "Bench") -> None:
    """One flip costs one record: a later group proves that the batch was on disk."""
    stage_batch(bench, b"a" * 100, b"b" * 100, b"c" * 100)
    commit(bench)
    bench.publish(b"later")
    bench.log.close()
    bench.store.close()
    (path,) = bench.segments()
    at = bench.disk.read_file(path).index(b"b" * 100)
    bench.disk.flip(path, at * 8)
    bench.reopen(bench.disk)

    assert set(bodies(bench)) == {1, 3, 4}
    assert bench.recovery.lost == [(2, 2)]


def test_a_damaged_batch_in_a_full_segment_keeps_the_rest(bench: "Bench") -> None:
    stage_batch(bench, b"a" * 100, b"b" * 100, b"c" * 100)
    commit(bench)
    bench.log.roll()
    bench.log.close()
    bench.store.close()
    path = bench.segments()[0]
    at = bench.disk.read_file(path).index(b"b" * 100)
    bench.disk.flip(path, at * 8)
    bench.reopen(bench.disk)

    assert set(bodies(bench)) == {1, 3}
    assert bench.recovery.lost == [(2, 2)]


def test_a_damaged_batch_that_may_be_a_torn_one_is_dropped_and_reported(bench: "Bench") -> None:
    """And stays dropped, whatever is written after it."""
    bench.publish(b"before")
    stage_batch(bench, b"a" * 100, b"b" * 100, b"c" * 100)
    commit(bench)
    bench.disk = bench.disk.survivor()
    (path,) = bench.segments()
    at = bench.disk.read_file(path).index(b"b" * 100)
    bench.disk.flip(path, at * 8)
    bench.reopen(bench.disk)

    assert set(bodies(bench)) == {1}
    assert bench.recovery.doubtful != []
    assert bench.recovery.unwritten == [(2, 4)]
    bench.publish(b"after")
    bench.reopen()
    assert set(bodies(bench)) == {1, 5}
    assert bench.recovery.doubtful != []
    assert bench.recovery.unwritten == [(2, 4)]


def test_a_batch_in_an_index_file_exists_after_a_start(bench: "Bench") -> None:
    for _ in range(10):
        stage_batch(bench, b"a" * 700, b"b" * 700)
        commit(bench)
    while bench.log.maintain():
        pass
    assert bench.log.upkeep.indexed
    before = bodies(bench)
    bench.reopen()

    assert bodies(bench) == before
    assert len(before) == 20


def add_pieces(bench: "Bench", *pieces: bytes) -> int:
    """Stage a message whose body is in pieces, as the last record of a batch."""
    bench.log.staged.next_is_last()
    return int(bench.log.staged.add_message(b"a.b", 0, b"", 1, b"", [*pieces, b"\r\n"]))


@pytest.mark.parametrize("how", ["prefixes", "sectors", "zeros"])
def test_an_interrupted_write_leaves_all_of_a_batch_in_pieces_or_nothing(
    bench: "Bench", how: str
) -> None:
    bench.publish(b"acknowledged")
    bench.stage(b"single" * 20)
    bench.log.staged.begin_batch()
    bench.stage(b"a" * 200)
    add_pieces(bench, b"b" * 300, b"c" * 200)
    bench.log.staged.end_batch()

    parts = {3: b"a" * 200, 4: b"b" * 300 + b"c" * 200}
    seen = set()
    for disk in interrupted(bench, how):
        bench.reopen(disk)
        found = bodies(bench)
        assert found.pop(1) == b"acknowledged"
        found.pop(2, None)
        assert found in ({}, parts)
        seen.add(len(found))
    assert 0 in seen


def test_a_batch_in_pieces_exists_after_a_start(bench: "Bench") -> None:
    bench.publish(b"before")
    bench.log.staged.begin_batch()
    assert add_pieces(bench, b"large", b" body") == 2
    bench.log.staged.end_batch()
    bench.stage(b"after")
    commit(bench)
    expected = {1: b"before", 2: b"large body", 3: b"after"}

    assert bodies(bench) == expected
    bench.reopen()
    assert bodies(bench) == expected


@pytest.mark.parametrize("earlier", [(), (b"staged",)])
def test_an_aborted_batch_in_pieces_leaves_what_was_staged_before(
    bench: "Bench", earlier: tuple[bytes, ...]
) -> None:
    bench.publish(b"durable")
    bench.stage(*earlier)
    size = int(bench.log.staged.open_size())
    bench.log.staged.begin_batch()
    bench.stage(b"dropped")
    add_pieces(bench, b"large", b" body")
    bench.log.staged.abort_batch()

    assert int(bench.log.staged.open_size()) == size
    bench.stage(b"next")
    commit(bench)
    expected = dict(enumerate((b"durable", *earlier, b"next"), 1))
    assert bodies(bench) == expected
    bench.reopen()
    assert bodies(bench) == expected
