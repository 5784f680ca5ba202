"""Parses a configuration into its tree: blocks, lists, includes and variables.

The structure follows nats-server's where that is defined: JSON is a subset (one pair of braces
around the whole file), entries of a block or list may be separated by commas, semicolons or line
ends, the last of two equal keys counts. What nats-server merely tolerates (a key without a value,
a number with a meaningless suffix, a single slash, a file that includes itself) is a problem.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from typing import Final

from jetspark.server.config.language.lexer import (
    NEWLINES,
    SEPARATORS,
    SPACES,
    Kind,
    Scanner,
)
from jetspark.server.config.language.problem import ConfigRefused, Place, refused
from jetspark.server.config.language.tree import Node, Value

Read = Callable[[str], bytes]
"""Returns the content of a file, or raises ``OSError``."""

INCLUDE_DEPTH_MAX: Final = 32  # a symbolic link can create a cycle that no path shows
NESTING_MAX: Final = 100  # far beyond any setting; protects the stack from a hostile file

_INCLUDE: Final = "include"
# A variable that refers to another.
_REFERENCE: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TOP_ENDS: Final = ",;}\n\r"
_BLOCK_ENDS: Final = ",;\n\r"
_LIST_ENDS: Final = ",\n\r"


def read_file(path: str) -> bytes:
    """Return the content of a file of this machine."""
    with open(path, "rb") as file:  # noqa: PTH123  a path is a text here, as it was written
        return file.read()


def parse_file(path: str, environment: Mapping[str, str], read: Read) -> dict[str, Node]:
    """Return the tree of a configuration file. Raises `ConfigRefused`, or ``OSError``."""
    chain = (os.path.abspath(path),)  # noqa: PTH100
    return Parser(_text(path, read), path, environment, read, chain).top()


def parse_text(
    text: str, name: str, environment: Mapping[str, str], read: Read
) -> dict[str, Node]:
    """Return the tree of a configuration given as text. ``name`` replaces its file name."""
    return Parser(text, name, environment, read, ()).top()


def parse_word(text: str, environment: Mapping[str, str], read: Read, place: Place) -> Value:
    """Return the value that ``text`` would have after a key, for values from elsewhere."""
    return Parser(text, place.file, environment, read, (), at=place).only_value()


class Parser:
    """Parses one file. ``chain`` has the absolute paths of the files that led here.

    ``at`` is set for values from elsewhere, such as the environment: their place is where they are
    used. ``resolving`` has the names of variables that are being resolved.
    """

    def __init__(
        self,
        text: str,
        name: str,
        environment: Mapping[str, str],
        read: Read,
        chain: tuple[str, ...],
        *,
        at: Place | None = None,
        resolving: frozenset[str] = frozenset(),
    ) -> None:
        self._scan: Final = Scanner(text, name)
        self._environment: Final = environment
        self._read: Final = read
        self._chain: Final = chain
        self._at: Final = at
        self._resolving: Final = resolving
        self._root: Final[dict[str, Node]] = {}
        self._scopes: Final[list[dict[str, Node]]] = [self._root]
        self._depth = 0

    def top(self) -> dict[str, Node]:
        """Parse the whole text."""
        scan = self._scan
        while True:
            scan.skip_spaces()
            char = scan.peek()
            if not char:
                return self._root
            if char == "{":
                scan.advance()
                self._braced()
            elif not scan.skip_comment():
                self._entry(self._root, inside=False)
                self._end_top_entry()

    def only_value(self) -> Value:
        """Parse a text that is one value."""
        value = self._value().value
        self._end_top_entry()
        self.top()
        return value

    def _end_top_entry(self) -> None:
        """Parse to the end of a setting: a line end, a comment, ``;``, ``,`` or ``}``."""
        scan = self._scan
        scan.skip_blanks()
        char = scan.peek()
        if not char or scan.skip_comment():
            return
        if char not in _TOP_ENDS:
            raise scan.problem(
                "expected the end of the line, a comment, ',' or ';' after a value, "
                f"got {scan.shown()}; quote a string with blanks"
            )
        scan.advance()

    def _braced(self) -> None:
        """Parse ``{ ... }`` around settings of the top level, as in JSON."""
        scan = self._scan
        self._enter()
        while True:
            scan.skip_spaces()
            char = scan.peek()
            if char in {"", "}"}:  # nats-server does not require the last brace of a file
                scan.advance(len(char))
                self._depth -= 1
                return
            if scan.skip_comment():
                continue
            if char == "{":
                scan.advance()
                self._braced()
            else:
                self._entry(self._root, inside=False)
            self._end_entry("block", "}", _BLOCK_ENDS)

    def _entry(self, block: dict[str, Node], *, inside: bool) -> None:
        """Parse one key and its value, or an include, into ``block``."""
        scan = self._scan
        place = self._at or scan.place()
        char = scan.peek()
        if char in SEPARATORS + "/":
            raise scan.problem(f"expected a key or a comment, got '{char}'")
        if char in "'\"":
            key = scan.quoted_key()
        else:
            key = scan.bare_key()
            if key.lower() == _INCLUDE and scan.peek() in SPACES:
                self._include(block)
                return
        scan.skip_spaces()
        char = scan.peek()
        if char and char in SEPARATORS:
            scan.advance()
            if inside:
                scan.skip_spaces()
        elif not char and key == "}" and not inside:
            return  # an extra brace at the very end is ignored, as in nats-server for JSON
        elif not char:
            raise scan.problem(f"the key '{key}' has no value")
        if inside and scan.peek() in {",", "}", ""}:
            raise scan.problem(f"the key '{key}' has no value: got {scan.shown()}")
        block[key] = Node(self._value().value, place)

    def _value(self) -> Node:
        """Parse the value after a key, or one element of a list."""
        scan = self._scan
        scan.skip_blanks()
        place = self._at or scan.place()
        char = scan.peek()
        if char == "[":
            scan.advance()
            return Node(self._list(), place)
        if char == "{":
            scan.advance()
            return Node(self._block(), place)
        if char and char in NEWLINES:
            raise scan.problem("expected a value, got the end of the line")
        word = scan.scalar()
        if word.kind is Kind.VARIABLE:
            return Node(self._variable(str(word.value), place), place)
        return Node(word.value, place)

    def _list(self) -> list[Node]:
        scan = self._scan
        start = self._enter()
        elements: list[Node] = []
        while True:
            scan.skip_spaces()
            char = scan.peek()
            if char == "]":
                scan.advance()
                self._depth -= 1
                return elements
            if scan.skip_comment():
                continue
            if not char:
                raise scan.problem(f"the list that starts in line {start} has no ']'")
            if char in ",/":
                raise scan.problem(f"expected an element of the list, got '{char}'; quote paths")
            elements.append(self._value())
            self._end_entry("list", "]", _LIST_ENDS)

    def _block(self) -> dict[str, Node]:
        scan = self._scan
        start = self._enter()
        block: dict[str, Node] = {}
        self._scopes.append(block)
        while True:
            scan.skip_spaces()
            char = scan.peek()
            if char == "}":
                scan.advance()
                self._scopes.pop()
                self._depth -= 1
                return block
            if scan.skip_comment():
                continue
            if not char:
                raise scan.problem(f"the block that starts in line {start} has no '}}'")
            if char == "]":
                raise scan.problem("expected a key or '}', got ']'")
            self._entry(block, inside=True)
            self._end_entry("block", "}", _BLOCK_ENDS)

    def _end_entry(self, inside: str, close: str, ends: str) -> None:
        """Parse to the end of one entry of a list or block, without the closing bracket."""
        scan = self._scan
        scan.skip_blanks()
        while scan.skip_comment():
            scan.skip_blanks()
        char = scan.peek()
        if char == close:
            return
        if not char or char not in ends:
            raise scan.problem(
                f"expected ',', the end of the line or '{close}' after a value of a {inside}, "
                f"got {scan.shown()}; quote a string with blanks"
            )
        scan.advance()

    def _enter(self) -> int:
        """Count an opened bracket; return its line."""
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._scan.problem(f"blocks and lists are nested more than {NESTING_MAX} deep")
        return self._scan.place().line

    def _include(self, block: dict[str, Node]) -> None:
        """Parse another file into ``block``. Variables of this file are unknown there."""
        scan = self._scan
        place = self._at or scan.place()
        name = scan.include_path()
        # Joined as in nats-server: a path is always relative to the file that names it.
        path = os.path.normpath(f"{os.path.dirname(scan.name) or '.'}/{name}")  # noqa: PTH120
        absolute = os.path.abspath(path)  # noqa: PTH100
        if absolute in self._chain:
            raise refused(place, f"the file includes itself through '{name}' ({path})")
        if len(self._chain) > INCLUDE_DEPTH_MAX:
            raise refused(place, f"includes are nested more than {INCLUDE_DEPTH_MAX} deep")
        try:
            text = _text(path, self._read)
        except OSError as error:
            reason = error.strerror or str(error)
            raise refused(place, f"cannot include '{name}' ({path}): {reason}") from error
        chain = (*self._chain, absolute)
        block.update(Parser(text, path, self._environment, self._read, chain).top())

    def _variable(self, name: str, place: Place) -> Value:
        """Return the value of ``$name``: an earlier key of an open block, or the environment."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name].use()
        if name in self._resolving:
            raise refused(place, f"the environment variable '{name}' refers to itself")
        text = self._environment.get(name)
        if text is None:
            raise refused(
                place,
                f"variable '{name}' is unknown: expected a key of that name above it, "
                "or an environment variable",
            )
        inner = Parser(
            text,
            place.file,
            self._environment,
            self._read,
            self._chain,
            at=place,
            resolving=self._resolving | {name},
        )
        try:
            return inner.only_value()
        except ConfigRefused as error:
            if _REFERENCE.fullmatch(text):
                reason = error.problems[0].message
                raise refused(place, f"the environment variable '{name}': {reason}") from error
            # What is wrong with it would show parts of it, and it may be a secret.
            raise refused(
                place,
                f"the environment variable '{name}' is not a value of this language; put quotes "
                "into the variable if it is a text with special characters",
            ) from error


def _text(path: str, read: Read) -> str:
    data = read(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refused(Place(path, line), "the file is not UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise refused(Place(path, line), "the file has a NUL byte; expected text")
    return text
