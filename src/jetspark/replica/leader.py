"""Who the leader of a replica is, and the settings of a replica from its arguments."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jetspark.server.auth.users import build_directory
from jetspark.server.config.jetspark import Remote
from jetspark.server.config.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.replica import LEADER_NAME, Replica
from jetspark.server.config.settings import Settings


def with_replica(
    settings: Settings,
    *,
    of: tuple[str, ...],
    streams: Sequence[str] | None,
    no_reads: Sequence[str] | None,
    read_only: bool | None,
) -> Settings:
    """The settings of a replica: its arguments over its configuration; raises ConfigRefused.

    A leader given by URL becomes a remote, which is what its streams are copied from.
    """
    replica = settings.jetspark.replica
    given: dict[str, Any] = {
        name: tuple(value) for name, value in (("streams", streams), ("no_reads", no_reads))
        if value is not None
    }  # fmt: skip
    if read_only is not None:
        given["read_only"] = read_only
    if of:
        given["of"] = of
    if replica is None and not of:
        raise refused("whose replica? give the leader's URL, like nats://leader:4222")
    replica = Replica(**given) if replica is None else msgspec.structs.replace(replica, **given)
    remotes = settings.jetspark.remotes
    if not replica.remote:
        leader = Remote(name=LEADER_NAME, url=replica.of)
        remotes = (*(other for other in remotes if other.name != LEADER_NAME), leader)
    elif replica.remote not in {remote.name for remote in remotes}:
        known = ", ".join(sorted(remote.name for remote in remotes)) or "none"
        raise refused(
            f"replica of '{replica.remote}': there is no such remote (known: {known}); give a URL "
            "like nats://leader:4222 or add it to jetspark.remotes"
        )
    ours = msgspec.structs.replace(settings.jetspark, replica=replica, remotes=remotes)
    streams_on = msgspec.structs.replace(settings.jetstream, enabled=True)
    made = msgspec.structs.replace(settings, jetspark=ours, jetstream=streams_on)
    _check_exposure(made)
    return made


def _check_exposure(settings: Settings) -> None:
    """Refuse to lend the rights of the leader's user to everybody who can connect."""
    leader = leader_remote(settings)
    if not _shows_credentials(leader):
        return
    directory = build_directory(settings)
    if directory.required and not directory.credentials.unnamed:
        return
    listening = [(settings.host, settings.tls is not None and settings.tls.verify)]
    if settings.websocket is not None:
        tls = settings.websocket.tls
        listening.append((settings.websocket.host, tls is not None and tls.verify))
    for host, asks in listening:
        if not _is_loopback(host) and not (asks and not settings.allow_non_tls):
            raise refused(
                f"this replica shows the leader credentials (remote '{leader.name}') and asks its "
                f"own clients for none, so everybody who reaches {host} would have the rights of "
                "the leader's user: add an 'authorization' or 'accounts' block with users, or "
                "listen on 127.0.0.1"
            )


def _shows_credentials(remote: Remote) -> bool:
    """Say whether the remote knows who we are."""
    if remote.user or remote.token or remote.nkey or remote.credentials:
        return True
    if remote.tls is not None and remote.tls.pairs():
        return True
    return any(urlsplit(url).username or urlsplit(url).password for url in remote.url)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def leader_remote(settings: Settings) -> Remote:
    """The leader as a remote."""
    replica = settings.jetspark.replica
    assert replica is not None
    name = replica.remote or LEADER_NAME
    return next(remote for remote in settings.jetspark.remotes if remote.name == name)


def refused(text: str) -> ConfigRefused:
    """A replica that cannot be, and why."""
    return ConfigRefused((ConfigProblem("", 0, text),))
