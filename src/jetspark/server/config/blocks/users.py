"""The ``authorization`` block and lists of users."""

import re
from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.blocks.permissions import Permissions, read_permissions
from jetspark.server.config.nkey import USER, public_key_problem
from jetspark.server.config.secret import Secret
from jetspark.server.config.values import (
    duration_or_seconds,
    each,
    or_default,
    secret,
    string,
    strings,
)
from jetspark.units import Nanoseconds, format_duration, minutes

CONNECTION_TYPES: Final = (
    "STANDARD",
    "WEBSOCKET",
    "LEAFNODE",
    "LEAFNODE_WS",
    "MQTT",
    "MQTT_WS",
    "IN_PROCESS",
)
TIMEOUT_HIGH: Final = minutes(1)  # nats-server warns above

_BCRYPT: Final = re.compile(r"\$2[abxy]\$\d{2}\$.*", re.ASCII)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user: by name and password, or by nkey.

    ``connection_types`` empty means all.
    """

    user: str = ""
    password: Secret = Secret()
    nkey: str = ""
    permissions: Permissions | None = None
    connection_types: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name or nkey: unique in a configuration."""
        return self.nkey or self.user


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """An ``authorization`` block. ``users`` None: no list was given.

    ``timeout`` 0: 2 s, or the TLS timeout and a second more.
    """

    user: str = ""
    password: Secret = Secret()
    token: Secret = Secret()
    timeout: Nanoseconds = Nanoseconds(0)
    users: tuple[User, ...] | None = None


def is_bcrypt(password: str) -> bool:
    """Return whether a password is a bcrypt hash."""
    return _BCRYPT.fullmatch(password) is not None


def with_default(users: tuple[User, ...], permissions: Permissions | None) -> tuple[User, ...]:
    """Give ``permissions`` to every user without its own."""
    return tuple(
        msgspec.structs.replace(user, permissions=permissions) if not user.permissions else user
        for user in users
    )


def read_authorization(setting: Setting) -> Authorization:
    """Read the ``authorization`` block of the server."""
    values = read_whole_block(setting, _AUTHORIZATION)
    permissions = values.pop("default_permissions", None)
    if permissions is not None and "users" in values:
        values["users"] = with_default(values["users"], permissions)
    authorization = Authorization(**values)
    _check(setting, authorization)
    if permissions is not None and authorization.users is None:
        # nats-server ignores them: a single user may then do everything.
        raise setting.refused("'permissions' need a list of 'users'; a single user has none")
    return authorization


def read_simple_authorization(setting: Setting) -> Authorization:
    """Read the ``authorization`` block of a websocket listener."""
    names = ("user", "password", "token", "timeout")
    authorization = Authorization(
        **read_whole_block(setting, {name: _AUTHORIZATION[name] for name in names})
    )
    _check(setting, authorization)
    return authorization


def read_users(setting: Setting) -> tuple[User, ...]:
    """Read a list of users."""
    return each(setting, _user)


def _check(setting: Setting, authorization: Authorization) -> None:
    if authorization.password and not authorization.user:
        raise setting.refused("'password' needs a 'user'; alone it would have no effect")
    if authorization.user and authorization.token:
        raise setting.refused("Cannot have a user/pass and token")
    if authorization.users is None:
        return
    if authorization.user:
        raise setting.refused("Can not have a single user/pass and a users array")
    if authorization.token:
        raise setting.refused("Can not have a token and a users array")


def _user(setting: Setting) -> User:
    if not isinstance(setting.node.value, dict):
        raise setting.wrong("each user to be a block { user, password, ... }")
    user = User(**read_whole_block(setting, _USER))
    place = next(iter(setting.node.value.values()), setting.node)
    inner = setting.element(place)
    if not user.name:
        raise inner.refused("User entry requires a user: a 'user' or an 'nkey'")
    if user.nkey and (user.user or user.password):
        raise inner.refused("Nkey users do not take usernames or passwords")
    return user


def _timeout(setting: Setting) -> Nanoseconds:
    timeout = duration_or_seconds(setting)
    if timeout > TIMEOUT_HIGH:
        setting.report.warn(
            setting.node.place,
            f"'{setting.name}' of {format_duration(timeout)} is high: keep it under 60 seconds. "
            'A duration without quotes may be the reason: write "1m", not 1m',
        )
    return timeout


def _nkey(setting: Setting) -> str:
    key = string(setting)
    problem = public_key_problem(key, USER)
    if problem:
        raise setting.refused(f"Not a valid public nkey for a user: {problem}")
    return key


def _connection_types(setting: Setting) -> frozenset[str]:
    types = frozenset(word.upper() for word in strings(setting))
    unknown = sorted(types.difference(CONNECTION_TYPES))
    if unknown:
        raise setting.refused(
            f"invalid connection types {', '.join(unknown)}; "
            f"expected some of {', '.join(CONNECTION_TYPES)}"
        )
    return types


_USER: Final = {
    "user": Field(string, ("username",)),
    "password": Field(secret, ("pass",)),
    "nkey": Field(_nkey),
    "permissions": Field(read_permissions, ("permission", "authorization")),
    "connection_types": Field(_connection_types, ("allowed_connection_types", "clients")),
}
_AUTHORIZATION: Final = {
    "user": Field(string, ("username",)),
    "password": Field(secret, ("pass",)),
    "token": Field(secret),
    "timeout": Field(or_default(_timeout)),
    "users": Field(read_users),
    "default_permissions": Field(read_permissions, ("default_permission", "permissions")),
}
