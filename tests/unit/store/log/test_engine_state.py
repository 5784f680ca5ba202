"""Consumers and fast batches in the log (disk-format.md)."""

import errno
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

from jetspark.errors.storage import StoreReadOnly
from jetspark.store.format.record import CONSUMER, record_kind, record_length
from jetspark.store.format.segment import read_head

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def commit(bench: "Bench") -> None:
    bench.write()
    bench.log.commit()


def keep_house(bench: "Bench") -> None:
    """All tasks, with the writes they ask for."""
    while True:
        while bench.log.maintain():
            pass
        if len(bench.log.staged.writer) == 0:
            return
        commit(bench)


def told(bench: "Bench") -> dict[int, tuple[bytes, bytes, list[bytes]]]:
    return {
        number: (records.document, records.state, records.changes)
        for number, records in bench.log.engine_state.consumers.items()
    }


def test_a_consumer_shows_when_it_is_durable_and_exists_after_a_start(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    assert told(bench) == {}
    assert bench.log.staged.last_consumer_id == 1
    commit(bench)

    assert told(bench) == {1: (b"one", b"", [])}
    bench.reopen()
    assert told(bench) == {1: (b"one", b"", [])}
    assert bench.log.staged.last_consumer_id == 1


def test_a_whole_state_replaces_what_changes_are_added_to(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    bench.log.staged.set_consumer(2, b"two")
    bench.log.staged.set_consumer_state(1, False, b"a")
    bench.log.staged.set_consumer_state(1, True, b"whole")
    bench.log.staged.set_consumer_state(1, False, b"b")
    bench.log.staged.set_consumer_state(1, False, b"c")
    bench.log.staged.set_consumer_state(2, False, b"d")
    bench.log.staged.set_consumer(1, b"one, changed")
    commit(bench)

    expected = {1: (b"one, changed", b"whole", [b"b", b"c"]), 2: (b"two", b"", [b"d"])}
    assert told(bench) == expected
    assert told_after_start(bench) == expected


def told_after_start(bench: "Bench") -> dict[int, tuple[bytes, bytes, list[bytes]]]:
    bench.reopen()
    return told(bench)


def test_a_number_is_not_reused_after_its_consumer_and_its_segment_are_deleted(
    bench: "Bench",
) -> None:
    bench.log.staged.set_consumer(7, b"seven")
    bench.log.staged.set_consumer(7, b"")
    commit(bench)
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    bench.log.staged.purge(0, b"", 0)
    commit(bench)
    keep_house(bench)

    assert len(bench.segments()) == 1
    bench.reopen()
    assert told(bench) == {}
    assert bench.log.staged.last_consumer_id == 7


def test_what_is_staged_and_fails_is_forgotten_but_for_its_number(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    commit(bench)
    bench.log.staged.set_consumer(1, b"changed")
    bench.log.staged.set_consumer(2, b"two")
    bench.log.take_group()
    bench.log.fail(no_space=True)

    assert told(bench) == {1: (b"one", b"", [])}
    assert bench.log.staged.last_consumer_id == 2
    bench.log.staged.set_consumer_state(1, False, b"a")
    commit(bench)
    assert told(bench) == {1: (b"one", b"", [b"a"])}


def test_a_read_only_log_takes_no_consumer(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    bench.log.take_group()
    bench.log.fail(no_space=False)

    with pytest.raises(StoreReadOnly):
        bench.log.staged.set_consumer_state(1, True, b"")


def fill_and_empty(bench: "Bench") -> None:
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    bench.log.expire_before(10**9)


def test_a_stream_whose_messages_all_expire_keeps_its_consumers(bench: "Bench") -> None:
    """The segments that hold them go only when they stand in a newer one."""
    bench.log.staged.set_consumer(1, b"one")
    bench.log.staged.set_consumer_state(1, True, b"whole")
    bench.log.staged.set_consumer_state(1, False, b"a")
    bench.log.staged.set_consumer(2, b"two")
    bench.log.staged.set_fast_batch(b"id", b"42")
    bench.log.staged.set_source(b"key", b"7 X")
    commit(bench)
    for _ in range(3):
        fill_and_empty(bench)
        keep_house(bench)
        assert len(bench.segments()) == 1
        bench.reopen()

        assert told(bench) == {1: (b"one", b"whole", [b"a"]), 2: (b"two", b"", [])}
        assert bench.log.engine_state.fast_batches == {b"id": b"42"}
        assert bench.log.engine_state.sources == {b"key": b"7 X"}


def test_how_far_a_source_is_stands_in_the_records_that_earlier_versions_wrote(
    bench: "Bench",
) -> None:
    """A fast batch record under an id that no client can send."""
    bench.log.staged.set_fast_batch(b"\r\nkey", b"1 X")
    commit(bench)
    bench.reopen()
    assert (bench.log.engine_state.sources, bench.log.engine_state.fast_batches) == (
        {b"key": b"1 X"},
        {},
    )
    assert bench.log.staged.engine_state.sources == {b"key": b"1 X"}

    bench.log.staged.set_source(b"key", b"2 X")
    bench.log.staged.set_source(b"other", b"1 Y")
    bench.log.staged.set_source(b"other", b"")
    commit(bench)
    bench.reopen()

    assert bench.log.engine_state.sources == {b"key": b"2 X"}


def test_a_restated_consumer_counts_no_change_twice(bench: "Bench") -> None:
    """Changes in segments that stay were said before the consumer was restated."""
    bench.log.staged.set_consumer(1, b"one")
    commit(bench)
    fill_and_empty(bench)
    bench.publish(b"stays")
    bench.log.staged.set_consumer_state(1, False, b"a")
    commit(bench)
    keep_house(bench)

    assert told_after_start(bench) == {1: (b"one", b"", [b"a"])}


def test_what_is_decided_meanwhile_is_not_taken_back_by_restating(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    bench.log.staged.set_consumer_state(1, True, b"old")
    bench.log.staged.set_consumer(2, b"two")
    bench.log.staged.set_fast_batch(b"id", b"1")
    bench.log.staged.set_fast_batch(b"over", b"1")
    commit(bench)
    fill_and_empty(bench)
    bench.log.staged.set_consumer_state(1, True, b"new")
    bench.log.staged.set_consumer(2, b"")
    bench.log.staged.set_fast_batch(b"id", b"2")
    bench.log.staged.set_fast_batch(b"over", b"")
    keep_house(bench)

    assert told_after_start(bench) == {1: (b"one", b"new", [])}
    assert bench.log.engine_state.fast_batches == {b"id": b"2"}


def test_restating_that_meets_a_full_disk_is_tried_again(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    commit(bench)
    fill_and_empty(bench)
    while bench.log.maintain():
        pass
    group = bench.log.take_group()
    assert group is not None
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    bench.log.fail(no_space=True)
    before = len(bench.segments())
    keep_house(bench)

    assert before > 1
    assert len(bench.segments()) == 1
    assert told_after_start(bench) == {1: (b"one", b"", [])}


def test_nothing_is_restated_twice_while_it_is_in_flight(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    commit(bench)
    fill_and_empty(bench)
    bench.log.maintain()
    staged = bench.log.staged.position
    bench.log.maintain()
    bench.log.take_task()

    assert bench.log.staged.position == staged


def test_opening_stages_nothing(bench: "Bench") -> None:
    bench.log.staged.set_consumer(1, b"one")
    commit(bench)
    fill_and_empty(bench)
    bench.log.staged.purge(0, b"", 0)
    commit(bench)
    bench.reopen()

    assert bench.log.staged.position == bench.log.index.position
    assert told(bench) == {1: (b"one", b"", [])}


def test_condensed_segments_say_the_same(bench: "Bench") -> None:
    bench.log.staged.set_consumer(3, b"three")
    bench.log.staged.set_consumer_state(3, False, b"a")
    bench.log.staged.set_fast_batch(b"id", b"9")
    commit(bench)
    for _ in range(30):
        bench.publish(b"x" * 1_000)
    while bench.log.maintain():
        pass
    assert bench.log.upkeep.indexed

    assert told_after_start(bench) == {3: (b"three", b"", [b"a"])}
    assert bench.log.engine_state.fast_batches == {b"id": b"9"}


def test_a_consumer_whose_document_is_damaged_is_reported_by_its_number(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.log.staged.set_consumer(12, b"twelve")
    commit(bench)
    bench.log.staged.set_consumer_state(12, True, b"state")
    commit(bench)
    bench.publish(b"two")
    bench.log.close()
    bench.store.close()
    (path,) = bench.segments()
    data = bench.disk.read_file(path)
    head = read_head(data)
    assert head is not None
    at = head[1]
    while record_kind(data, at) != CONSUMER:
        at += int(record_length(data, at))
    bench.disk.flip(path, (at + 60) * 8)
    bench.reopen(bench.disk)

    assert told(bench) == {}
    assert list(messages(bench.log)) == [1, 2]
    assert len(bench.recovery.damaged) == 1
    assert any("consumer id 12" in note for note in bench.recovery.notes)
    assert bench.log.staged.last_consumer_id == 12
