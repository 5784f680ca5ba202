"""The declarations of a .proto file, resolved: messages, fields and enums."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Union

from jetspark.schemas.types import Field, ListType, MapType, RecordType, Scalar, Type

TIMESTAMP: Final = "google.protobuf.Timestamp"

# The column type of each scalar type: unsigned ones need a wider one.
SCALARS: Final[Mapping[str, Scalar]] = {
    "double": Scalar("double"),
    "float": Scalar("float"),
    "int32": Scalar("int"),
    "sint32": Scalar("int"),
    "sfixed32": Scalar("int"),
    "int64": Scalar("bigint"),
    "sint64": Scalar("bigint"),
    "sfixed64": Scalar("bigint"),
    "uint32": Scalar("bigint"),
    "fixed32": Scalar("bigint"),
    "uint64": Scalar("decimal", 20, 0),
    "fixed64": Scalar("decimal", 20, 0),
    "bool": Scalar("boolean"),
    "string": Scalar("string"),
    "bytes": Scalar("binary"),
    TIMESTAMP: Scalar("timestamp"),
}


class ProtoEnum(NamedTuple):
    """An enum: names and numbers; several names may have one number (``allow_alias``)."""

    name: str
    values: tuple[tuple[str, int], ...]


class ProtoMessage(NamedTuple):
    """A message, fields in the order of the file."""

    name: str
    fields: tuple["ProtoField", ...]


# The name of a scalar type or of Timestamp, or a declared type.
Kind = Union[str, ProtoEnum, ProtoMessage]  # noqa: UP007 - the names above are text


class ProtoField(NamedTuple):
    """A field. ``label`` is "", "optional", "repeated" or "map" (then ``key`` is its key type)."""

    number: int
    name: str
    kind: Kind
    label: str = ""
    key: str = ""
    oneof: str = ""

    @property
    def has_presence(self) -> bool:
        """Whether a payload without it differs from one with its default."""
        if self.label in {"repeated", "map"}:
            return False
        return bool(
            self.label == "optional"
            or self.oneof
            or isinstance(self.kind, ProtoMessage)
            or self.kind == TIMESTAMP
        )


def record_of(message: ProtoMessage) -> RecordType:
    """Return the columns of a message."""
    return RecordType(
        tuple(
            Field(one.name, _type_of(one), one.has_presence, has_default=not one.has_presence)
            for one in message.fields
        )
    )


def _type_of(field: ProtoField) -> Type:
    kind = _kind_of(field.kind)
    if field.label == "repeated":
        return ListType(kind, nullable=False)
    if field.label == "map":
        return MapType(SCALARS[field.key], kind, nullable=False)
    return kind


def _kind_of(kind: Kind) -> Type:
    if isinstance(kind, ProtoMessage):
        return record_of(kind)
    return Scalar("string") if isinstance(kind, ProtoEnum) else SCALARS[kind]
