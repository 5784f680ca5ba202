"""`server list`, `ping`, `info`."""

from collections.abc import Mapping
from typing import Any, Final

import click

from jetspark.cli.exit_codes import FAILED
from jetspark.cli.output import Column, Output
from jetspark.cli.quantities import show_duration, show_limit, show_seconds
from jetspark.cli.refusals import not_found
from jetspark.cli.server.querying import Answer, ask_servers
from jetspark.units import format_bytes

_NUMBERS: Final = {
    "conns": "connections",
    "subs": "subscriptions",
    "routes": "routes",
    "gws": "remotes",
    "mem": "mem",
    "cpu": "cpu",
    "slow": "slow_consumers",
}


def list_servers(
    output: Output, *, expect: int, sort: str, reverse: bool, monitor: str, **given: Any
) -> None:
    """List servers with their load."""
    found = ask_servers(given, monitor, "varz")

    def order(answer: Answer) -> Any:
        data = answer.data
        if sort == "rtt":
            return answer.rtt
        if sort == "uptime":
            return str(data.get("start", ""))
        if sort in _NUMBERS:
            return -(data.get(_NUMBERS[sort]) or 0)
        return _cluster(data) if sort == "cluster" else answer.server

    found.sort(key=order, reverse=reverse)
    if output.json:
        output.values({"server": one.server, "rtt": _ns(one.rtt), **one.data} for one in found)
    else:
        # Narrow terminals leave out what is long.
        columns: tuple[Column | str, ...] = (
            "Name", "Cluster", Column("Host", long=True), Column("Version", long=True), "JS",
            *(Column(name, number=True) for name in (
                "Conns", "Subs", "Routes", "GWs", "Mem", "CPU %",
            )),
            Column("Cores", long=True), Column("Slow", number=True), "Uptime",
            Column("RTT", number=True),
        )  # fmt: skip
        output.table("Server Overview", columns, [_row(output, one) for one in found])
    _missing(output, len(found), expect)


def _cluster(data: Mapping[str, Any]) -> str:
    return str((data.get("cluster") or {}).get("name") or "")


def _ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


def _row(output: Output, one: Answer) -> tuple[str, ...]:
    data = one.data

    def count(name: str) -> str:
        """A number that is rarely more than 0: on a terminal, its column appears then."""
        value = data.get(name) or 0
        return f"{value:,}" if value or not output.is_terminal else ""

    return (
        one.server,
        _cluster(data),
        str(data.get("host", "")),
        str(data.get("version", "")),
        "yes" if (data.get("jetstream") or {}).get("config") else "no",
        f"{data.get('connections') or 0:,}",
        f"{data.get('subscriptions') or 0:,}",
        count("routes"),
        count("remotes"),
        format_bytes(data.get("mem") or 0),
        f"{data.get('cpu') or 0:.0f}",
        str(data.get("cores", "")),
        count("slow_consumers"),
        str(data.get("uptime", "")),
        show_duration(_ns(one.rtt)),
    )


def _missing(output: Output, found: int, expect: int) -> None:
    if found < expect:
        output.say(f"{expect - found} of {expect} servers did not answer")
        raise click.exceptions.Exit(FAILED)


def ping_servers(output: Output, *, expect: int, monitor: str, **given: Any) -> None:
    """Show which servers answer."""
    found = ask_servers(given, monitor, "varz")
    found.sort(key=lambda answer: answer.rtt)
    if output.json:
        output.values(
            {"server": one.server, "id": one.data.get("server_id"), "rtt": _ns(one.rtt)}
            for one in found
        )
    for one in () if output.json else found:
        output.line(f"{one.server:<60} rtt={show_duration(_ns(one.rtt))}")
    _missing(output, len(found), expect)


def server_info(output: Output, *, name: str, monitor: str, **given: Any) -> None:
    """Show one server."""
    found = ask_servers(given, monitor, "varz")
    wanted = [one for one in found if name in {"", one.server, one.data.get("server_id")}]
    if not wanted:
        known = [one.server for one in found]
        raise not_found("server", name, known, "jetspark server list")
    one = wanted[0]
    if output.json:
        output.value(one.data)
        return
    data = one.data
    received, sent = (format_bytes(data.get(name) or 0) for name in ("in_bytes", "out_bytes"))
    sections: list[Any] = [
        (
            "Process Details",
            [
                ("Version", data.get("version")),
                ("Git Commit", data.get("git_commit")),
                ("Start Time", data.get("start")),
                ("Configuration Load Time", data.get("config_load_time")),
                ("Configuration Digest", data.get("config_digest")),
                ("Uptime", data.get("uptime")),
            ],
        ),
        (
            "Connection Details",
            [
                ("Auth Required", _word(data.get("auth_required"))),
                ("TLS Required", _word(data.get("tls_required"))),
                ("Host", f"{data.get('host')}:{data.get('port')}"),
                ("Client URLs", data.get("connect_urls")),
                ("WebSocket URLs", data.get("ws_connect_urls")),
            ],
        ),
        ("JetStream", _jetstream(data.get("jetstream") or {})),
        (
            "Limits",
            [
                ("Maximum Connections", show_limit(data.get("max_connections") or 0)),
                ("Maximum Subscriptions", show_limit(data.get("max_subscriptions") or 0)),
                ("Maximum Payload", format_bytes(data.get("max_payload") or 0)),
                ("TLS Timeout", show_seconds(data.get("tls_timeout") or 0)),
                ("Write Deadline", show_duration(data.get("write_deadline") or 0)),
            ],
        ),
        (
            "Statistics",
            [
                ("CPU Cores", f"{data.get('cores')} {data.get('cpu') or 0:.2f}%"),
                ("Memory", format_bytes(data.get("mem") or 0)),
                ("Connections", f"{data.get('connections') or 0:,}"),
                ("Subscriptions", f"{data.get('subscriptions') or 0:,}"),
                (
                    "Messages",
                    f"{data.get('in_msgs') or 0:,} in {data.get('out_msgs') or 0:,} out",
                ),
                ("Bytes", f"{received} in {sent} out"),
                ("Slow Consumers", f"{data.get('slow_consumers') or 0:,}"),
            ],
        ),
    ]
    if cluster := _cluster(data):
        urls = (data.get("cluster") or {}).get("urls")
        tags = ", ".join(data.get("tags") or ())
        sections.append(("Cluster", [("Name", cluster), ("Tags", tags), ("URLs", urls)]))
    output.fields(f"Server information for {one.server} ({data.get('server_id')})", sections)


def _word(value: object) -> str:
    return "true" if value else "false"


def _jetstream(data: Mapping[str, Any]) -> list[tuple[str, object]]:
    config, stats = data.get("config") or {}, data.get("stats") or {}
    if not config:
        return [("Enabled", "false")]
    api = stats.get("api") or {}
    return [
        ("Domain", config.get("domain")),
        ("API Support Level", api.get("level")),
        ("Storage Directory", config.get("store_dir")),
        ("Active Accounts", stats.get("accounts")),
        ("Memory In Use", format_bytes(stats.get("memory") or 0)),
        ("File In Use", format_bytes(stats.get("storage") or 0)),
        ("API Requests", f"{api.get('total') or 0:,}"),
        ("API Errors", f"{api.get('errors') or 0:,}"),
        ("Maximum Memory Storage", format_bytes(config.get("max_memory") or 0)),
        ("Maximum File Storage", format_bytes(config.get("max_storage") or 0)),
    ]
