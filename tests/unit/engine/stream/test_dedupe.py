"""The duplicate window alone, with virtual time (wire.md, Publishing)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.engine.stream.dedupe import COMPACT_AFTER, FORGOTTEN_AT_ONCE, DuplicateWindow


def test_an_id_is_due_exactly_when_its_window_is_over() -> None:
    window = DuplicateWindow(100, 10)
    window.add(b"a", 1, 1000)

    assert window.due == 1100
    assert window.find(b"a", 1099) == 1
    assert window.find(b"a", 1100) == 0
    assert window.due == 0


def test_a_full_window_says_so_and_forgets_nothing() -> None:
    window = DuplicateWindow(100, 2)
    window.add(b"a", 1, 0)
    window.add(b"b", 2, 50)
    assert window.is_full()
    assert window.find(b"a", 99) == 1

    window.expire(100, 10)
    assert not window.is_full()
    assert window.find(b"b", 100) == 2


def test_a_long_queue_gives_its_front_back() -> None:
    window = DuplicateWindow(100, 1_000_000)
    count = int(COMPACT_AFTER) + 10
    for n in range(count):
        window.add(b"%d" % n, n + 1, n)

    window.expire(count + 90, count)

    assert len(window.queue) == 9
    assert window.find(b"%d" % (count - 1), count + 90) == count
    window.forget_after(count - 3)
    assert [window.find(b"%d" % n, count + 90) for n in range(count - 4, count)] == [
        count - 3, 0, 0, 0,
    ]  # fmt: skip


def test_a_shorter_window_counts_at_once() -> None:
    window = DuplicateWindow(100, 10)
    window.add(b"a", 1, 0)

    window.configure(50)

    assert window.due == 50
    assert window.find(b"a", 50) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["publish", "publish", "publish", "commit", "fail"]),
            st.integers(0, 4),
            st.integers(0, 30),
        ),
        max_size=60,
    ),
    # All ids in one dict, or some in the one that grows in steps.
    st.sampled_from([0, 1, 3, 1000]),
)
def test_the_window_agrees_with_a_plain_model(
    steps: list[tuple[str, int, int]], first_max: int
) -> None:
    window = DuplicateWindow(50, 1000, first_max)
    model: dict[bytes, tuple[int, int]] = {}
    now = seq = durable = 0
    for action, number, pause in steps:
        now += pause
        msg_id = b"%d" % number
        if action == "publish":
            known = model.get(msg_id)
            expected = known[0] if known and now - known[1] < 50 else 0
            assert window.find(msg_id, now) == expected
            entered = pause % 2 == 1 and window.enter(msg_id, seq + 1, now)
            assert not (entered and expected)
            if not expected:
                seq += 1
                if not entered:
                    window.add(msg_id, seq, now)
                model[msg_id] = (seq, now)
        elif action == "commit":
            durable = seq
        else:
            window.forget_after(durable)
            model = {k: v for k, v in model.items() if v[0] <= durable}


@pytest.mark.parametrize("first_max", [100, 10_000])
def test_very_many_ids_that_expire_together_are_forgotten_some_at_a_time(first_max: int) -> None:
    count = 10_000
    window = DuplicateWindow(100, count, first_max)
    for n in range(count):
        window.add(b"%d" % n, n + 1, n // 100)
    assert window.is_full()

    # None is found any more, although most are still to be forgotten; and there is room at once.
    now = 1_000
    assert all(window.find(b"%d" % n, now) == 0 for n in range(0, count, 1_000))
    assert len(window) > count // 2
    for n in range(0, count, 7):
        assert window.enter(b"%d" % n, count + n + 1, now)
        assert not window.enter(b"%d" % n, count + count + n, now)
    for n in range(count):
        assert window.find(b"%d" % n, now + 1) == (0 if n % 7 else count + n + 1)
    window.expire(now + 1, count)
    assert len(window) == len(range(0, count, 7))


def test_ids_of_messages_that_failed_are_forgotten_while_older_ones_expire() -> None:
    window = DuplicateWindow(100, 10_000)
    for n in range(1_000):
        window.add(b"%d" % n, n + 1, 0)
    assert window.find(b"5", 100) == 0
    window.add(b"new", 1_001, 100)
    window.forget_after(1_000)

    # The sequence is given to another message: of a batch that takes the place of one.
    assert window.find(b"new", 100) == 0
    window.add(b"other", 1_001, 100)
    assert window.find(b"other", 150) == 1_001
    assert window.find(b"other", 200) == 0


def test_the_ids_of_a_removed_stream_are_freed_some_at_a_time() -> None:
    count = 50_000
    window = DuplicateWindow(100, count, 1_000)
    for n in range(count):
        window.add(b"%d" % n, n + 1, 0)

    steps = 1
    while not window.free_some():
        steps += 1

    assert steps >= count // int(FORGOTTEN_AT_ONCE)
    assert len(window) == len(window.queue) == 0
