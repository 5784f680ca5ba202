"""The ``jetspark.replica`` block: this server is a read replica of another (docs/replicas.md)."""

from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.values import boolean, shown_url, split_url, strings

SCHEMES: Final = ("nats", "tls", "ws", "wss")
LEADER_NAME: Final = "replica_of"
"""The name of the leader among the remotes if it is given by URL."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """What is copied, and from where.

    ``of`` are URLs of one leader (or of the servers of one cluster), or the name of a remote.
    ``streams`` are names with ``*`` and ``?``. The streams of ``no_reads`` are copied but not
    used for reads. ``read_only`` refuses writes.
    """

    of: tuple[str, ...]
    streams: tuple[str, ...] = ("*",)
    no_reads: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def remote(self) -> str:
        """The name of a remote, if the leader is one."""
        return self.of[0] if "://" not in self.of[0] else ""

    @property
    def shown(self) -> str:
        """The leader for logs: without credentials."""
        return ", ".join(map(shown_url, self.of))

    def __repr__(self) -> str:
        return f"Replica(of={self.shown!r}, streams={self.streams!r})"


def read_replica(setting: Setting) -> Replica:
    """Read the block."""
    values = read_whole_block(setting, _FIELDS)
    if not values.get("of"):
        raise setting.refused(
            "expected 'of' with the leader's URL, like nats://leader:4222, or the name of one "
            "of 'jetspark.remotes'"
        )
    return Replica(**values)


def _leader(setting: Setting) -> tuple[str, ...]:
    leaders = strings(setting)
    for leader in leaders:
        if "://" not in leader and len(leaders) == 1 and leader.replace("_", "").isalnum():
            continue  # the name of a remote
        parts = split_url(leader)
        if parts is None or parts.scheme not in SCHEMES or not parts.hostname:
            raise setting.refused(
                f"'{shown_url(leader)}' is not the URL of a leader: expected one like "
                f"nats://leader:4222 (known schemes are {', '.join(SCHEMES)}), or the name of a "
                "remote"
            )
    return leaders


def _patterns(setting: Setting) -> tuple[str, ...]:
    patterns = strings(setting)
    if not patterns or not all(patterns):
        raise setting.refused("expected names of streams, such as KV_* or ORDERS")
    for pattern in patterns:
        if any(char in pattern for char in ".>/\\ \t"):
            raise setting.refused(
                f"'{pattern}' matches no stream: names have no dots, blanks or slashes; * matches "
                "any characters and ? one, as in KV_*"
            )
    return patterns


_FIELDS: Final = {
    "of": Field(_leader),
    "streams": Field(_patterns),
    "no_reads": Field(_patterns),
    "read_only": Field(boolean),
}
