"""A group: the records of one synced write."""

from mypy_extensions import i64
from xxhash import xxh3_64

from jetspark.store.files import Files
from jetspark.store.format.record import headers_in, record_lengths
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.subject_table import SubjectEntry


class Parts:
    """The bytes of a group in parts, some of which are large messages as they came.

    A copy of megabytes takes milliseconds, in which the loop would do nothing else. So the parts
    are put together and digested where the group is written; both let the interpreter go on.
    """

    def __init__(self, seed: int) -> None:
        self._seed: int = seed
        self.size: i64 = 0
        self._parts: list[bytes] = []
        # The large records among them: where the head of each is, and where its digest is, with
        # what is digested in between.
        self._large: list[tuple[int, int]] = []

    def add(self, records: bytes) -> None:
        """Add whole records."""
        self._parts.append(records)
        self.size += len(records)

    def add_large(self, head: bytes, tails: list[bytes]) -> None:
        """Add one record; ``head`` is what stands before its tail (``Codec.encode_head``).

        The first one of ``tails`` begins with all headers.
        """
        first = len(self._parts)
        self._parts.append(head)
        self._parts.extend(tails)
        self._large.append((first, len(self._parts)))
        self._parts.append(b"")
        self.size += len(head) + 8
        for tail in tails:
            self.size += len(tail)

    def records(self) -> list[bytes]:
        """All records, the large ones up to the end of their headers."""
        found: list[bytes] = []
        at = 0
        for first, last in self._large:
            found.extend(self._parts[at:first])
            head = self._parts[first]
            found.append(head + self._parts[first + 1][: headers_in(record_lengths(head, 0))])
            at = last + 1
        found.extend(self._parts[at:])
        return found

    def put_together(self) -> bytes:
        """The bytes of the group."""
        for first, last in self._large:
            digest = xxh3_64(self._parts[first][8:], self._seed)
            for tail in self._parts[first + 1 : last]:
                digest.update(tail)
            self._parts[last] = digest.digest()
        return b"".join(self._parts)


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
        parts: Parts | None = None,
    ) -> None:
        # What has to be done first, where the group is written; it may give it its handle.
        self.before: Preparation | None = before
        # Whether what a full disk took of it was cut off, or that was tried at least.
        self.cut: bool = False
        self.cut_tried: bool = False
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        # What the blob is made of where it is not made yet.
        self.parts: Parts | None = parts
        self.size: i64 = len(blob) if parts is None else parts.size
        # Written after the blob, in the same write (segment.py).
        self.filler: bytes = filler
        # Whether it is on the disk when its write returns (``durability.py``).
        self.synced: bool = synced
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position

    def assemble(self) -> None:
        """Put the blob together if that was left to who writes it."""
        parts = self.parts
        if parts is not None:
            self.blob = parts.put_together()
            self.parts = None

    def records(self) -> list[bytes]:
        """All records; of large ones perhaps only what stands before their body."""
        parts = self.parts
        return [self.blob] if parts is None else parts.records()

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
