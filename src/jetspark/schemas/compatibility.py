"""Which changes of a schema keep payloads readable.

One question decides all: can payloads of one schema (the writer's) be decoded with another (the
reader's)? Backward compatible is a new reader of old payloads, forward an old reader of new ones.
Rules for JSON and MessagePack are here; `avro` and `protobuf` have those of their formats.
"""

from typing import Final, Protocol, TypeVar

from jetspark.schemas.types import BITS, ListType, MapType, RecordType, Scalar, Type

# Decimal digits that every value of an integer type fits in.
_INTEGER_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
# Bits of the integers that a floating-point type holds exactly.
_EXACT_BITS: Final = {"float": 24, "double": 53}

C_contra = TypeVar("C_contra", contravariant=True)


class Reader(Protocol[C_contra]):
    """A schema, as compatibility sees it."""

    def problems_reading(self, writer: C_contra) -> list[str]:
        """Return why payloads of ``writer`` could not be decoded with this schema."""


T = TypeVar("T", bound=Reader)  # type: ignore[type-arg]


def compatibility_problems(level: str, new: T, old: T, old_version: int) -> list[str]:
    """Return a sentence for each difference that ``level`` does not allow."""
    found: list[str] = []
    if level in {"backward", "full"}:
        found += [
            f"payloads of version {old_version} could not be read: {one}"
            for one in new.problems_reading(old)
        ]
    if level in {"forward", "full"}:
        found += [
            f"readers with version {old_version} could not read new payloads: {one}"
            for one in old.problems_reading(new)
        ]
    return found


def reading_problems(reader: RecordType, writer: RecordType, path: str = "") -> list[str]:
    """Compare records whose fields are found by name."""
    written = {field.name: field for field in writer.fields}
    problems: list[str] = []
    for field in reader.fields:
        where = f"{path}.{field.name}" if path else field.name
        old = written.get(field.name)
        if old is None:
            if not field.nullable:
                problems.append(f"{where} is NOT NULL, and they do not have it")
            continue
        if old.nullable and not field.nullable:
            problems.append(f"{where} is NOT NULL, and they may have NULL there")
        problems += type_problems(field.type, old.type, where)
    return problems


def type_problems(reader: Type, writer: Type, path: str) -> list[str]:
    """Compare types of the same place."""
    match reader, writer:
        case RecordType(), RecordType():
            return reading_problems(reader, writer, path)
        case ListType(), ListType():
            return [
                *_element_problems(reader.nullable, writer.nullable, path),
                *type_problems(reader.element, writer.element, f"{path}[]"),
            ]
        case MapType(), MapType():
            return [
                *_element_problems(reader.nullable, writer.nullable, path),
                *type_problems(reader.key, writer.key, f"{path}.key"),
                *type_problems(reader.value, writer.value, f"{path}.value"),
            ]
        case Scalar(), Scalar():
            if holds(reader, writer):
                return []
    return [f"{path} is {reader}, which does not hold every {writer}"]


def _element_problems(reader: bool, writer: bool, path: str) -> list[str]:
    if writer and not reader:
        return [f"the elements of {path} are not NULL, and they may have NULL there"]
    return []


def holds(reader: Scalar, writer: Scalar) -> bool:
    """Whether every value of ``writer`` is one of ``reader``, exactly."""
    if reader == writer:
        return True
    if writer.name in BITS:
        if reader.name in BITS:
            return BITS[reader.name] >= BITS[writer.name]
        if reader.name in _EXACT_BITS:
            return _EXACT_BITS[reader.name] >= BITS[writer.name]
        digits = reader.precision - reader.scale
        return reader.name == "decimal" and digits >= _INTEGER_DIGITS[writer.name]
    match reader.name, writer.name:
        case "double", "float":
            return True
        case "decimal", "decimal":
            whole = reader.precision - reader.scale >= writer.precision - writer.scale
            return whole and reader.scale >= writer.scale
        case "string", "char" | "varchar":
            return True
        case "char" | "varchar", "char" | "varchar":
            return reader.length >= writer.length
    return False
