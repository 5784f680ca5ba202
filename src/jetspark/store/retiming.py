"""Sets back the times of a stream that are ahead of the clock, for `jetspark doctor clock`.

A server never writes a message with an earlier time than the one before it. If its clock was wrong
by years, or such a backup was restored, the stream stays ahead for as long. This changes the times
in its files: those ahead of the clock are moved back by the same amount, so that the newest
message has the time ``now`` and the others keep their distance from it, as far as the messages
before them allow. Nothing else in a record changes, not even its length.

Files are replaced whole, oldest first: an interruption leaves times that never decrease, and
running it again does the rest.
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
    """The times of one stream that is not open. Raises OSError."""

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
        """Return the latest time in the files; 0 if there is none."""
        return max((self._newest_in(name) for name in self._names), default=0)

    def _newest_in(self, name: str) -> int:
        data = self._files.read_file(self._folder / name)
        head = read_head(data)
        newest = head[0].last_time if head else 0
        for at, _ in self._records(data, head[1] if head else 0):
            newest = max(newest, int(record_time(data, at)))
        return newest

    def set_back(self, now: int) -> int:
        """Set all times later than ``now`` back; return how many records were changed."""
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
        """Change one file; return how many records changed, and the last time in it."""
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
                # Messages have their own times; other records have that of the message before
                # them.
                time = max(time - shift, last + 1 if record_sequence(data, at) else last)
                self._set_time(content, at, length, time)
                changed += 1
            last = max(last, time)
        if changed or head_changed:
            # The index file has the old times: it is removed first, and created again later.
            try:
                self._files.remove(self._folder / (name + INDEX_SUFFIX))
            except FileNotFoundError:
                self._files.sync_folder(self._folder)
            self._files.replace(path, bytes(content))
        return changed, last

    def _records(self, data: bytes, at: int) -> list[tuple[int, int]]:
        """Return offsets and lengths of the valid records; damaged bytes stay as they are."""
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
    """Return a head with another time and the same length: records are found by offset."""
    document = msgspec.json.encode(msgspec.structs.replace(head, last_time=last_time))
    return frame(SEGMENT_MAGIC, document.ljust(length - len(frame(SEGMENT_MAGIC, b""))))
