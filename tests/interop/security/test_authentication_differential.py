"""The same configurations and clients, judged by nats-server 2.15.1 and by our authenticator.

Our side reads the same text with our configuration reader, so the whole way from a file to a
verdict is compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests.support.judges import Wire, running_nats_server

from jetspark.protocol.handshake import ConnectOptions, decode_connect
from jetspark.server.auth.admission import Admission
from jetspark.server.auth.authenticator import Accepted, Authenticator, NeedsHash
from jetspark.server.auth.users import build_directory
from jetspark.server.config.loader import load_text
from jetspark.units import seconds

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
LONG = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()

Client = dict[str, Any] | None  # None: no CONNECT at all

NOBODY: Client = {}


def user(name: str, password: str = "", **others: Any) -> Client:
    return {"user": name, "pass": password, **others}


def token(text: str) -> Client:
    return {"auth_token": text}


@dataclass(frozen=True)
class Case:
    """A configuration and the clients that try it."""

    name: str
    config: str
    clients: tuple[Client, ...]


CASES = [
    Case("open", "", (None, NOBODY, user("x", "y"), user("", "", account="A"))),
    Case(
        "token",
        "authorization { token: s3 }",
        (None, NOBODY, token("s3"), token("s"), user("s3"), user("x", "s3"),
         user("x", "y", auth_token="s3")),
    ),
    Case(
        "token as a hash",
        f"authorization {{ token: '{HASH}' }}",
        (token("secret"), token(HASH), NOBODY),
    ),
    Case(
        "single user",
        "authorization { user: a, password: b }",
        (None, NOBODY, user("a", "b"), user("a", "c"), user("A", "b"), user("", "b"), token("b"),
         user("a", "b", account="A"), user("a", "b", new_account=True)),
    ),
    Case("user without a password", "authorization { user: a }", (user("a"), user("a", "x"))),
    Case(
        "users",
        "authorization { users = [ {user: a, password: aa}, {user: bare},"
        f" {{user: h, password: '{HASH}'}}, {{user: l, password: '{LONG}'}} ] }}",
        (None, NOBODY, user("a", "aa"), user("a", "ab"), user("b", "aa"), user("", "aa"),
         user("bare"), user("bare", "x"), user("h", "secret"), user("h", "wrong"), user("h", HASH),
         user("l", "x" * 80), user("l", "x" * 71), token("aa"), {"nkey": "U"}),
    ),
    Case(
        "accounts",
        "accounts { A { users = [ {user: a, password: aa} ] }, B { users = [ {user: b} ] } }",
        (None, NOBODY, user("a", "aa"), user("b"), user("b", "aa")),
    ),
    Case("accounts without users", "accounts { A {} }", (None, NOBODY, user("a", "b"))),
    Case(
        "accounts beside users",
        "authorization { users = [ {user: t, password: t} ] }\n"
        "accounts { A { users = [ {user: a, password: a} ] } }",
        (user("t", "t"), user("a", "a"), NOBODY),
    ),
    Case(
        "no_auth_user",
        "authorization { users = [ {user: a, password: aa}, {user: b, password: bb} ] }\n"
        "no_auth_user: a",
        (None, NOBODY, user("a"), user("a", "aa"), user("b", "bb"), user("b", "bad"),
         user("", "zz"), token("x"), {"nkey": "U"}, {"jwt": "U"}),
    ),
    Case(
        "users of the system only",
        "accounts { SYS { users = [ {user: s, password: t} ] } }\nsystem_account: SYS",
        (None, NOBODY, user("s", "t"), user("x", "y"), user("", "y")),
    ),
    Case(
        "users of the system beside another account",
        "accounts { A {}, SYS { users = [ {user: s, password: t} ] } }\nsystem_account: SYS",
        (None, NOBODY, user("s", "t")),
    ),
    Case(
        "users of the system beside users",
        "accounts { SYS { users = [ {user: s, password: t} ] } }\nsystem_account: SYS\n"
        "authorization { users = [ {user: a} ] }",
        (None, NOBODY, user("s", "t"), user("a")),
    ),
    Case(
        "kinds of connections",
        "authorization { users = [ {user: w, allowed_connection_types: [WEBSOCKET]},"
        " {user: s, allowed_connection_types: [standard, MQTT]} ] }",
        (user("w"), user("s")),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nats_server_and_our_authenticator_agree(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(case.config)
    authenticator = Authenticator(build_directory(load_text(case.config, {}, not_yet={})))

    with running_nats_server(path) as port:
        for client in case.clients:
            announced, accepted = theirs(port, client)

            assert authenticator.announced is announced
            assert ours(authenticator, client) is accepted, client


def theirs(port: int, client: Client) -> tuple[bool, bool]:
    """Return what INFO says of authentication, and whether the client is let in."""
    wire = Wire(port, client)
    try:
        lines = wire.ask(b"")
        assert lines in ([], [b"-ERR 'Authorization Violation'"]), lines
        return wire.info.get("auth_required", False), not lines
    finally:
        wire.close()


def ours(authenticator: Authenticator, client: Client) -> bool:
    """Tell whether the client is let in."""
    admission = Admission(authenticator, now=0, timeout=seconds(2))
    if client is None:
        return isinstance(admission.operate(), Accepted)
    verdict = admission.connect(options_of(client))
    if isinstance(verdict, NeedsHash):
        return isinstance(admission.finish(matched=verdict.check()), Accepted)
    return isinstance(verdict, Accepted)


def options_of(client: dict[str, Any]) -> ConnectOptions:
    return decode_connect(json.dumps(client).encode())


def test_a_no_auth_user_with_a_hash_is_let_in_by_ours_only(tmp_path: Path) -> None:
    """nats-server compares the hash with itself. When this fails there, move it to the table."""
    config = f"authorization {{ users = [ {{user: a, password: '{HASH}'}} ] }}\nno_auth_user: a"
    path = tmp_path / "server.conf"
    path.write_text(config)
    with running_nats_server(path) as port:
        assert theirs(port, NOBODY) == (False, False)

    authenticator = Authenticator(build_directory(load_text(config, {}, not_yet={})))
    assert not authenticator.announced
    assert ours(authenticator, NOBODY)
