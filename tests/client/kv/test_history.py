"""The judge of histories (``tests/support/kv/history.py``) convicts every kind of bad one."""

from collections.abc import Callable

import msgspec
import pytest
from tests.support.kv.history import Cut, Done, History, Violation, Written


def good() -> History:
    """Two keys, written, read, deleted and created again; times are those of the test."""
    history = History()
    history.log = {
        1: Written("a", b"1"),
        2: Written("b", b"2"),
        3: Written("a", b"3"),
        4: Written("a", None),
        5: Written("a", b"5"),
        6: Written("a", b"6"),
        7: Written("b", b"7"),
    }
    history.done = [
        Done("get", "a", 0, 5, 0, None),
        Done("put", "a", 10, 20, 1, b"1"),
        Done("create", "b", 12, 30, 2, b"2"),
        Done("get", "a", 25, 40, 1, b"1"),  # overlaps the update: either is fine
        Done("update", "a", 32, 50, 3, b"3", 1),
        Done("refused", "a", 55, 60, 3, None, 1),
        Done("delete", "a", 60, 70, 4, None),
        Done("get", "a", 75, 80, 4, None),
        Done("create", "a", 81, 90, 5, b"5"),
        Done("put", "a", 100, 110, 6, b"6"),
        Done("put", "b", 100, 110, 7, b"7"),
    ]
    history.together = [(6, 7)]
    history.cuts = [
        Cut(("a", "b"), 71, 79, {"b": (2, b"2")}),
        Cut(("a", "b"), 95, 105, {"a": (5, b"5"), "b": (2, b"2")}),
        Cut(("a", "b", "c"), 102, 120, {"a": (6, b"6"), "b": (7, b"7")}),
    ]
    return history


def changed(history: History, index: int, **fields: object) -> None:
    history.done[index] = msgspec.structs.replace(history.done[index], **fields)


def stale_read(history: History) -> None:
    history.done.append(Done("get", "a", 51, 54, 1, b"1"))


def read_of_a_deleted_value(history: History) -> None:
    history.done.append(Done("get", "a", 72, 74, 3, b"3"))


def deleted_too_early(history: History) -> None:
    history.done.append(Done("get", "b", 40, 41, 0, None))


def second_read_goes_back(history: History) -> None:
    """Both overlap the update, one after the other: new, then old."""
    history.done.append(Done("get", "a", 33, 35, 3, b"3"))
    history.done.append(Done("get", "a", 36, 45, 1, b"1"))


def read_from_the_future(history: History) -> None:
    history.done.append(Done("get", "a", 21, 23, 3, b"3"))


def lost_update(history: History) -> None:
    """Someone wrote between what was expected and what was stored."""
    changed(history, 4, expected=0)


def lost_write(history: History) -> None:
    """It was acknowledged, and the log has another value there."""
    history.log[3] = Written("a", b"other")


def acknowledged_and_gone(history: History) -> None:
    del history.log[7]


def phantom(history: History) -> None:
    history.log[8] = Written("b", b"8")


def never_written(history: History) -> None:
    changed(history, 3, value=b"never")


def of_another_key(history: History) -> None:
    changed(history, 3, key="b", began=15)


def created_twice(history: History) -> None:
    changed(history, 4, kind="create", expected=None)


def revision_told_twice(history: History) -> None:
    changed(history, 1, kind="put", revision=3, value=b"3")


def writes_of_two_keys_out_of_order(history: History) -> None:
    """Revision 7 ended before revision 6 began."""
    changed(history, 10, began=92, ended=93)
    history.cuts, history.together = [], []


def write_behind_what_was_known(history: History) -> None:
    changed(history, 6, began=82, ended=83)


def gap_in_the_log(history: History) -> None:
    history.log = {seq + (seq > 3): written for seq, written in history.log.items()}


def refused_for_nothing(history: History) -> None:
    changed(history, 5, expected=3)


def creation_refused_for_nothing(history: History) -> None:
    history.done.append(Done("refused", "a", 75, 80, 4, None))


def stale_refusal(history: History) -> None:
    changed(history, 5, revision=1, expected=3)


def half_a_transaction(history: History) -> None:
    history.cuts.append(Cut(("a", "b"), 101, 109, {"a": (6, b"6"), "b": (2, b"2")}))


def torn_snapshot(history: History) -> None:
    """Revision 3 of one key and a time before revision 2 of the other."""
    history.cuts.append(Cut(("a", "b"), 11, 49, {"a": (3, b"3")}))


def stale_snapshot(history: History) -> None:
    history.cuts.append(Cut(("a", "b"), 96, 98, {"b": (2, b"2")}))


def snapshot_from_the_future(history: History) -> None:
    history.cuts.append(Cut(("a", "b"), 84, 91, {"a": (6, b"6"), "b": (7, b"7")}))


CRIMES = {
    stale_read: "stale",
    read_of_a_deleted_value: "stale",
    deleted_too_early: "stale",
    second_read_goes_back: "stale",
    read_from_the_future: "was known before",
    lost_update: "an update was lost",
    lost_write: "lost: ",
    acknowledged_and_gone: "lost: ",
    phantom: "nobody wrote",
    never_written: "never written",
    of_another_key: "never written",
    created_twice: "created over",
    revision_told_twice: "two writes",
    writes_of_two_keys_out_of_order: "was known before",
    write_behind_what_was_known: "was known before",
    gap_in_the_log: "gaps",
    refused_for_nothing: "as expected",
    creation_refused_for_nothing: "without a value",
    stale_refusal: "stale",
    half_a_transaction: "no moment",
    torn_snapshot: "no moment",
    stale_snapshot: "no moment",
    snapshot_from_the_future: "no moment",
}


def test_a_good_history_passes() -> None:
    history = good()

    history.judge()

    assert len(history) == 18


@pytest.mark.parametrize(("crime", "verdict"), CRIMES.items())
def test_a_bad_history_is_convicted(crime: Callable[[History], None], verdict: str) -> None:
    history = good()
    crime(history)

    with pytest.raises(Violation, match=verdict):
        history.judge()
