"""Who is let in: each row was observed on nats-server 2.15.1 unless its test says otherwise."""

from __future__ import annotations

from collections.abc import Callable

import bcrypt
import pytest

from jetspark.protocol.handshake import ConnectOptions
from jetspark.server.auth.authenticator import (
    IN_PROCESS,
    WEBSOCKET,
    Accepted,
    Authenticator,
    NeedsHash,
    Refused,
    TlsPeer,
    Verdict,
)
from jetspark.server.auth.passwords import hash_problem
from jetspark.server.auth.users import build_directory
from jetspark.server.config.blocks.accounts import Account
from jetspark.server.config.blocks.users import Authorization, User
from jetspark.server.config.blocks.websocket import Websocket
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings

Examiner = Callable[[Settings], Authenticator]

TOKEN = Authorization(token=Secret("s3"))
SINGLE = Authorization(user="a", password=Secret("b"))
USERS = Authorization(
    users=(
        User(user="a", password=Secret("aa")),
        User(user="b", password=Secret("bb")),
        User(user="bare"),
    )
)


def connect(
    user: str = "", password: str = "", token: str = "", **others: str | bool
) -> ConnectOptions:
    return ConnectOptions(user=user, password=password, auth_token=token, **others)  # type: ignore[arg-type]


def decided(authenticator: Authenticator, options: ConnectOptions) -> Accepted | Refused:
    """The verdict after the hash was checked, if one has to be."""
    verdict: Verdict = authenticator.examine(options)
    if isinstance(verdict, NeedsHash):
        return authenticator.conclude(verdict, matched=verdict.check())
    return verdict


@pytest.mark.parametrize(
    ("authorization", "options", "name"),
    [
        (Authorization(), connect(), ""),
        (Authorization(), connect("x", "y", "z"), ""),
        (TOKEN, connect(), None),
        (TOKEN, connect(token="s3"), ""),
        (TOKEN, connect(token="s"), None),
        (TOKEN, connect("s3"), None),
        (TOKEN, connect("x", "s3"), None),
        (TOKEN, connect("x", "y", "s3"), ""),
        (SINGLE, connect("a", "b"), "a"),
        (SINGLE, connect("a", "c"), None),
        (SINGLE, connect("A", "b"), None),
        (SINGLE, connect("", "b"), None),
        (SINGLE, connect(), None),
        (Authorization(user="a"), connect("a"), "a"),
        (Authorization(user="a"), connect("a", "x"), None),
        (USERS, connect("a", "aa"), "a"),
        (USERS, connect("a", "bb"), None),
        (USERS, connect("c", "aa"), None),
        (USERS, connect("", "aa"), None),
        (USERS, connect(token="aa"), None),
        (USERS, connect(), None),
        (USERS, connect("bare"), "bare"),
        (USERS, connect("bare", "x"), None),
        (USERS, connect("a", "\ud800"), None),
        (USERS, connect("\ud800", "x"), None),
    ],
)
def test_credentials_decide(
    examiner: Examiner, authorization: Authorization, options: ConnectOptions, name: str | None
) -> None:
    verdict = decided(examiner(Settings(authorization=authorization)), options)

    assert (verdict.user.name if isinstance(verdict, Accepted) else None) == name


@pytest.mark.parametrize("options", [connect(account="x"), connect(new_account=True)])
def test_a_client_cannot_choose_its_account(examiner: Examiner, options: ConnectOptions) -> None:
    """nats-server refuses both, also without authentication."""
    assert isinstance(examiner(Settings()).examine(options), Refused)


def test_a_user_brings_its_account(examiner: Examiner) -> None:
    user = User(user="a", password=Secret("aa"))
    authenticator = examiner(Settings(accounts=(Account(name="A", users=(user,)),)))
    verdict = authenticator.examine(connect("a", "aa"))

    assert isinstance(verdict, Accepted)
    assert verdict.user.account.name == "A"


def test_a_hash_is_left_to_the_caller(examiner: Examiner, hashed: str) -> None:
    user = User(user="a", password=Secret(hashed))
    authenticator = examiner(Settings(authorization=Authorization(users=(user,))))
    verdict = authenticator.examine(connect("a", "secret"))

    assert isinstance(verdict, NeedsHash)
    assert verdict.hash.value == hashed
    assert verdict.check()
    assert isinstance(authenticator.conclude(verdict, matched=True), Accepted)
    assert isinstance(authenticator.conclude(verdict, matched=False), Refused)
    assert isinstance(decided(authenticator, connect("a", "wrong")), Refused)
    assert isinstance(decided(authenticator, connect("a", hashed)), Refused)


def test_a_token_may_be_a_hash(examiner: Examiner, hashed: str) -> None:
    authenticator = examiner(Settings(authorization=Authorization(token=Secret(hashed))))

    assert isinstance(decided(authenticator, connect(token="secret")), Accepted)
    assert isinstance(decided(authenticator, connect(token=hashed)), Refused)


def test_nothing_that_goes_to_a_log_shows_a_password(examiner: Examiner, hashed: str) -> None:
    user = User(user="a", password=Secret(hashed))
    authenticator = examiner(Settings(authorization=Authorization(users=(user,))))
    verdict = authenticator.examine(connect("a", "hunter2"), TlsPeer(subject="CN=x"))

    assert isinstance(verdict, NeedsHash)
    assert "hunter2" not in repr(verdict)
    assert hashed not in repr(verdict)
    refused = authenticator.conclude(verdict, matched=False)
    assert isinstance(refused, Refused)
    assert "hunter2" not in refused.reason
    assert "CN=x" in refused.reason


class TestTiming:
    """Who exists cannot be derived from the time a refusal takes. nats-server has no such care."""

    def authenticator(self, costs: tuple[int, ...], *plain: User) -> Authenticator:
        users = tuple(
            User(
                user=f"h{number}",
                password=Secret(bcrypt.hashpw(b"x", bcrypt.gensalt(cost)).decode()),
            )
            for number, cost in enumerate(costs)
        )
        return Authenticator(
            build_directory(Settings(authorization=Authorization(users=users + plain)))
        )

    def test_an_unknown_user_costs_a_hash_where_known_ones_do(self) -> None:
        verdict = self.authenticator((4,)).examine(connect("nobody", "x"))

        assert isinstance(verdict, NeedsHash)
        assert verdict.user is None
        assert hash_problem(verdict.hash.value) is None
        assert verdict.hash.value.startswith("$2b$04$")

    def test_a_hash_that_matches_does_not_let_an_unknown_user_in(self) -> None:
        authenticator = self.authenticator((4,))
        verdict = authenticator.examine(connect("nobody", "x"))

        assert isinstance(verdict, NeedsHash)
        assert isinstance(authenticator.conclude(verdict, matched=True), Refused)

    def test_a_wrong_plain_password_costs_a_hash_as_well(self) -> None:
        authenticator = self.authenticator((4,), User(user="p", password=Secret("pp")))

        assert isinstance(authenticator.examine(connect("p", "no")), NeedsHash)
        assert isinstance(authenticator.examine(connect("p", "pp")), Accepted)

    def test_a_user_that_may_not_connect_this_way_costs_its_hash(self, hashed: str) -> None:
        user = User(user="w", password=Secret(hashed), connection_types=frozenset({"WEBSOCKET"}))
        authenticator = self.authenticator((5,), user)
        verdict = authenticator.examine(connect("w", "secret"))

        assert isinstance(verdict, NeedsHash)
        assert verdict.hash.value == hashed
        assert isinstance(authenticator.conclude(verdict, matched=True), Refused)

    def test_unknown_names_meet_the_costs_of_known_ones_each_always_the_same(self) -> None:
        authenticator = self.authenticator((4, 5))

        def cost(name: str) -> str:
            verdict = authenticator.examine(connect(name, "x"))
            assert isinstance(verdict, NeedsHash)
            return verdict.hash.value[:7]

        costs = [cost(f"n{number}") for number in range(64)]
        assert set(costs) == {"$2b$04$", "$2b$05$"}
        assert costs == [cost(f"n{number}") for number in range(64)]

    def test_without_hashes_refusals_are_immediate(self) -> None:
        authenticator = self.authenticator((), User(user="p", password=Secret("pp")))

        assert isinstance(authenticator.examine(connect("nobody", "x")), Refused)


class TestNoAuthUser:
    """``no_auth_user``: who a client is that shows nothing."""

    SETTINGS = Settings(authorization=USERS, no_auth_user="a")

    @pytest.mark.parametrize(
        ("options", "name"),
        [
            (connect(), "a"),
            (connect("a"), None),
            (connect("a", "aa"), "a"),
            (connect("b", "bb"), "b"),
            (connect("b", "bad"), None),
            (connect("", "zz"), None),
            (connect(token="x"), None),
            (connect(nkey="U"), "a"),
            (connect(jwt="U"), "a"),
        ],
    )
    def test_only_who_shows_nothing_is_it(
        self, examiner: Examiner, options: ConnectOptions, name: str | None
    ) -> None:
        verdict = decided(examiner(self.SETTINGS), options)

        assert (verdict.user.name if isinstance(verdict, Accepted) else None) == name

    def test_info_does_not_ask_for_credentials(self, examiner: Examiner) -> None:
        authenticator = examiner(self.SETTINGS)

        assert authenticator.required
        assert not authenticator.announced

    def test_info_asks_for_them_if_no_user_was_given(self, examiner: Examiner) -> None:
        """Observed: auth_required is true though clients without credentials are let in."""
        user = User(user="s", password=Secret("t"))
        authenticator = examiner(Settings(accounts=(Account(name="$SYS", users=(user,)),)))

        assert authenticator.announced
        assert isinstance(authenticator.examine_silent(), Accepted)
        assert isinstance(authenticator.examine(connect()), Accepted)
        assert isinstance(authenticator.examine(connect("", "y")), Refused)
        assert isinstance(authenticator.examine(connect("x", "y")), Refused)

    def test_it_needs_no_password_also_when_it_has_a_hash(
        self, examiner: Examiner, hashed: str
    ) -> None:
        """nats-server compares the hash with itself there, and so refuses everyone."""
        users = (User(user="a", password=Secret(hashed)),)
        authenticator = examiner(
            Settings(authorization=Authorization(users=users), no_auth_user="a")
        )

        assert isinstance(authenticator.examine(connect()), Accepted)

    def test_it_must_be_allowed_to_connect_this_way(self, examiner: Examiner) -> None:
        users = (User(user="a", connection_types=frozenset({"WEBSOCKET"})),)
        authenticator = examiner(
            Settings(authorization=Authorization(users=users), no_auth_user="a")
        )

        assert isinstance(authenticator.examine_silent(), Refused)
        assert isinstance(authenticator.examine(connect()), Refused)


@pytest.mark.parametrize(
    ("authorization", "required"),
    [(Authorization(), False), (TOKEN, True), (SINGLE, True), (USERS, True)],
)
def test_info_says_whether_credentials_are_asked_for(
    examiner: Examiner, authorization: Authorization, *, required: bool
) -> None:
    authenticator = examiner(Settings(authorization=authorization))

    assert authenticator.required is required
    assert authenticator.announced is required
    assert isinstance(authenticator.examine_silent(), Refused if required else Accepted)


class TestKindsOfConnections:
    """``allowed_connection_types``, and a websocket listener with credentials of its own."""

    @pytest.mark.parametrize(
        ("kind", "user", "accepted"),
        [
            ("STANDARD", "t", True),
            ("STANDARD", "w", False),
            (WEBSOCKET, "w", True),
            (WEBSOCKET, "t", False),
            (IN_PROCESS, "t", False),
            (IN_PROCESS, "any", True),
        ],
    )
    def test_a_user_may_be_bound_to_kinds(self, kind: str, user: str, *, accepted: bool) -> None:
        users = (
            User(user="t", connection_types=frozenset({"STANDARD"})),
            User(user="w", connection_types=frozenset({"WEBSOCKET", "MQTT"})),
            User(user="any"),
        )
        directory = build_directory(Settings(authorization=Authorization(users=users)))
        verdict = Authenticator(directory, connection_type=kind).examine(connect(user))

        assert isinstance(verdict, Accepted) is accepted

    def test_a_websocket_may_ask_for_a_token_where_others_ask_for_nothing(self) -> None:
        own = Websocket(port=1, no_tls=True, authorization=TOKEN)
        directory = build_directory(Settings(websocket=own))
        websocket = Authenticator(directory, connection_type=WEBSOCKET)

        assert not Authenticator(directory).required
        assert websocket.required
        assert isinstance(websocket.examine(connect()), Refused)
        assert isinstance(websocket.examine(connect(token="s3")), Accepted)

    def test_a_websocket_may_have_a_no_auth_user_of_its_own(self) -> None:
        own = Websocket(port=1, no_tls=True, no_auth_user="b")
        directory = build_directory(Settings(websocket=own, authorization=USERS, no_auth_user="a"))
        silent = Authenticator(directory, connection_type=WEBSOCKET).examine_silent()

        assert isinstance(silent, Accepted)
        assert silent.user.name == "b"

    def test_a_websocket_without_credentials_of_its_own_asks_as_the_others_do(self) -> None:
        own = Websocket(port=1, no_tls=True)
        directory = build_directory(Settings(websocket=own, authorization=TOKEN))
        websocket = Authenticator(directory, connection_type=WEBSOCKET)

        assert isinstance(websocket.examine(connect(token="s3")), Accepted)
        assert isinstance(websocket.examine(connect(token="x")), Refused)
