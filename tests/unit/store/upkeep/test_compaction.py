"""Segments of which little is left are rewritten."""

import errno
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.support.store.model import check_counts, messages, sequences

from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import BATCH_MEMBER, record_flags
from jetspark.store.upkeep.compaction import Compactor
from jetspark.store.upkeep.counts import UpkeepRates

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

BODY = bytes(range(200))


@pytest.fixture
def small(bench: "Bench") -> "Bench":
    """A stream with segments of a few records."""
    bench.segment_size = 2000
    bench.store.close()
    bench.log.close()
    bench.reopen()
    return bench


def keep_house(bench: "Bench") -> None:
    while bench.log.maintain():
        pass


def fill(bench: "Bench", count: int = 60, *, subjects: int = 1000) -> list[int]:
    seqs = []
    for n in range(count):
        seqs += bench.publish(BODY, subject=b"k.%d" % (n % subjects))
    return seqs


def delete(bench: "Bench", seqs: list[int]) -> None:
    for seq in seqs:
        assert bench.log.staged.delete(seq)
    bench.write()
    bench.log.commit()


def on_disk(bench: "Bench") -> int:
    return sum(size for path, size in bench.disk.paths().items() if path.suffix == ".seg")


def test_deleted_messages_leave_the_disk(small: "Bench") -> None:
    seqs = fill(small)
    kept = seqs[::5]
    delete(small, [seq for seq in seqs if seq not in kept])
    before = on_disk(small)

    keep_house(small)

    assert on_disk(small) < before // 2
    assert sequences(small.log) == kept
    check_counts(small.log, messages(small.log))


def test_what_was_rewritten_is_counted(small: "Bench") -> None:
    """`/storez` and the metrics show it."""
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 5])
    files = len(small.segments())

    keep_house(small)

    counts = small.log.upkeep.counts
    assert counts.compactions > 0
    assert 0 < counts.compaction_written < counts.compaction_read
    assert counts.compactions_failed == 0
    assert counts.segments_removed == files - len(small.segments()) > 0
    assert counts.segments_indexed > 0
    assert small.log.segments.disk_bytes == on_disk(small)


def test_remaining_messages_exist_after_the_next_start(small: "Bench") -> None:
    seqs = fill(small)
    kept = seqs[::7]
    delete(small, [seq for seq in seqs if seq not in kept])
    keep_house(small)
    served = messages(small.log)

    small.reopen()

    assert messages(small.log) == served
    assert list(served) == kept
    assert small.recovery.damaged == small.recovery.lost == []
    check_counts(small.log, served)
    assert small.publish(b"next") == [seqs[-1] + 1]


def test_a_bucket_with_history_one_stays_small(small: "Bench") -> None:
    """10,000 keys written 1,000,000 times: about 3 times what exists, and two segments."""
    small.limit(0, 0, 1)
    keys = 40
    peak = 0
    for n in range(4000):
        # Some keys are written rarely: they keep old segments alive.
        key = n // 50 % keys if n % 50 == 0 else n % (keys // 4)
        small.publish(BODY, subject=b"k.%d" % key)
        keep_house(small)
        if n > keys * 50:
            peak = max(peak, on_disk(small))
    live = keys * (len(BODY) + 60)

    assert len(messages(small.log)) == keys
    assert peak <= 3 * live + 2 * small.segment_size


def test_few_files_are_left_of_many(small: "Bench") -> None:
    """Neighbours become one file: handles do not grow with what was ever written."""
    small.limit(0, 0, 1)
    for n in range(1500):
        # One key of each few records is never written again.
        small.publish(BODY, subject=b"k.%d" % (n if n % 40 == 0 else n % 3))
        keep_house(small)

    files = small.log.segments.list_files()

    live = sum(file.live_bytes for file in files)
    assert len(files) <= 4 * live // small.segment_size + 8
    assert small.disk.open_handles == len(files) + 1  # and the lock
    assert len(messages(small.log)) == len(range(0, 1500, 40)) + 2


def test_rows_of_deleted_things_are_removed(small: "Bench") -> None:
    """The memory of an index follows what exists."""
    small.limit(0, 0, 1)
    small.publish(BODY, subject=b"rare")
    for n in range(1000):
        small.publish(BODY, subject=b"k.%d" % (n % 3))
        keep_house(small)

    rows = sum(len(columns.offsets) for columns in small.log.index.segments)

    assert rows < 100


def test_the_newest_full_segment_rests(small: "Bench") -> None:
    """Much of what is in it goes soon on its own."""
    while len(small.log.segments.list_files()) < 2:
        fill(small, 1)
    delete(small, sequences(small.log)[1:])
    keep_house(small)

    assert [int(file.rows[0].generation) for file in small.log.segments.list_files()] == [0, 0]


def test_bytes_that_do_not_check_are_copied_aside_before_the_rest_is_rewritten(
    small: "Bench",
) -> None:
    """What is damaged stays for later inspection, and its neighbours are served."""
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 5])
    first = small.log.segments.list_files()[0]
    path = small.log.segments.folder / first.name
    offset = int(first.rows[0].offset_at(4))
    small.disk.flip(path, (offset + 100) * 8)
    record = small.disk.read_file(path)[offset : offset + len(BODY) + 53]

    keep_house(small)

    kept = small.log.segments.folder / "quarantine" / f"{first.name}-{offset}.bin"
    assert small.disk.read_file(kept) == record
    assert small.log.quarantine.lost == [(5, 5)]
    assert sequences(small.log) == list(range(10, 61, 5))
    assert all(file.rows[0].generation for file in small.log.segments.list_files()[:-2])

    small.reopen()

    assert list(messages(small.log)) == list(range(10, 61, 5))
    assert small.log.quarantine.lost == [(5, 5)]


@pytest.mark.parametrize("step", range(1, 12))
def test_a_disk_that_refuses_costs_nothing(small: "Bench", step: int) -> None:
    seqs = fill(small)
    kept = seqs[::6]
    delete(small, [seq for seq in seqs if seq not in kept])
    small.disk.fail(step, errno.ENOSPC)

    while small.log.maintain():
        pass

    assert sequences(small.log) == kept
    assert len(messages(small.log)) == len(kept)

    small.reopen()

    assert sequences(small.log) == kept
    keep_house(small)
    small.log.close()
    small.store.close()
    assert small.disk.open_handles == 0


def test_a_refused_rewriting_is_not_tried_at_every_commit(small: "Bench") -> None:
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 6])
    chore = small.log.take_task()
    assert isinstance(chore, Compactor)
    small.log.end_task(True)

    while (other := small.log.take_task()) is not None:
        assert not isinstance(other, Compactor)
        small.log.end_task(False)


def test_messages_that_go_during_the_rewriting_stay_gone(small: "Bench") -> None:
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 4])
    chore = small.log.take_task()
    assert isinstance(chore, Compactor)
    assert not chore.step()
    late = int(chore.sources[0].seqs[0])
    delete(small, [late])
    while not chore.step():
        pass
    small.log.end_task(False)
    left = sequences(small.log)

    assert late not in left
    assert list(messages(small.log)) == left

    keep_house(small)
    small.reopen()

    assert sequences(small.log) == left


def test_messages_evicted_during_the_rewriting_stay_evicted(small: "Bench") -> None:
    """Also those of a segment of which nothing had been removed when the rewriting began."""
    while len(small.segments()) < 2:
        small.publish(BODY)
    small.publish(BODY * 3)
    fill(small)
    starts = [int(path.name.partition("-")[0]) for path in small.segments()[:4]]
    whole, touched, sparse = (list(range(*pair)) for pair in pairwise(starts))
    delete(small, [touched[-1], *sparse[1:]])
    left = sequences(small.log)
    size = len(messages(small.log)[1].body)
    small.limit(0, int(small.log.index.bytes), 0)
    chore = small.log.take_task()
    assert isinstance(chore, Compactor)
    assert [source.name for source in chore.sources] == [small.segments()[2].name]
    # As long as the first segment, and two messages of the next, of which the second is longer.
    new = small.publish(bytes((len(whole) + 3) * size))
    while not chore.step():
        pass
    small.log.end_task(False)
    remaining = [*left[len(whole) + 2 :], *new]
    assert sequences(small.log) == remaining

    small.reopen()

    assert sequences(small.log) == remaining


def test_everything_may_be_purged_during_the_rewriting(small: "Bench") -> None:
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 4])
    chore = small.log.take_task()
    assert isinstance(chore, Compactor)
    small.log.staged.purge(0, b"", 0)
    small.write()
    small.log.commit()
    while not chore.step():
        pass
    small.log.end_task(False)
    small.publish(b"after")
    keep_house(small)
    small.reopen()

    assert [m.body for m in messages(small.log).values()] == [b"after"]


def test_a_log_that_closes_during_the_rewriting_gives_everything_back(small: "Bench") -> None:
    seqs = fill(small)
    kept = seqs[::4]
    delete(small, [seq for seq in seqs if seq not in kept])
    chore = small.log.take_task()
    assert chore is not None
    assert not chore.step()
    small.log.close()
    small.store.close()
    while not chore.step():
        pass
    small.log.end_task(False)

    assert small.disk.open_handles == 0

    small.store = small.new_store(small.disk)
    (small.log,) = small.store.open(small.hear)
    assert sequences(small.log) == kept


def test_consumers_and_batches_outlive_their_segments(small: "Bench") -> None:
    log = small.log
    log.staged.set_consumer(1, b"one")
    log.staged.set_consumer(2, b"two")
    log.staged.set_consumer_state(1, True, b"state")
    log.staged.set_consumer_state(1, False, b"+1")
    log.staged.set_fast_batch(b"fast", b"at 3")
    log.staged.set_fast_batch(b"over", b"at 1")
    small.write()
    log.commit()
    first = fill(small, 40)
    log.staged.set_consumer(2, b"")
    log.staged.set_fast_batch(b"over", b"")
    small.write()
    log.commit()
    rest = fill(small, 40)
    delete(small, [seq for seq in first + rest if seq % 9])
    keep_house(small)
    small.reopen()

    found = small.log.engine_state.consumers

    assert any(file.rows[0].generation for file in small.log.segments.list_files())
    assert {n: (r.document, r.state, r.changes) for n, r in found.items()} == {
        1: (b"one", b"state", [b"+1"])
    }
    assert small.log.engine_state.fast_batches == {b"fast": b"at 3"}
    assert small.log.staged.last_consumer_id == 2


def test_states_that_newer_ones_replace_leave_the_disk(small: "Bench") -> None:
    log = small.log
    log.staged.set_consumer(1, b"one")
    seqs = []
    for n in range(200):
        log.staged.set_consumer_state(1, True, b"state %d." % n)
        seqs += small.publish(BODY)
    delete(small, [seq for seq in seqs if seq % 20])
    keep_house(small)
    files = [small.disk.read_file(path) for path in small.segments()]
    left = [n for n in range(200) if any(b"state %d." % n in content for content in files)]

    assert left[-1] == 199
    assert len(left) < 20

    small.reopen()

    assert small.log.engine_state.consumers[1].state == b"state 199."


def test_members_of_a_batch_become_plain_messages(small: "Bench") -> None:
    """A full segment was acknowledged as a whole; what is left of a batch is no batch."""
    small.log.staged.begin_batch()
    batch = small.stage(*[BODY] * 6)
    small.log.staged.end_batch()
    small.write()
    small.log.commit()
    small.log.staged.begin_batch()
    small.log.staged.set_consumer(1, b"one")
    small.log.staged.set_consumer_state(1, True, b"state")
    small.log.staged.end_batch()
    small.write()
    small.log.commit()
    rest = fill(small)
    delete(small, [seq for seq in batch + rest if seq % 5])
    keep_house(small)
    small.reopen()

    data, at = small.log.reader.locate(5)

    assert record_flags(data, at) & BATCH_MEMBER == 0
    names = {path.name for path in small.disk.paths()}
    assert all(path.name + ".idx" in names for path in small.segments()[:-1])
    assert messages(small.log)[5].body == BODY
    assert small.recovery.damaged == []


def test_configurations_of_rewritten_segments_are_in_the_head_of_the_new_one(
    small: "Bench",
) -> None:
    seqs = fill(small, 20)
    small.limit(0, 0, 30)
    small.log.staged.configure(b'{"n":1}')
    small.write()
    small.log.commit()
    seqs += fill(small, 60)
    delete(small, [seq for seq in seqs if seq % 5])
    keep_house(small)
    for name in ("manifest.a", "manifest.b"):
        small.disk.flip(small.log.segments.folder / name, 100)
    left = sequences(small.log)
    small.reopen()

    assert bytes(small.log.identity.config) == b'{"n":1}'
    assert small.log.limits.max_per_subject == 30
    assert sequences(small.log) == left


def test_the_speed_of_rewriting_is_an_argument(small: "Bench") -> None:
    """Rate-limited by bytes per second; ``Housekeeper`` waits as long as a task says."""
    small.log.upkeep.rates = UpkeepRates(compaction_rate=1000)
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 5])
    chore = small.log.take_task()
    assert isinstance(chore, Compactor)
    moved = waited = 0
    while not chore.step():
        waited += chore.pause_ns()
        moved = int(chore.moved)
    small.log.end_task(False)

    assert moved > 2000
    assert waited == moved * 10**9 // 1000


def test_two_streams_do_not_mind_each_other(small: "Bench") -> None:
    other = small.store.create(Identity(stream_id=9, account="A", name="T", created_ns=1))
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 5])
    keep_house(small)
    other.close()
    small.log.close()

    assert any(file.endswith(".seg") for file in small.disk.list_folder(other.segments.folder))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_header_that_cannot_be_read_temporarily_is_no_damage(small: "Bench", times: int) -> None:
    seqs = fill(small)
    kept = seqs[::5]
    keep_house(small)
    delete(small, [seq for seq in seqs if seq not in kept])
    small.disk.refuse_reads(small.log.segments.list_files()[0].name, 0, 8, times=times)

    keep_house(small)

    assert not small.log.quarantine.known
    assert small.log.quarantine.lost == []
    assert sequences(small.log) == kept
    small.disk.allow_reads()
    delete(small, fill(small))
    before = on_disk(small)
    keep_house(small)
    assert on_disk(small) < before // 2


def test_messages_that_were_deleted_are_not_lost_with_the_head_of_their_segment(
    small: "Bench",
) -> None:
    seqs = fill(small)
    kept = seqs[::5]
    delete(small, [seq for seq in seqs if seq not in kept])
    small.disk.flip(small.log.segments.folder / small.log.segments.list_files()[0].name, 80)

    keep_house(small)

    assert [damage.messages for damage in small.log.quarantine.known.values()] == [0]
    assert small.log.quarantine.lost == []
    assert sequences(small.log) == kept


def test_on_a_full_disk_even_the_newest_segment_is_compacted(bench: "Bench") -> None:
    """Nothing is removed or rewritten of the segment that is written to: another is started."""
    seqs = fill(bench, 30)
    (newest,) = bench.segments()
    kept = seqs[10:12]
    delete(bench, [seq for seq in seqs if seq not in kept])
    keep_house(bench)
    before = on_disk(bench)

    bench.log.upkeep.want_space()
    keep_house(bench)
    bench.write()
    bench.log.commit()
    bench.log.upkeep.want_space()
    keep_house(bench)

    assert on_disk(bench) < before - 5_000
    assert bench.segments()[0] == newest
    assert not [path for path in bench.disk.paths() if path.suffix == ".tmp"]
    for _ in range(2):
        assert list(messages(bench.log)) == kept
        assert bench.publish(b"next") == [seqs[-1] + 1]
        bench.log.staged.delete(seqs[-1] + 1)
        bench.write()
        bench.log.commit()
        seqs.append(seqs[-1] + 1)
        bench.reopen()


@pytest.mark.parametrize(("free", "is_rewritten"), [(1_000_000, True), (700_000, False)])
def test_on_a_full_disk_as_much_is_rewritten_as_there_is_space_for(
    bench: "Bench", free: int, is_rewritten: bool
) -> None:
    """More than the reserve alone would be enough for; some space is left to deletes."""
    bench.segment_size = 4_000_000
    bench.store.close()
    bench.log.close()
    bench.reopen()
    seqs = [bench.publish(bytes(60_000))[0] for _ in range(20)]
    delete(bench, seqs[6:])
    keep_house(bench)
    before = on_disk(bench)
    bench.disk.capacity = sum(bench.disk.paths().values()) + free

    bench.log.upkeep.want_space()
    keep_house(bench)
    if is_rewritten:
        bench.write()
        bench.log.commit()
    bench.log.upkeep.want_space()
    keep_house(bench)

    assert (on_disk(bench) < before - 700_000) == is_rewritten
    assert sequences(bench.log) == seqs[:6]


def test_a_full_disk_has_no_more_work_when_nothing_can_be_given_back(bench: "Bench") -> None:
    fill(bench, 100)
    keep_house(bench)
    before = bench.segments()

    bench.log.upkeep.want_space()
    keep_house(bench)

    assert bench.log.take_group() is None
    assert not bench.log.upkeep.has_task()
    assert bench.segments() == before


@pytest.mark.parametrize("step", range(1, 12))
def test_what_meets_a_full_disk_leaves_nothing_of_its_own_there(small: "Bench", step: int) -> None:
    seqs = fill(small)
    delete(small, [seq for seq in seqs if seq % 5])
    while not isinstance(small.log.upkeep.task, Compactor):
        assert small.log.maintain()
    small.disk.fail(step, errno.ENOSPC)
    keep_house(small)

    assert not [path for path in small.disk.paths() if ".compact" in path.name]


def test_the_files_of_a_removed_stream_that_could_not_be_removed_go_when_space_is_needed(
    bench: "Bench",
) -> None:
    fill(bench, 30)
    bench.store.mark_dropped(bench.log)
    bench.log.close()
    bench.disk.fail(1, errno.EIO, times=10)
    bench.store.remove_dropped(bench.log)
    left = bench.segments()
    bench.disk.forget_failures()
    bench.store.retry_removals()

    assert left
    assert bench.segments() == []
