"""Disk full: a reserve of space for essential writes, and when messages are accepted again.

A reserve file is in the store's folder. When a write finds the disk full, the file is removed, so
that deletes, consumer state and manifests have some space; messages are refused until there is
clearly enough, and the reserve is created again. Meanwhile every stream frees what it can, also
streams that did not write to the full disk themselves (``upkeep/next_task.py``).
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from jetspark.store.files import Files
from jetspark.store.format.segment import FILLER, FILLER_SIZE

NAME: Final = "reserve"
RESERVE_SIZE: Final = 1024 * 1024
# Free space beyond the reserve and a segment's filler from which messages are accepted again.
RESUME_ABOVE: Final = 4 * 1024 * 1024
LOOK_EVERY_NS: Final = 1_000_000_000


class Reserve:
    """The reserve of one store; size 0 disables it.

    ``aside`` runs blocking disk operations in the background.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        size: int,
        aside: Callable[[Callable[[], None]], None],
    ) -> None:
        self._aside = aside
        self._files = files
        self._folder = folder
        self._size = size
        self._looked_ns = 0
        self._room = True
        # No space for it: a start may find the disk as full as the previous process left it.
        self.refused: bool = False
        self._watchers: list[Callable[[], None]] = []

    def watch(self, became_short: Callable[[], None]) -> None:
        """Set the function to call, in the loop's thread, when a write finds the disk full."""
        self._watchers.append(became_short)

    def is_short(self, now_ns: int) -> bool:
        """Return whether the disk is full, as far as known; checks again if it was."""
        return (self.refused or not self._room) and not self.has_room(now_ns)

    def make(self) -> None:
        """Create it unless it exists; if the disk has no space for it, there is none."""
        path = self._folder / NAME
        names = self._files.list_folder(self._folder)
        self.refused = False
        try:
            if self._size and NAME not in names:
                self.refused = self._files.free_space(self._folder) <= 2 * self._size
                if not self.refused:
                    self._files.replace(path, FILLER * self._size)
        except OSError:
            self.refused = True
            # A partial file must not take the last space from others.
            with suppress(OSError):
                self._files.remove(path.with_name(NAME + ".tmp"))

    def release(self) -> None:
        """Free its space for the writes that need it now."""
        self._room = False
        self._aside(self.remove)
        for became_short in self._watchers:
            became_short()

    def remove(self) -> None:
        """Remove it, in the thread that found the disk full, before that is reported."""
        with suppress(OSError):
            if NAME in self._files.list_folder(self._folder):
                self._files.remove(self._folder / NAME)

    def has_room(self, now_ns: int) -> bool:
        """Return whether messages are accepted; checks at most once per second, 0 checks now."""
        if now_ns and now_ns - self._looked_ns < LOOK_EVERY_NS:
            return self._room
        self._looked_ns = now_ns or self._looked_ns
        need = RESUME_ABOVE + FILLER_SIZE + self._size
        try:
            self._room = self._files.free_space(self._folder) > need
        except OSError:
            self._room = False
        if self._room:
            self._aside(self.make)
        return self._room
