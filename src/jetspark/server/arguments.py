"""The arguments of an embedded server, and how they combine with its configuration."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from jetspark.server.config.blocks.jetspark import Jetspark, Remote, commit_delay_problem
from jetspark.server.config.blocks.jetstream import Durability
from jetspark.server.config.checks import dashboard_problems
from jetspark.server.config.settings import Settings
from jetspark.server.jetstream.remotes import UpstreamFactory, remotes_of
from jetspark.units import parse_duration

if TYPE_CHECKING:
    from starlette.types import ASGIApp


# The settings of the ``jetspark`` block that can be arguments.
_OURS: Final = ("durability", "commit_delay", "min_last_seq_wait", "held_reads_max", "remotes")


class ServerArguments(TypedDict, total=False):
    """The arguments of `jetspark.Server` and its blocking twin; all are optional.

    The server listens on ``host`` (without a configuration: 127.0.0.1) and ``port`` (-1, the
    default: any free one). ``store_dir`` None uses a private folder that is removed when the
    server closes; ``jetstream`` False disables JetStream. ``http_port`` opens the monitoring port
    (-1: any free one), which also serves ``mounts``, ASGI applications by path. ``config`` is a
    configuration file in nats-server's language, or `Settings`; arguments override it.
    ``dashboard`` True serves the dashboard at ``/dashboard/`` of the monitoring port.
    ``durability``, ``commit_delay``, ``min_last_seq_wait``, ``held_reads_max`` and ``remotes`` are
    the settings of the ``jetspark`` block, such as ``commit_delay="2ms"`` or ``remotes={"hub":
    {"url": "nats://hub:4222"}}``; ``upstreams`` replaces `jetspark.replica.connect_remote` for
    connections to remotes.
    """

    host: str | None
    port: int | None
    store_dir: str | Path | None
    jetstream: bool | None
    server_name: str | None
    http_port: int | None
    config: str | Path | Settings | None
    mounts: "Mapping[str, ASGIApp] | None"
    dashboard: bool
    durability: str
    commit_delay: str
    min_last_seq_wait: str
    held_reads_max: int
    remotes: Mapping[str, Remote | Mapping[str, object]]
    upstreams: UpstreamFactory | None


def combined(arguments: ServerArguments) -> Settings:
    """Return the settings of an embedded server: its configuration overridden by its arguments.

    Without a configuration it listens on a free loopback port and has JetStream (decisions.md).
    """
    unknown = arguments.keys() - ServerArguments.__annotations__.keys()
    if unknown:
        raise TypeError(f"Server() got an unexpected keyword argument {min(unknown)!r}")
    config = arguments.get("config")
    host, port = arguments.get("host"), arguments.get("port")
    http_port, name = arguments.get("http_port"), arguments.get("server_name")
    store_dir, jetstream = arguments.get("store_dir"), arguments.get("jetstream")
    ours: dict[str, Any] = {key: value for key, value in arguments.items() if key in _OURS}
    if config is None:
        settings = Settings(host="127.0.0.1", port=-1)
        stream = msgspec.structs.replace(settings.jetstream, enabled=True, store_dir="")
        settings = msgspec.structs.replace(settings, jetstream=stream)
    elif isinstance(config, Settings):
        settings = config
    else:
        from jetspark.server.config.loader import load_file

        settings = load_file(str(config), os.environ)
    changes: dict[str, object] = {}
    if host is not None:
        changes["host"] = host
    if port is not None:
        changes["port"] = port
    if http_port is not None:
        changes |= {"http_port": http_port, "http_host": changes.get("host", settings.host)}
    if name is not None:
        changes["server_name"] = name
    streams: dict[str, object] = {}
    if store_dir is not None:
        streams |= {"store_dir": str(Path(store_dir).absolute()), "enabled": True}
    if jetstream is not None:
        streams["enabled"] = jetstream
    if "dashboard" in arguments:
        shown = msgspec.structs.replace(
            settings.jetspark.dashboard, enabled=arguments["dashboard"]
        )
        settings = msgspec.structs.replace(
            settings, jetspark=msgspec.structs.replace(settings.jetspark, dashboard=shown)
        )
    if ours:
        changes["jetspark"] = _with_ours(settings.jetspark, ours)
        if "durability" in ours:
            streams["durability"] = Durability(ours["durability"])
    changes["jetstream"] = msgspec.structs.replace(settings.jetstream, **streams)
    return _with_dashboard(msgspec.structs.replace(settings, **changes))


def _with_dashboard(settings: Settings) -> Settings:
    """Open a port for the dashboard if it has none; raises ValueError if it must not be served."""
    if not settings.jetspark.dashboard.enabled:
        return settings
    if not settings.http_port and not settings.https_port:
        # Any free one, as for clients.
        settings = msgspec.structs.replace(settings, http_host="127.0.0.1", http_port=-1)
    problem = next(dashboard_problems(settings), "")
    if problem:
        raise ValueError(f"dashboard: {problem}")
    return settings


def _with_ours(block: Jetspark, ours: Mapping[str, Any]) -> Jetspark:
    """Return the block with the arguments applied; raises ValueError as a file would."""
    values: dict[str, object] = dict(ours)
    for name in ("commit_delay", "min_last_seq_wait"):
        if name in values:
            values[name] = duration = parse_duration(str(values[name]))
            problem = commit_delay_problem(duration) if name == "commit_delay" else ""
            if problem:
                raise ValueError(f"{name}: {problem}")
    if "remotes" in ours:
        values["remotes"] = remotes_of(ours["remotes"])
    if "durability" in ours:
        values["durability"] = Durability(ours["durability"])
    return msgspec.structs.replace(block, **values)


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files: ten thousand connections need as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def users_by_name(settings: Settings) -> dict[str, object]:
    """Return the settings of each user, to find at a reload who has changed.

    The empty name is for clients without one: they change when the authorization as a whole does.
    """
    authorization = settings.authorization
    single = (authorization.user, authorization.password, authorization.token)
    found: dict[str, object] = {"": (single, authorization.users is None)}
    if authorization.user:
        found[authorization.user] = single
    for user in authorization.users or ():
        found[user.user] = ("", user)
    for account in settings.accounts:
        for user in account.users:
            found[user.user] = (account.name, user)
    return found
