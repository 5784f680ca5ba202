"""The screen of `top`: rates from two answers of a server."""

import io
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from jetspark.cli.output import Column, Output
from jetspark.cli.refusals import not_found
from jetspark.cli.server.querying import ask_servers
from jetspark.units import format_bytes

_RATES: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
_KEYS: Final = {
    "cid": "cid", "subs": "subscriptions", "pending": "pending_bytes", "msgs_to": "out_msgs",
    "msgs_from": "in_msgs", "bytes_to": "out_bytes", "bytes_from": "in_bytes",
}  # fmt: skip


class Sample(NamedTuple):
    """What a server said at one time."""

    server: str
    at: float
    varz: dict[str, Any]
    connections: list[dict[str, Any]]

    def rates(self, before: "Sample | None") -> dict[str, float]:
        """Messages and bytes per second since the sample before."""
        if before is None or self.varz.get("server_id") != before.varz.get("server_id"):
            return dict.fromkeys(_RATES, 0.0)
        passed = max(self.at - before.at, 1e-9)
        return {
            name: max((self.varz.get(name) or 0) - (before.varz.get(name) or 0), 0) / passed
            for name in _RATES
        }


def show_top(
    output: Output, *, name: str, conns: int, interval: float, sort: str, max_refresh: int,
    raw: bool, target: Path | None, monitor: str, **given: Any,
) -> None:  # fmt: skip
    """Show the load of a server, refreshed."""
    once = target is not None or not (output.is_terminal or max_refresh)
    before: Sample | None = None
    shown = 0
    while True:
        try:
            sample = _sample(dict(given), name, monitor, conns, sort)
            if output.json:
                output.value(_fields(sample, before))
            elif target is not None:
                text = io.StringIO()
                with redirect_stdout(text):
                    _draw(Output(), sample, before, raw=raw)
                target.write_text(text.getvalue(), encoding="utf-8")
                output.say(f"Snapshot saved in {target}")
            else:
                if output.is_terminal:
                    click.echo("\x1b[H\x1b[2J", nl=False)
                _draw(output, sample, before, raw=raw)
            shown += 1
            if once or shown == max_refresh:
                return
            before = sample
            time.sleep(interval)
        except KeyboardInterrupt:
            sys.exit(0)


def _sample(given: dict[str, Any], name: str, monitor: str, conns: int, sort: str) -> Sample:
    answers = ask_servers(dict(given), monitor, "varz")
    at = time.monotonic()
    wanted = [one for one in answers if name in {"", one.server, one.data.get("server_id")}]
    if not wanted:
        known = [one.server for one in answers]
        raise not_found("server", name, known, "jetspark server list")
    one = wanted[0]
    found: list[dict[str, Any]] = []
    for answer in ask_servers(dict(given), monitor, "connz", {"auth": True, "limit": 100_000}):
        if answer.server == one.server:
            found = answer.data.get("connections") or []
    field = _KEYS[sort]
    found.sort(key=lambda item: item.get(field) or 0, reverse=sort != "cid")
    return Sample(one.server, at, one.data, found[:conns])


def _fields(sample: Sample, before: Sample | None) -> dict[str, Any]:
    return {
        "server": sample.server,
        "varz": sample.varz,
        "rates": sample.rates(before),
        "connections": sample.connections,
    }


def _draw(output: Output, sample: Sample, before: Sample | None, *, raw: bool) -> None:
    varz, rates = sample.varz, sample.rates(before)

    def size(value: float) -> str:
        return f"{value:,.0f}" if raw else format_bytes(int(value))

    output.line(
        output.style(
            f"{sample.server}  version {varz.get('version')}  uptime {varz.get('uptime')}", "bold"
        )
    )
    output.line(
        f"  CPU: {varz.get('cpu') or 0:.1f}%  Memory: {size(varz.get('mem') or 0)}  "
        f"Slow Consumers: {varz.get('slow_consumers') or 0:,}"
    )
    for word, key in (("In: ", "in"), ("Out:", "out")):
        output.line(
            f"  {word} Msgs: {varz.get(f'{key}_msgs') or 0:,}  "
            f"Bytes: {size(varz.get(f'{key}_bytes') or 0)}  "
            f"Msgs/Sec: {rates[f'{key}_msgs']:,.1f}  Bytes/Sec: {size(rates[f'{key}_bytes'])}"
        )
    output.line()
    numbers = ("Msgs To", "Msgs From", "Bytes To", "Bytes From")
    columns: tuple[Column | str, ...] = (
        Column("Host", long=True), Column("CID", number=True), "Name",
        Column("Subs", number=True), Column("Pending", number=True, long=True),
        *(Column(one, number=True) for one in numbers),
        *(Column(one, long=True) for one in ("Lang", "Version", "Uptime")),
    )  # fmt: skip
    rows = [
        (
            f"{one.get('ip')}:{one.get('port')}", str(one.get("cid", "")),
            str(one.get("name") or ""), f"{one.get('subscriptions') or 0:,}",
            size(one.get("pending_bytes") or 0), f"{one.get('out_msgs') or 0:,}",
            f"{one.get('in_msgs') or 0:,}", size(one.get("out_bytes") or 0),
            size(one.get("in_bytes") or 0), str(one.get("lang") or ""),
            str(one.get("version") or ""), str(one.get("uptime") or ""),
        )
        for one in sample.connections
    ]  # fmt: skip
    output.table(f"Connections: {varz.get('connections') or 0:,}", columns, rows)
