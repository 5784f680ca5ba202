"""`kv export` and `import`: a bucket in a file, one JSON object per line.

The first line has the configuration, the last one the number of entries between them: a truncated
file is refused.
"""

import asyncio
import base64
import binascii
import hashlib
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import msgspec

from jetspark.cli.kv.buckets import open_bucket
from jetspark.cli.kv.entries import entry_fields
from jetspark.cli.kv.values import snapshot_pager
from jetspark.cli.output import to_json
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.cli.standard_input import chunks
from jetspark.cli.standard_output import standard_output
from jetspark.cli.stream.files import ExportRefused, whole_file
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.config import BucketSettings, KeyValueConfig
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.models.base import from_wire, to_wire
from jetspark.errors import BucketNotFound, Error, KeyExists

_VERSION: Final = 1
_AT_ONCE: Final = 256
_SHOWN: Final = 3


class _Head(msgspec.Struct, kw_only=True):
    """The first line."""

    jetspark_kv_export: int
    bucket: str
    config: msgspec.Raw
    history: bool = False


class _Line(msgspec.Struct, kw_only=True):
    """An entry, as `kv watch --ndjson` prints it too."""

    key: str
    operation: Operation = Operation.PUT
    value: str = ""


class _End(msgspec.Struct, kw_only=True):
    """The last line."""

    entries: int


async def export_bucket(
    session: Session, *, bucket: str, target: Path, history: bool, force: bool,
    at: tuple[str, int] | None,
) -> None:  # fmt: skip
    """Write a bucket to a file or standard output."""
    if history and at is not None:
        raise click.UsageError("--history and --at exclude each other: give one of them")
    store = await open_bucket(session, bucket)
    status = await store.status()
    head = {
        "jetspark_kv_export": _VERSION,
        "bucket": bucket,
        "config": to_wire(status.config),
        "history": history,
    }
    entries = _with_history(store) if history else _values(store, at)
    piped = str(target) == "-"
    with (
        _refusals(),
        standard_output() if piped else whole_file(target, replace=force) as file,
        progress_bar(f"exporting {bucket}", status.values, quiet=session.output.json) as bar,
    ):
        count = 0
        file.write(to_json(head) + b"\n")
        async with aclosing(entries):
            async for entry in entries:
                file.write(to_json(entry_fields(entry)) + b"\n")
                count += 1
                bar(count)
        file.write(to_json({"entries": count}) + b"\n")
    if piped:
        session.output.say(f"Exported {count:,} entries of bucket {bucket}")
    else:
        session.output.done(
            f"Exported {count:,} entries of bucket {bucket} to {target}",
            bucket=bucket, entries=count, file=str(target),
        )  # fmt: skip


async def _values(store: KeyValue, at: tuple[str, int] | None) -> AsyncGenerator[Entry, None]:
    async for entry in snapshot_pager(store, (), at):
        yield entry


async def _with_history(store: KeyValue) -> AsyncGenerator[Entry, None]:
    async with await store.watch(include_history=True) as watcher:
        async for entry in watcher.initial():
            yield entry


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ExportRefused as error:
        raise click.ClickException(str(error)) from None


async def import_bucket(
    session: Session, *, bucket: str, source: Path, create: bool, force: bool
) -> None:
    """Set the keys of an export file."""
    output = session.output
    with await _opened(source) as file:
        # All of it is read before anything is written.
        head, latest, lines = _checked(file, source)
        store = await _target(session, bucket, head, create=create)
        same, other = await _compared(store, latest)
        if other and not force:
            shown = ", ".join(other[:_SHOWN]) + (", ..." if len(other) > _SHOWN else "")
            raise click.ClickException(
                f"{len(other):,} keys of bucket {bucket} have other values than in {source}: "
                f"{shown}; nothing was written. --force replaces them"
            )
        with progress_bar(f"importing {bucket}", lines, quiet=output.json) as bar:
            writing = _Writing(store, same, force=force)
            file.seek(0)
            for number, line in enumerate(_entries(file, source)):
                await writing.add(line)
                bar(number)
            await writing.flush()
    output.done(
        f"Imported {writing.written:,} entries into bucket {bucket}; {len(same):,} keys had their "
        "values already",
        bucket=bucket, written=writing.written, unchanged=len(same),
    )  # fmt: skip


async def _opened(source: Path) -> BinaryIO:
    """The file; standard input is copied to one, because it is read twice."""
    if str(source) != "-":
        return source.open("rb")
    copy: Any = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    async for piece in chunks():
        copy.write(piece)
    copy.seek(0)
    return copy  # type: ignore[no-any-return]


def _lines(file: BinaryIO, source: Path) -> Iterator[_Head | _Line | _End]:
    """The lines of a file; an error says which is wrong."""
    kinds: dict[str, Any] = {"jetspark_kv_export": _Head, "key": _Line, "entries": _End}
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            found = msgspec.json.decode(text)
            kind = next((kinds[name] for name in kinds if name in found), None)
            if kind is None:
                raise ValueError("expected an object with the field key")
            yield msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise click.ClickException(
                f"{source}, line {number}: not an entry of `jetspark kv export`: {error}"
            ) from None


def _entries(file: BinaryIO, source: Path) -> Iterator[_Line]:
    return (line for line in _lines(file, source) if isinstance(line, _Line))


def _value(line: _Line) -> bytes:
    try:
        return base64.b64decode(line.value, validate=True)
    except binascii.Error as error:
        raise click.ClickException(f"key {line.key}: its value is no base64: {error}") from None


def _digest(line: _Line) -> bytes:
    """What a key ends with: a digest of its value, or nothing for a deletion."""
    return hashlib.sha256(_value(line)).digest() if line.operation is Operation.PUT else b""


def _checked(file: BinaryIO, source: Path) -> tuple[_Head | None, dict[str, bytes], int]:
    """The configuration, what each key ends with, and the number of entries."""
    head: _Head | None = None
    end: _End | None = None
    latest: dict[str, bytes] = {}
    count = 0
    for line in _lines(file, source):
        if isinstance(line, _Head):
            head = line
        elif isinstance(line, _End):
            end = line
        else:
            latest[line.key] = _digest(line)
            count += 1
    if head is not None and head.jetspark_kv_export > _VERSION:
        raise click.ClickException(
            f"{source} was written by a newer jetspark: import it with that"
        )
    if head is not None and (end is None or end.entries != count):
        expected = "its last line is missing" if end is None else f"it says {end.entries:,}"
        raise click.ClickException(
            f"{source} is not complete: it has {count:,} entries, and {expected}; nothing was "
            "written. Export the bucket again"
        )
    return head, latest, count


async def _target(session: Session, bucket: str, head: _Head | None, *, create: bool) -> KeyValue:
    """The bucket to write to."""
    if not create:
        return await open_bucket(session, bucket)
    try:
        return await session.jetstream.key_value(bucket)
    except BucketNotFound:
        pass
    if head is None:
        raise click.ClickException(
            "--create: the file has no configuration (those of `jetspark kv export` do): create "
            f"the bucket with `jetspark kv add {bucket}`"
        )
    try:
        config = from_wire(KeyValueConfig, msgspec.json.decode(head.config, type=BucketSettings))
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"--create: the configuration is invalid: {error}") from None
    # Its values are in the file: a mirror could not be written to.
    return await session.jetstream.create_key_value(
        config.replace(bucket=bucket, mirror=None, sources=())
    )


async def _compared(store: KeyValue, latest: dict[str, bytes]) -> tuple[set[str], list[str]]:
    """The keys that end with what the file has, and those that have another value."""
    same: set[str] = set()
    other: list[str] = []
    names = list(latest)
    for first in range(0, len(names), _AT_ONCE):
        keys = names[first : first + _AT_ONCE]
        found = await store.get_many(keys)
        for key in keys:
            entry = found.get(key)
            if entry is None:
                if not latest[key]:
                    same.add(key)
            elif hashlib.sha256(entry.value).digest() == latest[key]:
                same.add(key)
            else:
                other.append(key)
    return same, other


class _Writing:
    """Entries in their order; different keys at once."""

    def __init__(self, store: KeyValue, skipped: set[str], *, force: bool) -> None:
        self._store = store
        self._skipped = skipped
        self._force = force
        self._begun: set[str] = set()
        self._waiting: dict[str, _Line] = {}
        self.written = 0

    async def add(self, line: _Line) -> None:
        """Write an entry, at the latest with the next `flush`."""
        if line.key in self._skipped:
            return
        if line.key in self._waiting or len(self._waiting) == _AT_ONCE:
            await self.flush()
        self._waiting[line.key] = line

    async def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, {}
        results = await asyncio.gather(
            *(self._write(line) for line in waiting.values()), return_exceptions=True
        )
        failed = [one for one in results if isinstance(one, BaseException)]
        self.written += len(results) - len(failed)
        self._begun.update(waiting)
        for error in failed:
            if isinstance(error, Error):
                error.add_note(
                    f"{self.written:,} entries were written before: repeat the import to continue"
                )
            raise error

    async def _write(self, line: _Line) -> None:
        if line.operation is Operation.DEL:
            await self._store.delete(line.key)
        elif line.operation is Operation.PURGE:
            await self._store.purge(line.key)
        elif self._force or line.key in self._begun:
            await self._store.put(line.key, _value(line))
        else:
            # It had no value when the keys were compared: one that appeared since stays.
            try:
                await self._store.create(line.key, _value(line))
            except KeyExists as error:
                error.add_note("it was written during the import; --force replaces it")
                raise
