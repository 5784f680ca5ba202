"""`stream add`, `edit`, `copy`, `seal`: configurations from options and files."""

from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from jetspark.api import stream as wire
from jetspark.api.enums import Compression, Discard, PersistMode, Retention, Storage
from jetspark.cli.configuration import difference, read_config, save_config, show_difference
from jetspark.cli.confirm import ask, confirm
from jetspark.cli.creation import Creation
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.quantities import split_names
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import show_info
from jetspark.client.models.base import check_applied, from_wire, to_wire
from jetspark.client.models.durations import to_wire_ns
from jetspark.client.models.stream import StreamConfig
from jetspark.errors import StreamExists

# Options whose value is that of a field of the configuration.
_FIELDS: Final = {
    "description": "description",
    "replicas": "num_replicas",
    "max_bytes": "max_bytes",
    "max_consumers": "max_consumers",
    "max_msg_size": "max_msg_size",
    "max_msgs": "max_msgs",
    "max_msgs_per_subject": "max_msgs_per_subject",
    "discard_per_subject": "discard_new_per_subject",
    "allow_batch": "allow_atomic",
    "allow_fast": "allow_batched",
    "allow_counter": "allow_msg_counter",
    "allow_rollup": "allow_rollup_hdrs",
    "allow_direct": "allow_direct",
    "allow_mirror_direct": "mirror_direct",
    "allow_msg_ttl": "allow_msg_ttl",
    "allow_schedules": "allow_msg_schedules",
    "deny_delete": "deny_delete",
    "deny_purge": "deny_purge",
    "first_sequence": "first_seq",
}
_DURATIONS: Final = {
    "max_age": "max_age",
    "dupe_window": "duplicate_window",
    "subject_del_markers_ttl": "subject_delete_marker_ttl",
}
_WORDS: Final[dict[str, tuple[str, Any]]] = {
    "storage": ("storage", Storage),
    "compression": ("compression", Compression),
    "retention": ("retention", Retention),
    "discard": ("discard", Discard),
    "persist_mode": ("persist_mode", PersistMode),
}
_SHORT: Final = {"f": "file", "m": "memory", "work": "workqueue", "workq": "workqueue"}


async def add_stream(
    session: Session, *, name: str | None, config: Path | None, validate: bool,
    save: Path | None, defaults: bool, **flags: Any,
) -> None:  # fmt: skip
    """Create a stream."""
    base = wire.StreamConfig() if config is None else read_config(config, wire.StreamConfig)
    name = name or base.name or ask("Name of the stream", option="STREAM: the name of the stream")
    if config is None and flags["allow_direct"] is None:
        flags["allow_direct"] = True  # natscli's default; every client reads faster with it
    made = _changed(replace(base, name=name), flags)
    if not (made.subjects or made.mirror or made.sources):
        if defaults:
            made = replace(made, subjects=(name,))
        else:
            subjects = ask("Subjects to store", option="--subjects (or --mirror, --source)")
            made = replace(made, subjects=split_names([subjects]))
    if validate:
        session.output.done(f"The configuration of {name} is valid", stream=name, valid=True)
        return
    if save is not None:
        save_config(session.output, save, made)
        return
    await _create(session, made)


async def _create(session: Session, config: wire.StreamConfig) -> None:
    creation = Creation()
    try:
        stream = await session.jetstream.create_stream(from_wire(StreamConfig, config))
    except StreamExists as error:
        raise click.ClickException(
            f"{error}; `jetspark stream edit {config.name}` changes it"
        ) from error
    if not session.output.json:
        session.output.say(creation.sentence(f"Stream {config.name}", stream.cached_info))
    show_info(session.output, stream.cached_info)


async def edit_stream(
    session: Session, *, name: str, config: Path | None, force: bool, dry_run: bool, **flags: Any
) -> None:
    """Change the configuration of a stream."""
    stream = await session.stream(name)
    old = to_wire(stream.config)
    base = old
    if config is not None:
        base = replace(read_config(config, wire.StreamConfig), name=name)
    new = _changed(base, flags, edit=True)
    changed = difference(old, new)
    output = session.output
    if not changed:
        output.done("No difference in configuration", stream=name, changed={}, applied=False)
        return
    if output.json and dry_run:
        _show_changes(session, name, changed, applied=False)
    elif not output.json:
        show_difference(output, changed)
    if dry_run:
        # As `diff` does, and natscli.
        raise click.exceptions.Exit(FAILED)
    confirm(f"Really edit stream {name}?", force=force)
    asked = from_wire(StreamConfig, new)
    answer = (await session.jetstream.update_stream(asked)).cached_info
    check_applied(changed, asked, answer.config, f"stream {name}")
    if output.json:
        output.value(to_wire(answer))
        return
    output.say(f"Stream {name} was updated")
    show_info(output, answer)


async def copy_stream(session: Session, *, source: str, destination: str, **flags: Any) -> None:
    """Create a stream with the configuration of another; messages are not copied."""
    origin = await session.stream(source)
    base = replace(to_wire(origin.config), name=destination)
    kept = {key: text for key, text in base.metadata.items() if not key.startswith("_nats.")}
    await _create(session, _changed(replace(base, metadata=kept), flags))


async def seal_stream(session: Session, *, name: str, force: bool) -> None:
    """Make a stream unchangeable."""
    stream = await session.stream(name)
    confirm(f"Really seal stream {name}, which can not be undone?", force=force)
    info = await stream.update(sealed=True)
    if session.output.json:
        session.output.value(to_wire(info))
    else:
        session.output.say(f"Stream {name} was sealed: it accepts no messages, no deletes")


def _show_changes(
    session: Session, name: str, changed: dict[str, tuple[Any, Any]], *, applied: bool
) -> None:
    session.output.value(
        {
            "stream": name,
            "changed": {key: {"old": old, "new": new} for key, (old, new) in changed.items()},
            "applied": applied,
        }
    )


def _changed(
    config: wire.StreamConfig, flags: dict[str, Any], *, edit: bool = False
) -> wire.StreamConfig:
    """The configuration with the options that were given."""
    given = {name: value for name, value in flags.items() if value not in {None, ()}}
    changes: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        if name in given:
            changes[field] = given[name]
    for name, field in _DURATIONS.items():
        if flags.get(name) is not None:
            changes[field] = to_wire_ns(flags[name], name)
    for name, (field, words) in _WORDS.items():
        if name in given:
            changes[field] = words(_SHORT.get(given[name], given[name]))
    for field in (
        "max_msgs",
        "max_msgs_per_subject",
        "max_consumers",
        "max_bytes",
        "max_msg_size",
    ):
        if changes.get(field) == 0:
            changes[field] = -1
    if "ack" in given:
        changes["no_ack"] = not given["ack"]
    if given.get("discard_per_subject"):
        changes["discard"] = Discard.NEW
    if flags["subjects"]:
        changes["subjects"] = split_names(flags["subjects"])
    if flags["metadata"]:
        changes["metadata"] = {**config.metadata, **dict(flags["metadata"])}
    changes.update(_parts(config, flags))
    if edit:
        for flag, field in (
            ("no_mirror", "mirror"),
            ("no_transform", "subject_transform"),
            ("no_republish", "republish"),
        ):
            if flags[flag]:
                changes[field] = None
    return replace(config, **changes)


def _parts(config: wire.StreamConfig, flags: dict[str, Any]) -> dict[str, Any]:
    """The fields that consist of several options."""
    changes: dict[str, Any] = {}
    if flags["mirror"]:
        changes["mirror"] = wire.StreamSource(name=flags["mirror"])
    if flags["sources"]:
        known = {source.name: source for source in config.sources}
        changes["sources"] = tuple(
            known.get(name) or wire.StreamSource(name=name)
            for name in split_names(flags["sources"])
        )
    if flags["tags"] or flags["cluster"] is not None:
        old = config.placement or wire.Placement()
        cluster = old.cluster if flags["cluster"] is None else flags["cluster"]
        tags = tuple(flags["tags"]) or old.tags
        changes["placement"] = (
            replace(old, cluster=cluster, tags=tags) if cluster or tags else None
        )
    if flags["transform_source"] or flags["transform_destination"]:
        transform = config.subject_transform or wire.SubjectTransform()
        changes["subject_transform"] = replace(
            transform,
            src=flags["transform_source"] or transform.src,
            dest=flags["transform_destination"] or transform.dest,
        )
    if flags["republish_source"] or flags["republish_destination"]:
        republish = config.republish or wire.Republish()
        changes["republish"] = replace(
            republish,
            src=flags["republish_source"] or republish.src,
            dest=flags["republish_destination"] or republish.dest,
            headers_only=bool(flags["republish_headers"]),
        )
    inactive, pending = (
        flags.get("limit_consumer_inactive"), flags.get("limit_consumer_max_pending")
    )  # fmt: skip
    if inactive is not None or pending is not None:
        limits = config.consumer_limits
        changes["consumer_limits"] = replace(
            limits,
            inactive_threshold=limits.inactive_threshold
            if inactive is None
            else to_wire_ns(inactive, "limit_consumer_inactive"),
            max_ack_pending=limits.max_ack_pending if pending is None else pending,
        )
    return changes
