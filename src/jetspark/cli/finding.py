"""`stream find` and `consumer find`: those that meet conditions."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

import click

from jetspark.cli.consumer.inspecting import show_consumers
from jetspark.cli.output import Output
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import show_streams
from jetspark.client.models.consumer import ConsumerInfo
from jetspark.client.models.stream import ClusterInfo, StreamInfo
from jetspark.subjects.match import overlaps

_Info = TypeVar("_Info", StreamInfo, ConsumerInfo)
Condition = Callable[[_Info], bool]
_API_LEVEL: Final = "_nats.req.level"


async def find_streams(
    session: Session, *, server_name: str, cluster: str, empty: bool, idle: float | None,
    created: float | None, consumers: int | None, subject: str, replicas: int | None,
    sourced: bool, mirrored: bool, leader: str, api_level: int | None, invert: bool, names: bool,
) -> None:  # fmt: skip
    """List the streams that meet all conditions."""
    on_server, in_cluster = _pattern("--server-name", server_name), _pattern("--cluster", cluster)
    conditions: list[Condition[StreamInfo]] = []
    if server_name:
        conditions.append(lambda info: any(map(on_server.search, _servers(info.cluster))))
    if cluster:
        conditions.append(lambda info: bool(in_cluster.search(_cluster_name(info.cluster))))
    if empty:
        conditions.append(lambda info: info.state.messages == 0)
    if idle is not None:
        last = await _last_deliveries(session)
        conditions.append(
            lambda info: (
                _seconds_since(info.time, [info.state.last_time, last.get(info.config.name)])
                > idle
            )
        )
    if created is not None:
        conditions.append(lambda info: _seconds_since(info.time, [info.created]) > created)
    if consumers is not None:
        conditions.append(lambda info: info.state.consumer_count < consumers)
    if subject:
        conditions.append(
            lambda info: any(
                overlaps(one.encode(), subject.encode()) for one in info.config.subjects
            )
        )
    if replicas is not None:
        conditions.append(lambda info: info.config.num_replicas <= replicas)
    if sourced:
        conditions.append(lambda info: bool(info.config.sources))
    if mirrored:
        conditions.append(lambda info: info.config.mirror is not None)
    if leader:
        conditions.append(lambda info: _leader(info.cluster) == leader)
    if api_level is not None:
        conditions.append(
            lambda info: int((info.config.metadata or {}).get(_API_LEVEL) or 0) >= api_level
        )
    found = [one async for one in session.jetstream.streams()]
    found = [one for one in found if _meets(one, conditions, invert=invert)]
    output = session.output
    if names:
        _list_names(output, [one.config.name for one in found])
        return
    if not found and not output.json:
        output.say("No streams found that meet the conditions")
        return
    show_streams(output, "Streams that meet the conditions", found)


async def find_consumers(
    session: Session, *, stream: str, pull: bool, push: bool, bound: bool, waiting: int | None,
    ack_pending: int | None, pending: int | None, idle: float | None, created: float | None,
    replicas: int | None, leader: str, pinned: bool, api_level: int | None, invert: bool,
    names: bool,
) -> None:  # fmt: skip
    """List the consumers of a stream that meet all conditions."""
    conditions: list[Condition[ConsumerInfo]] = []
    if pull:
        conditions.append(lambda info: not info.config.deliver_subject)
    if push:
        conditions.append(lambda info: bool(info.config.deliver_subject))
    if bound:
        conditions.append(lambda info: info.push_bound or info.num_waiting > 0)
    if waiting is not None:
        conditions.append(lambda info: info.num_waiting < waiting)
    if ack_pending is not None:
        conditions.append(lambda info: info.num_ack_pending < ack_pending)
    if pending is not None:
        conditions.append(lambda info: info.num_pending < pending)
    if idle is not None:
        conditions.append(
            lambda info: _seconds_since(info.time, [info.delivered.last_active]) > idle
        )
    if created is not None:
        conditions.append(lambda info: _seconds_since(info.time, [info.created]) > created)
    if replicas is not None:
        conditions.append(lambda info: info.config.num_replicas <= replicas)
    if leader:
        conditions.append(lambda info: _leader(info.cluster) == leader)
    if pinned:
        conditions.append(
            lambda info: (
                bool(info.priority_groups)
                and all(group.pinned_client_id for group in info.priority_groups)
            )
        )
    if api_level is not None:
        conditions.append(
            lambda info: int((info.config.metadata or {}).get(_API_LEVEL) or 0) >= api_level
        )
    handle = await session.stream(stream)
    found = [one async for one in handle.consumers()]
    found = [one for one in found if _meets(one, conditions, invert=invert)]
    output = session.output
    if names:
        _list_names(output, [one.name for one in found])
        return
    if not found and not output.json:
        output.say(f"No consumers of {stream} found that meet the conditions")
        return
    show_consumers(output, "Consumers that meet the conditions", found)


def _list_names(output: Output, names: list[str]) -> None:
    if output.json:
        output.values(sorted(names))
    for name in () if output.json else sorted(names):
        output.line(name)


def _meets(info: _Info, conditions: list[Condition[_Info]], *, invert: bool) -> bool:
    """Whether all conditions hold; inverted, none may hold, as natscli does."""
    return all(condition(info) != invert for condition in conditions)


def _pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"{option} {text!r} is no expression: {error}") from None


def _servers(cluster: ClusterInfo | None) -> Iterator[str]:
    if cluster is not None:
        yield cluster.leader or ""
        for one in cluster.replicas or ():
            yield one.name


def _cluster_name(cluster: ClusterInfo | None) -> str:
    return (cluster.name or "") if cluster is not None else ""


def _leader(cluster: ClusterInfo | None) -> str:
    return (cluster.leader or "") if cluster is not None else ""


async def _last_deliveries(session: Session) -> dict[str, datetime]:
    """When consumers last delivered, by stream."""
    last: dict[str, datetime] = {}
    async for name in session.jetstream.stream_names():
        async for info in (await session.jetstream.stream(name)).consumers():
            when = info.delivered.last_active
            if when is not None and (name not in last or last[name] < when):
                last[name] = when
    return last


def _seconds_since(now: datetime | None, times: list[datetime | None]) -> float:
    """The age of the newest of some times; what never happened is infinitely old."""
    known = [one for one in times if one is not None and one.year > 1]
    if not known:
        return float("inf")
    return ((now or datetime.now(UTC)) - max(known)).total_seconds()
