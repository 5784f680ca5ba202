"""`stream ls`, `info`, `state`, `report`, `subjects`: configurations, states and contents."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jetspark.api.stream import LOST_SHOWN_MAX
from jetspark.cli.output import Column, Fields, Output
from jetspark.cli.quantities import show_limit, show_seconds, show_time
from jetspark.cli.session import Session
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import (
    ClusterInfo,
    StreamConfig,
    StreamInfo,
    StreamSource,
    StreamSourceInfo,
    StreamState,
)
from jetspark.units import format_bytes

# Streams of buckets and object stores, and of MQTT: shown with --all only.
_INTERNAL: Final = ("KV_", "OBJ_", "$", "MQTT_")


async def list_streams(session: Session, *, subject: str, names: bool, every: bool) -> None:
    """List the streams."""
    output = session.output
    if names:
        found = [one async for one in session.jetstream.stream_names(subject=subject)]
        shown = sorted(name for name in found if every or not name.startswith(_INTERNAL))
        if output.json:
            output.values(shown)
        for name in () if output.json else shown:
            output.line(name)
        return
    infos, hidden = await _streams(session, subject, every=every)
    if not infos and not output.json:
        _say_none(output, hidden)
        return
    show_streams(output, f"Streams matching {subject}" if subject else "Streams", infos)
    if hidden and not output.json:
        output.say(f"{hidden} streams of buckets and object stores are not shown: --all")


def show_streams(output: Output, title: str, infos: Iterable[StreamInfo]) -> None:
    """Write a list of streams, the smallest first."""
    ordered = sorted(infos, key=lambda info: info.state.bytes)
    if output.json:
        output.values(to_wire(info) for info in ordered)
        return
    columns = (
        "Name", Column("Description", long=True), "Created", Column("Messages", number=True),
        Column("Size", number=True), Column("Last Message", number=True),
    )  # fmt: skip
    rows = [
        (
            info.config.name,
            info.config.description,
            show_time(info.created),
            f"{info.state.messages:,}",
            format_bytes(info.state.bytes),
            age(info.time, info.state.last_time),
        )
        for info in ordered
    ]
    output.table(title, columns, rows)


async def _streams(session: Session, subject: str, *, every: bool) -> tuple[list[StreamInfo], int]:
    """The streams, and how many are left out."""
    found = [one async for one in session.jetstream.streams(subject=subject)]
    kept = [info for info in found if every or not info.config.name.startswith(_INTERNAL)]
    return kept, len(found) - len(kept)


def _say_none(output: Output, hidden: int) -> None:
    if hidden:
        output.say(f"No streams defined; --all shows the {hidden} of buckets and object stores")
    else:
        output.say("No streams defined; create one with `jetspark stream add`")


def age(now: datetime | None, then: datetime | None) -> str:
    """How long ago something was, by the clock of the server if it sent it."""
    if then is None or then.year == 1:
        return "never"
    return show_seconds(max(0.0, ((now or datetime.now(UTC)) - then).total_seconds()))


async def stream_info(session: Session, *, name: str, state: bool) -> None:
    """Show the configuration and state of a stream."""
    stream = await session.stream(name)
    show_info(session.output, stream.cached_info, state_only=state)


async def stream_state(session: Session, *, name: str) -> None:
    """Show the state of a stream."""
    await stream_info(session, name=name, state=True)


def show_info(output: Output, info: StreamInfo, *, state_only: bool = False) -> None:
    """Write what `info` shows."""
    config = info.config
    if output.json:
        output.value(to_wire(info.state) if state_only else to_wire(info))
        return
    sections: list[tuple[str, Fields]] = []
    if not state_only:
        sections += _config_sections(config)
    if info.cluster is not None and info.cluster.name:
        sections.append(("Cluster Information", cluster_fields(info.cluster, info.time)))
    if info.mirror is not None:
        sections.append(("Mirror Information", _origin(info.mirror)))
    sections.extend(("Source Information", _origin(source)) for source in info.sources)
    sections.append(("State", _state(info)))
    what = "State" if state_only else "Information"
    output.fields(f"{what} for Stream {config.name} created {show_time(info.created)}", sections)


def _config_sections(config: StreamConfig) -> list[tuple[str, Fields]]:
    placement = config.placement
    transform, republish = config.subject_transform, config.republish
    limits = config.consumer_limits
    return [
        (
            "",
            [
                ("Description", config.description),
                ("Subjects", ", ".join(config.subjects)),
                ("Replicas", config.num_replicas),
                ("Sealed", "true" if config.sealed else ""),
                ("Storage", config.storage.value.capitalize()),
                ("Compression", "" if config.compression == "none" else config.compression.value),
                ("Persistence Mode", "" if config.persist_mode == "default" else "async"),
                ("First Sequence", f"{config.first_seq:,}" if config.first_seq else ""),
                ("Placement Cluster", placement.cluster if placement else ""),
                ("Placement Tags", ", ".join(placement.tags) if placement else ""),
            ],
        ),
        (
            "Options",
            [
                (
                    "Subject Transform",
                    f"{transform.src or '>'} to {transform.dest}" if transform else "",
                ),
                (
                    "Republishing Headers" if republish and republish.headers_only
                    else "Republishing",
                    f"{republish.src or '>'} to {republish.dest}" if republish else "",
                ),
                ("Retention", config.retention.value.capitalize()),
                ("Acknowledgments", _word(not config.no_ack)),
                (
                    "Discard Policy",
                    "New Per Subject" if config.discard_new_per_subject
                    else config.discard.value.capitalize(),
                ),
                ("Duplicate Window", show_seconds(config.duplicate_window)),
                ("Direct Get", _word(config.allow_direct)),
                ("Mirror Direct Get", "true" if config.mirror_direct else ""),
                ("Allows Atomic Batch Publish", _word(config.allow_atomic)),
                ("Allows Fast Batch Publish", _word(config.allow_batched)),
                ("Allows Counters", _word(config.allow_msg_counter)),
                ("Allows Msg Delete", _word(not config.deny_delete)),
                ("Allows Per-Message TTL", _word(config.allow_msg_ttl)),
                ("Allows Purge", _word(not config.deny_purge)),
                ("Allows Schedules", _word(config.allow_msg_schedules)),
                (
                    "Subject Delete Markers TTL",
                    show_seconds(config.subject_delete_marker_ttl)
                    if config.subject_delete_marker_ttl else "",
                ),
                ("Allows Rollups", _word(config.allow_rollup_hdrs)),
            ],
        ),
        (
            "Limits",
            [
                ("Maximum Messages", show_limit(config.max_msgs)),
                ("Maximum Per Subject", show_limit(config.max_msgs_per_subject)),
                ("Maximum Bytes", show_limit(config.max_bytes, format_bytes(config.max_bytes))),
                (
                    "Maximum Age",
                    show_seconds(config.max_age) if config.max_age else "unlimited",
                ),
                (
                    "Maximum Message Size",
                    show_limit(config.max_msg_size, format_bytes(config.max_msg_size)),
                ),
                ("Maximum Consumers", show_limit(config.max_consumers)),
                (
                    "Consumer Inactive Threshold",
                    show_seconds(limits.inactive_threshold) if limits.inactive_threshold else "",
                ),
                ("Consumer Max Ack Pending", limits.max_ack_pending or ""),
            ],
        ),
        ("Metadata", metadata_fields(config.metadata)),
        (
            "Replication",
            [
                ("Mirror", _source(config.mirror) if config.mirror else ""),
                ("Sources", [_source(source) for source in config.sources]),
            ],
        ),
    ]  # fmt: skip


def _word(value: bool) -> str:
    return "true" if value else "false"


def metadata_fields(metadata: dict[str, str]) -> list[tuple[str, object]]:
    """The user's metadata; servers add entries of their own."""
    return [(k, v) for k, v in sorted(metadata.items()) if not k.startswith("_nats.")]


def _source(source: StreamSource) -> str:
    parts = [source.name]
    if source.filter_subject:
        parts.append(f"Subject: {source.filter_subject}")
    parts.extend(f"{one.src} to {one.dest or one.src}" for one in source.subject_transforms)
    if source.opt_start_seq:
        parts.append(f"Start Seq: {source.opt_start_seq:,}")
    if source.opt_start_time:
        parts.append(f"Start Time: {show_time(source.opt_start_time)}")
    if source.external is not None:
        parts.append(f"API Prefix: {source.external.api}")
    return ", ".join(parts)


def cluster_fields(cluster: ClusterInfo, now: datetime | None) -> list[tuple[str, object]]:
    """The leader and replicas of a stream or consumer."""
    leader = cluster.leader or "none"
    if cluster.leader_since is not None:
        leader += f" ({age(now, cluster.leader_since)})"
    replicas = []
    for peer in cluster.replicas or ():
        parts = [peer.name, "current" if peer.current else "outdated"]
        if peer.offline:
            parts.append("OFFLINE")
        parts.append("not seen" if not peer.active else f"seen {show_seconds(peer.active)} ago")
        if peer.lag:
            parts.append(f"lags by {peer.lag:,} operations")
        replicas.append(", ".join(parts))
    return [
        ("Name", cluster.name),
        ("Cluster Group", cluster.raft_group),
        ("Leader", leader),
        ("Replica", replicas),
    ]


def _origin(source: StreamSourceInfo) -> list[tuple[str, object]]:
    return [
        ("Stream Name", source.name),
        ("Subject Filter", source.filter_subject),
        (
            "Subject Transforms",
            [f"{one.src} to {one.dest or one.src}" for one in source.subject_transforms],
        ),
        ("Lag", f"{source.lag:,}"),
        ("Last Seen", "never" if source.active is None else show_seconds(source.active)),
        ("Ext. API Prefix", source.external.api if source.external else ""),
        ("Error", source.error.description if source.error else ""),
    ]


def _state(info: StreamInfo) -> list[tuple[str, object]]:
    state = info.state
    own = info.jetspark
    return [
        ("Messages", f"{state.messages:,}"),
        ("Bytes", format_bytes(state.bytes)),
        ("Lost Messages", show_lost(state)),
        ("First Sequence", _at(state.first_seq, state.first_time)),
        ("Last Sequence", _at(state.last_seq, state.last_time)),
        ("Deleted Messages", f"{_deleted(state):,}" if _deleted(state) else ""),
        ("Active Consumers", f"{state.consumer_count:,}"),
        ("Number of Subjects", f"{state.num_subjects:,}" if state.num_subjects else ""),
        ("Durability", own.durability if own else ""),
        (
            "Alternates",
            [
                f"{one.name}: Cluster: {one.cluster}"
                + (f" Domain: {one.domain}" if one.domain else "")
                for one in info.alternates
            ],
        ),
    ]


def show_lost(state: StreamState) -> str:
    """How many messages were lost on a damaged disk; empty if none were."""
    if state.lost is None:
        return ""
    count = len(state.lost.msgs or ())
    least = "at least " if count == LOST_SHOWN_MAX else ""
    shown = f"{least}{count:,}" if count else "unknown"
    return f"{shown} ({format_bytes(state.lost.bytes)})"


def _deleted(state: StreamState) -> int:
    return len(state.deleted or ()) or state.num_deleted


def _at(seq: int, time: datetime | None) -> str:
    return f"{seq:,}" if time is None or time.year == 1 else f"{seq:,} @ {show_time(time)}"


async def stream_subjects(
    session: Session, *, name: str, subject: str, sort: str, reverse: bool, names: bool
) -> None:
    """List the subjects of a stream with their counts."""
    stream = await session.stream(name)
    found = (await stream.info(subjects_filter=subject)).state.subjects or {}
    by_name = sort in {"name", "subjects"}
    ordered = sorted(found.items(), key=lambda item: item if by_name else (item[1], item[0]))
    if reverse:
        ordered.reverse()
    output = session.output
    if output.json:
        if names:
            output.values(one for one, _ in ordered)
        elif output.form == "ndjson":
            output.values({"subject": one, "messages": count} for one, count in ordered)
        else:
            output.value(dict(ordered))
    elif not ordered:
        output.say(f"No subjects found matching {subject}")
    elif names:
        for one, _ in ordered:
            output.line(one)
    else:
        title = f"{len(ordered):,} Subjects in stream {name}"
        rows = [(one, f"{count:,}") for one, count in ordered]
        output.table(title, ("Subject", Column("Count", number=True)), rows)


async def stream_report(
    session: Session, *, subject: str, cluster: str, order: str, raw: bool, every: bool,
    leaders: bool, dot: Path | None,
) -> None:  # fmt: skip
    """Show the statistics of all streams."""
    output = session.output
    infos, hidden = await _streams(session, subject, every=every)
    if cluster:
        infos = [one for one in infos if one.cluster is not None and one.cluster.name == cluster]
    keys: dict[str, Any] = {
        "consumers": lambda info: info.state.consumer_count,
        "messages": lambda info: info.state.messages,
        "name": lambda info: info.config.name,
        "storage": lambda info: info.config.storage.value,
        "bytes": lambda info: info.state.bytes,
    }
    infos.sort(key=keys[order])
    if output.json:
        output.values(_reported(info) for info in infos)
        return
    if not infos:
        _say_none(output, hidden)
        return
    columns = (
        "Stream", "Storage", "Placement", Column("Consumers", number=True),
        Column("Messages", number=True), Column("Bytes", number=True),
        Column("Lost", number=True), Column("Deleted", number=True), "Replicas",
    )  # fmt: skip
    output.table("Stream Report", columns, [_report_row(info, raw=raw) for info in infos])
    copies = list(_replication(infos))
    if copies:
        output.line()
        output.table(
            "Replication Report",
            ("Stream", "Kind", "Source", "Filters", "Active", Column("Lag", number=True), "Error"),
            copies,
        )
    if leaders:
        output.line()
        show_leaders(output, [info.cluster for info in infos], "Streams")
    if dot is not None:
        dot.write_text(_graph(infos), encoding="utf-8")  # noqa: ASYNC240 - nothing else runs
        output.say(f"GraphViz graph of the replication written to {dot}")


def _reported(info: StreamInfo) -> dict[str, object]:
    state = info.state
    return {
        "name": info.config.name,
        "storage": info.config.storage.value,
        "consumers": state.consumer_count,
        "messages": state.messages,
        "bytes": state.bytes,
        "lost_messages": len(state.lost.msgs or ()) if state.lost else 0,
        "deleted": _deleted(state),
        "cluster": None if info.cluster is None else to_wire(info.cluster),
        "mirror": None if info.mirror is None else to_wire(info.mirror),
        "sources": [to_wire(source) for source in info.sources],
    }


def _report_row(info: StreamInfo, *, raw: bool) -> tuple[str, ...]:
    state, placement = info.state, info.config.placement
    where = ""
    if placement is not None:
        where = " ".join(filter(None, (placement.cluster, *placement.tags)))
    number = str if raw else "{:,}".format
    return (
        info.config.name,
        info.config.storage.value.capitalize(),
        where,
        number(state.consumer_count),
        number(state.messages),
        str(state.bytes) if raw else format_bytes(state.bytes),
        show_lost(state) or "0",
        number(_deleted(state)),
        _replicas(info.cluster),
    )


def _replicas(cluster: ClusterInfo | None) -> str:
    """The servers that have a stream: the leader with a star, a lagging one with `!`."""
    if cluster is None:
        return ""
    peers = [f"{cluster.leader}*"] if cluster.leader else []
    peers += [
        peer.name + ("" if peer.current and not peer.offline else "!")
        for peer in cluster.replicas or ()
    ]
    return ", ".join(sorted(peers))


def _replication(infos: Iterable[StreamInfo]) -> Iterator[tuple[str, ...]]:
    for info in infos:
        kinds = [("Mirror", info.mirror)] if info.mirror is not None else []
        for kind, source in [*kinds, *(("Source", one) for one in info.sources)]:
            filters = [source.filter_subject] if source.filter_subject else []
            filters += [f"{one.src} to {one.dest}" for one in source.subject_transforms]
            yield (
                info.config.name,
                kind,
                source.name,
                ", ".join(filters),
                "never" if source.active is None else show_seconds(source.active),
                f"{source.lag:,}",
                source.error.description if source.error else "",
            )


def show_leaders(output: Output, clusters: Iterable[ClusterInfo | None], what: str) -> None:
    """Write how many streams or consumers each server leads."""
    counts: dict[tuple[str, str], int] = {}
    for cluster in clusters:
        if cluster is not None and cluster.leader:
            key = (cluster.leader, cluster.name)
            counts[key] = counts.get(key, 0) + 1
    rows = [(leader, name, f"{count:,}") for (leader, name), count in sorted(counts.items())]
    output.table("Leaders", ("Server", "Cluster", Column(what, number=True)), rows)


def _graph(infos: list[StreamInfo]) -> str:
    lines = ["digraph {", '  label="Stream Replication Structure";']
    for info in infos:
        lines.extend(
            f'  "{source.name}" -> "{info.config.name}";' for source in info.config.sources
        )
        if info.config.mirror is not None:
            lines.append(
                f'  "{info.config.mirror.name}" -> "{info.config.name}" [label="Mirror"];'
            )
    return "\n".join([*lines, "}", ""])
