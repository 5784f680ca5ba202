"""Work that takes more than one turn of the loop: generators that yield between steps.

Each step takes about a quarter of a millisecond. Small work runs to its end at once (``at_once``);
large work is an operation of the engine, which runs some of its steps in each turn
(``engine/operations.py``).
"""

from collections.abc import Generator
from traceback import clear_frames
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

PER_TURN: Final = 8
"""Steps per turn of the loop."""
ITEMS: Final = 128
"""Subjects of usual length, or items of similar cost, per step."""
USUAL: Final = 32
"""The usual length of a subject, in bytes."""


class Pace:
    """Decides after which item a step ends."""

    def __init__(self) -> None:
        self._left = ITEMS

    def is_due(self, size: int = 0) -> bool:
        """Count an item of ``size`` bytes; True when the step is over."""
        self._left -= 1 + size // USUAL
        if self._left > 0:
            return False
        self._left = ITEMS
        return True


def at_once(work: Generator[None, None, _T]) -> _T:
    """Run all of it now and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result


def rest(items: int) -> Generator[None, None, None]:
    """Account for items that were processed in one go, as the steps that they cost."""
    for _ in range(min(items // ITEMS, PER_TURN)):
        yield


class Steps(Generic[_T]):
    """Work in progress, and its result."""

    def __init__(self, work: Generator[None, None, _T]) -> None:
        self._work = work
        self._result: list[_T] = []
        self._problem: Exception | None = None

    def step(self) -> bool:
        """Do as much as one turn allows; True when finished."""
        try:
            for _ in range(PER_TURN):
                next(self._work)
        except StopIteration as end:
            self._result.append(end.value)
            return True
        except Exception as problem:  # noqa: BLE001 - who asks for the result gets it
            # The unfinished result is megabytes, which a traceback would keep alive.
            clear_frames(problem.__traceback__)
            self._problem = problem
            return True
        return False

    def cancel(self) -> None:
        """Stop; no further step is run."""
        self._work.close()

    def succeeded(self) -> bool:
        """Return whether it finished without an error."""
        return bool(self._result)

    def result(self) -> _T:
        """Return the result, or raise the error of the work, once."""
        problem, self._problem = self._problem, None
        if problem is None:
            return self._result[0]
        try:
            raise problem
        finally:
            # The traceback refers to this frame: referring to it from here would be a cycle.
            del problem
