"""Users and accounts, built from the settings once at the start.

`build_directory` refuses contradictions, as nats-server does: a duplicate user, a token together
with users, a ``no_auth_user`` or a system account that does not exist. It also refuses what would
silently admit everyone or no one: a password without a user, a damaged bcrypt hash; and the kinds
of users that are not supported yet.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from jetspark.server.auth.passwords import hash_problem, need_bcrypt
from jetspark.server.auth.permissions import Permissions, Rules
from jetspark.server.config.blocks.accounts import GLOBAL_ACCOUNT, AccountJetStream, AccountLimits
from jetspark.server.config.blocks.permissions import Permissions as PermissionSettings
from jetspark.server.config.blocks.users import Authorization, is_bcrypt
from jetspark.server.config.blocks.users import User as UserSettings
from jetspark.server.config.grants import grant_problems
from jetspark.server.config.language.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import SYSTEM_ACCOUNT, Settings

NO_AUTH_USER_UNKNOWN: Final = (
    'no_auth_user: "{}" not present as user or nkey in authorization block or account '
    "configuration"
)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account: isolated subjects and streams. ``jetstream`` None: JetStream is disabled."""

    name: str
    users: tuple[str, ...] = ()
    jetstream: AccountJetStream | None = None
    limits: AccountLimits = AccountLimits()
    system: bool = False


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user.

    ``secret`` is a password or its bcrypt hash. ``rules`` None: everything is permitted;
    ``granted`` is their source. ``connection_types`` empty: all of them.
    """

    name: str
    account: Account
    secret: Secret = Secret()
    rules: Rules | None = None
    granted: PermissionSettings | None = None
    connection_types: frozenset[str] = frozenset()

    def permissions(self) -> Permissions | None:
        """Return the permissions for a new connection; None: everything is permitted."""
        return None if self.rules is None else Permissions(self.rules)

    def may_connect_by(self, connection_type: str) -> bool:
        """Return whether the user may use this kind of connection."""
        return not self.connection_types or connection_type in self.connection_types


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a listener besides the list of users: a token, or a single user.

    ``anonymous`` is the user of clients without credentials (``no_auth_user``). ``unnamed`` says
    that it was not configured: it is for the clients of a server whose only users are the
    system's.
    """

    token: Secret = Secret()
    single: User | None = None
    anonymous: User | None = None
    unnamed: bool = False

    @property
    def given(self) -> bool:
        """Whether credentials are required, or an anonymous user exists."""
        return bool(self.token) or self.single is not None or self.anonymous is not None


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """All users, by name. ``default_user`` is the user of clients if none authenticates.

    ``websocket`` are the credentials of the websocket listener if it has its own.
    """

    accounts: dict[str, Account]
    users: dict[str, User]
    default_user: User
    credentials: Credentials = Credentials()
    websocket: Credentials | None = None
    system_account: Account | None = None

    @property
    def required(self) -> bool:
        """Whether clients must authenticate."""
        return bool(self.users or self.credentials.given)

    def limits_of(self, account: str) -> AccountLimits:
        """Return the limits of an account; of one that a reload removed, none."""
        found = self.accounts.get(account)
        return found.limits if found is not None else AccountLimits()

    @property
    def plain_secrets(self) -> bool:
        """Whether a password is in plain text in the settings; nats-server warns of that."""
        single = self.credentials.single
        found = [*self.users.values(), *([single] if single is not None else [])]
        return any(not is_bcrypt(user.secret.value) for user in found)


def build_directory(settings: Settings) -> Directory:
    """Return the directory for ``settings``. Raises `ConfigRefused` with all problems.

    Raises `MissingExtra` if a password is a bcrypt hash and the package to check it is missing.
    """
    problems = [
        *_tls_problems(settings),
        *_credential_problems(settings),
        *_user_problems(settings),
        *_account_problems(settings),
        *grant_problems(settings),
    ]
    directory = None if problems else _directory(settings, problems)
    if directory is None or problems:
        raise ConfigRefused(tuple(ConfigProblem("", 0, problem) for problem in problems))
    return directory


def rules_of(permissions: PermissionSettings | None) -> Rules | None:
    """Return the rules of a ``permissions`` block; None if it permits everything.

    Raises ``ValueError`` for an entry that is not valid.
    """
    if permissions is None or permissions == PermissionSettings():
        return None
    publish, subscribe = permissions.publish, permissions.subscribe
    responses = permissions.allow_responses
    return Rules(
        None if publish.allow is None else _encoded(publish.allow),
        _encoded(publish.deny),
        None if subscribe.allow is None else _encoded(subscribe.allow),
        _encoded(subscribe.deny),
        responses is not None,
        responses.max_msgs if responses is not None else 0,
        responses.expires if responses is not None else 0,
    )


def _directory(settings: Settings, problems: list[str]) -> Directory:
    accounts = _accounts(settings)
    default_user = User(name="", account=accounts[GLOBAL_ACCOUNT])
    users: dict[str, User] = {}
    # Users with the same permissions share one set of rules, and its cache.
    shared: dict[PermissionSettings | None, Rules | None] = {}
    for account, given in _listed(settings):
        if given.permissions not in shared:
            try:
                shared[given.permissions] = rules_of(given.permissions)
            except ValueError as error:
                problems.append(f'user "{given.user}": {error}')
                continue
        users[given.user] = User(
            name=given.user,
            account=accounts[account],
            secret=given.password,
            rules=shared[given.permissions],
            granted=given.permissions,
            connection_types=given.connection_types,
        )
    credentials = _credentials(
        settings.authorization, default_user, users.get(settings.no_auth_user)
    )
    websocket = None
    if settings.websocket is not None:
        own = settings.websocket
        websocket = _credentials(own.authorization, default_user, users.get(own.no_auth_user))
    if _only_system_users(settings):
        credentials = msgspec.structs.replace(credentials, anonymous=default_user, unnamed=True)
    return Directory(
        accounts=accounts,
        users=users,
        default_user=default_user,
        credentials=credentials,
        websocket=websocket if websocket is not None and websocket.given else None,
        system_account=next((found for found in accounts.values() if found.system), None),
    )


def _accounts(settings: Settings) -> dict[str, Account]:
    accounts = {
        found.name: Account(
            name=found.name,
            users=tuple(user.user for user in found.users),
            jetstream=found.jetstream,
            limits=found.limits,
            system=found.name == settings.system_account,
        )
        for found in settings.accounts
    }
    others = [account for account in accounts.values() if not account.system]
    if settings.system_account not in accounts and not settings.no_system_account:
        accounts[settings.system_account] = Account(name=settings.system_account, system=True)
    # Once accounts are listed, JetStream is per account: nats-server gives the global one none.
    accounts[GLOBAL_ACCOUNT] = Account(
        name=GLOBAL_ACCOUNT,
        users=tuple(user.user for user in settings.authorization.users or ()),
        jetstream=None if others else AccountJetStream(),
    )
    return accounts


def _credentials(
    authorization: Authorization, default_user: User, anonymous: User | None
) -> Credentials:
    single = None
    if authorization.user:
        single = msgspec.structs.replace(
            default_user, name=authorization.user, secret=authorization.password
        )
    return Credentials(token=authorization.token, single=single, anonymous=anonymous)


def _only_system_users(settings: Settings) -> bool:
    """Return whether only the system account is configured.

    nats-server then admits clients without credentials to the global account, and still says in
    INFO that it requires them.
    """
    authorization = settings.authorization
    return (
        [account.name for account in settings.accounts] == [settings.system_account]
        and not settings.no_auth_user
        and not (authorization.user or authorization.token)
        and authorization.users is None
    )


def _listed(settings: Settings) -> Iterator[tuple[str, UserSettings]]:
    for user in settings.authorization.users or ():
        yield GLOBAL_ACCOUNT, user
    for account in settings.accounts:
        for user in account.users:
            yield account.name, user


def _tls_problems(settings: Settings) -> Iterator[str]:
    websocket = settings.websocket.tls if settings.websocket is not None else None
    for name, tls in (("tls", settings.tls), ("websocket tls", websocket)):
        if tls is not None and tls.verify_and_map:
            yield (
                f"'verify_and_map' in {name} is not supported by jetspark yet: certificates are "
                "verified with 'verify', and users show a password"
            )


def _credential_problems(settings: Settings) -> Iterator[str]:
    for given in _authorizations(settings):
        if given.password and not given.user:
            # nats-server never checks it, so the server would be open.
            yield "a password without a user: add 'user', or make it a 'token'"
        if given.user and given.token:
            yield "Cannot have a user/pass and token"
        for what, secret in (("token", given.token), (f'user "{given.user}"', given.password)):
            yield from _secret_problems(what, secret)


def _authorizations(settings: Settings) -> Iterator[Authorization]:
    yield settings.authorization
    if settings.websocket is not None:
        yield settings.websocket.authorization


def _user_problems(settings: Settings) -> Iterator[str]:
    seen: set[str] = set()
    for _, user in _listed(settings):
        if user.nkey:
            yield (
                f'nkey "{user.nkey}": users with an nkey are not supported by jetspark yet; give '
                "the user a name and a bcrypt password"
            )
        elif not user.user:
            yield "User entry requires a user"
        elif user.user in seen:
            yield f'Duplicate user "{user.user}" detected'
        seen.add(user.name)
        yield from _secret_problems(f'user "{user.name}"', user.password)
    has_list = bool(seen) or settings.authorization.users is not None
    if has_list and settings.authorization.user:
        yield "Can not have a single user/pass and a users array"
    if has_list and settings.authorization.token:
        yield "Can not have a token and a users array"
    names = [settings.no_auth_user]
    if settings.websocket is not None:
        own = settings.websocket
        names.append(own.no_auth_user)
        if seen and (own.authorization.user or own.authorization.token):
            yield "websocket authentication not compatible with presence of users/nkeys"
    for name in names:
        if name and name not in seen:
            yield NO_AUTH_USER_UNKNOWN.format(name)


def _secret_problems(what: str, secret: Secret) -> Iterator[str]:
    if not is_bcrypt(secret.value):
        return
    problem = hash_problem(secret.value)
    if problem is not None:
        yield f"{what}: {problem}"
    need_bcrypt()


def _account_problems(settings: Settings) -> Iterator[str]:
    names = [account.name for account in settings.accounts]
    for name in sorted(name for name, count in Counter(names).items() if count > 1):
        yield f"Duplicate Account Entry: {name}"
    if GLOBAL_ACCOUNT in names:
        yield f'"{GLOBAL_ACCOUNT}" is a Reserved Account'
    system = settings.system_account
    if system not in {SYSTEM_ACCOUNT, *names}:
        yield f'error resolving system account "{system}": it is not among the accounts'
    for account in settings.accounts:
        if account.name == system and account.jetstream is not None:
            yield "Not allowed to enable JetStream on the system account"


def _encoded(subjects: tuple[str, ...]) -> list[bytes]:
    return [subject.encode() for subject in subjects]
