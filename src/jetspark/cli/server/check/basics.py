"""Checks of a connection, a service, an account and a bucket."""

import re
import time
from typing import Any

import click

from jetspark.cli.output import Output
from jetspark.cli.quantities import show_seconds
from jetspark.cli.server.check.result import Result
from jetspark.cli.server.check.running import run_check
from jetspark.cli.session import Session
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import BucketNotFound, KeyNotFound


def connection(
    output: Output, *, connect_warn: float, connect_critical: float, rtt_warn: float,
    rtt_critical: float, req_warn: float, req_critical: float, **given: Any,
) -> None:  # fmt: skip
    """Check that a server accepts connections and delivers messages."""
    begun = time.monotonic()

    async def check(session: Session, result: Result) -> None:
        client = session.client
        _timed(
            result, "connect_time", f"connected to {client.connected_server} in",
            time.monotonic() - begun, connect_warn, connect_critical,
            "Time taken to connect to NATS",
        )  # fmt: skip
        _timed(
            result, "rtt", "rtt time", await client.rtt(), rtt_warn, rtt_critical,
            "The round-trip-time of the connection",
        )  # fmt: skip
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        sent = time.monotonic()
        client.publish(inbox, b"check")
        got = await subscription.next(timeout=session.settings.timeout)
        took = time.monotonic() - sent
        if got.data != b"check":
            result.critical("did not receive the expected message")
        _timed(
            result, "request_time", "round trip took", took, req_warn, req_critical,
            "Time taken for a full Request-Reply operation",
        )  # fmt: skip

    run_check(output, given, "connection", "Connection", check)


def _timed(
    result: Result, name: str, text: str, seconds: float, warning: float | None,
    critical: float | None, about: str,
) -> None:  # fmt: skip
    result.measure(name, seconds, about, warning=warning, critical=critical, unit="s")
    result.compare(f"{text} {show_seconds(seconds)}", seconds, warning=warning, critical=critical)


def request(
    output: Output, *, subject: str, payload: str, headers: tuple[tuple[str, str], ...],
    match_payload: str, response_warn: float | None, response_critical: float | None, **given: Any,
) -> None:  # fmt: skip
    """Check that a service answers."""
    wanted = compiled(match_payload, "--match-payload")

    async def check(session: Session, result: Result) -> None:
        sent = time.monotonic()
        reply = await session.client.request(
            subject, payload.encode(), headers=list(headers) or None,
            timeout=session.settings.timeout,
        )  # fmt: skip
        took = time.monotonic() - sent
        _timed(
            result, "time", "response took", took, response_warn, response_critical,
            "How long the request took",
        )  # fmt: skip
        if wanted is not None and not wanted.search(reply.data):
            result.critical(f"the reply does not match {match_payload}")
        result.ok(f"valid response on {subject}")

    run_check(output, given, "request", subject, check)


def compiled(text: str, option: str) -> re.Pattern[bytes] | None:
    """A regular expression for payloads; None if none was given."""
    if not text:
        return None
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise click.UsageError(f"{option} {text!r} is no regular expression: {error}") from None


def jetstream(output: Output, *, replicas: bool, **given: Any) -> None:
    """Check the use of JetStream by the account."""
    seen, lag = given.pop("replica_seen_critical"), given.pop("replica_lag_critical")
    thresholds = {
        name: (given.pop(f"{name}_warn"), given.pop(f"{name}_critical"))
        for name in ("mem", "store", "streams", "consumers")
    }
    for name, (warn, critical) in thresholds.items():
        if warn >= 0 and critical >= 0 and warn >= critical:
            raise click.UsageError(
                f"--{name}-warn {warn} is not below --{name}-critical {critical}"
            )

    async def check(session: Session, result: Result) -> None:
        usage = await session.jetstream.account_info()
        limits = usage.limits
        for key, name, used, limit, unit in (
            ("mem", "memory", usage.memory, limits.max_memory, "B"),
            ("store", "storage", usage.storage, limits.max_storage, "B"),
            ("streams", "streams", usage.streams, limits.max_streams, ""),
            ("consumers", "consumers", usage.consumers, limits.max_consumers, ""),
        ):
            _usage(result, name, used, limit, unit, *thresholds[key])
        if replicas:
            infos = [one async for one in session.jetstream.streams()]
            _replicas(result, infos, seen, lag)

    run_check(output, given, "jetstream", "JetStream", check)


def _usage(
    result: Result, name: str, used: int, limit: int, unit: str, warn: int, critical: int
) -> None:
    percent = int(used * 100 / limit) if limit > 0 else 0
    result.measure(name, used, f"JetStream {name} resource usage", unit=unit)
    result.measure(
        f"{name}_pct", percent, f"JetStream {name} resource usage in percent", warning=warn,
        critical=critical, unit="%",
    )  # fmt: skip
    if percent > 100:
        result.critical(f"{name}: exceeds the limit of the server")
    elif 0 <= critical < percent:
        result.critical(f"{percent}% {name}")
    elif 0 <= warn < percent:
        result.warn(f"{percent}% {name}")
    else:
        result.ok(f"{percent}% {name}" if limit > 0 else f"{used:,} {name}, unlimited")


def _replicas(result: Result, infos: list[StreamInfo], seen: float, lag: int) -> None:
    """Count streams by the state of their replicas; each counts once, at its worst."""
    counts = dict.fromkeys(
        ("ok", "no_leader", "missing_replicas", "lagged", "not_seen", "fail"), 0
    )
    for info in infos:
        counts[_replica_state(info, seen, lag)] += 1
    texts = {
        "ok": "Streams with healthy cluster state",
        "no_leader": "Streams with no leader elected",
        "missing_replicas": "Streams with fewer replicas than configured",
        "lagged": f"Streams with replicas that lag more than {lag} operations",
        "not_seen": f"Streams with replicas not seen for {show_seconds(seen)}",
        "fail": "Streams with offline replicas or unknown cluster state",
    }
    for name, count in counts.items():
        result.measure(f"replicas_{name}", count, texts[name])
    bad = sum(count for name, count in counts.items() if name != "ok")
    if bad:
        result.critical(f"{bad} unhealthy streams")


def _replica_state(info: StreamInfo, seen: float, lag: int) -> str:
    if info.config.num_replicas <= 1:
        return "ok"
    cluster = info.cluster
    if cluster is None:
        return "fail"
    if not cluster.leader:
        return "no_leader"
    peers = cluster.replicas or ()
    if len(peers) != info.config.num_replicas - 1:
        return "missing_replicas"
    if any(peer.offline for peer in peers):
        return "fail"
    if any((peer.active or 0) > seen for peer in peers):
        return "not_seen"
    return "lagged" if any(peer.lag > lag for peer in peers) else "ok"


def bucket(
    output: Output, *, bucket: str, values_warn: int | None, values_critical: int | None, key: str,
    **given: Any,
) -> None:  # fmt: skip
    """Check a bucket."""
    # natscli: -1 is no threshold.
    warning = None if values_warn in {None, -1} else values_warn
    critical = None if values_critical in {None, -1} else values_critical

    async def check(session: Session, result: Result) -> None:
        try:
            store = await session.jetstream.key_value(bucket)
            status = await store.status()
        except BucketNotFound:
            result.critical(f"bucket {bucket} not found")
            return
        result.ok(f"bucket {bucket}")
        result.measure(
            "values", status.values, "How many values are stored in the bucket", warning=warning,
            critical=critical,
        )  # fmt: skip
        if key:
            try:
                await store.get(key)
                result.ok(f"key {key} found")
            except KeyNotFound as error:
                gone = "is deleted" if error.revision else "not found"
                result.critical(f"key {key} {gone}")
        result.compare(
            f"{status.values} values",
            status.values,
            warning=warning,
            critical=critical,
            inverts=True,
        )
        result.measure("bytes", status.bytes, "Bytes stored in the bucket", unit="B")
        result.measure("replicas", status.config.replicas, "Replicas of the bucket")

    run_check(output, given, "kv", bucket, check)
