"""Options of ``/metrics``: a server with very many streams can be scraped in parts."""

from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from jetspark.server.monitor.arguments import Arguments, BadArgument


class Level(IntEnum):
    """The level of detail of JetStream metrics; each includes those before it."""

    SERVER = 0
    ACCOUNTS = 1
    STREAMS = 2
    CONSUMERS = 3


_LEVELS: Final = {
    "": Level.CONSUMERS,
    "all": Level.CONSUMERS,
    "consumers": Level.CONSUMERS,
    "streams": Level.STREAMS,
    "accounts": Level.ACCOUNTS,
    "server": Level.SERVER,
}


class MetricsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request.

    ``account`` and ``stream`` omit the series of all others (``stream`` may contain ``*`` and
    ``?``); sums are always over everything.
    """

    level: Level = Level.CONSUMERS
    account: str = ""
    stream: str = ""
    connections: bool = False

    def wants_account(self, name: str) -> bool:
        """Return whether series of this account are requested."""
        return self.account in {"", name}

    def wants_stream(self, name: str) -> bool:
        """Return whether series of this stream are requested."""
        return not self.stream or fnmatchcase(name, self.stream)


def read_options(arguments: Arguments) -> MetricsOptions:
    """Read the arguments: ``jsz``, ``acc``, ``stream``, ``connz``. Raises BadArgument."""
    level = _LEVELS.get(arguments.text("jsz"))
    if level is None:
        raise BadArgument(
            f"jsz={arguments.text('jsz')} is unknown: "
            "expected server, accounts, streams, consumers or all"
        )
    connections = arguments.text("connz")
    if connections not in {"", "detailed"}:
        raise BadArgument(f"connz={connections} is unknown: expected detailed or nothing")
    return MetricsOptions(
        level=level,
        account=arguments.text("acc"),
        stream=arguments.text("stream"),
        connections=connections == "detailed",
    )
