"""Settings become users and accounts; contradictions are refused as nats-server 2.15.1 does."""

from __future__ import annotations

import pytest

from jetspark.server.auth.users import Account, build_directory, rules_of
from jetspark.server.config.blocks.accounts import Account as AccountSettings
from jetspark.server.config.blocks.accounts import AccountJetStream
from jetspark.server.config.blocks.permissions import Permissions, Responses, SubjectPermission
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import Authorization, User
from jetspark.server.config.blocks.websocket import Websocket
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings
from jetspark.units import Nanoseconds

ANN = User(user="ann", password=Secret("a"))
BOB = User(user="bob", password=Secret("b"))
NKEY = "U" + "A" * 55


def listed(*users: User) -> Authorization:
    return Authorization(users=users)


def account(name: str, *users: User, jetstream: AccountJetStream | None = None) -> AccountSettings:
    return AccountSettings(name=name, users=users, jetstream=jetstream)


def test_without_settings_all_clients_are_in_the_global_account() -> None:
    directory = build_directory(Settings())

    assert not directory.required
    assert directory.default_user.account.name == "$G"
    assert directory.default_user.permissions() is None
    assert directory.default_user.account.jetstream == AccountJetStream()
    assert directory.system_account == Account(name="$SYS", system=True)


def test_users_stand_in_their_accounts() -> None:
    directory = build_directory(
        Settings(authorization=listed(ANN), accounts=(account("A", BOB), account("B")))
    )

    assert directory.required
    assert directory.users["ann"].account.name == "$G"
    assert directory.users["bob"].account.name == "A"
    assert directory.accounts["A"].users == ("bob",)
    assert set(directory.accounts) == {"$G", "$SYS", "A", "B"}


def test_listed_accounts_have_the_jetstream_they_are_given() -> None:
    share = AccountJetStream(max_streams=3)
    directory = build_directory(
        Settings(accounts=(account("A", ANN, jetstream=share), account("B", BOB)))
    )

    assert directory.accounts["A"].jetstream == share
    assert directory.accounts["B"].jetstream is None
    assert directory.accounts["$G"].jetstream is None


def test_the_system_account_may_be_named_or_left_out() -> None:
    named = build_directory(Settings(accounts=(account("S", ANN),), system_account="S"))
    none = build_directory(Settings(no_system_account=True))

    assert named.system_account is not None
    assert named.system_account.name == "S"
    assert none.system_account is None


def test_users_of_the_system_alone_leave_the_server_open_to_the_others() -> None:
    """nats-server makes up a user of the global account then, and still announces auth."""
    directory = build_directory(Settings(accounts=(account("$SYS", ANN),)))

    assert directory.required
    assert directory.credentials.anonymous == directory.default_user
    assert directory.credentials.unnamed


@pytest.mark.parametrize(
    "settings",
    [
        Settings(accounts=(account("$SYS", ANN),), authorization=listed(BOB)),
        Settings(accounts=(account("$SYS", ANN), account("A"))),
        Settings(accounts=(account("A", ANN),), no_system_account=True),
        Settings(accounts=(account("$SYS", ANN),), no_auth_user="ann"),
    ],
    ids=["with users", "with another account", "without a system account", "with a no_auth_user"],
)
def test_otherwise_there_is_no_unnamed_user(settings: Settings) -> None:
    assert not build_directory(settings).credentials.unnamed


def test_users_with_the_same_permissions_share_rules_and_others_do_not() -> None:
    permissions = Permissions(publish=SubjectPermission(allow=("a",)))
    twin = Permissions(publish=SubjectPermission(allow=("a",)))
    other = Permissions(publish=SubjectPermission(allow=("b",)))
    users = build_directory(
        Settings(
            authorization=listed(
                User(user="one", permissions=permissions),
                User(user="two", permissions=twin),
                User(user="three", permissions=other),
                User(user="four"),
            )
        )
    ).users

    assert users["one"].rules is users["two"].rules
    assert users["one"].rules is not users["three"].rules
    assert users["four"].rules is None
    assert users["one"].permissions() is not users["one"].permissions()


def test_permissions_without_a_limit_cost_nothing() -> None:
    assert rules_of(None) is None
    assert rules_of(Permissions()) is None


def test_permissions_become_rules() -> None:
    rules = rules_of(
        Permissions(
            publish=SubjectPermission(allow=("a.>",), deny=("a.b",)),
            subscribe=SubjectPermission(allow=("s q",), deny=("t",)),
            allow_responses=Responses(max_msgs=7, expires=Nanoseconds(9)),
        )
    )

    assert rules is not None
    assert rules.publishes(b"a.c")
    assert not rules.publishes(b"a.b")
    assert rules.subscribes(b"s", b"q")
    assert not rules.subscribes(b"s", b"")
    assert (rules.responses, rules.responses_max, rules.responses_expire_ns) == (True, 7, 9)


def test_leave_to_answer_alone_allows_to_publish_nothing_else() -> None:
    rules = rules_of(Permissions(allow_responses=Responses()))

    assert rules is not None
    assert not rules.publishes(b"a")


def test_plain_passwords_are_known_for_a_warning(hashed: str) -> None:
    plain = Settings(authorization=listed(ANN))
    bcrypted = Settings(authorization=listed(User(user="ann", password=Secret(hashed))))
    single = Settings(authorization=Authorization(user="ann", password=Secret("a")))

    assert build_directory(plain).plain_secrets
    assert not build_directory(bcrypted).plain_secrets
    assert build_directory(single).plain_secrets
    assert not build_directory(Settings()).plain_secrets


def test_a_websocket_listener_may_have_credentials_of_its_own() -> None:
    own = Websocket(port=-1, no_tls=True, authorization=Authorization(token=Secret("t")))
    named = Websocket(port=-1, no_tls=True, no_auth_user="ann")
    plain = Websocket(port=-1, no_tls=True)

    assert build_directory(Settings(websocket=plain)).websocket is None
    found = build_directory(Settings(websocket=own)).websocket
    assert found is not None
    assert found.token == Secret("t")
    found = build_directory(Settings(websocket=named, authorization=listed(ANN))).websocket
    assert found is not None
    assert found.anonymous is not None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (Settings(authorization=listed(ANN, ANN)), 'Duplicate user "ann" detected'),
        (
            Settings(authorization=listed(ANN), accounts=(account("A", ANN),)),
            'Duplicate user "ann" detected',
        ),
        (
            Settings(accounts=(account("A", ANN), account("B", ANN))),
            'Duplicate user "ann" detected',
        ),
        (Settings(authorization=listed(User(password=Secret("x")))), "requires a user"),
        (
            Settings(authorization=Authorization(user="a", token=Secret("t"))),
            "Cannot have a user/pass and token",
        ),
        (
            Settings(authorization=Authorization(user="a", users=(BOB,))),
            "Can not have a single user/pass and a users array",
        ),
        (
            Settings(
                authorization=Authorization(token=Secret("t")), accounts=(account("A", BOB),)
            ),
            "Can not have a token and a users array",
        ),
        (Settings(authorization=Authorization(password=Secret("x"))), "without a user"),
        (Settings(accounts=(account("A"), account("A"))), "Duplicate Account Entry: A"),
        (Settings(accounts=(account("$G", ANN),)), '"$G" is a Reserved Account'),
        (Settings(system_account="S"), "error resolving system account"),
        (
            Settings(accounts=(account("$SYS", ANN, jetstream=AccountJetStream()),)),
            "Not allowed to enable JetStream on the system account",
        ),
        (Settings(no_auth_user="ann"), 'no_auth_user: "ann" not present'),
        (Settings(authorization=listed(BOB), no_auth_user="ann"), 'no_auth_user: "ann"'),
        (
            Settings(websocket=Websocket(port=1, no_tls=True, no_auth_user="ann")),
            'no_auth_user: "ann"',
        ),
        (
            Settings(
                authorization=listed(ANN),
                websocket=Websocket(
                    port=1, no_tls=True, authorization=Authorization(token=Secret("t"))
                ),
            ),
            "websocket authentication not compatible",
        ),
        (
            Settings(authorization=listed(User(user="a", password=Secret("$2a$04$short")))),
            'user "a": expected the 60 characters',
        ),
        (
            Settings(authorization=Authorization(token=Secret("$2a$04$short"))),
            "token: expected the 60 characters",
        ),
        (
            Settings(
                authorization=listed(
                    User(
                        user="a",
                        permissions=Permissions(publish=SubjectPermission(allow=("a b",))),
                    )
                )
            ),
            "user \"a\": permission b'a b': the subject is not valid",
        ),
        (
            Settings(authorization=listed(User(nkey=NKEY))),
            "nkey are not supported by jetspark yet",
        ),
        (
            Settings(tls=Tls(cert_file="c", key_file="k", verify=True, verify_and_map=True)),
            "'verify_and_map' in tls is not supported by jetspark yet",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(settings: Settings, problem: str) -> None:
    with pytest.raises(ConfigRefused) as caught:
        build_directory(settings)

    assert problem in str(caught.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigRefused) as caught:
        build_directory(Settings(authorization=listed(ANN, ANN), system_account="S"))

    assert len(caught.value.problems) == 2


def test_no_text_of_a_user_shows_the_password() -> None:
    directory = build_directory(
        Settings(authorization=listed(User(user="ann", password=Secret("hunter2"))))
    )

    assert "hunter2" not in repr(directory)
