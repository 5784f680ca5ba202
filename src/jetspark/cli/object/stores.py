"""`object ls`, `add`, `edit`, `info`, `del`, `watch`, `seal`."""

import base64
import binascii
from typing import Any, Final

import click

from jetspark.cli.bucket_options import changed_settings, common_settings
from jetspark.cli.configuration import show_difference
from jetspark.cli.confirm import confirm
from jetspark.cli.creation import Creation
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.following import follow
from jetspark.cli.output import Column, Fields, Output, visible
from jetspark.cli.quantities import show_limit, show_seconds, show_time
from jetspark.cli.refusals import not_found
from jetspark.cli.session import Session
from jetspark.cli.stream.inspecting import age, cluster_fields, metadata_fields
from jetspark.client.jetstream.objects.config import ObjectStoreConfig
from jetspark.client.jetstream.objects.info import ObjectInfo, ObjectStoreStatus
from jetspark.client.jetstream.objects.store import ObjectStore
from jetspark.client.models.base import to_wire
from jetspark.errors import BucketNotFound, ObjectNotFound
from jetspark.units import format_bytes

_SETTINGS: Final = (
    "description", "ttl", "max_bytes", "storage", "replicas", "placement", "mirror", "compression",
    "metadata",
)  # fmt: skip


async def open_store(session: Session, name: str) -> ObjectStore:
    """An object store; if it does not exist, the error suggests what was meant."""
    try:
        return await session.jetstream.object_store(name)
    except BucketNotFound:
        known = [one async for one in session.jetstream.object_store_names()]
    raise not_found("object store", name, known, "jetspark object ls")


async def find_object(store: ObjectStore, name: str) -> ObjectInfo:
    """An object; if it does not exist, the error suggests what was meant."""
    try:
        return await store.info(name)
    except ObjectNotFound:
        known = [one.name async for one in store.list()]
    raise not_found("object", name, known, f"jetspark object ls {store.bucket}")


async def list_stores(session: Session, *, bucket: str | None, names: bool) -> None:
    """List the object stores, or the objects of one."""
    if bucket:
        await _list_objects(session, bucket, names=names)
        return
    output = session.output
    if names:
        _show_names(output, [one async for one in session.jetstream.object_store_names()])
        return
    found = [one async for one in session.jetstream.object_stores()]
    found.sort(key=lambda status: status.size)
    if output.json:
        output.values(map(status_fields, found))
        return
    if not found:
        output.say("No Object Store buckets found; create one with `jetspark object add`")
        return
    columns = (
        "Bucket", Column("Description", long=True), "Created", Column("Size", number=True),
        Column("Last Update", number=True),
    )  # fmt: skip
    rows = [
        (
            one.bucket,
            one.config.description,
            show_time(one.stream_info.created),
            format_bytes(one.size),
            age(one.stream_info.time, one.stream_info.state.last_time),
        )
        for one in found
    ]
    output.table("Object Store Buckets", columns, rows)


async def _list_objects(session: Session, bucket: str, *, names: bool) -> None:
    store = await open_store(session, bucket)
    output = session.output
    found = sorted([one async for one in store.list()], key=lambda info: info.name)
    if names:
        _show_names(output, [one.name for one in found])
    elif output.json:
        output.values(found)
    elif not found:
        output.say("No entries found")
    else:
        rows = [(one.name, format_bytes(one.size), show_time(one.time)) for one in found]
        columns = ("Name", Column("Size", number=True), "Time")
        output.table(f"Bucket Contents of {bucket}", columns, rows)


def _show_names(output: Output, names: list[str]) -> None:
    if output.json:
        output.values(sorted(names))
        return
    for name in sorted(names):
        output.line(visible(name) if output.is_terminal else name)


async def add_store(session: Session, *, bucket: str, **flags: Any) -> None:
    """Create an object store."""
    config = ObjectStoreConfig(bucket)
    settings: Any = common_settings(flags, config)
    creation = Creation()
    store = await session.jetstream.create_object_store(config.replace(**settings))
    status = await store.status()
    if not session.output.json:
        session.output.say(creation.sentence(f"Object store {bucket}", status.stream_info))
    show_status(session.output, status)


async def edit_store(session: Session, *, bucket: str, dry_run: bool, **flags: Any) -> None:
    """Change the configuration of an object store."""
    output = session.output
    old = (await (await open_store(session, bucket)).status()).config
    settings: Any = common_settings(flags, old)
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
    store = await session.jetstream.update_object_store(bucket, **settings)
    if not output.json:
        output.say(f"Object store {bucket} was updated")
    show_status(output, await store.status())


async def store_info(session: Session, *, bucket: str, name: str | None) -> None:
    """Show an object store, or an object."""
    store = await open_store(session, bucket)
    if name is None:
        show_status(session.output, await store.status())
    else:
        show_object(session.output, await find_object(store, name))


def status_fields(status: ObjectStoreStatus) -> dict[str, Any]:
    """An object store as JSON."""
    return {
        "bucket": status.bucket,
        "bytes": status.size,
        "sealed": status.sealed,
        "config": to_wire(status.config),
        "stream": to_wire(status.stream_info),
    }


def show_status(output: Output, status: ObjectStoreStatus) -> None:
    """Write what `info` shows of a store."""
    if output.json:
        output.value(status_fields(status))
        return
    config, info = status.config, status.stream_info
    fields: Fields = [
        ("Bucket Name", status.bucket),
        ("Description", config.description),
        ("Replicas", config.replicas),
        ("TTL", show_seconds(config.ttl) if config.ttl else "unlimited"),
        ("Sealed", "true" if status.sealed else "false"),
        ("Size", format_bytes(status.size)),
        ("Maximum Bucket Size", show_limit(config.max_bytes, format_bytes(config.max_bytes))),
        ("Compressed", "true" if config.compression else "false"),
        ("Storage", config.storage.value.capitalize()),
        ("Backing Store Kind", status.backing_store),
        ("JetStream Stream", info.config.name),
        ("Mirror", config.mirror.name if config.mirror else ""),
    ]
    sections: list[tuple[str, Fields]] = [("", fields)]
    if info.cluster is not None and info.cluster.name:
        sections.append(("Cluster Information", cluster_fields(info.cluster, info.time)))
    sections.append(("Metadata", metadata_fields(config.metadata)))
    title = f"Information for Object Store Bucket {status.bucket} created"
    output.fields(f"{title} {show_time(info.created)}", sections)


def show_object(output: Output, info: ObjectInfo) -> None:
    """Write what `info` shows of an object."""
    if output.json:
        output.value(info)
        return
    link = info.link
    fields: Fields = [
        ("Description", info.description),
        ("Size", f"{format_bytes(info.size)} ({info.size:,} bytes)"),
        ("Modification Time", show_time(info.time)),
        ("Chunks", f"{info.chunks:,}"),
        ("Digest", _digest(info.digest)),
        ("Link to", "" if link is None else f"{link.bucket} > {link.name or 'the whole store'}"),
        ("Deleted", "true" if info.deleted else ""),
    ]
    headers: Fields = [(name, texts) for name, texts in (info.headers or {}).items()]
    metadata: Fields = list((info.metadata or {}).items())
    sections = [("", fields), ("Headers", headers), ("Metadata", metadata)]
    output.fields(f"Object information for {info.bucket} > {info.name}", sections)


def _digest(text: str) -> str:
    """A digest in hexadecimal, as `sha256sum` prints it."""
    kind, _, encoded = text.partition("=")
    try:
        return f"{kind} {base64.urlsafe_b64decode(encoded + '==').hex()}" if encoded else text
    except binascii.Error:
        return text


async def delete(session: Session, *, bucket: str, name: str | None, force: bool) -> None:
    """Delete an object, or an object store."""
    store = await open_store(session, bucket)
    output = session.output
    if name is None:
        size = format_bytes((await store.status()).size)
        confirm(f"Delete object store {bucket} with {size}?", force=force)
        await session.jetstream.delete_object_store(bucket)
        output.done(f"Object store {bucket} was deleted", bucket=bucket, removed=True)
        return
    info = await find_object(store, name)
    confirm(f"Delete {format_bytes(info.size)} object {bucket} > {name}?", force=force)
    await store.delete(name)
    output.done(f"Removed {bucket} > {visible(name)}", bucket=bucket, name=name, removed=True)


async def seal_store(session: Session, *, bucket: str, force: bool) -> None:
    """Make an object store unchangeable."""
    store = await open_store(session, bucket)
    confirm(f"Really seal object store {bucket}, which can not be undone?", force=force)
    await store.seal()
    if session.output.json:
        session.output.value(status_fields(await store.status()))
    else:
        session.output.say(f"{bucket} has been sealed")


async def watch_store(session: Session, *, bucket: str, updates: bool, count: int) -> None:
    """Follow the objects until interrupted."""
    store = await open_store(session, bucket)
    output = session.output
    async with await store.watch(updates_only=updates) as watcher:
        if not output.json:
            await follow(watcher, count, lambda info: _show(output, info))
            return
        with output.emitting() as emit:
            await follow(watcher, count, emit)


def _show(output: Output, info: ObjectInfo) -> None:
    name = f"{info.bucket} > {visible(info.name)}"
    if info.deleted:
        output.line(f"[{show_time(info.time)}] {output.style('DEL', 'red')} {name}")
    else:
        output.line(
            f"[{show_time(info.time)}] {output.style('PUT', 'green')} {name}: "
            f"{format_bytes(info.size)} in {info.chunks:,} chunks"
        )
