"""The default of an argument whose absence means something else than None."""

from typing import Final, TypeVar


class Required:
    """Nothing was given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final = Required()

D = TypeVar("D")  # what a caller gives instead
