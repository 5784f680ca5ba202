"""A JSON parser that works in steps.

The standard library's parser blocks the loop for as long as a megabyte takes. This one stops after
a number of values and continues later; results and errors are the same.
"""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed has it not
from json.scanner import make_scanner
from typing import Any, Final

from mypy_extensions import i64

__all__ = ["JsonSteps"]

_BLANKS: Final = " \t\n\r"
_RUN_OF_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_HALVES: Final = dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
# The expected next element.
_VALUE: Final[i64] = 0
_VALUE_OR_END: Final[i64] = 1
_KEY: Final[i64] = 2
_KEY_OR_END: Final[i64] = 3
_COMMA: Final[i64] = 4


class JsonSteps:
    """One text, and the parser's position in it."""

    def __init__(
        self,
        text: str,
        decoder: json.JSONDecoder,
        empty: Any,
        depth_max: int,
        containers_max: int,
        text_max: int,
    ) -> None:
        self._text: str = text
        self._at: i64 = 0
        self._next: i64 = _VALUE
        # Decodes a number or a word; creates the list for the members of an object.
        self._scan: Any = make_scanner(decoder)  # type: ignore[arg-type]  # so it is called
        self._empty: Any = empty
        self._depth_max: i64 = depth_max
        self._containers_left: i64 = containers_max
        self._text_max: i64 = text_max
        # The text may contain half of a surrogate pair: U+FFFD is read instead.
        self._halves: bool = "\\ud" in text or "\\uD" in text
        # The containers that are open, whether each is an object, and the keys of their members.
        self._open: list[Any] = []
        self._objects: list[bool] = []
        self._keys: list[str] = []
        self.too_deep: bool = False
        self.too_many: bool = False
        self.too_long: i64 = 0
        self.value: Any = None

    def step(self, count: i64) -> bool:
        """Read ``count`` values and separators; True when the whole text was read.

        Raises ``json.JSONDecodeError`` and the errors of the decoder. Sets ``too_deep`` or
        ``too_many``, and stops, if there are more objects and arrays than allowed; ``too_long`` is
        the length of a string that is too long.
        """
        text = self._text
        size: i64 = len(text)
        while count > 0:
            count -= 1
            at = self._after_blanks(self._at)
            sign = text[at] if at < size else ""
            if self._next == _COMMA:
                if len(self._open) == 0:
                    if at < size:
                        raise json.JSONDecodeError("Extra data", text, int(at))
                    return True
                self._at = at + 1
                is_object = self._objects[-1]
                if sign == ",":
                    self._next = _KEY if is_object else _VALUE
                elif sign == ("}" if is_object else "]"):
                    self._close()
                else:
                    raise json.JSONDecodeError("Expecting ',' delimiter", text, int(at))
            elif self._next == _KEY or self._next == _KEY_OR_END:  # noqa: PLR1714 - compiled
                if sign == "}" and self._next == _KEY_OR_END:
                    self._at = at + 1
                    self._close()
                elif sign == '"':
                    self._keys.append(self._string(at))
                    at = self._after_blanks(self._at)
                    if at >= size or text[at] != ":":
                        raise json.JSONDecodeError("Expecting ':' delimiter", text, int(at))
                    self._at = at + 1
                    self._next = _VALUE
                else:
                    problem = "Expecting property name enclosed in double quotes"
                    raise json.JSONDecodeError(problem, text, int(at))
            elif sign == '"':
                self._add(self._string(at))
            elif sign == "{" or sign == "[":  # noqa: PLR1714 - compiled
                self._at = at + 1
                if i64(len(self._open)) >= self._depth_max:
                    self.too_deep = True
                    return True
                self._containers_left -= 1
                if self._containers_left < 0:
                    self.too_many = True
                    return True
                self._open.append(self._empty() if sign == "{" else [])
                self._objects.append(sign == "{")
                self._next = _KEY_OR_END if sign == "{" else _VALUE_OR_END
            elif sign == "]" and self._next == _VALUE_OR_END:
                self._at = at + 1
                self._close()
            else:
                self._scalar(at)
        return False

    def _after_blanks(self, at: i64) -> i64:
        text = self._text
        if at < i64(len(text)) and text[at] in _BLANKS:
            run = _RUN_OF_BLANKS.match(text, int(at))
            assert run is not None, "it may be empty"
            at = run.end()
        return at

    def _string(self, at: i64) -> str:
        found: tuple[str, int] = scanstring(self._text, int(at) + 1, True)
        self._at = found[1]
        value = found[0]
        if i64(len(value)) > self._text_max:
            # It is skipped; callers check ``too_long`` before they use the value.
            self.too_long = len(value)
            return ""
        if self._halves and not value.isascii():
            value = value.translate(_HALVES)
        return value

    def _scalar(self, at: i64) -> None:
        try:
            found: tuple[Any, int] = self._scan(self._text, int(at))
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, int(at)) from None
        self._at = found[1]
        self._add(found[0])

    def _add(self, value: Any) -> None:
        """Add a value to the open container."""
        self._next = _COMMA
        if len(self._open) == 0:
            self.value = value
        elif self._objects[-1]:
            self._open[-1].append((self._keys.pop(), value))
        else:
            self._open[-1].append(value)

    def _close(self) -> None:
        """Close the open container."""
        self._objects.pop()
        self._add(self._open.pop())
