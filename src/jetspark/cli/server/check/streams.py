"""Checks of a stream, a consumer and a message."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from jetspark.cli.output import Output
from jetspark.cli.quantities import parse_duration, show_seconds
from jetspark.cli.server.check.basics import compiled
from jetspark.cli.server.check.result import Result
from jetspark.cli.server.check.running import run_check
from jetspark.cli.session import Session
from jetspark.client.models.consumer import ConsumerInfo
from jetspark.client.models.stream import ClusterInfo, StreamInfo, StreamSourceInfo
from jetspark.errors import ConsumerNotFound, MessageNotFound, StreamNotFound

_PREFIX: Final = "io.nats.monitor."
_SECOND: Final = 1_000_000_000
_SECONDS: Final = {
    "seen_critical", "peer_seen_critical", "last_delivery_critical", "last_ack_critical",
}  # fmt: skip


class Thresholds:
    """The options of a check, completed by the metadata of what is checked."""

    def __init__(self, given: dict[str, Any], names: tuple[str, ...]) -> None:
        self._given = {name: given.pop(name) for name in names}
        self._metadata: Mapping[str, str] = {}

    def complete(self, metadata: Mapping[str, str], result: Result) -> None:
        """Use the metadata for what was not given."""
        for name, value in self._given.items():
            text = metadata.get(_PREFIX + name.replace("_", "-"))
            if value is None and text is not None:
                try:
                    self._given[name] = _parsed(name, text)
                except ValueError:
                    field = name.replace("_", "-")
                    result.critical(f"metadata {_PREFIX}{field}: {text!r} is no valid threshold")

    def __getitem__(self, name: str) -> Any:
        """A threshold; None if there is none, which 0 and -1 mean too."""
        value = self._given[name]
        return None if value is None or value <= 0 else value


def _parsed(name: str, text: str) -> float:
    return parse_duration(text) / _SECOND if name in _SECONDS else int(text)


_STREAM: Final = (
    "lag_critical", "seen_critical", "min_sources", "max_sources", "peer_expect",
    "peer_lag_critical", "peer_seen_critical", "msgs_warn", "msgs_critical", "subjects_warn",
    "subjects_critical",
)  # fmt: skip
_CONSUMER: Final = (
    "outstanding_ack_critical", "waiting_critical", "unprocessed_critical",
    "last_delivery_critical", "last_ack_critical", "redelivery_critical",
)  # fmt: skip


def stream(output: Output, *, stream: str, **given: Any) -> None:
    """Check a stream."""
    limits = Thresholds(given, _STREAM)

    async def check(session: Session, result: Result) -> None:
        try:
            info = (await session.jetstream.stream(stream)).cached_info
        except StreamNotFound:
            result.critical(f"stream {stream} not found")
            return
        limits.complete(info.config.metadata, result)
        _cluster(result, info.cluster, limits)
        _messages(result, info, limits)
        _subjects(result, info, limits)
        _sources(result, info.sources, limits)
        if info.config.mirror is not None:
            _mirror(result, info.mirror, limits)
        if info.state.lost is not None and info.state.lost.msgs:
            result.critical(f"{len(info.state.lost.msgs)} lost messages")

    run_check(output, given, "stream", stream, check)


def _cluster(result: Result, cluster: ClusterInfo | None, limits: Thresholds) -> None:
    expected = limits["peer_expect"]
    if cluster is None or not cluster.name:
        if expected:
            result.critical("the stream is not clustered")
        return
    if not cluster.leader:
        result.critical("no leader")
        return
    peers = cluster.replicas or ()
    count = len(peers) + 1
    if expected and count != expected:
        result.critical(f"expected {expected} replicas, got {count}")
        return
    result.ok(f"{count} peers")
    offline = sum(peer.offline for peer in peers)
    if offline:
        result.critical(f"{offline} replicas offline")
    lag, seen = limits["peer_lag_critical"], limits["peer_seen_critical"]
    if lag:
        lagged = sum(peer.lag > lag for peer in peers)
        _some(result, lagged, "replicas lagged", "replicas are current")
    if seen:
        inactive = sum((peer.active or 0) > seen for peer in peers)
        _some(result, inactive, "replicas inactive", "replicas are active")


def _some(result: Result, count: int, bad: str, good: str) -> None:
    if count:
        result.critical(f"{count} {bad}")
    else:
        result.ok(good)


def _messages(result: Result, info: StreamInfo, limits: Thresholds) -> None:
    """Fewer messages are worse."""
    warning, critical = limits["msgs_warn"], limits["msgs_critical"]
    count = info.state.messages
    if warning is None and critical is None:
        return
    result.measure(
        "messages", count, "Messages stored in the stream", warning=warning, critical=critical
    )
    text = f"{count} messages"
    if critical is not None and count <= critical:
        result.critical(text)
    elif warning is not None and count <= warning:
        result.warn(text)
    else:
        result.ok(text)


def _subjects(result: Result, info: StreamInfo, limits: Thresholds) -> None:
    warning, critical = limits["subjects_warn"], limits["subjects_critical"]
    if warning is None and critical is None:
        return
    count = info.state.num_subjects
    result.measure(
        "subjects", count, "Number of subjects stored in the stream", warning=warning,
        critical=critical,
    )  # fmt: skip
    result.compare(f"{count} subjects", count, warning=warning, critical=critical, inverts=True)


def _lags(source: StreamSourceInfo, limits: Thresholds) -> bool:
    return bool(limits["lag_critical"]) and source.lag >= limits["lag_critical"]


def _unseen(source: StreamSourceInfo, limits: Thresholds) -> bool:
    """Whether an origin was not seen for too long; None is never."""
    limit = limits["seen_critical"]
    return bool(limit) and (source.active is None or source.active >= limit)


def _sources(result: Result, sources: tuple[StreamSourceInfo, ...], limits: Thresholds) -> None:
    least, most, count = limits["min_sources"], limits["max_sources"], len(sources)
    result.measure("sources", count, "Number of sources being consumed by this stream")
    wrong = (least is not None and count < least) or (most is not None and count > most)
    (result.critical if wrong else result.ok)(f"{count} sources")
    if not sources:
        return
    lagged = sum(_lags(source, limits) for source in sources)
    inactive = sum(_unseen(source, limits) for source in sources)
    if limits["lag_critical"]:
        result.measure("sources_lagged", lagged, "Sources that lag more than the threshold")
        _some(result, lagged, "sources are lagged", f"{count} sources current")
    if limits["seen_critical"]:
        result.measure("sources_inactive", inactive, "Sources that are inactive")
        _some(result, inactive, "sources are inactive", f"{count} sources active")


def _mirror(result: Result, mirror: StreamSourceInfo | None, limits: Thresholds) -> None:
    lag, seen = limits["lag_critical"], limits["seen_critical"]
    if lag is None and seen is None:
        return
    if mirror is None:
        result.critical("the state of the mirror is unknown")
        return
    active = -1.0 if mirror.active is None else mirror.active
    result.measure("lag", mirror.lag, "Messages that the mirror lacks", critical=lag)
    result.measure(
        "active", active, "Seconds since the origin was seen; -1 is never", critical=seen, unit="s"
    )
    if _lags(mirror, limits):
        result.critical(f"mirror lag {mirror.lag}")
    elif _unseen(mirror, limits):
        when = "never" if mirror.active is None else f"{show_seconds(mirror.active)} ago"
        result.critical(f"mirror seen {when}")
    else:
        result.ok(f"mirror of {mirror.name}")


def consumer(output: Output, *, stream: str, consumer: str, pinned: bool, **given: Any) -> None:
    """Check a consumer."""
    limits = Thresholds(given, _CONSUMER)

    async def check(session: Session, result: Result) -> None:
        try:
            info = await (await session.jetstream.consumer(stream, consumer)).info()
        except (StreamNotFound, ConsumerNotFound) as error:
            missing = f"stream {stream}" if isinstance(error, StreamNotFound) else consumer
            result.critical(f"{missing} not found")
            return
        limits.complete(info.config.metadata, result)
        _counts(result, info, limits)
        now = info.time or datetime.now(UTC)
        for name, what, when in (
            ("last_delivery", "delivery", info.delivered.last_active),
            ("last_ack", "ack", info.ack_floor.last_active),
        ):
            _since(result, name, what, when, now, limits[f"{name}_critical"])
        if info.stopped:
            result.critical(f"delivery stopped: {info.stopped}")
        if pinned:
            _pinned(result, info)

    run_check(output, given, "consumer", f"{stream}_{consumer}", check)


def _counts(result: Result, info: ConsumerInfo, limits: Thresholds) -> None:
    for name, value, about, text, limit in (
        (
            "ack_pending", info.num_ack_pending, "Messages waiting to be acknowledged",
            "Ack Pending", limits["outstanding_ack_critical"],
        ),
        (
            "pull_waiting", info.num_waiting, "Waiting pull requests", "Waiting Pulls",
            limits["waiting_critical"],
        ),
        (
            "pending", info.num_pending, "Messages that were not delivered yet",
            "Unprocessed Messages", limits["unprocessed_critical"],
        ),
        (
            "redelivered", info.num_redelivered, "Messages that are redelivered", "Redelivered",
            limits["redelivery_critical"],
        ),
    ):  # fmt: skip
        result.measure(name, value, about, critical=limit)
        result.compare(f"{text}: {value}", value, warning=None, critical=limit)


def _since(
    result: Result, name: str, what: str, when: datetime | None, now: datetime,
    limit: float | None,
) -> None:  # fmt: skip
    seconds = None if when is None else max((now - when).total_seconds(), 0.0)
    if seconds is not None:
        result.measure(name, seconds, f"Seconds since the last {what}", critical=limit, unit="s")
    if limit is None:
        return
    if seconds is None:
        result.critical(f"no {what} yet")
    else:
        text = f"last {what} {show_seconds(seconds)} ago"
        result.compare(text, seconds, warning=None, critical=limit)


def _pinned(result: Result, info: ConsumerInfo) -> None:
    groups = info.priority_groups
    if not groups:
        result.critical("the consumer has no priority groups")
    for group in groups:
        report: Callable[[str], None] = result.ok if group.pinned_client_id else result.critical
        word = "a" if group.pinned_client_id else "no"
        report(f"group {group.group} has {word} pinned client")


def message(
    output: Output, *, stream: str, subject: str, age_warn: float | None,
    age_critical: float | None, content: str, body_timestamp: bool, **given: Any,
) -> None:  # fmt: skip
    """Check the last message of a subject."""
    wanted = compiled(content, "--content")

    async def check(session: Session, result: Result) -> None:
        try:
            found = await (await session.jetstream.stream(stream)).get_msg(last_by_subject=subject)
        except StreamNotFound:
            result.critical(f"stream {stream} not found")
            return
        except MessageNotFound:
            result.critical("no message found")
            return
        stored = found.time_ns / _SECOND
        if body_timestamp:
            try:
                stored = float(int(found.data.strip()))
            except ValueError:
                result.critical("the payload is no Unix time")
                return
        age = time.time() - stored
        result.measure(
            "age", age, "The age of the message", warning=age_warn, critical=age_critical, unit="s"
        )
        result.measure("size", len(found.data), "The size of the message", unit="B")
        if age_warn or age_critical:
            result.compare(
                f"{show_seconds(age)} old", age, warning=age_warn or None,
                critical=age_critical or None,
            )  # fmt: skip
        if wanted is not None and not wanted.search(found.data):
            result.critical(f"does not match {content}")
        result.ok(f"valid message on {stream} > {subject}")

    run_check(output, given, "message", "Stream Message", check)
