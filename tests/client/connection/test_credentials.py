"""nkeys, JWTs and credentials files, on a real server that asks for them."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.support.jwts import Operator, credentials_text

from jetspark import connect
from jetspark.errors import AuthorizationFailed, BadCredentials, ConnectFailed
from jetspark.protocol.nkeys import ACCOUNT, USER, KeyPair


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str
    address: str


Start = Callable[[str], RunningServer]

JWT, KEY = Operator().user()
GOOD = credentials_text(JWT, KEY)


async def works(url: str, **options: Any) -> None:
    async with await connect(url, **options) as nc:
        await nc.flush()


async def test_an_nkey_user(nats_server: Start) -> None:
    key = KeyPair.generate(USER)
    server = nats_server(f"authorization {{ users: [ {{ nkey: {key.public_key} }} ] }}")

    await works(server.url, nkey_seed=key.seed)
    await works(server.url, nkey=key.public_key, signature_callback=key.sign)
    with pytest.raises(AuthorizationFailed):
        await connect(server.url, nkey_seed=KeyPair.generate(USER).seed)


async def test_an_nkey_for_a_server_without_nkeys_says_so(nats_server: Start) -> None:
    server = nats_server("")

    with pytest.raises(ConnectFailed, match="it has no users with nkeys"):
        await connect(server.url, nkey_seed=KeyPair.generate(USER).seed)


async def test_a_credentials_file(nats_server: Start, tmp_path: Path) -> None:
    operator = Operator()
    server = nats_server(operator.config())
    jwt, key = operator.user()
    file = tmp_path / "user.creds"
    file.write_text(credentials_text(jwt, key))

    await works(server.url, credentials=file)
    await works(server.url, credentials=str(file))
    await works(server.url, credentials=file.read_text())
    await works(server.url, jwt_callback=lambda: jwt, signature_callback=key.sign)
    with pytest.raises(AuthorizationFailed):
        await connect(server.url)


async def test_credentials_of_another_operator_are_refused(nats_server: Start) -> None:
    server = nats_server(Operator().config())
    jwt, key = Operator().user()

    with pytest.raises(AuthorizationFailed):
        await connect(server.url, credentials=credentials_text(jwt, key))


async def test_expired_credentials_are_read_again_for_the_next_connection(
    nats_server: Start, tmp_path: Path
) -> None:
    """A file that is renewed in time keeps the client alive."""
    operator = Operator()
    server = nats_server(operator.config())
    file = tmp_path / "user.creds"
    file.write_text(credentials_text(*operator.user(exp=int(time.time()) + 3)))
    lost: list[Exception] = []
    async with await connect(
        server.url, credentials=file, disconnected_callback=lost.append, reconnect_jitter=0.0
    ) as nc:
        subscription = await nc.subscribe("a")
        file.write_text(credentials_text(*operator.user()))
        while not nc.stats.reconnects:
            with pytest.raises(TimeoutError):
                await subscription.next(timeout=0.05)
        nc.publish("a", b"on")

        assert (await subscription.next()).data == b"on"
    assert "Expired" in str(lost[0])


async def test_expired_credentials_are_named_as_such(nats_server: Start) -> None:
    """The server only says that it refuses them."""
    operator = Operator()
    server = nats_server(operator.config())
    expired = credentials_text(*operator.user(exp=1_700_000_000))

    with pytest.raises(AuthorizationFailed, match="its JWT expired at 2023-11-14T22:13:20"):
        await connect(server.url, credentials=expired)


@pytest.mark.parametrize(
    ("jwt", "signature", "reason"),
    [
        (
            lambda: None,
            lambda nonce: nonce,
            "the jwt callback returned NoneType: expected the user's",
        ),
        (lambda: "", lambda nonce: nonce, "the jwt callback returned str of 0"),
        (
            lambda: JWT,
            lambda _: "text",
            "the signature callback returned str of 4: expected the 64",
        ),
        (lambda: JWT, lambda n: base64.b64encode(KEY.sign(n)), r"bytes of 88: .*not base64"),
    ],
)
async def test_callbacks_that_return_something_else_are_refused(
    nats_server: Start, jwt: Any, signature: Any, reason: str
) -> None:
    server = nats_server(Operator().config())

    with pytest.raises(AuthorizationFailed, match=reason):
        await connect(server.url, jwt_callback=jwt, signature_callback=signature)


async def test_a_coroutine_function_is_no_callback_for_credentials(nats_server: Start) -> None:
    server = nats_server(Operator().config())

    async def jwt() -> str:
        return JWT

    wrong: Any = jwt
    with pytest.raises(AuthorizationFailed, match="it must be a plain function"):
        await connect(server.url, jwt_callback=wrong, signature_callback=KEY.sign)


async def test_callbacks_that_fail_are_refused_credentials(nats_server: Start) -> None:
    server = nats_server(Operator().config())

    def broken() -> str:
        raise OSError("no vault today")

    with pytest.raises(AuthorizationFailed, match=r"the jwt callback failed: .*no vault today"):
        await connect(server.url, jwt_callback=broken, signature_callback=lambda nonce: nonce)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD.replace("USER JWT", "NOTHING"), "no block -----BEGIN NATS USER JWT-----"),
        (GOOD.replace("NKEY SEED", "NOTHING"), "no block -----BEGIN USER NKEY SEED-----"),
        (GOOD.replace(KEY.seed, "SUABC"), "got 5 characters"),
        (GOOD.replace(KEY.seed, KeyPair.generate(ACCOUNT).seed), "expected the seed of a user"),
        (GOOD.replace(KEY.seed, KeyPair.generate(USER).seed), "both must belong to the same user"),
        (GOOD.replace(JWT, "abc"), "the JWT cannot be read"),
        (GOOD.replace(JWT, "a.!.c"), "no block -----BEGIN NATS USER JWT-----"),
    ],
    ids=["no jwt", "no seed", "short", "account", "other user", "no claims", "bad letter"],
)
async def test_a_bad_credentials_file_says_what_is_wrong(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "bad.creds"
    file.write_text(text)

    with pytest.raises(BadCredentials, match=reason) as caught:
        await connect(credentials=file)
    assert KEY.seed not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"credentials": "missing.creds"}, "credentials file 'missing.creds' cannot be read"),
        ({"nkey_seed": "SU"}, "expected an nkey seed"),
        ({"nkey_seed": KeyPair.generate(ACCOUNT).seed}, "expected the seed of a user"),
        ({"nkey": KEY.public_key}, "need signature_callback"),
        ({"signature_callback": KEY.sign}, "needs either nkey"),
        ({"signature_callback": KEY.sign, "nkey": "UABC"}, "expected a public nkey"),
    ],
    ids=["no file", "seed", "account", "no signature", "neither", "public key"],
)
async def test_bad_keys_are_refused_before_anything_is_dialled(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        await connect("127.0.0.1:1", **options)
