"""Decodes a batch of JSON with Arrow's JSON reader, in one call for all payloads.

Its rules differ in places from those of the exact decoder (``rows``), each of which is checked
here: if anything does not match, or might not, an exception leaves the batch to that decoder.
"""

import re
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import types

from jetspark.schemas.shapes import FLOAT_MAX, Shapes
from jetspark.spark.payloads.columns import ColumnBuilder
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.payloads.spark_types import type_of

# Arrow's offsets have 31 bits.
_BYTES_MAX: Final = 1 << 30
# The exact decoder refuses payloads nested more deeply than Python's recursion limit; Arrow does
# not.
_DEPTH_MAX: Final = 500
# Digits of a number that certainly fits into 128 bits.
_DECIMAL_DIGITS: Final = 38
# Accepted by Arrow as numbers although it is not JSON.
_NO_NUMBER: Final = re.compile(rb"[:,\[]\s*-?(?:NaN|Inf(?:inity)?)\s*[,\]}]")
# A lone surrogate is not valid text; the exact decoder detects it.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# The year 1, where Python's dates start; Arrow has a year 0.
_FIRST_DAY: Final = -719_162
_FIRST_MICROSECOND: Final = _FIRST_DAY * 86_400_000_000
# The bits of -0.0 as an integer.
_MINUS_ZERO: Final = -(2**63)
# 2026-11-15T12:00:00Z
_INSTANT_LENGTH: Final = 20
# Types for which Arrow's reader returns the same values as the exact decoder; others are checked
# below.
_SAME: Final = (
    types.BooleanType,
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.DoubleType,
    types.StringType,
)
_AS_TEXT: Final = (types.TimestampType, types.TimestampNTZType, types.DateType)


class Doubtful(ValueError):
    """A batch, or a plan, that is left to the exact decoder."""


class ArrowColumns:
    """Decodes JSON by one plan. ``Doubtful`` if Arrow's reader behaves differently for it."""

    def __init__(self, plan: DecodePlan, builder: ColumnBuilder) -> None:
        if plan.format is not PayloadFormat.JSON or plan.extra == "rescue" or plan.epoch:
            raise Doubtful("not supported by Arrow's reader")
        self._builder = builder
        self._schema = plan.columns()
        self._target = pa.struct(plan.arrow_fields()[: len(self._schema.fields)])
        self._shapes = Shapes(epoch=False, forbid_extra=False)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(list(_read_as(self._schema, self._target))),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        )

    def decode(self, payloads: pa.Array) -> list[pa.Array]:
        """Return an array for each column, if every payload certainly matches."""
        _check(payloads)
        lines = _joined(payloads)
        _check_lines(lines)
        table = pj.read_json(
            pa.BufferReader(lines),
            # In one block, and therefore in one chunk.
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(payloads):
            raise Doubtful("payloads with more than one object")
        return self._fields(
            [pa.concat_arrays(column.chunks) for column in table.columns],
            self._schema,
            self._target,
            0,
        )

    def _fields(
        self, arrays: list[pa.Array], schema: types.StructType, target: pa.StructType, nulls: int
    ) -> list[pa.Array]:
        """Return the arrays of a struct's fields; ``nulls`` are NULL because the struct is."""
        found: list[pa.Array] = []
        for array, field, to in zip(arrays, schema.fields, target, strict=True):
            if not field.nullable and array.null_count != nulls:
                raise Doubtful("a NULL where the schema says NOT NULL")
            found.append(self._column(array, field.dataType, to.type))
        return found

    def _column(self, array: pa.Array, kind: types.DataType, target: pa.DataType) -> pa.Array:
        match kind:
            case types.StructType():
                fields = self._fields(array.flatten(), kind, target, array.null_count)
                mask = array.is_null() if array.null_count else None
                return pa.StructArray.from_arrays(fields, fields=list(target), mask=mask)
            case types.ArrayType():
                if not kind.containsNull and array.flatten().null_count:
                    raise Doubtful("a NULL in an array that has none by the schema")
                values = self._column(array.values, kind.elementType, target.value_type)
                mask = array.is_null() if array.null_count else None
                return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=mask)
            case types.DoubleType():
                return _doubles(array)
            case types.FloatType():
                # Parsed as a double, and rounded from there, as in the exact decoder.
                if (pc.max(pc.abs(array)).as_py() or 0.0) > FLOAT_MAX:
                    raise Doubtful("a number too large for a float")
                return _doubles(array).cast(target, safe=False)
            case types.DecimalType():
                # Arrow's reader does not check the digits after it converted a number to the
                # column's scale; its conversion to fewer digits does.
                widest = pa.decimal128(_DECIMAL_DIGITS, target.scale)
                return array.cast(widest).cast(target)
            case types.TimestampType() | types.TimestampNTZType() | types.DateType():
                return self._times(array, kind, target)
        return array

    def _times(self, text: pa.Array, kind: types.DataType, target: pa.DataType) -> pa.Array:
        """Return text as times: by Arrow if it certainly parses them like the exact decoder."""
        if isinstance(kind, types.DateType) or (
            isinstance(kind, types.TimestampType) and _in_utc(text)
        ):
            try:
                return _since_year_one(text.cast(target))
            except pa.ArrowInvalid:
                pass  # for example more digits than microseconds have
        each: Any = self._shapes.of(type_of(kind), "") | None
        return self._builder.build(msgspec.convert(text.to_pylist(), list[each]), target)


def _read_as(kind: types.DataType, target: pa.DataType) -> pa.DataType:
    """Return the type to request from Arrow's reader; raises ``Doubtful`` if there is none."""
    match kind:
        case types.StructType():
            pairs = zip(kind.fields, target, strict=True)
            return pa.struct([to.with_type(_read_as(one.dataType, to.type)) for one, to in pairs])
        case types.ArrayType():
            element = target.value_field
            return pa.list_(element.with_type(_read_as(kind.elementType, element.type)))
        case types.FloatType():
            return pa.float64()
        case types.DecimalType() if target.scale < _DECIMAL_DIGITS:
            # With so few digits no number overflows when it is converted to the column's scale,
            # which Arrow would not detect.
            digits = min(target.precision, _DECIMAL_DIGITS - target.scale)
            return pa.decimal128(digits, target.scale)
    if type(kind) in _AS_TEXT:
        return pa.string()
    if type(kind) in _SAME:
        return target
    raise Doubtful(f"{kind.simpleString()} is not supported by Arrow's reader")


def _check(payloads: pa.Array) -> None:
    # Arrow's reader does not check for valid UTF-8; this does.
    text = payloads.cast(pa.string())
    # Each level takes two characters.
    if (pc.max(pc.binary_length(text)).as_py() or 0) > 2 * _DEPTH_MAX:
        levels = pc.add(pc.count_substring(text, "["), pc.count_substring(text, "{"))
        if pc.max(levels).as_py() > _DEPTH_MAX:
            raise Doubtful("perhaps nested too deeply")


def _joined(payloads: pa.Array) -> bytes:
    """Return binary payloads with a newline after each.

    Each must start and end with a brace, so that no object spans the newline: inside a string the
    newline is an error, elsewhere the brace after it is, as it follows a closing one. So there are
    as many objects as payloads only if there is one in each.
    """
    if not len(payloads) or payloads.null_count or payloads.nbytes > _BYTES_MAX:
        raise Doubtful("no payloads, or too many bytes")
    braces = pc.and_(pc.starts_with(payloads, b"{"), pc.ends_with(payloads, b"}"))
    if not pc.all(braces).as_py():
        raise Doubtful("a payload that is no object, or has spaces around it")
    every = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    lines: bytes = pc.binary_join(every, b"\n")[0].as_py()
    return lines + b"\n"


def _check_lines(lines: bytes) -> None:
    # A search for a single byte is many times faster than for three.
    if b"\0" in lines:
        raise Doubtful("a zero byte, at which Arrow's reader ends without an error")
    named = (b"N" in lines and b"NaN" in lines) or (b"I" in lines and b"Inf" in lines)
    if named and _NO_NUMBER.search(lines):
        raise Doubtful("a number that JSON does not have")
    if b"\\" in lines and _SURROGATE.search(lines):
        raise Doubtful("a surrogate")


def _in_utc(text: pa.Array) -> bool:
    """Whether all are RFC 3339 with seconds and Z, in the form that Arrow parses."""
    shortest = pc.min(pc.binary_length(text)).as_py()
    if shortest is None or shortest < _INSTANT_LENGTH:
        return False
    return bool(pc.all(pc.ends_with(text, "Z")).as_py())


def _doubles(numbers: pa.Array) -> pa.Array:
    """Leave numbers with different rules to the exact decoder.

    These are -0, which it parses as an integer, without a sign, unlike -0.0; and numbers that
    round to infinity.
    """
    if pc.any(pc.equal(numbers.view(pa.int64()), _MINUS_ZERO)).as_py():
        raise Doubtful("a negative zero")
    if pc.any(pc.invert(pc.is_finite(numbers))).as_py():
        raise Doubtful("a number too large for a double")
    return numbers


def _since_year_one(times: pa.Array) -> pa.Array:
    days = pa.types.is_date32(times.type)
    first = pc.min(times.view(pa.int32() if days else pa.int64())).as_py()
    if first is not None and first < (_FIRST_DAY if days else _FIRST_MICROSECOND):
        raise Doubtful("a time before the year 1")
    return times
