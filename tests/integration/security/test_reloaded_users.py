"""Users that change at a reload: what connections that stay may become afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.raw_client import Raw, connect

import jetspark
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text
from jetspark.server.config.settings import Settings
from jetspark.server.server import Server

ANN = "{ user: ann, password: a }"


def settings(folder: Path, users: str) -> Settings:
    text = f'listen: "127.0.0.1:-1"\njetstream {{ store_dir: "{folder}" }}\n{users}'
    return load_text(text, {})


async def test_a_removed_user_cannot_return_on_a_connection_of_another_user(
    tmp_path: Path,
) -> None:
    bob = "{ user: bob, password: b }"
    before = settings(tmp_path, f"authorization {{ users: [{ANN}, {bob}] }}")
    async with jetspark.Server(config=before) as server:
        raw = await Raw.open(server.port)
        assert await raw.say(connect(b"ann", b"a")) == b"PONG\r\n"

        await server.reload(settings(tmp_path, f"authorization {{ users: [{ANN}] }}"))

        assert await raw.say(b"") == b"PONG\r\n"
        heard = await raw.say(connect(b"bob", b"b"))
        assert b"PONG" not in heard
        assert b"Authorization Violation" in heard
        raw.close()


async def test_a_second_connect_has_the_permissions_of_after_the_reload(tmp_path: Path) -> None:
    bob = "{ user: bob, password: b }"
    less = "{ user: bob, password: b, permissions: { subscribe: inbox } }"
    before = settings(tmp_path, f"authorization {{ users: [{ANN}, {bob}] }}")
    async with jetspark.Server(config=before) as server:
        raw = await Raw.open(server.port)
        assert await raw.say(connect(b"ann", b"a")) == b"PONG\r\n"

        await server.reload(settings(tmp_path, f"authorization {{ users: [{ANN}, {less}] }}"))

        heard = await raw.say(connect(b"bob", b"b") + b"SUB > 1\r\n")
        assert b"Permissions Violation for Subscription to" in heard
        raw.close()


@pytest.mark.parametrize(
    "users",
    [
        f"authorization {{ users: [{ANN}] }}",
        "authorization { token: secret }",
        f"accounts {{ A {{ users: [{ANN}] }} }}",
    ],
)
async def test_clients_without_a_name_do_not_stay_when_names_are_asked_for(
    tmp_path: Path, users: str
) -> None:
    async with jetspark.Server(config=settings(tmp_path, "")) as server:
        raw = await Raw.open(server.port)
        assert await raw.say(b'CONNECT {"verbose":false}\r\nSUB > 1\r\n') == b"PONG\r\n"

        await server.reload(settings(tmp_path, users))

        heard = await raw.say(b"")
        assert b"PONG" not in heard
        raw.close()


async def test_clients_with_a_token_stay_while_it_is_the_same(tmp_path: Path) -> None:
    before = settings(tmp_path, "authorization { token: secret }")
    async with jetspark.Server(config=before) as server:
        raw = await Raw.open(server.port)
        line = b'CONNECT {"verbose":false,"auth_token":"secret"}\r\n'
        assert await raw.say(line) == b"PONG\r\n"

        await server.reload(settings(tmp_path, "authorization { token: secret, timeout: 3 }"))

        assert await raw.say(b"") == b"PONG\r\n"
        raw.close()


async def test_an_account_that_returns_has_jetstream_as_before(tmp_path: Path) -> None:
    bob = "B { users: [{ user: bob, password: b }] }"
    served = settings(
        tmp_path, f"accounts {{ A {{ jetstream: enabled, users: [{ANN}] }}, {bob} }}"
    )
    plain = settings(tmp_path, f"accounts {{ A {{ users: [{ANN}] }}, {bob} }}")
    without = settings(tmp_path, f"accounts {{ {bob} }}")
    async with jetspark.Server(config=served) as server:
        await server.reload(without)
        with pytest.raises(ConfigRefused, match=r"accounts\.A\.jetstream: .* restart"):
            await server.reload(plain)
        await server.reload(served)
    async with jetspark.Server(config=plain) as server:
        await server.reload(without)
        with pytest.raises(ConfigRefused, match=r"accounts\.A\.jetstream: .* restart"):
            await server.reload(served)


async def test_a_connection_that_is_being_accepted_has_the_users_of_after_the_reload(
    tmp_path: Path,
) -> None:
    async with Server(config=settings(tmp_path, "")) as server:
        # The loop creates it when the socket is accepted, and calls it in a later turn.
        connection = server._accept()
        await server.reload(settings(tmp_path, f"authorization {{ users: [{ANN}] }}"))
        connection.session.begin(("127.0.0.1", 1))
        assert connection.session.user is None
