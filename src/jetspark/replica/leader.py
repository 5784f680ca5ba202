"""The leader of a replica, and the settings of a replica from its arguments."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jetspark.server.auth.users import build_directory
from jetspark.server.config.blocks.jetspark import Remote
from jetspark.server.config.blocks.replica import LEADER_NAME, Replica
from jetspark.server.config.language.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.settings import Settings


def with_replica(
    settings: Settings,
    *,
    of: tuple[str, ...],
    streams: Sequence[str] | None,
    no_reads: Sequence[str] | None,
    read_only: bool | None,
) -> Settings:
    """Return the settings of a replica: its configuration overridden by its arguments.

    A leader given by URL becomes a remote, from which its streams are copied. Raises
    ConfigRefused.
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
        raise refused("the leader is missing: give its URL, like nats://leader:4222")
    replica = Replica(**given) if replica is None else msgspec.structs.replace(replica, **given)
    remotes = settings.jetspark.remotes
    if not replica.remote:
        leader = Remote(name=LEADER_NAME, url=replica.of)
        remotes = (*(other for other in remotes if other.name != LEADER_NAME), leader)
    elif replica.remote not in {remote.name for remote in remotes}:
        known = ", ".join(sorted(remote.name for remote in remotes)) or "none"
        raise refused(
            f"replica of '{replica.remote}': unknown remote (known: {known}); give a URL "
            "like nats://leader:4222 or add it to jetspark.remotes"
        )
    ours = msgspec.structs.replace(settings.jetspark, replica=replica, remotes=remotes)
    streams_on = msgspec.structs.replace(settings.jetstream, enabled=True)
    made = msgspec.structs.replace(settings, jetspark=ours, jetstream=streams_on)
    _check_exposure(made)
    return made


def _check_exposure(settings: Settings) -> None:
    """Refuse to give the permissions of the leader's user to anyone who can connect."""
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
                f"this replica has credentials for the leader (remote '{leader.name}') and "
                f"requires none from its own clients, so anyone who can reach {host} would have "
                "the permissions of the leader's user: add an 'authorization' or 'accounts' "
                "block with users, or listen on 127.0.0.1"
            )


def _shows_credentials(remote: Remote) -> bool:
    """Return whether we authenticate at the remote."""
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
    """Return the leader as a remote."""
    replica = settings.jetspark.replica
    assert replica is not None
    name = replica.remote or LEADER_NAME
    return next(remote for remote in settings.jetspark.remotes if remote.name == name)


def refused(text: str) -> ConfigRefused:
    """Return the error for an invalid replica."""
    return ConfigRefused((ConfigProblem("", 0, text),))
