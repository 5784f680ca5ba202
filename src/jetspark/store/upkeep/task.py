"""A task: upkeep of a log, in the background."""

from mypy_extensions import i64, mypyc_attr

from jetspark.store.files import Files


@mypyc_attr(allow_interpreted_subclasses=True)  # most tasks wait for the disk
class Task:
    """Work in steps, which touch nothing that the log changes, so any thread can run them.

    ``finish`` belongs to the thread of the log. ``handles`` are the files of the log that the task
    needs until then. ``purpose`` names it in reports of a failure.
    """

    def __init__(self, files: Files, handles: list[int], purpose: str) -> None:
        self.files: Files = files
        self.handles: list[int] = handles
        self.purpose: str = purpose
        # How many bytes it may read and write per second (0: any), and how many it did.
        self.rate: i64 = 0
        self.moved: i64 = 0
        self.paced: i64 = 0
        # If it fails, the rest of the upkeep is still worth trying.
        self.is_optional: bool = False
        # It may rename the log's folder.
        self.renames_folder: bool = False

    def step(self) -> bool:
        """Do a bounded piece of the work; True when finished. Raises OSError."""
        raise NotImplementedError

    def note_moved(self, size: i64) -> None:
        """Count bytes that were read or written."""
        self.moved += size

    def pause_ns(self) -> int:
        """Return how long to wait before the next step."""
        moved = self.moved - self.paced
        self.paced = self.moved
        return int(moved) * 1_000_000_000 // int(self.rate) if self.rate > 0 else 0

    def finish(self, failed: bool) -> None:
        """Apply the result to the log, or record the failure."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what it opened itself."""
