"""The patterns of ``pathGlobFilter``: those of Spark's file sources, for whole names."""

import re
from collections.abc import Iterator
from typing import Final

_ANY: Final = {"*": ".*", "?": "."}


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the expression for ``glob``; raises ``ValueError`` if it is malformed.

    ``*`` and ``?`` match any characters, also ``/``; ``[a-z]``, ``[^a]`` or ``[!a]`` one of a set;
    ``{a,b}`` alternatives; a backslash takes the next character literally.
    """
    parts: list[str] = []
    depth = 0
    characters = iter(glob)
    for one in characters:
        if one == "\\":
            parts.append(re.escape(_next(characters, glob, "ends with a backslash")))
        elif one == "[":
            parts.append(_set(characters, glob))
        elif one == "{":
            depth += 1
            parts.append("(?:")
        elif one == "}" and depth:
            depth -= 1
            parts.append(")")
        elif one == "," and depth:
            parts.append("|")
        else:
            parts.append(_ANY.get(one) or re.escape(one))
    if depth:
        raise _malformed(glob, "has a '{' without '}'")
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise _malformed(glob, f"has an invalid set: {error.msg}") from None


def _set(characters: Iterator[str], glob: str) -> str:
    """Return the set whose ``[`` was read."""
    problem = "has a '[' without ']'"
    one = _next(characters, glob, problem)
    negated = one in "^!"
    if negated:
        one = _next(characters, glob, problem)
    inside: list[str] = []
    # A set is never empty: a bracket at its start is one of its characters.
    while one != "]" or not inside:
        if one == "\\":
            one = re.escape(_next(characters, glob, problem))
        elif one != "-":
            one = re.escape(one)
        inside.append(one)
        one = _next(characters, glob, problem)
    return f"[{'^' if negated else ''}{''.join(inside)}]"


def _next(characters: Iterator[str], glob: str, problem: str) -> str:
    try:
        return next(characters)
    except StopIteration:
        raise _malformed(glob, problem) from None


def _malformed(glob: str, problem: str) -> ValueError:
    return ValueError(
        f"{glob!r} {problem}: expected a pattern such as *.{{png,jpg}} or [a-c]*; a backslash "
        "takes the next character literally"
    )
