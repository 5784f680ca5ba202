"""Converts a Spark schema to types for msgspec: one C call per payload.

msgspec checks types, ranges and required fields while it decodes; a refused payload is decoded
again field by field (``rows``), with the same types and therefore the same rules.
"""

import datetime as dt
import re
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
from pyspark.sql import types

from jetspark.spark.stream.schema import InvalidSchema

_BITS: Final[dict[type[types.DataType], int]] = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}
# Field names that msgspec cannot match.
_UNNAMEABLE: Final = re.compile('["\\\\\x00-\x1f]')
FLOAT_MAX: Final = 3.4028234663852886e38
_SIMPLE: Final[dict[type[types.DataType], Any]] = {
    types.BooleanType: bool,
    types.DoubleType: float,
    # Its bounds are checked when the column is built (``columns``): here they would also refuse
    # NaN and the infinities, which msgpack has.
    types.FloatType: float,
    types.StringType: str,
    # In JSON: base64.
    types.BinaryType: bytes,
    types.DecimalType: Decimal,
    types.DateType: dt.date,
    types.TimestampNTZType: Annotated[dt.datetime, msgspec.Meta(tz=False)],
}


class Shapes:
    """Creates the msgspec type of each column; ``problems`` lists unsupported ones."""

    def __init__(self, *, epoch: bool, forbid_extra: bool) -> None:
        self._timestamp: Any = int | float | dt.datetime if epoch else dt.datetime
        self._forbid_extra = forbid_extra
        self.problems: list[str] = []

    def of_field(self, field: types.StructField, path: str) -> Any:
        """Return the type of a field; a nullable one may also be missing."""
        kind = self.of(field.dataType, path)
        return kind | None if field.nullable else kind

    def of_struct(
        self, schema: types.StructType, path: str, *, raw: frozenset[int] = frozenset()
    ) -> Any:
        """Return a struct whose attributes are ``f0``, ``f1``... so that any field name works.

        The fields whose indices are in ``raw`` are kept undecoded.
        """
        members: list[Any] = []
        names: dict[str, str] = {}
        for index, field in enumerate(schema.fields):
            where = f"{path}.{field.name}" if path else field.name
            if field.name in names.values():
                self.problems.append(f"{where} is duplicated")
                continue
            if _UNNAMEABLE.search(field.name):
                self.problems.append(
                    f"{where!r} contains a quote, a backslash or a control character, which field "
                    "names must not"
                )
                continue
            kind = msgspec.Raw if index in raw else self.of_field(field, where)
            names[f"f{index}"] = field.name
            members.append((f"f{index}", kind, None) if field.nullable else (f"f{index}", kind))
        return msgspec.defstruct(
            "Row",
            members,
            rename=names,
            kw_only=True,
            gc=False,  # no struct of a payload is part of a cycle
            forbid_unknown_fields=self._forbid_extra,
        )

    def of(self, kind: types.DataType, path: str) -> Any:
        """Return the type for non-null values of ``kind``."""
        for integer, bits in _BITS.items():
            if isinstance(kind, integer):
                limit = 2 ** (bits - 1)
                return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
        match kind:
            case types.TimestampType():
                return self._timestamp
            case types.CharType() | types.VarcharType():
                return Annotated[str, msgspec.Meta(max_length=kind.length)]
            case types.StructType() if kind.fields:
                return self.of_struct(kind, path)
            case types.ArrayType():
                element = self.of(kind.elementType, f"{path}[]")
                return list[element | None] if kind.containsNull else list[element]  # type: ignore[valid-type]
            case types.MapType():
                return self._of_map(kind, path)
        if type(kind) in _SIMPLE:
            return _SIMPLE[type(kind)]
        self.problems.append(f"{path} is {kind.simpleString()}, not supported for payloads")
        return Any

    def _of_map(self, kind: types.MapType, path: str) -> Any:
        if not isinstance(kind.keyType, (types.StringType, *_BITS)):
            self.problems.append(
                f"{path} has keys of type {kind.keyType.simpleString()}: "
                "expected string or an integer type"
            )
            return Any
        key = self.of(kind.keyType, f"{path}.key")
        value = self.of(kind.valueType, f"{path}.value")
        return dict[key, value | None] if kind.valueContainsNull else dict[key, value]  # type: ignore[valid-type]


def check_shape(schema: types.StructType) -> None:
    """Raise ``InvalidSchema`` with all unsupported columns."""
    shapes = Shapes(epoch=False, forbid_extra=False)
    shapes.of_struct(schema, "")
    if shapes.problems:
        raise InvalidSchema(f"schema: {'; '.join(shapes.problems)}")
