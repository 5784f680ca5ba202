"""The index against the simplest thing that could be right: a dict of sequence to subject."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.store.log.index import StreamIndex
from jetspark.subjects.match import matches

SUBJECTS = [b"a", b"a.b", b"a.b.c", b"a.c", b"b.b", b"b.c.c"]
PATTERNS = [*SUBJECTS, b"zzz", b">", b"*", b"*.b", b"a.*", b"a.>", b"*.*.c", b"x.>"]

# A stream as steps: a message of a subject, a number of skipped sequences, or a new segment.
steps = st.lists(
    st.one_of(
        st.sampled_from(SUBJECTS),
        st.integers(1, 4),
        st.none(),
    ),
    max_size=40,
)


def build(plan: list[bytes | int | None]) -> tuple[StreamIndex, dict[int, bytes]]:
    index = StreamIndex()
    index.add_segment(3, 1, 0)
    model: dict[int, bytes] = {}
    seq = 0
    for step in plan:
        if isinstance(step, bytes):
            seq += 1
            index.add_message(seq, index.entry(step), 100 + seq, seq * 10, 30)
            model[seq] = step
        elif isinstance(step, int):
            seq += step
            index.skip_to(seq)
        else:
            index.add_segment(3, seq + 1, 0)
    return index, model


@given(plan=steps, pattern=st.sampled_from(PATTERNS), seq=st.integers(0, 120))
def test_filters_answer_as_a_walk_over_everything_would(
    plan: list[bytes | int | None], pattern: bytes, seq: int
) -> None:
    index, model = build(plan)
    mask = index.mask_for(pattern)
    wanted = [s for s, subject in model.items() if matches(subject, pattern)]

    assert index.next_seq(seq, mask) == min((s for s in wanted if s >= seq), default=0)
    assert index.count_from(seq, mask) == sum(s >= seq for s in wanted)
    assert index.last_match(pattern) == max(wanted, default=0)


@given(plan=steps, seq=st.integers(0, 120))
def test_without_a_filter_everything_counts(plan: list[bytes | int | None], seq: int) -> None:
    index, model = build(plan)

    assert index.next_seq(seq, b"") == min((s for s in model if s >= seq), default=0)
    assert index.count_from(seq, b"") == sum(s >= seq for s in model)


@given(plan=steps, removed=st.lists(st.integers(1, 60), max_size=10))
def test_sequences_without_a_message_are_listed(
    plan: list[bytes | int | None], removed: list[int]
) -> None:
    index, model = build(plan)
    for seq in removed:
        index.remove(seq)
        model.pop(seq, None)

    between = range(min(model), int(index.last_seq) + 1) if model else range(0)
    assert index.missing() == [seq for seq in between if seq not in model]


@given(plan=steps)
def test_totals_are_those_of_the_messages(plan: list[bytes | int | None]) -> None:
    index, model = build(plan)

    assert index.messages == len(model)
    assert index.bytes == 30 * len(model)
    # Without messages the first sequence is the next one, 0 before any was used.
    assert index.first_seq == min(model, default=index.last_seq + 1 if index.last_seq else 0)
    assert not model or index.first_time_known == 10 * min(model)
    assert index.last_time == 10 * max(model, default=0)
    assert index.subject_count == len(set(model.values()))


@given(plan=steps)
def test_a_sequence_is_found_in_the_segment_that_holds_it(plan: list[bytes | int | None]) -> None:
    index, model = build(plan)
    for seq in range(130):
        columns = index.segment_of(seq)
        if seq in model:
            assert columns is not None
            assert columns.offset_at(seq - columns.base) == 100 + seq
        else:
            assert columns is None or columns.offsets[seq - columns.base] == 0


def test_finding_a_segment_does_not_walk_over_all_of_them() -> None:
    """A hundred thousand segments and as many look-ups: a walk would take minutes."""
    index = StreamIndex()
    entry = index.entry(b"a")
    for seq in range(1, 100_001):
        index.add_segment(3, seq, 0)
        index.add_message(seq, entry, 100 + seq, 0, 1)

    for seq in range(1, 100_001, 7):
        columns = index.segment_of(seq)
        assert columns is not None
        assert columns.base == seq
        assert index.next_seq(seq, b"") == seq


def test_a_subject_that_is_only_staged_is_no_match() -> None:
    """Everything a reader can see uses durable state."""
    index, _ = build([b"a.b"])
    index.entry(b"a.staged").staged_last = 2

    assert index.subject_count == 1
    assert index.last_match(b"a.staged") == 0
    assert index.last_match(b"a.*") == 1
    assert not any(index.mask_for(b"a.staged"))
    assert sum(index.mask_for(b"a.*")) == 1


def test_forgetting_what_was_staged_keeps_what_is_durable() -> None:
    index, _ = build([b"a.b", b"a.c"])
    staged = [index.entry(b"x"), index.entry(b"y"), index.entry(b"a.b"), index.entry(b"x")]
    index.forget_staged(staged)

    assert index.subjects.get(b"x") is None
    assert index.subjects.get(b"y") is None
    assert [entry.subject for entry in index.entries if entry.id >= 0] == [b"a.b", b"a.c"]
    numbers = [index.entry(subject).id for subject in (b"z", b"y", b"x")]
    assert sorted(numbers) == [2, 3, 4]


@pytest.mark.parametrize("pattern", [b"nobody", b"nobody.>", b">"])
def test_a_mask_that_matches_nothing_is_not_empty(pattern: bytes) -> None:
    """An empty mask stands for every subject."""
    mask = StreamIndex().mask_for(pattern)

    assert mask
    assert not any(mask)


@given(
    plan=steps,
    removed=st.sets(st.integers(1, 60)),
    later=steps,
    asked=st.lists(st.sampled_from([*SUBJECTS, b"new", b""])),
)
def test_subjects_of_consecutive_messages_are_found_in_any_order_after_any_removal(
    plan: list[bytes | int | None],
    removed: set[int],
    later: list[bytes | int | None],
    asked: list[bytes],
) -> None:
    """Also when ids were reassigned, of which the rows of removed messages know nothing."""
    index, model = build(plan)
    for seq in removed:
        index.remove(seq)
    index.recycle([])
    seq = index.last_seq
    for step in later:
        if isinstance(step, bytes):
            seq += 1
            index.add_message(seq, index.entry(step), 100 + seq, seq * 10, 30)

    for subjects in (asked, asked, list(model.values()), asked[::-1]):
        alone = [index.subjects.get(subject) for subject in subjects]
        assert index.find_many(subjects) == alone


def test_a_repeated_order_of_subjects_is_followed_from_one_segment_to_the_next() -> None:
    subjects = [b"s.%d" % (7 * n % 100) for n in range(100)]
    plan = [*subjects[:40], None, 3, *subjects[40:]]
    index, model = build(plan)

    for some in (subjects[:30], subjects[30:39], subjects[39:]):
        assert [entry and entry.subject for entry in index.find_many(some)] == some
        assert model[index.followed] == some[-1]
