"""The types of a payload's fields, with the names of SQL; what every format is mapped to."""

from typing import NamedTuple, Union


class Scalar(NamedTuple):
    """A type without parts: ``bigint``, ``string``, ``decimal`` with its digits, and so on.

    ``precision`` of a timestamp: 3 if payloads have whole milliseconds, otherwise 0 for all that
    Python has. ``length`` is that of ``char`` and ``varchar``. Names that are not in `SCALARS` are
    those of types that payloads cannot have, kept for error messages.
    """

    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.name}({self.length})" if self.length else self.name


class ListType(NamedTuple):
    """An array; ``nullable``: its elements may be NULL."""

    element: "Type"
    nullable: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


class MapType(NamedTuple):
    """A map; ``nullable``: its values may be NULL."""

    key: "Type"
    value: "Type"
    nullable: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


class Field(NamedTuple):
    """A field of a record. One that is not nullable is required.

    ``has_default``: a value to encode may leave it out anyway; what is encoded has it.
    """

    name: str
    type: "Type"
    nullable: bool = True
    has_default: bool = False


class RecordType(NamedTuple):
    """A record: fields in their order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{one.name}:{one.type}' for one in self.fields)}>"


Type = Union[Scalar, ListType, MapType, RecordType]  # noqa: UP007 - the names above are text

# Of a schema whose types are declared once and used often, which could have 2^n columns.
FIELDS_MAX = 10_000
# The precision of timestamps without microseconds.
MILLISECONDS = 3
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
SCALARS = frozenset(
    {
        *BITS, "boolean", "float", "double", "string", "binary", "date", "timestamp",
        "timestamp_ntz", "decimal", "char", "varchar",
    }
)  # fmt: skip
