"""nats-py exchanges messages through the server: what users of a core NATS server rely on."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.interop.clients.nats_py_client import (
    PATIENCE_S,
    Watch,
    connected,
    patiently,
    settle,
    texts,
)
from tests.support.loopback import has_ipv6

import jetspark

Configure = Callable[[str], Path]
MIB = 1024 * 1024


def core() -> jetspark.Server:
    """A server without JetStream."""
    return jetspark.Server(jetstream=False)


async def echo(message: Msg) -> None:
    await message.respond(message.data)


async def test_a_published_message_reaches_every_subscriber_in_order() -> None:
    async with (
        core() as server,
        connected(server.client_url) as publisher,
        connected(server.client_url) as first,
        connected(server.client_url) as second,
    ):
        subscriptions = [await first.subscribe("orders"), await second.subscribe("orders")]
        await settle(first, second)
        for number in range(100):
            await publisher.publish("orders", str(number).encode())

        received = [await texts(subscription, 100) for subscription in subscriptions]

    assert received == [[f"orders={number}" for number in range(100)]] * 2


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("a.*", ["a.b", "a.c"]),
        ("a.*.c", ["a.b.c", "a.c.c"]),
        ("*.b", ["a.b", "b.b"]),
        ("a.>", ["a.b", "a.b.c", "a.c", "a.c.c"]),
        (">", ["a", "a.b", "a.b.c", "a.c", "a.c.c", "b.b"]),
    ],
)
async def test_wildcards_match_whole_tokens(pattern: str, matching: list[str]) -> None:
    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe(pattern)
        for subject in ("a", "a.b", "a.b.c", "a.c", "a.c.c", "b.b"):
            await client.publish(subject)
        await settle(client)

        received = await texts(subscription, subscription.pending_msgs)

    assert received == [f"{subject}=" for subject in matching]


async def test_a_queue_group_shares_messages_and_each_goes_to_one_member() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(core())
        members: list[list[int]] = [[], [], []]
        clients = []
        for got in members:
            client = await stack.enter_async_context(connected(server.client_url))
            clients.append(client)
            await client.subscribe("jobs.*", queue="workers", cb=collect(got))
            await settle(client)
        publisher = await stack.enter_async_context(connected(server.client_url))
        plain = await publisher.subscribe("jobs.>")
        for number in range(300):
            await publisher.publish("jobs.new", str(number).encode())
        await settle(publisher)
        for client in clients:
            await client.drain()

        assert sorted(itertools.chain(*members)) == list(range(300))
        assert all(members)
        assert plain.pending_msgs == 300


def collect(into: list[int]) -> Callable[[Msg], Awaitable[None]]:
    async def take(message: Msg) -> None:
        into.append(int(message.data))

    return take


async def test_headers_arrive_with_their_names_as_they_were_written() -> None:
    """Names keep their case; nats-py sends one value per name."""
    sent = {"Nats-Msg-Id": "1", "lower": "ünïcode", "UPPER": "with: colon", "Empty": ""}
    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe("with.headers")
        await client.publish("with.headers", b"body", headers=sent)
        await client.publish("with.headers", b"", headers={"only": "headers"})
        await client.publish("with.headers", b"plain")

        messages = [await subscription.next_msg(PATIENCE_S) for _ in range(3)]

    assert [(message.headers, message.data) for message in messages] == [
        (sent, b"body"),
        ({"only": "headers"}, b""),
        (None, b"plain"),
    ]


async def test_of_several_values_of_a_header_the_last_stays_last() -> None:
    """nats-py keeps the last value of a name; test_nats_js.py sees all of them."""

    class Several(dict[str, str]):
        def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
            return [("v", "1"), ("v", "2"), ("other", "x"), ("v", "3")]

    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe("several")
        await client.publish("several", headers=Several())

        message = await subscription.next_msg(PATIENCE_S)

    assert message.headers == {"v": "3", "other": "x"}


@pytest.mark.parametrize("old_style", [False, True], ids=["shared inbox", "inbox per request"])
async def test_a_request_is_answered(old_style: bool) -> None:
    async with (
        core() as server,
        connected(server.client_url) as service,
        connected(server.client_url) as client,
    ):
        await service.subscribe("echo", cb=echo)
        await settle(service)

        answer = await client.request("echo", b"hello", timeout=PATIENCE_S, old_style=old_style)

    assert answer.data == b"hello"


async def test_five_hundred_requests_at_once_get_their_own_answers() -> None:
    async with (
        core() as server,
        connected(server.client_url) as service,
        connected(server.client_url) as client,
    ):
        for _ in range(3):
            await service.subscribe("echo", queue="services", cb=echo)
        await settle(service)

        answers = await asyncio.gather(
            *(
                client.request("echo", str(number).encode(), timeout=PATIENCE_S)
                for number in range(500)
            )
        )

    assert [int(answer.data) for answer in answers] == list(range(500))


@pytest.mark.parametrize("old_style", [False, True], ids=["shared inbox", "inbox per request"])
async def test_a_request_without_responders_is_refused_at_once(old_style: bool) -> None:
    async with core() as server, connected(server.client_url) as client:
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("nobody", timeout=PATIENCE_S, old_style=old_style)


async def test_drain_handles_everything_that_was_published_before() -> None:
    got: list[int] = []
    watch = Watch()
    async with (
        core() as server,
        connected(server.client_url, watch) as subscriber,
        connected(server.client_url) as publisher,
    ):
        await subscriber.subscribe("drained", cb=collect(got))
        await settle(subscriber)
        for number in range(2000):
            await publisher.publish("drained", str(number).encode())
        await settle(publisher)
        await subscriber.drain()
        await patiently(watch.closed.wait())

    assert got == list(range(2000))


async def test_a_queue_member_that_drains_hands_over_without_loss() -> None:
    leaving: list[int] = []
    staying: list[int] = []
    async with (
        core() as server,
        connected(server.client_url) as first,
        connected(server.client_url) as second,
        connected(server.client_url) as publisher,
    ):
        await first.subscribe("work", queue="q", cb=collect(leaving))
        await second.subscribe("work", queue="q", cb=collect(staying))
        await settle(first, second)
        drained: asyncio.Task[None] | None = None
        for number in range(1000):
            await publisher.publish("work", str(number).encode())
            if number == 500:
                await settle(publisher)
                drained = asyncio.create_task(first.drain())
        await settle(publisher)
        assert drained is not None
        await patiently(drained)
        await second.drain()

    assert sorted(leaving + staying) == list(range(1000))
    assert leaving
    assert staying


async def test_an_unsubscription_with_a_maximum_ends_at_the_server() -> None:
    """UNSUB with max counts deliveries since SUB."""
    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe("few")
        await client.publish("few", b"0")
        await settle(client)
        await subscription.unsubscribe(limit=3)
        for number in range(1, 6):
            await client.publish("few", str(number).encode())
        await settle(client)

        assert await texts(subscription, 3) == ["few=0", "few=1", "few=2"]
        assert client.stats["in_msgs"] == 3


async def test_an_unsubscription_is_heeded() -> None:
    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe("gone")
        await client.publish("gone")
        await settle(client)
        await subscription.unsubscribe()
        await client.publish("gone")
        await settle(client)

        assert client.stats["in_msgs"] == 1


async def test_without_echo_a_client_does_not_get_its_own_messages() -> None:
    async with (
        core() as server,
        connected(server.client_url, no_echo=True) as quiet,
        connected(server.client_url) as other,
    ):
        subscription = await quiet.subscribe("shared")
        await other.subscribe("shared", cb=forget)
        await settle(quiet, other)
        await quiet.publish("shared", b"own")
        await settle(quiet)
        await other.publish("shared", b"other")

        assert await texts(subscription, 1) == ["shared=other"]
        await settle(quiet, other)
        assert quiet.stats["in_msgs"] == 1
        assert other.stats["in_msgs"] == 2


async def forget(_message: Msg) -> None:
    pass


async def test_a_verbose_client_works_as_any_other() -> None:
    async with core() as server, connected(server.client_url, verbose=True) as client:
        await client.subscribe("echo", cb=echo)
        subscription = await client.subscribe("v.*")
        await client.publish("v.1", b"x", headers={"a": "b"})

        assert await texts(subscription, 1) == ["v.1=x"]
        assert (await client.request("echo", b"y", timeout=PATIENCE_S)).data == b"y"


async def test_a_pedantic_client_gets_an_error_for_a_bad_subject() -> None:
    """wire.md, Core protocol; nats-py takes every such error for the end and closes."""
    watch = Watch()
    async with (
        core() as server,
        connected(server.client_url, watch, pedantic=True) as client,
    ):
        subscription = await client.subscribe("p.*")
        await client.publish("p.1", b"good")
        assert await texts(subscription, 1) == ["p.1=good"]
        await client.publish("p.*", b"bad")
        await patiently(watch.closed.wait())

        assert str(client.last_error) == "nats: invalid publish subject"


async def test_a_client_that_is_not_pedantic_publishes_such_a_subject() -> None:
    async with core() as server, connected(server.client_url) as client:
        subscription = await client.subscribe("p.>")
        await client.publish("p.*", b"literal")
        await client.publish("p..x", b"empty token")

        assert await texts(subscription, 1) == ["p.*=literal"]


@pytest.mark.parametrize("size", [0, 1, 4096, 65_537, MIB - 1, MIB])
async def test_messages_arrive_whole_up_to_the_largest(size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    async with (
        core() as server,
        connected(server.client_url) as client,
        connected(server.client_url) as other,
    ):
        subscription = await other.subscribe("large")
        await settle(other)
        for _ in range(3):
            await client.publish("large", payload)

        assert [(await subscription.next_msg(PATIENCE_S)).data for _ in range(3)] == [payload] * 3


async def test_the_client_learns_the_largest_payload_and_refuses_more(
    configure: Configure,
) -> None:
    async with (
        jetspark.Server(config=configure("max_payload: 1024")) as server,
        connected(server.client_url) as client,
    ):
        subscription = await client.subscribe("limited")
        await client.publish("limited", b"x" * 1024)
        with pytest.raises(nats.errors.MaxPayloadError):
            await client.publish("limited", b"x" * 1025)

        assert client.max_payload == 1024
        assert len((await subscription.next_msg(PATIENCE_S)).data) == 1024


async def test_the_server_refuses_a_larger_message_and_closes(configure: Configure) -> None:
    """nats-py does not count headers, so only the server sees that this is too much."""
    watch = Watch()
    async with (
        jetspark.Server(config=configure("max_payload: 1024")) as server,
        connected(server.client_url, watch) as client,
    ):
        await client.publish("limited", b"x" * 1024, headers={"too": "much"})
        await patiently(watch.closed.wait())

        assert str(client.last_error) == "nats: maximum payload violation"


async def test_a_hundred_connections_at_once() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(core())
        clients: list[Client] = await asyncio.gather(
            *(stack.enter_async_context(connected(server.client_url)) for _ in range(100))
        )
        subscriptions = [await client.subscribe("everybody") for client in clients]
        await settle(*clients)
        await clients[0].publish("everybody", b"hello")

        received: Counter[str] = Counter()
        for subscription in subscriptions:
            received.update(await texts(subscription, 1))

        assert received == {"everybody=hello": 100}
        assert len({client.client_id for client in clients}) == 100


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_ipv6_serves_as_well() -> None:
    async with (
        jetspark.Server(host="::1", jetstream=False) as server,
        connected(server.client_url) as client,
    ):
        await client.subscribe("echo", cb=echo)

        assert (await client.request("echo", b"six", timeout=PATIENCE_S)).data == b"six"
        assert client.client_ip == "::1"
