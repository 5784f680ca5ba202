"""Staging, committing, failing and reading of one stream (contracts.md, Commit)."""

import errno
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import messages

from jetspark.errors.storage import CorruptRecord, ReadFailed, StoreReadOnly
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench


def bodies(bench: "Bench") -> dict[int, bytes]:
    return {seq: message.body for seq, message in messages(bench.log).items()}


# Commit -----------------------------------------------------------------------------------------


def test_nothing_staged_is_readable_before_the_commit(bench: "Bench") -> None:
    """Everything a reader can see uses durable state."""
    log, index = bench.log, bench.log.index
    bench.stage(b"one")
    group = log.take_group()
    bench.stage(b"two", subject=b"new")

    assert group is not None
    assert (log.staged.seq, log.staged.position) == (2, 2)
    assert (index.last_seq, index.messages, log.index.position) == (0, 0, 0)
    assert log.reader.locate(1) == (b"", 0)
    assert index.next_seq(1, b"") == 0
    assert index.last_match(b">") == 0
    assert index.subject_count == 0

    bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    assert log.commit() == 1

    assert bodies(bench) == {1: b"one"}
    assert index.last_match(b"new") == 0


def test_one_group_is_in_flight_while_the_next_fills(bench: "Bench") -> None:
    bench.stage(b"one")
    first = bench.log.take_group()
    bench.stage(b"two")

    assert first is not None
    assert bench.log.take_group() is None

    bench.disk.write_synced(int(first.handle), [first.blob], int(first.offset))
    bench.log.commit()
    second = bench.log.take_group()

    assert second is not None
    assert (first.last_position, second.last_position) == (1, 2)
    assert second.offset == first.offset + len(first.blob)


def test_there_is_no_group_of_nothing(bench: "Bench") -> None:
    assert bench.log.take_group() is None


def test_decisions_see_what_is_staged(bench: "Bench") -> None:
    bench.stage(b"one", b"two")

    assert bench.log.index.entry(b"a.b").staged_last == 2
    assert bench.log.index.entry(b"a.b").last == 0


def test_stored_times_always_increase(bench: "Bench") -> None:
    """contracts.md, Commit, Time; no two messages of a stream have the same one."""
    bench.publish(b"one", now=50)
    bench.publish(b"two", now=20)
    bench.publish(b"three", b"four", now=51)
    bench.publish(b"five", now=60)

    assert [record_time(*bench.log.reader.locate(seq)) for seq in range(1, 6)] == [
        50,
        51,
        52,
        53,
        60,
    ]
    bench.reopen()
    bench.publish(b"six", now=7)
    assert record_time(*bench.log.reader.locate(6)) == 61


def test_headers_and_subject_come_back(bench: "Bench") -> None:
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    bench.log.staged.add_message(b"x.y", len(block), block + b"body\r\n", 3)
    bench.write()
    bench.log.commit()
    data, at = bench.log.reader.locate(1)

    assert data[at + FIXED : subject_end(data, at)] == b"x.y"
    assert data[subject_end(data, at) : headers_end(data, at)] == block
    assert data[headers_end(data, at) : body_end(data, at)] == b"body"
    # What nats-server counts for a file store.
    assert bench.log.index.bytes == 30 + 3 + 4 + 4 + len(block)


def test_a_message_that_no_record_can_hold_leaves_nothing(bench: "Bench") -> None:
    with pytest.raises(ValueError, match="a record holds a subject of up to"):
        bench.stage(b"body", subject=b"s" * 70_000)

    assert bench.log.staged.seq == 0
    assert bench.log.index.entries == []
    assert bench.publish(b"next") == [1]


# Failure ----------------------------------------------------------------------------------------


def test_a_full_disk_forgets_what_was_staged(bench: "Bench") -> None:
    """Staged state is dropped, which is forgetting an overlay."""
    bench.publish(b"one")
    bench.stage(b"two")
    bench.stage(b"three", subject=b"new")
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.stage(b"four", subject=b"newer")
    bench.log.fail(no_space=True)

    log = bench.log
    assert bodies(bench) == {1: b"one"}
    assert (log.staged.position, log.index.position) == (1, 1)
    assert log.index.entry(b"a.b").staged_last == 1
    assert [e.subject for e in log.index.entries if e.id >= 0] == [b"a.b"]
    assert log.index.subjects.get(b"new") is None
    assert log.index.subjects.get(b"newer") is None
    assert log.take_group() is None
    assert not log.access.read_only


def test_sequences_of_a_failed_group_are_not_used_again(bench: "Bench") -> None:
    """A skip record covers them."""
    bench.publish(b"one")
    bench.stage(b"two", b"three")
    bench.disk.fail(2, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.log.fail(no_space=True)

    assert bench.publish(b"four") == [4]
    assert bodies(bench) == {1: b"one", 4: b"four"}
    assert bench.log.reader.locate(2) == (b"", 0)
    # Message, skip, message: each has a position.
    assert bench.log.index.position == 3

    bench.reopen()

    assert bodies(bench) == {1: b"one", 4: b"four"}
    assert bench.recovery.records == 3
    assert bench.recovery.damaged == []
    assert bench.publish(b"five") == [5]


def test_a_skip_that_fails_is_written_the_next_time(bench: "Bench") -> None:
    for _ in range(3):
        bench.stage(b"lost")
        bench.disk.fail(1, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            bench.write()
        bench.log.fail(no_space=True)

    assert bench.publish(b"kept") == [4]
    bench.reopen()

    assert bodies(bench) == {4: b"kept"}
    assert bench.recovery.records == 2


def test_a_failed_group_is_truncated_from_the_file(bench: "Bench") -> None:
    bench.publish(b"one")
    length = bench.disk.paths()[bench.segments()[0]]
    bench.stage(b"x" * 100)
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()

    assert bench.disk.paths()[bench.segments()[0]] > length

    bench.log.fail(no_space=True)

    assert bench.disk.paths()[bench.segments()[0]] == length


def test_any_other_error_makes_the_log_read_only(bench: "Bench") -> None:
    """Fail-stop for that stream."""
    bench.publish(b"one")
    bench.stage(b"two")
    bench.disk.fail(2, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        bench.write()
    steps = bench.disk.steps
    bench.log.fail(no_space=False)

    assert bench.log.access.read_only
    assert bench.disk.steps == steps, "a file whose sync failed is left alone"
    assert bodies(bench) == {1: b"one"}
    with pytest.raises(StoreReadOnly, match="is read-only until it has been opened again"):
        bench.stage(b"three")


def test_a_file_that_cannot_be_cut_back_makes_the_log_read_only(bench: "Bench") -> None:
    bench.stage(b"one")
    bench.disk.fail(1, errno.ENOSPC)
    bench.disk.fail(2, errno.EIO)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.log.fail(no_space=True)

    assert bench.log.access.read_only


# Segments ---------------------------------------------------------------------------------------


def test_a_full_segment_is_followed_by_another(bench: "Bench") -> None:
    for number in range(40):
        bench.publish(b"%02d" % number * 300)

    assert len(bench.segments()) == 3
    assert all(size <= 10_000 for size in bench.disk.paths().values())
    expected = {number + 1: b"%02d" % number * 300 for number in range(40)}
    assert bodies(bench) == expected
    bench.reopen()
    assert bodies(bench) == expected


def test_a_group_larger_than_a_segment_gets_one_of_its_own(bench: "Bench") -> None:
    bench.publish(b"small")
    bench.publish(b"x" * 30_000)
    bench.publish(b"small")

    assert len(bench.segments()) == 3
    assert [len(body) for body in bodies(bench).values()] == [5, 30_000, 5]


def test_the_first_group_does_not_leave_an_empty_segment(bench: "Bench") -> None:
    bench.publish(b"x" * 30_000)

    assert len(bench.segments()) == 1


@pytest.mark.parametrize("step", range(1, 9))
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["no space", "error"])
def test_a_new_segment_that_cannot_be_made_loses_nothing(
    bench: "Bench", step: int, error: int
) -> None:
    """A failed roll may leave the new file; nothing may go to the old one then."""
    bench.publish(b"x" * 9_000)
    bench.stage(b"y" * 1_200)
    handles = bench.disk.open_handles
    bench.disk.fail(step, error)
    try:
        bench.write()
    except OSError as failure:
        bench.log.fail(failure.errno == errno.ENOSPC)
        assert bench.disk.open_handles <= handles + 1
    else:
        pytest.fail("the roll has more steps than these")
    assert bench.log.access.read_only == (error != errno.ENOSPC)
    if not bench.log.access.read_only:
        # Small enough for the old segment, and yet it must not go there.
        old = bench.segments()[0]
        size = bench.disk.paths()[old]
        assert bench.publish(b"z") == [3]
        assert bench.disk.paths()[old] == size
        assert len(bench.segments()) == 2
    bench.disk.forget_failures()
    bench.reopen()

    assert bench.recovery.damaged == []
    assert set(bodies(bench)) == ({1} if error != errno.ENOSPC else {1, 3})


# Reading ----------------------------------------------------------------------------------------


@pytest.fixture
def cold(bench: "Bench") -> "Bench":
    """A log whose cache holds nothing: everything is read from the disk."""
    bench.cache_budget = 1
    for number in range(60):
        bench.publish(b"%02d" % number * 100, now=number * 10)
    bench.reopen()
    return bench


def test_everything_is_read_back_from_disk(cold: "Bench") -> None:
    expected = {number + 1: b"%02d" % number * 100 for number in range(60)}

    assert bodies(cold) == expected


def test_a_run_of_reads_reads_ahead(cold: "Bench") -> None:
    """A page for a single get, 256 KiB for scans."""
    calls = cold.disk.read_calls
    bodies(cold)

    assert cold.disk.read_calls - calls <= 2 * len(cold.segments())


def test_a_single_read_takes_one_page(cold: "Bench") -> None:
    calls, size = cold.disk.read_calls, cold.disk.read_bytes
    cold.log.reader.locate(3)
    cold.log.reader.locate(4)

    assert cold.disk.read_calls - calls == 1
    assert cold.disk.read_bytes - size <= 4096


def test_records_larger_than_a_page_are_read_whole(bench: "Bench") -> None:
    bench.cache_budget = 1
    bench.segment_size = 2_000_000
    bench.reopen()
    sizes = [5_000, 4_000, 300_000, 10, 4_096, 262_144]
    for size in sizes:
        bench.publish(bytes([size % 251]) * size)
    bench.reopen()
    for seq in (3, 1, 6, 2, 5, 4, 3):
        data, at = bench.log.reader.locate(seq)
        body = data[headers_end(data, at) : body_end(data, at)]
        assert body == bytes([sizes[seq - 1] % 251]) * sizes[seq - 1]


def test_the_newest_messages_are_read_without_the_disk(bench: "Bench") -> None:
    bench.publish(b"one", b"two")
    calls = bench.disk.read_calls

    assert bodies(bench) == {1: b"one", 2: b"two"}
    assert bench.disk.read_calls == calls


def test_sequences_that_are_not_there_are_not_found(cold: "Bench") -> None:
    for seq in (0, 61, 10_000, 2**62):
        assert cold.log.reader.locate(seq) == (b"", 0)


def forget_cache(bench: "Bench") -> None:
    bench.log.reader.cache.blob = b""
    bench.log.reader.cache.blobs.clear()
    bench.log.reader.cache.starts.clear()


def test_a_page_does_not_remember_a_group_that_failed(bench: "Bench") -> None:
    """A reader may read while a group is written just after its record."""
    bench.publish(b"one")
    forget_cache(bench)
    # As long as the skip record that will lie in its place.
    bench.stage(b"x" * 13, b"never")
    bench.disk.fail(2, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.log.reader.locate(1)
    bench.log.fail(no_space=True)
    bench.publish(b"later")
    forget_cache(bench)
    data, at = bench.log.reader.locate(4)

    assert data[headers_end(data, at) : body_end(data, at)] == b"later"


def test_damage_is_an_error_and_costs_no_neighbour(cold: "Bench") -> None:
    columns = cold.log.index.segment_of(30)
    assert columns is not None
    offset = int(columns.offset_at(30 - columns.base))
    path = next(p for p in cold.segments() if p.name.startswith(f"{columns.base:020d}"))
    cold.disk.flip(path, (offset + 60) * 8)

    for _ in range(2):
        with pytest.raises(
            CorruptRecord, match=r"the record of sequence 30 .* has a wrong checksum"
        ):
            cold.log.reader.locate(30)
    # Read again, it may be good: nothing remembers the bad bytes.
    cold.disk.flip(path, (offset + 60) * 8)
    assert cold.log.reader.locate(30)[0]
    cold.disk.flip(path, (offset + 60) * 8)
    for seq in (29, 31):
        assert cold.log.reader.locate(seq)[0]


def test_a_record_that_moved_is_not_served_for_another(cold: "Bench") -> None:
    columns = cold.log.index.segment_of(5)
    assert columns is not None
    columns.offsets[4] = columns.offsets[5]

    with pytest.raises(CorruptRecord, match=r"sequence 5 .* record of another sequence"):
        cold.log.reader.locate(5)


def test_a_read_error_names_the_record(cold: "Bench") -> None:
    cold.disk.fail(1, errno.EIO, times=4)

    with pytest.raises(ReadFailed, match=r"message 7 cannot be read now: Input/output error"):
        cold.log.reader.locate(7)
    assert cold.log.reader.locate(7)[0]


# Time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [-5, 0, 1, 5, 10, 11, 305, 590, 591, 10**18])
def test_first_at_is_the_first_message_not_older(cold: "Bench", time: int) -> None:
    expected = next((n + 1 for n in range(60) if (n * 10 or 1) >= time), 61)

    assert cold.log.reader.first_at(time) == expected


def test_first_at_of_an_empty_stream_is_the_next_sequence(bench: "Bench") -> None:
    assert bench.log.reader.first_at(0) == 1


def test_first_at_is_found_among_the_highest_sequences(bench: "Bench") -> None:
    first = 2**62
    bench.log.staged.purge(first, b"", 0)
    for now in (10, 20, 30):
        bench.publish(b"s", now=now)

    found = [bench.log.reader.first_at(time) for time in (0, 10, 15, 25, 30, 31)]

    assert [int(seq - first) for seq in found] == [0, 0, 1, 2, 2, 3]


def test_first_at_passes_over_holes(bench: "Bench") -> None:
    for now in (10, 20, 30, 40):
        bench.publish(b"kept", now=now)
        bench.stage(*[b"lost"] * 5, now=now)
        bench.disk.fail(1, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            bench.write()
        bench.log.fail(no_space=True)
    times = {int(seq): record_time(*bench.log.reader.locate(seq)) for seq in messages(bench.log)}
    for time in range(0, 50, 5):
        expected = min((seq for seq, at in times.items() if at >= time), default=20)
        assert bench.log.reader.first_at(time) == expected


def test_first_at_passes_over_what_cannot_be_read(cold: "Bench") -> None:
    for seq in (16, 31, 32, 46):
        columns = cold.log.index.segment_of(seq)
        assert columns is not None
        path = next(p for p in cold.segments() if p.name.startswith(f"{columns.base:020d}"))
        cold.disk.flip(path, int(columns.offset_at(seq - columns.base) + 60) * 8)

    assert cold.log.reader.first_at(100) == 11
    assert cold.log.reader.first_at(400) == 41


# The end ----------------------------------------------------------------------------------------


def test_close_gives_every_handle_back_once(bench: "Bench") -> None:
    for _ in range(30):
        bench.publish(b"x" * 1000)
    bench.log.close()
    bench.log.close()
    bench.store.close()
    bench.store.close()

    assert bench.disk.open_handles == 0


def test_a_group_in_flight_keeps_its_file_until_it_is_reported(bench: "Bench") -> None:
    """A handle that was closed too early would be someone else's when the write comes."""
    for ending in ("commit", "fail"):
        bench.reopen()
        bench.stage(b"one")
        group = bench.log.take_group()
        assert group is not None
        bench.log.close()
        bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
        if ending == "commit":
            bench.log.commit()
        else:
            bench.log.fail(no_space=True)

        assert bench.disk.open_handles == 1, "the lock of the store"
        bench.log.close()


def test_a_closed_log_takes_and_gives_nothing(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.log.close()

    assert bench.log.reader.locate(1) == (b"", 0)
    with pytest.raises(StoreReadOnly):
        bench.stage(b"two")


def test_a_segment_that_could_not_be_started_is_started_with_the_next_group(
    bench: "Bench",
) -> None:
    """The failed attempt may have created it: nothing more is written before it."""
    bench.publish(b"one")
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.log.roll()

    bench.stage(b"two")
    group = bench.log.take_group()
    assert group is not None
    group.prepare()
    bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    bench.log.commit()

    assert [path.name for path in bench.segments()] == [
        columns.name for columns in bench.log.index.segments
    ]
    assert len(bench.segments()) == 2
    assert bodies(bench) == {1: b"one", 2: b"two"}
