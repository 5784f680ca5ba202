"""The flags of ``jetspark serve``: nats-server's, with its spelling and its error texts.

Every flag accepts one or two dashes, and ``=`` or a blank before its value; a boolean flag has a
value only with ``=`` (decisions.md, Server). The first word that is not a flag ends them.
"""

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[\da-fA-F_]+)|0[bB](?P<binary>[01_]+)"
    r"|0[oO]?(?P<octal>[0-7_]+)|(?P<decimal>0|[1-9][\d_]*))",
    re.ASCII,
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_INT64: Final = 2**63
_SHOWN_MAX: Final = 100

SERVER: Final = "Server Options"
LOGGING: Final = "Logging Options"
JETSTREAM: Final = "JetStream Options"
REPLICA: Final = "Read Replica Options"
AUTHORIZATION: Final = "Authorization Options"
TLS: Final = "TLS Options"
OTHER: Final = "Common Options"
UNSUPPORTED_GROUP: Final = "Not supported"


class FlagKind(Enum):
    """The type of a flag's value."""

    SWITCH = auto()
    INTEGER = auto()
    TEXT = auto()


class Flag(NamedTuple):
    """A flag: all its names, its type, and one line of help.

    ``path`` is the setting it sets; empty if it sets none. ``value`` names the value in the help.
    """

    names: tuple[str, ...]
    kind: FlagKind
    path: str
    group: str
    help: str
    value: str = ""


class Given(NamedTuple):
    """A flag of a command line. ``name`` is as written, with its dashes."""

    flag: Flag
    name: str
    value: str | int | bool


class BadFlag(Exception):
    """An unreadable command line; the text is nats-server's."""


_SWITCH: Final = FlagKind.SWITCH
_INT: Final = FlagKind.INTEGER
_TEXT: Final = FlagKind.TEXT

FLAGS: Final = (
    Flag(("a", "addr", "net"), _TEXT, "host", SERVER, "Bind to host address", "<host>"),
    Flag(("p", "port"), _INT, "port", SERVER, "Use port for clients; -1: any free", "<port>"),
    Flag(("n", "name", "server_name"), _TEXT, "server_name", SERVER, "Server name", "<name>"),
    Flag(("P", "pid"), _TEXT, "pid_file", SERVER, "File to store the process id", "<file>"),
    Flag(("m", "http_port"), _INT, "http_port", SERVER, "Port for HTTP monitoring", "<port>"),
    Flag(("ms", "https_port"), _INT, "https_port", SERVER, "Port for HTTPS monitoring", "<port>"),
    Flag(("c", "config"), _TEXT, "", SERVER, "Configuration file", "<file>"),
    Flag(("t",), _SWITCH, "", SERVER, "Test the configuration and exit"),
    Flag(
        ("sl", "signal"), _TEXT, "", SERVER,
        "Signal a server: ldm, stop, quit, term, reopen, reload", "<signal>=<pid or pid file>",
    ),
    Flag(
        ("client_advertise",), _TEXT, "client_advertise", SERVER,
        "Address to announce to clients", "<host:port>",
    ),
    Flag(
        ("ports_file_dir",), _TEXT, "ports_file_dir", SERVER,
        "Folder for a file that lists the open ports", "<dir>",
    ),
    Flag(
        ("dashboard",), _SWITCH, "jetspark.dashboard", SERVER,
        "Serve the dashboard at /dashboard of the monitoring port (default: 127.0.0.1:8222)",
    ),
    Flag(
        ("dashboard-write",), _SWITCH, "jetspark.dashboard", SERVER,
        "The same, and allow changes; needs monitor_token in the jetspark block",
    ),
    Flag(
        ("jetspark",), _TEXT, "", SERVER,
        "A setting of the jetspark block; may be repeated", "<key>=<value>",
    ),
    Flag(("l", "log"), _TEXT, "logfile", LOGGING, "File for the log", "<file>"),
    Flag(("T", "logtime"), _SWITCH, "logtime", LOGGING, "Put the time before log lines (default)"),
    Flag(("logtime_utc",), _SWITCH, "logtime_utc", LOGGING, "Log times in UTC"),
    Flag(("D", "debug"), _SWITCH, "debug", LOGGING, "Log debugging output"),
    Flag(("V", "trace"), _SWITCH, "trace", LOGGING, "Log the protocol"),
    Flag(("VV",), _SWITCH, "trace_verbose", LOGGING, "Log the protocol, system account as well"),
    Flag(("DV",), _SWITCH, "trace", LOGGING, "Debug and trace"),
    Flag(("DVV",), _SWITCH, "trace_verbose", LOGGING, "Debug and verbose trace"),
    Flag(
        ("log_size_limit",), _INT, "logfile_size_limit", LOGGING,
        "Size at which a new log file is started", "<bytes>",
    ),
    Flag(
        ("max_traced_msg_len",), _INT, "max_traced_msg_len", LOGGING,
        "How much of a message is traced (default: all)", "<bytes>",
    ),
    Flag(("js", "jetstream"), _SWITCH, "jetstream", JETSTREAM, "Enable JetStream"),
    Flag(
        ("sd", "store_dir"), _TEXT, "jetstream.store_dir", JETSTREAM,
        "Folder for streams, with -js (default: ./jetspark-data)", "<dir>",
    ),
    Flag(
        ("replica-of",), _TEXT, "jetspark.replica", REPLICA,
        "Run as a read replica of this server, or of a remote in the file", "<url,...>",
    ),
    Flag(
        ("streams",), _TEXT, "jetspark.replica", REPLICA,
        "Streams to copy, such as 'KV_*' (default: all)", "<name,...>",
    ),
    Flag(
        ("no-reads",), _TEXT, "jetspark.replica", REPLICA,
        "Copied streams that are still read from the leader", "<name,...>",
    ),
    Flag(
        ("read-only",), _SWITCH, "jetspark.replica", REPLICA,
        "Refuse writes instead of forwarding them to the leader",
    ),
    Flag(("user",), _TEXT, "authorization", AUTHORIZATION, "User required", "<user>"),
    Flag(("pass",), _TEXT, "authorization", AUTHORIZATION, "Password required", "<password>"),
    Flag(("auth",), _TEXT, "authorization", AUTHORIZATION, "Token required", "<token>"),
    Flag(("tls",), _SWITCH, "tls", TLS, "Enable TLS, do not verify clients"),
    Flag(("tlscert",), _TEXT, "tls", TLS, "Server certificate file", "<file>"),
    Flag(("tlskey",), _TEXT, "tls", TLS, "Private key for the server certificate", "<file>"),
    Flag(("tlsverify",), _SWITCH, "tls", TLS, "Enable TLS, verify client certificates"),
    Flag(("tlscacert",), _TEXT, "tls", TLS, "CA of client certificates", "<file>"),
    Flag(("h", "help"), _SWITCH, "", OTHER, "Show this message"),
    Flag(("v", "version"), _SWITCH, "", OTHER, "Show the version"),
    Flag(("help_tls",), _SWITCH, "", OTHER, "Show help on TLS"),
    Flag(("routes",), _TEXT, "", UNSUPPORTED_GROUP, "Routes of a cluster", "<url,...>"),
    Flag(("cluster", "cluster_listen"), _TEXT, "", UNSUPPORTED_GROUP, "Cluster URL", "<url>"),
    Flag(("cluster_name",), _TEXT, "", UNSUPPORTED_GROUP, "Cluster name", "<name>"),
    Flag(("cluster_advertise",), _TEXT, "", UNSUPPORTED_GROUP, "Cluster URL to announce", "<url>"),
    Flag(("no_advertise",), _SWITCH, "", UNSUPPORTED_GROUP, "Do not announce a cluster"),
    Flag(("connect_retries",), _INT, "", UNSUPPORTED_GROUP, "Retries of routes", "<n>"),
    Flag(("profile",), _INT, "", UNSUPPORTED_GROUP, "Profiling port", "<port>"),
    Flag(("s", "syslog"), _SWITCH, "", UNSUPPORTED_GROUP, "Log to syslog"),
    Flag(("r", "remote_syslog"), _TEXT, "", UNSUPPORTED_GROUP, "Syslog server", "<url>"),
)  # fmt: skip
"""Every flag, in the order of the help."""

_BY_NAME: Final = {name: flag for flag in FLAGS for name in flag.names}


def parse_flags(arguments: Sequence[str]) -> tuple[list[Given], list[str]]:
    """Return the flags of a command line and the words after them. Raises `BadFlag`."""
    given: list[Given] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        argument = rest.pop(0)
        if argument == "--":
            break
        given.append(_given(argument, rest))
    return given, rest


def _given(argument: str, rest: list[str]) -> Given:
    dashed, equals, value = argument.partition("=")
    name = dashed[2:] if dashed.startswith("--") else dashed[1:]
    if not name or name.startswith("-"):
        raise BadFlag(f"bad flag syntax: {argument}")
    flag = _BY_NAME.get(name)
    if flag is None:
        raise BadFlag(f"flag provided but not defined: -{name}")
    if flag.kind is FlagKind.SWITCH:
        if equals and value not in _BOOLEANS:
            raise BadFlag(f'invalid boolean value "{value}" for -{name}: parse error')
        return Given(flag, dashed, _BOOLEANS[value] if equals else True)
    if not equals:
        if not rest:
            raise BadFlag(f"flag needs an argument: -{name}")
        value = rest.pop(0)
    if flag.kind is FlagKind.INTEGER:
        return Given(flag, dashed, _integer(name, value))
    return Given(flag, dashed, value)


def _integer(name: str, text: str) -> int:
    """Parse an integer as Go does: decimal, or with the prefixes 0x, 0o, 0b and 0."""
    found = _INTEGER.fullmatch(text) if not text.endswith("_") else None
    if found is None:
        raise BadFlag(f'invalid value "{text[:_SHOWN_MAX]}" for flag -{name}: parse error')
    digits, base = next((found[name], base) for name, base in _BASES.items() if found[name])
    digits = digits.replace("_", "").lstrip("0") or "0"
    # Python refuses to convert thousands of digits; 65 are beyond the range in any base.
    number = int(digits, base) if len(digits) < 65 else 2 * _INT64
    number = -number if found["sign"] == "-" else number
    if not -_INT64 <= number < _INT64:
        shown = text[:_SHOWN_MAX]
        raise BadFlag(f'invalid value "{shown}" for flag -{name}: value out of range')
    return number
