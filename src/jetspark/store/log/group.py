"""A group: the records of one synced write."""

from mypy_extensions import i64
from xxhash import xxh3_64

from jetspark.store.files import Files
from jetspark.store.format.record import headers_in, record_lengths
from jetspark.store.format.segment import refill
from jetspark.store.journal.segment import JournaledSegment
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.subject_table import SubjectEntry


class Parts:
    """The bytes of a group in parts, some of which are large messages as received.

    Copying megabytes takes milliseconds, in which the loop would do nothing else. So the parts are
    joined and hashed where the group is written; both release the interpreter lock.
    """

    def __init__(self, seed: int) -> None:
        self._seed: int = seed
        self.size: i64 = 0
        self._parts: list[bytes] = []
        # The large records among them: the positions of the head and of the digest of each, with
        # the bytes to hash in between.
        self._large: list[tuple[int, int]] = []

    def add(self, records: bytes) -> None:
        """Add whole records."""
        self._parts.append(records)
        self.size += len(records)

    def add_large(self, head: bytes, tails: list[bytes]) -> None:
        """Add one record; ``head`` is everything before its tail (``Codec.encode_head``).

        The first one of ``tails`` starts with all headers.
        """
        first = len(self._parts)
        self._parts.append(head)
        self._parts.extend(tails)
        self._large.append((first, len(self._parts)))
        self._parts.append(b"")
        self.size += len(head) + 8
        for tail in tails:
            self.size += len(tail)

    def mark(self) -> tuple[int, int, int]:
        """Return what there is, for ``cut``."""
        return len(self._parts), len(self._large), int(self.size)

    def cut(self, mark: tuple[int, int, int]) -> None:
        """Drop everything that was added after a mark."""
        parts, large, size = mark
        del self._parts[parts:]
        del self._large[large:]
        self.size = size

    def records(self) -> list[bytes]:
        """Return all records, the large ones up to the end of their headers."""
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
        """Return the bytes of the group."""
        for first, last in self._large:
            digest = xxh3_64(self._parts[first][8:], self._seed)
            for tail in self._parts[first + 1 : last]:
                digest.update(tail)
            self._parts[last] = digest.digest()
        return b"".join(self._parts)


class Group:
    """The records of one synced write, in flight."""

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
        last_seq: i64 = 0,
    ) -> None:
        # What must be done first, where the group is written; it may set the handle.
        self.before: Preparation | None = before
        # Whether a partial write to a full disk was truncated, or that was at least tried.
        self.cut: bool = False
        self.cut_tried: bool = False
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        # The parts of a blob that is not assembled yet.
        self.parts: Parts | None = parts
        self.size: i64 = len(blob) if parts is None else parts.size
        # Written after the blob, in the same write (segment.py).
        self.filler: bytes = filler
        # Whether it is on disk when its write returns (``durability.py``).
        self.synced: bool = synced
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position
        # The segment as the journal knows it; None: the journal has nothing of it. Set even if
        # this group is not for the journal: a failed sync concerns the groups before it.
        self.segment: JournaledSegment | None = None
        # Whether the journal may have it; else it must be written to its segment with a sync.
        self.may_share: bool = False
        # The last sequence that was assigned with it.
        self.last_seq: i64 = last_seq
        # Whether it is on disk in the journal; its segment may not be synced yet.
        self.shared: bool = False
        # The end of the filler of a young stream; 0: it has manifests.
        self.refilled_to: i64 = 0
        # It is on disk, and is being applied: how many bytes and messages of it were.
        self.landed: bool = False
        # What its purges cost, in units of a turn.
        self.removal_units: i64 = 0
        self.applied: i64 = 0
        self.applied_messages: i64 = 0

    def note_removals(self, units: i64) -> None:
        """Note what its purges cost when they are applied."""
        self.removal_units = units

    def begin_applying(self) -> None:
        """Note that it is on disk, and that its records are applied from now on."""
        self.landed = True

    def apply_to(self, offset: i64, messages: i64) -> None:
        """Note that its records before an offset were applied, so many messages among them."""
        self.applied = offset
        self.applied_messages = messages

    def keep_filler(self, end: i64) -> None:
        """Restore filler up to there if the write fails: the stream has no manifests yet.

        A group that does not fit there is written only once it has them.
        """
        self.refilled_to = end

    def offer(self, segment: JournaledSegment | None) -> None:
        """Let the journal have it; None: the store has no journal."""
        self.segment = segment
        self.may_share = segment is not None

    def keep_order(self, segment: JournaledSegment | None) -> None:
        """Write it to its segment, of which the journal may have earlier groups."""
        self.segment = segment

    def share(self, shared: bool) -> None:
        """Set whether the journal makes it durable; then it needs no filler."""
        self.shared = shared
        if shared:
            self.filler = b""

    def assemble(self) -> None:
        """Assemble the blob if that was left to the writer."""
        parts = self.parts
        if parts is not None:
            self.blob = parts.put_together()
            self.parts = None

    def records(self) -> list[bytes]:
        """Return all records; of large ones perhaps only the part before the body."""
        parts = self.parts
        return [self.blob] if parts is None else parts.records()

    def prepare(self) -> None:
        """Do what must be done before the write; raises OSError."""
        if self.before is not None:
            self.handle = self.before.do()

    def truncate(self, files: Files) -> None:
        """Truncate a partial write to a full disk: a later start must not read it as a record."""
        self.cut_tried = True
        if self.handle >= 0:
            try:
                if self.segment is None:
                    self._restore(files)
                else:
                    with self.segment:
                        self._restore(files)
            except OSError:
                return
        self.cut = True

    def _restore(self, files: Files) -> None:
        """Truncate the file to what it was before the write, or fill it again."""
        if self.offset + self.size < self.refilled_to:
            refill(files, int(self.handle), int(self.offset), int(self.refilled_to))
        elif self.refilled_to == 0 or (self.before and self.before.has_manifests):
            files.truncate(int(self.handle), int(self.offset))

    def without_filler(self) -> None:
        """Write it again without filler: what did not fit with filler may fit without."""
        self.filler = b""
        self.cut = False
        self.cut_tried = False

    def needs(self, handle: int) -> bool:
        """Return whether the group must be written before a file may be closed."""
        if self.before is not None:
            return handle == self.before.old
        return handle == int(self.handle)

    def handles(self) -> list[int]:
        """Return the files that it must close if the log is closed first."""
        if self.before is None:
            return [int(self.handle)]
        return [handle for handle in (self.before.old, self.before.fresh) if handle >= 0]
