"""Avro payloads: a schema as columns, bytes as values, and which changes keep them readable.

Types are mapped as spark-avro does, which pip's Spark does not have. Logical types without a
column type (time, uuid, duration, nanoseconds) keep their underlying type. Refused: unions of
several types, recursive types, and types with zero bytes, of which ten bytes could hold 2^62.
"""

import io
import json
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final

from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.errors.extras import extra
from jetspark.schemas.avro_compatibility import avro_problems
from jetspark.schemas.types import (
    BITS,
    FIELDS_MAX,
    MILLISECONDS,
    Field,
    ListType,
    MapType,
    RecordType,
    Scalar,
    Type,
)
from jetspark.schemas.values import Checker

AvroSchema = str | Mapping[str, Any]

# Avro 1.12, "Single object encoding": marker, CRC-64-AVRO of the schema (little-endian), body.
MARKER: Final = b"\xc3\x01"

_PRIMITIVE: Final[Mapping[str, Type]] = {
    "boolean": Scalar("boolean"),
    "int": Scalar("int"),
    "long": Scalar("bigint"),
    "float": Scalar("float"),
    "double": Scalar("double"),
    "bytes": Scalar("binary"),
    "string": Scalar("string"),
}
_LOGICAL: Final[Mapping[tuple[str, str], Type]] = {
    ("int", "date"): Scalar("date"),
    ("long", "timestamp-millis"): Scalar("timestamp", MILLISECONDS),
    ("long", "timestamp-micros"): Scalar("timestamp"),
    ("long", "local-timestamp-millis"): Scalar("timestamp_ntz", MILLISECONDS),
    ("long", "local-timestamp-micros"): Scalar("timestamp_ntz"),
}
_DECIMAL_DIGITS: Final = 38
_DIGITS: Final = Context(prec=80)


def fastavro() -> Any:
    """Import the package, or raise an error that names what to install."""
    with extra("avro", "Avro needs, with Spark on the driver and on the workers,"):
        import fastavro
        import fastavro.schema
        import fastavro.validation

    return fastavro


def schema_text(given: AvroSchema, what: str) -> str:
    """Check an Avro schema, as JSON text or decoded, and return it as JSON text."""
    package = fastavro()
    try:
        loaded = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}") from None
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deeply") from None
    if not isinstance(loaded, Mapping) or loaded.get("type") != "record":
        raise InvalidSchema(f"{what}: expected a record, whose fields become the columns")
    try:
        text = json.dumps(_without_unknown_logical(loaded))
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deeply") from None
    try:
        package.parse_schema(json.loads(text))
    except Exception as error:  # noqa: BLE001 - it raises KeyError and others
        raise InvalidSchema(f"{what} is not an Avro schema: {error}") from None
    return text


def record_of(text: str, what: str) -> RecordType:
    """Return the columns of an Avro record; raises ``InvalidSchema`` with all problems."""
    parsed = fastavro().parse_schema(json.loads(text))
    types = _Types(parsed["__named_schemas"])
    try:
        found = types.of(parsed, "")
    except (KeyError, TypeError, ValueError) as error:
        # fastavro does not check everything: a decimal without precision, a size that is text.
        if isinstance(error, InvalidSchema):
            raise
        raise InvalidSchema(f"{what} is not an Avro schema: {error!r}") from None
    except RecursionError:
        raise InvalidSchema(f"{what} is nested too deeply") from None
    if types.problems:
        raise InvalidSchema(f"{what}: {'; '.join(types.problems)}")
    assert isinstance(found, RecordType)
    return found


class _Types:
    """Maps Avro types to column types; ``problems`` lists those without one."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._within: list[str] = []
        self._count = 0
        self.problems: list[str] = []

    def of(self, given: Any, path: str) -> Type:
        """Return the type for a non-null Avro schema."""
        if isinstance(given, str):
            if given in _PRIMITIVE:
                return _PRIMITIVE[given]
            return self._refuse(path, given) if given == "null" else self._name(given, path)
        if isinstance(given, list):
            return self._union(given, path)[0]
        kind = given["type"]
        match kind:
            case "record":
                return self._record(given, path)
            case "enum":
                return Scalar("string")
            case "array":
                element, null = self._field(given["items"], f"{path}[]")
                return ListType(element, null)
            case "map":
                value, null = self._field(given["values"], f"{path}.value")
                return MapType(Scalar("string"), value, null)
        if given.get("logicalType") == "decimal":
            return self._decimal(given, path)
        if kind == "fixed":
            return Scalar("binary") if given["size"] > 0 else self._refuse(path, "fixed of size 0")
        logical = given.get("logicalType")
        return _LOGICAL[kind, logical] if logical else self.of(kind, path)

    def _name(self, name: str, path: str) -> Type:
        if name in self._within:
            return self._refuse(path, f"a recursive {name}")
        return self.of(self._named[name], path)

    def _record(self, given: Mapping[str, Any], path: str) -> Type:
        fields = given.get("fields") or []
        if not fields:
            return self._refuse(path or given["name"], "a record without fields")
        self._count += len(fields)
        if self._count > FIELDS_MAX:
            raise InvalidSchema(
                f"the schema has more than {FIELDS_MAX:,} fields, nested ones counted at each use"
            )
        self._within.append(given["name"])
        members = []
        for field in fields:
            where = f"{path}.{field['name']}" if path else field["name"]
            kind, null = self._field(field["type"], where)
            members.append(Field(field["name"], kind, null, has_default="default" in field))
        self._within.pop()
        return RecordType(tuple(members))

    def _field(self, given: Any, path: str) -> tuple[Type, bool]:
        if isinstance(given, list):
            return self._union(given, path)
        return self.of(given, path), False

    def _union(self, given: Sequence[Any], path: str) -> tuple[Type, bool]:
        branches = [branch for branch in given if branch != "null"]
        null = len(branches) < len(given)
        if len(branches) == 1:
            return self.of(branches[0], path), null
        for wide, pair in (
            (Scalar("bigint"), {"int", "long"}),
            (Scalar("double"), {"float", "double"}),
        ):
            if all(isinstance(one, str) for one in branches) and set(branches) == pair:
                return wide, null
        return self._refuse(path, "a union of several types"), null

    def _decimal(self, given: Mapping[str, Any], path: str) -> Type:
        precision = given["precision"]
        if precision > _DECIMAL_DIGITS:
            return self._refuse(path, f"a decimal of {precision} digits (38 at most)")
        return Scalar("decimal", precision, given.get("scale", 0))

    def _refuse(self, path: str, what: str) -> Type:
        self.problems.append(f"{path} is {what}, for which there is no column type")
        return Scalar("string")


def _without_unknown_logical(given: Any) -> Any:
    """Remove logical types without a column type, so that the underlying value is returned."""
    if isinstance(given, list):
        return [_without_unknown_logical(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    kept = {
        name: _without_unknown_logical(value) if name in {"type", "fields", "items", "values"}
        else value
        for name, value in given.items()
    }  # fmt: skip
    logical = kept.get("logicalType")
    kind = kept.get("type")
    named = isinstance(kind, str) and isinstance(logical, str)
    known = (logical == "decimal" and kind in {"bytes", "fixed"}) or (
        named and (kind, logical) in _LOGICAL
    )
    if logical is not None and not known:
        del kept["logicalType"]
    return kept


def _without_decimals(given: Any) -> Any:
    if isinstance(given, list):
        return [_without_decimals(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    return {
        name: _without_decimals(value) if name in {"type", "fields", "items", "values"} else value
        for name, value in given.items()
        if not (name == "logicalType" and value == "decimal")
    }


def _finished(value: Any, kind: Type, path: str) -> Any:
    """Return a decoded value with its numbers checked.

    fastavro returns integers of any size, rounds a decimal with too many digits, and needs minutes
    for one with a million bytes. Defaults of bytes it returns as text.
    """
    if value is None:
        return None
    match kind:
        case RecordType():
            for field in kind.fields:
                where = f"{path}.{field.name}" if path else field.name
                value[field.name] = _finished(value[field.name], field.type, where)
        case ListType():
            return [_finished(one, kind.element, f"{path}[]") for one in value]
        case MapType():
            return {key: _finished(one, kind.value, f"{path}[]") for key, one in value.items()}
        case Scalar(name) if name in BITS:
            limit = 1 << (BITS[name] - 1)
            # No int: the reader is incompatible, and the writer has a date or a time there.
            if not (isinstance(value, int) and -limit <= value < limit):
                raise PayloadMismatch(f"{path}: {value} does not fit {kind}")
        case Scalar("binary") if isinstance(value, str):
            return value.encode("latin-1")
        case Scalar("decimal"):
            return _decimal(value, kind, path)
    return value


def _decimal(value: Any, kind: Scalar, path: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    data = value.encode("latin-1") if isinstance(value, str) else value
    if not isinstance(data, bytes):
        raise PayloadMismatch(f"{path}: {value} does not fit {kind}")
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**kind.precision:
        raise PayloadMismatch(f"{path}: a decimal of {len(data)} bytes does not fit {kind}")
    return Decimal(number).scaleb(-kind.scale, _DIGITS)


def single_object_head(text: str) -> bytes:
    """Return the ten bytes before every payload of this schema."""
    schema = fastavro().schema
    canonical = schema.to_parsing_canonical_form(json.loads(text))
    return MARKER + bytes.fromhex(schema.fingerprint(canonical, "CRC-64-AVRO"))


class AvroCodec:
    """Encodes and decodes records of one schema, as bodies: without a header or fingerprint."""

    def __init__(self, text: str) -> None:
        self._text = schema_text(text, "the schema")
        self.record: Final[RecordType] = record_of(self._text, "the schema")
        loaded = json.loads(self._text)
        # Attributes in any order are the same schema; docs and aliases are part of it.
        self.identity: Final[object] = json.dumps(loaded, sort_keys=True)
        self._package = fastavro()
        self.parsed: Final[Any] = self._package.parse_schema(loaded)
        self._bare: Final[Any] = self._package.parse_schema(_without_decimals(loaded))
        self._checker = Checker(finite=False)
        # Defaults that fastavro returns as numbers.
        self._times = {
            field["name"]: self._default(field)
            for field, column in zip(self.parsed["fields"], self.record.fields, strict=True)
            if type(field.get("default")) is int and isinstance(column.type, Scalar)
            and column.type.name in {"date", "timestamp", "timestamp_ntz"}
        }  # fmt: skip

    def encode(self, value: Any) -> bytes:
        """Return the payload; PayloadMismatch names the field that does not fit."""
        return self.written(self._checker.record(value, self.record))

    def written(self, values: Mapping[str, Any]) -> bytes:
        """Return the payload of values that were checked: fastavro itself truncates numbers."""
        file = io.BytesIO()
        try:
            self._package.schemaless_writer(file, self.parsed, values)
        except Exception as error:  # it raises TypeError and others
            raise PayloadMismatch(self._reason(values) or str(error)) from error
        return file.getvalue()

    def decode(self, data: bytes, writer: "AvroCodec") -> dict[str, Any]:
        """Return the fields of this schema, from a payload written with ``writer``."""
        file = io.BytesIO(data)
        # Decimals as their bytes, see `_finished`; not for readers that may have another scale.
        bare = writer is self or not self.problems_reading(writer)
        written = writer._bare if bare else writer.parsed  # noqa: SLF001 - of this class
        reader = None if writer is self else self._bare if bare else self.parsed
        try:
            row: dict[str, Any] = self._package.schemaless_reader(file, written, reader)
        except Exception as error:  # noqa: BLE001 - arbitrary bytes raise nearly anything
            reason = str(error) or "it is truncated"
            raise PayloadMismatch(f"not Avro of this schema: {reason}") from None
        left = len(data) - file.tell()
        if left:
            raise PayloadMismatch(f"not Avro of this schema: {left} bytes after the record")
        finished: dict[str, Any] = _finished(row, self.record, "")
        if writer is not self:
            finished.update(
                (name, one) for name, one in self._times.items() if type(finished[name]) is int
            )
        return finished

    def problems_reading(self, writer: "AvroCodec") -> list[str]:
        """Return why payloads of ``writer`` could not be decoded with this schema."""
        return avro_problems(self.parsed, writer.parsed)

    def _default(self, field: Mapping[str, Any]) -> Any:
        file = io.BytesIO()
        self._package.schemaless_writer(file, field["type"], field["default"])
        file.seek(0)
        return self._package.schemaless_reader(file, field["type"], None)

    def _reason(self, values: Mapping[str, Any]) -> str:
        """Which field fastavro refuses, for example a symbol that an enum does not have."""
        try:
            self._package.validation.validate(values, self.parsed, raise_errors=True)
        except Exception as error:  # noqa: BLE001 - only its text is of interest
            return " ".join(str(error).split())
        return ""
