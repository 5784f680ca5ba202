"""/subsz: numbers from what the router has anyway, and lists; texts seen on nats-server 2.15.1."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.monitor_fakes import (
    FakeAccount,
    FakeConnection,
    FakeSubscription,
    FakeView,
    ask,
    busy_view,
)

from jetspark.server.monitor.account_details import SublistCounts
from jetspark.server.monitor.subsz import sublist_counts
from jetspark.server.monitor.web.app import create_app
from jetspark.subjects.sublist import Sublist


async def subsz(view: FakeView, query: str = "") -> Any:
    answer = await ask(create_app(view), f"/subsz?{query}")

    assert answer.status == 200, answer.text
    return answer.json


def test_the_numbers_of_a_sublist_need_no_counter_of_their_own() -> None:
    sublist = Sublist()
    values = [object() for _ in range(5)]
    for number, value in enumerate(values):
        sublist.insert(b"a.%d" % number, b"", value)
    sublist.insert(b"a.*", b"q", values[0])
    sublist.remove(b"a.4", b"", values[4])
    found = [sublist.match(b"a.1"), sublist.match(b"b")]

    counts = sublist_counts(int(sublist.count), int(sublist.generation), found)

    assert counts == SublistCounts(
        subscriptions=5, inserts=6, removes=1, cached=2, fanout_total=2, fanout_max=2
    )


async def test_numbers_are_added_up_over_accounts() -> None:
    view = FakeView(
        held_accounts=[
            FakeAccount(
                counts=SublistCounts(
                    subscriptions=2, inserts=3, removes=1, cached=2, fanout_total=6, fanout_max=4
                )
            ),
            FakeAccount(
                name="A",
                counts=SublistCounts(
                    subscriptions=1, inserts=1, cached=2, fanout_total=2, fanout_max=1
                ),
            ),
        ]
    )

    both, one = await subsz(view), await subsz(view, "acc=A")

    assert (both["num_subscriptions"], both["num_inserts"], both["num_removes"]) == (3, 4, 1)
    assert (both["max_fanout"], both["avg_fanout"]) == (4, 2.0)
    assert (one["num_subscriptions"], one["avg_fanout"]) == (1, 1.0)
    assert "subscriptions_list" not in both


async def test_what_cannot_be_known_is_absent() -> None:
    assert {"num_matches", "cache_hit_rate"}.isdisjoint(await subsz(busy_view()))


async def test_an_account_that_does_not_exist_has_nothing() -> None:
    found = await subsz(busy_view(), "subs=1&acc=nope")

    assert (found["num_subscriptions"], found["total"]) == (0, 0)
    assert "subscriptions_list" not in found


async def test_subscriptions_are_listed_in_pages() -> None:
    view = FakeView(
        held_connections=[
            FakeConnection(
                cid=cid, subs=[FakeSubscription(b"s.%d.%d" % (cid, n)) for n in range(3)]
            )
            for cid in (1, 2)
        ]
    )

    found = await subsz(view, "subs=1&offset=2&limit=3")

    assert [each["subject"] for each in found["subscriptions_list"]] == ["s.1.2", "s.2.0", "s.2.1"]
    assert (found["total"], found["offset"], found["limit"]) == (6, 2, 3)


async def test_a_test_subject_lists_who_would_get_it() -> None:
    found = await subsz(busy_view(), "subs=1&test=a.c")

    assert [each["subject"] for each in found["subscriptions_list"]] == ["a.*"]
    assert found["total"] == 1


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("test=a.*", "invalid test subject, must be valid publish subject: a.*"),
        ("test=a..b", "invalid test subject, must be valid publish subject: a..b"),
        (
            "subs=detail",
            (
                "Error decoding boolean for 'subs': "
                'strconv.ParseBool: parsing "detail": invalid syntax'
            ),
        ),
    ],
)
async def test_wrong_arguments_are_refused_in_the_words_of_nats_server(
    query: str, text: str
) -> None:
    answer = await ask(create_app(busy_view()), f"/subsz?{query}")

    assert (answer.status, answer.text) == (400, text)


async def test_both_names_of_the_endpoint_count_as_one() -> None:
    app = create_app(busy_view())
    await ask(app, "/subsz")
    await ask(app, "/subscriptionsz")

    assert (await ask(app, "/varz")).json["http_req_stats"] == {"/subsz": 2, "/varz": 1}
