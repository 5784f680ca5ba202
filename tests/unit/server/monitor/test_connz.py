"""/connz: filters, orders and pages as in nats-server's monitor.go; answers seen on 2.15.1."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.support.monitor_fakes import (
    NOW,
    SECOND,
    START,
    FakeAccount,
    FakeConnection,
    FakeSubscription,
    FakeView,
    ask,
    busy_view,
)

from jetspark.server.monitor.connection_view import ConnectionDetails, PeerCertificate, TlsDetails
from jetspark.server.monitor.traffic import Traffic
from jetspark.server.monitor.web.app import create_app


async def connz(view: FakeView, query: str = "") -> Any:
    answer = await ask(create_app(view), f"/connz?{query}")

    assert answer.status == 200, answer.text
    return answer.json


def three() -> FakeView:
    return FakeView(
        held_connections=[
            FakeConnection(
                cid=1,
                traffic=Traffic(in_msgs=5, in_bytes=50, out_msgs=1, out_bytes=900),
                last_ns=START + 1,
                start_ns=START,
                rtt_ns=3,
            ),
            FakeConnection(
                cid=2,
                traffic=Traffic(in_msgs=7, in_bytes=10, out_msgs=2, out_bytes=10),
                last_ns=START + 9,
                start_ns=START + SECOND,
                pending_bytes=9,
                rtt_ns=9,
                subs=[FakeSubscription(b"x")],
            ),
            FakeConnection(
                cid=3,
                traffic=Traffic(in_msgs=6, in_bytes=99, out_msgs=3, out_bytes=20),
                last_ns=START + 5,
                start_ns=START + 2 * SECOND,
                rtt_ns=5,
                subs=[FakeSubscription(b"x"), FakeSubscription(b"y")],
            ),
        ]
    )


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", [1, 2, 3]),
        ("cid", [1, 2, 3]),
        ("start", [1, 2, 3]),
        ("subs", [3, 2, 1]),
        ("pending", [2, 1, 3]),
        ("msgs_to", [3, 2, 1]),
        ("msgs_from", [2, 3, 1]),
        ("bytes_to", [1, 3, 2]),
        ("bytes_from", [3, 1, 2]),
        ("last", [2, 3, 1]),
        ("idle", [1, 3, 2]),
        ("uptime", [3, 2, 1]),  # the youngest first, unlike the other orders
        ("rtt", [2, 3, 1]),
    ],
)
async def test_connections_are_sorted_by_what_was_asked(sort: str, order: list[int]) -> None:
    found = await connz(three(), f"sort={sort}")

    assert [each["cid"] for each in found["connections"]] == order


async def test_a_page_has_the_total_of_all() -> None:
    found = await connz(three(), "offset=1&limit=1")

    assert [each["cid"] for each in found["connections"]] == [2]
    assert (found["num_connections"], found["total"], found["offset"], found["limit"]) == (
        1,
        3,
        1,
        1,
    )


async def test_a_page_after_the_end_is_empty() -> None:
    found = await connz(three(), "offset=5")

    assert found["connections"] == []
    assert found["offset"] == 5


@pytest.mark.parametrize("query", ["limit=-3", "limit=0", "offset=-2"])
async def test_numbers_below_one_mean_the_default(query: str) -> None:
    found = await connz(three(), query)

    assert (found["limit"], found["offset"], found["num_connections"]) == (1024, 0, 3)


async def test_one_connection_is_found_by_its_id_open_or_closed() -> None:
    view = busy_view()

    assert [each["cid"] for each in (await connz(view, "cid=5"))["connections"]] == [5]
    assert (await connz(view, "cid=6"))["connections"] == []
    assert [each["cid"] for each in (await connz(view, "cid=6&state=all"))["connections"]] == [6]
    assert (await connz(view, "cid=999"))["limit"] == 1


async def test_closed_connections_say_when_and_why() -> None:
    found = (await connz(busy_view(), "state=closed&subs=detail"))["connections"]

    assert [each["cid"] for each in found] == [6]
    assert found[0]["reason"] == "Client Closed"
    assert found[0]["stop"] == "2027-01-15T08:00:01Z"
    assert found[0]["uptime"] == found[0]["idle"] == "1s"
    assert found[0]["subscriptions_list_detail"] == [
        {"account": "$G", "account_tag": "$G", "subject": "zz", "sid": "1", "msgs": 0, "cid": 6}
    ]


@pytest.mark.parametrize("sort", ["stop", "reason"])
async def test_closed_connections_can_be_sorted_by_their_end(sort: str) -> None:
    view = three()
    for seconds, connection in ((5, 1), (7, 2), (6, 3)):
        view.held_closed.add(
            view.held_connections[connection - 1], START + seconds, f"reason {9 - seconds}"
        )

    found = (await connz(view, f"state=closed&sort={sort}"))["connections"]

    assert [each["cid"] for each in found] == [2, 3, 1]


async def test_an_account_that_does_not_exist_gets_null() -> None:
    """Observed on nats-server 2.15.1."""
    found = await connz(three(), "acc=nope")

    assert found["server_id"] == ""
    assert found["connections"] is None


async def test_connections_are_filtered_by_account_and_user() -> None:
    view = three()
    view.held_accounts.append(FakeAccount(name="A"))
    view.held_connections[1].account = "A"
    view.held_connections[2].known = ConnectionDetails(ip="::1", port=1, user="bob")

    in_account = await connz(view, "acc=A&auth=1")
    of_user = await connz(view, "user=bob&auth=1")

    assert [each["cid"] for each in in_account["connections"]] == [2]
    assert in_account["total"] == 1
    assert in_account["connections"][0]["account"] == "A"
    assert [each["cid"] for each in of_user["connections"]] == [3]
    assert of_user["total"] == 3
    assert of_user["connections"][0]["authorized_user"] == "bob"
    assert (await connz(view, "mqtt_client=x"))["connections"] == []


async def test_the_user_is_shown_only_on_request() -> None:
    view = three()
    view.held_connections = [
        FakeConnection(
            cid=1,
            known=ConnectionDetails(
                ip="::1",
                port=1,
                user="U1",
                jwt="a.b.c",
                issuer_key="K",
                tags=("t",),
                tls=TlsDetails(
                    version="1.3",
                    cipher_suite="TLS_AES_128_GCM_SHA256",
                    peer_certs=(PeerCertificate(subject="CN=x", cert_sha256="00"),),
                ),
            ),
        )
    ]

    plain = (await connz(view))["connections"][0]
    asked = (await connz(view, "auth=true"))["connections"][0]

    private = {"authorized_user", "jwt", "issuer_key", "tags", "name_tag", "tls_peer_certs"}
    assert private.isdisjoint(plain)
    assert plain["tls_version"] == "1.3"
    assert private <= asked.keys()
    assert asked["tls_peer_certs"] == [{"subject": "CN=x", "cert_sha256": "00"}]


async def test_a_bearer_jwt_is_never_shown() -> None:
    """A bearer JWT alone lets anybody in; nats-server's redactBearerJWT."""
    claims = {"nats": {"bearer_token": True}}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    view = three()
    view.held_connections[0].known = ConnectionDetails(ip="::1", port=1, jwt=f"h.{body}.s")

    found = (await connz(view, "cid=1&auth=1"))["connections"][0]

    assert "jwt" not in found


async def test_a_connection_without_round_trip_is_pinged_once_asked_about() -> None:
    view = three()
    view.held_connections[0].rtt_ns = 0

    found = (await connz(view, "cid=1"))["connections"][0]

    assert found["rtt"] == "0s"
    assert [each.pings for each in view.held_connections] == [1, 0, 0]


async def test_subscriptions_are_listed_as_names_or_in_detail() -> None:
    names = (await connz(busy_view(), "subs=1"))["connections"][0]
    details = (await connz(busy_view(), "subs=DETAIL"))["connections"][0]

    assert names["subscriptions_list"] == ["a.*", "a.b"]
    assert details["subscriptions_list_detail"][1] == {
        "subject": "a.b",
        "qgroup": "q",
        "sid": "2",
        "msgs": 1,
        "cid": 5,
    }


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("state=bogus", "Error decoding state for bogus"),
        ("sort=bogus", "invalid sorting option: bogus"),
        ("sort=stop", "sort by stop only valid on closed connections"),
        ("sort=reason&state=all", "sort by reason only valid on closed connections"),
        (
            "sort=bogus&cid=x",  # arguments are read before the order is looked at
            "Error decoding uint64 for 'cid': strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ],
)
async def test_wrong_arguments_are_refused_in_the_words_of_nats_server(
    query: str, text: str
) -> None:
    answer = await ask(create_app(three()), f"/connz?{query}")

    assert (answer.status, answer.text) == (400, text)
    assert answer.header("content-type") == "text/plain; charset=utf-8"


async def test_many_connections_are_listed_while_others_get_their_turn() -> None:
    """One large read does not stop the others."""
    view = FakeView(held_connections=[FakeConnection(cid=cid) for cid in range(1, 2001)])

    found = await connz(view, "limit=5000")

    assert found["num_connections"] == 2000
    assert found["connections"][-1]["uptime"] == f"1m{(NOW - START) // SECOND - 60}s"
