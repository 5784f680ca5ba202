"""Functions that are called when something changes."""

from collections.abc import Callable


class Listeners:
    """The functions to call at one kind of event."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], None]] = set()

    def add(self, listener: Callable[[], None]) -> None:
        """Call a function from now on; one that was added already is called once."""
        self._listeners.add(listener)

    def discard(self, listener: Callable[[], None]) -> None:
        """Call it no more, if it was added."""
        self._listeners.discard(listener)

    def clear(self) -> None:
        """Call none of them any more."""
        self._listeners.clear()

    def notify(self) -> None:
        """Call all of them; they may add and discard others."""
        for listener in list(self._listeners):
            listener()

    def __len__(self) -> int:
        return len(self._listeners)
