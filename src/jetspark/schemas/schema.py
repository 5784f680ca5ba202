"""A schema with its versions, as a registry keeps it."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from jetspark.errors import PayloadMismatch, SchemaNotFound
from jetspark.schemas.ddl import to_ddl
from jetspark.schemas.formats import Codec, codec_of
from jetspark.schemas.types import RecordType

# The header that names the schema of a message: ``orders;2``.
SCHEMA_HEADER: Final = "Jetspark-Schema"
_REFERENCE: Final = re.compile(r"([^\s;]+);([1-9][0-9]{0,9})")


class Version(msgspec.Struct, frozen=True):
    """A version of a schema as it is stored."""

    version: int
    text: str
    time: dt.datetime


class Document(msgspec.Struct, frozen=True):
    """All versions of a schema: the value of its key.

    Numbers are never used again: ``last`` is the greatest one there was. One value for all, so
    that a single conditional write adds a version, and a reader gets them at once.
    """

    format: str
    compatibility: str
    last: int
    versions: tuple[Version, ...]


class GetHeader(Protocol):
    """Headers, of a message or a mapping."""

    def get(self, name: str, /) -> Any:
        """Return the value of a header, or None."""


class Schema:
    """One version of a schema, from a `SchemaRegistry`.

    It knows the other versions that were registered when it was read, so that it decodes payloads
    of all of them without a connection. It can be pickled.
    """

    def __init__(self, registry: str, name: str, document: Document, version: int) -> None:
        self.registry: Final[str] = registry
        self.name: Final[str] = name
        self.version: Final[int] = version
        self._document = document
        self._own = self._version(version)
        self._codec = codec_of(document.format, self._own.text)

    @property
    def format(self) -> str:
        """``json``, ``msgpack``, ``avro`` or ``protobuf``."""
        return self._document.format

    @property
    def text(self) -> str:
        """The schema as it was registered."""
        return self._own.text

    @property
    def time(self) -> dt.datetime:
        """When the version was registered, by the clock of the client that did."""
        return self._own.time

    @property
    def compatibility(self) -> str:
        """What new versions must keep: ``backward``, ``forward``, ``full`` or ``none``."""
        return self._document.compatibility

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that payloads to decode may have."""
        return tuple(one.version for one in self._document.versions)

    @property
    def headers(self) -> dict[str, str]:
        """The header that names this version, for a message with a payload of ``encode``."""
        return {SCHEMA_HEADER: f"{self.name};{self.version}"}

    @property
    def ddl(self) -> str:
        """The fields as columns of SQL: ``id BIGINT NOT NULL, ...``."""
        return to_ddl(self._codec.record)

    def encode(self, value: Any) -> bytes:
        """Return the payload of a mapping, or of an object with the fields as attributes.

        Raises PayloadMismatch, which names the field, if a value does not fit, if a required one
        is missing, and if the schema has no such field.
        """
        return self._codec.encode(value)

    def decode(self, data: bytes, headers: GetHeader | None = None) -> dict[str, Any]:
        """Return the fields of a payload, all those of this version, None where there is no value.

        ``headers`` of the message name the version that it was written with; without them it is
        taken for this version. Raises PayloadMismatch if the payload does not match.
        """
        return self._codec.decode(data, self._writer(headers))

    def decode_from(self, data: bytes, writer: "Schema") -> dict[str, Any]:
        """Return the fields of this version, of a payload that another version has encoded.

        It need not be one that was registered when this version was read.
        """
        if (writer.name, writer.format) != (self.name, self.format):
            raise PayloadMismatch(
                f"it was written with schema {writer.name!r} ({writer.format}), expected "
                f"{self.name!r} ({self.format})"
            )
        return self._codec.decode(data, writer._codec)  # noqa: SLF001 - of this class

    def with_version(self, version: int) -> "Schema":
        """Return another version of this schema; SchemaNotFound if it was not registered."""
        return Schema(self.registry, self.name, self._document, version)

    def record(self) -> RecordType:
        """Return the types of the fields."""
        return self._codec.record

    def texts(self) -> dict[int, str]:
        """Return the texts of all known versions, by number."""
        return {one.version: one.text for one in self._document.versions}

    def _writer(self, headers: GetHeader | None) -> Codec:
        given = headers.get(SCHEMA_HEADER) if headers else None
        if given is None:
            return self._codec
        name, version = parse_reference(given)
        if name != self.name:
            raise PayloadMismatch(f"its header names schema {name!r}, expected {self.name!r}")
        if version == self.version:
            return self._codec
        for one in self._document.versions:
            if one.version == version:
                return codec_of(self.format, one.text)
        raise PayloadMismatch(
            f"it was written with version {version} of schema {name!r}, and this reader knows "
            f"{', '.join(map(str, self.versions))}: call registry.decode(msg, schema=...), which "
            "looks up the others, or get the schema again"
        )

    def _version(self, version: int) -> Version:
        for one in self._document.versions:
            if one.version == version:
                return one
        raise SchemaNotFound(self.registry, self.name, version)

    def __reduce__(self) -> tuple[type["Schema"], tuple[object, ...]]:
        return Schema, (self.registry, self.name, self._document, self.version)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        ours = (self.registry, self.name, self.version, self.text)
        return ours == (other.registry, other.name, other.version, other.text)

    def __hash__(self) -> int:
        return hash((self.registry, self.name, self.version, self.text))

    def __repr__(self) -> str:
        return f"Schema({self.name!r}, version={self.version}, format={self.format!r})"


def parse_reference(value: object) -> tuple[str, int]:
    """Return name and version of a header's value; PayloadMismatch if it is malformed."""
    if isinstance(value, (list, tuple)) and value:
        value = value[0]  # mappings of several values per name
    found = _REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise PayloadMismatch(
            f"header {SCHEMA_HEADER} is {value!r}: expected a name and a version, such as "
            "'orders;2'"
        )
    return found[1], int(found[2])


def header_of(headers: Mapping[str, Any] | GetHeader) -> tuple[str, int] | None:
    """Return the name and version that the headers of a message have, or None."""
    given = headers.get(SCHEMA_HEADER)
    return None if given is None else parse_reference(given)
