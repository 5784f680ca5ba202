"""Schemas of payloads with versions, in a key-value bucket: ``JetStream.schema_registry``.

One key per schema, one value with all its versions (``schemas.schema.Document``). A version is
added by a conditional write: of two clients that register at the same time, the later one reads
what the other wrote, compares with it, and takes the next number.
"""

import datetime as dt
import json
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from jetspark.client.arguments import text as check_text
from jetspark.client.arguments import whole
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.entry import Entry
from jetspark.client.pager import Pager
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    CodecFailed,
    IncompatibleSchema,
    InvalidSchema,
    KeyExists,
    PayloadMismatch,
    PayloadTooLarge,
    SchemaNotFound,
    WrongLastSequence,
)
from jetspark.headers.headers import Headers
from jetspark.schemas.choices import FORMATS, LEVELS, Compatibility, SchemaFormat
from jetspark.schemas.compatibility import compatibility_problems
from jetspark.schemas.formats import codec_of
from jetspark.schemas.schema import SCHEMA_HEADER, Document, Schema, Version, header_of

SchemaText = str | Mapping[str, Any]


class SchemaMessage(Protocol):
    """A message with a payload to decode: from a subscription, a consumer or a stream."""

    @property
    def data(self) -> bytes:
        """The payload."""

    @property
    def headers(self) -> Headers:
        """The headers, which name its schema."""


class _Found(NamedTuple):
    """The versions of a schema and the revision to expect when they are replaced."""

    document: Document | None
    revision: int


class SchemaRegistry:
    """Schemas by name, from ``JetStream.schema_registry`` or ``create_schema_registry``.

    Version numbers begin with 1 and are never used again, not even after a deletion: a message
    that names one is never decoded with another schema.
    """

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        # By name, for ``decode``; replaced when a message names a version that is not known yet.
        self._known: dict[str, Document] = {}

    @property
    def bucket(self) -> str:
        """The name of its bucket."""
        return self._bucket.bucket

    async def register(
        self,
        name: str,
        schema: SchemaText,
        *,
        format: SchemaFormat | None = None,
        compatibility: Compatibility | None = None,
        timeout: Timeout | None = None,
    ) -> Schema:
        """Add a version of a schema and return it; if one has this schema already, return that.

        ``schema``: DDL for ``json`` (the default of a new schema) and ``msgpack``, a record as
        JSON for ``avro``, the text of a .proto file for ``protobuf``, whose first message is the
        payload. ``compatibility`` is what this and later versions promise: ``backward`` (the
        default of a new schema): this version reads payloads of all earlier ones; ``forward``: all
        earlier ones read those of this version; ``full``: both; ``none``. Without it, and without
        ``format``, those of the schema remain.

        Raises InvalidSchema, and IncompatibleSchema with all the differences that break the
        promise; then nothing is registered.
        """
        given = _text(schema)
        least = 0
        while True:
            found = await self._read(name, timeout, least=least)
            new, version, problems = _changed(found.document, given, format, compatibility)
            if problems:
                raise IncompatibleSchema(name, new.compatibility, tuple(problems))
            if new != found.document:
                try:
                    await self._write(name, new, found.revision, timeout)
                except WrongLastSequence as error:
                    least = error.actual or 0
                    continue  # another client was faster: compare with what it wrote
                except KeyExists as error:
                    least = error.revision
                    continue
            self._known[name] = new
            return Schema(self.bucket, name, new, version)

    async def check(
        self,
        name: str,
        schema: SchemaText,
        *,
        format: SchemaFormat | None = None,
        compatibility: Compatibility | None = None,
        timeout: Timeout | None = None,
    ) -> tuple[str, ...]:
        """Return the problems that ``register`` would find, without registering; () for none.

        Raises InvalidSchema if it is no schema at all.
        """
        found = await self._read(name, timeout)
        return tuple(_changed(found.document, _text(schema), format, compatibility)[2])

    async def get(
        self, name: str, version: int | None = None, *, timeout: Timeout | None = None
    ) -> Schema:
        """Get the latest version of a schema, or the given one; SchemaNotFound if none exists."""
        if version is not None:
            whole(version, "version", least=1)
        document = await self._versions(name, timeout)
        if version is None:
            version = document.versions[-1].version
        return Schema(self.bucket, name, document, version)

    async def versions(self, name: str, *, timeout: Timeout | None = None) -> list[Schema]:
        """List all versions of a schema, oldest first; SchemaNotFound if there is none."""
        document = await self._versions(name, timeout)
        return [Schema(self.bucket, name, document, one.version) for one in document.versions]

    def schemas(self, *, timeout: Timeout | None = None) -> Pager[Schema]:
        """Iterate over the latest versions of all schemas."""
        return Pager(self._schema_pages(timeout))

    async def delete(
        self, name: str, version: int | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """Delete a version of a schema, or all versions; SchemaNotFound if there is none.

        Messages that name a deleted version can no longer be decoded; its number is not used
        again.
        """
        if version is not None:
            whole(version, "version", least=1)
        least = 0
        while True:
            found = await self._read(name, timeout, least=least)
            old = found.document
            kept = () if old is None or version is None else tuple(
                one for one in old.versions if one.version != version
            )  # fmt: skip
            if old is None or len(kept) == len(old.versions):
                raise SchemaNotFound(self.bucket, name, version or 0)
            new = msgspec.structs.replace(old, versions=kept)
            try:
                await self._write(name, new, found.revision, timeout)
            except WrongLastSequence as error:
                least = error.actual or 0
                continue
            self._known.pop(name, None)
            return

    async def decode(
        self, msg: SchemaMessage, *, schema: Schema | None = None, timeout: Timeout | None = None
    ) -> dict[str, Any]:
        """Return the fields of a message, decoded by the schema and version that its header names.

        With ``schema`` they are the fields of that version, whichever version wrote the message,
        also one that was registered after ``schema`` was read; without the header the message is
        taken for that version. Schemas are read from the bucket once. Raises PayloadMismatch if
        the message has no such header or does not match the schema, SchemaNotFound if the registry
        does not have it.
        """
        if schema is not None and schema.registry != self.bucket:
            raise ValueError(
                f"schema: {schema.name!r} is of registry {schema.registry!r}, not {self.bucket!r}"
            )
        named = header_of(msg.headers)
        if schema is not None and (
            named is None or named[0] != schema.name or named[1] in schema.versions
        ):
            return schema.decode(msg.data, msg.headers)
        if named is None:
            raise PayloadMismatch(
                f"the message has no header {SCHEMA_HEADER}: decode it with a schema of your "
                "choice, registry.get(name).decode(msg.data)"
            )
        name, version = named
        document = self._known.get(name)
        if document is None or all(one.version != version for one in document.versions):
            document = self._known[name] = await self._versions(name, timeout)
        writer = Schema(self.bucket, name, document, version)
        return writer.decode(msg.data) if schema is None else schema.decode_from(msg.data, writer)

    async def close(self) -> None:
        """Close the handle."""
        await self._bucket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _versions(self, name: str, timeout: Timeout | None) -> Document:
        document = (await self._read(name, timeout)).document
        if document is None or not document.versions:
            raise SchemaNotFound(self.bucket, name)
        return document

    async def _read(self, name: str, timeout: Timeout | None, *, least: int = 0) -> _Found:
        entry = await self._bucket.get(
            name, default=None, min_last_revision=least, timeout=timeout
        )
        if entry is None:
            return _Found(None, 0)
        return _Found(_decoded(entry), entry.revision)

    async def _write(
        self, name: str, document: Document, revision: int, timeout: Timeout | None
    ) -> None:
        value = _ENCODER.encode(document)
        try:
            if revision == 0:
                await self._bucket.create(name, value, timeout=timeout)
            else:
                await self._bucket.update(name, value, revision, timeout=timeout)
        except PayloadTooLarge as error:
            raise InvalidSchema(
                f"schema {name!r} would have {len(document.versions)} versions with "
                f"{len(value):,} bytes, and all of them must fit into one message (max_payload of "
                f"the server is {error.max_payload:,}): delete versions that no message has, or "
                "use another name"
            ) from error

    async def _schema_pages(self, timeout: Timeout | None) -> AsyncGenerator[list[Schema], None]:
        entries = self._bucket.snapshot(timeout=timeout)
        while page := await entries.next_chunk(_PAGE):
            documents = [(entry.key, _decoded(entry)) for entry in page]
            yield [
                Schema(self.bucket, name, one, one.versions[-1].version)
                for name, one in documents
                if one.versions
            ]

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.bucket!r})"


_PAGE: Final = 256
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Document)


def _decoded(entry: Entry) -> Document:
    try:
        return _checked(_DECODER.decode(entry.value))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecFailed(
            f"key {entry.key!r} of bucket {entry.bucket!r} does not hold a schema: {error}; is "
            "the bucket a schema registry?"
        ) from error


def _checked(document: Document) -> Document:
    """Refuse what no registry wrote: with a wrong last number, one would be used again."""
    if document.format not in FORMATS or document.compatibility not in LEVELS:
        raise ValueError(f"its format is {document.format!r}, with {document.compatibility!r}")
    numbers = [one.version for one in document.versions]
    if numbers != sorted({*numbers}) or min([1, *numbers]) < 1:
        raise ValueError(f"its versions are {numbers[:20]}")
    if document.last < max([0, *numbers]):
        raise ValueError(f"its last version is {document.last}, and it has {max([0, *numbers])}")
    return document


def _text(given: SchemaText) -> str:
    if isinstance(given, Mapping):
        return json.dumps(given)
    return check_text(given, "schema").strip()


def _changed(
    old: Document | None, text: str, format_name: str | None, level: str | None
) -> tuple[Document, int, list[str]]:
    """Return the versions with the new one, its number, and the problems that forbid it."""
    if level is not None and level not in LEVELS:
        raise ValueError(f"compatibility={level!r}: expected one of {', '.join(LEVELS)}")
    if format_name is not None and format_name not in FORMATS:
        raise ValueError(f"format={format_name!r}: expected one of {', '.join(FORMATS)}")
    if old is None:
        old = Document(format_name or "json", level or "backward", 0, ())
    elif not old.versions:  # all were deleted: only the number remains
        old = Document(format_name or old.format, level or old.compatibility, old.last, ())
    new = msgspec.structs.replace(old, compatibility=level or old.compatibility)
    if format_name not in {None, old.format}:
        problem = f"its format is {old.format}, not {format_name}: a schema has one format"
        return new, 0, [problem]
    codec = codec_of(old.format, text)
    problems: list[str] = []
    for one in old.versions:
        earlier = codec_of(old.format, one.text)
        if earlier.identity == codec.identity:
            return new, one.version, []
        problems += compatibility_problems(new.compatibility, codec, earlier, one.version)
    version = Version(old.last + 1, text, dt.datetime.now(dt.UTC))
    new = msgspec.structs.replace(new, last=version.version, versions=(*old.versions, version))
    return new, version.version, problems
