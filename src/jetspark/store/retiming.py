"""Times of a stream that are ahead of the clock are set back, for `jetspark doctor clock`.

A server never writes a message with an earlier time than the one before it. When its clock was
wrong by years, or somebody restored such a backup, the stream stays ahead for as long. Here the
times in its files are changed: those ahead of the clock are moved back by one and the same amount,
so that the newest message is as old as ``now`` and the others keep their distance from it, as far
as there is room after the messages before. Nothing else of a record changes, its length neither.

Files are replaced whole, oldest first: an end in between leaves times that never decrease, and
doing it again does the rest.
"""

from pathlib import Path
from typing import Final

import msgspec
from librt.strings import BytesWriter, write_i64_le
from xxhash import xxh3_64_digest

from jetspark.store.files import Files
from jetspark.store.format.index_file import SUFFIX as INDEX_SUFFIX
from jetspark.store.format.manifest import frame
from jetspark.store.format.record import Codec, record_sequence, record_time
from jetspark.store.format.segment import (
    SEGMENT_MAGIC,
    SUFFIX,
    SegmentHead,
    parse_segment_name,
    read_head,
)

_MAGIC: Final = b"JSR1"
_TIME: Final = 16
_CHECK: Final = 8


class Retiming:
    """The times of one stream that nobody has open. Raises OSError."""

    def __init__(self, files: Files, folder: Path, stream_id: int) -> None:
        self._files = files
        self._folder = folder
        self._codec = Codec(stream_id)
        self._names = [
            name
            for name in files.list_folder(folder)
            if name.endswith(SUFFIX) and parse_segment_name(name) is not None
        ]

    def newest(self) -> int:
        """The latest time in the files; 0 when there is none."""
        return max((self._newest_in(name) for name in self._names), default=0)

    def _newest_in(self, name: str) -> int:
        data = self._files.read_file(self._folder / name)
        head = read_head(data)
        newest = head[0].last_time if head else 0
        for at, _ in self._records(data, head[1] if head else 0):
            newest = max(newest, int(record_time(data, at)))
        return newest

    def set_back(self, now: int) -> int:
        """Let no time be later than ``now``; how many records were changed."""
        shift = self.newest() - now
        if shift <= 0:
            return 0
        changed = 0
        last = 0
        for name in self._names:
            count, last = self._rewrite(name, now, shift, last)
            changed += count
        return changed

    def _rewrite(self, name: str, now: int, shift: int, last: int) -> tuple[int, int]:
        """Change one file; how many records that were, and the last time in it."""
        path = self._folder / name
        data = self._files.read_file(path)
        head = read_head(data)
        begin = head[1] if head else 0
        content = bytearray(data)
        head_changed = head is not None and head[0].last_time > now
        if head is not None and head_changed:
            content[:begin] = _with_time(head[0], max(last, head[0].last_time - shift), begin)
        changed = 0
        for at, length in self._records(data, begin):
            time = int(record_time(data, at))
            if time > now:
                # Messages have times of their own; what stands between them has that before it.
                time = max(time - shift, last + 1 if record_sequence(data, at) else last)
                self._set_time(content, at, length, time)
                changed += 1
            last = max(last, time)
        if changed or head_changed:
            # What was made from the file says the old times: it goes first, and is made again.
            try:
                self._files.remove(self._folder / (name + INDEX_SUFFIX))
            except FileNotFoundError:
                self._files.sync_folder(self._folder)
            self._files.replace(path, bytes(content))
        return changed, last

    def _records(self, data: bytes, at: int) -> list[tuple[int, int]]:
        """Where the good records of a file are, and how long; damaged bytes stay as they are."""
        found: list[tuple[int, int]] = []
        while at >= 0:
            length = int(self._codec.examine(data, at))
            if length > 0:
                found.append((at, length))
                at += length
            else:
                at = data.find(_MAGIC, at + 1)
        return found

    def _set_time(self, content: bytearray, at: int, length: int, time: int) -> None:
        writer = BytesWriter()
        write_i64_le(writer, time)
        content[at + _TIME : at + _TIME + 8] = writer.getvalue()
        end = at + length - _CHECK
        content[end : end + _CHECK] = xxh3_64_digest(
            bytes(content[at + 8 : end]), self._codec.seed
        )


def _with_time(head: SegmentHead, last_time: int, length: int) -> bytes:
    """A head with another time and of the same length: records are found by their offsets."""
    document = msgspec.json.encode(msgspec.structs.replace(head, last_time=last_time))
    return frame(SEGMENT_MAGIC, document.ljust(length - len(frame(SEGMENT_MAGIC, b""))))
