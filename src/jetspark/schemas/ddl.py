"""A parser for DDL schemas, for clients without Spark too.

Spark's own needs the JVM, which pipelines forbid.

In the query functions of a declarative pipeline every request to the server is refused
(ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION). It parses the types that a payload can be decoded
into; names in backticks, ``NOT NULL`` and ``COMMENT`` as in Spark.
"""

import re
from typing import Final, NoReturn

from jetspark.errors import InvalidSchema
from jetspark.schemas.types import FIELDS_MAX, Field, ListType, MapType, RecordType, Scalar, Type

_TYPES: Final[dict[str, Scalar]] = {
    "boolean": Scalar("boolean"),
    "tinyint": Scalar("tinyint"),
    "byte": Scalar("tinyint"),
    "smallint": Scalar("smallint"),
    "short": Scalar("smallint"),
    "int": Scalar("int"),
    "integer": Scalar("int"),
    "bigint": Scalar("bigint"),
    "long": Scalar("bigint"),
    "float": Scalar("float"),
    "real": Scalar("float"),
    "double": Scalar("double"),
    "string": Scalar("string"),
    "binary": Scalar("binary"),
    "date": Scalar("date"),
    "timestamp": Scalar("timestamp"),
    "timestamp_ltz": Scalar("timestamp"),
    "timestamp_ntz": Scalar("timestamp_ntz"),
    # Spark's default for a decimal without numbers.
    "decimal": Scalar("decimal", 10, 0),
    "dec": Scalar("decimal", 10, 0),
    "numeric": Scalar("decimal", 10, 0),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<word>\w+)|(?P<mark>[<>(),:])|(?P<end>$))"
)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = ("struct", "not", "comment")
_PRECISION_MAX: Final = 38
_DEPTH_MAX: Final = 50
# Of the length of a char or varchar.
_NUMBER_DIGITS: Final = 9
# Of a schema that cannot be parsed, in the error.
_SHOWN: Final = 200


def parse_ddl(text: str) -> RecordType:
    """Return the columns of DDL such as ``id long NOT NULL, tags array<string>``."""
    parser = _Parser(text)
    # ``struct<...>`` around the columns is equivalent, unless it is a column name.
    if parser.word == "struct" and parser.mark_follows("<"):
        kind = parser.type(0)
        parser.expect_end()
        assert isinstance(kind, RecordType)
        return kind
    fields = [parser.field(0)]
    while parser.take(","):
        fields.append(parser.field(0))
    parser.expect_end()
    return RecordType(tuple(fields))


def to_ddl(record: RecordType) -> str:
    """Return the columns as DDL that ``parse_ddl`` reads."""
    return ", ".join(
        f"{_name(one.name)} {_type_ddl(one.type)}{_null(one)}" for one in record.fields
    )


def _type_ddl(kind: Type) -> str:
    match kind:
        case RecordType():
            inner = ", ".join(
                f"{_name(one.name)}: {_type_ddl(one.type)}{_null(one)}" for one in kind.fields
            )
            return f"struct<{inner}>"
        case ListType():
            return f"array<{_type_ddl(kind.element)}>"
        case MapType():
            return f"map<{_type_ddl(kind.key)}, {_type_ddl(kind.value)}>"
    return str(kind)


def _name(name: str) -> str:
    # A plain word may still be taken for the start of ``struct<``, or be a word of SQL.
    plain = _PLAIN.fullmatch(name) and name.lower() not in _RESERVED
    return name if plain else f"`{name.replace('`', '``')}`"


def _null(field: Field) -> str:
    return "" if field.nullable else " NOT NULL"


class _Parser:
    """Parses tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next = 0
        self._fields = 0
        self.kind = ""
        self._value = ""
        self._advance()

    @property
    def word(self) -> str:
        """The next word, in lower case; empty for anything else."""
        return self._value.lower() if self.kind == "word" else ""

    def mark_follows(self, mark: str) -> bool:
        """Whether ``mark`` follows the next token."""
        found = _TOKEN.match(self._text, self._next)
        return found is not None and found["mark"] == mark

    def take(self, mark: str) -> bool:
        """Consume a mark if it is next."""
        if self.kind == "mark" and self._value == mark:
            self._advance()
            return True
        return False

    def expect_end(self) -> None:
        """Refuse text after the last column."""
        if self.kind != "end":
            self._refuse("expected ',' or the end")

    def field(self, depth: int) -> Field:
        """Parse a column: name, type, NOT NULL, COMMENT."""
        if self.kind == "word":
            name = self._value
        elif self.kind == "quoted":
            name = self._value[1:-1].replace("``", "`")
        else:
            self._refuse("expected a column name")
        self._advance()
        self.take(":")
        self._fields += 1
        if self._fields > FIELDS_MAX:
            self._refuse(f"it has more than {FIELDS_MAX:,} fields, nested ones counted")
        kind = self.type(depth)
        nullable = True
        if self.word == "not":
            self._advance()
            if self.word != "null":
                self._refuse("expected NULL after NOT")
            self._advance()
            nullable = False
        if self.word == "comment":
            self._advance()
            if self.kind != "text":
                self._refuse("expected a quoted string after COMMENT")
            self._advance()
        return Field(name, kind, nullable)

    def type(self, depth: int) -> Type:
        """Parse a type."""
        if depth > _DEPTH_MAX:
            self._refuse(f"types may be nested at most {_DEPTH_MAX} levels deep")
        name = self.word
        if name in {"array", "map", "struct"}:
            self._advance()
            return self._nested(name, depth + 1)
        if name in {"char", "character", "varchar"}:
            self._advance()
            (length,) = self._numbers(1)
            if not length:
                self._refuse(f"expected {name}(1) or more")
            return Scalar("varchar" if name == "varchar" else "char", length=length)
        if name not in _TYPES:
            self._refuse("expected a type supported for payloads")
        self._advance()
        if name in _DECIMALS and self.kind == "mark" and self._value == "(":
            precision, *rest = self._numbers(2)
            scale = rest[0] if rest else 0
            if not scale <= precision <= _PRECISION_MAX:
                self._refuse(f"decimal({precision},{scale}) exceeds 38 digits, with its scale")
            return Scalar("decimal", precision, scale)
        return _TYPES[name]

    def _nested(self, name: str, depth: int) -> Type:
        self._expect("<")
        if name == "array":
            kind: Type = ListType(self.type(depth))
        elif name == "map":
            key = self.type(depth)
            self._expect(",")
            kind = MapType(key, self.type(depth))
        else:
            fields = [self.field(depth)]
            while self.take(","):
                fields.append(self.field(depth))
            kind = RecordType(tuple(fields))
        self._expect(">")
        return kind

    def _numbers(self, most: int) -> list[int]:
        self._expect("(")
        found: list[int] = []
        while True:
            if not (self.word.isdecimal() and len(self.word) <= _NUMBER_DIGITS):
                self._refuse("expected a number")
            found.append(int(self.word))
            self._advance()
            if len(found) == most or not self.take(","):
                break
        self._expect(")")
        return found

    def _expect(self, mark: str) -> None:
        if not self.take(mark):
            self._refuse(f"expected {mark}")

    def _advance(self) -> None:
        self._at = self._next
        found = _TOKEN.match(self._text, self._next)
        if found is None:
            self._refuse("unexpected character")
        self._next = found.end()
        self.kind = found.lastgroup or ""
        self._value = found[self.kind]

    def _refuse(self, problem: str) -> NoReturn:
        rest = self._text[self._at :].strip()
        where = f"at {rest[:40]!r}" if rest else "at the end"
        shown = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}..."
        raise InvalidSchema(f"schema {shown!r} is not valid DDL: {where}: {problem}")
