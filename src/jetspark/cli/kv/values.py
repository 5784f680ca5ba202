"""`kv get`, `put`, `create`, `update`, `del`, `purge`, `history`, `revert`, `snapshot`."""

import sys
from collections.abc import Iterable
from typing import Any

import click

from jetspark.api.base import Timestamp
from jetspark.cli.confirm import confirm
from jetspark.cli.kv.buckets import open_bucket
from jetspark.cli.kv.entries import entry_fields, shown_value
from jetspark.cli.output import Column, Output, visible
from jetspark.cli.quantities import show_time
from jetspark.cli.session import Session
from jetspark.cli.standard_input import chunks
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.config import is_pattern
from jetspark.client.jetstream.kv.entry import Entry
from jetspark.client.pager import Pager
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence
from jetspark.units import format_bytes


async def get_value(
    session: Session, *, bucket: str, key: str, revision: int | None, raw: bool
) -> None:
    """Show the value of a key."""
    store = await open_bucket(session, bucket)
    entry = await _entry(store, key, revision or 0)
    output = session.output
    if output.json:
        output.value(entry_fields(entry))
    elif raw:
        _write_raw(output, entry.value)
    else:
        head = (
            f"{bucket} > {visible(key)} revision: {entry.revision} created @ "
            f"{show_time(entry.time)}"
        )
        output.line(output.style(head, "bold"))
        output.line()
        output.data(entry.value)
        output.line()


async def _entry(store: KeyValue, key: str, revision: int) -> Entry:
    """The entry of a key; the error says where to look."""
    try:
        return await store.get(key, revision=revision)
    except KeyNotFound as error:
        if revision or error.revision:
            error.add_note(f"`jetspark kv history {store.bucket} {key}` lists its revisions")
        else:
            error.add_note(f"`jetspark kv ls {store.bucket}` lists the keys")
        raise


def _write_raw(output: Output, value: bytes) -> None:
    """The exact bytes, so that files survive; on a terminal a harmless form."""
    if output.is_terminal:
        output.data(value)
    else:
        click.echo(value, nl=False)


async def put_value(
    session: Session, *, bucket: str, key: str, value: str | None, ttl: float | None
) -> None:
    """Set a key."""
    store = await open_bucket(session, bucket)
    revision = await store.put(key, await _given(value), ttl=ttl)
    _done(session.output, store, key, value, revision)


async def create_value(
    session: Session, *, bucket: str, key: str, value: str | None, ttl: float | None
) -> None:
    """Set a key that has no value."""
    store = await open_bucket(session, bucket)
    try:
        revision = await store.create(key, await _given(value), ttl=ttl)
    except KeyExists as error:
        error.add_note("change it with `kv update` or `kv put`")
        raise
    _done(session.output, store, key, value, revision)


async def update_value(
    session: Session, *, bucket: str, key: str, value: str, revision: int, ttl: float | None
) -> None:
    """Set a key if its latest revision is the given one."""
    store = await open_bucket(session, bucket)
    try:
        made = await store.update(key, value.encode(), revision, ttl=ttl)
    except WrongLastSequence as error:
        error.add_note(f"read it again with `jetspark kv get {bucket} {key}`")
        raise
    _done(session.output, store, key, value, made)


async def _given(value: str | None) -> bytes:
    """The value, or standard input."""
    if value is not None:
        return value.encode(errors="surrogateescape")
    if sys.stdin.isatty():
        raise click.UsageError("missing VALUE: give it, or redirect standard input")
    return b"".join([piece async for piece in chunks()])


def _done(output: Output, store: KeyValue, key: str, value: str | None, revision: int) -> None:
    """Report a new revision; a value that was typed is repeated, as natscli does."""
    if not output.json and value is not None:
        output.line(value)
    output.done(
        f"{store.bucket} > {visible(key)} revision: {revision}",
        bucket=store.bucket,
        key=key,
        revision=revision,
    )


async def delete(session: Session, *, bucket: str, key: str | None, force: bool) -> None:
    """Delete a key, or a bucket."""
    store = await open_bucket(session, bucket)
    output = session.output
    if key is None:
        values = (await store.status()).values
        confirm(f"Delete bucket {bucket} with {values:,} values?", force=force)
        await session.jetstream.delete_key_value(bucket)
        output.done(f"Bucket {bucket} was deleted", bucket=bucket, removed=True)
        return
    confirm(f"Delete {_keys_of(key)} {bucket} > {key}?", force=force)
    revision = await store.delete(key)
    _removed(output, "deleted", store, key, revision)


async def purge_key(
    session: Session, *, bucket: str, key: str, force: bool, ttl: float | None
) -> None:
    """Delete a key and its history."""
    store = await open_bucket(session, bucket)
    confirm(f"Purge {_keys_of(key)} {bucket} > {key} and all history?", force=force)
    revision = await store.purge(key, ttl=ttl)
    _removed(session.output, "purged", store, key, revision)


def _keys_of(key: str) -> str:
    return "all keys that match" if is_pattern(key) else "key"


def _removed(output: Output, word: str, store: KeyValue, key: str, revision: int) -> None:
    text = f"{store.bucket} > {visible(key)} was {word}"
    if not revision:
        text = f"No key of {store.bucket} matches {visible(key)}"
    output.done(text, bucket=store.bucket, key=key, revision=revision, removed=bool(revision))


async def key_history(session: Session, *, bucket: str, key: str) -> None:
    """List what is stored of a key."""
    store = await open_bucket(session, bucket)
    found = await store.history(key)
    if not found:
        error = KeyNotFound(bucket, key)
        error.add_note(f"`jetspark kv ls {bucket}` lists the keys")
        raise error
    show_entries(session.output, f"History for {bucket} > {key}", found)


def show_entries(output: Output, title: str, entries: Iterable[Entry]) -> None:
    """Write a table of entries."""
    if output.json:
        output.values(map(entry_fields, entries))
        return
    columns = (
        "Key", Column("Revision", number=True), "Op", "Created", Column("Length", number=True),
        Column("Value", long=True),
    )  # fmt: skip
    rows = [
        (
            one.key,
            f"{one.revision:,}",
            one.operation.value,
            show_time(one.time),
            format_bytes(one.size),
            shown_value(one) if one.is_put else one.marker_reason,
        )
        for one in entries
    ]
    output.table(title, columns, rows)


async def revert_key(
    session: Session, *, bucket: str, key: str, revision: int, force: bool
) -> None:
    """Set a key to the value of an earlier revision."""
    store = await open_bucket(session, bucket)
    old = await _entry(store, key, revision)
    # The latest entry, which may be a deletion: its revision is what must not change.
    latest = (await store.history(key))[-1].revision
    if latest == revision:
        session.output.done(
            f"{bucket} > {key} has revision {revision} already",
            bucket=bucket, key=key, revision=revision,
        )  # fmt: skip
        return
    confirm(f"Revert {bucket} > {key} to revision {revision}?", force=force)
    made = await store.update(key, old.value, latest)
    _done(session.output, store, key, None, made)


def snapshot_pager(
    store: KeyValue, filters: tuple[str, ...], at: tuple[str, int] | None
) -> Pager[Entry]:
    """The values at one point in time: now, at a revision, or at a time."""
    point: dict[str, Any] = {}
    if at is not None:
        kind, number = at
        point = {"at_revision": number} if kind == "revision" else {"at_time": Timestamp(number)}
    return store.snapshot(*filters, **point)


async def show_snapshot(
    session: Session, *, bucket: str, filters: tuple[str, ...], at: tuple[str, int] | None
) -> None:
    """Show the values of all keys at one point in time."""
    store = await open_bucket(session, bucket)
    output = session.output
    pager = snapshot_pager(store, filters, at)
    if output.json:
        with output.emitting() as emit:
            async for entry in pager:
                emit(entry_fields(entry))
        return
    found = sorted([one async for one in pager], key=lambda entry: entry.key)
    if not found:
        output.say("No keys found")
        return
    show_entries(output, f"Bucket {bucket}", found)
