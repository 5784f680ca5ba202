"""Prepares a reload in a thread: with thousands of accounts it takes a second of CPU."""

import msgspec

from jetspark.server.arguments import users_by_name
from jetspark.server.auth.authenticator import Authenticator
from jetspark.server.auth.users import Directory, build_directory
from jetspark.server.config.language.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.packages import check_packages
from jetspark.server.config.reload import Change, plan_reload
from jetspark.server.config.settings import Settings
from jetspark.server.net.tls import TlsRuntime, tls_runtime


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """New settings that a running server can apply.

    ``unchanged`` are the names of users that are the same before and after; the empty name stands
    for clients without one.
    """

    settings: Settings
    changes: tuple[Change, ...]
    directory: Directory
    authenticator: Authenticator
    tls: TlsRuntime | None
    unchanged: frozenset[str]


def prepare(before: Settings, settings: Settings) -> Prepared:
    """Compare and check new settings. Raises `ConfigRefused` if they cannot be applied."""
    plan = plan_reload(before, settings)
    if plan.refusals:
        raise ConfigRefused(
            tuple(ConfigProblem("", 0, f"{r.name}: {r.reason}") for r in plan.refusals)
        )
    check_packages(settings)
    directory = build_directory(settings)
    old, new = users_by_name(before), users_by_name(settings)
    return Prepared(
        settings=settings,
        changes=plan.changes,
        directory=directory,
        authenticator=Authenticator(directory),
        tls=tls_runtime(settings.tls) if settings.tls else None,
        unchanged=frozenset(name for name in old.keys() | new if old.get(name) == new.get(name)),
    )
