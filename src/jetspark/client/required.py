"""The default of an argument where None is a valid value."""

from typing import Final, TypeVar


class Required:
    """No value was given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final = Required()

D = TypeVar("D")  # the type of a given default
