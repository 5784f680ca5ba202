"""Problems of a configuration, and their places."""

from typing import Final

import msgspec

from jetspark.errors.base import Error


class Place(msgspec.Struct, frozen=True):
    """The place of a value. ``line`` counts from 1; both are empty for the command line."""

    file: str = ""
    line: int = 0


# A value of a megabyte, repeated in an error, would hide the message.
_MESSAGE_MAX: Final = 1000

NOWHERE: Final = Place()
"""The command line, which has no lines."""


class ConfigProblem(msgspec.Struct, frozen=True):
    """One problem: ``str()`` is ``file:line: what was wrong, what was expected``."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        message = self.message
        if len(message) > _MESSAGE_MAX:
            half = _MESSAGE_MAX // 2
            message = f"{message[:half]} ... {message[-half:]}"
        if not self.file:
            return message
        if not self.line:
            return f"{self.file}: {message}"
        return f"{self.file}:{self.line}: {message}"


class ConfigRefused(Error):
    """An invalid configuration. ``problems`` has all problems that were found."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        super().__init__(problems)
        self.problems: Final = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def refused(place: Place, message: str) -> ConfigRefused:
    """Return the exception for a single problem at ``place``."""
    return ConfigRefused((ConfigProblem(place.file, place.line, message),))
