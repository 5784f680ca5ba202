"""``authorization``, users and what they may do."""

from typing import Final

import pytest

from jetspark.server.config.blocks.permissions import Permissions, Responses, SubjectPermission
from jetspark.server.config.blocks.users import User
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_text
from jetspark.units import minutes, parse_duration, seconds

NKEY: Final = "UAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB63NN"


def users(text: str) -> tuple[User, ...]:
    settings = load_text(f"authorization {{ {text} }}", {}, name="a.conf", not_yet={})
    assert settings.authorization.users is not None
    return settings.authorization.users


def permissions(text: str) -> Permissions:
    found = users(f"users: [ {{ user: a, permissions: {{ {text} }} }} ]")[0].permissions
    assert found is not None
    return found


def problem(text: str) -> str:
    with pytest.raises(ConfigRefused) as refused:
        load_text(f"authorization {{\n{text}\n}}", {}, name="a.conf", not_yet={})
    (found,) = refused.value.problems
    return str(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("publish: a", Permissions(publish=SubjectPermission(allow=("a",)))),
        ("pub: [a, 'b.>']", Permissions(publish=SubjectPermission(allow=("a", "b.>")))),
        ("sub: 'a q'", Permissions(subscribe=SubjectPermission(allow=("a q",)))),
        ("pub: { deny: a }", Permissions(publish=SubjectPermission(deny=("a",)))),
        ("pub: { deny: [] }", Permissions()),
        ("sub: { allow: [a], deny: [b, c] }",
         Permissions(subscribe=SubjectPermission(allow=("a",), deny=("b", "c")))),
        ("allow_responses: false", Permissions()),
        ("allow_responses: true",
         Permissions(publish=SubjectPermission(allow=()), allow_responses=Responses())),
        ("allow_responses: { max: 5, ttl: '1m' }, pub: a",
         Permissions(publish=SubjectPermission(allow=("a",)),
                     allow_responses=Responses(max_msgs=5, expires=minutes(1)))),
        ("allow_responses: { max: -1, expires: '-1s' }, pub { deny: a }",
         Permissions(publish=SubjectPermission(allow=(), deny=("a",)),
                     allow_responses=Responses(max_msgs=-1, expires=parse_duration("-1s")))),
        ("allow_responses: { max: 0, expires: '0s' }",
         Permissions(publish=SubjectPermission(allow=()), allow_responses=Responses())),
    ],
    ids=range(11),
)  # fmt: skip
def test_permissions_are_read_in_every_form(text: str, expected: Permissions) -> None:
    assert permissions(text) == expected


def test_default_permissions_are_for_users_without_their_own() -> None:
    found = users("permissions { pub: x }, users: [ {user: a}, {user: b, permissions {sub: y}} ]")

    assert [user.permissions for user in found] == [
        Permissions(publish=SubjectPermission(allow=("x",))),
        Permissions(subscribe=SubjectPermission(allow=("y",))),
    ]


def test_a_user_may_be_an_nkey() -> None:
    (user,) = users(f"users: [ {{ nkey: {NKEY}, connection_types: [standard] }} ]")

    assert user == User(nkey=NKEY, connection_types=frozenset({"STANDARD"}))


def test_an_empty_list_of_users_is_not_no_list() -> None:
    """nats-server asks everyone for a user then, and there is none."""
    assert users("users: []") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user: a, password: b, token: c", "Cannot have a user/pass and token"),
        ("user: a, users: []", "a single user/pass and a users array"),
        ("token: a, users: []", "a token and a users array"),
        ("password: a", "'password' needs a 'user'"),
        ("user: a, permissions { pub: x }", "need a list of 'users'"),
        ("users: a", "expected a list"),
        ("users: [a]", "expected each user to be a block"),
        ("users: [{password: a}]", "User entry requires a user"),
        ("users: [{}]", "User entry requires a user"),
        ("users: [{user: 1}]", "expected a string (put it in quotes), got the integer 1"),
        (f"users: [{{nkey: {NKEY}, password: a}}]", "do not take usernames or passwords"),
        (f"users: [{{nkey: {NKEY[:-1]}A}}]", "its checksum is wrong"),
        (f"users: [{{nkey: {NKEY[:-1]}1}}]", "letters A to Z and the digits 2 to 7"),
        ("users: [{nkey: UABC}]", "56 characters that start with U"),
        ("users: [{nkey: SUABC}]", "never put a seed into a configuration"),
        ("users: [{user: a, clients: [pigeon]}]", "invalid connection types PIGEON"),
        ("users: [{user: a, permissions: x}]", "expected a block"),
        ("users: [{user: a, permissions {pub: 1}}]", "a subject or a list of subjects"),
        ("users: [{user: a, permissions {pub: [1 ,2]}}]", "expected a string"),
        ("users: [{user: a, permissions {pub: 'a..b'}}]", 'subject "a..b" is not a valid'),
        ("users: [{user: a, permissions {pub: 'a q'}}]", 'subject "a q" is not a valid'),
        ("users: [{user: a, permissions {sub: 'a..b q'}}]", 'subject "a..b" is not a valid'),
        ("users: [{user: a, permissions {sub: 'a q..r'}}]", 'queue "q..r" is not a valid'),
        ("users: [{user: a, permissions {sub: 'a b c'}}]", 'subject "a b c" is not a valid'),
        ("users: [{user: a, permissions {pub: []}}]", "an empty list allows everything"),
        ("users: [{user: a, permissions {pub: {allow: []}}}]", "an empty list allows everything"),
        ("users: [{user: a, permissions {pub: {alow: x}}}]", "did you mean 'allow'?"),
        ("users: [{user: a, permissions {allow_responses: maybe}}]", "true, false or a block"),
        ("users: [{user: a, permissions {allow_responses: {ttl: 60}}}]", "a duration with a unit"),
        ("users: [{user: a, permissions {allow_responses: {ttl: x}}}]", "bad duration"),
        ("timeout: true", "a number of seconds or a duration"),
        ("timeout: -1", "not negative"),
        ("timeout: '1x'", "bad duration"),
    ],
)
def test_a_mistake_about_users_is_refused(text: str, words: str) -> None:
    assert words in problem(text)


def test_a_long_timeout_is_warned_of() -> None:
    settings = load_text("authorization { token: a, timeout: 1m }", {}, not_yet={})

    assert settings.authorization.timeout == seconds(1_000_000)
    assert "is high" in settings.warnings[0].message
