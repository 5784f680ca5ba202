"""Which files in a stream's folder belong to it, and where in the stream.

A folder that was copied, restored from a backup or repaired by hand may contain a segment or a
manifest of another stream, or two segments with exchanged names. Heads identify each file. A file
of another stream is renamed and reported; nothing in it is used. Segments with exchanged names are
renamed back.
"""

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity, read_manifests
from jetspark.store.format.segment import (
    SegmentHead,
    identity_of,
    parse_segment_name,
    segment_name,
)
from jetspark.store.log.segment_files import head_of
from jetspark.store.recovery.findings import Recovery

ASIDE: Final = ".foreign"
MOVED: Final = ".moved"

FOLDER: Final = re.compile(r"(?:stream|new|dropped)-([0-9a-f]{16})")


def identity_in(files: Files, folder: Path) -> Identity | None:
    """Return whose folder it is, as far as known; raises OSError or WrongStoreFormat."""
    own = OwnFiles(files, folder, files.list_folder(folder))
    own.close()
    manifest, _ = read_manifests(files, folder, own.stream_id)
    return manifest.identity if manifest else own.identity()


class OwnFiles:
    """The segments of one stream, identified by their heads.

    The newest one stays open until `close`, or until its handle is taken: opening it again would
    take a tenth of opening a small stream.
    """

    def __init__(self, files: Files, folder: Path, names: list[str]) -> None:
        self._files = files
        self._folder = folder
        self._heads: dict[str, tuple[SegmentHead, Identity] | None] = {}
        # The handle of the segment that stays open, -1: none, and its name.
        self._open = -1
        self._open_name = ""
        try:
            for name in names:
                if parse_segment_name(name) or name.endswith(MOVED):
                    self._heads[name] = self._head(name)
            self.stream_id: int = self._expected_id()
        except BaseException:
            self.close()
            raise

    def are_large(self, length: int) -> bool:
        """Return whether a segment may be longer than that; only the newest one is looked at.

        The others of a stream are full.
        """
        if len(self._heads) > 1 or self._open < 0:
            return True
        with suppress(OSError):
            return self._files.size(self._open) > length
        return True

    def take_handle(self, name: str) -> int:
        """Return the handle of a segment if it is open, which the caller closes; else -1."""
        if name != self._open_name:
            return -1
        handle, self._open, self._open_name = self._open, -1, ""
        return handle

    def close(self) -> None:
        """Close the segment that stays open, unless its handle was taken."""
        handle, self._open, self._open_name = self._open, -1, ""
        if handle >= 0:
            self._files.close(handle)

    def _head(self, name: str) -> tuple[SegmentHead, Identity] | None:
        """Read the head of a segment, twice if necessary: it may be all that identifies it."""
        for _ in range(2):
            with suppress(OSError):
                self.close()
                handle = self._files.open(self._folder / name)
                self._open, self._open_name = handle, name
                head = head_of(self._files, handle)
                return (head[0], identity_of(head[0])) if head is not None else None
        return None

    def _expected_id(self) -> int:
        """Return the id in the folder's name, if a file in it has the same; 0: unknown."""
        ids = [head[1].stream_id for head in self._heads.values() if head is not None]
        known = FOLDER.fullmatch(self._folder.name)
        if known is not None:
            named = int(known[1], 16)
            # Manifests are read only if no head decides: a start has many streams to open.
            if named in ids or read_manifests(self._files, self._folder, named)[0] is not None:
                return named
        manifest, _ = read_manifests(self._files, self._folder)
        if manifest is not None:
            return manifest.identity.stream_id
        return Counter(ids).most_common(1)[0][0] if ids else 0

    def identity(self) -> Identity | None:
        """Return the identity in the newest segment with a head."""
        for _, head in sorted(self._heads.items(), reverse=True):
            if head is not None and head[1].stream_id == self.stream_id:
                return head[1]
        return None

    def segments(self, recovery: Recovery) -> list[str]:
        """Return the names of the stream's segments, in order; rename and report others."""
        own = []
        moved: list[tuple[str, str]] = []
        for name, head in self._heads.items():
            if head is not None and head[1].stream_id != self.stream_id:
                self._set_aside(name, head[1], recovery)
            elif head is not None and self._true_name(head[0]) != name:
                moved.append((name, self._true_name(head[0])))
            elif parse_segment_name(name):
                own.append(name)
        if self._open_name not in own:
            # What is renamed is opened by its new name.
            self.close()
        if moved:
            own += self._move_back(moved, own, recovery)
        return sorted(own)

    def begins(self, segments: list[str]) -> list[tuple[int, str]]:
        """Return where the sequences of the segments start that have a valid head, in order.

        Without the segments that a rewritten one replaced, which are about to be removed. A
        segment without a valid head may have any name.
        """
        found = []
        through = 0
        for name in segments:
            head = self._heads.get(name)
            if head is None or self._true_name(head[0]) != name:
                continue
            if head[0].first_position >= through:
                found.append((head[0].first_seq, name))
            through = max(through, head[0].through)
        return found

    def _true_name(self, head: SegmentHead) -> str:
        return segment_name(head.first_seq, head.first_position)

    def _set_aside(self, name: str, identity: Identity, recovery: Recovery) -> None:
        recovery.note(
            f"{name} is a segment of stream {identity.name!r} (id {identity.stream_id:016x}): "
            f"it is not used; kept as {name}{ASIDE}"
        )
        self._rename_aside(name, "the folder contains a file of another stream", recovery)

    def _rename_aside(self, name: str, reason: str, recovery: Recovery) -> None:
        size = 0
        with suppress(OSError):  # it is left out anyway
            handle = self._files.open(self._folder / name)
            size = self._files.size(handle)
            self._files.close(handle)
            self._files.rename(self._folder / name, self._folder / (name + ASIDE))
        recovery.find_foreign(name + ASIDE, size, reason)

    def _move_back(
        self, moved: list[tuple[str, str]], own: list[str], recovery: Recovery
    ) -> list[str]:
        """Rename segments back; through a temporary name, as two may be exchanged."""
        found = []
        wanted: set[str] = set()
        for name, true in moved:
            if true in own or true in wanted:
                # A copy of a segment that exists: the one with the correct name is served.
                recovery.note(f"{name} is a copy of {true}: it is not used")
                self._rename_aside(name, "the folder contains a copy of a segment", recovery)
                continue
            wanted.add(true)
            if not name.endswith(MOVED):
                self._files.rename(self._folder / name, self._folder / (true + MOVED))
            recovery.note(f"{name} was the segment {true}: it was renamed back")
            found.append(true)
        for true in found:
            self._files.rename(self._folder / (true + MOVED), self._folder / true)
        return found
