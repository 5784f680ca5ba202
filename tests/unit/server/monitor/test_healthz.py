"""/healthz and /readyz: status, HTTP status and texts of nats-server 2.15.1, where it has them."""

from __future__ import annotations

import pytest
from tests.support.monitor_fakes import FakeView, ask, busy_view

from jetspark.server.monitor.status import LostStream, Readiness
from jetspark.server.monitor.web.app import create_app


def broken_view() -> FakeView:
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held[0].write_error = "no space left on device"
    return view


@pytest.mark.parametrize("query", ["", "js-enabled-only=true", "js-server-only=1", "details=1"])
async def test_a_server_that_works_is_ok(query: str) -> None:
    answer = await ask(create_app(busy_view()), f"/healthz?{query}")

    assert (answer.status, answer.text) == (200, '{"status":"ok"}')


@pytest.mark.parametrize(
    ("query", "status", "body"),
    [
        (
            "stream=S",
            400,
            {
                "status": "error",
                "error": '"account" must not be empty when checking stream health',
            },
        ),
        (
            "consumer=S",
            400,
            {
                "status": "error",
                "error": '"stream" must not be empty when checking consumer health',
            },
        ),
        (
            "account=$G&stream=X",
            404,
            {
                "status": "unavailable",
                "error": 'JetStream stream "X" not found on account "$G"',
            },
        ),
        (
            "account=$G&stream=S&consumer=x",
            404,
            {
                "status": "unavailable",
                "error": 'JetStream consumer "x" not found for stream "S" on account "$G"',
            },
        ),
        (
            "account=x&details=1",
            404,
            {
                "status": "error",
                "errors": [
                    {
                        "type": "ACCOUNT",
                        "account": "x",
                        "error": 'JetStream account "x" not found',
                    }
                ],
            },
        ),
        ("account=$G&stream=S&consumer=C", 200, {"status": "ok"}),
    ],
)
async def test_parts_are_looked_up_as_in_nats_server(
    query: str, status: int, body: dict[str, object]
) -> None:
    answer = await ask(create_app(busy_view()), f"/healthz?{query}")

    assert (answer.status, answer.json) == (status, body)


async def test_a_stream_that_takes_no_writes_is_not_healthy() -> None:
    answer = await ask(create_app(broken_view()), "/healthz")

    assert answer.status == 503
    assert answer.json == {
        "status": "unavailable",
        "error": "JetStream stream '$G > S' write error: no space left on device",
    }


async def test_details_list_every_error() -> None:
    view = broken_view()
    assert view.js is not None
    view.js.lost = [LostStream(account="$G", stream="L", reason="bad manifest")]

    answer = await ask(create_app(view), "/healthz?details=true")

    assert answer.status == 503
    assert [(each["type"], each["stream"]) for each in answer.json["errors"]] == [
        ("STREAM", "L"),
        ("STREAM", "S"),
    ]


async def test_a_lost_stream_is_found_by_name() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.lost = [LostStream(account="OLD", stream="L", reason="bad manifest")]

    answer = await ask(create_app(view), "/healthz?account=OLD&stream=L")

    assert answer.status == 503
    text = "JetStream stream 'OLD > L' could not be recovered: bad manifest"
    assert answer.json["error"] == text


async def test_what_lies_between_the_streams_is_a_warning() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.foreign = ["acct-1/notes.txt"]

    answer = await ask(create_app(view), "/healthz")

    assert answer.status == 200
    assert "acct-1/notes.txt" in answer.json["jetspark"]["warnings"][0]


async def test_damage_of_the_journal_is_a_warning() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.notes = ["frame 7 of the journal is damaged"]

    answer = await ask(create_app(view), "/healthz")

    assert answer.status == 200
    assert answer.json["jetspark"]["warnings"] == [
        "the journal: frame 7 of the journal is damaged"
    ]


@pytest.mark.parametrize("query", ["js-server-only=1", "js-enabled-only=1", "js-enabled=1"])
async def test_streams_are_not_looked_at_when_only_the_server_is_asked_about(query: str) -> None:
    assert (await ask(create_app(broken_view()), f"/healthz?{query}")).status == 200


async def test_a_server_that_takes_no_clients_is_in_error() -> None:
    view = FakeView(state=Readiness(accepting=False, ready=False, reason="recovering streams"))

    answer = await ask(create_app(view), "/healthz?js-server-only=1")

    assert answer.status == 500
    assert answer.json["status"] == "error"
    assert "recovering streams" in answer.json["error"]


async def test_readiness_says_how_far_recovery_is() -> None:
    """Progress, and false until it is done."""
    view = FakeView(
        state=Readiness(
            accepting=False,
            ready=False,
            reason="recovering streams",
            streams_recovered=3,
            streams_total=10,
        )
    )
    app = create_app(view)

    before = await ask(app, "/readyz")
    view.state = Readiness(accepting=True, ready=True, streams_recovered=10, streams_total=10)
    after = await ask(app, "/readyz")

    assert (before.status, after.status) == (503, 200)
    assert before.json == {
        "status": "unavailable",
        "reason": "recovering streams",
        "streams_recovered": 3,
        "streams_total": 10,
    }
    assert after.json["status"] == "ok"


async def test_a_lame_duck_is_healthy_and_not_ready() -> None:
    view = FakeView(state=Readiness(accepting=True, ready=False, reason="lame duck mode"))
    app = create_app(view)

    assert (await ask(app, "/healthz")).status == 200
    assert (await ask(app, "/readyz")).status == 503
