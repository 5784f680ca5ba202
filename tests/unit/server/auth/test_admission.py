"""One connection's way in, step by step."""

from __future__ import annotations

import pytest

from jetspark.protocol.handshake import ConnectOptions
from jetspark.server.auth.admission import Admission, Stage
from jetspark.server.auth.authenticator import Accepted, Authenticator, NeedsHash, Refused
from jetspark.server.auth.users import build_directory
from jetspark.server.config.blocks.users import Authorization, User
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings
from jetspark.units import seconds

SECOND = 1_000_000_000


def admission(hashed: str, *, no_auth_user: str = "", required: bool = True) -> Admission:
    """A connection to a server with users ``plain`` (password p) and ``hash`` (secret)."""
    users = (
        User(user="plain", password=Secret("p")),
        User(user="hash", password=Secret(hashed)),
    )
    authorization = Authorization(users=users) if required else Authorization()
    directory = build_directory(Settings(authorization=authorization, no_auth_user=no_auth_user))
    return Admission(Authenticator(directory), now=0, timeout=seconds(2))


def name(connection: Admission) -> str | None:
    return connection.user.name if connection.user is not None else None


def connect(user: str, password: str) -> ConnectOptions:
    return ConnectOptions(user=user, password=password)


def test_without_authentication_a_client_begins_with_anything(hashed: str) -> None:
    """wire.md, Core protocol: without CONNECT the server already works."""
    new = admission(hashed, required=False)

    assert new.stage is Stage.ADMITTED
    assert new.user is not None
    assert new.deadline is None
    assert isinstance(new.operate(), Accepted)


def test_with_authentication_nothing_but_connect_counts(hashed: str) -> None:
    new = admission(hashed)
    assert new.user is None

    assert isinstance(new.operate(), Refused)
    assert new.stage is Stage.REFUSED


def test_connect_admits(hashed: str) -> None:
    new = admission(hashed)

    assert isinstance(new.connect(connect("plain", "p")), Accepted)
    assert new.stage is Stage.ADMITTED
    assert new.user is not None
    assert new.user.name == "plain"


@pytest.mark.parametrize("matched", [True, False])
def test_a_hash_is_waited_for(hashed: str, *, matched: bool) -> None:
    new = admission(hashed)

    assert isinstance(new.connect(connect("hash", "secret")), NeedsHash)
    assert new.stage is Stage.CHECKING
    assert new.user is None
    assert isinstance(new.finish(matched=matched), Accepted if matched else Refused)
    assert new.stage is (Stage.ADMITTED if matched else Stage.REFUSED)


def test_a_refused_connection_stays_refused(hashed: str) -> None:
    new = admission(hashed, no_auth_user="plain")
    assert isinstance(new.connect(connect("plain", "wrong")), NeedsHash)
    new.finish(matched=True)

    assert new.stage is Stage.REFUSED
    assert isinstance(new.operate(), Refused)
    assert isinstance(new.connect(connect("plain", "p")), Refused)
    assert new.user is None


def test_connect_has_a_deadline(hashed: str) -> None:
    new = admission(hashed)

    assert new.deadline == 2 * SECOND
    assert new.expire(2 * SECOND - 1) is None
    late = new.expire(2 * SECOND)
    assert late is not None
    assert late.text == b"Authentication Timeout"
    assert new.stage is Stage.REFUSED


def test_there_is_no_deadline_for_the_check_of_a_hash(hashed: str) -> None:
    """As in nats-server, whose timer ends with CONNECT."""
    new = admission(hashed)
    new.connect(connect("hash", "secret"))

    assert new.deadline is None
    assert new.expire(100 * SECOND) is None


def test_a_second_connect_starts_over(hashed: str) -> None:
    new = admission(hashed)
    new.connect(connect("plain", "p"))

    assert isinstance(new.connect(connect("hash", "secret")), NeedsHash)
    assert name(new) is None, "nothing runs as the user before while the new one is checked"
    new.finish(matched=True)
    assert name(new) == "hash"


def test_a_second_connect_that_fails_ends_the_connection(hashed: str) -> None:
    new = admission(hashed)
    new.connect(connect("plain", "p"))
    new.connect(connect("hash", "wrong"))

    assert isinstance(new.finish(matched=False), Refused)
    assert new.user is None


def test_an_unexpected_result_is_refused(hashed: str) -> None:
    new = admission(hashed)

    assert isinstance(new.finish(matched=True), Refused)
    assert new.user is None
