"""`consumer ls`, `info`, `state`, `report`: configuration, state and backlog of consumers."""

from jetspark.api.enums import AckPolicy, DeliverPolicy
from jetspark.cli.output import Column, Fields, Output
from jetspark.cli.quantities import show_seconds, show_time
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import age, cluster_fields, metadata_fields, show_leaders
from jetspark.client.models.base import to_wire
from jetspark.client.models.consumer import ConsumerConfig, ConsumerInfo, SequenceInfo
from jetspark.units import format_bytes


async def list_consumers(session: Session, *, stream: str, names: bool) -> None:
    """List the consumers of a stream."""
    of = await session.stream(stream)
    output = session.output
    if names:
        found = sorted([one async for one in of.consumer_names()])
        if output.json:
            output.values(found)
        for name in () if output.json else found:
            output.line(name)
        return
    infos = [one async for one in of.consumers()]
    if not infos and not output.json:
        output.say(f"No consumers defined; create one with `jetspark consumer add {stream}`")
        return
    show_consumers(output, f"Consumers of {stream}", infos)


def show_consumers(output: Output, title: str, infos: list[ConsumerInfo]) -> None:
    """Write a list of consumers by name."""
    ordered = sorted(infos, key=lambda info: info.name)
    if output.json:
        output.values(to_wire(info) for info in ordered)
        return
    columns = (
        "Name", Column("Description", long=True), "Created", Column("Ack Pending", number=True),
        Column("Unprocessed", number=True), Column("Last Delivery", number=True),
    )  # fmt: skip
    rows = [
        (
            info.name,
            info.config.description,
            show_time(info.created),
            f"{info.num_ack_pending:,}",
            f"{info.num_pending:,}",
            age(info.time, info.delivered.last_active),
        )
        for info in ordered
    ]
    output.table(title, columns, rows)


async def consumer_info(session: Session, *, stream: str, name: str) -> None:
    """Show the configuration and state of a consumer."""
    show_info(session.output, (await session.consumer(stream, name)).cached_info)


async def consumer_state(session: Session, *, stream: str, name: str) -> None:
    """Show the state of a consumer."""
    found = await session.consumer(stream, name)
    show_info(session.output, found.cached_info, state_only=True)


def show_info(output: Output, info: ConsumerInfo, *, state_only: bool = False) -> None:
    """Write what `info` shows."""
    if output.json:
        output.value(to_wire(info))
        return
    sections: list[tuple[str, Fields]] = []
    if not state_only:
        sections.append(("Configuration", _configuration(info)))
        sections.append(("Metadata", metadata_fields(info.config.metadata)))
    if info.cluster is not None and info.cluster.name:
        sections.append(("Cluster Information", cluster_fields(info.cluster, info.time)))
    sections.append(("State", _state(info)))
    what = "State" if state_only else "Information"
    output.fields(
        f"{what} for Consumer {info.stream_name} > {info.name} created {show_time(info.created)}",
        sections,
    )


def _start(config: ConsumerConfig) -> str:
    if config.deliver_policy == DeliverPolicy.BY_START_SEQUENCE:
        return f"From Sequence {config.opt_start_seq:,}"
    if config.deliver_policy == DeliverPolicy.BY_START_TIME:
        return f"Since {show_time(config.opt_start_time)}"
    return config.deliver_policy.value.replace("_", " ").title()


def _seconds(value: float) -> str:
    return show_seconds(value) if value else ""


def _configuration(info: ConsumerInfo) -> list[tuple[str, object]]:
    config = info.config
    push = bool(config.deliver_subject)
    acks = config.ack_policy != AckPolicy.NONE
    grouped = config.priority_policy != "none"
    paused = ""
    if config.pause_until is not None:
        rest = f"{show_seconds(info.pause_remaining)} remaining" if info.paused else "passed"
        paused = f"{show_time(config.pause_until)} ({rest})"
    return [
        ("Name", info.name),
        ("Durable Name", config.durable if config.durable != info.name else ""),
        ("Description", config.description),
        ("Delivery Subject", config.deliver_subject),
        ("Pull Mode", "" if push else "true"),
        ("Filter Subject", config.filter_subject),
        ("Filter Subjects", ", ".join(config.filter_subjects)),
        ("Deliver Policy", _start(config)),
        ("Deliver Queue Group", config.deliver_group if push else ""),
        ("Ack Policy", config.ack_policy.value.capitalize()),
        ("Ack Wait", _seconds(config.ack_wait) if acks else ""),
        ("Replay Policy", config.replay_policy.value.capitalize()),
        ("Maximum Deliveries", "" if config.max_deliver == -1 else f"{config.max_deliver:,}"),
        ("Sampling Rate", config.sample_freq),
        (
            "Rate Limit",
            f"{format_bytes(config.rate_limit_bps // 8)} / second"
            if config.rate_limit_bps else "",
        ),
        ("Max Ack Pending", f"{config.max_ack_pending:,}" if config.max_ack_pending > 0 else ""),
        ("Max Waiting Pulls", f"{config.max_waiting:,}" if config.max_waiting else ""),
        ("Idle Heartbeat", _seconds(config.idle_heartbeat)),
        ("Flow Control", ("true" if config.flow_control else "false") if push else ""),
        ("Headers Only", "true" if config.headers_only else ""),
        ("Inactive Threshold", _seconds(config.inactive_threshold)),
        ("Max Pull Expire", _seconds(config.max_expires)),
        ("Max Pull Batch", f"{config.max_batch:,}" if config.max_batch else ""),
        ("Max Pull Bytes", format_bytes(config.max_bytes) if config.max_bytes else ""),
        ("Backoff", ", ".join(map(show_seconds, config.backoff))),
        ("Replicas", config.num_replicas or ""),
        ("Memory Storage", "true" if config.mem_storage else ""),
        ("Paused Until Deadline", paused),
        ("Priority Policy", config.priority_policy.value if grouped else ""),
        ("Priority Groups", ", ".join(config.priority_groups)),
        ("Pinned TTL", _seconds(config.priority_timeout)),
    ]  # fmt: skip


def _position(at: SequenceInfo, info: ConsumerInfo, what: str) -> str:
    text = f"Consumer sequence: {at.consumer_seq:,} Stream sequence: {at.stream_seq:,}"
    if at.last_active is not None:
        text += f" {what}: {age(info.time, at.last_active)} ago"
    return text


def _state(info: ConsumerInfo) -> list[tuple[str, object]]:
    config = info.config
    acks = config.ack_policy != AckPolicy.NONE
    outstanding = f"{info.num_ack_pending:,}"
    if config.max_ack_pending > 0:
        outstanding += f" out of maximum {config.max_ack_pending:,}"
    most = f"{config.max_waiting:,}" if config.max_waiting else "unlimited"
    interest = ""
    if config.deliver_subject:
        group = f" using Queue Group {config.deliver_group}" if config.deliver_group else ""
        interest = f"Active{group}" if info.push_bound else "No interest"
    return [
        ("Last Delivered Message", _position(info.delivered, info, "Last delivery")),
        ("Acknowledgment Floor", _position(info.ack_floor, info, "Last Ack") if acks else ""),
        ("Outstanding Acks", outstanding if acks else ""),
        ("Redelivered Messages", f"{info.num_redelivered:,}" if acks else ""),
        ("Unprocessed Messages", f"{info.num_pending:,}"),
        (
            "Waiting Pulls",
            "" if config.deliver_subject else f"{info.num_waiting:,} of maximum {most}",
        ),
        ("Active Interest", interest),
        ("Paused For", show_seconds(info.pause_remaining) if info.paused else ""),
        (
            "Pinned Clients",
            [
                f"{one.group}: {one.pinned_client_id or 'none'}"
                for one in info.priority_groups
            ] if config.priority_policy == "pinned_client" else "",
        ),
        ("Stopped", info.stopped),
    ]  # fmt: skip


async def consumer_report(session: Session, *, stream: str, raw: bool, leaders: bool) -> None:
    """Show the statistics of all consumers of a stream."""
    of = await session.stream(stream)
    messages = of.cached_info.state.messages
    infos = sorted([one async for one in of.consumers()], key=lambda info: info.name)
    output = session.output
    if output.json:
        output.values(to_wire(info) for info in infos)
        return
    if not infos:
        output.say(f"No consumers defined; create one with `jetspark consumer add {stream}`")
        return
    number = str if raw else "{:,}".format
    rows = []
    for info in infos:
        pending = number(info.num_pending)
        if info.num_pending and not raw:
            pending += f" / {min(100, info.num_pending * 100 // max(messages, 1))}%"
        config = info.config
        rows.append(
            (
                info.name,
                "Push" if config.deliver_subject else "Pull",
                config.ack_policy.value.capitalize(),
                _seconds(config.ack_wait) if config.ack_policy != AckPolicy.NONE else "",
                number(info.num_ack_pending),
                number(info.num_redelivered),
                pending,
                number(info.ack_floor.stream_seq),
                info.cluster.leader if info.cluster else "",
            )
        )
    columns = (
        "Consumer", "Mode", "Ack Policy", "Ack Wait", Column("Ack Pending", number=True),
        Column("Redelivered", number=True), Column("Unprocessed", number=True),
        Column("Ack Floor", number=True), "Leader",
    )  # fmt: skip
    output.table(f"Consumer report for {stream} with {len(rows):,} consumers", columns, rows)
    if leaders:
        output.line()
        show_leaders(output, [info.cluster for info in infos], "Consumers")
