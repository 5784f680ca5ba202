"""Parsing of Spark's string options; all errors are reported together."""

import difflib
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from jetspark.errors import Error

_Value = TypeVar("_Value")

DIGITS: Final = re.compile(r"[0-9]+")

# Maximum length of an invalid value in an error message.
QUOTED_MAX: Final = 60


# Options of a streaming write that Spark itself sets: the checkpoint location, and the name of the
# query, which every flow of a declarative pipeline has.
STREAMING_WRITE_OPTIONS: Final = ("checkpointLocation", "queryName")


class Use(StrEnum):
    """The use of a format, in Spark's terms; or a call of one of our functions."""

    READ = "read"
    READ_STREAM = "readStream"
    WRITE = "write"
    WRITE_STREAM = "writeStream"
    CALL = "call"


class InvalidOptions(Error, ValueError):
    """Options that cannot be used; the text lists all errors."""


class OptionReader:
    """The options of one use of a format, or of a function, and their errors.

    ``of`` is the name of the format or function. ``names`` are the documented options of each use;
    ``instead`` has explanations for options of other uses, ``kafka`` and ``delta`` what replaces
    options of Spark's Kafka source or sink, or of Delta. Spark passes names in lower case.
    """

    def __init__(
        self,
        of: str,
        options: Mapping[str, str],
        use: Use,
        names: Mapping[Use, tuple[str, ...]],
        instead: Mapping[str, str] | None = None,
        kafka: Mapping[str, str] | None = None,
        delta: Mapping[str, str] | None = None,
    ) -> None:
        self._of = of
        self._use = use
        self._title = of if use is Use.CALL else f"format {of!r}"
        self._options = {name.lower(): value for name, value in options.items()}
        self._known = {name.lower(): name for name in names[use]}
        # Options of other uses, with these uses.
        self._others: dict[str, tuple[str, list[Use]]] = {}
        for other, its_names in names.items():
            for name in its_names:
                if name.lower() not in self._known:
                    self._others.setdefault(name.lower(), (name, []))[1].append(other)
        self._refused: set[str] = set()
        self._instead = instead or {}
        self._kafka = kafka or {}
        self._delta = delta or {}
        self.problems: list[str] = []
        if use is Use.CALL:
            self._leave_out_other_types()
        for name in sorted(self._options.keys() - self._known.keys()):
            self.problems.append(self._name_problem(name))

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name.lower() in self._options

    def take(
        self,
        name: str,
        parse: Callable[[str], _Value],
        default: _Value,
        *,
        required: bool = False,
        instead: str = "",
    ) -> _Value:
        """Return the parsed value of ``name``; on an error, record it and return ``default``.

        ``instead``: what may be given instead of a required option.
        """
        text = self._options.get(name.lower())
        if name.lower() in self._refused:
            return default
        if text is None or name.lower() not in self._known:
            if required:
                self.problems.append(f"{name} is missing{instead and f' (or {instead})'}")
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return default

    def refuse(self, problem: str) -> None:
        """Record an error that depends on more than the text of one option."""
        self.problems.append(problem)

    def finish(self) -> None:
        """Raise ``InvalidOptions`` if there were errors."""
        if not self._options and self._use is not Use.CALL:
            raise InvalidOptions(
                f"{self._title}: Spark passed no options. For a table created with "
                f"CREATE TABLE: {_catalog_table_advice(self._of)}"
            )
        if len(self.problems) == 1:
            raise InvalidOptions(f"{self._title}: {self.problems[0]}")
        if self.problems:
            raise InvalidOptions(
                f"{self._title}: {len(self.problems)} options are invalid: "
                f"{'; '.join(self.problems)}"
            )

    def _leave_out_other_types(self) -> None:
        """Record values that are no strings: Spark converts those of a format, but not these."""
        given: Mapping[str, object] = self._options
        for name, value in given.items():
            if not isinstance(value, str):
                advice = ": separate several values by commas" if name == "servers" else ""
                kind = type(value).__name__
                self.problems.append(
                    f"{self._known.get(name, name)} must be a string, not {kind}{advice}"
                )
                # Known from now on, so that it is not reported as missing.
                self._refused.add(name)

    def _name_problem(self, name: str) -> str:
        if name in self._others:
            return self._of_another_use(name)
        target = "bucket" if "bucket" in self._known else "stream"
        if name == "path":
            return f'load() does not support a path: set option("{target}", ...)'
        if name in {"stream", "bucket"}:
            return f"unknown option {name!r}: {self._title} has the option {target}"
        if name in self._kafka:
            end = "sink" if self._use in {Use.WRITE, Use.WRITE_STREAM} else "source"
            return f"{name!r} is an option of Spark's Kafka {end}: use {self._kafka[name]}"
        if name in self._delta:
            return f"{name!r} is an option of Delta: use {self._delta[name]}"
        if name.startswith("kafka."):
            return f"{name!r} is a setting of Kafka's client: connections have the options nats.*"
        near = difflib.get_close_matches(name, [*self._known, *self._others], n=1)
        if near and near[0] in self._known:
            return f"unknown option {name!r}: did you mean {self._known[near[0]]}?"
        if near:
            meant = self._others[near[0]][0]
            return (
                f"unknown option {name!r}: did you mean {meant}? {self._of_another_use(near[0])}"
            )
        return f"unknown option {name!r} (expected one of {', '.join(self._known.values())})"

    def _of_another_use(self, name: str) -> str:
        spelled, uses = self._others[name]
        text = f"{spelled} is for {' and '.join(uses)}, not for {self._use}"
        more = self._instead.get(spelled)
        return text if more is None else f"{text}: {more}"


def refuse_catalog_table(format_name: str, options: Mapping[str, str]) -> None:
    """Raise ``InvalidOptions`` if this is a CREATE TABLE.

    Spark keeps such a table in its catalog, but passes none of its options to a Python format when
    the table is read or written. Only here they come with the table's properties.
    """
    names = {name.lower() for name in options}
    if "provider" in names and "owner" in names:
        raise InvalidOptions(
            f"CREATE TABLE ... USING {format_name} cannot work: "
            f"{_catalog_table_advice(format_name)}"
        )


def _catalog_table_advice(format_name: str) -> str:
    return (
        "Spark does not pass the OPTIONS of a table in its catalog to a format written in "
        f"Python. Use CREATE TEMPORARY VIEW name USING {format_name} OPTIONS (servers '...', ...)"
    )


def text_of(text: str) -> str:
    """Any non-empty text."""
    if not text:
        raise ValueError("is empty")
    return text


def shortened(text: str) -> str:
    """Quote ``text`` for an error message, truncated if it is very long."""
    return repr(text) if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]!r}..."


def whole_number(text: str, least: int, most: int) -> int | None:
    """Parse a decimal number without a sign within the bounds; None for other text."""
    # Check the length first: Python refuses to parse thousands of digits.
    if not DIGITS.fullmatch(text) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if least <= number <= most else None


def positive(text: str) -> int:
    """Parse an integer of at least 1 that fits into Spark's int."""
    number = whole_number(text, 1, 2**31 - 1)
    if number is None:
        raise ValueError(f"{shortened(text)} is not a whole number from 1 to {2**31 - 1}")
    return number


def boolean(text: str) -> bool:
    """Parse true or false."""
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{shortened(text)} is not a boolean: expected true or false")
    return text.lower() == "true"
