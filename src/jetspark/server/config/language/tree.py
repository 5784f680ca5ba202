"""The tree of a configuration: values with their places."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from jetspark.server.config.language.problem import Place

Scalar: TypeAlias = str | int | float | bool | datetime
Value: TypeAlias = "Scalar | list[Node] | dict[str, Node]"


@dataclass(slots=True)
class Node:
    """A value of the file: a scalar, a list, or a block.

    ``used`` is set when a ``$NAME`` refers to the value: such a key may have any name (it is a
    variable), every other key must be a setting. ``text`` is the spelling of a word from the
    command line, where the shell removes quotes.
    """

    value: Value
    place: Place
    used: bool = False
    text: str = ""

    def use(self) -> Value:
        """Return the value for a ``$NAME``."""
        self.used = True
        return self.value

    @property
    def kind(self) -> str:
        """A description of the value for people."""
        match self.value:
            case bool():
                return f"the boolean {'true' if self.value else 'false'}"
            case str():
                return f"the string {self.value!r}"
            case int():
                return f"the integer {self.value}"
            case float():
                return f"the number {self.value}"
            case datetime():
                return f"the date {self.value:%Y-%m-%dT%H:%M:%SZ}"
            case list():
                return "a list"
            case dict():
                return "a block"
