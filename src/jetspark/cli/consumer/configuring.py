"""`consumer add`, `edit`, `copy`: configurations from options and files."""

import re
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from jetspark.api import consumer as wire
from jetspark.api.base import Timestamp
from jetspark.api.enums import AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy
from jetspark.cli.configuration import difference, read_config, save_config, show_difference
from jetspark.cli.confirm import ask, confirm
from jetspark.cli.consumer.inspecting import show_info
from jetspark.cli.creation import Creation
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.quantities import parse_duration, split_names
from jetspark.cli.session import Session
from jetspark.client.models.base import check_applied, from_wire, to_wire
from jetspark.client.models.consumer import ConsumerConfig
from jetspark.client.models.durations import to_wire_ns
from jetspark.clock import SystemClock
from jetspark.errors import ConsumerExists
from jetspark.units import parse_rfc3339

_FIELDS: Final = {
    "description": "description",
    "max_deliver": "max_deliver",
    "max_ack_pending": "max_ack_pending",
    "headers_only": "headers_only",
    "max_pull_batch": "max_batch",
    "max_pull_bytes": "max_bytes",
    "target": "deliver_subject",
    "replicas": "num_replicas",
    "max_waiting": "max_waiting",
    "deliver_group": "deliver_group",
    "flow_control": "flow_control",
    "bps": "rate_limit_bps",
    "memory": "mem_storage",
}
_DURATIONS: Final = {
    "ack_wait": "ack_wait",
    "max_pull_expire": "max_expires",
    "inactive_threshold": "inactive_threshold",
    "heartbeat": "idle_heartbeat",
    "pinned_ttl": "priority_timeout",
}
_GROUPS: Final = {
    "pinned_groups": PriorityPolicy.PINNED_CLIENT,
    "overflow_groups": PriorityPolicy.OVERFLOW,
    "prioritized_groups": PriorityPolicy.PRIORITIZED,
}
_STARTS: Final = {
    "all": DeliverPolicy.ALL,
    "new": DeliverPolicy.NEW,
    "last": DeliverPolicy.LAST,
    "subject": DeliverPolicy.LAST_PER_SUBJECT,
    "last_per_subject": DeliverPolicy.LAST_PER_SUBJECT,
}


async def add_consumer(
    session: Session, *, stream: str, name: str | None, config: Path | None, validate: bool,
    save: Path | None, defaults: bool, **flags: Any,
) -> None:  # fmt: skip
    """Create a consumer."""
    if config is None:
        base = wire.ConsumerConfig(
            ack_policy=AckPolicy.NONE if flags["target"] else AckPolicy.EXPLICIT
        )
    else:
        base = read_config(config, wire.ConsumerConfig)
    ephemeral = flags["ephemeral"]
    name = name or base.durable_name or base.name
    if not name and not ephemeral and not defaults:
        name = ask("Name of the consumer", option="CONSUMER: its name (or --ephemeral)")
    made = _changed(replace(base, name=name, durable_name="" if ephemeral else name), flags)
    if validate:
        session.output.done(f"The configuration of {name} is valid", consumer=name, valid=True)
        return
    if save is not None:
        save_config(session.output, save, made)
        return
    await _create(session, stream, made)


async def _create(session: Session, stream: str, config: wire.ConsumerConfig) -> None:
    of = await session.stream(stream)
    creation = Creation()
    try:
        made = await of.create_consumer(from_wire(ConsumerConfig, config))
    except ConsumerExists as error:
        raise click.ClickException(
            f"{error}; `jetspark consumer edit {stream} {config.name}` changes it"
        ) from error
    if not session.output.json:
        what = f"Consumer {made.name} of stream {stream}"
        session.output.say(creation.sentence(what, made.cached_info))
    show_info(session.output, made.cached_info)


async def edit_consumer(
    session: Session, *, stream: str, name: str, config: Path | None, force: bool, dry_run: bool,
    **flags: Any,
) -> None:  # fmt: skip
    """Change the configuration of a consumer."""
    found = await session.consumer(stream, name)
    old = to_wire(found.config)
    base = old
    if config is not None:
        base = read_config(config, wire.ConsumerConfig)
        base = replace(base, name=old.name, durable_name=old.durable_name)
    new = _changed(base, flags)
    changed = difference(old, new)
    output = session.output
    if not changed:
        output.done("No difference in configuration", consumer=name, changed={}, applied=False)
        return
    if output.json and dry_run:
        differences = {key: {"old": was, "new": now} for key, (was, now) in changed.items()}
        output.value({"consumer": name, "changed": differences, "applied": False})
    elif not output.json:
        show_difference(output, changed)
    if dry_run:
        # As `diff` does, and natscli.
        raise click.exceptions.Exit(FAILED)
    confirm(f"Really edit consumer {name} of stream {stream}?", force=force)
    asked = from_wire(ConsumerConfig, new)
    answer = (await session.jetstream.update_consumer(stream, asked)).cached_info
    check_applied(changed, asked, answer.config, f"consumer {name}")
    if not output.json:
        output.say(f"Consumer {name} was updated")
    show_info(output, answer)


async def copy_consumer(
    session: Session, *, stream: str, source: str, destination: str, **flags: Any
) -> None:
    """Create a consumer with the configuration of another."""
    found = await session.consumer(stream, source)
    old = to_wire(found.config)
    kept = {key: text for key, text in old.metadata.items() if not key.startswith("_nats.")}
    durable = destination if old.durable_name and not flags["ephemeral"] else ""
    base = replace(old, name=destination, durable_name=durable, metadata=kept)
    await _create(session, stream, _changed(base, flags))


def _changed(config: wire.ConsumerConfig, flags: dict[str, Any]) -> wire.ConsumerConfig:
    """The configuration with the options that were given."""
    given = {name: value for name, value in flags.items() if value not in {None, ()}}
    changes: dict[str, Any] = {
        field: given[name] for name, field in _FIELDS.items() if name in given
    }
    for name, field in _DURATIONS.items():
        if name in given:
            changes[field] = to_wire_ns(given[name], name)
    if "sample" in given:
        changes["sample_freq"] = f"{given['sample']}%" if given["sample"] else ""
    if "filters" in given:
        changes |= _filters(split_names(given["filters"]))
    if "metadata" in given:
        changes["metadata"] = {**config.metadata, **dict(given["metadata"])}
    if "ack" in given:
        changes["ack_policy"] = AckPolicy(given["ack"])
    if "replay" in given:
        changes["replay_policy"] = ReplayPolicy(given["replay"])
    if "deliver" in given:
        changes |= _start(given["deliver"])
    if "pause" in given:
        changes["pause_until"] = Timestamp(until_ns(given["pause"], "--pause"))
    if "backoff" in given:
        changes["backoff"] = _backoff(given)
    if given.get("pull") and given.get("target"):
        raise click.UsageError("--pull and --target exclude each other: give one of them")
    groups = [name for name in _GROUPS if name in given]
    if len(groups) > 1:
        raise click.UsageError("priority groups have one policy: give one of the three options")
    for name in groups:
        changes["priority_groups"] = split_names(given[name])
        changes["priority_policy"] = _GROUPS[name]
    return replace(config, **changes)


def _filters(subjects: tuple[str, ...]) -> dict[str, Any]:
    """One subject in the older field, which every server knows."""
    if len(subjects) == 1:
        return {"filter_subject": subjects[0], "filter_subjects": ()}
    return {"filter_subject": "", "filter_subjects": subjects}


def _start(policy: str) -> dict[str, Any]:
    if policy in _STARTS:
        return {"deliver_policy": _STARTS[policy]}
    if re.fullmatch(r"\d{1,19}", policy, re.ASCII):
        return {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": int(policy)}
    try:
        at = parse_rfc3339(policy)
    except ValueError:
        try:
            at = SystemClock().now_ns() - parse_duration(policy)
        except ValueError:
            raise click.BadParameter(
                f"{policy!r}: expected all, new, last, subject, an age such as 1h, a time such as "
                "2026-11-15T12:00:00Z, or a sequence",
                param_hint="--deliver",
            ) from None
    return {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": Timestamp(at)}


def until_ns(text: str, hint: str) -> int:
    """A time in the future: a time, or a duration from now."""
    try:
        return parse_rfc3339(text)
    except ValueError:
        pass
    try:
        return SystemClock().now_ns() + parse_duration(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a time such as 2026-11-15T12:00:00Z nor a duration such as 1h",
            param_hint=hint,
        ) from None


def _backoff(given: dict[str, Any]) -> tuple[int, ...]:
    """Waits from the shortest to the longest, with equal steps."""
    if given["backoff"] == "none":
        return ()
    least, most = given["backoff_min"], given["backoff_max"]
    if least > most:
        raise click.UsageError("--backoff-min is longer than --backoff-max")
    steps = given["backoff_steps"]
    if steps == 1:
        return (to_wire_ns(least, "backoff_min"),)
    return tuple(
        to_wire_ns(least + (most - least) * step / (steps - 1), "backoff") for step in range(steps)
    )
