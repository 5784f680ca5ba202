"""Who the leader of a replica is, and the settings of a replica from its arguments."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jetspark.server.config import ConfigProblem, ConfigRefused
from jetspark.server.config.jetspark import Remote
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
    return msgspec.structs.replace(settings, jetspark=ours, jetstream=streams_on)


def leader_remote(settings: Settings) -> Remote:
    """The leader as a remote."""
    replica = settings.jetspark.replica
    assert replica is not None
    name = replica.remote or LEADER_NAME
    return next(remote for remote in settings.jetspark.remotes if remote.name == name)


def refused(text: str) -> ConfigRefused:
    """A replica that cannot be, and why."""
    return ConfigRefused((ConfigProblem("", 0, text),))
