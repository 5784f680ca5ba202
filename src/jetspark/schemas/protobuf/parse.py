"""Parses .proto files: the part of proto3 that payloads with columns need.

Messages (also nested), enums, ``optional``, ``repeated``, ``map``, ``oneof``, ``reserved`` and
Timestamp. Options and services do not affect payloads and are skipped. Everything else is refused
by its name: recursive messages and ``Any`` have no column type, proto2 has other rules.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

from jetspark.errors import InvalidSchema
from jetspark.schemas.protobuf.model import (
    SCALARS,
    TIMESTAMP,
    Kind,
    ProtoEnum,
    ProtoField,
    ProtoMessage,
)
from jetspark.schemas.types import FIELDS_MAX

_TOKEN: Final = re.compile(
    # Possessive: what was skipped is not tried again in other ways, of which there may be 2^n.
    r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+"
    r"(?:(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<number>-?(?:0[xX][0-9a-fA-F]+|\d[\w.]*))"
    r"|(?P<word>\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<mark>[{}\[\]<>();:,=.+-])|(?P<end>$))",
    re.DOTALL,
)
_IS_TYPE: Final = re.compile(r"\s*\w+\s*=\s*\d")
_NUMBER_MAX: Final = 2**29 - 1
# Of an enum: those of an int32.
_ENUM_MAX: Final = 2**31 - 1
# Reserved in one message: each field is compared with all of them.
_RANGES_MAX: Final = 1000
_KEYS: Final = (
    "int32", "int64", "uint32", "sint32", "sint64", "fixed32", "sfixed32", "sfixed64", "string",
)  # fmt: skip
_DEPTH_MAX: Final = 50
# Characters of a name with its package: every type is looked for in each part of it.
_NAME_MAX: Final = 1000
# Words that begin a declaration that this parser refuses, and why.
_REFUSED: Final[Mapping[str, str]] = {
    "required": "required is proto2's; every field of proto3 may be missing",
    "group": "groups are proto2's; use a message",
    "extend": "extensions are proto2's",
    "extensions": "extensions are proto2's",
}


class _Raw(NamedTuple):
    number: int
    name: str
    type_name: str
    label: str
    key: str
    oneof: str


class _RawMessage(NamedTuple):
    name: str
    fields: list[_Raw]


def parse_proto(text: str) -> ProtoMessage:
    """Return the first message of the file, with the types that its fields use."""
    parser = _Parser(text)
    parser.file()
    if not parser.first:
        raise InvalidSchema("the .proto file has no message")
    return _Resolver(parser.messages, parser.enums).message(parser.first, "", ())


class _Parser:
    """Parses the declarations of a file, without resolving the names of types."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next = 0
        self._kind = ""
        self._value = ""
        self.messages: dict[str, _RawMessage] = {}
        self.enums: dict[str, ProtoEnum] = {}
        self.first = ""
        self._advance()

    def file(self) -> None:
        """Parse everything."""
        if not self._take("syntax"):
            self._refuse('expected syntax = "proto3"; at the beginning (without it, it is proto2)')
        self._expect("=")
        if self._string() != "proto3":
            self._refuse('only syntax = "proto3" is supported')
        self._expect(";")
        package = ""
        while self._kind != "end":
            if self._take(";"):
                continue
            if self._take("package"):
                package = self._word()
                self._expect(";")
            elif self._take("import"):
                self._import()
            elif self._take("option"):
                self._skip_option()
            elif self._take("service"):
                self._word()
                self._skip_block()
            elif self._take("message"):
                self._message(package, 0)
            elif self._take("enum"):
                self._enum(package)
            else:
                self._refuse(_REFUSED.get(self._value, "expected message, enum or option"))

    def _import(self) -> None:
        for word in ("public", "weak"):
            if self._take(word):
                break
        path = self._string()
        if path != "google/protobuf/timestamp.proto":
            self._refuse(
                f"import {path!r} is not supported: a schema is one file (only "
                "google/protobuf/timestamp.proto may be imported); copy the messages into it"
            )
        self._expect(";")

    def _message(self, scope: str, depth: int) -> None:
        if depth > _DEPTH_MAX:
            self._refuse(f"messages may be nested at most {_DEPTH_MAX} levels deep")
        name = self._declared(scope)
        self.first = self.first or name
        fields: list[_Raw] = []
        # Reserved, first so that its uses are found whatever their order.
        numbers: list[tuple[int, int]] = []
        names: set[str] = set()
        self.messages[name] = _RawMessage(name, fields)
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._begins("message"):
                self._message(name, depth + 1)
            elif self._begins("enum"):
                self._enum(name)
            elif self._begins("oneof"):
                self._oneof(fields)
            elif self._begins("option"):
                self._skip_option()
            elif self._begins("reserved"):
                self._reserved(numbers, names)
            else:
                fields.append(self._field(""))
            self._count(fields)
        self._check_fields(name, fields, numbers, names)

    def _count(self, items: list[Any]) -> None:
        if len(items) > FIELDS_MAX:
            self._refuse(f"more than {FIELDS_MAX:,} fields, ranges or values")

    def _begins(self, word: str) -> bool:
        """Take a word that begins a declaration, unless it is the type of a field.

        ``message message = 1;`` is unusual, but allowed only with a type before it: a word that a
        name and then ``=`` follow is a type.
        """
        if not (self._kind == "word" and self._value == word):
            return False
        if _IS_TYPE.match(self._text, self._next) and word != "option":
            return False
        self._advance()
        return True

    def _oneof(self, fields: list[_Raw]) -> None:
        name = self._word()
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._begins("option"):
                self._skip_option()
                continue
            field = self._field(name)
            if field.label:
                self._refuse(f"a field of a oneof must not be {field.label}")
            fields.append(field)
            self._count(fields)

    def _field(self, oneof: str) -> _Raw:
        if self._value in _REFUSED:
            self._refuse(_REFUSED[self._value])
        label = key = ""
        for word in ("optional", "repeated"):
            if self._begins(word):
                label = word
        if self._kind == "word" and self._value == "map" and self._follows("<"):
            if label:
                self._refuse(f"a map must not be {label}")
            self._advance()
            self._expect("<")
            label, key = "map", self._word()
            if key not in _KEYS:
                self._refuse(
                    f"a map with keys of type {key[:40]}: expected one of {', '.join(_KEYS)}"
                )
            self._expect(",")
            kind = self._word()
            self._expect(">")
        else:
            kind = self._word()
        if kind == "group":
            self._refuse(_REFUSED["group"])
        name = self._word()
        if "." in name:
            self._refuse(f"{name!r} is not a name of a field")
        self._expect("=")
        number = self._number()
        if not 1 <= number <= _NUMBER_MAX or 19000 <= number <= 19999:
            self._refuse(f"the number of field {name} is {number}: expected 1 to {_NUMBER_MAX}, "
                         "without 19000 to 19999")  # fmt: skip
        self._skip_brackets()
        self._expect(";")
        return _Raw(number, name, kind, label, key, oneof)

    def _check_fields(
        self,
        message: str,
        fields: list[_Raw],
        numbers: list[tuple[int, int]],
        names: set[str],
    ) -> None:
        by_number: dict[int, str] = {}
        seen: set[str] = set()
        for field in fields:
            if field.number in by_number:
                other = by_number[field.number]
                self._refuse_at(
                    f"{message}: fields {other} and {field.name} both have number {field.number}"
                )
            if field.name in seen:
                self._refuse_at(f"{message}: two fields have the name {field.name}")
            if field.name in names:
                self._refuse_at(f"{message}: the name {field.name} is reserved")
            if any(first <= field.number <= last for first, last in numbers):
                self._refuse_at(f"{message}: number {field.number} ({field.name}) is reserved")
            by_number[field.number] = field.name
            seen.add(field.name)

    def _reserved(self, numbers: list[tuple[int, int]], names: set[str]) -> None:
        while True:
            if self._kind == "text":
                names.add(self._string())
            else:
                first = last = self._number()
                if self._take("to"):
                    last = 2**31 if self._take("max") else self._number()
                numbers.append((first, last))
                if len(numbers) > _RANGES_MAX:
                    self._refuse(f"more than {_RANGES_MAX:,} reserved ranges: write 4 to 9")
            if not self._take(","):
                break
        self._expect(";")

    def _enum(self, scope: str) -> None:
        name = self._declared(scope)
        values: list[tuple[str, int]] = []
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._begins("option"):
                self._skip_option()
                continue
            if self._begins("reserved"):
                self._reserved([], set())
                continue
            word = self._word()
            self._expect("=")
            number = self._number()
            if not -_ENUM_MAX - 1 <= number <= _ENUM_MAX:
                self._refuse(f"the number of {word} is {number}: expected one of 32 bits")
            values.append((word, number))
            self._count(values)
            self._skip_brackets()
            self._expect(";")
        if not values or values[0][1] != 0:
            self._refuse_at(f"enum {name}: its first value must be 0")
        if len({word for word, _ in values}) < len(values):
            self._refuse_at(f"enum {name}: two values have the same name")
        self.enums[name] = ProtoEnum(name, tuple(values))

    def _declared(self, scope: str) -> str:
        name = self._word()
        full = f"{scope}.{name}" if scope else name
        if len(full) > _NAME_MAX:
            self._refuse(f"its name has more than {_NAME_MAX} characters, with the package")
        if full in self.messages or full in self.enums:
            self._refuse(f"{full} is declared twice")
        return full

    def _skip_option(self) -> None:
        while self._value != ";" or self._kind != "mark":
            if self._kind == "end":
                self._refuse("expected ; after the option")
            if self._kind == "mark" and self._value == "{":
                self._skip_block()
            else:
                self._advance()
        self._expect(";")

    def _skip_block(self) -> None:
        self._expect("{")
        depth = 1
        while depth:
            if self._kind == "end":
                self._refuse("expected }")
            if self._kind == "mark":
                depth += {"{": 1, "}": -1}.get(self._value, 0)
            self._advance()

    def _skip_brackets(self) -> None:
        if not self._take("["):
            return
        depth = 1
        while depth:
            if self._kind == "end":
                self._refuse("expected ]")
            if self._kind == "mark":
                depth += {"[": 1, "]": -1}.get(self._value, 0)
            self._advance()

    def _follows(self, mark: str) -> bool:
        found = _TOKEN.match(self._text, self._next)
        return found is not None and found["mark"] == mark

    def _take(self, value: str) -> bool:
        if self._kind in {"word", "mark"} and self._value == value:
            self._advance()
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._take(value):
            self._refuse(f"expected {value}")

    def _word(self) -> str:
        if self._kind != "word":
            self._refuse("expected a name")
        word = self._value
        self._advance()
        return word

    def _string(self) -> str:
        if self._kind != "text":
            self._refuse("expected a quoted string")
        text = self._value[1:-1]
        self._advance()
        return text

    def _number(self) -> int:
        try:
            number = int(self._value, 0) if self._kind == "number" else None
        except ValueError:
            number = None
        if number is None:
            self._refuse("expected a whole number")
        self._advance()
        return number

    def _advance(self) -> None:
        self._at = self._next
        found = _TOKEN.match(self._text, self._next)
        if found is None:
            self._refuse("unexpected character")
        self._next = found.end()
        self._kind = found.lastgroup or ""
        self._value = found[self._kind]

    def _refuse(self, problem: str) -> NoReturn:
        rest = self._text[self._at :].lstrip()
        line = 1 + self._text.count("\n", 0, len(self._text) - len(rest))
        where = f"at {rest[:40]!r}" if rest else "at the end"
        raise InvalidSchema(f"the .proto file, line {line}, {where}: {problem}")

    def _refuse_at(self, problem: str) -> NoReturn:
        raise InvalidSchema(f"the .proto file: {problem}")


class _Resolver:
    """Finds the declarations that fields name."""

    def __init__(
        self, messages: Mapping[str, _RawMessage], enums: Mapping[str, ProtoEnum]
    ) -> None:
        self._messages = messages
        self._enums = enums
        self._fields = 0

    def message(self, name: str, path: str, within: tuple[str, ...]) -> ProtoMessage:
        """Return a message with the types of all its fields."""
        raw = self._messages[name]
        if name in within:
            raise InvalidSchema(
                f"the .proto file: {path} is a recursive {name}, which has no column type"
            )
        if not raw.fields:
            raise InvalidSchema(f"the .proto file: message {name} has no fields")
        if len(within) > _DEPTH_MAX:
            raise InvalidSchema(
                f"the .proto file: messages may be at most {_DEPTH_MAX} levels deep, {name} is "
                "deeper"
            )
        # A message used twice within one that is used twice, and so on, has 2^n columns.
        self._fields += len(raw.fields)
        if self._fields > FIELDS_MAX:
            raise InvalidSchema(
                f"the .proto file has more than {FIELDS_MAX:,} fields, counted at each use"
            )
        fields = [self._field(one, raw.name, path, (*within, name)) for one in raw.fields]
        return ProtoMessage(name, tuple(fields))

    def _field(self, raw: _Raw, scope: str, path: str, within: tuple[str, ...]) -> ProtoField:
        where = f"{path}.{raw.name}" if path else raw.name
        kind = self._kind(raw.type_name, scope, where, within)
        return ProtoField(raw.number, raw.name, kind, raw.label, raw.key, raw.oneof)

    def _kind(self, name: str, scope: str, path: str, within: tuple[str, ...]) -> Kind:
        if name in SCALARS and name != TIMESTAMP:
            return name
        # As in C++: the innermost scope first; a leading dot begins at the outermost.
        scopes = [""] if name.startswith(".") else _outward(scope)
        bare = name.removeprefix(".")
        for outer in scopes:
            full = f"{outer}.{bare}" if outer else bare
            if full in self._enums:
                return self._enums[full]
            if full in self._messages:
                return self.message(full, path, within)
        if bare == TIMESTAMP:
            return TIMESTAMP
        known = ", ".join([*SCALARS, "or a message or enum of this file"])
        raise InvalidSchema(
            f"the .proto file: {path} has type {name}, which is not supported: expected {known}"
        )


def _outward(scope: str) -> list[str]:
    parts = scope.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), -1, -1)]
