"""Credentials, permissions and TLS, on servers configured for it."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.certificates import make_certificate

from jetspark import TlsFiles, connect
from jetspark.errors import (
    AuthorizationFailed,
    BadCredentials,
    ConnectFailed,
    PermissionsViolation,
    ServerRefused,
)


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str
    address: str


Start = Callable[[str], RunningServer]

USERS = """
authorization {
  users: [
    { user: ann, password: secret, permissions: {
        publish: { allow: ["open.>", "_INBOX.>"] }
        subscribe: { allow: ["open.>", "_INBOX.>"] } } }
  ]
}
"""


async def test_user_and_password(nats_server: Start) -> None:
    server = nats_server(USERS)
    async with await connect(server.url, user="ann", password="secret") as nc:
        await nc.flush()
    async with await connect(f"nats://ann:secret@{server.address}") as nc:
        await nc.flush()
    for url in (f"nats://ann:wrong@{server.address}", server.url):
        with pytest.raises(AuthorizationFailed, match="refused the credentials"):
            await connect(url)


async def test_token(nats_server: Start) -> None:
    server = nats_server("authorization { token: s3cret }")
    async with await connect(server.url, token="s3cret") as nc:
        await nc.flush()
    async with await connect(f"nats://s3cret@{server.address}") as nc:
        await nc.flush()
    with pytest.raises(AuthorizationFailed):
        await connect(server.url, token="wrong")


async def test_a_forbidden_subscription_ends_with_the_reason(nats_server: Start) -> None:
    """The texts of permission violations; the connection stays."""
    server = nats_server(USERS)
    errors: list[Exception] = []
    async with await connect(
        server.url, user="ann", password="secret", error_callback=errors.append
    ) as nc:
        allowed = await nc.subscribe("open.a")
        forbidden = await nc.subscribe("closed.a")
        with pytest.raises(PermissionsViolation, match=r"closed\.a"):
            await forbidden.next()
        nc.publish("open.a", b"still here")

        assert (await allowed.next()).data == b"still here"
    assert [type(error) for error in errors] == [PermissionsViolation]


async def test_a_forbidden_request_fails_at_once_and_a_publish_is_reported(
    nats_server: Start,
) -> None:
    server = nats_server(USERS)
    errors: list[Exception] = []
    async with await connect(
        server.url, user="ann", password="secret", error_callback=errors.append
    ) as nc:
        with pytest.raises(PermissionsViolation, match=r"closed\.b"):
            await nc.request("closed.b", timeout=30)
        nc.publish("closed.c")
        await nc.flush()

    assert len(errors) == 2


@pytest.mark.parametrize("first", [False, True], ids=["after INFO", "handshake first"])
async def test_tls(nats_server: Start, tmp_path: Path, first: bool) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    server = nats_server(
        f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}", '
        f"handshake_first: {str(first).lower()} }}"
    )
    context = ssl.create_default_context(cafile=str(cert_file))
    async with await connect(server.url, tls=context, tls_first=first) as nc:
        subscription = await nc.subscribe("a")
        payload = bytes(300_000)
        for _ in range(5):
            nc.publish("a", payload)
        received = [(await subscription.next()).data for _ in range(5)]

    assert received == [payload] * 5


async def test_a_certificate_of_an_unknown_authority_is_refused(
    nats_server: Start, tmp_path: Path
) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    server = nats_server(f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}" }}')

    with pytest.raises(ConnectFailed, match="the certificate was rejected"):
        await connect(f"tls://{server.address}")
    # The server demands TLS, so nats:// tries it too instead of sending credentials in the clear.
    with pytest.raises(ConnectFailed, match="the certificate was rejected"):
        await connect(server.url)


async def test_tls_to_a_server_without_it_is_refused(nats_server: Start) -> None:
    server = nats_server("")

    with pytest.raises(ConnectFailed, match="the server offers no TLS"):
        await connect(f"tls://{server.address}")


async def test_a_context_of_the_wrong_host_name_is_refused(
    nats_server: Start, tmp_path: Path
) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    server = nats_server(f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}" }}')
    context = ssl.create_default_context(cafile=str(cert_file))

    with pytest.raises(ConnectFailed, match="was rejected"):
        await connect(server.url, tls=context, tls_hostname="elsewhere.example")
    async with await connect(server.url, tls=context, tls_hostname="127.0.0.1") as nc:
        await asyncio.wait_for(nc.flush(), 5)


async def test_a_client_certificate_by_files(nats_server: Start, tmp_path: Path) -> None:
    """Options that name files pickle; an SSL context does not."""
    cert_file, key_file = make_certificate(tmp_path)
    server = nats_server(
        f'tls {{ cert_file: "{cert_file}", key_file: "{key_file}", ca_file: "{cert_file}", '
        "verify: true }"
    )
    files = TlsFiles(
        ca_file=str(cert_file), certificate_file=str(cert_file), key_file=str(key_file)
    )
    async with await connect(server.url, tls=files) as nc:
        await nc.flush()

    with pytest.raises(ConnectFailed):
        await connect(server.url, tls=TlsFiles(ca_file=str(cert_file)))


async def test_tls_first_needs_no_other_option(nats_server: Start) -> None:
    """It asks for TLS: a connection in the clear is none."""
    server = nats_server("")

    with pytest.raises(ConnectFailed, match="the server did not answer with TLS"):
        await connect(server.url, tls_first=True)


def encrypted_key(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    file = folder / "encrypted.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
    )
    return file


async def test_files_that_cannot_be_used_are_named_before_anything_is_dialled(
    tmp_path: Path,
) -> None:
    cert_file, key_file = map(str, make_certificate(tmp_path))
    empty = tmp_path / "empty.pem"
    empty.touch()
    locked = str(encrypted_key(tmp_path))
    for files, reason in (
        (TlsFiles(ca_file="missing.pem"), "ca_file 'missing.pem' cannot be read: No such file"),
        (TlsFiles(certificate_file="missing.pem"), "certificate_file 'missing.pem' cannot be"),
        (TlsFiles(ca_file=str(empty)), "empty.pem' contains no PEM certificate"),
        (TlsFiles(key_file=key_file), "key_file without certificate_file"),
        (TlsFiles(certificate_file=cert_file), "cannot be used"),
        (TlsFiles(certificate_file=cert_file, key_file=locked), "key_password if the key is"),
    ):
        with pytest.raises(BadCredentials, match=reason):
            await connect("127.0.0.1:1", tls=files)


async def test_tls_continues_after_a_reconnect(
    tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    arguments = ("--tls", "--tlscert", str(cert_file), "--tlskey", str(key_file))
    server = server_process("nats-server", tmp_path / "store", *arguments)
    async with await connect(
        server.url, tls=TlsFiles(ca_file=str(cert_file)), reconnect_wait=0.01
    ) as nc:
        subscription = await nc.subscribe("a")
        await asyncio.to_thread(server.kill)
        port = server.address.rpartition(":")[2]
        await asyncio.to_thread(
            server_process, "nats-server", tmp_path / "store", *arguments, port=port
        )
        await nc.flush(timeout=20)
        nc.publish("a", b"x")

        assert (await subscription.next()).data == b"x"


async def test_a_forbidden_inbox_fails_requests_at_once_and_says_what_helps(
    nats_server: Start,
) -> None:
    server = nats_server(
        "authorization { users: [ { user: ann, password: secret, "
        'permissions: { subscribe: { allow: ["open.>"] } } } ] }'
    )
    login: Any = {"user": "ann", "password": "secret"}
    async with await connect(server.url, **login) as nc:
        await nc.subscribe("open.echo", callback=lambda m: m.respond(m.data))
        for _ in range(2):
            with pytest.raises(PermissionsViolation) as caught:
                await nc.request("open.echo", timeout=30)
            assert "inbox_prefix=" in str(caught.value.__notes__)
    async with await connect(server.url, inbox_prefix="open.inbox", **login) as nc:
        await nc.subscribe("open.echo", callback=lambda m: m.respond(m.data))

        assert (await nc.request("open.echo", b"x")).data == b"x"


async def test_too_many_subscriptions_are_reported_and_the_connection_lives(
    nats_server: Start,
) -> None:
    server = nats_server("max_subscriptions: 2")
    errors: list[Exception] = []
    async with await connect(server.url, error_callback=errors.append) as nc:
        for n in range(3):
            await nc.subscribe(f"a.{n}")
        await nc.flush()

        assert nc.stats.reconnects == 0
    assert [type(error) for error in errors] == [ServerRefused]
