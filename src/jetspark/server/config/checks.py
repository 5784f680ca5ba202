"""Checks of settings against each other.

nats-server finds most of this only at the start, not with ``-t``; a file that the test accepts and
the start refuses is a trap, so here both refuse it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from jetspark.protocol.limits import PAYLOAD_MAX
from jetspark.server.config.blocks.accounts import GLOBAL_ACCOUNT, Account
from jetspark.server.config.blocks.block import Report
from jetspark.server.config.blocks.jetstream import Durability
from jetspark.server.config.blocks.sharing import Export, Import
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import User, is_bcrypt
from jetspark.server.config.grants import grant_problems
from jetspark.server.config.settings import SYSTEM_ACCOUNT, Settings
from jetspark.subjects.match import is_subset
from jetspark.units import format_duration

PAYLOAD_HIGH: Final = 8 * PAYLOAD_MAX  # nats-server warns above

CheckTls = Callable[[Tls], str | None]
"""Returns what is wrong with the files of a ``tls`` block, or None."""


def check(settings: Settings, report: Report, check_tls: CheckTls) -> None:
    """Report all contradictions."""
    _check_numbers(settings, report)
    _check_monitor(settings, report)
    for wrong in dashboard_problems(settings):
        report.problem(report.place("jetspark.dashboard", "jetspark"), wrong)
    _check_users(settings, report)
    _check_accounts(settings, report)
    _check_shares(settings, report)
    _check_websocket(settings, report)
    for wrong in grant_problems(settings):
        report.problem(report.place("jetspark.remotes"), wrong)
    for path, tls in _tls_blocks(settings):
        problem = check_tls(tls)
        if problem:
            report.problem(report.place(path), problem)


def remarks(settings: Settings) -> Iterator[str]:
    """Yield warnings about settings that are allowed but dangerous."""
    jetstream = settings.jetstream
    if jetstream.enabled and jetstream.durability is Durability.INTERVAL:
        yield (
            "acknowledgements no longer mean on disk: the store is synced every "
            f"{format_duration(jetstream.sync_interval)}, a power failure loses the rest"
        )
    if jetstream.enabled and jetstream.durability is Durability.ASYNC:
        yield "acknowledgements no longer mean on disk: a power failure loses the last ones"
    if settings.max_payload > PAYLOAD_HIGH:
        yield f"max_payload is {settings.max_payload}; values over {PAYLOAD_HIGH} are not advised"
    if any(account.name == SYSTEM_ACCOUNT and account.users for account in settings.accounts):
        yield (
            f"the account {SYSTEM_ACCOUNT} has users, and no $SYS requests are served yet; use "
            "the monitoring port (http_port)"
        )
    if any(password and not is_bcrypt(password) for password in _passwords(settings)):
        yield "plaintext passwords detected, use nkeys or bcrypt"


def all_users(settings: Settings) -> Iterator[User]:
    """Yield the users of the server and of every account."""
    yield from settings.authorization.users or ()
    for account in settings.accounts:
        yield from account.users


def _passwords(settings: Settings) -> Iterator[str]:
    yield settings.authorization.password.value
    for user in all_users(settings):
        yield user.password.value


def _check_numbers(settings: Settings, report: Report) -> None:
    if settings.lame_duck_grace_period >= settings.lame_duck_duration:
        report.problem(
            report.place("lame_duck_grace_period", "lame_duck_duration"),
            f"lame duck grace period ({format_duration(settings.lame_duck_grace_period)}) should "
            "be strictly lower than lame duck duration "
            f"({format_duration(settings.lame_duck_duration)})",
        )
    if settings.max_payload > settings.max_pending:
        report.problem(
            report.place("max_payload", "max_pending"),
            f"max_payload ({settings.max_payload}) cannot be higher than max_pending "
            f"({settings.max_pending})",
        )


def _check_monitor(settings: Settings, report: Report) -> None:
    place = report.place("https", "https_port")
    if settings.http_port and settings.https_port:
        report.problem(
            place,
            f"can't specify both HTTP ({settings.http_port}) and HTTPs ({settings.https_port}) "
            "ports",
        )
    elif settings.https_port and settings.tls is None:
        report.problem(place, "TLS cert and key required for HTTPS: expected a 'tls' block")


def dashboard_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the dashboard: who could read or change messages through it."""
    dashboard = settings.jetspark.dashboard
    if not dashboard.enabled:
        return
    user = dashboard.user
    known = {each.user: each for each in all_users(settings) if each.user}
    single = settings.authorization.user
    password = known[user].password if user in known else settings.authorization.password
    # Without a token browsers need the credentials of the dashboard's user.
    has_password = bool(
        settings.jetspark.monitor_token
        or ((user or single) and (dashboard.password or password))
        or settings.authorization.token
    )
    if dashboard.writable and not has_password:
        yield "a dashboard that may write needs 'jetspark.monitor_token', its password"
    if not has_password and not is_loopback(settings.http_host):
        yield (
            f"the dashboard would show messages to every machine that reaches "
            f"{settings.http_host}: set 'jetspark.monitor_token', or listen for monitoring on "
            "127.0.0.1 (http: 127.0.0.1:8222)"
        )
    if user and user != single and user not in known:
        yield f"dashboard.user '{user}' is not one of the users"
    needs_user = bool(known) and not settings.no_auth_user
    if not user and needs_user:
        yield (
            "the server has users: name the one that the dashboard connects as, with "
            "'jetspark { dashboard { user: NAME } }'"
        )
    if (user or single) and is_bcrypt(password.value) and not dashboard.password:
        yield (
            f"the password of '{user or single}' is a hash: give it as "
            "'jetspark { dashboard { password } }'"
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _check_users(settings: Settings, report: Report) -> None:
    authorization = settings.authorization
    seen: set[str] = set()
    for user in all_users(settings):
        if user.name in seen:
            kind = "nkey" if user.nkey else "user"
            report.problem(
                report.place("authorization.users", "accounts.*.users"),
                f'Duplicate {kind} "{user.name}" detected',
            )
        seen.add(user.name)
    place = report.place("authorization")
    if seen and authorization.user:
        report.problem(place, "Can not have a single user/pass and a list of users or accounts")
    if seen and authorization.token:
        report.problem(place, "Can not have a token and a list of users or accounts")
    if settings.no_auth_user and settings.no_auth_user not in seen:
        report.problem(
            report.place("no_auth_user"),
            f'no_auth_user: "{settings.no_auth_user}" not present as user or nkey in '
            "authorization block or account configuration",
        )


def _check_accounts(settings: Settings, report: Report) -> None:
    accounts = {account.name: account for account in settings.accounts}
    system = settings.system_account
    if system != SYSTEM_ACCOUNT and system not in accounts:
        report.problem(
            report.place("system_account"), f'the system account "{system}" is not in accounts'
        )
    shares = system in accounts and accounts[system].jetstream is not None
    if shares and settings.jetstream.enabled:
        report.problem(
            report.place("accounts.*.jetstream"),
            f'jetstream can not be enabled on the system account "{system}"',
        )
    for account in settings.accounts:
        for problem in _import_problems(account, accounts):
            report.problem(report.place("accounts.*.imports"), problem)
        for export in account.exports:
            for name in export.accounts:
                if name not in accounts:
                    report.problem(
                        report.place("accounts.*.exports"),
                        f'"{name}" account not defined for {export.kind} export',
                    )
    for name, domain in settings.default_js_domain.items():
        _check_default_domain(settings, report, name, domain)


def _check_default_domain(settings: Settings, report: Report, name: str, domain: str) -> None:
    place = report.place("default_js_domain")
    account = next((found for found in settings.accounts if found.name == name), None)
    if name == settings.system_account:
        report.problem(place, f'system account "{name}" can not be in default_js_domain')
    elif account is None and name != GLOBAL_ACCOUNT:
        report.problem(place, f'`default_js_domain` references non existing account "{name}"')
    elif account is not None and account.jetstream is not None and domain:
        report.problem(
            place, f'default_js_domain contains account name "{name}" with enabled JetStream'
        )


def _import_problems(account: Account, accounts: dict[str, Account]) -> Iterator[str]:
    for found in account.imports:
        exporter = accounts.get(found.account)
        if exporter is None:
            yield f'"{found.account}" account not defined for {found.kind} import'
        elif not any(_offers(export, found, account.name) for export in exporter.exports):
            yield (
                f'account "{found.account}" does not export the {found.kind} "{found.subject}" '
                f'to "{account.name}"'
            )


def _offers(export: Export, wanted: Import, account: str) -> bool:
    return (
        export.kind is wanted.kind
        and (not export.accounts or account in export.accounts)
        and is_subset(wanted.subject.encode(), export.subject.encode())
    )


def _check_shares(settings: Settings, report: Report) -> None:
    """Check that the limits of all accounts together fit the server's limit, if it has one."""
    jetstream = settings.jetstream
    granted = [each.jetstream for each in settings.accounts if each.jetstream is not None]
    for name, most, promised in (
        ("max_mem", jetstream.max_mem, [each.max_memory for each in granted]),
        ("max_file", jetstream.max_file, [each.max_store for each in granted]),
    ):
        total = sum(size for size in promised if size > 0)
        if jetstream.enabled and 0 <= most < total:
            report.problem(
                report.place(f"jetstream.{name}"),
                f"jetstream.{name} is {most}, the accounts' limits add up to {total}; raise "
                "it or lower their limits",
            )


def _check_websocket(settings: Settings, report: Report) -> None:
    websocket = settings.websocket
    if websocket is None:
        return
    names = {user.name for user in all_users(settings)}
    place = report.place("websocket")
    if names and (websocket.authorization.user or websocket.authorization.token):
        report.problem(
            place, "websocket authentication not compatible with presence of users/nkeys"
        )
    if websocket.no_auth_user and websocket.no_auth_user not in names:
        report.problem(
            place,
            f'no_auth_user: "{websocket.no_auth_user}" not present as user or nkey in '
            "authorization block or account configuration",
        )


def _tls_blocks(settings: Settings) -> Iterator[tuple[str, Tls]]:
    if settings.tls is not None:
        yield "tls", settings.tls
    if settings.websocket is not None and settings.websocket.tls is not None:
        yield "websocket.tls", settings.websocket.tls
    for remote in settings.jetspark.remotes:
        if remote.tls is not None:
            yield "jetspark.remotes.*.tls", remote.tls
