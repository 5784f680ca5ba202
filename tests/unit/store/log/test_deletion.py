"""Deleting and purging: what goes, what decisions see at once, and that a restart agrees.

wire.md, Streams (PURGE, MSG.DELETE), contracts.md, Commit (staged and durable state).
"""

import errno
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import check_counts, messages, sequences

from jetspark.errors.storage import StoreReadOnly
from jetspark.store.log.index import StreamIndex, SubjectEntry
from jetspark.subjects.match import matches

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

SUBJECTS = [b"a", b"b", b"c.d"]


def commit(bench: "Bench") -> None:
    bench.write()
    bench.log.commit()


def settled(bench: "Bench") -> list[int]:
    """What exists, after checking that the counts agree and that a restart finds the same."""
    check_counts(bench.log, messages(bench.log))
    before = messages(bench.log)
    first, last = bench.log.index.first_seq, bench.log.index.last_seq
    size, time = bench.log.index.bytes, bench.log.reader.first_time
    bench.reopen()
    assert messages(bench.log) == before
    check_counts(bench.log, before)
    assert (bench.log.index.first_seq, bench.log.index.last_seq) == (first, last)
    assert (bench.log.index.bytes, bench.log.reader.first_time) == (size, time)
    assert bench.recovery.damaged == []
    return list(before)


# The index --------------------------------------------------------------------------------------

plans = st.lists(
    st.one_of(st.sampled_from(SUBJECTS), st.integers(1, 60), st.none()), min_size=1, max_size=80
)


@given(plan=plans)
def test_an_index_counts_right_whatever_goes(plan: list[bytes | int | None]) -> None:
    """A message of a subject, the removal of a sequence, or a new segment."""
    index = StreamIndex()
    index.add_segment(3, 1, 0)
    model: dict[int, bytes] = {}
    seq = 0
    for step in plan:
        if isinstance(step, bytes):
            seq += 1
            index.add_message(seq, index.entry(step), 100 + seq, seq, 31)
            model[seq] = step
        elif isinstance(step, int):
            assert index.remove(step) == (model.pop(step, None) is not None)
        else:
            index.add_segment(4 + seq, seq + 1, 0)
        assert (index.messages, index.bytes) == (len(model), 31 * len(model))
        assert index.first_seq == min(model, default=seq + 1 if seq else 0)
    present = sorted(model)
    gone = [s for s in range(index.first_seq, seq + 1) if s not in model] if model else []
    assert [s for s in range(index.first_seq, seq + 1) if index.next_seq(s, b"") != s] == gone
    for subject in SUBJECTS:
        own = [s for s in present if model[s] == subject]
        entry = index.entry(subject)
        assert (entry.count, entry.first, entry.last) == (
            len(own),
            min(own, default=0),
            max(own, default=0),
        )
        for seq_of, following in zip(own, [*own[1:], 0], strict=False):
            assert index.next_in_subject(seq_of) == following
    assert index.next_in_subject(999) == 0


def test_a_long_gap_takes_no_memory() -> None:
    """A purge may move the end by any number (wire.md, Streams)."""
    index = StreamIndex()
    index.add_segment(3, 1, 0)
    index.add_message(1, index.entry(b"a"), 100, 1, 30)
    index.skip_to(10**15)
    index.add_message(10**15 + 1, index.entry(b"a"), 200, 2, 30)

    assert sum(len(columns.offsets) for columns in index.segments) == 2
    assert index.next_seq(2, b"") == 10**15 + 1
    assert index.next_in_subject(1) == 10**15 + 1
    assert index.remove(1)
    assert index.first_seq == 10**15 + 1


def test_subjects_without_messages_give_their_numbers_back() -> None:
    """A stream of ever new subjects whose messages go does not grow for ever."""
    index = StreamIndex()
    index.add_segment(3, 1, 0)
    for seq in range(1, 30_001):
        index.add_message(seq, index.entry(b"s.%d" % seq), 100 + seq, seq, 30)
        if seq > 10:
            index.remove(seq - 10)
        if index.wants_recycling():
            before = index.generation
            index.recycle([])
            assert index.generation > before

    assert len(index.entries) < 10_000
    assert index.subjects.used < 10_000
    assert [index.entry(b"s.%d" % seq).last for seq in range(29_991, 30_001)] == list(
        range(29_991, 30_001)
    )
    mask = index.mask_for(b"s.29995")
    assert index.next_seq(1, mask) == 29_995


@pytest.mark.parametrize("seed", range(10))
def test_numbers_are_given_back_in_steps_while_messages_come_and_go(seed: int) -> None:
    """Whatever happens between two steps, each subject finds its own messages and no others."""
    rng = random.Random(seed)
    index = StreamIndex()
    index.add_segment(3, 1, 0)
    model: dict[bytes, list[int]] = {}
    staged: list[SubjectEntry] = []
    seq = 0

    def publish(subject: bytes) -> None:
        nonlocal seq
        seq += 1
        index.add_message(seq, index.entry(subject), 100 + seq, seq, 30)
        model.setdefault(subject, []).append(seq)

    def remove() -> None:
        subject = rng.choice(list(model))
        gone = model[subject].pop(rng.randrange(len(model[subject])))
        if not model[subject]:
            del model[subject]
        assert index.remove(gone)

    for _ in range(3):
        for number in range(1_000):
            publish(b"s.%d.%d" % (rng.randint(0, 3), number))
        while len(model) > 200:
            remove()
        index.order_made()
        done = False
        while not done:
            done = index.sweep_step(staged, 50)
            what = rng.randint(0, 3)
            if what == 0:
                publish(b"s.%d.%d" % (rng.randint(0, 3), rng.randint(0, 1_100)))
            elif what == 1 and model:
                remove()
            elif what == 2 and staged:
                entry = staged.pop()
                publish(entry.subject)
                assert index.entry(entry.subject) is entry
            elif what == 2:
                staged.append(index.entry(b"s.0.%d" % rng.randint(0, 1_100)))
            else:
                index.forget_staged(staged)
                staged.clear()
            assert {int(n) for n in index.free}.isdisjoint(live_numbers(index))
        assert index.entries_like(b"s.1.*") is not None
        check_model(index, model)
    assert len(index.entries) < 1_500


def live_numbers(index: StreamIndex) -> set[int]:
    return {number for number, entry in enumerate(index.entries) if entry.id >= 0}


def check_model(index: StreamIndex, model: dict[bytes, list[int]]) -> None:
    for subject, there in model.items():
        entry = index.subjects.get(subject)
        assert entry is not None
        assert index.entries[int(entry.id)] is entry
        assert (entry.first, entry.last, entry.count) == (there[0], there[-1], len(there))
    for pattern in (b"s.1.*", b"s.*.7", b">"):
        found = {entry.subject for entry in index.entries_like(pattern) if entry.count > 0}
        assert found == {subject for subject in model if matches(subject, pattern)}


def test_a_staged_number_is_kept() -> None:
    index = StreamIndex()
    staged = index.entry(b"staged")
    index.entry(b"gone")
    index.recycle([staged])

    assert index.subjects.get(b"gone") is None
    assert index.entry(b"staged") is staged


# Delete -----------------------------------------------------------------------------------------


def test_a_delete_shows_when_it_is_durable(bench: "Bench") -> None:
    bench.publish(b"one", b"two", b"three")

    assert bench.log.staged.delete(2)
    assert sequences(bench.log) == [1, 2, 3]
    commit(bench)

    assert settled(bench) == [1, 3]
    assert bench.log.reader.locate(2) == (b"", 0)
    assert bench.publish(b"four") == [4]


def test_what_is_not_there_cannot_be_deleted(bench: "Bench") -> None:
    bench.publish(b"one", b"two")

    assert not bench.log.staged.delete(3)
    assert not bench.log.staged.delete(0)
    assert bench.log.staged.delete(1)
    assert not bench.log.staged.delete(1), "it is about to go"
    commit(bench)
    assert not bench.log.staged.delete(1), "it is gone"
    assert bench.log.take_group() is None


def test_a_message_that_is_only_staged_can_be_deleted(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.stage(b"two", b"three")
    assert bench.log.staged.delete(2)
    assert bench.log.index.entry(b"a.b").staged_last == 3
    assert bench.log.staged.delete(3)
    assert bench.log.index.entry(b"a.b").staged_last == 1
    commit(bench)

    assert settled(bench) == [1]


def test_decisions_see_the_last_message_that_stays(bench: "Bench") -> None:
    bench.publish(b"one", b"two", b"three")
    entry = bench.log.index.entry(b"a.b")
    bench.log.staged.delete(3)
    assert (entry.staged_last, entry.last) == (2, 3)
    bench.log.staged.delete(1)
    bench.log.staged.delete(2)
    assert (entry.staged_last, entry.last) == (0, 3)
    assert (bench.log.staged.messages, bench.log.staged.size) == (0, 0)
    commit(bench)

    assert (entry.staged_last, entry.last, entry.count) == (0, 0, 0)
    assert (bench.log.index.first_seq, bench.log.reader.first_time) == (4, 0)
    assert settled(bench) == []
    assert bench.log.index.last_time > 0


def test_a_staged_message_that_was_deleted_does_not_reappear_when_it_is_durable(
    bench: "Bench",
) -> None:
    """Its record is durable before that of the delete: decisions see what stays."""
    bench.publish(b"one")
    bench.stage(b"two")
    bench.stage(b"three", subject=b"x")
    bench.write()
    bench.log.staged.delete(2)
    bench.log.staged.delete(3)
    bench.log.commit()

    assert sequences(bench.log) == [1, 2, 3], "readers see it until the delete is durable"
    assert bench.log.index.entry(b"a.b").staged_last == 1
    assert bench.log.index.entry(b"x").staged_last == 0
    commit(bench)
    assert settled(bench) == [1]
    assert bench.log.index.entry(b"a.b").staged_last == 1


def test_a_delete_that_fails_was_never_decided(bench: "Bench") -> None:
    bench.publish(b"one", b"two")
    bench.log.staged.delete(2)
    bench.log.staged.purge(0, b"", 0)
    bench.disk.fail(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        bench.write()
    bench.log.fail(no_space=True)

    assert bench.log.index.entry(b"a.b").staged_last == 2
    assert bench.log.staged.messages == 2
    assert bench.log.staged.delete(2)
    commit(bench)
    assert settled(bench) == [1]


def test_a_read_only_log_deletes_nothing(bench: "Bench") -> None:
    bench.publish(b"one")
    bench.log.fail(no_space=False)

    for change in (
        lambda: bench.log.staged.delete(1),
        lambda: bench.log.staged.purge(0, b"", 0),
        lambda: bench.log.staged.configure(b"{}"),
    ):
        with pytest.raises(StoreReadOnly):
            change()
    assert sequences(bench.log) == [1]


# Purge ------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(bench: "Bench") -> "Bench":
    """Sequences 1 to 9 of the subjects x.0, x.1, x.2 in turn."""
    for number in range(9):
        bench.publish(b"%d" % number, subject=b"x.%d" % (number % 3))
    return bench


@pytest.mark.parametrize(
    ("before", "pattern", "keep", "left", "count"),
    [
        (0, b"", 0, [], 9),
        (0, b">", 0, [], 9),
        (4, b"", 0, [4, 5, 6, 7, 8, 9], 3),
        (1, b"", 0, list(range(1, 10)), 0),
        (10, b"", 0, [], 9),
        (0, b"", 2, [8, 9], 7),
        (0, b"", 50, list(range(1, 10)), 0),
        (0, b"x.1", 0, [1, 3, 4, 6, 7, 9], 3),
        (0, b"x.1", 1, [1, 3, 4, 6, 7, 8, 9], 2),
        (6, b"x.1", 0, [1, 3, 4, 6, 7, 8, 9], 2),
        (0, b"x.*", 4, [6, 7, 8, 9], 5),
        (0, b"nobody", 0, list(range(1, 10)), 0),
        (100, b"x.1", 0, [1, 3, 4, 6, 7, 9], 3),
    ],
)
def test_a_purge_takes_what_it_says(
    mixed: "Bench", before: int, pattern: bytes, keep: int, left: list[int], count: int
) -> None:
    """Seq = everything below, keep = newest n of the filter."""
    assert mixed.log.staged.purge(before, pattern, keep) == count
    assert mixed.log.staged.messages == len(left)
    commit(mixed)

    assert mixed.log.staged.messages == len(left)
    assert mixed.log.staged.size == mixed.log.index.bytes
    assert settled(mixed) == left
    assert mixed.log.index.last_seq == 9
    assert mixed.log.index.first_seq == (left[0] if left else 10)
    assert mixed.publish(b"next") == [10]
    assert settled(mixed) == [*left, 10]


def test_a_purge_beyond_the_end_moves_the_end(mixed: "Bench") -> None:
    """First_seq = seq, last_seq = seq - 1."""
    assert mixed.log.staged.purge(1_000, b"", 0) == 9
    commit(mixed)

    assert (mixed.log.index.first_seq, mixed.log.index.last_seq) == (1_000, 999)
    assert settled(mixed) == []
    assert mixed.publish(b"next") == [1_000]
    assert settled(mixed) == [1_000]


def test_a_purge_takes_what_came_below_a_bound_that_an_earlier_one_named(mixed: "Bench") -> None:
    """The bound was beyond the end then, and says nothing about what came later."""
    mixed.log.staged.purge(12, b"x.*", 0)
    commit(mixed)
    for _ in range(3):
        mixed.publish(b"later", subject=b"x.1")
    assert settled(mixed) == [10, 11, 12]

    assert mixed.log.staged.purge(0, b"x.*", 0) == 3
    commit(mixed)

    assert settled(mixed) == []


def test_a_purge_counts_what_is_in_flight(mixed: "Bench") -> None:
    mixed.stage(b"ten", subject=b"x.1")
    group = mixed.log.take_group()
    assert group is not None
    mixed.stage(b"eleven", subject=b"x.1")
    mixed.log.staged.delete(2)

    assert mixed.log.staged.purge(0, b"x.1", 1) == 3
    assert mixed.log.index.entry(b"x.1").staged_last == 11
    assert mixed.log.staged.purge(0, b"x.1", 0) == 1
    assert mixed.log.index.entry(b"x.1").staged_last == 0
    assert mixed.log.index.entry(b"x.2").staged_last == 9
    mixed.stage(b"twelve", subject=b"x.1")
    mixed.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    mixed.log.commit()
    assert 10 in sequences(mixed.log)
    commit(mixed)
    assert settled(mixed) == [1, 3, 4, 6, 7, 9, 12]


def test_a_torn_purge_did_not_happen(mixed: "Bench") -> None:
    """Every byte at which its write can be cut short."""
    mixed.log.staged.purge(0, b"x.*", 3)
    images: list[SimulatedDisk] = []

    def look(operation: Operation) -> None:
        if operation.kind == "sync":
            images.extend(mixed.disk.prefixes())

    mixed.disk.before_step = look
    mixed.write()
    for image in images[:-1]:
        mixed.reopen(image)
        assert sequences(mixed.log) == list(range(1, 10))
        assert mixed.recovery.damaged == []
    mixed.reopen(images[-1])
    assert sequences(mixed.log) == [7, 8, 9]


@pytest.mark.parametrize("kind", ["delete", "purge", "configuration"])
def test_an_old_removal_that_turns_up_again_is_not_believed(mixed: "Bench", kind: str) -> None:
    """A copy of a record after newer messages names an older end than exists."""
    path = mixed.segments()[-1]
    before = mixed.disk.paths()[path]
    if kind == "delete":
        mixed.log.staged.delete(1)
    elif kind == "purge":
        mixed.log.staged.purge(0, b"", 0)
    else:
        mixed.limit(1, 0, 0)
        mixed.log.staged.configure(b'{"old":1}')
    commit(mixed)
    copy = mixed.disk.read_file(path)[before:]
    mixed.limit(0, 0, 0)
    mixed.log.staged.configure(b'{"new":1}')
    commit(mixed)
    mixed.publish(b"ten", b"eleven")
    left = sequences(mixed.log)
    mixed.log.close()
    mixed.store.close()
    mixed.disk.put(path, mixed.disk.read_file(path) + copy)
    mixed.reopen(mixed.disk)

    assert sequences(mixed.log) == left
    assert len(mixed.recovery.damaged) == 1
    assert bytes(mixed.log.identity.config) == b'{"new":1}'


# Ranges -----------------------------------------------------------------------------------------


def test_a_range_goes_as_a_whole(bench: "Bench") -> None:
    bench.publish(b"1", b"2", b"3", b"4", b"5", b"6")

    assert bench.log.staged.delete_range(2, 4) == 3
    assert bench.log.staged.messages == 3
    assert list(messages(bench.log)) == [1, 2, 3, 4, 5, 6]
    commit(bench)
    assert settled(bench) == [1, 5, 6]


def test_a_range_takes_what_is_staged_and_counts_nothing_twice(bench: "Bench") -> None:
    bench.publish(b"1", b"2")
    bench.stage(b"3", subject=b"x")
    bench.stage(b"4", b"5")
    assert bench.log.staged.delete(2)

    assert bench.log.staged.delete_range(1, 4) == 3
    assert bench.log.staged.delete_range(1, 4) == 0
    assert not bench.log.staged.delete(3)
    assert bench.log.staged.messages == 1
    assert bench.log.index.entry(b"x").staged_last == 0
    assert bench.log.index.entry(b"a.b").staged_last == 5
    commit(bench)
    assert settled(bench) == [5]
    assert bench.log.staged.size == bench.log.index.bytes


def test_a_range_without_messages_stages_nothing(bench: "Bench") -> None:
    bench.publish(b"1")

    assert bench.log.staged.delete_range(2, 100) == 0
    assert bench.log.take_group() is None


def test_a_range_is_forgotten_when_its_group_fails(bench: "Bench") -> None:
    bench.publish(b"1", b"2", b"3")
    bench.log.staged.delete_range(2, 3)
    assert bench.log.index.entry(b"a.b").staged_last == 1
    bench.log.take_group()
    bench.log.fail(no_space=True)

    assert bench.log.index.entry(b"a.b").staged_last == 3
    assert bench.log.staged.messages == 3


# Who keeps counts of its own --------------------------------------------------------------------


def removed(index: StreamIndex) -> list[tuple[int, bytes]]:
    pairs = zip(index.removed_seqs, index.removed_subjects, strict=True)
    return [(int(seq), index.entries[int(number)].subject) for seq, number in pairs]


def test_an_index_says_what_was_removed_to_who_asks(bench: "Bench") -> None:
    index = bench.log.index
    bench.publish(b"1", b"2")
    bench.log.staged.delete(1)
    commit(bench)
    assert removed(index) == []
    index.tracking = True
    bench.limit(2, 0, 0)
    bench.publish(b"3", b"4", subject=b"x")
    bench.publish(b"5")
    bench.log.staged.delete(4)
    commit(bench)

    assert removed(index) == [(2, b"a.b"), (3, b"x"), (4, b"x")]
    assert not index.recount
    index.forget_removed()
    assert removed(index) == []


def test_a_removal_of_everything_asks_for_a_new_count(bench: "Bench") -> None:
    index = bench.log.index
    index.tracking = True
    bench.publish(b"1", b"2")
    bench.log.staged.purge(0, b"", 0)
    commit(bench)

    assert index.recount
    index.forget_removed()
    assert not index.recount


def test_subjects_that_get_other_numbers_ask_for_a_new_count(bench: "Bench") -> None:
    index = bench.log.index
    index.tracking = True
    bench.publish(b"1")
    bench.log.staged.delete(1)
    commit(bench)
    index.recycle([])

    assert index.recount


# Staged together --------------------------------------------------------------------------------

PATTERNS = [b"", b">", b"x.0", b"x.1", b"x.*", b"y.*", b"nothing"]


@pytest.mark.parametrize("seed", range(25))
def test_decisions_agree_with_a_model_whatever_is_staged(bench: "Bench", seed: int) -> None:
    """Messages, deletes, ranges and purges, some of them in batches that are undone."""
    rng = random.Random(seed)
    subjects = [b"x.0", b"x.1", b"x.2", b"y.0"][: rng.choice([1, 2, 4])]
    model: dict[int, bytes] = {}

    def change() -> None:
        staged = bench.log.staged
        kind = rng.choice(["add", "add", "add", "delete", "range", "purge", "purge"])
        if kind == "add":
            subject = rng.choice(subjects)
            for seq in bench.stage(*[b"x"] * rng.randint(1, 4), subject=subject):
                model[seq] = subject
        elif kind == "delete":
            seq = rng.randint(1, int(staged.seq) + 1)
            assert staged.delete(seq) == (model.pop(seq, None) is not None)
        elif kind == "range":
            first = rng.randint(1, int(staged.seq) + 1)
            last = first + rng.randint(0, 5)
            gone = [seq for seq in model if first <= seq <= last]
            assert staged.delete_range(first, last) == len(gone)
            for seq in gone:
                del model[seq]
        else:
            pattern = rng.choice(PATTERNS)
            everything = pattern in {b"", b">"}
            before, keep = rng.choice(
                [(0, 0), (rng.randint(1, int(staged.seq) + 1), 0), (0, rng.randint(1, 4))]
            )
            if not everything and rng.random() < 0.2:
                before = int(staged.seq) + 100
            matching = [seq for seq in model if everything or matches(model[seq], pattern)]
            kept = matching[max(len(matching) - keep, 0) :] if keep else []
            gone = [s for s in matching if s not in kept and (not before or s < before)]
            assert staged.purge(before, pattern, keep) == len(gone)
            for seq in gone:
                del model[seq]

    for _ in range(60):
        before = dict(model)
        if rng.random() < 0.2:
            bench.log.staged.begin_batch()
            for _ in range(rng.randint(0, 4)):
                change()
            if rng.random() < 0.5:
                bench.log.staged.abort_batch()
                model = before
            else:
                bench.log.staged.end_batch()
        else:
            change()
        assert bench.log.staged.messages == len(model)
        for subject in subjects:
            entry = bench.log.index.known(subject)
            last = 0 if entry is None else entry.staged_last
            assert last == max((s for s in model if model[s] == subject), default=0)
        if rng.random() < 0.2:
            group = bench.log.take_group()
            if group is not None:
                if rng.random() < 0.5:
                    change()  # while it is in flight
                bench.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
                bench.log.commit()
    if bench.log.staged.open_size() > 0:
        commit(bench)
    assert settled(bench) == sorted(model)
    assert bench.log.staged.size == bench.log.index.bytes
