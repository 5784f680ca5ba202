"""Work that takes more than one turn of the loop: a generator that yields between two steps.

Each step is about a quarter of a millisecond. What is small runs to its end at once (``at_once``);
what is large is an operation of the engine, which does some steps of it in each turn
(``engine/operations.py``).
"""

from collections.abc import Generator
from traceback import clear_frames
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

PER_TURN: Final = 8
"""Steps in one turn of the loop."""
ITEMS: Final = 128
"""Subjects of usual length, or what costs as much, in one step."""
USUAL: Final = 32
"""The usual length of a subject, in bytes."""


class Pace:
    """Says after which item a step is over."""

    def __init__(self) -> None:
        self._left = ITEMS

    def is_due(self, size: int = 0) -> bool:
        """Count an item of so many bytes; True when the step is over."""
        self._left -= 1 + size // USUAL
        if self._left > 0:
            return False
        self._left = ITEMS
        return True


def at_once(work: Generator[None, None, _T]) -> _T:
    """Do all of it now; what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result


def rest(items: int) -> Generator[None, None, None]:
    """Count so many small items that were looked at in one go as the steps that they were."""
    for _ in range(min(items // ITEMS, PER_TURN)):
        yield


class Steps(Generic[_T]):
    """Some work, and what came of it."""

    def __init__(self, work: Generator[None, None, _T]) -> None:
        self._work = work
        self._result: list[_T] = []
        self._problem: Exception | None = None

    def step(self) -> bool:
        """Do as much as one turn allows; True when all is done."""
        try:
            for _ in range(PER_TURN):
                next(self._work)
        except StopIteration as end:
            self._result.append(end.value)
            return True
        except Exception as problem:  # noqa: BLE001 - who asks for the result gets it
            # What it had made so far is megabytes, which a traceback would keep.
            clear_frames(problem.__traceback__)
            self._problem = problem
            return True
        return False

    def cancel(self) -> None:
        """Do no more of it."""
        self._work.close()

    def succeeded(self) -> bool:
        """Say whether it is done, and returned something."""
        return bool(self._result)

    def result(self) -> _T:
        """What it returned; or what it raised, which is raised once."""
        problem, self._problem = self._problem, None
        if problem is None:
            return self._result[0]
        try:
            raise problem
        finally:
            # The traceback knows this frame: with either of them in it, both would stay.
            del problem
