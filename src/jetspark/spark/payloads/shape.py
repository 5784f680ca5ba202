"""A Spark schema as types that msgspec decodes into: one C call for each payload.

msgspec checks types, ranges and what must be there while it decodes; what it refuses is looked at
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
# Names that msgspec does not look for.
_UNNAMEABLE: Final = re.compile('["\\\\\x00-\x1f]')
FLOAT_MAX: Final = 3.4028234663852886e38
_SIMPLE: Final[dict[type[types.DataType], Any]] = {
    types.BooleanType: bool,
    types.DoubleType: float,
    # Its bounds are looked at when the column is built (``columns``): here they would refuse NaN
    # and the infinities as well, which msgpack has.
    types.FloatType: float,
    types.StringType: str,
    # In JSON as base64.
    types.BinaryType: bytes,
    types.DecimalType: Decimal,
    types.DateType: dt.date,
    types.TimestampNTZType: Annotated[dt.datetime, msgspec.Meta(tz=False)],
}


class Shapes:
    """Makes the msgspec type of each column; ``problems`` names what cannot be decoded."""

    def __init__(self, *, epoch: bool, forbid_extra: bool) -> None:
        self._timestamp: Any = int | float | dt.datetime if epoch else dt.datetime
        self._forbid_extra = forbid_extra
        self.problems: list[str] = []

    def of_field(self, field: types.StructField, path: str) -> Any:
        """Return the type of a field; one that may be NULL may also be missing."""
        kind = self.of(field.dataType, path)
        return kind | None if field.nullable else kind

    def of_struct(
        self, schema: types.StructType, path: str, *, raw: frozenset[int] = frozenset()
    ) -> Any:
        """Return a struct whose attributes are ``f0``, ``f1``... so that any name is possible.

        The fields numbered in ``raw`` are left as they stand in the payload.
        """
        members: list[Any] = []
        names: dict[str, str] = {}
        for index, field in enumerate(schema.fields):
            where = f"{path}.{field.name}" if path else field.name
            if field.name in names.values():
                self.problems.append(f"{where} comes twice")
                continue
            if _UNNAMEABLE.search(field.name):
                self.problems.append(
                    f"{where!r} holds a quote, a backslash or a control character, which names "
                    "of fields must not"
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
        """Return the type for values of ``kind``, which are not NULL."""
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
        self.problems.append(f"{path} is {kind.simpleString()}, which payloads cannot hold")
        return Any

    def _of_map(self, kind: types.MapType, path: str) -> Any:
        if not isinstance(kind.keyType, (types.StringType, *_BITS)):
            self.problems.append(
                f"{path} has keys of type {kind.keyType.simpleString()}: "
                "expected string or a whole number"
            )
            return Any
        key = self.of(kind.keyType, f"{path}.key")
        value = self.of(kind.valueType, f"{path}.value")
        return dict[key, value | None] if kind.valueContainsNull else dict[key, value]  # type: ignore[valid-type]


def check_shape(schema: types.StructType) -> None:
    """Raise ``InvalidSchema`` with every column that a payload cannot be decoded into."""
    shapes = Shapes(epoch=False, forbid_extra=False)
    shapes.of_struct(schema, "")
    if shapes.problems:
        raise InvalidSchema(f"schema: {'; '.join(shapes.problems)}")
