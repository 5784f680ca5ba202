"""A large record that is read and verified in the background: both take milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xxhash import xxh3_64

from jetspark.store.format.compression import unpacked
from jetspark.store.format.record import COMPRESSED, record_flags, record_sequence, record_time

if TYPE_CHECKING:
    from jetspark.store.log.reader import LogReader

LONG_READ: Final = 2 * 1024 * 1024
"""A record of this length is not read in a turn of the loop."""
READ_TRIES: Final = 3
"""How often the bytes of one record are read if the disk fails."""
PIECE: Final = 256 * 1024
"""So much is read at a time if only the time of a message is asked for."""
WRONG_CHECKSUM: Final = "has a wrong checksum"
OTHER_SEQUENCE: Final = "is the record of another sequence"
NOT_UNPACKED: Final = "does not decompress to its length"


class LongRead(Exception):
    """Raised for a record that takes too long to read here: ``run`` does it, in any thread.

    Then ``finish`` lets its reader decide what the result is worth, because the file may have
    been closed or replaced meanwhile, and the reader that waited asks for the message again.
    """

    def __init__(
        self, reader: LogReader, handle: int, offset: int, length: int, seq: int, where: int
    ) -> None:
        super().__init__(f"the record of sequence {seq} has {length} bytes")
        self._reader = reader
        self._files = reader.files
        self._codec = reader.codec
        self.handle: Final = handle
        self.offset: Final = offset
        self.length: Final = length
        self.seq: Final = seq
        # Its place in the log: a rewritten record has another one.
        self.where: Final = where
        # The same for all that wait for the same bytes.
        self.key: Final = (id(reader), where)
        # What was found: the record, uncompressed and verified; why the disk failed to read it; or
        # what is wrong with it.
        self.data: bytes = b""
        self.refused: str = ""
        self.damage: str = ""

    def run(self) -> None:
        """Read the record and verify it; a wrong one is read twice: one bad read is not proof."""
        self.refused = ""
        failed = 0
        while failed < READ_TRIES:
            try:
                data = self._files.read(self.handle, self.offset, self.length)
            except OSError as error:
                failed += 1
                self.refused = error.strerror or str(error)
                continue
            self.refused = ""
            before, self.damage = self.damage, self._problem(data)
            if not self.damage:
                self.data = self._plain(data)
                self.damage = "" if self.data else NOT_UNPACKED
                return
            if before:
                return

    def stored_at(self) -> int:
        """Return when the message was stored; -1 if that cannot be verified.

        It is read in small pieces, which takes a third of the time: no memory is new.
        """
        files, handle, end = self._files, self.handle, self.offset + self.length - 8
        try:
            head = files.read(handle, self.offset, 40)
            if len(head) < 40 or self._codec.framed_length(head, 0) != self.length:
                return -1
            digest = xxh3_64(head[8:], self._codec.seed)
            for at in range(self.offset + 40, end, PIECE):
                digest.update(files.read(handle, at, min(PIECE, end - at)))
            is_right = digest.digest() == files.read(handle, end, 8)
        except OSError:
            return -1
        return (
            int(record_time(head, 0)) if is_right and record_sequence(head, 0) == self.seq else -1
        )

    def finish(self, error: OSError | None) -> None:
        """Let the reader have what was found; on the loop."""
        if error is not None:
            self.data = b""
            self.refused = error.strerror or str(error)
        self._reader.accept(self)

    def _problem(self, data: bytes) -> str:
        """Return what is wrong with the bytes that were read."""
        length = self.length
        if len(data) != length or self._codec.framed_length(data, 0) != length:
            return WRONG_CHECKSUM
        # Unlike the digest in one call, this releases the interpreter lock.
        digest = xxh3_64(data[8:40], self._codec.seed)
        digest.update(memoryview(data)[40 : length - 8])
        if digest.digest() != data[length - 8 :]:
            return WRONG_CHECKSUM
        return "" if record_sequence(data, 0) == self.seq else OTHER_SEQUENCE

    def _plain(self, data: bytes) -> bytes:
        return unpacked(data, 0) if record_flags(data, 0) & COMPRESSED else data
