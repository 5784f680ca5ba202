"""Converts a schema to types for msgspec: one C call per payload.

msgspec checks types, ranges and required fields while it decodes; a refused payload is decoded
again field by field (``rows``), with the same types and therefore the same rules.
"""

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec

from jetspark.errors import InvalidSchema
from jetspark.schemas.types import BITS, Field, ListType, MapType, RecordType, Scalar, Type

# Field names that msgspec cannot match.
_UNNAMEABLE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
# What arbitrary bytes may cause in msgspec; their depth is bounded by Python's recursion limit.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError)
# The greatest number that rounds to a float. A little above the greatest float, which has fewer
# digits as text: Java and others write 3.4028235E38.
FLOAT_MAX: Final = math.nextafter(2.0**128 - 2.0**103, 0.0)
_SIMPLE: Final[dict[str, Any]] = {
    "boolean": bool,
    "double": float,
    # Its bounds are checked when the column is built (``columns``): here they would also refuse
    # NaN and the infinities, which msgpack has.
    "float": float,
    "string": str,
    # In JSON: base64.
    "binary": bytes,
    "decimal": Decimal,
    "date": dt.date,
    "timestamp_ntz": Annotated[dt.datetime, msgspec.Meta(tz=False)],
}
_KEYS: Final = ("string", "char", "varchar", *BITS)


class Shapes:
    """Creates the msgspec type of each column; ``problems`` lists unsupported ones."""

    def __init__(self, *, epoch: bool, forbid_extra: bool) -> None:
        self._timestamp: Any = int | float | dt.datetime if epoch else dt.datetime
        self._forbid_extra = forbid_extra
        self.problems: list[str] = []

    def of_field(self, field: Field, path: str) -> Any:
        """Return the type of a field; a nullable one may also be missing."""
        kind = self.of(field.type, path)
        return kind | None if field.nullable else kind

    def of_struct(self, schema: RecordType, path: str) -> Any:
        """Return a struct whose attributes are ``f0``, ``f1``... so that any field name works."""
        members: list[Any] = []
        names: dict[str, str] = {}
        seen: set[str] = set()
        for index, field in enumerate(schema.fields):
            where = f"{path}.{field.name}" if path else field.name
            if field.name in seen:
                self.problems.append(f"{where} is duplicated")
                continue
            seen.add(field.name)
            if not is_nameable(field.name):
                self.problems.append(
                    f"{where!r} contains a quote, a backslash, a control character or half of a "
                    "surrogate pair, which field names must not"
                )
                continue
            kind = self.of_field(field, where)
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

    def of(self, kind: Type, path: str) -> Any:
        """Return the type for non-null values of ``kind``."""
        match kind:
            case RecordType() if kind.fields:
                return self.of_struct(kind, path)
            case ListType():
                element = self.of(kind.element, f"{path}[]")
                return list[element | None] if kind.nullable else list[element]  # type: ignore[valid-type]
            case MapType():
                return self._of_map(kind, path)
            case Scalar("timestamp"):
                return self._timestamp
            case Scalar("char" | "varchar"):
                return Annotated[str, msgspec.Meta(max_length=kind.length)]
            case Scalar(name) if name in BITS:
                limit = 2 ** (BITS[name] - 1)
                return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
            case Scalar(name) if name in _SIMPLE:
                return _SIMPLE[name]
        self.problems.append(f"{path} is {kind}, not supported for payloads")
        return Any

    def _of_map(self, kind: MapType, path: str) -> Any:
        if not (isinstance(kind.key, Scalar) and kind.key.name in _KEYS):
            self.problems.append(
                f"{path} has keys of type {kind.key}: expected string or an integer type"
            )
            return Any
        key = self.of(kind.key, f"{path}.key")
        value = self.of(kind.value, f"{path}.value")
        return dict[key, value | None] if kind.nullable else dict[key, value]  # type: ignore[valid-type]


def is_nameable(name: str) -> bool:
    """Whether msgspec can match a field of this name."""
    return bool(name) and _UNNAMEABLE.search(name) is None


def check_shape(schema: RecordType) -> None:
    """Raise ``InvalidSchema`` with all unsupported columns."""
    shapes = Shapes(epoch=False, forbid_extra=False)
    shapes.of_struct(schema, "")
    if shapes.problems:
        raise InvalidSchema(f"schema: {'; '.join(shapes.problems)}")
