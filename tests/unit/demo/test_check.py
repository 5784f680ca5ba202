"""The judge of `make demo`: it must see what is lost, doubled or changed."""

from array import array

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from demo.check import Account, _check_rows
from demo.events import BROKEN_EVERY, messages

# Sequence -> id: 1 and 4 are copies of one event, 3 is broken.
IDS = array("q", [-1, 70, 71, -1, 70, 72])
GOOD: list[tuple[object, ...]] = [
    (1, 70, "order", "north", 500),
    (2, 71, "click", "east", 0),
    (3, None, "refused", None, None),
    (5, 72, "order", "north", 250_000),
]


def judge(
    rows: list[tuple[object, ...]], alerts: set[int]
) -> tuple[Account, dict[str, list[int]]]:
    names = ("seq", "id", "kind", "region", "cents")
    columns = list(zip(*rows, strict=True))
    table = pa.table({name: list(columns[at]) for at, name in enumerate(names)})
    account = Account(events=len(IDS) - 1)
    return account, _check_rows(table, IDS, alerts, account)


def test_a_right_table_has_no_problem_and_gives_the_totals() -> None:
    account, totals = judge(GOOD, set())

    assert account.problems == []
    assert (account.kept, account.refused) == (3, 1)
    assert totals == {"north.order": [2, 250_500], "east.click": [1, 0]}


def test_of_equal_events_either_may_stay_and_the_alert_is_that_of_the_one_that_stayed() -> None:
    alerts = {1, 4, 5}

    account, _ = judge([(4, *GOOD[0][1:]), *GOOD[1:]], alerts)

    assert account.problems == []
    assert alerts == {4, 5}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (GOOD[:-1], "1 events are lost"),
        ([*GOOD[:2], GOOD[3]], "1 events are lost"),
        ([*GOOD, GOOD[1]], "1 rows name a duplicate sequence"),
        ([*GOOD, (4, 70, "order", "north", 500)], "1 events are duplicated in the table"),
        ([(1, 99, "order", "north", 1), *GOOD[1:]], "1 rows name a duplicate sequence, or not"),
        ([*GOOD[:1], (2, None, "refused", None, None), *GOOD[2:]], "1 rows name"),
        ([*GOOD, (77, 70, "order", "north", 1)], "1 rows name"),
    ],
)
def test_what_is_wrong_is_seen(rows: list[tuple[object, ...]], said: str) -> None:
    account, _ = judge(rows, set())

    assert any(problem.startswith(said) for problem in account.problems), account.problems


def test_events_are_the_same_every_time_and_some_are_broken() -> None:
    subjects, payloads = messages(0, 2_000)

    assert (subjects, payloads) == messages(0, 2_000)
    assert not payloads[BROKEN_EVERY - 1].endswith(b"}")
    assert len(set(payloads)) < 2_000
