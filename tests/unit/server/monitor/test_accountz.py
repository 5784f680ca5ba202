"""/accountz and /accstatz; shapes seen on nats-server 2.15.1."""

from __future__ import annotations

from tests.support.monitor_fakes import START, FakeAccount, FakeView, ask, busy_view

from jetspark.server.monitor.account_details import AccountDetails, MappingDestination, Share
from jetspark.server.monitor.web.app import create_app


async def test_all_accounts_are_named() -> None:
    found = (await ask(create_app(busy_view()), "/accountz")).json

    assert found["accounts"] == ["$G", "$SYS"]
    assert found["system_account"] == "$SYS"
    assert "account_detail" not in found


async def test_one_account_is_shown_in_full() -> None:
    view = FakeView(
        held_accounts=[
            FakeAccount(
                name="A",
                connection_count=2,
                known=AccountDetails(
                    updated_ns=START,
                    exports=(
                        Share(subject="e", kind="service", response_type="Singleton"),
                        Share(subject="f", kind="stream", approved_accounts=("B",)),
                    ),
                    imports=(Share(subject="i", kind="service", account="B", local_subject="l"),),
                    mappings={"m": (MappingDestination(subject="n", weight=30),)},
                ),
            )
        ]
    )

    found = (await ask(create_app(view), "/accountz?acc=A")).json

    detail = found["account_detail"]
    assert "accounts" not in found
    assert (detail["account_name"], detail["client_connections"]) == ("A", 2)
    assert detail["exports"] == [
        {"subject": "e", "type": "service", "response_type": "Singleton"},
        {"subject": "f", "type": "stream", "approved_accounts": ["B"]},
    ]
    assert detail["imports"] == [
        {
            "subject": "i",
            "account": "B",
            "to": "l",
            "local_subject": "l",
            "type": "service",
            "invalid": False,
            "share": False,
            "tracking": False,
        }
    ]
    assert detail["mappings"] == {"m": [{"subject": "n", "weight": 30}]}


async def test_an_account_that_does_not_exist_is_refused() -> None:
    answer = await ask(create_app(busy_view()), "/accountz?acc=nope")

    assert (answer.status, answer.text) == (400, "Account nope does not exist")


async def test_numbers_come_for_accounts_with_clients_or_for_all() -> None:
    app = create_app(busy_view())

    used = (await ask(app, "/accstatz")).json["account_statz"]
    every = (await ask(app, "/accstatz?unused=1")).json["account_statz"]

    assert [each["acc"] for each in used] == ["$G"]
    assert [each["acc"] for each in every] == ["$G", "$SYS"]
    assert (used[0]["sent"]["msgs"], used[0]["received"]["bytes"]) == (15, 916)
