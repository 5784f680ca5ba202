"""Avro payloads: the schema as Spark columns, and the bytes as rows.

Pip's Spark has no spark-avro; types are mapped as there. Logical types without a Spark type (time,
uuid, duration, nanoseconds) keep their underlying type. Refused: unions of several types,
recursive types, and types with zero bytes, of which ten bytes could hold 2^62.
"""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from jetspark.errors import InvalidSchema
from jetspark.errors.extras import extra
from jetspark.spark.payloads.plan import DecodePlan
from jetspark.spark.payloads.rows import Decoded

AvroSchema = str | Mapping[str, Any]

# Avro 1.12, "Single object encoding": marker, CRC-64-AVRO of the schema (little-endian), body.
_MARKER: Final = b"\xc3\x01"
_HEAD: Final = 10

_PRIMITIVE: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
_LOGICAL: Final[Mapping[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
_DECIMAL_DIGITS: Final = 38


def fastavro() -> Any:
    """Import the package, or raise an error that names what to install."""
    with extra("avro", "Avro needs, on the driver and on the workers,"):
        import fastavro
        import fastavro.schema

    return fastavro


def schema_text(given: AvroSchema, what: str) -> str:
    """Check an Avro schema, as JSON text or decoded, and return it as JSON text."""
    package = fastavro()
    try:
        loaded = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}") from None
    if not isinstance(loaded, Mapping) or loaded.get("type") != "record":
        raise InvalidSchema(f"{what}: expected a record, whose fields become the columns")
    text = json.dumps(_without_unknown_logical(loaded))
    try:
        package.parse_schema(json.loads(text))
    except Exception as error:  # noqa: BLE001 - it raises KeyError and others
        raise InvalidSchema(f"{what} is not an Avro schema: {error}") from None
    return text


def spark_schema(text: str, what: str) -> StructType:
    """Return the columns of an Avro record; raises ``InvalidSchema`` with all problems."""
    parsed = fastavro().parse_schema(json.loads(text))
    types = _Types(parsed["__named_schemas"])
    found = types.of(parsed, "")
    if types.problems:
        raise InvalidSchema(f"{what}: {'; '.join(types.problems)}")
    assert isinstance(found, StructType)
    return found


class _Types:
    """Maps Avro types to Spark types; ``problems`` lists those without one."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._within: list[str] = []
        self.problems: list[str] = []

    def of(self, given: Any, path: str) -> DataType:
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
                return StringType()
            case "array":
                element, null = self._field(given["items"], f"{path}[]")
                return ArrayType(element, null)
            case "map":
                value, null = self._field(given["values"], f"{path}.value")
                return MapType(StringType(), value, null)
        if given.get("logicalType") == "decimal":
            return self._decimal(given, path)
        if kind == "fixed":
            return BinaryType() if given["size"] > 0 else self._refuse(path, "fixed of size 0")
        logical = given.get("logicalType")
        return _LOGICAL[kind, logical] if logical else self.of(kind, path)

    def _name(self, name: str, path: str) -> DataType:
        if name in self._within:
            return self._refuse(path, f"a recursive {name}")
        return self.of(self._named[name], path)

    def _record(self, given: Mapping[str, Any], path: str) -> DataType:
        fields = given.get("fields") or []
        if not fields:
            return self._refuse(path or given["name"], "a record without fields")
        self._within.append(given["name"])
        members = []
        for field in fields:
            where = f"{path}.{field['name']}" if path else field["name"]
            kind, null = self._field(field["type"], where)
            members.append(StructField(field["name"], kind, null))
        self._within.pop()
        return StructType(members)

    def _field(self, given: Any, path: str) -> tuple[DataType, bool]:
        if isinstance(given, list):
            return self._union(given, path)
        return self.of(given, path), False

    def _union(self, given: Sequence[Any], path: str) -> tuple[DataType, bool]:
        branches = [branch for branch in given if branch != "null"]
        null = len(branches) < len(given)
        if len(branches) == 1:
            return self.of(branches[0], path), null
        for wide, pair in ((LongType(), {"int", "long"}), (DoubleType(), {"float", "double"})):
            if all(isinstance(one, str) for one in branches) and set(branches) == pair:
                return wide, null
        return self._refuse(path, "a union of several types"), null

    def _decimal(self, given: Mapping[str, Any], path: str) -> DataType:
        precision = given["precision"]
        if precision > _DECIMAL_DIGITS:
            return self._refuse(path, f"a decimal of {precision} digits (38 at most)")
        return DecimalType(precision, given.get("scale", 0))

    def _refuse(self, path: str, what: str) -> DataType:
        self.problems.append(f"{path} is {what}, for which Spark has no column type")
        return StringType()


def _without_unknown_logical(given: Any) -> Any:
    """Remove logical types without a Spark type, so that the underlying value is returned."""
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
    known = logical == "decimal" or (isinstance(kind, str) and (kind, logical) in _LOGICAL)
    if logical is not None and not known:
        del kept["logicalType"]
    return kept


def single_object_head(text: str) -> bytes:
    """Return the ten bytes before every payload of this schema."""
    schema = fastavro().schema
    canonical = schema.to_parsing_canonical_form(json.loads(text))
    return _MARKER + bytes.fromhex(schema.fingerprint(canonical, "CRC-64-AVRO"))


class AvroRows:
    """Decodes one record per payload into a dict."""

    def __init__(self, plan: DecodePlan) -> None:
        package = fastavro()
        self._read = package.schemaless_reader
        self._writer = package.parse_schema(json.loads(plan.writer))
        self._reader = package.parse_schema(json.loads(plan.reader)) if plan.reader else None
        self._head = single_object_head(plan.writer) if plan.framing != "plain" else b""

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Return a dict for each payload; None for None and for undecodable ones."""
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        skip = len(self._head)
        for index, payload in enumerate(payloads):
            rows.append(None)
            if payload is None:
                continue
            if not payload.startswith(self._head):
                reasons[index] = self._other_head(payload)
                continue
            file = io.BytesIO(payload)
            file.seek(skip)
            try:
                row = self._read(file, self._writer, self._reader)
            except Exception as error:  # noqa: BLE001 - arbitrary bytes raise nearly anything
                reasons[index] = f"not Avro of this schema: {str(error) or 'it is truncated'}"
                continue
            left = len(payload) - file.tell()
            if left:
                reasons[index] = f"not Avro of this schema: {left} bytes after the record"
            else:
                rows[index] = row
        return Decoded(rows, reasons)

    def _other_head(self, payload: bytes) -> str:
        if len(payload) < _HEAD or not payload.startswith(_MARKER):
            return "not Avro single-object encoding: it does not start with C3 01"
        return (
            f"written with another schema: its fingerprint is {payload[2:_HEAD].hex()}, "
            f"expected {self._head[2:].hex()}"
        )
