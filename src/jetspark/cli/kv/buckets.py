"""`kv ls`, `keys`, `add`, `edit`, `info`, `compact`: buckets as a whole."""

from collections.abc import Sequence
from typing import Any, Final

import click

from jetspark.api.stream import ExternalStream, Republish
from jetspark.cli.bucket_options import changed_settings, common_settings
from jetspark.cli.configuration import show_difference
from jetspark.cli.confirm import confirm
from jetspark.cli.creation import Creation
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.kv.entries import entry_fields, shown_value
from jetspark.cli.output import Column, Fields, Output
from jetspark.cli.quantities import show_limit, show_seconds, show_time
from jetspark.cli.refusals import not_found
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import age, cluster_fields, metadata_fields
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.config import KeyValueConfig
from jetspark.client.jetstream.kv.entry import BucketStatus
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamSource
from jetspark.errors import BucketNotFound
from jetspark.units import format_bytes

_SETTINGS: Final = (
    "description", "history", "ttl", "limit_marker_ttl", "max_value_size", "max_bytes", "storage",
    "replicas", "placement", "republish", "mirror", "sources", "compression", "metadata",
)  # fmt: skip


async def open_bucket(session: Session, name: str) -> KeyValue:
    """A bucket; if it does not exist, the error suggests what was meant."""
    try:
        return await session.jetstream.key_value(name)
    except BucketNotFound:
        known = [one async for one in session.jetstream.key_value_names()]
    raise not_found("bucket", name, known, "jetspark kv ls")


async def list_buckets(
    session: Session, *, bucket: str | None, filters: tuple[str, ...], names: bool, verbose: bool,
    display_value: bool,
) -> None:  # fmt: skip
    """List the buckets, or the keys of one."""
    if bucket:
        await list_keys(
            session, bucket=bucket, filters=filters, verbose=verbose, display_value=display_value
        )
        return
    output = session.output
    if names:
        _show_names(output, sorted([one async for one in session.jetstream.key_value_names()]))
        return
    found = [one async for one in session.jetstream.key_values()]
    found.sort(key=lambda status: status.bytes)
    if output.json:
        output.values(map(status_fields, found))
        return
    if not found:
        output.say("No Key-Value buckets found; create one with `jetspark kv add`")
        return
    columns = (
        "Bucket", Column("Description", long=True), "Created", Column("Size", number=True),
        Column("Values", number=True), Column("Last Update", number=True),
    )  # fmt: skip
    output.table("Key-Value Buckets", columns, [_row(status) for status in found])


def _row(status: BucketStatus) -> Sequence[str]:
    info = status.stream_info
    return (
        status.bucket,
        status.config.description,
        show_time(info.created),
        format_bytes(status.bytes),
        f"{status.values:,}",
        age(info.time, info.state.last_time),
    )


async def list_keys(
    session: Session, *, bucket: str, filters: tuple[str, ...], verbose: bool, display_value: bool
) -> None:
    """List the keys of a bucket."""
    store = await open_bucket(session, bucket)
    output = session.output
    if not verbose:
        _show_names(output, sorted([key async for key in store.keys(*filters)]))
        return
    found = sorted([one async for one in store.snapshot(*filters)], key=lambda entry: entry.key)
    if output.json:
        output.values(entry_fields(one, value=display_value) for one in found)
        return
    columns: list[Column | str] = [
        "Key",
        "Created",
        Column("Revision", number=True),
        Column("Size", number=True),
    ]
    rows = [
        [one.key, show_time(one.time), f"{one.revision:,}", format_bytes(one.size)]
        + ([shown_value(one)] if display_value else [])
        for one in found
    ]
    if display_value:
        columns.append(Column("Value", long=True))
    output.table(f"Contents for bucket {bucket}", columns, rows)


def _show_names(output: Output, names: list[str]) -> None:
    if output.json:
        output.values(names)
        return
    for name in names:
        output.line(name)


async def add_bucket(session: Session, *, bucket: str, **flags: Any) -> None:
    """Create a bucket."""
    config = KeyValueConfig(bucket)
    made = config.replace(**_settings(flags, config))
    creation = Creation()
    status = await (await session.jetstream.create_key_value(made)).status()
    if not session.output.json:
        session.output.say(creation.sentence(f"Bucket {bucket}", status.stream_info))
    show_status(session.output, status)


async def edit_bucket(session: Session, *, bucket: str, dry_run: bool, **flags: Any) -> None:
    """Change the configuration of a bucket."""
    output = session.output
    old = (await (await open_bucket(session, bucket)).status()).config
    settings = _settings(flags, old)
    changed = changed_settings(old, old.replace(**settings), _SETTINGS)
    if not changed:
        output.done("No difference in configuration", bucket=bucket, changed={}, applied=False)
        return
    if output.json:
        if dry_run:
            changes = {name: {"old": one[0], "new": one[1]} for name, one in changed.items()}
            output.value({"bucket": bucket, "changed": changes, "applied": False})
    else:
        show_difference(output, changed)
    if dry_run:
        raise click.exceptions.Exit(FAILED)
    store = await session.jetstream.update_key_value(bucket, **settings)
    if not output.json:
        output.say(f"Bucket {bucket} was updated")
    show_status(output, await store.status())


def _settings(flags: dict[str, Any], current: KeyValueConfig) -> Any:
    """The settings for the options that were given."""
    found = common_settings(flags, current)
    for name, field in (
        ("history", "history"),
        ("marker_ttl", "limit_marker_ttl"),
        ("max_value_size", "max_value_size"),
    ):
        if flags[name] is not None:
            found[field] = flags[name]
    if flags["sources"]:
        found["sources"] = tuple(flags["sources"])
    if flags.get("no_mirror"):
        found["mirror"] = None
    if flags.get("mirror"):
        domain = flags["mirror_domain"]
        external = ExternalStream(api=f"$JS.{domain}.API") if domain else None
        found["mirror"] = StreamSource(flags["mirror"], external=external)
    elif flags.get("mirror_domain"):
        raise click.UsageError("--mirror-domain needs --mirror: the bucket to copy")
    if flags["republish_source"] or flags["republish_destination"]:
        old = current.republish or Republish()
        found["republish"] = Republish(
            src=flags["republish_source"] or old.src,
            dest=flags["republish_destination"] or old.dest,
            headers_only=bool(flags["republish_headers"]),
        )
    return found


async def bucket_info(session: Session, *, bucket: str) -> None:
    """Show the configuration and state of a bucket."""
    show_status(session.output, await (await open_bucket(session, bucket)).status())


def status_fields(status: BucketStatus) -> dict[str, Any]:
    """A bucket as JSON: its counts, its configuration, and its stream."""
    return {
        "bucket": status.bucket,
        "values": status.values,
        "bytes": status.bytes,
        "config": to_wire(status.config),
        "stream": to_wire(status.stream_info),
    }


def show_status(output: Output, status: BucketStatus) -> None:
    """Write what `info` shows."""
    if output.json:
        output.value(status_fields(status))
        return
    config, info = status.config, status.stream_info
    republish, size = config.republish, config.max_value_size
    marker_ttl = show_seconds(config.limit_marker_ttl) if config.limit_marker_ttl else ""
    fields: Fields = [
        ("Bucket Name", status.bucket),
        ("Description", config.description),
        ("History Kept", config.history),
        ("Values Stored", f"{status.values:,}"),
        ("Compressed", "true" if config.compression else "false"),
        ("Per-Key TTL Supported", "true" if info.config.allow_msg_ttl else "false"),
        ("Limit Marker TTL", marker_ttl),
        ("Backing Store Kind", status.backing_store),
        ("Bucket Size", format_bytes(status.bytes)),
        ("Maximum Bucket Size", show_limit(config.max_bytes, format_bytes(config.max_bytes))),
        ("Maximum Value Size", show_limit(size, format_bytes(size))),
        ("Maximum Age", show_seconds(config.ttl) if config.ttl else "unlimited"),
        ("JetStream Stream", info.config.name),
        ("Storage", config.storage.value.capitalize()),
        ("Replicas", config.replicas),
        ("Republish", "" if republish is None else f"{republish.src or '>'} to {republish.dest}"),
        ("Mirror", config.mirror.name if config.mirror else ""),
        ("Sources", [source.name for source in config.sources]),
    ]  # fmt: skip
    sections: list[tuple[str, Fields]] = [("", fields)]
    if info.cluster is not None and info.cluster.name:
        sections.append(("Cluster Information", cluster_fields(info.cluster, info.time)))
    sections.append(("Metadata", metadata_fields(config.metadata)))
    output.fields(
        f"Information for Key-Value Store Bucket {status.bucket} created "
        f"{show_time(info.created)}",
        sections,
    )


async def compact_bucket(session: Session, *, bucket: str, older_than: float, force: bool) -> None:
    """Remove the markers of deleted keys."""
    store = await open_bucket(session, bucket)
    confirm(f"Purge all deleted values from bucket {bucket}?", force=force)
    removed = await store.purge_deletes(older_than=older_than)
    session.output.done(
        f"Removed {removed:,} markers of deleted keys from {bucket}",
        bucket=bucket,
        removed=removed,
    )
