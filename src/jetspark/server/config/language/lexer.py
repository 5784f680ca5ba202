"""The lexer of nats-server's configuration language: keys, scalars, comments.

The language was learned from nats-server's behaviour, corner cases included (wire.md, Command line
and configuration): a bare word ends at the next blank, comma, semicolon, bracket or line end;
numbers may have a suffix for thousands or 1024s; a number followed by other letters is a word
(``100ms``); a word is a boolean, a variable (``$NAME``) or a string.
"""

import re
from bisect import bisect_left
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final, NamedTuple

from jetspark.server.config.language.problem import ConfigRefused, Place, refused
from jetspark.server.config.language.tree import Scalar

NEWLINES: Final = "\n\r"
# The characters of Go's unicode.IsSpace; Python's isspace also has the separators 1C to 1F.
SPACES: Final = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
SEPARATORS: Final = "=:"

_WORD_ENDS: Final = frozenset("\n\r;,]}\t ")
_INCLUDE_ENDS: Final = frozenset("\n\r;}\t ")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_BOOLEANS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_NUMBER: Final = re.compile(r"-?\d+")
_SUFFIX: Final = re.compile(r"[kmgtpe][bi]*", re.IGNORECASE)
_NUMBER_ENDS: Final = frozenset("\n\r},; \t")
_FACTORS: Final = {
    letter + unit: (1000 if not unit else 1024) ** power
    for power, letter in enumerate("kmgtpe", start=1)
    for unit in ("", "b", "i", "ib")
}
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ADDRESS: Final = re.compile(r"[\d.:-]*")
_INT64: Final = 2**63
# nats-server recognises a bare bcrypt hash, which would otherwise be a variable.
_BCRYPT: Final = "$2a$"


class Kind(Enum):
    """The type of a scalar, as far as its spelling shows."""

    VALUE = auto()
    VARIABLE = auto()


class Word(NamedTuple):
    """A scalar: its value, or the name of its variable."""

    kind: Kind
    value: Scalar


class Scanner:
    """Reads one text from left to right. ``name`` is the file name in problems."""

    def __init__(self, text: str, name: str) -> None:
        self.text: Final = text
        self.name: Final = name
        self.position: int = 0
        self._line_ends: Final = [found.start() for found in re.finditer("\n", text)]

    def place(self, position: int | None = None) -> Place:
        """Return the place of the scanner (or of ``position``)."""
        at = self.position if position is None else position
        return Place(self.name, bisect_left(self._line_ends, at) + 1)

    def problem(self, message: str) -> ConfigRefused:
        """Return the exception for an error at the next character."""
        return refused(self.place(), message)

    def peek(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.position : self.position + 1]

    def advance(self, count: int = 1) -> None:
        """Go past the next characters."""
        self.position += count

    def shown(self) -> str:
        """Return the next character for messages."""
        char = self.peek()
        if not char:
            return "the end of the file"
        return "the end of the line" if char in NEWLINES else repr(char)

    def skip_spaces(self) -> None:
        """Skip blanks and line ends."""
        while self.peek() in SPACES:
            self.position += 1

    def skip_blanks(self) -> None:
        """Skip blanks, but no line end."""
        while self.text.startswith(("\t", " "), self.position):
            self.position += 1

    def skip_comment(self) -> bool:
        """Skip ``# ...`` or ``// ...`` up to the line end; return whether there was one."""
        if self.peek() != "#" and not self.text.startswith("//", self.position):
            return False
        while self.peek() and self.peek() not in NEWLINES:
            self.position += 1
        return True

    def quoted_key(self) -> str:
        """Return the key between two quotes; nothing in it is special."""
        quote = self.peek()
        end = self.text.find(quote, self.position + 1)
        if end < 0:
            raise self.problem(f"the key that starts here has no closing {quote}")
        key = self.text[self.position + 1 : end]
        self.position = end + 1
        return key

    def bare_key(self) -> str:
        """Return the key up to a blank, ``=`` or ``:``. Its first character may be anything."""
        start = self.position
        self.position += 1
        while self.peek() and self.peek() not in SPACES and self.peek() not in SEPARATORS:
            self.position += 1
        return self.text[start : self.position]

    def include_path(self) -> str:
        """Return the file name after ``include``."""
        self.skip_blanks()
        char = self.peek()
        if char and char in "'\"":
            end = self.text.find(char, self.position + 1)
            if end < 0:
                raise self.problem(f"the file name after 'include' has no closing {char}")
            path = self.text[self.position + 1 : end]
            self.position = end + 1
            return path
        if not char or char in "[{(\\\n\r-" or char.isdecimal():
            raise self.problem(f"expected a file name after 'include', got {self.shown()}")
        start = self.position
        while self.peek() and self.peek() not in _INCLUDE_ENDS and self.peek() != "'":
            self.position += 1
        path = self.text[start : self.position]
        if self.peek() == "'":
            self.position += 1
        return path

    def scalar(self) -> Word:
        """Return the scalar that starts at the next character."""
        char = self.peek()
        if char == "'":
            return Word(Kind.VALUE, self._single_quoted())
        if char == '"':
            return Word(Kind.VALUE, self._double_quoted())
        if char == "(":
            return Word(Kind.VALUE, self._block())
        if char == "-" or char.isdecimal():
            return self._number()
        if char == ".":
            raise self.problem("a number starts with a digit, not with '.'; a string needs quotes")
        return self._word(self.position)

    def _single_quoted(self) -> str:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise self.problem("the string that starts here has no closing '")
        value = self.text[self.position + 1 : end]
        self.position = end + 1
        return value

    def _double_quoted(self) -> str:
        start = self.position
        self.position += 1
        parts: list[str] = []
        while (char := self.peek()) != '"':
            if not char:
                self.position = start
                raise self.problem('the string that starts here has no closing "')
            if char == "\\":
                parts.append(self._escape())
            else:
                parts.append(char)
                self.position += 1
        self.position += 1
        return self._joined(parts)

    def _block(self) -> str:
        """Return the text between ``(`` and a ``)`` that is alone on its line."""
        end = self.text.find("\n)", self.position)
        while end >= 0:
            after = self.text[end + 2 : end + 3]
            if after in {"", "\n"}:
                # At the end of the file nats-server includes the bracket in the text.
                value = self.text[self.position + 1 : end + (1 if after else 2)]
                self.position = end + 2
                return value
            end = self.text.find("\n)", end + 1)
        raise self.problem("the text that starts with '(' has no ')' on a line of its own")

    def _word(self, start: int) -> Word:
        """Return the bare word that started at ``start``; the scanner may be inside it already."""
        parts = [self.text[start : self.position]]
        escaped = False
        while (char := self.peek()) and char not in _WORD_ENDS and char != "'":
            if char == "\\":
                escaped = True
                parts.append(self._escape())
            else:
                parts.append(char)
                self.position += 1
        text = self._joined(parts)
        if self.peek() == "'":
            self.position += 1
            return Word(Kind.VALUE, text)
        if escaped:
            return Word(Kind.VALUE, text)
        if text.lower() in _BOOLEANS:
            return Word(Kind.VALUE, _BOOLEANS[text.lower()])
        if text.startswith("$") and not text.startswith(_BCRYPT):
            return Word(Kind.VARIABLE, text[1:])
        return Word(Kind.VALUE, text)

    def _escape(self) -> str:
        r"""Return the meaning of ``\t``, ``\x41`` and similar."""
        code = self.text[self.position + 1 : self.position + 2]
        if code in _ESCAPES:
            self.position += 2
            return _ESCAPES[code]
        digits = self.text[self.position + 2 : self.position + 4]
        if code != "x":
            raise self.problem(
                f"bad escape '\\{code}'; expected \\xXX, \\t, \\n, \\r, \\\" or \\\\"
            )
        if not re.fullmatch("[0-9a-fA-F]{2}", digits):
            raise self.problem(f"expected two hexadecimal digits after '\\x', got {digits!r}")
        self.position += 4
        return bytes([int(digits, 16)]).decode("utf-8", "surrogateescape")

    def _joined(self, parts: list[str]) -> str:
        text = "".join(parts)
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            raise self.problem("the string is not UTF-8; check its \\x escapes") from None

    def _number(self) -> Word:
        start = self.position
        found = _NUMBER.match(self.text, start)
        if found is None:
            self.position += 1
            raise self.problem(f"expected a digit after '-', got {self.shown()}; quote strings")
        negative = found[0].startswith("-")
        self.position = found.end()
        char = self.peek()
        if char == ".":
            return self._fraction(start)
        if char == "-" and not negative:
            return Word(Kind.VALUE, self._date(start))
        suffix = _SUFFIX.match(self.text, self.position)
        if suffix is not None:
            self.position = suffix.end()
            if self.peek() and self.peek() not in _NUMBER_ENDS:
                return self._word(start)
            return Word(Kind.VALUE, self._integer(found[0], suffix[0], start))
        # nats-server reads "1]" as a word and then misses the bracket; here it ends the number.
        if char and not negative and char not in _NUMBER_ENDS and char != "]":
            self.position += 1  # the character that makes it a word is never special
            return self._word(start)
        return Word(Kind.VALUE, self._integer(found[0], "", start))

    def _integer(self, digits: str, suffix: str, start: int) -> int:
        place = self.place(start)
        if not digits.removeprefix("-").isascii():
            raise refused(place, f"{digits} is not an integer; expected the digits 0 to 9")
        factor = _FACTORS.get(suffix.lower()) if suffix else 1
        if factor is None:
            raise refused(
                place,
                f"{digits}{suffix} has an unknown suffix; expected k, m, g, t, p or e "
                "(thousands), or one of them followed by b, i or ib (1024s)",
            )
        # Python refuses to convert thousands of digits; 20 are beyond the range already.
        short = digits.lstrip("-0") or "0"
        number = int(short) * factor if len(short) < 20 else 2 * _INT64
        number = -number if digits.startswith("-") else number
        if not -_INT64 <= number < _INT64:
            raise refused(place, f"integer '{digits}{suffix}' is out of the range of 64 bits")
        return number

    def _fraction(self, start: int) -> Word:
        """Return ``1.5``, or an address like ``127.0.0.1:4222``."""
        fraction = re.compile(r"\d+").match(self.text, self.position + 1)
        if fraction is None:
            self.position += 1
            raise self.problem(f"expected a digit after '.', got {self.shown()}")
        self.position = fraction.end()
        if self.peek() == ".":
            rest = _ADDRESS.match(self.text, self.position)
            assert rest is not None, "the pattern also matches an empty text"
            self.position = rest.end()
            return Word(Kind.VALUE, self.text[start : self.position])
        text = self.text[start : self.position]
        if not text.isascii():
            raise refused(self.place(start), f"{text} is not a number; expected the digits 0 to 9")
        value = float(text)
        if value in {float("inf"), float("-inf")}:
            raise refused(self.place(start), f"float '{text}' is out of the range")
        return Word(Kind.VALUE, value)

    def _date(self, start: int) -> datetime:
        found = _DATE.match(self.text, start)
        if found is None:
            raise refused(
                self.place(start),
                "a bare word that starts with digits and '-' is a date: expected the form "
                "2006-01-02T15:04:05Z, or quotes around a string",
            )
        self.position = found.end()
        try:
            return datetime.strptime(found[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise refused(self.place(start), f"{found[0]} is not a valid date") from None
