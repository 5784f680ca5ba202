"""`schema ls`, `add`, `get`, `versions`, `check`, `rm`."""

import asyncio
from pathlib import Path
from typing import Any, Final

import click

from jetspark.cli.confirm import confirm
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.output import Column
from jetspark.cli.quantities import show_time
from jetspark.cli.refusals import not_found
from jetspark.cli.session import Session
from jetspark.cli.standard_input import chunks
from jetspark.client.jetstream.schema_registry import SchemaRegistry
from jetspark.errors import BucketNotFound, IncompatibleSchema, SchemaNotFound
from jetspark.schemas.schema import Schema

# Formats by the end of a file's name.
_ENDINGS: Final = {".avsc": "avro", ".proto": "protobuf"}


async def _opened(session: Session, bucket: str) -> SchemaRegistry:
    """A registry; if it does not exist, the error suggests what was meant."""
    try:
        return await session.jetstream.schema_registry(bucket)
    except BucketNotFound:
        known = [one async for one in session.jetstream.key_value_names()]
    refused = not_found("registry", bucket, known, "jetspark kv ls")
    raise click.ClickException(
        f"{refused.message}; `jetspark schema add --create` creates a registry"
    )


async def _schema(registry: SchemaRegistry, name: str, version: int | None) -> Schema:
    try:
        return await registry.get(name, version)
    except SchemaNotFound as error:
        if error.version:
            raise click.ClickException(
                f"{error}: `jetspark schema versions {registry.bucket} {name}` lists the others"
            ) from error
    known = [one.name async for one in registry.schemas()]
    raise not_found("schema", name, known, f"jetspark schema ls {registry.bucket}")


def _fields(schema: Schema) -> dict[str, Any]:
    return {
        "name": schema.name,
        "version": schema.version,
        "format": schema.format,
        "compatibility": schema.compatibility,
        "time": schema.time,
        "schema": schema.text,
        "ddl": schema.ddl,
    }


async def _text(file: Path) -> str:
    stdin = str(file) == "-"
    read = file.read_bytes
    data = b"".join([one async for one in chunks()]) if stdin else await asyncio.to_thread(read)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.ClickException(f"{file}: expected the text of a schema, in UTF-8") from None


async def _kind(registry: SchemaRegistry, name: str, file: Path, kind: str | None) -> Any:
    """The format that was given, or for a new schema that of the file's name."""
    if kind is not None or file.suffix not in _ENDINGS:
        return kind
    try:
        await registry.get(name)
    except SchemaNotFound:
        return _ENDINGS[file.suffix]
    return None


async def list_schemas(session: Session, *, bucket: str, names: bool) -> None:
    """List the schemas of a registry."""
    registry = await _opened(session, bucket)
    found = sorted([one async for one in registry.schemas()], key=lambda one: one.name)
    output = session.output
    if names and not output.json:
        for one in found:
            output.line(one.name)
    elif output.json:
        output.values([one.name for one in found] if names else map(_fields, found))
    elif found:
        columns = ("Schema", Column("Version", number=True), "Format", "Compatibility",
                   "Registered", Column("Columns", long=True))  # fmt: skip
        rows = [
            (one.name, str(one.version), one.format, one.compatibility, show_time(one.time),
             one.ddl)
            for one in found
        ]  # fmt: skip
        output.table(f"Schemas of {bucket}", columns, rows)
    else:
        output.say(f"{bucket} has no schemas; register one with `jetspark schema add`")


async def add_schema(
    session: Session, *, bucket: str, key: str, file: Path, kind: str | None, level: Any,
    create: bool,
) -> None:  # fmt: skip
    """Register a schema or a version of it."""
    if create:
        registry = await session.jetstream.create_schema_registry(bucket)
    else:
        registry = await _opened(session, bucket)
    text = await _text(file)
    kind = await _kind(registry, key, file, kind)
    try:
        schema = await registry.register(key, text, format=kind, compatibility=level)  # type: ignore[arg-type]
    except IncompatibleSchema as error:
        lines = "".join(f"\n  {one}" for one in error.problems)
        raise click.ClickException(
            f"schema {key} was not registered, its compatibility is {error.compatibility}:{lines}"
        ) from error
    session.output.done(f"{bucket}: schema {key} has version {schema.version}", **_fields(schema))


async def get_schema(
    session: Session, *, bucket: str, key: str, version: int | None, ddl: bool
) -> None:
    """Print a schema."""
    schema = await _schema(await _opened(session, bucket), key, version)
    if session.output.json:
        session.output.value(_fields(schema))
    else:
        session.output.line(schema.ddl if ddl else schema.text)


async def list_versions(session: Session, *, bucket: str, key: str) -> None:
    """List the versions of a schema."""
    registry = await _opened(session, bucket)
    await _schema(registry, key, None)
    found = await registry.versions(key)
    output = session.output
    if output.json:
        output.values(map(_fields, found))
        return
    columns = (Column("Version", number=True), "Registered", Column("Columns", long=True))
    rows = [(str(one.version), show_time(one.time), one.ddl) for one in found]
    output.table(f"{key}: {found[-1].format}, {found[-1].compatibility}", columns, rows)


async def check_schema(
    session: Session, *, bucket: str, key: str, file: Path, kind: str | None, level: Any
) -> None:
    """Say whether a schema would be accepted."""
    registry = await _opened(session, bucket)
    text = await _text(file)
    kind = await _kind(registry, key, file, kind)
    problems = await registry.check(key, text, format=kind, compatibility=level)  # type: ignore[arg-type]
    output = session.output
    if output.json:
        output.value({"name": key, "compatible": not problems, "problems": problems})
    elif problems:
        output.line(f"schema {key} would be refused:")
        for one in problems:
            output.line(f"  {one}")
    else:
        output.line(f"schema {key} would be accepted")
    if problems:
        raise click.exceptions.Exit(FAILED)


async def remove_schema(
    session: Session, *, bucket: str, key: str, version: int | None, force: bool
) -> None:
    """Delete a schema or a version."""
    registry = await _opened(session, bucket)
    await _schema(registry, key, version)
    what = f"version {version} of schema {key}" if version else f"schema {key}, all versions"
    confirm(f"Delete {what}? Its messages can no longer be decoded.", force=force)
    await registry.delete(key, version)
    session.output.done(
        f"{bucket}: deleted {what}", registry=bucket, name=key, version=version, deleted=True
    )
