"""Spark's types as the types of `jetspark.schemas`, and the reverse."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import types

from jetspark.schemas.types import Field, ListType, MapType, RecordType, Scalar, Type

_SCALARS: Final[Mapping[str, types.DataType]] = {
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "smallint": types.ShortType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "date": types.DateType(),
    "timestamp": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
}
_NAMES: Final = {type(kind): name for name, kind in _SCALARS.items()}


def record_of(schema: types.StructType) -> RecordType:
    """Return the record of Spark's columns."""
    return RecordType(
        tuple(Field(one.name, type_of(one.dataType), one.nullable) for one in schema.fields)
    )


def type_of(kind: types.DataType) -> Type:
    """Return the type of a column; one that payloads cannot have keeps Spark's name for it."""
    match kind:
        case types.StructType():
            return record_of(kind)
        case types.ArrayType():
            return ListType(type_of(kind.elementType), kind.containsNull)
        case types.MapType():
            return MapType(type_of(kind.keyType), type_of(kind.valueType), kind.valueContainsNull)
        case types.DecimalType():
            return Scalar("decimal", kind.precision, kind.scale)
        case types.CharType():
            return Scalar("char", length=kind.length)
        case types.VarcharType():
            return Scalar("varchar", length=kind.length)
    return Scalar(_NAMES.get(type(kind), kind.simpleString()))


def columns_of(record: RecordType) -> types.StructType:
    """Return Spark's columns for a record."""
    return types.StructType(
        [types.StructField(one.name, spark_type(one.type), one.nullable) for one in record.fields]
    )


def spark_type(kind: Type) -> types.DataType:
    """Return Spark's type."""
    match kind:
        case RecordType():
            return columns_of(kind)
        case ListType():
            return types.ArrayType(spark_type(kind.element), kind.nullable)
        case MapType():
            return types.MapType(spark_type(kind.key), spark_type(kind.value), kind.nullable)
        case Scalar("decimal"):
            return types.DecimalType(kind.precision, kind.scale)
        case Scalar("char"):
            return types.CharType(kind.length)
        case Scalar("varchar"):
            return types.VarcharType(kind.length)
        case Scalar(name):
            return _SCALARS[name]
