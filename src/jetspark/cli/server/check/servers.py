"""Checks of one server, and of the leader of a cluster, by their own reports."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from jetspark.cli.output import Output
from jetspark.cli.quantities import show_seconds
from jetspark.cli.server.check.result import Result
from jetspark.cli.server.check.running import finish, take_format
from jetspark.cli.server.querying import Answer, ask_servers

_NANOSECONDS: Final = 1e9


def meta(
    output: Output, *, expect: int, lag_critical: int, seen_critical: float, monitor: str,
    **given: Any,
) -> None:  # fmt: skip
    """Check the meta group: the servers that agree on the streams of a cluster."""

    def judge(result: Result, answers: list[Answer]) -> None:
        found = [
            one for answer in answers if (one := answer.data.get("meta_cluster") or {}).get("name")
        ]
        if not found:
            result.critical("no meta cluster: JetStream is not clustered")
            return
        # Only the leader knows how the others are.
        cluster = max(found, key=lambda one: len(one.get("replicas") or ()))
        leader, size = cluster.get("leader"), cluster.get("cluster_size") or 0
        if not leader:
            result.critical("no meta leader")
            return
        _judge_peers(result, cluster.get("replicas") or [], lag_critical, seen_critical)
        result.measure("peers", size, "Servers of the meta cluster", critical=expect)
        if size == expect:
            result.ok(f"{size} peers led by {leader}")
        else:
            result.critical(f"{size} peers of expected {expect}")

    _run(output, given, monitor, "meta", "JetStream Meta Cluster", "jsz", judge)


def _judge_peers(
    result: Result, peers: list[dict[str, Any]], lag_critical: int, seen_critical: float
) -> None:
    counts = {
        "offline": [one for one in peers if one.get("offline")],
        "not_current": [one for one in peers if not one.get("current")],
        "inactive": [
            one for one in peers if (one.get("active") or 0) / _NANOSECONDS > seen_critical
        ],
        "lagged": [one for one in peers if (one.get("lag") or 0) > lag_critical],
    }
    for state, found in counts.items():
        text = state.replace("_", " ")
        result.measure(f"peer_{state}", len(found), f"Peers of the meta cluster: {text}")
        if found:
            names = ", ".join(sorted(str(one.get("name")) for one in found))
            result.critical(f"{len(found)} {text} ({names})")


def server(output: Output, *, name: str, monitor: str, **given: Any) -> None:
    """Check one server: its load, its age and what it requires."""
    limits = {
        key: (given.pop(f"{key}_warn"), given.pop(f"{key}_critical"))
        for key in ("cpu", "mem", "conn", "subs", "uptime")
    }
    certificate = (given.pop("tls_cert_warn"), given.pop("tls_cert_crit"))
    required = {key: given.pop(f"{key}_required") for key in ("auth", "tls", "js")}
    for key, (warn, critical) in (("uptime", limits["uptime"]), ("tls-cert", certificate)):
        if warn is not None and critical is not None and critical > warn:
            raise click.UsageError(f"--{key}: the critical threshold is above the warning one")

    def judge(result: Result, answers: list[Answer]) -> None:
        named = [
            one.data for one in answers if name in {one.server, str(one.data.get("server_id"))}
        ]
        if not named:
            known = ", ".join(sorted(one.server for one in answers))
            result.critical(f"no answer of server {name}; answers came from {known}")
            return
        varz = named[0]
        for key, field, about, unit in (
            ("cpu", "cpu", "CPU usage in percent", "%"),
            ("mem", "mem", "Memory in bytes", "B"),
            ("conn", "connections", "Active connections", ""),
            ("subs", "subscriptions", "Active subscriptions", ""),
        ):
            value = float(varz.get(field) or 0)
            warn, critical = limits[key]
            result.measure(key, value, about, warning=warn, critical=critical, unit=unit)
            result.compare(
                f"{about} {value:,.0f}", value, warning=warn, critical=critical,
                inverts=key in {"conn", "subs"},
            )  # fmt: skip
        up = _seconds(varz.get("start"), varz.get("now"))
        result.measure("uptime", up, "Seconds since the start of the server", unit="s")
        _judge_remaining(result, f"up {show_seconds(up)}", up, *limits["uptime"])
        expires = varz.get("tls_cert_not_after")
        if certificate != (None, None):
            if expires:
                left = _seconds(datetime.now(UTC).isoformat(), expires)
                text = f"the TLS certificate is valid for {show_seconds(max(left, 0.0))}"
                _judge_remaining(result, text, left, *certificate)
            else:
                result.critical("the server does not say when its TLS certificate expires")
        for key, field, what in (
            ("auth", "auth_required", "authentication is required"),
            ("tls", "tls_required", "TLS is required"),
            ("js", "jetstream", "JetStream is enabled"),
        ):
            if required[key] and _enabled(varz.get(field)):
                result.ok(what)
            elif required[key]:
                result.critical(what.replace(" is ", " is not "))

    _run(output, given, monitor, "server", name, "varz", judge)


def _judge_remaining(
    result: Result, text: str, value: float, warn: float | None, critical: float | None
) -> None:
    """Judge a time of which less is worse."""
    if critical is not None and value <= critical:
        result.critical(text)
    elif warn is not None and value <= warn:
        result.warn(text)
    elif warn is not None or critical is not None:
        result.ok(text)


def _enabled(value: object) -> bool:
    """Whether a flag is set; of `jetstream`: whether its configuration has anything."""
    if isinstance(value, dict):
        return bool(value.get("config"))
    return bool(value)


def _seconds(start: object, end: object) -> float:
    """The time between two times of a server."""
    return (_time(end) - _time(start)).total_seconds()


def _time(text: object) -> datetime:
    found = datetime.fromisoformat(_digits(str(text)))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _digits(text: str) -> str:
    """Cut the fraction of a second to six digits, the most that Python parses."""
    head, dot, rest = text.partition(".")
    if not dot:
        return text
    digits = rest.rstrip("Z").split("+")[0].split("-")[0]
    return f"{head}.{digits[:6].ljust(6, '0')}{rest[len(digits) :]}"


def _run(
    output: Output, given: dict[str, Any], monitor: str, suite: str, name: str, kind: str,
    judge: Callable[[Result, list[Answer]], None],
) -> None:  # fmt: skip
    """Ask the servers, judge what they say, write the result, exit with its code."""
    form, namespace, target = take_format(output, given)
    result = Result(suite, name)
    try:
        judge(result, ask_servers(given, monitor, kind))
    except click.UsageError:
        raise
    except click.ClickException as error:
        result.critical(error.format_message())
    except Exception as error:  # noqa: BLE001 - whatever it is, a monitor gets an answer
        result.failed(error)
    finish(output, result, form, namespace, target)
