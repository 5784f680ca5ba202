"""The arguments of a payload decoder: checked on the driver, pickled to the tasks.

An unsupported schema is refused here, in one line and before a task starts.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from jetspark.errors import InvalidSchema
from jetspark.schemas.ddl import parse_ddl
from jetspark.spark.payloads.spark_types import columns_of

RESCUE_TYPE: Final = StructType(
    [StructField("reason", StringType()), StructField("data", BinaryType())]
)
# Microseconds per unit; nanoseconds are divided.
EPOCH_UNITS: Final[Mapping[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
EXTRA_CHOICES: Final = ("ignore", "rescue")
FRAMINGS: Final = ("plain", "single-object")


class PayloadFormat(Enum):
    """The encoding of payloads."""

    JSON = "JSON"
    MSGPACK = "msgpack"
    AVRO = "Avro"
    PROTOBUF = "protobuf"


class DecodePlan(NamedTuple):
    """Everything that a task needs. Text and numbers only: it is pickled."""

    format: PayloadFormat
    # The columns in Spark's JSON format, without the rescue column.
    schema: str
    rescue: str | None
    extra: str = "ignore"
    epoch: str = ""
    zone: str = "UTC"
    writer: str = ""
    reader: str = ""
    framing: str = "plain"
    # Of a registered schema: its name, and the texts of all versions.
    name: str = ""
    version: int = 0
    versions: tuple[tuple[int, str], ...] = ()

    def columns(self) -> StructType:
        """Return the columns that payloads are decoded into, as the user declared them."""
        return StructType.fromJson(json.loads(self.schema))

    def result(self) -> StructType:
        """Return the type of the decoded column: the rescue column last, everything nullable.

        A payload that does not match becomes NULL, whatever the user declared.
        """
        fields = _nullable(self.columns()).fields
        if self.rescue is not None:
            fields = [*fields, StructField(self.rescue, RESCUE_TYPE)]
        return StructType(fields)

    def arrow_fields(self) -> list[pa.Field]:
        """Return the fields of the result in the form that Spark expects from Python."""
        return list(to_arrow_schema(self.result(), timezone="UTC"))


def parse_schema(given: "StructType | str") -> StructType:
    """Parse the schema of a user: a ``StructType``, or DDL such as ``"id long, at date"``."""
    if isinstance(given, StructType):
        return given
    if not isinstance(given, str):
        raise InvalidSchema(
            f"schema: expected a StructType or DDL text such as 'id long, at timestamp', "
            f"not {type(given).__name__}"
        )
    return columns_of(parse_ddl(given))


def check_columns(schema: StructType, rescue: str | None) -> None:
    """Refuse a schema without columns, or with names that Spark cannot distinguish."""
    if not schema.fields:
        raise InvalidSchema("schema: it has no columns")
    names = [*schema.fieldNames(), *([rescue] if rescue is not None else [])]
    seen: set[str] = set()
    for name in names:
        # Spark's column names are case-insensitive.
        if name.lower() in seen:
            if name == rescue:
                raise InvalidSchema(
                    f"schema: column {rescue!r} is also the name of the rescue column: "
                    "choose another with rescue="
                )
            raise InvalidSchema(f"schema: column {name!r} is duplicated")
        seen.add(name.lower())


def one_of(name: str, value: str, choices: "tuple[str, ...]") -> str:
    """Return ``value``, or refuse it if it is not in ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return value


def _nullable(schema: StructType) -> StructType:
    return StructType(
        [StructField(field.name, _nullable_type(field.dataType)) for field in schema.fields]
    )


def _nullable_type(kind: DataType) -> Any:
    match kind:
        case StructType():
            return _nullable(kind)
        case ArrayType():
            return ArrayType(_nullable_type(kind.elementType))
        case CharType() | VarcharType():
            return StringType()  # the length is checked elsewhere; Arrow has no such type
        case MapType():
            return MapType(_nullable_type(kind.keyType), _nullable_type(kind.valueType))
        case _:
            return kind
