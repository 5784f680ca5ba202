"""nats.js uses the server. Each script runs once; what came of its checks is compared here.

The servers run on uvloop, as those of `jetspark serve` do; those of test_nats_py.py on asyncio.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.interop.clients.secured import ACCEPTED, ACCOUNTS, AUTHORIZATION, PERMISSIONS, REJECTED
from tests.support.certificates import Certificates, Pair
from tests.support.loopback import Servers, has_ipv6
from tests.support.nats_js import started

Configure = Callable[[str], Path]
Results = dict[str, Any]
MIB = 1024 * 1024


# Messages ----------------------------------------------------------------------------------------


async def run_core(configure: Configure) -> Results:
    async with Servers() as servers:
        given = {
            "url": await servers.url(jetstream=False),
            "small": await servers.url(config=configure("max_payload: 1024")),
            "lonely": await servers.url(config=configure("max_connections: 1")),
            "streams": await servers.url(),
            "ipv6": await servers.url(host="::1", jetstream=False) if has_ipv6() else "",
        }
        async with started("core.mjs", given) as script:
            return await script.results()


@pytest.fixture(scope="module")
def core(configure: Configure) -> Results:
    results: Results = uvloop.run(run_core(configure))
    return results


def test_a_published_message_reaches_every_subscriber_in_order(core: Results) -> None:
    assert core["publish"] == [[f"orders={number}" for number in range(100)]] * 2


def test_wildcards_match_whole_tokens(core: Results) -> None:
    assert core["wildcards"] == {
        "a.*": ["a.b", "a.c"],
        "a.*.c": ["a.b.c", "a.c.c"],
        "*.b": ["a.b", "b.b"],
        "a.>": ["a.b", "a.b.c", "a.c", "a.c.c"],
        ">": ["a", "a.b", "a.b.c", "a.c", "a.c.c", "b.b"],
    }


def test_a_queue_group_shares_messages_and_each_goes_to_one_member(core: Results) -> None:
    queue = core["queue"]

    assert (queue["all"], queue["once"]) == (300, True)
    assert all(queue["shares"])


def test_headers_arrive_with_all_their_values_in_order(core: Results) -> None:
    """Names keep their case, several values their order."""
    assert core["headers"] == [
        {
            "body": "body",
            "headers": {
                "several": ["1", "2", "ünïcode"],
                "Nats-Msg-Id": ["x"],
                "UPPER": ["with: colon"],
            },
        },
        {"body": "plain", "headers": None},
    ]


def test_requests_are_answered_on_a_shared_inbox_and_on_one_of_their_own(core: Results) -> None:
    assert core["request"] == ["shared inbox", "own inbox"]


def test_five_hundred_requests_at_once_get_their_own_answers(core: Results) -> None:
    assert core["concurrent"] == 500


def test_a_request_without_responders_is_refused_at_once(core: Results) -> None:
    assert core["noResponders"] == [{"refused": True, "subject": "nobody"}] * 2


def test_drain_handles_everything_that_was_published_before(core: Results) -> None:
    assert core["drain"] == {"got": 2000, "ordered": True, "closed": True}


def test_a_queue_member_that_drains_hands_over_without_loss(core: Results) -> None:
    assert core["handOver"] == {"all": 1000, "once": True, "both": True}


def test_an_unsubscription_with_a_maximum_ends_at_the_server(core: Results) -> None:
    assert core["maximum"] == {"got": ["few=0", "few=1", "few=2"], "fromServer": 3}


def test_without_echo_a_client_does_not_get_its_own_messages(core: Results) -> None:
    assert core["echoOff"] == {"got": ["shared=other"], "fromServer": 1}


def test_a_verbose_client_works_as_any_other(core: Results) -> None:
    assert core["verbose"] == "said"


def test_a_pedantic_client_gets_an_error_for_a_bad_subject_and_continues(core: Results) -> None:
    assert core["pedantic"] == {
        "name": "ProtocolError",
        "message": "Invalid Publish Subject",
        "answer": "still here",
    }


def test_messages_arrive_whole_up_to_the_largest(core: Results) -> None:
    assert core["large"] == [0, 1, 4096, 65_537, MIB - 1, MIB]


def test_the_client_learns_the_largest_payload_and_refuses_more(core: Results) -> None:
    limited = core["maxPayload"]

    assert (limited["learned"], limited["got"]) == (1024, len("limited=") + 1024)
    assert "max_payload size exceeded" in limited["refused"]["message"]


def test_a_hundred_connections_at_once(core: Results) -> None:
    assert core["connections"] == {"got": 100, "ids": 100}


def test_a_connection_beyond_the_limit_is_refused(core: Results) -> None:
    """The client may write before it reads why, so the reason differs from run to run."""
    assert core["tooMany"] is not None
    assert "failed" not in core["tooMany"]


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_ipv6_serves_as_well(core: Results) -> None:
    assert core["ipv6"] == {"answer": "six", "ip": "::1"}


def test_info_says_what_the_client_looks_for(core: Results) -> None:
    """decisions.md, Server; the account comes with the second INFO."""
    assert core["info"] == {
        "proto": 1,
        "version": "2.15.1",
        "headers": True,
        "max_payload": MIB,
        "api_lvl": 5,
        "remote_account": "$G",
    }


def test_a_stream_is_made_filled_and_read(core: Results) -> None:
    assert core["stream"] == {"ack": {"stream": "JS", "seq": 1}, "got": "stored"}


# Security ----------------------------------------------------------------------------------------


def tls_blocks(certificates: Certificates) -> dict[str, str]:
    first = "handshake_first: true"
    return {
        "tls": certificates.tls_block(),
        "verifying": certificates.verifying_block(),
        "first": certificates.tls_block(first),
        "firstVerifying": certificates.verifying_block(first),
        # As `auto`, which waits for 50 ms: too short for a client on a busy machine.
        "auto": certificates.tls_block("handshake_first: 2s"),
    }


def paths(pair: Pair) -> dict[str, str]:
    return {"cert": str(pair.cert), "key": str(pair.key)}


async def run_security(configure: Configure, certificates: Certificates) -> Results:
    texts = AUTHORIZATION | tls_blocks(certificates)
    texts |= {"permissions": PERMISSIONS, "accounts": ACCOUNTS}
    async with Servers() as servers:
        urls = {name: await servers.url(config=configure(text)) for name, text in texts.items()}

        def shown(cases: list[tuple[str, dict[str, str]]]) -> list[dict[str, str]]:
            return [
                {{"password": "pass"}.get(key, key): value for key, value in credentials.items()}
                | {"servers": urls[kind]}
                for kind, credentials in cases
            ]

        given = {
            "urls": urls,
            "accepted": shown(ACCEPTED),
            "rejected": shown(REJECTED),
            "files": {
                "ca": str(certificates.ca),
                "client": paths(certificates.client),
                "stranger": paths(certificates.stranger),
            },
        }
        async with started("security.mjs", given) as script:
            return await script.results()


@pytest.fixture(scope="module")
def security(configure: Configure, certificates: Certificates) -> Results:
    results: Results = uvloop.run(run_security(configure, certificates))
    return results


def test_the_right_credentials_are_accepted(security: Results) -> None:
    assert security["accepted"] == [True] * len(ACCEPTED)


def test_wrong_credentials_are_refused(security: Results) -> None:
    assert security["rejected"] == ["AuthorizationError: Authorization Violation"] * len(REJECTED)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("publishViolation", ("publish", "elsewhere", None)),
        ("subscriptionViolation", ("subscription", "elsewhere", None)),
        ("queueViolation", ("subscription", "in.jobs", "others")),
    ],
)
def test_what_is_forbidden_is_reported_and_the_connection_stays(
    security: Results, check: str, expected: tuple[str, str, str | None]
) -> None:
    """nats.js reads operation, subject and queue out of the server's text."""
    violation = security[check]

    assert violation["name"] == "PermissionViolationError"
    assert (violation["operation"], violation["subject"], violation["queue"]) == expected


def test_a_forbidden_subscription_ends_with_the_servers_words(security: Results) -> None:
    assert security["subscriptionError"]["message"] == (
        'Permissions Violation for Subscription to "in.secret"'
    )


def test_a_wildcard_subscription_does_not_get_what_is_denied(security: Results) -> None:
    assert security["deniedInWildcard"] == ["in.a=", "in.b="]


def test_a_service_may_answer_once_and_only_who_asked(security: Results) -> None:
    assert security["responses"] == ["first", "publish", True]


def test_accounts_do_not_see_each_other(security: Results) -> None:
    assert security["accounts"] == {
        "got": ["shared=of A", "shared=of B"],
        "counts": [1, 1],
        "asked": "no responders: 'service'",
    }


def test_tls_is_spoken_in_every_way(security: Results) -> None:
    """After INFO or first, with a client certificate or without, and either with `auto`."""
    assert security["tls"] == {
        "behind INFO": True,
        "behind INFO, verified": True,
        "first": True,
        "first, verified": True,
        "auto, behind INFO": True,
        "auto, first": True,
    }


def test_a_handshake_that_must_fail_fails(security: Results) -> None:
    refused = security["tlsRefused"]

    assert all(refused)
    assert len(refused) == 4
    assert not [reason for reason in refused if "timeout" in reason.lower()]


def test_the_largest_messages_travel_over_tls(security: Results) -> None:
    assert security["tlsLarge"] == [MIB] * 8
