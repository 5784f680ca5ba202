"""JSON payloads to columns by Spark's own parser, where its speed matters more than exact rules.

Everything here is made of Spark's functions: no row leaves the JVM, and the workers need no
jetspark. What ``from_json`` would accept silently is looked for where a cheap function finds it;
docs/spark.md, "Spark's own parser", lists the rest.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql import types

from jetspark.spark.decode_plan import RESCUE_TYPE, DecodePlan
from jetspark.spark.schema import InvalidSchema

if TYPE_CHECKING:
    from pyspark.sql import Column

_SPACES: Final = " \t\r\n"
_LENGTHS: Final = "declare string, as Spark's parser does not check lengths"
# Types that Spark's parser reads wrongly or not at all.
_REFUSED: Final[dict[type[types.DataType], str]] = {
    types.ByteType: "declare smallint, as Spark's parser turns 128 to 255 into negative numbers",
    types.CharType: _LENGTHS,
    types.VarcharType: _LENGTHS,
}


def check_native(plan: DecodePlan) -> None:
    """Refuse what Spark's parser cannot do."""
    if plan.rescue is None:
        raise ValueError(
            "rescue=None with native=True: expected the name of a rescue column. To fail the "
            "query instead, call Spark's from_json with {'mode': 'FAILFAST'}"
        )
    if plan.extra != "ignore":
        raise ValueError(
            f"extra={plan.extra!r} with native=True: Spark's parser does not report the fields "
            "that it leaves out. Use extra='ignore' or native=False"
        )
    if plan.epoch:
        raise ValueError(
            f"epoch={plan.epoch!r} with native=True: Spark's parser takes every number as "
            "seconds. Declare a long column and convert it, or use native=False"
        )
    refused = list(_refused(plan.columns(), ""))
    if refused:
        raise InvalidSchema(f"schema with native=True: {'; '.join(refused)}")


def native_column(payload: "Column", plan: DecodePlan) -> "Column":
    """Return the struct of a plan that ``check_native`` accepted."""
    schema = plan.columns()
    columns = plan.result().fields[:-1]
    text = payload.cast("string")
    valid = f.is_valid_utf8(text)
    # Spark's parser ignores what follows the object.
    closed = text.endswith("}") | f.rtrim(text, f.lit(_SPACES)).endswith("}")
    refused = _unused(schema, "_refused")
    # NULL unless it might be an object. Spark notices that all fields are taken from one parsed
    # row and parses once, as long as two of them are needed for every row: here these are the
    # first column and the first condition below.
    row = f.from_json(
        f.when(valid & closed, text),
        types.StructType([*columns, types.StructField(refused, types.StringType())]),
        {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": refused,
            "timeZone": plan.zone,
            # Neither is JSON, and Spark's parser accepts both by default.
            "allowSingleQuotes": "false",
            "allowNonNumericNumbers": "false",
        },
    )
    unread = (
        f.when(f.length(text) == 0, f.lit("the payload is empty"))
        .when(~valid, f.lit("no JSON: not UTF-8"))
        .otherwise(f.lit("no JSON object"))
    )
    reason = f.when(row.getField(refused).isNotNull(), f.lit("no JSON, or not of the schema"))
    reason = reason.when(row.isNull() & text.isNotNull(), unread)
    for what, misfit in _misfits(row, schema, ""):
        reason = reason.when(row.isNotNull() & misfit, f.lit(what))
    rescued = f.when(
        reason.isNotNull(), f.struct(reason.alias("reason"), payload.cast("binary").alias("data"))
    )
    return f.struct(
        *[row.getField(column.name).alias(column.name) for column in columns],
        rescued.cast(RESCUE_TYPE).alias(plan.rescue or ""),
    )


def _refused(kind: types.DataType, path: str) -> Iterator[str]:
    match kind:
        case types.StructType():
            for field in kind.fields:
                yield from _refused(field.dataType, f"{path}.{field.name}" if path else field.name)
        case types.ArrayType():
            yield from _refused(kind.elementType, f"{path}[]")
        case types.MapType():
            if not isinstance(kind.keyType, types.StringType):
                yield (
                    f"{path} has keys of type {kind.keyType.simpleString()}: declare string, the "
                    "only keys of Spark's parser"
                )
            yield from _refused(kind.valueType, f"{path}.value")
    if type(kind) in _REFUSED:
        yield f"{path} is {kind.simpleString()}: {_REFUSED[type(kind)]}"


def _unused(schema: types.StructType, name: str) -> str:
    taken = {field.name.lower() for field in schema.fields}
    while name in taken:
        name += "_"
    return name


def _misfits(row: "Column", schema: types.StructType, path: str) -> "Iterator[tuple[str, Column]]":
    """Yield what can be wrong with a struct that is not NULL, and the condition that it is."""
    for field in schema.fields:
        where = f"{path}.{field.name}" if path else field.name
        value = row.getField(field.name)
        if not field.nullable:
            yield f"{where}: missing, and the schema says NOT NULL", value.isNull()
        yield from _misfits_of(value, field.dataType, where)


def _misfits_of(
    value: "Column", kind: types.DataType, path: str
) -> "Iterator[tuple[str, Column]]":
    match kind:
        case types.DoubleType() | types.FloatType():
            yield f"{path}: number out of range", f.abs(value) == f.lit(float("inf"))
        case types.StructType():
            for what, misfit in _misfits(value, kind, path):
                yield what, value.isNotNull() & misfit
        case types.ArrayType():
            inner = types.StructField("", kind.elementType, kind.containsNull)
            yield from _misfits_within(value, inner, f"{path}[]")
        case types.MapType():
            inner = types.StructField("", kind.valueType, kind.valueContainsNull)
            yield from _misfits_within(f.map_values(value), inner, f"{path}.value")


def _misfits_within(
    values: "Column", inner: types.StructField, path: str
) -> "Iterator[tuple[str, Column]]":
    """Yield what can be wrong with an element of an array."""

    def wrong(value: "Column") -> "Column":
        conditions = [misfit for _, misfit in _misfits_of(value, inner.dataType, path)]
        if not inner.nullable:
            conditions.append(value.isNull())
        return f.coalesce(reduce(or_, conditions), f.lit(False))

    # A probe column finds out whether anything can be wrong at all, as looking takes time.
    if not inner.nullable or any(_misfits_of(values, inner.dataType, path)):
        yield f"{path}: NULL or a number out of range", f.exists(values, wrong)
