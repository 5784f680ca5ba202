"""Disk full: space kept back for what must go on, and when messages are taken again.

A reserve file lies in the store's folder. When a write meets a full disk it is removed, so that
deletes, consumer state and manifests find some space; messages are refused until there is clearly
more than a little, and the reserve is made again. Meanwhile every stream gives back what it can,
also those that met no full disk themselves (``upkeep/next_task.py``).
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from jetspark.store.files import Files
from jetspark.store.format.segment import FILLER, FILLER_SIZE

NAME: Final = "reserve"
RESERVE_SIZE: Final = 1024 * 1024
# Free space beyond the reserve and a segment's filler from which messages are taken again.
RESUME_ABOVE: Final = 4 * 1024 * 1024
LOOK_EVERY_NS: Final = 1_000_000_000


class Reserve:
    """The reserve of one store; with size 0 there is none.

    ``aside`` does what waits for the disk, where nobody waits for that.
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
        # There is no space for it: a start finds the disk as full as the process before left it.
        self.refused: bool = False
        self._watchers: list[Callable[[], None]] = []

    def watch(self, became_short: Callable[[], None]) -> None:
        """Have this called, in the thread of the loop, when a write met a full disk."""
        self._watchers.append(became_short)

    def is_short(self, now_ns: int) -> bool:
        """Say whether the disk is full, as far as anybody knows; looks again if it was."""
        return (self.refused or not self._room) and not self.has_room(now_ns)

    def make(self) -> None:
        """Make it unless it exists; on a disk that has no space for it there is none."""
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
            # A part of it must not take the last space from everybody.
            with suppress(OSError):
                self._files.remove(path.with_name(NAME + ".tmp"))

    def release(self) -> None:
        """Give its space to the writes that need it now."""
        self._room = False
        self._aside(self.remove)
        for became_short in self._watchers:
            became_short()

    def remove(self) -> None:
        """Remove it, in the thread that met the full disk, before that is reported."""
        with suppress(OSError):
            if NAME in self._files.list_folder(self._folder):
                self._files.remove(self._folder / NAME)

    def has_room(self, now_ns: int) -> bool:
        """Say whether messages can be taken; looks once per second at most, 0 looks at once."""
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
