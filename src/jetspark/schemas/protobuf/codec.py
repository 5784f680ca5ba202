"""Protobuf payloads of one .proto file, and which changes of the file keep them readable."""

from typing import Any, Final

from jetspark.schemas.protobuf.model import (
    Kind,
    ProtoEnum,
    ProtoField,
    ProtoMessage,
    record_of,
)
from jetspark.schemas.protobuf.parse import parse_proto
from jetspark.schemas.protobuf.wire import MessageCodec
from jetspark.schemas.types import RecordType
from jetspark.schemas.values import Checker

# Types with the same bytes, from which a reader gets every value of the writer's.
_WIDER: Final = {
    ("int64", "int32"), ("int64", "uint32"), ("int64", "bool"), ("int32", "bool"),
    ("uint64", "uint32"), ("uint64", "bool"), ("uint32", "bool"), ("sint64", "sint32"),
    ("bytes", "string"),
}  # fmt: skip


class ProtobufCodec:
    """Encodes and decodes the first message of a .proto file."""

    def __init__(self, text: str) -> None:
        message = parse_proto(text)
        self.message: Final[ProtoMessage] = message
        self.record: Final[RecordType] = record_of(message)
        self.identity: Final[object] = message
        self._wire = MessageCodec(message)
        self._checker = Checker(finite=False)

    def encode(self, value: Any) -> bytes:
        """Return the payload; PayloadMismatch names the field that does not fit."""
        return self._wire.encode(self._checker.record(value, self.record))

    def decode(self, data: bytes, writer: "ProtobufCodec") -> dict[str, Any]:
        """Return all fields of this schema, with their defaults where the payload has none."""
        del writer  # numbers are in the payload
        return self._wire.decode(data)

    def problems_reading(self, writer: "ProtobufCodec") -> list[str]:
        """Return why payloads of ``writer`` could not be decoded with this schema."""
        return _message_problems(self.message, writer.message, "")


def _message_problems(reader: ProtoMessage, writer: ProtoMessage, path: str) -> list[str]:
    written = {field.number: field for field in writer.fields}
    numbers = {field.name: field.number for field in writer.fields}
    problems: list[str] = []
    for field in reader.fields:
        where = f"{path}.{field.name}" if path else field.name
        old = written.get(field.number)
        if old is None:
            if field.name in numbers:
                problems.append(
                    f"{where} has number {field.number}, and {numbers[field.name]} there"
                )
            continue
        if old.name != field.name:
            problems.append(
                f"number {field.number} is {where}, and {old.name} there: reserve the number of "
                "a field that is removed"
            )
            continue
        problems += _field_problems(field, old, where)
    return problems


def _field_problems(reader: ProtoField, writer: ProtoField, path: str) -> list[str]:
    many = {"repeated", "map"}
    if reader.label != writer.label and (reader.label in many or writer.label in many):
        return [f"{path} is {reader.label or 'singular'}, and {writer.label or 'singular'} there"]
    problems: list[str] = []
    if reader.oneof != writer.oneof:
        names = [
            f"in oneof {one}" if one else "in no oneof" for one in (reader.oneof, writer.oneof)
        ]
        problems.append(f"{path} is {names[0]}, and {names[1]} there")
    if reader.key != writer.key and (reader.key, writer.key) not in _WIDER:
        problems.append(f"{path} has keys of type {reader.key}, and {writer.key} there")
    return [*problems, *_kind_problems(reader.kind, writer.kind, path)]


def _kind_problems(reader: Kind, writer: Kind, path: str) -> list[str]:
    if isinstance(reader, ProtoMessage) and isinstance(writer, ProtoMessage):
        return _message_problems(reader, writer, path)
    if isinstance(reader, ProtoEnum) and isinstance(writer, ProtoEnum):
        known = dict(reader.values)
        changed = [name for name, number in writer.values if known.get(name) != number]
        if not changed:
            return []
        return [f"enum {reader.name} of {path} does not have {', '.join(changed)}"]
    same = reader == writer or (reader, writer) in _WIDER
    if same or (reader in {"int32", "int64"} and isinstance(writer, ProtoEnum)):
        return []
    return [f"{path} is {_shown(reader)}, which does not hold every {_shown(writer)}"]


def _shown(kind: Kind) -> str:
    return kind if isinstance(kind, str) else kind.name
