"""nats-py shows who it is, is kept to what it may do, and speaks TLS with the server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from tests.interop.clients.secured import ACCEPTED, ACCOUNTS, AUTHORIZATION, PERMISSIONS, REJECTED
from tests.support.certificates import Certificates

import jetspark

Configure = Callable[[str], Path]
MIB = 1024 * 1024
# Both clients say what the server said.
REFUSED = "Authorization Violation"


async def echo(message: Msg) -> None:
    await message.respond(message.data)


async def echoes(client: Client, payload: bytes = b"hello") -> bool:
    """Say whether the client can send, receive and answer."""
    await client.subscribe("echo", cb=echo)
    return (await client.request("echo", payload, timeout=PATIENCE_S)).data == payload


@pytest.mark.parametrize(("kind", "credentials"), ACCEPTED)
async def test_the_right_credentials_are_accepted(
    configure: Configure, kind: str, credentials: dict[str, Any]
) -> None:
    async with (
        jetspark.Server(config=configure(AUTHORIZATION[kind])) as server,
        connected(server.client_url, **credentials) as client,
    ):
        assert await echoes(client)


@pytest.mark.parametrize(("kind", "credentials"), REJECTED)
async def test_wrong_credentials_are_refused(
    configure: Configure, kind: str, credentials: dict[str, Any]
) -> None:
    async with jetspark.Server(config=configure(AUTHORIZATION[kind])) as server:
        with pytest.raises(nats.errors.Error, match=REFUSED):
            async with connected(server.client_url, **credentials):
                pass


async def test_credentials_in_the_url_are_used(configure: Configure) -> None:
    async with jetspark.Server(config=configure(AUTHORIZATION["users"])) as server:
        address = server.client_url.removeprefix("nats://")
        async with connected(f"nats://bob:other@{address}") as client:
            assert await echoes(client)


async def test_a_refusal_on_reconnect_is_reported(configure: Configure) -> None:
    watch = Watch()
    before = jetspark.Server(config=configure('authorization { token: "old" }'))
    await before.start()
    port = before.port
    async with connected(before.client_url, watch, token="old", allow_reconnect=True):
        await before.close()
        await patiently(watch.disconnected.wait())
        after = configure('authorization { token: "new" }')
        async with jetspark.Server(config=after, port=port):
            while REFUSED not in str(await watch.error()):
                pass


@pytest.mark.parametrize("subject", ["elsewhere", "out.secret", "out"])
async def test_a_forbidden_publish_is_reported_and_not_delivered(
    configure: Configure, subject: str
) -> None:
    watch = Watch()
    async with (
        jetspark.Server(config=configure(PERMISSIONS)) as server,
        connected(server.client_url, user="all", password="pw") as everything,
        connected(server.client_url, watch, user="some", password="pw") as client,
    ):
        subscription = await everything.subscribe(">")
        await settle(everything)
        await client.publish(subject, b"no")
        await client.publish("out.open", b"yes")

        # nats-py writes the texts of errors in small letters.
        expected = f'nats: permissions violation for publish to "{subject}"'
        assert str(await watch.error()) == expected
        assert await texts(subscription, 1) == ["out.open=yes"]
        assert await echoes(client)


@pytest.mark.parametrize(
    ("subject", "queue", "text"),
    [
        ("elsewhere", "", '"elsewhere"'),
        (">", "", '">"'),
        ("in.secret", "", '"in.secret"'),
        ("in.jobs", "others", '"in.jobs" using queue "others"'),
    ],
)
async def test_a_forbidden_subscription_is_reported_and_gets_nothing(
    configure: Configure, subject: str, queue: str, text: str
) -> None:
    watch = Watch()
    async with (
        jetspark.Server(config=configure(PERMISSIONS)) as server,
        connected(server.client_url, user="all", password="pw") as everything,
        connected(server.client_url, watch, user="some", password="pw") as client,
    ):
        await client.subscribe(subject, queue=queue)
        allowed = await client.subscribe("in.jobs", queue="workers")

        expected = f"nats: permissions violation for subscription to {text}"
        assert str(await watch.error()) == expected
        await everything.publish(subject.replace(">", "a"), b"no")
        await everything.publish("in.jobs", b"yes")
        assert (await texts(allowed, 1))[0].startswith("in.jobs=")
        assert client.stats["in_msgs"] == allowed.delivered


async def test_a_wildcard_subscription_does_not_get_what_is_denied(configure: Configure) -> None:
    async with (
        jetspark.Server(config=configure(PERMISSIONS)) as server,
        connected(server.client_url, user="all", password="pw") as everything,
        connected(server.client_url, user="some", password="pw") as client,
    ):
        subscription = await client.subscribe("in.*")
        await settle(client)
        for word in ("a", "secret", "b"):
            await everything.publish(f"in.{word}")

        assert await texts(subscription, 2) == ["in.a=", "in.b="]
        assert client.stats["in_msgs"] == 2


async def test_a_service_may_answer_once_and_only_who_asked(configure: Configure) -> None:
    """`allow_responses`: a reply subject is open for as many messages as configured."""
    watch = Watch()

    async def answer_twice(message: Msg) -> None:
        await message.respond(b"first")
        await message.respond(b"second")

    async with (
        jetspark.Server(config=configure(PERMISSIONS)) as server,
        connected(server.client_url, user="all", password="pw") as client,
        connected(server.client_url, watch, user="service", password="pw") as service,
    ):
        await service.subscribe("ask", cb=answer_twice)
        await settle(service)

        assert (await client.request("ask", timeout=PATIENCE_S)).data == b"first"
        assert "permissions violation for publish to" in str(await watch.error())


async def test_accounts_do_not_see_each_other(configure: Configure) -> None:
    async with (
        jetspark.Server(config=configure(ACCOUNTS)) as server,
        connected(server.client_url, user="ann", password="pw") as ann,
        connected(server.client_url, user="bob", password="pw") as bob,
    ):
        subscriptions = {
            ann: [await ann.subscribe("shared"), await ann.subscribe(">", queue="q")],
            bob: [await bob.subscribe("shared"), await bob.subscribe(">", queue="q")],
        }
        await settle(ann, bob)
        await ann.publish("shared", b"of A")
        await settle(ann)
        await bob.publish("shared", b"of B")
        await settle(ann, bob)

        for client, own in ((ann, "of A"), (bob, "of B")):
            got = [await texts(subscription, 1) for subscription in subscriptions[client]]
            assert got == [[f"shared={own}"], [f"shared={own}"]]
            assert client.stats["in_msgs"] == 2


async def test_a_service_of_another_account_does_not_answer(configure: Configure) -> None:
    async with (
        jetspark.Server(config=configure(ACCOUNTS)) as server,
        connected(server.client_url, user="ann", password="pw") as ann,
        connected(server.client_url, user="bob", password="pw") as bob,
    ):
        await bob.subscribe("echo", cb=echo)
        await settle(bob)

        with pytest.raises(nats.errors.NoRespondersError):
            await ann.request("echo", timeout=PATIENCE_S)
        assert (await bob.request("echo", b"x", timeout=PATIENCE_S)).data == b"x"


def cipher(client: Client) -> Any:
    """What protects the connection."""
    transport: Any = client._transport
    session = transport._io_writer.get_extra_info("ssl_object")
    return session.version() if session is not None else None


async def test_tls_starts_after_the_servers_info(
    configure: Configure, certificates: Certificates
) -> None:
    async with (
        jetspark.Server(config=configure(certificates.tls_block())) as server,
        connected(server.client_url, tls=certificates.context()) as client,
    ):
        assert cipher(client) == "TLSv1.3"
        assert await echoes(client)


async def test_the_largest_messages_travel_over_tls(
    configure: Configure, certificates: Certificates
) -> None:
    payload = bytes(range(256)) * (MIB // 256)
    async with (
        jetspark.Server(config=configure(certificates.tls_block())) as server,
        connected(server.client_url, tls=certificates.context()) as client,
        connected(server.client_url, tls=certificates.context()) as other,
    ):
        subscription = await other.subscribe("large")
        await settle(other)
        for _ in range(8):
            await client.publish("large", payload)

        assert [(await subscription.next_msg(PATIENCE_S)).data for _ in range(8)] == [payload] * 8


async def test_many_clients_begin_tls_at_once(
    configure: Configure, certificates: Certificates
) -> None:
    async with jetspark.Server(config=configure(certificates.tls_block())) as server:

        async def use() -> bool:
            async with connected(server.client_url, tls=certificates.context()) as client:
                await client.flush()
                return client.is_connected

        assert await asyncio.gather(*(use() for _ in range(20))) == [True] * 20


async def test_a_client_that_does_not_trust_the_certificate_leaves(
    configure: Configure, certificates: Certificates
) -> None:
    async with jetspark.Server(config=configure(certificates.tls_block())) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            async with connected(server.client_url, tls=ssl.create_default_context()):
                pass
        async with connected(server.client_url, tls=certificates.context()) as client:
            assert await echoes(client)


async def test_tls_1_2_is_spoken_and_1_1_is_not(
    configure: Configure, certificates: Certificates
) -> None:
    context = certificates.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with (
        jetspark.Server(config=configure(certificates.tls_block())) as server,
        connected(server.client_url, tls=context) as client,
    ):
        assert cipher(client) == "TLSv1.2"
        assert await echoes(client)


async def test_a_verifying_server_accepts_a_certificate_of_its_authority(
    configure: Configure, certificates: Certificates
) -> None:
    context = certificates.context(certificates.client)
    async with (
        jetspark.Server(config=configure(certificates.verifying_block())) as server,
        connected(server.client_url, tls=context) as client,
    ):
        assert await echoes(client)


@pytest.mark.parametrize("known", [False, True], ids=["no certificate", "another authority's"])
async def test_a_verifying_server_refuses_all_other_clients(
    configure: Configure, certificates: Certificates, known: bool
) -> None:
    context = certificates.context(certificates.stranger if known else None)
    async with jetspark.Server(config=configure(certificates.verifying_block())) as server:
        with pytest.raises((OSError, nats.errors.Error)) as refused:
            async with connected(server.client_url, tls=context):
                pass
        async with connected(
            server.client_url, tls=certificates.context(certificates.client)
        ) as client:
            assert await echoes(client)

    assert not isinstance(refused.value, TimeoutError)


async def test_tls_and_a_password_together(
    configure: Configure, certificates: Certificates
) -> None:
    both = f"{AUTHORIZATION['hashed user']}\n{certificates.tls_block()}"
    async with jetspark.Server(config=configure(both)) as server:
        context = certificates.context()
        async with connected(server.client_url, tls=context, user="ann", password="pw") as client:
            assert await echoes(client)
        with pytest.raises(nats.errors.Error, match=REFUSED):
            async with connected(server.client_url, tls=context, user="ann", password="no"):
                pass


@pytest.mark.parametrize("verify", [False, True], ids=["server certificate", "both certificates"])
async def test_tls_may_come_first(
    configure: Configure, certificates: Certificates, verify: bool
) -> None:
    block = certificates.verifying_block if verify else certificates.tls_block
    context = certificates.context(certificates.client if verify else None)
    async with (
        jetspark.Server(config=configure(block("handshake_first: true"))) as server,
        connected(server.client_url, tls=context, tls_handshake_first=True) as client,
    ):
        assert cipher(client) == "TLSv1.3"
        assert await echoes(client)


@pytest.mark.parametrize(
    ("setting", "first"),
    # A busy machine may take long to begin a handshake: who begins with one has time for it.
    [("auto", False), ("20ms", False), ("30s", True)],
    ids=["auto", "after a delay", "first"],
)
async def test_a_server_may_leave_to_the_client_when_tls_begins(
    configure: Configure, certificates: Certificates, setting: str, first: bool
) -> None:
    """`handshake_first: auto` or a delay: INFO comes in the clear if no handshake began."""
    block = certificates.tls_block(f'handshake_first: "{setting}"')
    async with (
        jetspark.Server(config=configure(block)) as server,
        connected(
            server.client_url, tls=certificates.context(), tls_handshake_first=first
        ) as client,
    ):
        assert cipher(client) == "TLSv1.3"
        assert await echoes(client)
