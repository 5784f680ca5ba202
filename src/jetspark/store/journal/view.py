"""What a start finds in the journal: the groups of each stream, and what is damaged."""

from collections.abc import Iterable
from typing import Final

from jetspark.store.files import Files
from jetspark.store.journal.format import Entry, Frame, Place

# Groups are joined up to this size before they are written.
RUN_MAX: Final = 1024 * 1024


class StreamGroups:
    """The groups of one stream that the journal has, oldest first."""

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.entries: list[Entry] = []
        # The last sequence of groups that were acknowledged and whose bytes are damaged here. If
        # the segment does not have them either, they are lost.
        self.damaged_seq: int = 0

    def add(self, entry: Entry) -> None:
        """Add a group of an acknowledged frame, or of the last one."""
        if entry.place.stream_id != self.stream_id:
            raise ValueError(f"a group of stream {entry.place.stream_id:016x} is another's")
        if not entry.data:
            self.damaged_seq = max(self.damaged_seq, entry.last_seq)
        else:
            self.entries.append(entry)

    def segments(self) -> dict[tuple[int, int], int]:
        """Return the last sequence of each segment, by its first sequence and first position."""
        return {
            (entry.place.first_seq, entry.place.first_position): entry.last_seq
            for entry in self.entries
        }

    def copies(self) -> "list[Found]":
        """Return the groups, to be written to another file.

        A group without bytes says up to which sequence others are damaged.
        """
        found = [Found(entry.place, entry.last_seq, entry.data or b"") for entry in self.entries]
        if self.damaged_seq:
            found.append(Found(Place(self.stream_id, 0, 0, 0, 0), self.damaged_seq, b""))
        return found

    def write_to(
        self, files: Files, handle: int, name: tuple[int, int] | None, generation: int
    ) -> int:
        """Write the groups of a segment to it, without a sync; return how many bytes. OSError.

        ``name``: the first sequence and the first position of the segment, its name.
        They are written even if the file has the same bytes: what a process sees after a failed
        sync may not be on disk.
        """
        begin = end = 0
        run: list[bytes] = []
        total = 0
        for entry in self.entries:
            place = entry.place
            if (place.first_seq, place.first_position) != name:
                continue
            if place.generation != generation or not entry.data:
                continue
            if run and (place.offset != end or end - begin >= RUN_MAX):
                files.write(handle, [b"".join(run)], begin)
                run = []
            if not run:
                begin = end = place.offset
            run.append(entry.data)
            end += entry.length
            total += entry.length
        if run:
            files.write(handle, [b"".join(run)], begin)
        return total


class JournalView:
    """The groups in the journal by stream, and what was wrong with the journal."""

    def __init__(self) -> None:
        self.streams: dict[int, StreamGroups] = {}
        # The files, in the order of their frames.
        self.files: list[str] = []
        # Folders with the name of a file, which something else has made.
        self.folders: set[str] = set()
        # Sentences about damage of the journal itself.
        self.notes: list[str] = []

    def add(self, frames: Iterable[Frame]) -> None:
        """Add frames that were acknowledged, oldest first; the last one perhaps was not."""
        for frame in frames:
            for entry in frame.entries:
                found = self.streams.get(entry.place.stream_id)
                if found is None:
                    found = StreamGroups(entry.place.stream_id)
                    self.streams[entry.place.stream_id] = found
                found.add(entry)

    def add_kept(self, groups: StreamGroups) -> None:
        """Add the groups of a stream that has a file of its own in the journal."""
        self.streams[groups.stream_id] = groups

    def add_file(self, name: str) -> None:
        """Add a file with frames; those of the files before it are older."""
        self.files.append(name)

    def add_folder(self, name: str) -> None:
        """Add a folder with the name of a file."""
        self.folders.add(name)

    def note(self, note: str) -> None:
        """Add a sentence about damage of the journal."""
        self.notes.append(note)

    def of(self, stream_id: int) -> StreamGroups:
        """Return the groups of a stream."""
        return self.streams.get(stream_id) or StreamGroups(stream_id)


class Found:
    """A group as ``encode_frame`` takes it, to be written to another file."""

    def __init__(self, place: Place, last_seq: int, blob: bytes) -> None:
        self.segment: Place = place
        self.offset: int = place.offset
        self.blob: bytes = blob
        self.last_seq: int = last_seq
