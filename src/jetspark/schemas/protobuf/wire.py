"""The bytes of protobuf messages: values to bytes and back.

Stricter than generated code where that would change a value silently: a number that does not fit
its type and a name that an enum does not have are refused, not truncated or kept as a number.
"""

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from jetspark.errors import PayloadMismatch
from jetspark.schemas.protobuf.model import (
    TIMESTAMP,
    Kind,
    ProtoEnum,
    ProtoField,
    ProtoMessage,
)

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_GROUP: Final = 3
_GROUP_END: Final = 4
_FIXED32: Final = 5
_GROUPS_MAX: Final = 100
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO: Final = dt.timedelta(microseconds=1)

_SIGNED: Final = {"int32": 32, "int64": 64, "sint32": 32, "sint64": 64}
_UNSIGNED: Final = {"uint32": 32, "uint64": 64, "fixed32": 32, "fixed64": 64}
_PACKED: Final[Mapping[str, struct.Struct]] = {
    "double": struct.Struct("<d"),
    "float": struct.Struct("<f"),
    "fixed32": struct.Struct("<I"),
    "fixed64": struct.Struct("<Q"),
    "sfixed32": struct.Struct("<i"),
    "sfixed64": struct.Struct("<q"),
}


class _Codec(NamedTuple):
    """How values of one type are written and read."""

    wire: int
    encode: Callable[[Any, str], bytes]
    # Of the varint, or of the bytes.
    decode: Callable[[Any, str], Any]
    default: Any


class MessageCodec:
    """Encodes and decodes one message type."""

    def __init__(self, message: ProtoMessage) -> None:
        self._fields = {field.number: _FieldCodec(field) for field in message.fields}
        self._in_order = [self._fields[number] for number in sorted(self._fields)]

    def encode(self, values: Mapping[str, Any], path: str = "") -> bytes:
        """Return the bytes of a message whose values were checked by ``values.Checker``."""
        parts: list[bytes] = []
        chosen: dict[str, str] = {}
        for field in self._in_order:
            value = values.get(field.name)
            if value is None:
                continue
            where = f"{path}.{field.name}" if path else field.name
            if field.oneof:
                other = chosen.setdefault(field.oneof, field.name)
                if other != field.name:
                    raise PayloadMismatch(
                        f"{where}: {other} is set too, and oneof {field.oneof} has one of them"
                    )
            field.encode(value, where, parts)
        return b"".join(parts)

    def decode(self, data: bytes, path: str = "") -> dict[str, Any]:
        """Return every field; one without a value has its default, or None if it has presence."""
        found: dict[int, Any] = {}
        # By oneof: the member that came last, the others do not count.
        chosen: dict[str, int] = {}
        at, end = 0, len(data)
        while at < end:
            number, wire, at = _tag(data, at, path)
            value, at = _take(data, at, wire, path, number)
            field = self._fields.get(number)
            if field is not None:
                if field.oneof:
                    other = chosen.get(field.oneof, number)
                    if other != number:
                        found.pop(other, None)
                    chosen[field.oneof] = number
                field.collect(found, value, wire, path)
        return {field.name: field.result(found.get(number), path) for number, field in
                self._fields.items()}  # fmt: skip


class _FieldCodec:
    """One field of a message: its values in a payload, singular, repeated or entries of a map."""

    def __init__(self, field: ProtoField) -> None:
        self.name: Final = field.name
        self.oneof: Final = field.oneof
        self._number = field.number
        self._label = field.label
        self._presence = field.has_presence
        self._kind = _codec_of(field.kind)
        self._is_message = isinstance(field.kind, ProtoMessage) or field.kind == TIMESTAMP
        self._key = _codec_of(field.key) if field.key else None

    def encode(self, value: Any, path: str, parts: list[bytes]) -> None:
        """Append the value with its tag."""
        kind = self._kind
        if self._label == "map":
            assert self._key is not None
            for key, one in value.items():
                where = f"{path}[{key!r}]"
                entry = (
                    _tagged(1, self._key.wire, self._key.encode(key, where))
                    + _tagged(2, kind.wire, kind.encode(one, where))
                )  # fmt: skip
                parts.append(_tagged(self._number, _BYTES, entry))
        elif self._label == "repeated":
            items = [kind.encode(one, f"{path}[{n}]") for n, one in enumerate(value)]
            if kind.wire == _BYTES:
                parts += [_tagged(self._number, _BYTES, one) for one in items]
            elif items:
                parts.append(_tagged(self._number, _BYTES, b"".join(items)))
        else:
            encoded = kind.encode(value, path)
            if self._presence or encoded != kind.encode(kind.default, path):
                parts.append(_tagged(self._number, kind.wire, encoded))

    def collect(self, found: dict[int, Any], value: Any, wire: int, path: str) -> None:
        """Keep a value that occurs in a payload, by the rules of merging."""
        kind = self._kind
        where = f"{path}.{self.name}" if path else self.name
        expected = _BYTES if self._label == "map" else kind.wire
        packed = self._label == "repeated" and wire == _BYTES and kind.wire != _BYTES
        if wire != expected and not packed:
            raise _broken(where, f"it has wire type {wire}, expected {expected}")
        if self._label == "map":
            found.setdefault(self._number, []).append(value)
        elif packed:
            found.setdefault(self._number, []).extend(_unpacked(value, kind.wire, where))
        elif self._label == "repeated" or self._is_message:
            # A message that occurs twice is merged, which is what its bytes in sequence mean.
            # They are joined once: one after the other, a payload of 1 MB would take 30 s.
            found.setdefault(self._number, []).append(value)
        else:
            found[self._number] = value

    def result(self, raw: Any, path: str) -> Any:
        """Return the value of what was collected."""
        where = f"{path}.{self.name}" if path else self.name
        if self._label == "map":
            return dict(self._entry(one, where) for one in raw or ())
        if self._label == "repeated":
            decode = self._kind.decode
            return [decode(one, f"{where}[{n}]") for n, one in enumerate(raw or ())]
        if raw is None:
            return None if self._presence else self._kind.default
        return self._kind.decode(b"".join(raw) if self._is_message else raw, where)

    def _entry(self, data: bytes, path: str) -> tuple[Any, Any]:
        assert self._key is not None
        key = self._key.default
        values: list[Any] = []
        at, end = 0, len(data)
        while at < end:
            number, wire, at = _tag(data, at, path)
            one, at = _take(data, at, wire, path, number)
            kind = {1: self._key, 2: self._kind}.get(number)
            if kind is None:
                continue
            if wire != kind.wire:
                raise _broken(path, "an entry of the map has another wire type")
            if number == 1:
                key = self._key.decode(one, f"{path}.key")
            else:
                values.append(one)
        if not values and not self._is_message:
            return key, self._kind.default
        value = b"".join(values) if self._is_message else values[-1]
        return key, self._kind.decode(value, f"{path}[{key!r}]")


def _codec_of(kind: Kind) -> _Codec:
    if isinstance(kind, ProtoMessage):
        inner = MessageCodec(kind)
        return _Codec(_BYTES, inner.encode, inner.decode, None)
    if isinstance(kind, ProtoEnum):
        return _enum(kind)
    if kind == TIMESTAMP:
        return _Codec(_BYTES, _encode_time, _decode_time, None)
    if kind in _PACKED:
        return _fixed(kind, _PACKED[kind])
    if kind == "bool":
        return _Codec(_VARINT, lambda value, _: b"\x01" if value else b"\x00",
                      lambda raw, _: raw != 0, False)  # fmt: skip
    if kind == "string":
        return _Codec(_BYTES, lambda value, _: value.encode(), _decode_text, "")
    if kind == "bytes":
        return _Codec(_BYTES, lambda value, _: value, lambda raw, _: raw, b"")
    return _integer(kind)


def _integer(kind: str) -> _Codec:
    signed = kind in _SIGNED
    bits = _SIGNED[kind] if signed else _UNSIGNED[kind]
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1)) if signed else 1 << bits
    zigzag = kind.startswith("sint")

    def encode(value: Any, path: str) -> bytes:
        number = int(value)
        if not low <= number < high:
            raise PayloadMismatch(f"{path}: {number} does not fit {kind}")
        if zigzag:
            return _to_varint(number << 1 if number >= 0 else ((-number) << 1) - 1)
        return _to_varint(number & 0xFFFFFFFFFFFFFFFF)

    def decode(raw: int, path: str) -> int:
        if zigzag:
            number = (raw >> 1) ^ -(raw & 1)
        else:
            number = raw - (1 << 64) if signed and raw >= 1 << 63 else raw
        if not low <= number < high:
            raise PayloadMismatch(f"{path}: {number} does not fit {kind}")
        return number

    return _Codec(_VARINT, encode, decode, 0)


def _fixed(kind: str, layout: struct.Struct) -> _Codec:
    floating = kind in {"double", "float"}

    def encode(value: Any, path: str) -> bytes:
        try:
            return layout.pack(value if floating else int(value))
        except (struct.error, OverflowError):
            raise PayloadMismatch(f"{path}: {value} does not fit {kind}") from None

    def decode(raw: bytes, path: str) -> Any:
        del path
        return layout.unpack(raw)[0]

    wire = _FIXED64 if layout.size == 8 else _FIXED32
    return _Codec(wire, encode, decode, 0.0 if floating else 0)


def _enum(kind: ProtoEnum) -> _Codec:
    numbers = dict(kind.values)
    names: dict[int, str] = {}
    for name, number in kind.values:
        names.setdefault(number, name)

    def encode(value: str, path: str) -> bytes:
        if value not in numbers:
            raise PayloadMismatch(
                f"{path}: {value!r} is not a value of enum {kind.name}: expected one of "
                f"{', '.join(numbers)}"
            )
        return _to_varint(numbers[value] & 0xFFFFFFFFFFFFFFFF)

    def decode(raw: int, path: str) -> str:
        number = raw - (1 << 64) if raw >= 1 << 63 else raw
        if number not in names:
            raise PayloadMismatch(f"{path}: enum {kind.name} has no value with number {number}")
        return names[number]

    return _Codec(_VARINT, encode, decode, kind.values[0][0])


def _decode_text(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _broken(path, "its text is not UTF-8") from None


def _encode_time(value: dt.datetime, path: str) -> bytes:
    del path
    micros = (value - _EPOCH) // _MICRO
    seconds, rest = divmod(micros, 1_000_000)
    data = b""
    if seconds:
        data += _tagged(1, _VARINT, _to_varint(seconds & 0xFFFFFFFFFFFFFFFF))
    if rest:
        data += _tagged(2, _VARINT, _to_varint(rest * 1000))
    return data


def _decode_time(raw: bytes, path: str) -> dt.datetime:
    seconds = nanos = 0
    at, end = 0, len(raw)
    while at < end:
        number, wire, at = _tag(raw, at, path)
        one, at = _take(raw, at, wire, path, number)
        if number > 2:
            continue
        if wire != _VARINT:
            raise _broken(path, "a part of the Timestamp has another wire type")
        if number == 1:
            seconds = one - (1 << 64) if one >= 1 << 63 else one
        else:
            nanos = one
    if not 0 <= nanos < 1_000_000_000:
        raise _broken(path, "the nanoseconds of the Timestamp are out of range")
    try:
        return _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise _broken(path, f"the Timestamp {seconds} s is outside the years 1 to 9999") from None


def _tagged(number: int, wire: int, data: bytes) -> bytes:
    tag = _to_varint(number << 3 | wire)
    return tag + _to_varint(len(data)) + data if wire == _BYTES else tag + data


def _to_varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    number = shift = 0
    for index in range(at, min(at + 10, len(data))):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, index + 1
        shift += 7
    raise _broken(
        path, "it ends within a number" if len(data) - at < 10 else "a number is too long"
    )


def _tag(data: bytes, at: int, path: str) -> tuple[int, int, int]:
    """Return the number and the wire type of a field, and the place after them."""
    tag, at = _varint(data, at, path)
    if not 8 <= tag < 1 << 32:
        raise _broken(path, f"a field has number {tag >> 3}")
    return tag >> 3, tag & 7, at


def _take(
    data: bytes, at: int, wire: int, path: str, number: int, depth: int = 0
) -> tuple[Any, int]:
    """Return the value at a place, undecoded, and the place after it."""
    if wire == _VARINT:
        return _varint(data, at, path)
    if wire == _BYTES:
        size, at = _varint(data, at, path)
    elif wire == _FIXED64:
        size = 8
    elif wire == _FIXED32:
        size = 4
    elif wire == _GROUP and depth < _GROUPS_MAX:
        # Unknown to proto3; skipped like any unknown field.
        while True:
            inner, kind, at = _tag(data, at, path)
            if kind == _GROUP_END:
                if inner != number:
                    raise _broken(path, "a group ends that was not started")
                return b"", at
            _, at = _take(data, at, kind, path, inner, depth + 1)
    else:
        raise _broken(path, f"wire type {wire}")
    if at + size > len(data):
        raise _broken(path, "it is truncated")
    return data[at : at + size], at + size


def _unpacked(data: bytes, wire: int, path: str) -> list[Any]:
    items: list[Any] = []
    at, end = 0, len(data)
    while at < end:
        one, at = _take(data, at, wire, path, 0)
        items.append(one)
    return items


def _broken(path: str, what: str) -> PayloadMismatch:
    return PayloadMismatch(f"{path + ': ' if path else ''}not protobuf of this message: {what}")
