"""Reading a block of a configuration: its keys and the reader of each.

Every problem is collected, so that one run reports them all. A key has several spellings
(``max_conn`` and ``max_connections``), in any case; its *path* (``jetstream.store_dir``) consists
of the canonical ones, and is used by the tables of unsupported settings and the flags.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from jetspark.server.config.language.problem import ConfigProblem, ConfigRefused, Place, refused
from jetspark.server.config.language.tree import Node
from jetspark.server.config.unsupported import UNSUPPORTED

ANY: Final = "*"
"""Replaces a name that the user chose, such as an account's, in a path."""


class Report:
    """The results of reading: problems, warnings, and the place of each setting."""

    def __init__(self, not_yet: Mapping[str, str]) -> None:
        self.problems: Final[list[ConfigProblem]] = []
        self.warnings: Final[list[ConfigProblem]] = []
        self.places: Final[dict[str, Place]] = {}
        self._not_yet: Final = not_yet

    def problem(self, place: Place, message: str) -> None:
        """Add a problem."""
        self.problems.append(ConfigProblem(place.file, place.line, message))

    def refused(self, error: ConfigRefused) -> None:
        """Add the problems of a part that was refused."""
        self.problems.extend(error.problems)

    def warn(self, place: Place, message: str) -> None:
        """Add a warning about a spelling that works and should be changed."""
        self.warnings.append(ConfigProblem(place.file, place.line, message))

    def mention(self, path: str, name: str, place: Place) -> None:
        """Record that a setting was made; refuse it if it is not supported yet."""
        self.places[path] = place
        sentence = self._not_yet.get(path)
        if sentence is not None:
            self.problem(place, f"'{name}' is not supported by jetspark yet: {sentence}")

    def place(self, *paths: str) -> Place:
        """Return the place of the first of ``paths`` that was set."""
        return next((self.places[path] for path in paths if path in self.places), Place())


class Setting(NamedTuple):
    """One key of a block and its value. ``name`` is as written."""

    name: str
    path: str
    node: Node
    report: Report

    def wrong(self, expected: str) -> ConfigRefused:
        """Return the exception for a value of the wrong type."""
        return self.refused(f"expected {expected}, got {self.node.kind}")

    def refused(self, message: str) -> ConfigRefused:
        """Return the exception for any other error in the value."""
        return refused(self.node.place, f"'{self.name}': {message}")

    def element(self, node: Node) -> "Setting":
        """Return an element of a list, to be read like the setting itself."""
        return self._replace(node=node)


Reader = Callable[[Setting], Any]
"""Returns the value of a setting; ``msgspec.UNSET`` means the default; raises `ConfigRefused`."""


class Field(NamedTuple):
    """A key of a block. ``silent`` readers record what they found themselves."""

    read: Reader
    names: tuple[str, ...] = ()
    silent: bool = False


def read_block(
    setting: Setting, fields: Mapping[str, Field], *, variables: bool = True
) -> dict[str, Any]:
    """Return the values of a block by canonical name. Problems go to the report.

    ``variables`` False refuses keys that exist only for ``$NAME``, as nats-server does in
    ``tls``. Raises `ConfigRefused` if the value is not a block.
    """
    block = setting.node.value
    if not isinstance(block, dict):
        raise setting.wrong("a block { ... }")
    known = {name: key for key, field in fields.items() for name in (key, *field.names)}
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name, node in block.items():
        key = known.get(name.lower(), name.lower())
        path = f"{setting.path}.{key}" if setting.path else key
        inner = Setting(name, path, node, setting.report)
        if key not in fields:
            _refuse_key(inner, known, variables=variables)
            continue
        if key in written:
            inner.report.problem(
                node.place, f"'{name}' and '{written[key]}' are the same setting; keep one of them"
            )
            continue
        written[key] = name
        if not fields[key].silent:
            inner.report.mention(path, name, node.place)
        try:
            value = fields[key].read(inner)
        except ConfigRefused as error:
            inner.report.refused(error)
            continue
        if value is not msgspec.UNSET:
            values[key] = value
    return values


def read_whole_block(
    setting: Setting, fields: Mapping[str, Field], *, variables: bool = True
) -> dict[str, Any]:
    """Read a block whose values are checked against each other, which needs all of them.

    Raises `ConfigRefused` without problems if some went to the report.
    """
    before = len(setting.report.problems)
    values = read_block(setting, fields, variables=variables)
    if len(setting.report.problems) > before:
        raise ConfigRefused(())
    return values


def _refuse_key(setting: Setting, known: Mapping[str, str], *, variables: bool) -> None:
    reason = UNSUPPORTED.get(setting.path)
    place = setting.node.place
    if reason is not None:
        setting.report.problem(place, f"'{setting.name}' is not supported by jetspark: {reason}")
    elif not (variables and setting.node.used):
        from difflib import get_close_matches

        close = get_close_matches(setting.name.lower(), known, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        setting.report.problem(place, f'unknown field "{setting.name}"{hint}')
