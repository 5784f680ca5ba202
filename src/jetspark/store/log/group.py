"""A group: the records of one synced write."""

from mypy_extensions import i64

from jetspark.store.files import Files
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.subject_table import SubjectEntry


class Group:
    """The records of one synced write, on their way to the disk."""

    def __init__(
        self,
        handle: i64,
        offset: i64,
        blob: bytes,
        entries: list[SubjectEntry],
        last_position: i64,
        filler: bytes = b"",
        synced: bool = True,
        before: Preparation | None = None,
    ) -> None:
        # What has to be done first, where the group is written; it may give it its handle.
        self.before: Preparation | None = before
        # Whether what a full disk took of it was cut off, or that was tried at least.
        self.cut: bool = False
        self.cut_tried: bool = False
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        # Written after the blob, in the same write (segment.py).
        self.filler: bytes = filler
        # Whether it is on the disk when its write returns (``durability.py``).
        self.synced: bool = synced
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position

    def prepare(self) -> None:
        """Do what has to be done before it is written; raises OSError."""
        if self.before is not None:
            self.handle = self.before.do()

    def cut_off(self, files: Files) -> None:
        """Cut off what a full disk took of it: a later start must not take that for a record."""
        self.cut_tried = True
        if self.handle >= 0:
            try:
                files.truncate(int(self.handle), int(self.offset))
            except OSError:
                return
        self.cut = True

    def without_filler(self) -> None:
        """Have it written once more, as it is: what did not fit with filler may fit without."""
        self.filler = b""
        self.cut = False
        self.cut_tried = False

    def needs(self, handle: int) -> bool:
        """Say whether the group has to be written before a file may be closed."""
        if self.before is not None:
            return handle == self.before.old
        return handle == int(self.handle)

    def handles(self) -> list[int]:
        """The files that are left to it when the log is closed."""
        if self.before is None:
            return [int(self.handle)]
        return [handle for handle in (self.before.old, self.before.fresh) if handle >= 0]
