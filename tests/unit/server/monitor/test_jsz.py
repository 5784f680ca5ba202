"""/jsz: JetStream; shapes seen on nats-server 2.15.1."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.monitor_fakes import (
    FakeJetStream,
    FakeJetStreamAccount,
    FakeView,
    ask,
    busy_view,
    some_stream,
)

from jetspark.api.base import Timestamp
from jetspark.api.stream import StreamSourceInfo
from jetspark.server.monitor.web.app import create_app


async def jsz(view: FakeView, query: str = "") -> Any:
    answer = await ask(create_app(view), f"/jsz?{query}")

    assert answer.status == 200, answer.text
    return answer.json


def three_accounts() -> FakeView:
    accounts = [FakeJetStreamAccount(name=name, held=[some_stream()]) for name in "CAB"]
    accounts[0].max_storage = 4096
    return FakeView(js=FakeJetStream(held=accounts))


async def test_sums_are_over_all_accounts_and_nothing_more_is_said_unasked() -> None:
    found = await jsz(three_accounts())

    assert (found["streams"], found["consumers"], found["messages"], found["bytes"]) == (
        3,
        3,
        15,
        570,
    )
    assert (found["storage"], found["reserved_storage"], found["memory"]) == (570, 300_000, 0)
    assert found["api"] == {"level": 5, "total": 9, "errors": 0}
    assert (found["accounts"], found["total"]) == (3, 3)
    assert "account_details" not in found


async def test_accounts_come_by_name_in_pages() -> None:
    found = await jsz(three_accounts(), "accounts=1&offset=1&limit=1")

    assert [each["name"] for each in found["account_details"]] == ["B"]
    assert found["total"] == 3
    assert "stream_detail" not in found["account_details"][0]


async def test_a_negative_limit_lists_all_accounts() -> None:
    found = await jsz(three_accounts(), "accounts=1&limit=-1&offset=2")

    assert [each["name"] for each in found["account_details"]] == ["A", "B", "C"]


async def test_a_named_account_goes_before_a_page() -> None:
    found = await jsz(three_accounts(), "acc=C&streams=1&offset=7")

    assert [each["id"] for each in found["account_details"]] == ["C"]
    assert found["streams"] == 3


async def test_an_account_that_does_not_exist_has_no_details() -> None:
    assert "account_details" not in await jsz(three_accounts(), "acc=nope&streams=1")


async def test_the_limit_of_an_account_is_shown_as_nats_server_does() -> None:
    found = await jsz(three_accounts(), "accounts=1")

    limits = {each["name"]: each["reserved_storage"] for each in found["account_details"]}
    assert limits == {"A": 2**64 - 1, "B": 2**64 - 1, "C": 4096}


async def test_asking_for_consumers_asks_for_streams_and_accounts() -> None:
    found = await jsz(busy_view(), "consumers=1")

    streams = found["account_details"][0]["stream_detail"]
    assert [each["name"] for each in streams] == ["M", "S"]
    consumer = streams[1]["consumer_detail"][0]
    assert (consumer["name"], consumer["num_pending"]) == ("C", 3)
    assert {"config", "cluster"}.isdisjoint(consumer)
    assert "config" not in streams[1]
    assert streams[1]["cluster"] == {"leader": "fake"}


async def test_configurations_come_on_request_and_without_what_answers_add() -> None:
    found = await jsz(busy_view(), "consumers=1&config=1")

    stream = found["account_details"][0]["stream_detail"][1]
    assert stream["config"]["max_bytes"] == 100_000
    assert stream["config"]["metadata"] == {"_nats.req.level": "0"}
    assert stream["consumer_detail"][0]["config"]["metadata"] == {"_nats.req.level": "0"}


async def test_mirrors_and_sources_say_how_far_they_are() -> None:
    view = busy_view()
    assert view.js is not None
    stream = view.js.held[0].held[0]
    stream.mirrored = StreamSourceInfo(name="O", lag=3, active=5)
    stream.sourced = (StreamSourceInfo(name="P"),)

    detail = (await jsz(view, "streams=1"))["account_details"][0]["stream_detail"][1]

    assert detail["mirror"] == {"name": "O", "lag": 3, "active": 5}
    assert detail["sources"] == [{"name": "P", "lag": 0, "active": -1}]


async def test_raft_counts_what_this_server_leads() -> None:
    found = await jsz(busy_view(), "raft=1")

    assert (found["streams_leader"], found["consumers_leader"]) == (2, 1)


async def test_jetstream_that_is_off_says_so() -> None:
    found = await jsz(FakeView())

    assert found["disabled"] is True
    assert found["config"] == {"max_memory": 0, "max_storage": 0}
    assert (found["streams"], found["total"]) == (0, 0)
    assert "limits" not in found


async def test_leaders_only_is_refused_where_jetstream_is_off() -> None:
    answer = await ask(create_app(FakeView()), "/jsz?leader-only=1")

    assert (answer.status, answer.text) == (400, "filtered response: not leader")


@pytest.mark.parametrize("name", ["direct-consumers", "stream-leader-only", "raft", "accounts"])
async def test_every_flag_is_checked(name: str) -> None:
    answer = await ask(create_app(busy_view()), f"/jsz?{name}=x")

    assert answer.status == 400
    assert answer.text.startswith(f"Error decoding boolean for '{name}'")


async def test_storage_in_memory_is_counted_apart() -> None:
    view = busy_view()
    assert view.js is not None
    memory = view.js.held[0].held[1]
    memory.held = type(memory.held)(messages=2, bytes=64, last_ts=Timestamp(1))

    found = await jsz(view)

    assert (found["memory"], found["storage"]) == (64, 190)
