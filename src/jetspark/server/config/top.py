"""The top level of a configuration: its settings, and their spellings."""

import re
from typing import Any, Final

import msgspec

from jetspark.server.config.blocks.accounts import NO_LIMIT, read_accounts
from jetspark.server.config.blocks.block import Field, Report, Setting, read_block
from jetspark.server.config.blocks.jetspark import read_jetspark
from jetspark.server.config.blocks.jetstream import JetStream, read_jetstream
from jetspark.server.config.blocks.mappings import read_mappings
from jetspark.server.config.blocks.tls import read_tls
from jetspark.server.config.blocks.users import read_authorization
from jetspark.server.config.blocks.websocket import read_websocket
from jetspark.server.config.language.problem import NOWHERE
from jetspark.server.config.language.tree import Node
from jetspark.server.config.settings import WriteTimeout
from jetspark.server.config.values import (
    INT32_MAX,
    INT64_MAX,
    Address,
    boolean,
    duration,
    duration_text,
    integer,
    integer_in,
    limit,
    listen,
    one_of,
    or_default,
    parse_address,
    port,
    size,
    string,
    strings,
    texts,
)
from jetspark.units import Nanoseconds, format_duration, seconds

SERVER_NAME_BLANKS: Final = re.compile(r"\s")
LAME_DUCK_MIN: Final = seconds(30)
SUBSCRIPTION_TOKENS_MAX: Final = 255

Values = dict[str, Any]
"""Settings by the names of `Settings`, before they are checked against each other."""


def read_top(tree: dict[str, Node], report: Report) -> Values:
    """Read the settings of a file. Problems go to the report."""
    values = read_block(Setting("", "", Node(tree, NOWHERE), report), FIELDS)
    _join_listen(values, report)
    _join_monitor(values, report)
    _join_store_dir(values, report)
    if values.get("trace_verbose") or values.get("trace_headers"):
        values["trace"] = True
    return values


def server_name(setting: Setting) -> str:
    """Read the name of the server."""
    name = string(setting)
    if SERVER_NAME_BLANKS.search(name):
        raise setting.refused("server name cannot contain spaces")
    return name


def _join_listen(values: Values, report: Report) -> None:
    """Split ``listen`` into host and port. nats-server picks one at random if both are given."""
    address: Address | None = values.pop("listen", None)
    if address is None:
        return
    host, number = values.get("host"), values.get("port")
    if (host and address.host and host != address.host) or (number and number != address.port):
        report.problem(report.place("listen"), "'listen' contradicts 'host' or 'port'; keep one")
    if address.host:
        values["host"] = address.host
    if address.port:
        values["port"] = address.port


def _join_monitor(values: Values, report: Report) -> None:
    """Split ``http`` and ``https`` into host and ports."""
    for name in ("http", "https"):
        address: Address | None = values.pop(name, None)
        if address is None:
            continue
        if values.get(f"{name}_port", address.port) != address.port:
            report.problem(report.place(name), f"'{name}' contradicts '{name}_port'; keep one")
        values[f"{name}_port"] = address.port
        if address.host:
            values["http_host"] = address.host


def _join_store_dir(values: Values, report: Report) -> None:
    """Move the ``store_dir`` of the top level into ``jetstream``."""
    folder: str | None = values.pop("store_dir", None)
    if folder is None:
        return
    jetstream: JetStream = values.get("jetstream", JetStream())
    if jetstream.store_dir:
        report.problem(report.place("store_dir"), "Duplicate 'store_dir' configuration; keep one")
    values["jetstream"] = msgspec.structs.replace(jetstream, store_dir=folder)


def _lame_duck_duration(setting: Setting) -> Nanoseconds:
    value = duration_text(setting)
    if value < LAME_DUCK_MIN:
        raise setting.refused(
            f"invalid lame_duck_duration of {format_duration(value)}, minimum is 30 seconds"
        )
    return value


def _advertised(setting: Setting) -> str:
    """Read ``host`` or ``host:port``; without a port, or with 0 or -1, it is the server's own."""
    text = string(setting)
    if not text:
        return ""
    address = parse_address(setting, text if ":" in text else f"{text}:0")
    if not address.host:
        raise setting.refused(f'"{text}" has no host; expected host or host:port')
    return f"{address.host}:{address.port if address.port > 0 else ''}"


def _connections(setting: Setting) -> int:
    """Read a number of connections; 0 and less mean no limit."""
    number = integer(setting)
    return number if number > 0 else NO_LIMIT


_COUNT: Final = integer_in(0, INT64_MAX)
_PAYLOAD: Final = integer_in(NO_LIMIT, INT32_MAX, "-1: no limit")
FIELDS: Final[dict[str, Field]] = {
    "listen": Field(listen),
    "host": Field(string, ("net",)),
    "port": Field(or_default(port)),
    "server_name": Field(server_name),
    "client_advertise": Field(_advertised),
    "no_header_support": Field(boolean),
    "max_payload": Field(or_default(_PAYLOAD)),
    "max_control_line": Field(or_default(integer_in(0, INT32_MAX))),
    "max_pending": Field(or_default(size)),
    "max_connections": Field(_connections, ("max_conn",)),
    "max_subscriptions": Field(limit, ("max_subs",)),
    "max_subscription_tokens": Field(integer_in(1, SUBSCRIPTION_TOKENS_MAX), ("max_sub_tokens",)),
    "max_closed_clients": Field(or_default(_COUNT)),
    "ping_interval": Field(or_default(duration)),
    "ping_max": Field(or_default(_COUNT)),
    "write_deadline": Field(or_default(duration)),
    "write_timeout": Field(one_of({policy.value: policy for policy in WriteTimeout})),
    "lame_duck_duration": Field(_lame_duck_duration),
    "lame_duck_grace_period": Field(or_default(duration_text)),
    "http": Field(listen),
    "https": Field(listen),
    "http_port": Field(port, ("monitor_port",)),
    "https_port": Field(port),
    "http_base_path": Field(string),
    "tls": Field(read_tls),
    "allow_non_tls": Field(boolean),
    "authorization": Field(read_authorization),
    "accounts": Field(read_accounts),
    "no_auth_user": Field(string),
    "system_account": Field(or_default(string), ("system",)),
    "no_system_account": Field(boolean, ("no_system", "no_sys_acc")),
    "websocket": Field(read_websocket, ("ws",)),
    "mappings": Field(read_mappings, ("maps",)),
    "store_dir": Field(string, ("storedir",)),
    "jetstream": Field(read_jetstream),
    "default_js_domain": Field(texts),
    "jetspark": Field(read_jetspark),
    "debug": Field(boolean),
    "trace": Field(boolean),
    "trace_verbose": Field(boolean),
    "trace_headers": Field(boolean),
    "logtime": Field(boolean),
    "logtime_utc": Field(boolean),
    "logfile": Field(string, ("log_file",)),
    "logfile_size_limit": Field(limit, ("log_size_limit",)),
    "logfile_max_num": Field(integer, ("log_max_num",)),
    "max_traced_msg_len": Field(limit),
    "pid_file": Field(string, ("pidfile",)),
    "ports_file_dir": Field(string),
    "server_tags": Field(strings),
    "server_metadata": Field(texts),
}
"""Every setting of the top level, by its name in `Settings` or its path."""
